package faultproxy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/test/faultproxy"
)

// echo answers with what it got and remembers it.
type echo struct {
	arrived chan struct{} // gets a value for each request that was read
	mu      sync.Mutex
	got     []string
}

func (s *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	s.got = append(s.got, fmt.Sprintf("%s %s host=%s body=%q whole=%t", r.Method, r.URL.Path, r.Host, body, err == nil))
	s.mu.Unlock()
	s.arrived <- struct{}{}
	w.Header().Set("X-Amz-Date", r.Header.Get("X-Amz-Date"))
	_, _ = fmt.Fprintf(w, "0123456789")
}

func (s *echo) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.got...)
}

func setUp(t *testing.T, rules ...faultproxy.Rule) (*faultproxy.Proxy, *echo, *http.Client) {
	t.Helper()
	target := &echo{arrived: make(chan struct{}, 100)}
	server := httptest.NewServer(target)
	t.Cleanup(server.Close)
	p, err := faultproxy.Start(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	p.Script(rules...)
	// A fresh connection each time: a broken one must not be retried by the client's own transport.
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	return p, target, &http.Client{Transport: transport}
}

func do(t *testing.T, client *http.Client, method, url, body string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "bucket.example"
	req.Header.Set("X-Amz-Date", "20260101T120000Z")
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(got), err
}

func TestFaults(t *testing.T) {
	const plain = `PUT /b/k host=bucket.example body="payload" whole=true`
	cases := map[string]struct {
		fault  faultproxy.Fault
		status int
		body   string // a part of it
		err    error
		server []string
	}{
		"refuse": {faultproxy.Refuse(503, "SlowDown"), 503, "<Code>SlowDown</Code>", nil, nil},
		"lie":    {faultproxy.Lie(500, "InternalError"), 500, "<Code>InternalError</Code>", nil, []string{plain}},
		"fixed": {
			faultproxy.Fixed(faultproxy.Answer{Status: 404, Header: http.Header{"Content-Type": {"text/html"}}, Body: []byte("<html>")}),
			404, "<html>", nil, nil,
		},
		"reset before":   {faultproxy.ResetBefore(), 0, "", syscall.ECONNRESET, nil},
		"reset after":    {faultproxy.ResetAfter(), 0, "", syscall.ECONNRESET, []string{plain}},
		"cut answer":     {faultproxy.CutAnswer(4), 200, "0123", io.ErrUnexpectedEOF, []string{plain}},
		"shorten answer": {faultproxy.ShortenAnswer(4), 200, "0123", nil, []string{plain}},
		"flip answer":    {faultproxy.FlipAnswer(1), 200, "0123456788", nil, []string{plain}},
		"flip request":   {faultproxy.FlipRequest(7), 200, "0123456789", nil, []string{`PUT /b/k host=bucket.example body="qayload" whole=true`}},
		"rewrite host":   {faultproxy.RewriteHost("other.example"), 200, "0123456789", nil, []string{`PUT /b/k host=other.example body="payload" whole=true`}},
		"rewrite path":   {faultproxy.RewritePath("/b/", "/s3/b/"), 200, "0123456789", nil, []string{`PUT /s3/b/k host=bucket.example body="payload" whole=true`}},
		"never":          {faultproxy.Sometimes(1, 0, faultproxy.ResetBefore()), 200, "0123456789", nil, []string{plain}},
		"always":         {faultproxy.Sometimes(1, 100, faultproxy.Refuse(503, "SlowDown")), 503, "SlowDown", nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, server, client := setUp(t, faultproxy.Rule{Name: name, Fault: tc.fault})
			status, body, err := do(t, client, http.MethodPut, p.URL()+"/b/k?x=1", "payload")
			if !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if status != tc.status || !strings.Contains(body, tc.body) {
				t.Errorf("status %d and body %q, want %d and %q", status, body, tc.status, tc.body)
			}
			if diff := cmp.Diff(tc.server, server.requests()); diff != "" {
				t.Errorf("what the server saw (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]faultproxy.Seen{{Method: "PUT", Path: "/b/k", Query: "x=1", Rule: name}}, p.Seen()); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPassesByteForByte(t *testing.T) {
	p, server, client := setUp(t)
	payload := string(bytes.Repeat([]byte{0, 255, 'a'}, 100_000))
	status, body, err := do(t, client, http.MethodPost, p.URL()+"/a%2Fb", payload)
	if err != nil || status != 200 || body != "0123456789" {
		t.Errorf("status %d, body %q, error %v", status, body, err)
	}
	want := []string{fmt.Sprintf("POST /a/b host=bucket.example body=%q whole=true", payload)}
	if diff := cmp.Diff(want, server.requests()); diff != "" {
		t.Errorf("what the server saw (-want +got):\n%s", diff)
	}
}

func TestRulesCount(t *testing.T) {
	p, _, client := setUp(t,
		faultproxy.Rule{Name: "second put", Match: faultproxy.Method(http.MethodPut), After: 1, Times: 1, Fault: faultproxy.Refuse(500, "A")},
		faultproxy.Rule{Name: "any get", Match: faultproxy.PathHas(http.MethodGet, "/k"), Fault: faultproxy.Refuse(503, "B")},
		faultproxy.Rule{Name: "listing", Match: faultproxy.Listing, Fault: faultproxy.Refuse(501, "C")},
	)
	var got []int
	for _, request := range []string{"PUT /k", "PUT /k", "PUT /k", "GET /k", "GET /k", "GET /x", "GET /?list-type=2", "DELETE /k"} {
		method, path, _ := strings.Cut(request, " ")
		status, _, err := do(t, client, method, p.URL()+path, "")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, status)
	}
	if diff := cmp.Diff([]int{200, 500, 200, 503, 503, 200, 501, 200}, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

func TestCutUpload(t *testing.T) {
	p, server, client := setUp(t, faultproxy.Rule{Times: 1, Fault: faultproxy.CutUpload(3)})
	if _, _, err := do(t, client, http.MethodPut, p.URL()+"/k", "payload"); err == nil {
		t.Error("the client got an answer to a request that was cut")
	}
	select {
	case <-server.arrived: // the server may find out later than the client
	case <-time.After(10 * time.Second):
		t.Fatal("the server saw nothing")
	}
	if diff := cmp.Diff([]string{`PUT /k host=bucket.example body="payl" whole=false`}, server.requests()); diff != "" {
		t.Errorf("what the server saw (-want +got):\n%s", diff)
	}
}

func TestSkewClock(t *testing.T) {
	p, _, client := setUp(t, faultproxy.Rule{Fault: faultproxy.SkewClock(20 * time.Minute)})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Amz-Date", "20260101T120000Z")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("X-Amz-Date"); got != "20260101T122000Z" {
		t.Errorf("the server saw the date %s", got)
	}
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		t.Fatal(err)
	}
	if behind := time.Since(at); behind < 19*time.Minute || behind > 21*time.Minute {
		t.Errorf("the server's date is %v behind, want 20 minutes", behind)
	}
}

func TestHold(t *testing.T) {
	release, held := make(chan struct{}), make(chan struct{})
	match := func(*http.Request) bool {
		close(held)
		return true
	}
	p, server, client := setUp(t, faultproxy.Rule{Match: match, Fault: faultproxy.Hold(release)})
	done := make(chan error)
	go func() {
		status, _, err := do(t, client, http.MethodGet, p.URL(), "")
		if err == nil && status != 200 {
			err = fmt.Errorf("status %d", status)
		}
		done <- err
	}()
	select {
	case <-held:
	case err := <-done:
		t.Fatalf("answered before it was held: %v", err)
	}
	if got := server.requests(); len(got) != 0 {
		t.Errorf("the server saw %v before the release", got)
	}
	close(release)
	if err := <-done; err != nil {
		t.Errorf("after the release: %v", err)
	}
}

func TestSometimesFollowsTheSeed(t *testing.T) {
	statuses := func(seed uint64) string {
		p, _, client := setUp(t, faultproxy.Rule{Fault: faultproxy.Sometimes(seed, 50, faultproxy.Refuse(500, "A"), faultproxy.Refuse(503, "B"))})
		var out strings.Builder
		for range 40 {
			status, _, err := do(t, client, http.MethodGet, p.URL(), "")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(&out, status, " ")
		}
		return out.String()
	}
	first, again, other := statuses(1), statuses(1), statuses(2)
	if first != again {
		t.Errorf("the same seed gives\n%s and\n%s", first, again)
	}
	if first == other {
		t.Error("two seeds give the same faults")
	}
	for _, want := range []string{"200", "500", "503"} {
		if !strings.Contains(first, want) {
			t.Errorf("no %s among %s", want, first)
		}
	}
}

func TestStartRefusesWhatIsNoURL(t *testing.T) {
	if _, err := faultproxy.Start("127.0.0.1:9000"); err == nil {
		t.Error("an address without a scheme is accepted")
	}
}
