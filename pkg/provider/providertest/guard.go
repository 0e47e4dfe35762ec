package providertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"testing"

	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

func guards(t *testing.T, a Adapter) {
	refused := errors.New("above the reserve")
	t.Run("a refusal stops the request for good", func(t *testing.T) {
		server := NewServer(t, Frames(a.Text("Hello.")...))
		calls := 0
		req := Request(a.API)
		req.Guard = func([]byte) error { calls++; return refused }
		o := Call(context.Background(), t, a.Client(t, wire.Config{BaseURL: server.URL}), req)
		wantRejected(t, o, refused)
		if n := len(server.Requests()); n != 0 || calls != 1 {
			t.Errorf("%d requests and %d guard calls, want 0 and 1", n, calls)
		}
	})
	t.Run("no guard, no request", func(t *testing.T) {
		server := NewServer(t, Frames(a.Text("Hello.")...))
		req := Request(a.API)
		req.Guard = nil
		wantRejected(t, Call(context.Background(), t, a.Client(t, wire.Config{BaseURL: server.URL}), req), provider.ErrNoGuard)
		if n := len(server.Requests()); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
	t.Run("the guard sees the bytes that arrive", func(t *testing.T) {
		server := NewServer(t, Frames(a.Text("Hello.")...))
		var seen []byte
		req := Request(a.API)
		req.Sampling = json.RawMessage(`{"temperature":0.5,"metadata":{"a.b":"<c>"}}`)
		req.Guard = func(body []byte) error { seen = bytes.Clone(body); return nil }
		if o := Call(context.Background(), t, a.Client(t, wire.Config{BaseURL: server.URL}), req); o.Err != nil {
			t.Fatal(o.Err)
		}
		got := server.Requests()[0].Body
		if !bytes.Equal(seen, got) {
			t.Errorf("guard saw %s\nserver got %s", seen, got)
		}
		var body struct {
			Stream      bool              `json:"stream"`
			Temperature float64           `json:"temperature"`
			Metadata    map[string]string `json:"metadata"`
		}
		if err := json.Unmarshal(got, &body); err != nil || !body.Stream || body.Temperature != 0.5 || body.Metadata["a.b"] != "<c>" {
			t.Errorf("body %s (%v)", got, err)
		}
	})
	t.Run("the hook comes first and its bytes are what is guarded and sent", func(t *testing.T) {
		server := NewServer(t, Frames(a.Text("Hello.")...))
		replaced := []byte(`{"model":"other","stream":true}`)
		var seen []byte
		req := Request(a.API)
		req.CallerHook = func([]byte) ([]byte, error) { return replaced, nil }
		req.Guard = func(body []byte) error { seen = bytes.Clone(body); return nil }
		if o := Call(context.Background(), t, a.Client(t, wire.Config{BaseURL: server.URL}), req); o.Err != nil {
			t.Fatal(o.Err)
		}
		if got := server.Requests()[0].Body; !bytes.Equal(seen, replaced) || !bytes.Equal(got, replaced) {
			t.Errorf("guard saw %s, server got %s", seen, got)
		}
	})
	t.Run("a hook's error stops the request", func(t *testing.T) {
		server := NewServer(t, Frames(a.Text("Hello.")...))
		req := Request(a.API)
		req.CallerHook = func([]byte) ([]byte, error) { return nil, refused }
		wantRejected(t, Call(context.Background(), t, a.Client(t, wire.Config{BaseURL: server.URL}), req), refused)
		if n := len(server.Requests()); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
	t.Run("sampling cannot take over the request", func(t *testing.T) {
		server := NewServer(t, Frames(a.Text("Hello.")...))
		req := Request(a.API)
		req.Sampling = json.RawMessage(`{"previous_response_id":"resp_0"}`)
		wantRejected(t, Call(context.Background(), t, a.Client(t, wire.Config{BaseURL: server.URL}), req), provider.ErrSampling)
		if n := len(server.Requests()); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
	t.Run("equal requests have equal bytes", func(t *testing.T) {
		server := NewServer(t, Frames(a.Text("Hello.")...))
		req := Request(a.API)
		req.Sampling = json.RawMessage(`{"top_p":0.9,"temperature":1,"seed":1,"stop":["x"],"user":"u"}`)
		client := a.Client(t, wire.Config{BaseURL: server.URL})
		for range 5 {
			if o := Call(context.Background(), t, client, req); o.Err != nil {
				t.Fatal(o.Err)
			}
		}
		for _, r := range server.Requests()[1:] {
			if first := server.Requests()[0].Body; !bytes.Equal(r.Body, first) {
				t.Fatalf("bodies differ:\n%s\n%s", first, r.Body)
			}
		}
	})
}

func wantRejected(t *testing.T, o Outcome, cause error) {
	t.Helper()
	if o.Failure == nil || o.Failure.Class != provider.ClassRejected || !errors.Is(o.Err, cause) || o.Failure.Dispatched || o.Failure.HTTPStatus != 0 {
		t.Fatalf("error %v (%+v), want class rejected over %v", o.Err, o.Failure, cause)
	}
}

func network(t *testing.T, a Adapter) {
	t.Run("nobody listens", func(t *testing.T) { nobodyListens(t, a) })
	t.Run("a certificate of an unknown authority, and the bundle that makes it known", func(t *testing.T) { certificates(t, a) })
	t.Run("a proxy is used when it is configured and never taken from the environment", func(t *testing.T) { proxies(t, a) })
	t.Run("configured headers go out, the environment's keys do not", func(t *testing.T) { headers(t, a) })
	t.Run("a connection is used again after a whole response", func(t *testing.T) { reuse(t, a) })
}

func nobodyListens(t *testing.T, a Adapter) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	o := Call(context.Background(), t, a.Client(t, wire.Config{BaseURL: "http://" + address}), Request(a.API))
	if f := o.Failure; f == nil || f.Class != provider.ClassTransient || f.Code != "connect" || f.HTTPStatus != 0 {
		t.Errorf("failure %+v", f)
	}
}

func certificates(t *testing.T, a Adapter) {
	server, pem := NewTLSServer(t, Frames(a.Text("Hello.")...))
	o := Call(context.Background(), t, a.Client(t, wire.Config{BaseURL: server.URL}), Request(a.API))
	if f := o.Failure; f == nil || f.Class != provider.ClassTransient || f.Code != "tls" {
		t.Errorf("failure %+v", f)
	}
	o = Call(context.Background(), t, a.Client(t, wire.Config{BaseURL: server.URL, CABundle: pem}), Request(a.API))
	if o.Err != nil {
		t.Errorf("with the bundle: %v", errors.Unwrap(o.Err))
	}
}

func proxies(t *testing.T, a Adapter) {
	proxy := NewServer(t, Frames(a.Text("Hello.")...)) // answers for any host
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	server := NewServer(t, Frames(a.Text("Hello.")...))
	if o := Call(context.Background(), t, a.Client(t, wire.Config{BaseURL: server.URL}), Request(a.API)); o.Err != nil {
		t.Fatal(o.Err)
	}
	if len(proxy.Requests()) != 0 {
		t.Error("the environment's proxy was used")
	}
	o := Call(context.Background(), t, a.Client(t, wire.Config{BaseURL: "http://models.invalid", Proxy: proxy.URL}), Request(a.API))
	if o.Err != nil || len(proxy.Requests()) != 1 {
		t.Errorf("error %v, %d requests at the proxy", o.Err, len(proxy.Requests()))
	}
}

func headers(t *testing.T, a Adapter) {
	for _, key := range a.EnvKeys {
		t.Setenv(key, "ambient: ambient-value")
	}
	server := NewServer(t, Frames(a.Text("Hello.")...))
	s, err := a.New(wire.Config{BaseURL: server.URL, Headers: map[string]string{"x-team": "blue"}})
	if err != nil {
		t.Fatal(err)
	}
	if o := Call(context.Background(), t, s, Request(a.API)); o.Err != nil {
		t.Fatal(o.Err)
	}
	got := server.Requests()[0]
	if got.Header.Get("X-Team") != "blue" {
		t.Errorf("headers %v", got.Header)
	}
	for name, values := range got.Header {
		for _, v := range values {
			if bytes.Contains([]byte(v), []byte("ambient")) || name == "Ambient" || name == "Authorization" || name == "X-Api-Key" {
				t.Errorf("ambient header %s: %s", name, v)
			}
		}
	}
}

func reuse(t *testing.T, a Adapter) {
	server := NewServer(t, Frames(a.Text("Hello.")...))
	dials := 0
	dialer := &net.Dialer{}
	client := a.Client(t, wire.Config{BaseURL: server.URL, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		return dialer.DialContext(ctx, network, address)
	}})
	for range 3 {
		if o := Call(context.Background(), t, client, Request(a.API)); o.Err != nil {
			t.Fatal(o.Err)
		}
	}
	if dials != 1 {
		t.Errorf("%d connections for 3 calls, want 1", dials)
	}
}
