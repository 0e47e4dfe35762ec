package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	dialTimeout = 10 * time.Second
	// goodbyeTimeout bounds the request that ends a session: nobody waits for a server that has no more to say.
	goodbyeTimeout = 2 * time.Second
	// maxErrorBody bounds what is read of an error answer.
	maxErrorBody = 64 << 10
	// maxUnwatched bounds an answer that no call waits for.
	maxUnwatched = 1 << 20
)

// redirectError is the fault of a server that answers with another address: credentials are never sent there.
type redirectError struct{ status int }

func (e *redirectError) Error() string {
	return fmt.Sprintf("redirect (HTTP %d) not followed", e.status)
}

// statusError is the fault of an error status without a JSON-RPC error in its body.
type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("HTTP %d", e.status) }

// mediaError is the fault of an answer that is not MCP.
type mediaError struct{ media string }

func (e *mediaError) Error() string { return "answer of type " + e.media }

// roundTripper is the last thing before the network: it adds credentials, bounds and keeps answers, and turns what
// the SDK would take as the end of its connection into the failure of one request.
type roundTripper struct {
	base    http.RoundTripper
	headers http.Header
	// host is where the credentials belong.
	host string
	// heard is told every event of a stream, with the exchange that it is part of; nil for none.
	heard func(ex *exchange, event []byte)
	// trace is that of the options.
	trace func(ctx context.Context) map[string]string
}

// newHTTPClient builds the client of one server over connections that others may share: what tells servers apart is added to
// each request.
func newHTTPClient(c ServerConfig, opts Options, host string, heard func(*exchange, []byte)) *http.Client {
	headers := http.Header{"User-Agent": {"agentloop/" + opts.Version}}
	for _, h := range c.Headers {
		headers.Add(h.Name, h.Value)
	}
	if c.BearerToken != "" {
		headers.Set("Authorization", "Bearer "+c.BearerToken)
	}
	return &http.Client{
		Transport:     &roundTripper{base: opts.Connections.to(c.CABundle), headers: headers, host: host, heard: heard, trace: opts.Trace},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RoundTrip implements http.RoundTripper.
func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	ex := claim(req.Context(), req.Method == http.MethodPost)
	ctx, cancel := req.Context(), context.CancelFunc(func() {})
	if req.Method == http.MethodDelete {
		ctx, cancel = context.WithTimeout(ctx, goodbyeTimeout)
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// The transport begins anew only when it knows that nothing was written before.
		GetConn: func(string) { ex.note(func(f *facts) { f.sent = false }) },
		GotConn: func(httptrace.GotConnInfo) { ex.note(func(f *facts) { f.sent = true }) },
	})
	out := req.Clone(ctx)
	if out.URL.Host == t.host {
		for field, value := range t.trace(ctx) {
			out.Header.Set(field, value)
		}
		for name, values := range t.headers {
			out.Header[name] = values
		}
	}
	named := out.Header.Get("Mcp-Session-Id") != "" || isOld(ctx) && req.Method == http.MethodPost
	want, id := expects(req)
	ex.note(func(f *facts) {
		f.session = named
		if id != nil {
			f.id = id
		}
	})
	resp, err := t.base.RoundTrip(out)
	if err != nil {
		cancel()
		ex.note(func(f *facts) { f.fault = err })
		return nil, err
	}
	resp.Body = &closer{ReadCloser: resp.Body, cancel: cancel}
	if err := t.judge(ex, resp, want); err != nil {
		_ = resp.Body.Close() // nobody wants the rest
		ex.note(func(f *facts) { f.fault = err })
		return nil, err
	}
	return resp, nil
}

// expectation is what a request is answered with.
type expectation int

const (
	nothing   expectation = iota // a notification or a goodbye: what comes is ignored
	stream                       // the rest of an event stream
	reply                        // a JSON-RPC response, plain or as an event
	listening                    // the event stream of the old transport, which its reader bounds
)

// expects says what a request is answered with, and its JSON-RPC id, nil when it has none.
func expects(req *http.Request) (expectation, []byte) {
	switch {
	case req.Method == http.MethodGet && isOld(req.Context()):
		return listening, nil
	case req.Method == http.MethodGet:
		return stream, nil
	case req.Method != http.MethodPost || req.GetBody == nil:
		return nothing, nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nothing, nil
	}
	defer func() { _ = body.Close() }() // bytes in memory
	var call struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.NewDecoder(body).Decode(&call) != nil || len(call.ID) == 0 || call.Method == "" {
		return nothing, nil
	}
	if isOld(req.Context()) {
		return nothing, call.ID
	}
	return reply, call.ID
}

// judge looks at an answer before the SDK does. An error means that the SDK must not see it.
func (t *roundTripper) judge(ex *exchange, resp *http.Response, want expectation) error {
	if want != stream { // resuming tells nothing new about the call itself
		ex.note(func(f *facts) { f.status, f.retryAfter = resp.StatusCode, resp.Header.Get("Retry-After") })
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case want == stream && resp.StatusCode != http.StatusOK:
		return fmt.Errorf("stream not resumed: HTTP %d", resp.StatusCode)
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return &redirectError{status: resp.StatusCode}
	case resp.StatusCode >= 400:
		return keepError(ex, resp, media)
	case want == listening && media == "text/event-stream":
		return nil
	case want != reply && want != listening:
		t.bound(ex, resp)
		return nil
	case want == reply && media == "application/json":
		return buffer(ex, resp)
	case want == reply && media == "text/event-stream":
		t.bound(ex, resp)
		return nil
	}
	if media == "" {
		media = "nothing"
	}
	return &mediaError{media: media}
}

// keepError lets the SDK have an error answer only if it is a JSON-RPC error, which it reports without giving up the
// connection.
func keepError(ex *exchange, resp *http.Response, media string) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	_ = resp.Body.Close() // only read
	if err != nil || media != "application/json" {
		return &statusError{status: resp.StatusCode}
	}
	ex.note(func(f *facts) { f.answer = body })
	msg, err := jsonrpc.DecodeMessage(body)
	if response, ok := msg.(*jsonrpc.Response); err != nil || !ok || response.Error == nil {
		return &statusError{status: resp.StatusCode}
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

// buffer reads a JSON answer whole, so that one that breaks off, is too large or is no JSON fails its own request and
// not the SDK's connection, which other calls share.
func buffer(ex *exchange, resp *http.Response) error {
	limit := int64(maxUnwatched)
	if ex != nil {
		limit = ex.limit
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	ex.note(func(f *facts) { f.read = int64(len(body)) })
	if int64(len(body)) > limit {
		ex.overflow()
		return errTooLarge
	}
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // only read
	if _, err := jsonrpc.DecodeMessage(body); err != nil {
		return &mediaError{media: "JSON that is no JSON-RPC message"}
	}
	ex.note(func(f *facts) { f.answer = body })
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

// bound limits and watches a streamed answer.
func (t *roundTripper) bound(ex *exchange, resp *http.Response) {
	limit := int64(maxUnwatched)
	if ex != nil {
		limit = ex.limit
	}
	resp.Body = &boundedStream{body: resp.Body, ex: ex, left: limit, heard: t.heard}
}

// closer ends the request's own timer with its body.
type closer struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (c *closer) Close() error {
	defer c.cancel()
	return c.ReadCloser.Close()
}

// boundedStream reads an event stream up to a bound, tells of its events and keeps the data of the last whole one.
type boundedStream struct {
	body  io.ReadCloser
	ex    *exchange
	left  int64
	heard func(*exchange, []byte)
	event eventScanner
}

// Read implements io.Reader. Beyond the bound it fails: also for those who only want to drain the body.
func (s *boundedStream) Read(p []byte) (int, error) {
	if s.left <= 0 {
		s.ex.overflow()
		return 0, errTooLarge
	}
	if int64(len(p)) > s.left {
		p = p[:s.left]
	}
	n, err := s.body.Read(p)
	s.left -= int64(n)
	if s.ex != nil && n > 0 {
		var last []byte
		s.event.feed(p[:n], func(e event) {
			last = e.data
			if s.heard != nil {
				s.heard(s.ex, e.data)
			}
		})
		s.ex.note(func(f *facts) {
			f.read += int64(n)
			if last != nil {
				f.answer = last
			}
		})
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.ex.note(func(f *facts) { f.fault = err })
	}
	return n, err
}

// Close implements io.Closer.
func (s *boundedStream) Close() error { return s.body.Close() }
