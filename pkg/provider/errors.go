package provider

import (
	"errors"
	"fmt"
	"time"

	"github.com/agentloop/agentloop/pkg/message"
)

// Class is the kind of a provider failure: what the loop does next depends on it and on nothing else.
type Class string

// The error classes. Only rateLimited, overloaded, transient and truncated are retried with the same request.
const (
	ClassOverflow       Class = "overflow"
	ClassRateLimited    Class = "rateLimited"
	ClassQuota          Class = "quota"
	ClassOverloaded     Class = "overloaded"
	ClassAuth           Class = "auth"
	ClassInvalidRequest Class = "invalidRequest"
	ClassTransient      Class = "transient"
	ClassTruncated      Class = "truncated"
	ClassRefused        Class = "refused"
	ClassCancelled      Class = "cancelled"
	// ClassRejected is a request that the guard or a caller hook refused; it never left the process.
	ClassRejected Class = "rejected"
)

// Retryable says whether the same request may be sent again later.
func (c Class) Retryable() bool {
	return c == ClassRateLimited || c == ClassOverloaded || c == ClassTransient || c == ClassTruncated
}

// ErrNoGuard is returned when a request has no Guard: nothing is sent unguarded.
var ErrNoGuard = errors.New("the request has no guard")

// Error is a failed model call.
type Error struct {
	Class Class
	// Dispatched says that the request was handed to the network; false means that no byte of it left the process.
	Dispatched bool
	// HTTPStatus is 0 when no response arrived.
	HTTPStatus int
	// RetryAfter is how long the provider asks to wait; 0 when it does not say.
	RetryAfter time.Duration
	// Type and Code are the provider's own machine words (for example "rate_limit_error"), bounded and safe to show.
	Type, Code string
	// Detail is up to 64 KiB of the provider's error body. It may hold content: it goes to the object store, never to
	// status or logs.
	Detail []byte
	// Usage is what the provider reported before or with the failure; nil when it reported nothing.
	Usage *message.Usage
	// Partial is what had arrived, with stop reason error or aborted; nil when nothing had.
	Partial    *message.Message
	ResponseID string
	// Err is the cause.
	Err error
}

// Error names the class, status and machine words only.
func (e *Error) Error() string {
	text := "model request failed: " + string(e.Class)
	if e.HTTPStatus != 0 {
		text += fmt.Sprintf(" (HTTP %d)", e.HTTPStatus)
	}
	for _, word := range []string{e.Type, e.Code} {
		if word != "" {
			text += " " + word
		}
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
