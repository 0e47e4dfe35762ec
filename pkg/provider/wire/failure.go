package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

// fail turns what went wrong into the *provider.Error that the caller gets.
func (x *exchange) fail(ctx context.Context, err error) *provider.Error {
	out := &provider.Error{Dispatched: x.call.dispatched, HTTPStatus: x.call.status, ResponseID: x.assembly.responseID, Err: err}
	var (
		answer *answerError
		stream *StreamError
	)
	switch {
	case ctx.Err() != nil:
		return x.cancelled(ctx, out)
	case !x.call.dispatched:
		// The guard, the hook, or a request that cannot be built: nothing left the process.
		out.Class = provider.ClassRejected
		return out
	case errors.As(err, &answer):
		x.judgeAnswer(out, answer)
	case errors.As(err, &stream):
		x.judge(out, 200, bounded(stream.Raw))
	default:
		out.Class, out.Code = x.judgeConnection(err)
	}
	x.keepPartial(out, message.StopError)
	return out
}

// failEnd is the failure of a response that came whole, with a stop reason that is one.
func (x *exchange) failEnd(class provider.Class, end End) *provider.Error {
	out := &provider.Error{Class: class, Dispatched: true, HTTPStatus: x.call.status, ResponseID: x.assembly.responseID,
		Code: end.Code, Err: fmt.Errorf("the response ended with %q", end.Raw)}
	if out.Code == "" {
		out.Code = "stop_reason"
	}
	x.keepPartial(out, message.StopError)
	return out
}

// cancelled keeps what had arrived, but no usage: a cancelled call has none that is final.
func (x *exchange) cancelled(ctx context.Context, out *provider.Error) *provider.Error {
	out.Class, out.Err = provider.ClassCancelled, ctx.Err()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, out.Err) {
		out.Err = fmt.Errorf("%w: %w", out.Err, cause)
	}
	x.keepPartial(out, message.StopAborted)
	out.Usage = nil
	if out.Partial != nil {
		out.Partial.Usage = nil
	}
	return out
}

func (x *exchange) keepPartial(out *provider.Error, stop message.StopReason) {
	out.Usage = x.meter.Usage()
	blocks, _ := x.assembly.finish()
	if len(blocks) == 0 {
		return
	}
	m := x.message(blocks, stop)
	m.Usage, m.ErrorMessage = out.Usage, out.Error()
	out.Partial = &m
}

func (x *exchange) judgeAnswer(out *provider.Error, answer *answerError) {
	out.HTTPStatus = answer.status
	switch answer.code {
	case "":
		x.judge(out, answer.status, answer.body)
	case "redirect":
		out.Class, out.Code, out.Detail = provider.ClassInvalidRequest, answer.code, answer.body
	case "json_response":
		if reportsError(answer.body) {
			x.judge(out, answer.status, answer.body)
			return
		}
		// The endpoint does not stream. To ask again would be billed again and come to the same.
		x.meter.Add(answer.body)
		out.Class, out.Code, out.Detail = provider.ClassInvalidRequest, answer.code, answer.body
	default:
		out.Class, out.Code, out.Detail = provider.ClassTransient, answer.code, answer.body
	}
}

// judge classifies an error that the provider put into words.
func (x *exchange) judge(out *provider.Error, status int, body []byte) {
	v := provider.Classify(x.request.Model.API, status, x.call.header, body)
	out.Class, out.Type, out.Code, out.Detail = v.Class, v.Type, v.Code, body
	out.RetryAfter = provider.RetryAfter(x.call.header, x.client.now())
	if out.RetryAfter == 0 && out.Class.Retryable() {
		out.RetryAfter = v.Wait
	}
	x.meter.Add(body)
}

// judgeConnection classifies a failure below HTTP or in the stream's form.
func (x *exchange) judgeConnection(err error) (provider.Class, string) {
	switch {
	case errors.Is(err, ErrIdleTimeout):
		return provider.ClassTransient, "idle_timeout"
	case errors.Is(err, ErrRequestTimeout):
		return provider.ClassTransient, "request_timeout"
	case errors.Is(err, ErrResponseTooLarge):
		return provider.ClassTransient, "response_too_large"
	case errors.Is(err, ErrMalformedEvent):
		return provider.ClassTransient, "malformed_event"
	case errors.Is(err, errNoEnd):
		return provider.ClassTruncated, "no_terminal_event"
	case x.call.status != 0:
		return provider.ClassTruncated, "connection_lost"
	}
	return provider.ClassTransient, connectCode(err)
}

func connectCode(err error) string {
	var (
		dns       *net.DNSError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		op        *net.OpError
	)
	switch {
	case errors.As(err, &dns):
		return "dns"
	case errors.As(err, &verify), errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid),
		errors.As(err, &record):
		return "tls"
	case errors.As(err, &op) && op.Op == "dial":
		return "connect"
	}
	return "no_response"
}

// reportsError says whether a JSON body has an error in it.
func reportsError(body []byte) bool {
	var doc struct {
		Type   string          `json:"type"`
		Object string          `json:"object"`
		Error  json.RawMessage `json:"error"`
	}
	if json.Unmarshal(bytes.TrimSpace(body), &doc) != nil {
		return false
	}
	return IsError(doc.Error) || doc.Type == "error" || doc.Object == "error"
}

// IsError says whether an "error" field reports an error: some servers put null, an empty string or an empty object into
// every chunk.
func IsError(raw json.RawMessage) bool {
	switch string(bytes.Join(bytes.Fields(raw), nil)) {
	case "", "null", `""`, "{}", "false":
		return false
	}
	return true
}

func bounded(body []byte) []byte {
	return bytes.Clone(body[:min(len(body), maxErrorBody)])
}
