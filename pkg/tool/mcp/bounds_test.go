package mcp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/tool"
)

// flood writes a text result of many bytes and counts what it got rid of.
func flood(w http.ResponseWriter, req rpcRequest, size int64, stream bool, written *atomic.Int64) {
	head := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, req.ID)
	tail := `"}]}}`
	w.Header().Set("Content-Type", "application/json")
	if stream {
		w.Header().Set("Content-Type", "text/event-stream")
		head, tail = "id: 1\ndata: "+head, tail+"\n\n"
	}
	fmt.Fprint(w, head)
	chunk := strings.Repeat("x", 64<<10)
	for size > 0 {
		n, err := fmt.Fprint(w, chunk)
		written.Add(int64(n))
		if err != nil {
			return
		}
		size -= int64(n)
	}
	fmt.Fprint(w, tail)
}

func TestHugeResultsAreNotHeld(t *testing.T) {
	const limit, huge = 2 << 20, 50 << 20
	for name, stream := range map[string]bool{"event stream": true, "JSON": false} {
		t.Run(name, func(t *testing.T) {
			var written atomic.Int64
			f := &fake{}
			f.call = func(w http.ResponseWriter, _ *http.Request, req rpcRequest) {
				if req.Params.Name == "add" {
					answer(w, req, `{"content":[{"type":"text","text":"ok"}]}`)
					return
				}
				flood(w, req, huge, stream, &written)
			}
			set := connect(t, config(f.start(t).URL), Options{MaxResponseBytes: limit})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := call(t, set, "srv__write", `{}`)
			runtime.ReadMemStats(&after)
			wantText(t, got, "larger than 2097152 bytes and was not kept", "Ask for less", "probably done its work")
			if !got.IsError || got.Audit.Outcome != "protocol" || !got.Audit.Truncated || !strings.Contains(string(got.Details), `"truncated":{"bytes":`) {
				t.Errorf("result %+v with details %s", got.Audit, got.Details)
			}
			// Everything that was ever allocated meanwhile, the test's own server included, is below the result's size.
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > huge/2 {
				t.Errorf("%d bytes were allocated for a result of %d with a bound of %d", allocated, huge, limit)
			}
			wantText(t, call(t, set, "srv__add", `{}`), "ok")
			if n := written.Load(); n > huge/2 {
				t.Errorf("the server could write %d bytes", n)
			}
		})
	}
}

func TestResultsWithinTheResponseBoundAreCut(t *testing.T) {
	for name, stream := range map[string]bool{"event stream": true, "JSON": false} {
		t.Run(name, func(t *testing.T) {
			var written atomic.Int64
			f := &fake{call: func(w http.ResponseWriter, _ *http.Request, req rpcRequest) { flood(w, req, 1<<20, stream, &written) }}
			cfg := config(f.start(t).URL)
			cfg.MaxResultBytes = 4096
			set := connect(t, cfg, Options{})
			got := call(t, set, "srv__write", `{}`)
			if got.IsError || len(text(got)) > 4096 || !got.Audit.Truncated || got.Audit.Bytes != 1<<20 {
				t.Errorf("isError %t, %d bytes of text, audit %+v", got.IsError, len(text(got)), got.Audit)
			}
			wantText(t, got, "xxxx\n\n[Cut: the first ", " of 1048576 bytes are shown.")
		})
	}
}

func TestProgressFloodIsBounded(t *testing.T) {
	f := &fake{call: func(w http.ResponseWriter, _ *http.Request, req rpcRequest) {
		w.Header().Set("Content-Type", "text/event-stream")
		note := fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%q,\"progress\":1,\"message\":\"%s\"}}\n\n",
			req.Params.Meta.ProgressToken, strings.Repeat("m", 4000))
		for {
			if _, err := fmt.Fprint(w, note); err != nil {
				return
			}
		}
	}}
	set := connect(t, config(f.start(t).URL), Options{MaxResponseBytes: 1 << 20})
	longest := 0
	got, err := set.Call(t.Context(), tool.Call{Name: "srv__write"}, func(s string) { longest = max(longest, len(s)) })
	if err != nil || !got.IsError {
		t.Fatalf("error %v, result %+v", err, got)
	}
	wantText(t, got, "larger than")
	if longest > maxProgressText {
		t.Errorf("a progress text of %d bytes", longest)
	}
}

func TestErrorTextsAreBoundedAndBlanked(t *testing.T) {
	f := &fake{call: func(w http.ResponseWriter, r *http.Request, req rpcRequest) {
		rpcFail(w, req, http.StatusOK, -32603, r.Header.Get("Authorization")+strings.Repeat(" more", 4000))
	}}
	cfg := config(f.start(t).URL)
	cfg.BearerToken = secret
	got := call(t, connect(t, cfg, Options{}), "srv__write", `{}`)
	if strings.Contains(text(got), secret) || len(text(got)) > maxServerText {
		t.Errorf("%d bytes: %.200q", len(text(got)), text(got))
	}
	wantText(t, got, "Bearer [redacted]", "…")
}

// settled waits until no more goroutines run than before.
func settled(t *testing.T, before int) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	look := time.NewTicker(5 * time.Millisecond) // nothing tells when a goroutine is gone
	defer look.Stop()
	for runtime.NumGoroutine() > before {
		select {
		case <-look.C:
		case <-deadline:
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func TestCloseEndsCallsAndLeavesNothing(t *testing.T) {
	for name, json := range map[string]bool{"event stream": false, "JSON": true} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			started := make(chan struct{}, 4)
			f := &fake{sessions: map[string]bool{}, pages: []string{"[" + plainTool + "," + riskyTool + "]"}}
			f.call = func(w http.ResponseWriter, r *http.Request, req rpcRequest) {
				if !json {
					w.Header().Set("Content-Type", "text/event-stream")
					w.(http.Flusher).Flush()
				}
				started <- struct{}{}
				<-r.Context().Done()
			}
			server := httptest.NewServer(f)
			set, _, err := Connect(t.Context(), []ServerConfig{config(server.URL)}, Options{Addresses: local})
			if err != nil {
				t.Fatal(err)
			}
			results := make(chan tool.Result, 3)
			for range 3 {
				go func() {
					result, err := set.Call(t.Context(), tool.Call{Name: "srv__write"}, nil)
					if err != nil {
						t.Errorf("call: %v", err)
					}
					results <- result
				}()
			}
			for range 3 {
				<-started
			}
			if err := set.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			for range 3 {
				result := <-results
				wantText(t, result, "The run is ending and the call was cancelled", "Its effect is unknown")
			}
			late, err := set.Call(t.Context(), tool.Call{Name: "srv__write"}, nil)
			if err != nil {
				t.Error(err)
			}
			wantText(t, late, "The run is ending. The call was not run.")
			if err := set.Close(); err != nil {
				t.Errorf("second close: %v", err)
			}
			server.Close()
			settled(t, before)
		})
	}
}

func TestFailedConnectLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, tc := range badServers {
		server := httptest.NewServer(tc.handler)
		cfg := config(server.URL)
		if _, _, err := Connect(t.Context(), []ServerConfig{cfg}, Options{Addresses: local, ConnectTimeout: time.Second, MaxResponseBytes: 1 << 20}); err == nil {
			t.Error("connected")
		}
		server.CloseClientConnections()
		server.Close()
	}
	settled(t, before)
}

func TestLostSessionsLeaveNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	f := &fake{sessions: map[string]bool{}, pages: []string{"[" + plainTool + "]"}}
	server := httptest.NewServer(f)
	cfg := config(server.URL)
	cfg.RetrySafe = []string{All}
	set, _, err := Connect(t.Context(), []ServerConfig{cfg}, Options{Addresses: local})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		f.forget()
		wantText(t, call(t, set, "srv__add", `{}`), "ok")
	}
	if err := set.Close(); err != nil {
		t.Error(err)
	}
	server.Close()
	settled(t, before)
}
