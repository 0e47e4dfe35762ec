package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// errTooLarge ends the reading of an answer that is above its bound.
var errTooLarge = errors.New("answer too large")

// exchange is what happened on HTTP during one call, or while connecting. It travels in the request's context from the
// caller to the round tripper, because the SDK reports failures as texts.
type exchange struct {
	// limit bounds the bytes of the answer.
	limit int64
	// cancel ends the call when its answer is too large; nil while connecting.
	cancel context.CancelCauseFunc
	// call is the call that the exchange is for; nil while connecting.
	call *progress
	// every says that all requests are watched, as while connecting; otherwise the first POST and its resumptions are.
	every bool

	mu     sync.Mutex
	facts  facts
	posts  int
	closed bool
}

// facts are the observations of an exchange.
type facts struct {
	// sent says that the request had a connection to be written to: the server may have acted.
	sent bool
	// status is the HTTP status of the answer, 0 for none; retryAfter its Retry-After header.
	status     int
	retryAfter string
	// id is the JSON-RPC id of the request, as it was sent.
	id []byte
	// session says that the request named a session.
	session bool
	// fault is why the answer is unusable, when it was the round tripper that found out.
	fault error
	// read counts the bytes of the answer; tooLarge says that it was cut off.
	read     int64
	tooLarge bool
	// ended says that the session's connection ended with the exchange.
	ended bool
	// answer is the last JSON-RPC message of the answer, exactly as it came.
	answer []byte
}

type exchangeKey struct{}

// watch returns a context whose requests report to ex.
func watch(ctx context.Context, ex *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, ex)
}

// claim returns the exchange that watches a request, nil for none. The notification that cancels a call carries the
// call's context too: it must not overwrite what is known of the call.
func claim(ctx context.Context, post bool) *exchange {
	ex, _ := ctx.Value(exchangeKey{}).(*exchange)
	if ex == nil {
		return nil
	}
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if ex.closed {
		return nil
	}
	if !post {
		return ex
	}
	ex.posts++
	if ex.posts > 1 && !ex.every {
		return nil
	}
	ex.facts = facts{}
	return ex
}

// end stops the watching and returns what was seen.
func (ex *exchange) end() facts {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	ex.closed = true
	return ex.facts
}

// note changes the facts; on a nil exchange it does nothing.
func (ex *exchange) note(change func(*facts)) {
	if ex == nil {
		return
	}
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if !ex.closed {
		change(&ex.facts)
	}
}

// overflow records that the answer is above its bound and ends the call.
func (ex *exchange) overflow() {
	ex.note(func(f *facts) { f.tooLarge, f.fault = true, errTooLarge })
	if ex != nil && ex.cancel != nil {
		ex.cancel(errTooLarge)
	}
}

// result is the "result" member of the captured answer, nil when there is none, or when the answer is one to another
// request. It has the exact numbers and the key order that the SDK's decoded form has lost.
func (f facts) result() json.RawMessage {
	var reply struct {
		ID     json.RawMessage `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if len(f.answer) == 0 || json.Unmarshal(f.answer, &reply) != nil || !bytes.Equal(reply.ID, f.id) || len(reply.Result) == 0 || present(reply.Error) {
		return nil
	}
	return reply.Result
}

// rpcError is a JSON-RPC error as a server sent it.
type rpcError struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

// String is the message with its number.
func (e *rpcError) String() string { return fmt.Sprintf("%s (error %d)", e.Message, e.Code) }

// rpcError is the "error" member of the captured answer, nil when there is none. The SDK's errors cannot be asked: it
// uses the same type for failures of its own.
func (f facts) rpcError() *rpcError {
	var reply struct {
		Error *rpcError `json:"error"`
	}
	if len(f.answer) == 0 || json.Unmarshal(f.answer, &reply) != nil {
		return nil
	}
	return reply.Error
}
