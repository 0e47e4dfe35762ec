package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/agentloop/agentloop/pkg/provider"
)

// errSecondRequest is returned when something below a call, such as an SDK's retry, tries to send again.
var errSecondRequest = errors.New("a call makes one request only")

// call is one model call on its way through the transport. It travels in the request's context, is used by the one
// goroutine that runs the call, and keeps what the transport saw.
type call struct {
	guard func([]byte) error
	hook  func([]byte) ([]byte, error)
	// document says that one JSON document is the answer to wait for, instead of an event stream.
	document bool

	used       bool
	dispatched bool
	status     int
	header     http.Header
}

type callKey struct{}

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// refusal is a request that was stopped before the network.
type refusal struct{ err error }

func (r *refusal) Error() string { return "request refused before dispatch: " + r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// check runs the caller's hook and the guard over the body and returns the bytes to send. The context is looked at
// before, between and after, since hook and guard may take their time.
func (c *call) check(ctx context.Context, body []byte) ([]byte, error) {
	if c == nil || c.guard == nil {
		return nil, &refusal{provider.ErrNoGuard}
	}
	if c.used {
		return nil, &refusal{errSecondRequest}
	}
	c.used = true
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.hook != nil {
		replaced, err := c.hook(body)
		if err != nil {
			return nil, &refusal{fmt.Errorf("caller hook: %w", err)}
		}
		body = replaced
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if err := c.guard(body); err != nil {
		return nil, &refusal{err}
	}
	return body, ctx.Err()
}
