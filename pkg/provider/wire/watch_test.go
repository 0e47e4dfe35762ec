package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentloop/agentloop/pkg/provider"
)

// network is a provider that sends bytes at given times. It ends with the request's context, as net/http does.
type network struct {
	headers time.Duration // before the headers
	pause   time.Duration // before each piece
	pieces  []string
	silent  bool // says nothing after the last piece
}

func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return nil, err
	}
	if err := sleep(req.Context(), n.headers); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: req,
		Body: &slowBody{n: n, ctx: req.Context()}}, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type slowBody struct {
	n   *network
	ctx context.Context
	at  int
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.at == len(b.n.pieces) {
		if b.n.silent {
			<-b.ctx.Done()
			return 0, b.ctx.Err()
		}
		return 0, io.EOF
	}
	if err := sleep(b.ctx, b.n.pause); err != nil {
		return 0, err
	}
	b.at++
	return copy(p, b.n.pieces[b.at-1]), nil
}

func (b *slowBody) Close() error { return nil }

// plain is a protocol whose every event is text and whose end is "end".
type plain struct {
	a    *Assembly
	done bool
}

func (p *plain) Event(e Event) (bool, error) {
	if string(e.Data) == "end" {
		p.done = true
		return true, nil
	}
	p.a.Text(Key{}, string(e.Data))
	return false, nil
}

func (p *plain) End() End { return End{Complete: p.done, Stop: "stop", Raw: "end"} }

func stream(ctx context.Context, cfg Config) (provider.Response, *provider.Error) {
	c, err := New(cfg, "http://models.example.com")
	if err != nil {
		panic(err)
	}
	resp, err := c.Stream(ctx, Call{
		Request: provider.Request{Guard: func([]byte) error { return nil }},
		OnDelta: func(provider.Delta) {},
		Send: func(ctx context.Context) (*http.Response, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.BaseURL, strings.NewReader("{}"))
			if err != nil {
				return nil, err
			}
			return c.HTTP.Do(req)
		},
		Decoder: func(a *Assembly) Decoder { return &plain{a: a} },
	})
	var failure *provider.Error
	errors.As(err, &failure)
	return resp, failure
}

func TestTimeouts(t *testing.T) {
	pieces := []string{"data: a\n\n", ": still here\n\n", "data: b\n\n", ": still here\n\n", "data: end\n\n"}
	cases := map[string]struct {
		network network
		cfg     Config
		code    string // empty when the call succeeds
		took    time.Duration
	}{
		"slow but never silent for long": {
			network: network{headers: 50 * time.Second, pause: 50 * time.Second, pieces: pieces}, cfg: Config{IdleTimeout: time.Minute},
			took: 300 * time.Second,
		},
		"comments are signs of life, silence is not": {
			network: network{pause: 50 * time.Second, pieces: pieces[:4], silent: true}, cfg: Config{IdleTimeout: time.Minute},
			code: "idle_timeout", took: 260 * time.Second,
		},
		"no headers": {
			network: network{headers: time.Hour}, cfg: Config{IdleTimeout: time.Minute}, code: "idle_timeout", took: time.Minute,
		},
		"the default idle timeout": {
			network: network{headers: time.Hour}, code: "idle_timeout", took: DefaultIdleTimeout,
		},
		"no idle timeout": {
			network: network{headers: time.Hour, pieces: pieces}, cfg: Config{IdleTimeout: -1}, took: time.Hour,
		},
		"the request timeout counts altogether": {
			network: network{pause: 50 * time.Second, pieces: pieces}, cfg: Config{IdleTimeout: time.Minute, RequestTimeout: 2 * time.Minute},
			code: "request_timeout", took: 2 * time.Minute,
		},
		"a stream that stays open after its end is let go": {
			network: network{pieces: pieces, silent: true}, cfg: Config{IdleTimeout: time.Minute}, took: drainTime,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.cfg.Transport = &c.network
				begin := time.Now()
				resp, failure := stream(context.Background(), c.cfg)
				if took := time.Since(begin); took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
				switch {
				case c.code == "" && failure != nil:
					t.Fatalf("failed: %v: %v", failure, failure.Err)
				case c.code == "" && resp.Message.PlainText() != "ab":
					t.Errorf("text %q", resp.Message.PlainText())
				case c.code != "" && (failure == nil || failure.Code != c.code || failure.Class != provider.ClassTransient):
					t.Errorf("failure %+v", failure)
				}
			})
		})
	}
}

func TestTheCallersContextWinsOverTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_, failure := stream(ctx, Config{IdleTimeout: time.Minute, Transport: &network{headers: time.Hour}})
		if failure == nil || failure.Class != provider.ClassCancelled || !errors.Is(failure, context.DeadlineExceeded) || !failure.Dispatched {
			t.Errorf("failure %+v", failure)
		}
	})
}

func TestOneCallIsOneRequest(t *testing.T) {
	sent := 0
	c, err := New(Config{Transport: roundTripper(func(*http.Request) (*http.Response, error) { sent++; return nil, errors.New("down") })}, "http://models.example.com")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Stream(context.Background(), Call{
		Request: provider.Request{Guard: func([]byte) error { return nil }},
		OnDelta: func(provider.Delta) {},
		Send: func(ctx context.Context) (*http.Response, error) { // a client below that retries
			var resp *http.Response
			var err error
			for range 3 {
				req, _ := http.NewRequestWithContext(ctx, http.MethodPost, c.BaseURL, strings.NewReader("{}"))
				if resp, err = c.HTTP.Do(req); err == nil {
					break
				}
			}
			return resp, err
		},
		Decoder: func(a *Assembly) Decoder { return &plain{a: a} },
	})
	if sent != 1 || err == nil {
		t.Errorf("%d requests were sent, error %v", sent, err)
	}
}

func TestARequestOutsideACallIsRefused(t *testing.T) {
	c, err := New(Config{Transport: roundTripper(func(*http.Request) (*http.Response, error) { panic("sent") })}, "http://models.example.com")
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]io.Reader{"with a body": strings.NewReader("{}"), "without": nil} {
		req, err := http.NewRequest(http.MethodPost, c.BaseURL, body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.HTTP.Do(req); !errors.Is(err, provider.ErrNoGuard) { //nolint:bodyclose // refused, so there is no response
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestTheTransportLeavesTheRequestAlone(t *testing.T) {
	var got *http.Request
	var body string
	c, err := New(Config{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		got = r
		raw, err := io.ReadAll(r.Body)
		body = string(raw)
		again, _ := r.GetBody()
		raw2, _ := io.ReadAll(again)
		if string(raw2) != body {
			t.Errorf("the body can be read once as %q and again as %q", body, raw2)
		}
		return nil, errors.Join(err, errors.New("down"))
	})}, "http://models.example.com")
	if err != nil {
		t.Fatal(err)
	}
	hooked := &call{guard: func([]byte) error { return nil }, hook: func([]byte) ([]byte, error) { return []byte("longer than before"), nil }}
	req, err := http.NewRequestWithContext(withCall(context.Background(), hooked), http.MethodPost, c.BaseURL, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "signed")
	before := req.Header.Clone()
	if _, err := c.HTTP.Transport.RoundTrip(req); err == nil { //nolint:bodyclose // no response came
		t.Fatal("no error")
	}
	if body != "longer than before" || got.ContentLength != int64(len(body)) {
		t.Errorf("sent %q with length %d", body, got.ContentLength)
	}
	if req.ContentLength != 2 || len(req.Header) != len(before) || req.Header.Get("Authorization") != "signed" || got.Header.Get("Authorization") != "signed" {
		t.Errorf("the caller's request was changed: %v", req.Header)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
