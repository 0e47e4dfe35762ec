package viewer

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentloop/agentloop/api/openapi"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory/server"
	"github.com/agentloop/agentloop/pkg/trajectory/server/kubeauth"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// signed makes a token of the API server's own issuer for an account, which is valid from now for as long as lifetime
// says; below zero it has expired. The claims are those of a token that the API server made.
func signed(t *testing.T, real string, lifetime time.Duration) string {
	t.Helper()
	parts := strings.Split(real, ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(raw, &claims); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	claims["exp"] = now.Add(lifetime).Unix()
	claims["iat"], claims["nbf"] = now.Add(-2*time.Hour).Unix(), now.Add(-2*time.Hour).Unix()
	if raw, err = json.Marshal(claims); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(cluster.signer)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(file)
	if block == nil {
		t.Fatal("the API server's signing key is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		t.Fatalf("the API server signs with a %T", parsed)
	}
	text := parts[0] + "." + base64.RawURLEncoding.EncodeToString(raw)
	sum := sha256.Sum256([]byte(text))
	x, y, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	var signature [64]byte // ES256: both numbers in 32 bytes each
	x.FillBytes(signature[:32])
	y.FillBytes(signature[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature[:])
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// ask sends a request and returns its answer.
func ask(t *testing.T, method, url, token string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, body.Bytes()}
}

// TestMatrix asks for every endpoint with every method as everybody. What may be read is what the role says; any other
// method is refused whoever asks.
func TestMatrix(t *testing.T) {
	address := serve(t, kubeauth.Options{})
	right := reader(t, "matrix-right", story.Namespace, "agentloop-trajectory-viewer", "agentloop-trajectory-exporter")
	who := map[string]string{
		"anonymous":            "",
		"a bad token":          "nonsense",
		"a forged token":       right[:len(right)-8] + "AAAAAAAA",
		"an expired token":     signed(t, right, -time.Hour),
		"another namespace":    reader(t, "matrix-other", "other", "agentloop-trajectory-viewer", "agentloop-trajectory-exporter"),
		"the right namespace":  right,
		"a token signed anew":  signed(t, right, time.Hour), // as the expired one, so that nothing else is wrong with that
		"the viewer of no one": reader(t, "matrix-nobody", story.Namespace),
	}
	refused := map[string]int{"anonymous": 401, "a bad token": 401, "a forged token": 401, "an expired token": 401, "another namespace": 403, "the viewer of no one": 403}
	const sample = "/api/sessions/team:sample"
	protected := []string{
		"/api/sessions?namespace=team", sample, sample + "/messages", sample + "/trajectory", sample + "/trajectory/detail?id=run.main.13",
		sample + "/trajectory/text?id=run.main.33", sample + "/trajectory/image?id=run.main.30&block=1", sample + "/trajectory/image?id=run.main.37&message=7&block=1",
		sample + "/trajectory/export", sample + "/trajectory/export?format=otlp-json", sample + "/trajectory/export?format=atif",
	}
	open := []string{"/healthz", "/readyz", "/openapi.json", "/metrics"}
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}
	for name, token := range who {
		for _, path := range append(append([]string{}, protected...), open...) {
			for _, method := range methods {
				want := http.StatusOK
				switch {
				case method != http.MethodGet && method != http.MethodHead:
					want = http.StatusMethodNotAllowed
				case strings.HasPrefix(path, "/api/") && refused[name] != 0:
					want = refused[name]
				}
				answer := ask(t, method, address+path, token)
				if answer.status != want {
					t.Errorf("%s %s as %s: %d, want %d: %.200s", method, path, name, answer.status, want, answer.body)
				}
				if method == http.MethodHead && len(answer.body) > 0 {
					t.Errorf("HEAD %s as %s has a body: %.200s", path, name, answer.body)
				}
				if want != http.StatusOK && method != http.MethodHead {
					var problem struct {
						Status int    `json:"status"`
						Code   string `json:"code"`
					}
					if json.Unmarshal(answer.body, &problem) != nil || problem.Status != want || problem.Code == "" || answer.header.Get("Content-Type") != "application/problem+json" {
						t.Errorf("%s %s as %s: no problem: %s %s", method, path, name, answer.header.Get("Content-Type"), answer.body)
					}
				}
				if got := answer.header.Get("WWW-Authenticate") != ""; got != (want == http.StatusUnauthorized) {
					t.Errorf("%s %s as %s: WWW-Authenticate is %q", method, path, name, answer.header.Get("WWW-Authenticate"))
				}
				if got := answer.header.Get("Allow"); (got == "GET, HEAD") != (want == http.StatusMethodNotAllowed) {
					t.Errorf("%s %s as %s: Allow is %q", method, path, name, got)
				}
				if want == http.StatusUnauthorized || want == http.StatusForbidden {
					if bytes.Contains(answer.body, []byte("It is 42")) || answer.header.Get("ETag") != "" {
						t.Errorf("%s %s as %s: a refusal that says something: %s", method, path, name, answer.body)
					}
				}
			}
		}
	}
}

// untouched is a log and a store that count every read and answer none.
type untouched struct{ reads atomic.Int64 }

func (u *untouched) read() error {
	u.reads.Add(1)
	return runevent.ErrUnavailable
}

func (u *untouched) Read(context.Context, runevent.Stream, int64, func(runevent.Record) error) error {
	return u.read()
}

func (u *untouched) Streams(context.Context, string, string) ([]runevent.Record, error) {
	return nil, u.read()
}

func (u *untouched) Put(context.Context, cas.Scope, string, []byte) (cas.Ref, error) {
	return cas.Ref{}, u.read()
}

func (u *untouched) Get(context.Context, cas.Scope, cas.Ref) ([]byte, error) { return nil, u.read() }

func (u *untouched) List(context.Context, cas.Scope, func(cas.Ref) error) error { return u.read() }

func (u *untouched) Purge(context.Context, cas.Scope) error { return u.read() }

// TestNothingOfAnAddressReachesTheStores asks for digests, keys and paths in every place of an address that takes a word,
// as somebody who may read everything of the namespace. None is looked for in the log or the store.
func TestNothingOfAnAddressReachesTheStores(t *testing.T) {
	gate, err := kubeauth.NewGate(cluster.viewer, kubeauth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	directory, err := kubeauth.NewDirectory(cluster.viewer)
	if err != nil {
		t.Fatal(err)
	}
	stores := &untouched{}
	handler, err := server.New(server.Options{
		Gate: gate, Directory: directory, Log: stores, Store: stores, Document: openapi.Trajectory, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	httpServer := httptest.NewServer(handler)
	t.Cleanup(httpServer.Close)
	token := reader(t, "digger", story.Namespace, "agentloop-trajectory-viewer", "agentloop-trajectory-exporter")
	digest := strings.Repeat("ab", 32)
	words := []string{
		digest, "sha256:" + digest, "sha256%3A" + digest, "..", "%2e%2e", "..%2f..%2fother", "%2e%2e%2f" + digest, "..%5c..", ".", "%2F", "%00", "a%00b",
		"v1%2Fteam%2F" + story.Session + "%2Fcas%2Fsha256%2Fab%2Fab%2F" + digest, "agentloop.run.team." + story.Session + ".main", "*", "%3E", "team:*",
		"team:" + digest, "team:sha256:" + digest, "team:..%2F..%2Fother:x", "team%2Fsample", "TEAM:sample", "team:sample:x", "team::sample",
	}
	tails := []string{"", "/messages", "/trajectory", "/trajectory/detail?id=x", "/trajectory/text?id=x", "/trajectory/image?id=x&block=0", "/trajectory/export"}
	expect := func(path string) {
		t.Helper()
		status, body := rawGet(t, httpServer.URL, path, token)
		if status/100 != 4 && status/100 != 3 {
			t.Errorf("GET %s: %d: %.200s", path, status, body)
		}
		if n := stores.reads.Swap(0); n != 0 {
			t.Errorf("GET %s reached the stores %d times", path, n)
		}
	}
	for _, word := range words {
		for _, tail := range tails {
			expect("/api/sessions/" + word + tail)
		}
		expect("/api/sessions/team:sample/" + word)
		expect("/api/sessions/team:sample/trajectory/" + word)
		expect("/api/sessions/team:sample/trajectory/detail/" + word)
		expect("/api/sessions/team:sample/trajectory/text/" + word)
		expect("/api/sessions/team:sample/trajectory/image/" + word)
		expect("/api/" + word)
		expect("/" + word + "/cas/sha256/" + digest)
	}
	for _, query := range []string{
		"/detail?id=" + strings.Repeat("a", 513), "/detail?digest=sha256:" + digest, "/detail?id=x&path=../x",
		"/text?digest=sha256:" + digest, "/text?id=x&ref=" + digest, "/image?id=x&block=sha256:" + digest, "/image?id=x&block=0&message=../x", "/image?id=x&block=0&ref=" + digest,
		"?key=" + url.QueryEscape("v1/team"),
		"?after=" + strings.Repeat("a", 4097), "/export?digest=sha256:" + digest, "/export?format=../x",
	} {
		expect("/api/sessions/team:sample/trajectory" + query)
	}
}

// rawGet sends an address as it is written, which http.Client would clean.
func rawGet(t *testing.T, address, path, token string) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.URL.Opaque = "//" + request.URL.Host + path
	if before, query, ok := strings.Cut(path, "?"); ok {
		request.URL.Opaque, request.URL.RawQuery = "//"+request.URL.Host+before, query
	}
	request.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	// The multiplexer cleans a path by sending the client to another address, where everything is asked anew.
	if to := response.Header.Get("Location"); response.StatusCode/100 == 3 && (to == path || strings.Contains(to, "..")) {
		t.Errorf("GET %s leads to %s", path, to)
	}
	return response.StatusCode, body.Bytes()
}

// TestEntriesOfOtherSessions holds that an id or a digest of one session opens nothing of another.
func TestEntriesOfOtherSessions(t *testing.T) {
	address := serve(t, kubeauth.Options{})
	token := reader(t, "curious-too", story.Namespace, "agentloop-trajectory-viewer")
	for _, id := range []string{"run.main.13", "sha256:" + strings.Repeat("ab", 32), "legacy.0123456789abcdef.1", "out.x.1", "../run.main.13", "run.main.13/..", "run.main.999999999999999999999"} {
		for _, part := range []string{"detail?", "text?", "image?block=0&"} {
			path := fmt.Sprintf("/api/sessions/team:fresh.one/trajectory/%sid=%s", part, url.QueryEscape(id))
			if answer := ask(t, http.MethodGet, address+path, token); answer.status != http.StatusNotFound {
				t.Errorf("GET %s: %d: %.200s", path, answer.status, answer.body)
			}
		}
	}
}
