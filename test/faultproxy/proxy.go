// Package faultproxy is an HTTP proxy on loopback that spoils chosen requests and answers in chosen ways, for tests of
// clients that must survive what networks, load balancers and overloaded servers do.
//
// Guarantees: a request that no rule chooses is forwarded byte for byte, with its own Host header, and answered byte for
// byte; which requests are spoiled depends only on the rules, the order of requests and the seed; every request is
// recorded. It knows nothing of the protocol above HTTP but for the shape of S3's error bodies.
package faultproxy

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// maxBody bounds what the proxy holds of one request or answer.
const maxBody = 64 << 20

// Rule says which requests get which fault. The first rule that chooses a request spoils it.
type Rule struct {
	// Name stands in the record of each request that the rule chose.
	Name string
	// Match chooses requests; nil chooses all.
	Match func(*http.Request) bool
	// After is the number of matching requests that pass first.
	After int
	// Times is the number of requests that are spoiled; 0 is no bound.
	Times int
	Fault Fault
}

// Seen is one request that reached the proxy.
type Seen struct {
	Method, Path, Query string
	// Rule is the name of the rule that spoiled it; empty when it was forwarded as it was.
	Rule string
}

type ruleState struct {
	Rule
	passed, spoiled int
}

// Proxy is a running proxy. Its methods are safe for concurrent use.
type Proxy struct {
	target    *url.URL
	listener  net.Listener
	server    *http.Server
	transport *http.Transport
	served    chan struct{}

	mu    sync.Mutex
	rules []*ruleState
	seen  []Seen
}

// Start starts a proxy on a free loopback port in front of target, a URL like http://127.0.0.1:9000.
func Start(target string) (*Proxy, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	if u.Host == "" {
		return nil, fmt.Errorf("target %q is not a URL with a host", target)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		target:   u,
		listener: listener,
		served:   make(chan struct{}),
		// Nothing is decompressed or redirected on the way.
		transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
	}
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(p.served)
		_ = p.server.Serve(listener) // ends with ErrServerClosed
	}()
	return p, nil
}

// URL is where clients reach the proxy.
func (p *Proxy) URL() string { return "http://" + p.listener.Addr().String() }

// Close breaks all connections and waits until the proxy is gone.
func (p *Proxy) Close() error {
	err := p.server.Close()
	<-p.served
	p.transport.CloseIdleConnections()
	return err
}

// Script replaces the rules and empties the record.
func (p *Proxy) Script(rules ...Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules, p.seen = nil, nil
	for _, rule := range rules {
		p.rules = append(p.rules, &ruleState{Rule: rule})
	}
}

// Seen returns the requests since the last Script, in the order in which they arrived.
func (p *Proxy) Seen() []Seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Seen(nil), p.seen...)
}

// choose records a request and returns the fault that it gets, or nil.
func (p *Proxy) choose(r *http.Request) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := Seen{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery}
	defer func() { p.seen = append(p.seen, seen) }()
	for _, rule := range p.rules {
		if rule.Match != nil && !rule.Match(r) {
			continue
		}
		if rule.passed < rule.After {
			rule.passed++
			continue
		}
		if rule.Times > 0 && rule.spoiled >= rule.Times {
			continue
		}
		rule.spoiled++
		seen.Rule = rule.Name
		return rule.Fault
	}
	return nil
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		panic(http.ErrAbortHandler) // the client broke off; so does the proxy
	}
	exchange := &Exchange{proxy: p, writer: w, Request: r, Body: body}
	if fault := p.choose(r); fault != nil {
		fault(exchange)
		return
	}
	exchange.Pass()
}

// Answer is what comes back for a request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Exchange is one request on its way. A Fault does with it what it likes and answers at most once.
type Exchange struct {
	// Request is the client's request; its body is in Body.
	Request *http.Request
	Body    []byte

	proxy  *Proxy
	writer http.ResponseWriter
}

// Pass forwards the request and returns the server's answer to the client, an event stream as it comes.
func (e *Exchange) Pass() {
	resp := e.send()
	defer resp.Body.Close()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		e.Reply(e.whole(resp))
		return
	}
	maps.Copy(e.writer.Header(), resp.Header)
	e.writer.WriteHeader(resp.StatusCode)
	flush := http.NewResponseController(e.writer)
	buffer := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buffer)
		_, _ = e.writer.Write(buffer[:n]) // the client may be gone
		_ = flush.Flush()
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the server broke off; so does the proxy
		}
	}
}

// Forward sends the request on as it stands and returns the answer. When the server cannot be reached, the client's
// connection is broken, as it would be without a proxy.
func (e *Exchange) Forward() Answer {
	resp := e.send()
	defer resp.Body.Close()
	return e.whole(resp)
}

func (e *Exchange) send() *http.Response {
	resp, err := e.proxy.transport.RoundTrip(e.outgoing())
	if err != nil {
		e.Reset()
	}
	return resp
}

// whole reads all of an answer.
func (e *Exchange) whole(resp *http.Response) Answer {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		e.Reset()
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}
}

func (e *Exchange) outgoing() *http.Request {
	out := e.Request.Clone(e.Request.Context())
	out.URL.Scheme, out.URL.Host = e.proxy.target.Scheme, e.proxy.target.Host
	out.RequestURI = ""
	out.Body, out.ContentLength = nil, 0
	if len(e.Body) > 0 {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(e.Body)), int64(len(e.Body))
	}
	return out
}

// Reply answers the client.
func (e *Exchange) Reply(a Answer) {
	header := e.writer.Header()
	for name, values := range a.Header {
		header[name] = values
	}
	if e.Request.Method != http.MethodHead {
		header.Set("Content-Length", fmt.Sprint(len(a.Body)))
	}
	e.writer.WriteHeader(a.Status)
	_, _ = e.writer.Write(a.Body) // the client may be gone
}

// ReplyCut announces the whole answer, sends its first n bytes and breaks the connection. It does not return.
func (e *Exchange) ReplyCut(a Answer, n int) {
	header := e.writer.Header()
	for name, values := range a.Header {
		header[name] = values
	}
	header.Set("Content-Length", fmt.Sprint(len(a.Body)))
	e.writer.WriteHeader(a.Status)
	_, _ = e.writer.Write(a.Body[:min(n, len(a.Body))])
	_ = http.NewResponseController(e.writer).Flush()
	panic(http.ErrAbortHandler)
}

// Reset breaks the client's connection with a TCP reset. It does not return.
func (e *Exchange) Reset() {
	conn, _, err := http.NewResponseController(e.writer).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset instead of an orderly end
	}
	_ = conn.Close()
	panic(http.ErrAbortHandler)
}
