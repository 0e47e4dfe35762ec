package s3store

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/castest"
	"github.com/agentloop/agentloop/test/faultproxy"
	"github.com/agentloop/agentloop/test/services"
)

func TestConformance(t *testing.T) {
	s3 := server(t)
	opts := optionsFor(s3, s3.Endpoint)
	t.Run("with a prefix", func(t *testing.T) {
		castest.Run(t, func(t *testing.T) cas.Store { return newStore(t, opts) })
	})
	t.Run("without a prefix and with short pages", func(t *testing.T) {
		opts := opts
		opts.Prefix, opts.pageSize = "", 7
		castest.Run(t, func(t *testing.T) cas.Store { return newStore(t, opts) })
	})
	t.Run("without conditional writes", func(t *testing.T) {
		castest.Run(t, func(t *testing.T) cas.Store {
			s := newStore(t, opts)
			s.unconditional.Store(true)
			return s
		})
	})
}

// The whole suite passes while every fifth request is spoilt, whatever it is.
func TestConformanceThroughFaults(t *testing.T) {
	faults := map[string][]faultproxy.Fault{
		"overload":           {faultproxy.Refuse(503, "SlowDown"), faultproxy.Refuse(500, "InternalError"), faultproxy.Refuse(429, "TooManyRequests")},
		"broken connections": {faultproxy.ResetBefore(), faultproxy.ResetAfter(), faultproxy.CutAnswer(5), faultproxy.CutUpload(2)},
		"false answers": {
			faultproxy.Lie(500, "InternalError"), faultproxy.Refuse(200, "InternalError"), faultproxy.Lie(200, "SlowDown"),
			faultproxy.Refuse(409, "ConditionalRequestConflict"), faultproxy.Fixed(faultproxy.Answer{Status: 404, Body: []byte("<html>no such page</html>")}),
		},
	}
	seed := uint64(0)
	for name, some := range faults {
		seed++
		t.Run(name, func(t *testing.T) {
			castest.Run(t, func(t *testing.T) cas.Store {
				spoilt, _, proxy := throughProxy(t, func(o *Options) { o.Retry.Attempts = 15 })
				proxy.Script(faultproxy.Rule{Name: name, Fault: faultproxy.Sometimes(seed, 20, some...)})
				return spoilt
			})
		})
	}
}

func TestOverTLS(t *testing.T) {
	s3 := server(t)
	target, err := url.Parse(s3.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host // the Host header stays: it is signed
	}})
	t.Cleanup(front.Close)
	opts := optionsFor(s3, front.URL)
	untrusting := newStore(t, opts)
	scope := cas.Scope{Namespace: "tls", Session: "s"}
	if _, err := untrusting.Put(t.Context(), scope, cas.MediaBlob, []byte("x")); !errors.Is(err, ErrUnreachable) {
		t.Errorf("without the CA: got %v, want %v", err, ErrUnreachable)
	}
	opts.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	trusting := newStore(t, opts)
	scope = castest.NewScope(t, trusting)
	ref, err := trusting.Put(t.Context(), scope, cas.MediaBlob, []byte("secret words"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := trusting.Get(t.Context(), scope, ref); err != nil || string(got) != "secret words" {
		t.Errorf("got %q, error %v", got, err)
	}
	opts.Endpoint = "https://" + s3.Host
	if _, err := newStore(t, opts).Put(t.Context(), scope, cas.MediaBlob, []byte("x")); !errors.Is(err, ErrUnreachable) {
		t.Errorf("TLS against a plain port: got %v, want %v", err, ErrUnreachable)
	}
}

// A server that is killed in the middle of puts loses none that it acknowledged, and the puts go on when it is back.
func TestServerIsKilled(t *testing.T) {
	s3 := services.S3ForTest(t)
	opts := optionsFor(s3, s3.Endpoint)
	opts.Retry = Retry{Attempts: 200, First: 5 * time.Millisecond, Most: 50 * time.Millisecond, Attempt: 5 * time.Second}
	store := newStore(t, opts)
	scope := cas.Scope{Namespace: "killed", Session: "s"}
	const writers, each = 4, 60
	started := make(chan struct{}, writers*each)
	var mu sync.Mutex
	acked := map[cas.Ref][]byte{}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				data := castest.Noise(3000+i, uint64(w*1000+i))
				started <- struct{}{}
				ref, err := store.Put(t.Context(), scope, cas.MediaBlob, data)
				if err != nil {
					t.Errorf("writer %d, put %d: %v", w, i, err)
					return
				}
				mu.Lock()
				acked[ref] = data
				mu.Unlock()
			}
		})
	}
	for range 2 {
		for range writers * each / 4 {
			<-started
		}
		if err := s3.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := s3.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if len(acked) != writers*each {
		t.Errorf("%d puts were acknowledged, want %d", len(acked), writers*each)
	}
	for ref, data := range acked {
		got, err := store.Get(t.Context(), scope, ref)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("acknowledged object %s: %d bytes, error %v", ref.Digest, len(got), err)
		}
	}
}

func TestContextEndsWaits(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	calls := map[string]func(context.Context, *Store, cas.Scope) error{
		"put": func(ctx context.Context, s *Store, scope cas.Scope) error {
			_, err := s.Put(ctx, scope, cas.MediaBlob, []byte("x"))
			return err
		},
		"get": func(ctx context.Context, s *Store, scope cas.Scope) error {
			_, err := s.Get(ctx, scope, cas.Ref{Digest: cas.Of([]byte("x"))})
			return err
		},
		"list": func(ctx context.Context, s *Store, scope cas.Scope) error {
			return s.List(ctx, scope, func(cas.Ref) error { return nil })
		},
		"purge": func(ctx context.Context, s *Store, scope cas.Scope) error { return s.Purge(ctx, scope) },
	}
	waits := map[string]faultproxy.Fault{
		"an answer that does not come": faultproxy.Hold(release),
		"the pause before a retry":     faultproxy.Refuse(http.StatusServiceUnavailable, "SlowDown"),
	}
	for callName, call := range calls {
		for waitName, fault := range waits {
			t.Run(fmt.Sprintf("%s ends in %s", callName, waitName), func(t *testing.T) {
				spoilt, _, proxy := throughProxy(t, func(o *Options) { o.Retry.First, o.Retry.Most = time.Hour, time.Hour })
				ctx, cancel := context.WithCancel(t.Context())
				arrived := sync.OnceFunc(cancel)
				proxy.Script(faultproxy.Rule{Fault: func(e *faultproxy.Exchange) {
					arrived()
					fault(e)
				}})
				err := call(ctx, spoilt, cas.Scope{Namespace: "ctx", Session: "s"})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want %v", err, context.Canceled)
				}
			})
		}
	}
}

func TestAttemptsAreBoundedInTime(t *testing.T) {
	for name, retry := range map[string]Retry{
		"a request with its answer":   {Attempt: 200 * time.Millisecond},
		"the beginning of the answer": {Attempt: time.Hour, Answer: 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			t.Cleanup(func() { close(release) })
			spoilt, _, proxy := throughProxy(t, func(o *Options) { o.Retry.Attempt, o.Retry.Answer = retry.Attempt, retry.Answer })
			proxy.Script(faultproxy.Rule{Name: "hang", Times: 1, Fault: faultproxy.Hold(release)})
			scope := castest.NewScope(t, spoilt)
			if _, err := spoilt.Put(t.Context(), scope, cas.MediaBlob, []byte("x")); err != nil {
				t.Fatal(err)
			}
			if got := trace(proxy); got != "PUT(hang) PUT" {
				t.Errorf("requests: %s", got)
			}
		})
	}
}
