package mcp

import (
	"context"
	"net/http"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentloop/agentloop/pkg/tool"
)

type traceKey struct{}

// TestTraceReachesTheServer sends the caller's trace with the call and in its headers, and none where there is none.
func TestTraceReachesTheServer(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var mu sync.Mutex
	var meta, header []string
	url := sdkServer(t, nil, func(s *sdk.Server) {
		raw(s, "echo", func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			mu.Lock()
			defer mu.Unlock()
			field, _ := req.Params.Meta["traceparent"].(string)
			meta, header = append(meta, field), append(header, req.Extra.Header.Get("traceparent"))
			return &sdk.CallToolResult{}, nil
		})
	})
	set := connect(t, config(url), Options{Trace: func(ctx context.Context) map[string]string {
		if value, ok := ctx.Value(traceKey{}).(string); ok {
			return map[string]string{"traceparent": value}
		}
		return nil
	}})
	for _, ctx := range []context.Context{t.Context(), context.WithValue(t.Context(), traceKey{}, parent)} {
		if got, err := set.Call(ctx, tool.Call{ID: "c", Name: "srv__echo", Arguments: []byte(`{}`)}, nil); err != nil || got.IsError {
			t.Fatal(got, err)
		}
	}
	want := []string{"", parent}
	for i := range want {
		if meta[i] != want[i] || header[i] != want[i] {
			t.Errorf("call %d: _meta %q, header %q, want %q", i, meta[i], header[i], want[i])
		}
	}
}

// TestTraceStaysWithTheServer leaves the fields out of requests to another host.
func TestTraceStaysWithTheServer(t *testing.T) {
	var seen http.Header
	client := &roundTripper{
		host: "tools.example.com", trace: func(context.Context) map[string]string { return map[string]string{"traceparent": "00"} },
		base: capturing(func(r *http.Request) (*http.Response, error) { seen = r.Header; return nil, http.ErrServerClosed }),
	}
	for host, want := range map[string]string{"tools.example.com": "00", "other.example.com": ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+host+"/mcp", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.RoundTrip(req); err == nil { //nolint:bodyclose // no response came
			t.Fatal("no error")
		}
		if got := seen.Get("traceparent"); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}

type capturing func(*http.Request) (*http.Response, error)

func (c capturing) RoundTrip(r *http.Request) (*http.Response, error) { return c(r) }
