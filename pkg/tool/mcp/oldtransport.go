package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The transport of protocol version 2024-11-05: one event stream for all that the server sends, and an endpoint that its
// first event names for all that it is sent. It is tried with a server that refuses the transport of today.

// maxEndpoint bounds the endpoint that a server names, in bytes.
const maxEndpoint = 2 << 10

// endpointError is the fault of an event stream that names no endpoint that may be used.
type endpointError struct{ why string }

func (e *endpointError) Error() string { return e.why }

// old marks the requests of the old transport, whose answers mean other things.
type old struct{}

func isOld(ctx context.Context) bool { return ctx.Value(old{}) != nil }

// olderTransport says that an answer to the first request is one of a server that may know the old transport only.
func (f facts) olderTransport() bool {
	return f.status == http.StatusBadRequest || f.status == http.StatusNotFound || f.status == http.StatusMethodNotAllowed
}

// tryOld connects over the old transport. When the server shows that it does not know it either, the failure is nil too.
func (s *server) tryOld(ctx context.Context) (*sdk.ClientSession, *connectError) {
	ex := &exchange{limit: s.cfg.maxResponse(s.opts), every: true}
	session, err := s.client.Connect(watch(ctx, ex), &oldTransport{server: s}, &sdk.ClientSessionOptions{ProtocolVersion: legacyProtocol})
	seen := ex.end()
	if err == nil {
		return session, nil
	}
	var endpoint *endpointError
	known := seen.session || errors.As(seen.fault, &endpoint) || seen.status == http.StatusUnauthorized || seen.status == http.StatusForbidden
	if !known {
		return nil, nil
	}
	return nil, &connectError{err: err, seen: seen, timedOut: ctx.Err() != nil}
}

// oldTransport implements sdk.Transport.
type oldTransport struct{ server *server }

// Connect implements sdk.Transport: it opens the event stream and waits for its first event.
func (t *oldTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	// The stream lives as long as the session, and connecting as long as ctx.
	streaming, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), old{}, true))
	connected := context.AfterFunc(ctx, cancel)
	defer connected()
	req, err := http.NewRequestWithContext(streaming, http.MethodGet, t.server.cfg.URL, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := t.server.http.Do(req) //nolint:bodyclose // the connection closes it
	if err != nil {
		cancel()
		return nil, err
	}
	c := &oldConnection{
		server: t.server, body: resp.Body, cancel: cancel,
		messages: make(chan jsonrpc.Message), endpoint: make(chan *url.URL, 1), done: make(chan struct{}), waiting: map[any]*exchange{},
	}
	ex, _ := ctx.Value(exchangeKey{}).(*exchange)
	go c.read(streaming, ex)
	select {
	case c.post = <-c.endpoint:
		return c, nil
	case <-c.done:
		return nil, errors.Join(errors.New("the event stream named no endpoint"), c.Close())
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), c.Close())
	}
}

// oldConnection implements sdk.Connection.
type oldConnection struct {
	server *server
	body   io.Closer
	cancel context.CancelFunc
	post   *url.URL

	messages chan jsonrpc.Message
	// endpoint gets what the first event names; done is closed when the stream has ended.
	endpoint chan *url.URL
	done     chan struct{}

	mu sync.Mutex
	// waiting are the exchanges of requests that have no answer yet, by the request's id.
	waiting map[any]*exchange
	// unasked counts the bytes that came since the last request was sent.
	unasked int64
}

// SessionID implements sdk.Connection. The session is part of the endpoint.
func (c *oldConnection) SessionID() string { return "" }

// Read implements sdk.Connection.
func (c *oldConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.messages:
		return m, nil
	case <-c.done:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close implements sdk.Connection: it ends the stream and waits for its reader.
func (c *oldConnection) Close() error {
	c.cancel()
	err := c.body.Close()
	<-c.done
	return err
}

// Write implements sdk.Connection. A request that the server refuses is answered here, so that it alone fails and not the
// connection, which other calls share.
func (c *oldConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	raw, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	request, _ := m.(*jsonrpc.Request)
	called := request != nil && request.IsCall()
	if called {
		context.AfterFunc(ctx, c.await(ctx, request.ID))
	}
	err = c.send(ctx, raw)
	if err == nil || !called || ctx.Err() != nil {
		return err
	}
	select {
	case c.messages <- &jsonrpc.Response{ID: request.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "not sent"}}:
		return nil
	case <-c.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// await remembers who waits for an answer.
func (c *oldConnection) await(ctx context.Context, id jsonrpc.ID) (forget func()) {
	ex, _ := ctx.Value(exchangeKey{}).(*exchange)
	key := id.Raw()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[key], c.unasked = ex, 0
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, key)
	}
}

func (c *oldConnection) send(ctx context.Context, raw []byte) error {
	req, err := http.NewRequestWithContext(context.WithValue(ctx, old{}, true), http.MethodPost, c.post.String(), bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.server.http.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // the answer comes with the stream
	if resp.StatusCode >= 400 {
		return &statusError{status: resp.StatusCode}
	}
	return nil
}

// read reads the stream to its end. opening is the exchange that connects.
func (c *oldConnection) read(ctx context.Context, opening *exchange) {
	defer close(c.done)
	body, ok := c.body.(io.Reader)
	if !ok {
		return
	}
	var scan eventScanner
	var fault error
	named := false
	piece := make([]byte, 32<<10)
	for fault == nil {
		n, err := body.Read(piece)
		scan.feed(piece[:n], func(e event) {
			switch {
			case fault != nil:
			case named:
				fault = c.take(ctx, e)
			default:
				fault, named = c.name(e, opening), true
			}
		})
		switch {
		case fault != nil:
		case c.tooMuch(int64(n), scan.held()):
			fault = errTooLarge
		default:
			fault = err
		}
	}
	if errors.Is(fault, io.EOF) {
		fault = io.ErrUnexpectedEOF
	}
	c.broke(fault)
}

// tooMuch says that the server sends more than was asked for.
func (c *oldConnection) tooMuch(n int64, held int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unasked += n
	limit := c.server.cfg.maxResponse(c.server.opts)
	return c.unasked > limit*int64(max(1, len(c.waiting))) || int64(held) > limit
}

// broke tells those who still wait why there will be no answer.
func (c *oldConnection) broke(fault error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ex := range c.waiting {
		ex.note(func(f *facts) { f.ended = true })
		if errors.Is(fault, errTooLarge) && len(c.waiting) == 1 {
			ex.note(func(f *facts) { f.read = c.unasked })
			ex.overflow()
			continue
		}
		ex.note(func(f *facts) { f.fault = fault })
	}
}

// name handles the first event.
func (c *oldConnection) name(e event, opening *exchange) error {
	target, err := c.server.endpoint(e)
	if err != nil {
		opening.note(func(f *facts) { f.fault = err })
		return err
	}
	opening.note(func(f *facts) { f.session = true })
	c.endpoint <- target
	return nil
}

// take handles any other event.
func (c *oldConnection) take(ctx context.Context, e event) error {
	if e.name != "" && e.name != "message" {
		return nil
	}
	m, err := jsonrpc.DecodeMessage(e.data)
	if err != nil {
		return &mediaError{media: "an event that is no JSON-RPC message"}
	}
	response, ok := m.(*jsonrpc.Response)
	if !ok {
		c.server.heard(c.only(), e.data)
		return c.deliver(ctx, m)
	}
	c.mu.Lock()
	ex := c.waiting[response.ID.Raw()]
	delete(c.waiting, response.ID.Raw())
	c.mu.Unlock()
	ex.note(func(f *facts) { f.answer, f.read = e.data, int64(len(e.data)) })
	return c.deliver(ctx, m)
}

func (c *oldConnection) deliver(ctx context.Context, m jsonrpc.Message) error {
	select {
	case c.messages <- m:
		return nil
	case <-ctx.Done():
		return io.EOF
	}
}

// only is the exchange of the one request that waits; nil when none does, or several: a log message names no call.
func (c *oldConnection) only() *exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) != 1 {
		return nil
	}
	for _, ex := range c.waiting {
		return ex
	}
	return nil
}

// endpoint checks what the first event names: where messages go, and credentials with them, is the server itself.
func (s *server) endpoint(e event) (*url.URL, error) {
	if e.name != "endpoint" || len(e.data) == 0 || len(e.data) > maxEndpoint {
		return nil, &endpointError{"its event stream does not begin with an endpoint"}
	}
	base, err := url.Parse(s.cfg.URL)
	if err != nil {
		return nil, err
	}
	target, err := base.Parse(string(e.data))
	switch {
	case err != nil || target.User != nil:
		return nil, &endpointError{"the endpoint that its event stream names cannot be used"}
	case target.Scheme != base.Scheme || !strings.EqualFold(target.Hostname(), base.Hostname()) || port(target) != port(base):
		return nil, &endpointError{"its event stream names an endpoint of another origin, which is not used"}
	}
	target.Host, target.Fragment = base.Host, ""
	return target, nil
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return fmt.Sprint(80)
}
