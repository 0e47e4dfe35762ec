package tools

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// sessions is a transport that remembers the last session that the server gave.
type sessions struct {
	next http.RoundTripper

	mu   sync.Mutex
	last string
}

// RoundTrip implements http.RoundTripper.
func (s *sessions) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(r)
	if err == nil && resp.Header.Get("Mcp-Session-Id") != "" {
		s.mu.Lock()
		s.last = resp.Header.Get("Mcp-Session-Id")
		s.mu.Unlock()
	}
	return resp, err
}

// end deletes the last session on the server, behind the client's back.
func (s *sessions) end(t *testing.T, endpoint string) {
	t.Helper()
	s.mu.Lock()
	id := s.last
	s.mu.Unlock()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, endpoint, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Mcp-Session-Id", id)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("delete session %q: HTTP %d", id, resp.StatusCode)
	}
}

// proxy forwards to the endpoint through the transport and returns the proxied endpoint.
func proxy(t *testing.T, endpoint string, transport http.RoundTripper) string {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, target.Host
		},
		Transport:     transport,
		FlushInterval: -1,
	})
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.URL + target.Path
}
