package providertest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

// want is what a failed call must come to.
type want struct {
	reply      Reply
	class      provider.Class
	code       string
	status     int
	retryAfter time.Duration
	// partial is the text that must have been kept; empty when nothing must have.
	partial string
}

func check(t *testing.T, a Adapter, w want) {
	t.Helper()
	o, server := a.call(t, wire.Config{}, w.reply)
	if o.Failure == nil {
		t.Fatalf("no error: %s", message.Encode(o.Response.Message))
	}
	f := o.Failure
	if f.Class != w.class || f.HTTPStatus != w.status || f.RetryAfter != w.retryAfter {
		t.Errorf("class %s, status %d, retry after %s; want %s, %d, %s (%v)", f.Class, f.HTTPStatus, f.RetryAfter, w.class, w.status, w.retryAfter, f.Err)
	}
	if w.code != "" && f.Code != w.code {
		t.Errorf("code %q, want %q", f.Code, w.code)
	}
	got := ""
	if f.Partial != nil {
		got = f.Partial.PlainText()
		if f.Partial.StopReason != message.StopError {
			t.Errorf("partial message has stop reason %q", f.Partial.StopReason)
		}
	}
	if got != w.partial {
		t.Errorf("partial text %q, want %q", got, w.partial)
	}
	if !f.Dispatched {
		t.Error("not marked as dispatched")
	}
	if n := len(server.Requests()); n != 1 {
		t.Errorf("%d requests, want 1: the caller owns retries", n)
	}
}

const page = "<!DOCTYPE html>\n<html><head><title>Gateway</title></head><body>Sorry.</body></html>"

func answers(t *testing.T, a Adapter) {
	cases := map[string]want{
		"a web page with status 200": {reply: Answer(200, page, "Content-Type", "text/html"), class: provider.ClassTransient, code: "html_response", status: 200},
		"a web page without a type":  {reply: Answer(200, "  \n"+page, "Content-Type", ""), class: provider.ClassTransient, code: "html_response", status: 200},
		"a web page with status 502": {reply: Answer(502, page, "Content-Type", "text/html"), class: provider.ClassTransient, status: 502},
		"a whole JSON answer to a request for a stream": {reply: Answer(200, a.Whole, "Content-Type", "application/json"),
			class: provider.ClassInvalidRequest, code: "json_response", status: 200},
		"an error with status 200": {reply: Answer(200, `{"error":{"message":"Overloaded","type":"overloaded_error"}}`, "Content-Type", "application/json"),
			class: provider.ClassOverloaded, status: 200},
		"an answer without a body":      {reply: Answer(200, "", "Content-Type", "text/event-stream"), class: provider.ClassTruncated, status: 200},
		"204":                           {reply: Answer(204, ""), class: provider.ClassTruncated, status: 204},
		"an unknown encoding":           {reply: Answer(200, "xyz", "Content-Type", "text/event-stream", "Content-Encoding", "br"), class: provider.ClassTransient, code: "content_encoding", status: 200},
		"401":                           {reply: Answer(401, `{"error":{"message":"no","type":"authentication_error"}}`), class: provider.ClassAuth, status: 401},
		"403 as a page":                 {reply: Answer(403, page), class: provider.ClassAuth, status: 403},
		"404 as a page: a wrong path":   {reply: Answer(404, page), class: provider.ClassInvalidRequest, status: 404},
		"400":                           {reply: Answer(400, `{"error":{"message":"bad","type":"invalid_request_error"}}`), class: provider.ClassInvalidRequest, status: 400},
		"413":                           {reply: Answer(413, ""), class: provider.ClassOverflow, status: 413},
		"500":                           {reply: Answer(500, `{"error":"llama runner process has terminated"}`), class: provider.ClassTransient, status: 500},
		"503":                           {reply: Answer(503, ""), class: provider.ClassOverloaded, status: 503},
		"529":                           {reply: Answer(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), class: provider.ClassOverloaded, status: 529},
		"429 for quota":                 {reply: Answer(429, a.Quota), class: provider.ClassQuota, status: 429},
		"429 with seconds":              {reply: Answer(429, "", "Retry-After", "7"), class: provider.ClassRateLimited, status: 429, retryAfter: 7 * time.Second},
		"429 with milliseconds":         {reply: Answer(429, "", "Retry-After-Ms", "250", "Retry-After", "1"), class: provider.ClassRateLimited, status: 429, retryAfter: 250 * time.Millisecond},
		"429 with a date":               {reply: Answer(429, "", "Date", "Tue, 01 Dec 2026 10:00:00 GMT", "Retry-After", "Tue, 01 Dec 2026 10:01:30 GMT"), class: provider.ClassRateLimited, status: 429, retryAfter: 90 * time.Second},
		"429 with nonsense":             {reply: Answer(429, "", "Retry-After", "soon"), class: provider.ClassRateLimited, status: 429},
		"429 that says it in its text":  {reply: Answer(429, `{"error":{"message":"Please try again in 1.5s."}}`), class: provider.ClassRateLimited, status: 429, retryAfter: 1500 * time.Millisecond},
		"an hour is taken as it is":     {reply: Answer(503, "", "Retry-After", "3600"), class: provider.ClassOverloaded, status: 503, retryAfter: time.Hour},
		"a redirect is not followed":    {reply: Answer(307, "", "Location", "http://127.0.0.1:1/elsewhere"), class: provider.ClassInvalidRequest, code: "redirect", status: 307},
		"a redirect to the same server": {reply: Answer(301, "", "Location", "/v1/other"), class: provider.ClassInvalidRequest, code: "redirect", status: 301},
	}
	for name, w := range cases {
		t.Run(name, func(t *testing.T) { check(t, a, w) })
	}
	t.Run("a huge error body is cut", func(t *testing.T) {
		o, _ := a.call(t, wire.Config{}, Answer(500, strings.Repeat("x", 1<<20)))
		if n := len(o.Failure.Detail); n != 64<<10 {
			t.Errorf("%d bytes kept, want 64 KiB", n)
		}
	})
	t.Run("an error body that stops coming still has its status", func(t *testing.T) {
		// Long enough for what does come to arrive on a busy machine first.
		o, _ := a.call(t, wire.Config{IdleTimeout: 2 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			writeFrames(w, []string{"half of an err"})
			<-r.Context().Done()
		})
		if f := o.Failure; f == nil || f.Class != provider.ClassInvalidRequest || string(f.Detail) != "half of an err" {
			t.Errorf("failure %+v", f)
		}
	})
}

func streams(t *testing.T, a Adapter) {
	full := a.Text("Hel", "lo.")
	begun := full[:len(full)-1]
	for len(begun) > 0 && !strings.Contains(begun[len(begun)-1], "lo.") {
		begun = begun[:len(begun)-1] // up to the last increment
	}
	cases := map[string]want{
		"a clean end without the terminal event": {reply: Frames(begun...), class: provider.ClassTruncated, code: "no_terminal_event", status: 200, partial: "Hello."},
		"a clean end in the middle of an event":  {reply: Frames(append(begun[:len(begun):len(begun)], "data: {\"type\":\"half")...), class: provider.ClassTruncated, status: 200, partial: "Hello."},
		"a reset in the middle":                  {reply: FramesThenReset(begun...), class: provider.ClassTruncated, code: "connection_lost", status: 200, partial: "Hello."},
		"a reset after the headers":              {reply: FramesThenReset(": hi\n\n"), class: provider.ClassTruncated, code: "connection_lost", status: 200},
		"an error in the middle":                 {reply: Frames(append(begun[:len(begun):len(begun)], a.Failure)...), class: provider.ClassOverloaded, status: 200, partial: "Hello."},
		"an error at the start":                  {reply: Frames(a.Failure), class: provider.ClassOverloaded, status: 200},
		"an event that is no JSON":               {reply: Frames(append(begun[:len(begun):len(begun)], "data: <html>\n\n")...), class: provider.ClassTransient, code: "malformed_event", status: 200, partial: "Hello."},
	}
	for name, w := range cases {
		t.Run(name, func(t *testing.T) { check(t, a, w) })
	}
	t.Run("usage that came before an error is kept", func(t *testing.T) {
		o, _ := a.call(t, wire.Config{}, Frames(append(begun[:len(begun):len(begun)], a.Failure)...))
		if a.API == provider.APIAnthropicMessages && (o.Failure.Usage == nil || o.Failure.Usage.Input == nil || *o.Failure.Usage.Input != 11) {
			t.Errorf("usage %+v", o.Failure.Usage)
		}
		if (o.Failure.Usage == nil) != (o.Failure.Partial.Usage == nil) {
			t.Error("the error and its partial message disagree on usage")
		}
		if len(o.Failure.Detail) == 0 {
			t.Error("the event is not kept as detail")
		}
	})
	t.Run("a response beyond its bound", func(t *testing.T) {
		o, _ := a.call(t, wire.Config{MaxResponseBytes: 300}, Frames(a.Text(strings.Repeat("long ", 200))...))
		if f := o.Failure; f == nil || f.Code != "response_too_large" || !errors.Is(o.Err, wire.ErrResponseTooLarge) {
			t.Errorf("failure %+v", f)
		}
	})
}

func endings(t *testing.T, a Adapter) {
	begun := a.Text("Hello.")
	for !strings.Contains(begun[len(begun)-1], "Hello.") {
		begun = begun[:len(begun)-1]
	}
	silences(t, a, begun)
	cancels(t, a, begun)
}

// silences are calls that the adapter ends because nothing comes; begun is a response up to its text.
func silences(t *testing.T, a Adapter, begun []string) {
	t.Run("no answer at all", func(t *testing.T) {
		o, _ := a.call(t, wire.Config{IdleTimeout: 50 * time.Millisecond}, Silence)
		if f := o.Failure; f == nil || f.Class != provider.ClassTransient || f.Code != "idle_timeout" || f.HTTPStatus != 0 || !errors.Is(o.Err, wire.ErrIdleTimeout) {
			t.Errorf("failure %+v", f)
		}
		if errors.Is(o.Err, context.Canceled) {
			t.Error("an idle timeout looks like the caller's cancel")
		}
	})
	t.Run("silence in the middle", func(t *testing.T) {
		o, server := a.call(t, wire.Config{IdleTimeout: 200 * time.Millisecond}, FramesThenSilence(begun...))
		if f := o.Failure; f == nil || f.Class != provider.ClassTransient || f.Code != "idle_timeout" || f.Partial == nil || f.Partial.PlainText() != "Hello." {
			t.Errorf("failure %+v", f)
		}
		<-server.Gone
	})
	t.Run("the request timeout", func(t *testing.T) {
		o, _ := a.call(t, wire.Config{RequestTimeout: 200 * time.Millisecond}, FramesThenSilence(begun...))
		if f := o.Failure; f == nil || f.Class != provider.ClassTransient || f.Code != "request_timeout" || !errors.Is(o.Err, wire.ErrRequestTimeout) {
			t.Errorf("failure %+v", f)
		}
	})
}

// cancels are calls that the caller ends.
func cancels(t *testing.T, a Adapter, begun []string) {
	t.Run("cancelled before the start", func(t *testing.T) {
		server := NewServer(t, Silence)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		o := Call(ctx, t, a.Client(t, wire.Config{BaseURL: server.URL}), Request(a.API))
		wantCancelled(t, o, context.Canceled)
		if o.Failure.Dispatched || len(server.Requests()) != 0 {
			t.Error("the request was sent")
		}
	})
	t.Run("cancelled by its guard", func(t *testing.T) {
		server := NewServer(t, Silence)
		ctx, cancel := context.WithCancel(context.Background())
		req := Request(a.API)
		req.Guard = func([]byte) error { cancel(); return nil }
		o := Call(ctx, t, a.Client(t, wire.Config{BaseURL: server.URL}), req)
		wantCancelled(t, o, context.Canceled)
		if o.Failure.Dispatched || len(server.Requests()) != 0 {
			t.Error("the request was sent")
		}
	})
	t.Run("cancelled in the middle", func(t *testing.T) {
		server := NewServer(t, FramesThenSilence(begun...))
		reason := errors.New("the run was cancelled")
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		var o Outcome
		o.Response, o.Err = a.Client(t, wire.Config{BaseURL: server.URL}).Stream(ctx, Request(a.API), func(provider.Delta) { cancel(reason) })
		if !errors.As(o.Err, &o.Failure) {
			t.Fatalf("error %v", o.Err)
		}
		wantCancelled(t, o, context.Canceled)
		if !errors.Is(o.Err, reason) {
			t.Error("the reason of the cancel is lost")
		}
		p := o.Failure.Partial
		if p == nil || p.PlainText() != "Hello." || p.StopReason != message.StopAborted || p.Usage != nil || o.Failure.Usage != nil {
			t.Errorf("partial %+v, usage %+v", p, o.Failure.Usage)
		}
		<-server.Gone
	})
	t.Run("the caller's deadline", func(t *testing.T) {
		server := NewServer(t, Silence)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		wantCancelled(t, Call(ctx, t, a.Client(t, wire.Config{BaseURL: server.URL}), Request(a.API)), context.DeadlineExceeded)
	})
}

func wantCancelled(t *testing.T, o Outcome, cause error) {
	t.Helper()
	if o.Failure == nil || o.Failure.Class != provider.ClassCancelled || !errors.Is(o.Err, cause) {
		t.Fatalf("error %v (%+v), want class cancelled over %v", o.Err, o.Failure, cause)
	}
}
