package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// failure is why an attempt gave no result, in the words that the model gets.
type failure struct {
	outcome string
	text    string
	// resend, when not empty, is why the call may be sent again: it was not run, or running it twice is harmless.
	resend string
	// lost says that the session must not be used again.
	lost      bool
	status    int
	truncated *truncated
}

const (
	notRun  = "The call was not run."
	unknown = "Its effect is unknown: check before you call it again."
	repeat  = "It may be called again."
)

// effect says what a lost call may have done.
func (c *invocation) effect() string {
	if c.entry.definition.ReadOnly || c.entry.definition.Repeatable() {
		return repeat
	}
	return unknown
}

// unopened is the failure of a call without a session.
func (c *invocation) unopened(ctx context.Context, err error) *failure {
	var failed *connectError
	switch {
	case errors.Is(err, errClosed), errors.Is(context.Cause(ctx), errClosed):
		return &failure{outcome: outcomeTransport, text: "The run is ending. " + notRun}
	case ctx.Err() == nil && errors.As(err, &failed):
		_, text, _ := c.server.explain(failed)
		return &failure{outcome: outcomeTransport, text: fmt.Sprintf("The tool server %q %s. %s", c.server.cfg.Name, text, notRun), status: failed.seen.status}
	}
	return &failure{outcome: outcomeTimeout, text: fmt.Sprintf("The tool server %q could not be connected to within %s. %s", c.server.cfg.Name, c.server.cfg.CallTimeout, notRun)}
}

// judge finds out what became of a call that gave no result.
func (c *invocation) judge(ctx context.Context, seen facts) *failure {
	name := c.server.cfg.Name
	var redirect *redirectError
	var media *mediaError
	switch {
	case seen.tooLarge:
		limit := c.server.cfg.maxResponse(c.server.opts)
		return &failure{
			outcome: outcomeProtocol, status: seen.status, truncated: &truncated{Bytes: seen.read, Limit: limit},
			text: fmt.Sprintf("The tool's answer is larger than %d bytes and was not kept. Ask for less, or for a part. %s", limit, c.effectOfAnswered()),
		}
	case errors.Is(context.Cause(ctx), errClosed):
		return &failure{outcome: outcomeTransport, text: "The run is ending and the call was cancelled. " + c.effect()}
	case ctx.Err() != nil:
		return c.late(seen)
	case errors.Is(seen.fault, ErrAddressRefused):
		return &failure{outcome: outcomeTransport, lost: true, text: fmt.Sprintf("The tool server %q has an address that may not be used. %s Calling again will not help.", name, notRun)}
	case errors.As(seen.fault, &redirect):
		return &failure{outcome: outcomeTransport, status: redirect.status, text: fmt.Sprintf("The tool server %q answered with a redirect, which is not followed. %s Calling again will not help.", name, notRun)}
	case seen.status >= 400:
		return c.refused(seen)
	case errors.As(seen.fault, &media):
		return &failure{outcome: outcomeProtocol, status: seen.status, text: fmt.Sprintf("The tool server %q answered with %s instead of a result. %s", name, media.media, c.effect())}
	case !seen.sent:
		return c.unsent(seen)
	}
	if seen.result() != nil {
		return &failure{outcome: outcomeProtocol, status: seen.status, text: fmt.Sprintf("The tool server %q answered with a result that cannot be read. %s", name, c.effectOfAnswered())}
	}
	if rpc := seen.rpcError(); rpc != nil {
		return &failure{outcome: outcomeProtocol, status: seen.status, text: fmt.Sprintf("The tool server %q reports an error: %s", name, rpc)}
	}
	return c.broken(seen)
}

// effectOfAnswered is the effect of a call whose answer began to arrive.
func (c *invocation) effectOfAnswered() string {
	if c.effect() == repeat {
		return repeat
	}
	return "The tool has probably done its work: check before you call it again."
}

// late is the failure of a call whose time is over.
func (c *invocation) late(seen facts) *failure {
	effect := c.effect()
	if !seen.sent {
		effect = notRun
	}
	return &failure{
		outcome: outcomeTimeout, status: seen.status,
		text: fmt.Sprintf("The tool did not answer within %s and the call was cancelled. %s", c.server.cfg.CallTimeout, effect),
	}
}

// unsent is the failure of a call that nobody can have seen: the connection was not made, or the session was already
// broken. Sending it again is no repetition.
func (c *invocation) unsent(seen facts) *failure {
	reason := "the session had ended"
	if seen.fault != nil {
		reason, _ = network(seen.fault)
	}
	return &failure{
		outcome: outcomeTransport, lost: true, resend: "not sent: " + reason,
		text: fmt.Sprintf("The tool server %q cannot be reached: %s. %s", c.server.cfg.Name, reason, notRun),
	}
}

// broken is the failure of a call whose connection ended without an answer.
func (c *invocation) broken(seen facts) *failure {
	reason := "the answer ended early"
	if seen.fault != nil {
		reason, _ = network(seen.fault)
	}
	f := &failure{
		outcome: outcomeTransport, lost: true, status: seen.status,
		text: fmt.Sprintf("The connection to the tool server %q broke during the call: %s. %s", c.server.cfg.Name, reason, c.effect()),
	}
	if c.entry.definition.Repeatable() {
		f.resend = "connection lost: " + reason
	}
	return f
}

// refused is the failure of a call that was answered with an HTTP error.
func (c *invocation) refused(seen facts) *failure {
	name, status := c.server.cfg.Name, seen.status
	f := &failure{outcome: outcomeTransport, status: status}
	rpc := seen.rpcError()
	said := ""
	if rpc != nil {
		said = fmt.Sprintf(" It says: %s.", rpc)
	}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		f.text = fmt.Sprintf("The tool server %q refused the session's credentials (HTTP %d). %s Calling again will not help.", name, status, notRun)
	case seen.session && sessionEnded(status, rpc):
		f.lost = true
		f.text = fmt.Sprintf("The tool server %q had ended its session and refused the call (HTTP %d). %s Call again if it is still wanted.", name, status, notRun)
		// A refused call was not run, says the server. What lies between here and there may have run it all the same.
		if c.entry.definition.Repeatable() {
			f.resend = fmt.Sprintf("session ended (HTTP %d)", status)
		}
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		wait := ""
		if seen.retryAfter != "" {
			wait = " It asks to wait: " + c.server.redact.short(seen.retryAfter, 64) + "."
		}
		f.text = fmt.Sprintf("The tool server %q is busy (HTTP %d).%s %s Try again later.", name, status, wait, notRun)
	case rejected(status):
		f.outcome = outcomeProtocol
		f.text = fmt.Sprintf("The tool server %q refused the call (HTTP %d).%s %s", name, status, said, notRun)
	default:
		f.text = fmt.Sprintf("The tool server %q failed (HTTP %d).%s %s", name, status, said, c.effect())
	}
	return f
}

// sessionEnded says that a status means that the server does not know the session: 404 by the protocol, 410 and 400 by
// what servers do. A 400 with one of the standard errors about the call itself is about the call.
func sessionEnded(status int, rpc *rpcError) bool {
	switch status {
	case http.StatusNotFound, http.StatusGone:
		return true
	case http.StatusBadRequest:
		return rpc == nil || rpc.Code != jsonrpc.CodeMethodNotFound && rpc.Code != jsonrpc.CodeInvalidParams
	}
	return false
}
