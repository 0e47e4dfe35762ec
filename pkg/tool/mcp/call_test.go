package mcp

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentloop/agentloop/pkg/tool"
)

func pemOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func TestCallOverEveryTransportOfTheProtocol(t *testing.T) {
	transports := map[string]*sdk.StreamableHTTPOptions{
		"event stream with sessions":       nil,
		"JSON with sessions":               {JSONResponse: true},
		"event stream without sessions":    {Stateless: true},
		"JSON without sessions":            {Stateless: true, JSONResponse: true},
		"event stream with stored events":  {EventStore: sdk.NewMemoryEventStore(nil)},
		"event stream, the newest version": {Stateless: true},
	}
	for name, opts := range transports {
		t.Run(name, func(t *testing.T) {
			url := sdkServer(t, opts, func(s *sdk.Server) {
				raw(s, "echo", func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(req.Params.Arguments)}}}, nil
				})
				raw(s, "broken", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "disk full"}}}, nil
				})
			})
			set := connect(t, config(url), Options{})
			got := call(t, set, "srv__echo", `{"n":12345678901234567890,"s":"é"}`)
			wantText(t, got, `12345678901234567890`, `é`)
			audit := tool.Audit{Server: "srv", Method: "tools/call", Tool: "echo", Outcome: "ok", Bytes: int64(len(text(got)))}
			if diff := cmp.Diff(audit, got.Audit, cmpopts.IgnoreFields(tool.Audit{}, "Duration")); diff != "" {
				t.Errorf("audit (-want +got):\n%s", diff)
			}
			if got.IsError || got.Audit.Duration <= 0 {
				t.Errorf("isError %t, duration %s", got.IsError, got.Audit.Duration)
			}
			failed := call(t, set, "srv__broken", ``)
			if !failed.IsError || failed.Audit.Outcome != "toolError" {
				t.Errorf("a tool's own failure: %+v", failed)
			}
			wantText(t, failed, "disk full")
		})
	}
}

// failures are answers to tools/call that give no result; each leaves the set usable.
var failures = map[string]struct {
	call    func(w http.ResponseWriter, r *http.Request, req rpcRequest)
	tool    string
	outcome string
	text    []string
}{
	"an HTML page": {
		call: func(w http.ResponseWriter, _ *http.Request, _ rpcRequest) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, "<html>maintenance</html>")
		},
		outcome: "protocol", text: []string{"answered with text/html instead of a result", "Its effect is unknown"},
	},
	"a redirect": {
		call: func(w http.ResponseWriter, r *http.Request, _ rpcRequest) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusPermanentRedirect)
		},
		outcome: "transport", text: []string{"a redirect, which is not followed", "was not run"},
	},
	"a JSON-RPC error": {
		call: func(w http.ResponseWriter, _ *http.Request, req rpcRequest) {
			rpcFail(w, req, http.StatusOK, -32602, "n must be positive")
		},
		outcome: "protocol", text: []string{"reports an error: n must be positive (error -32602)"},
	},
	"a JSON-RPC error with HTTP 400": {
		call: func(w http.ResponseWriter, _ *http.Request, req rpcRequest) {
			rpcFail(w, req, http.StatusBadRequest, -32602, "n must be positive")
		},
		outcome: "protocol", text: []string{"refused the call (HTTP 400)", "n must be positive", "was not run"},
	},
	"refused credentials": {
		call:    func(w http.ResponseWriter, _ *http.Request, _ rpcRequest) { w.WriteHeader(http.StatusForbidden) },
		outcome: "transport", text: []string{"refused the session's credentials (HTTP 403)", "was not run"},
	},
	"too many requests": {
		call: func(w http.ResponseWriter, _ *http.Request, _ rpcRequest) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		outcome: "transport", text: []string{"is busy (HTTP 429)", "It asks to wait: 7.", "was not run"},
	},
	"a bad gateway, risky tool": {
		call: func(w http.ResponseWriter, _ *http.Request, _ rpcRequest) {
			http.Error(w, "bad gateway", http.StatusBadGateway)
		},
		outcome: "transport", text: []string{"failed (HTTP 502)", "Its effect is unknown"},
	},
	"a bad gateway, read-only tool": {
		call: func(w http.ResponseWriter, _ *http.Request, _ rpcRequest) {
			http.Error(w, "bad gateway", http.StatusBadGateway)
		},
		tool: "srv__add", outcome: "transport", text: []string{"failed (HTTP 502)", "It may be called again"},
	},
	"an event stream that ends without a response": {
		call: func(w http.ResponseWriter, _ *http.Request, _ rpcRequest) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"x\"}}\n\n")
		},
		outcome: "transport", text: []string{"the answer ended early", "Its effect is unknown"},
	},
	"an event stream with garbage": {
		call: func(w http.ResponseWriter, _ *http.Request, _ rpcRequest) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {nonsense\n\n")
		},
		outcome: "transport", text: []string{"broke during the call"},
	},
	"a connection that breaks": {
		call:    func(http.ResponseWriter, *http.Request, rpcRequest) { panic(http.ErrAbortHandler) },
		outcome: "transport", text: []string{"broke during the call: connection closed by the server", "Its effect is unknown"},
	},
	"JSON that breaks off": {
		call: func(w http.ResponseWriter, _ *http.Request, req rpcRequest) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{`, req.ID)
		},
		outcome: "protocol", text: []string{"JSON that is no JSON-RPC message", "Its effect is unknown"},
	},
	"a result of a wrong shape": {
		call:    func(w http.ResponseWriter, _ *http.Request, req rpcRequest) { answer(w, req, `{"content":"text"}`) },
		outcome: "protocol", text: []string{"a result that cannot be read", "probably done its work"},
	},
	"a request for a person's input": {
		call: func(w http.ResponseWriter, _ *http.Request, req rpcRequest) {
			answer(w, req, `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"sure?","mode":"form"}}}}`)
		},
		outcome: "protocol", text: []string{"asks for input from a person"},
	},
}

func TestFailuresAreResultsAndLeaveTheSetUsable(t *testing.T) {
	for name, tc := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var failing atomic.Bool
			f := &fake{}
			f.call = func(w http.ResponseWriter, r *http.Request, req rpcRequest) {
				if failing.Load() {
					tc.call(w, r, req)
					return
				}
				answer(w, req, `{"content":[{"type":"text","text":"ok"}]}`)
			}
			set := connect(t, config(f.start(t).URL), Options{})
			failing.Store(true)
			name := tc.tool
			if name == "" {
				name = "srv__write"
			}
			got := call(t, set, name, `{}`)
			if !got.IsError || got.Audit.Outcome != tc.outcome {
				t.Errorf("isError %t, outcome %q, want an error with %q", got.IsError, got.Audit.Outcome, tc.outcome)
			}
			wantText(t, got, tc.text...)
			if n := f.callCount(); n != 1 {
				t.Errorf("the call was sent %d times, want once", n)
			}
			failing.Store(false)
			wantText(t, call(t, set, name, `{}`), "ok")
		})
	}
}

func TestSessionThatEnded(t *testing.T) {
	plain := func(status int) func(http.ResponseWriter, rpcRequest) {
		return func(w http.ResponseWriter, _ rpcRequest) { http.Error(w, "gone", status) }
	}
	ways := map[string]func(http.ResponseWriter, rpcRequest){
		"404": plain(404), "410": plain(410), "400": plain(400),
		"400 with a JSON-RPC error": func(w http.ResponseWriter, req rpcRequest) {
			rpcFail(w, req, http.StatusBadRequest, -32000, "Bad Request: No valid session ID provided")
		},
		"404 with a JSON-RPC error": func(w http.ResponseWriter, req rpcRequest) {
			rpcFail(w, req, http.StatusNotFound, -32001, "Session not found")
		},
	}
	for name, refuse := range ways {
		t.Run(name, func(t *testing.T) {
			f := &fake{}
			f.before = func(w http.ResponseWriter, r *http.Request, req rpcRequest) bool {
				f.mu.Lock()
				known := f.sessions[r.Header.Get("Mcp-Session-Id")]
				f.mu.Unlock()
				if req.Method != "tools/call" || known {
					return false
				}
				refuse(w, req)
				return true
			}
			cfg := config(f.start(t).URL)
			cfg.RetrySafe = []string{"add"}
			set := connect(t, cfg, Options{})
			f.forget()
			got := call(t, set, "srv__add", `{}`)
			wantText(t, got, "ok")
			if want := `"resent":"session ended (HTTP ` + name[:3] + `)"`; !strings.Contains(string(got.Details), want) {
				t.Errorf("details %s lack %s", got.Details, want)
			}
			f.forget()
			got = call(t, set, "srv__write", `{}`)
			wantText(t, got, "had ended its session and refused the call (HTTP "+name[:3]+")", "was not run", "Call again")
			if !got.IsError || f.callCount() != 1 {
				t.Errorf("isError %t, %d calls reached a session, want an error and only the first call", got.IsError, f.callCount())
			}
			wantText(t, call(t, set, "srv__write", `{}`), "ok")
			if f.made != 3 {
				t.Errorf("%d sessions, want 3", f.made)
			}
		})
	}
}

func TestLostConnectionIsRepeatedOnlyIfRepeatable(t *testing.T) {
	cases := map[string]struct {
		tool      string
		retrySafe []string
		sent      int
		want      string
	}{
		"repeatable: annotations and author agree":  {"srv__add", []string{"add"}, 2, "ok"},
		"read-only, but the author did not agree":   {"srv__add", nil, 1, "It may be called again"},
		"the author agrees, the annotations do not": {"srv__write", []string{"write"}, 1, "Its effect is unknown"},
		"neither": {"srv__write", nil, 1, "Its effect is unknown"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := &fake{}
			f.call = func(w http.ResponseWriter, _ *http.Request, req rpcRequest) {
				if f.callCount() == 1 {
					panic(http.ErrAbortHandler)
				}
				answer(w, req, `{"content":[{"type":"text","text":"ok"}]}`)
			}
			cfg := config(f.start(t).URL)
			cfg.RetrySafe = tc.retrySafe
			set := connect(t, cfg, Options{})
			got := call(t, set, tc.tool, `{}`)
			wantText(t, got, tc.want)
			if n := f.callCount(); n != tc.sent {
				t.Errorf("sent %d times, want %d", n, tc.sent)
			}
			if resent := strings.Contains(string(got.Details), `"resent"`); resent != (tc.sent > 1) {
				t.Errorf("details %s", got.Details)
			}
		})
	}
}

func TestServerThatWasRestarted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve := func(l net.Listener) (*fake, *http.Server) {
		f := &fake{pages: []string{"[" + plainTool + "," + riskyTool + "]"}, sessions: map[string]bool{}}
		server := &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
		server.SetKeepAlivesEnabled(false)  // so that no old connection is tried after the restart
		go func() { _ = server.Serve(l) }() // ends with ErrServerClosed
		return f, server
	}
	_, first := serve(l)
	set := connect(t, config("http://"+l.Addr().String()), Options{})
	first.Close()
	got := call(t, set, "srv__write", `{}`)
	wantText(t, got, "cannot be reached: connection refused", "was not run")
	if got.Audit.Outcome != "transport" {
		t.Errorf("outcome %q", got.Audit.Outcome)
	}
	again, err := net.Listen("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	f, second := serve(again)
	defer second.Close()
	wantText(t, call(t, set, "srv__write", `{}`), "ok")
	if f.callCount() != 1 {
		t.Errorf("%d calls, want 1", f.callCount())
	}
}

func TestBrokenStreamIsResumedWithoutCallingAgain(t *testing.T) {
	f := &fake{}
	var id atomic.Value
	f.call = func(w http.ResponseWriter, r *http.Request, req rpcRequest) {
		id.Store(string(req.ID))
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: 1\nretry: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"x\",\"progress\":1}}\n\n")
	}
	f.before = func(w http.ResponseWriter, r *http.Request, req rpcRequest) bool {
		if r.Method != http.MethodGet {
			return false
		}
		if got := r.Header.Get("Last-Event-ID"); got != "1" {
			t.Errorf("resumed after event %q, want 1", got)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"late\"}]}}\n\n", id.Load())
		return true
	}
	set := connect(t, config(f.start(t).URL), Options{})
	wantText(t, call(t, set, "srv__write", `{}`), "late")
	if f.callCount() != 1 {
		t.Errorf("%d calls, want 1", f.callCount())
	}
}

func TestTimeoutAndCancel(t *testing.T) {
	for name, json := range map[string]bool{"event stream": false, "JSON": true} {
		t.Run(name, func(t *testing.T) {
			started := make(chan struct{}, 8)
			url := sdkServer(t, &sdk.StreamableHTTPOptions{JSONResponse: json}, func(s *sdk.Server) {
				raw(s, "hang", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					started <- struct{}{}
					<-ctx.Done()
					return nil, ctx.Err()
				})
				raw(s, "fine", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "fine"}}}, nil
				})
			})
			cfg := config(url)
			cfg.CallTimeout = 300 * time.Millisecond
			set := connect(t, cfg, Options{})
			begin := time.Now()
			got := call(t, set, "srv__hang", `{}`)
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("the timeout took %s", took)
			}
			wantText(t, got, "did not answer within 300ms", "Its effect is unknown")
			if !got.IsError || got.Audit.Outcome != "timeout" {
				t.Errorf("result %+v", got)
			}
			<-started
			wantText(t, call(t, set, "srv__fine", `{}`), "fine")

			cause := errors.New("run cancelled")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-started
				cancel(cause)
			}()
			if _, err := set.Call(ctx, tool.Call{Name: "srv__hang"}, nil); !errors.Is(err, cause) {
				t.Errorf("error %v, want the context's cause", err)
			}
			wantText(t, call(t, set, "srv__fine", `{}`), "fine")
		})
	}
}

func TestCallsDoNotWaitForEachOther(t *testing.T) {
	release := make(chan struct{})
	var running atomic.Int32
	all := make(chan struct{})
	url := sdkServer(t, &sdk.StreamableHTTPOptions{JSONResponse: true}, func(s *sdk.Server) {
		raw(s, "wait", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if running.Add(1) == 10 {
				close(all)
			}
			select {
			case <-release:
			case <-ctx.Done():
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil
		})
	})
	set := connect(t, config(url), Options{})
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			result, err := set.Call(t.Context(), tool.Call{Name: "srv__wait"}, nil)
			if err != nil || text(result) != "done" {
				t.Errorf("%v %q", err, text(result))
			}
		})
	}
	select {
	case <-all:
	case <-time.After(10 * time.Second):
		t.Errorf("only %d of 10 calls run side by side", running.Load())
	}
	close(release)
	group.Wait()
}

// TestWhatAToolTellsReachesItsCall has a tool report progress and log right before it answers: all of it is reported, in
// order, to the call that it belongs to, and nothing else.
func TestWhatAToolTellsReachesItsCall(t *testing.T) {
	transports := map[string]*sdk.StreamableHTTPOptions{
		"with sessions":         nil,
		"the newest version":    {Stateless: true},
		"with events to resume": {EventStore: sdk.NewMemoryEventStore(nil)},
	}
	for name, opts := range transports {
		t.Run(name, func(t *testing.T) {
			url := sdkServer(t, opts, func(s *sdk.Server) { raw(s, "steps", tellSteps) })
			cfg := config(url)
			cfg.BearerToken = "secret-token"
			set := connect(t, cfg, Options{})
			var got []string
			result, err := set.Call(t.Context(), tool.Call{Name: "srv__steps"}, func(s string) { got = append(got, s) })
			if err != nil || text(result) != "done" {
				t.Fatalf("%v %q", err, text(result))
			}
			want := []string{"1/3 step", "2/3 step", "3/3 step", "[warning] disk: 90 % full", `[info] {"free":[1,2]}`, "[error] [redacted] is wrong"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}

// tellSteps tells of itself in every way.
func tellSteps(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	for i := range 3 {
		_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3, Message: "step"})
	}
	_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: "another", Progress: 9})
	for _, m := range []sdk.LoggingMessageParams{ //nolint:staticcheck // servers of today log
		{Level: "warning", Logger: "disk", Data: "90 % full"}, {Level: "debug", Data: "not asked for"},
		{Level: "info", Data: map[string]any{"free": []int{1, 2}}}, {Level: "error", Data: "secret-token is wrong"}, {Level: "error", Data: ""},
	} {
		_ = req.Session.Log(ctx, &m) //nolint:staticcheck // servers of today log
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil
}

// TestCallsBesideEachOtherAreToldApart runs two calls at once whose server logs for both.
func TestCallsBesideEachOtherAreToldApart(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	url := sdkServer(t, nil, func(s *sdk.Server) {
		raw(s, "say", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			both.Done()
			both.Wait()                                                                                            // both calls are under way
			_ = req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: string(req.Params.Arguments)}) //nolint:staticcheck // servers of today log
			return &sdk.CallToolResult{}, nil
		})
	})
	set := connect(t, config(url), Options{})
	var got [2][]string
	var group sync.WaitGroup
	for i := range got {
		group.Go(func() {
			arguments := json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))
			if _, err := set.Call(t.Context(), tool.Call{Name: "srv__say", Arguments: arguments}, func(s string) { got[i] = append(got[i], s) }); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if diff := cmp.Diff([2][]string{{`[info] {"n":0}`}, {`[info] {"n":1}`}}, got); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestArgumentsAreCheckedBeforeTheyAreSent(t *testing.T) {
	pages := []string{`[{"name":"t","inputSchema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer","minimum":1},"s":{"type":"string"}}}},
		{"name":"odd","inputSchema":{"type":"object","properties":{"s":{"type":"string","pattern":"(?<!x)y"}}}},
		{"name":"file","inputSchema":{"type":"object","properties":{"s":{"$ref":"file:///etc/hostname"}}}}]`}
	cases := map[string]struct {
		tool, arguments string
		sent            int
		want            []string
	}{
		"fitting":                       {"srv__t", `{"n":2}`, 1, []string{"ok"}},
		"all that is wrong is told":     {"srv__t", `{"n":0,"s":1}`, 0, []string{"was not run", "- /n: minimum: got 0, want 1", "- /s: got number, want string"}},
		"something missing":             {"srv__t", ``, 0, []string{"missing property 'n'"}},
		"no object":                     {"srv__t", `[1]`, 0, []string{"not a JSON object"}},
		"no JSON":                       {"srv__t", `{"n":`, 0, []string{"not a JSON object"}},
		"a pattern that Go cannot read": {"srv__odd", `{"s":"a"}`, 1, []string{"ok"}},
		"a reference to a file":         {"srv__file", `{"s":"a"}`, 1, []string{"ok"}},
		"an unknown tool":               {"srv__none", `{}`, 0, []string{`no tool named "srv__none"`}},
	}
	f := &fake{pages: pages}
	set := connect(t, config(f.start(t).URL), Options{})
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := f.callCount()
			got := call(t, set, tc.tool, tc.arguments)
			wantText(t, got, tc.want...)
			if sent := f.callCount() - before; sent != tc.sent || got.IsError != (tc.sent == 0) {
				t.Errorf("sent %d times with isError %t, want %d", sent, got.IsError, tc.sent)
			}
		})
	}
}

func TestKnownToolsAreUsedWithoutAsking(t *testing.T) {
	f := &fake{}
	server := f.start(t)
	first := connect(t, config(server.URL), Options{})
	known := append(first.Definitions(), tool.Definition{Server: "removed", RemoteName: "x"}, tool.Definition{RemoteName: "builtin"})
	known[2].Name, known[3].Name = "removed__x", "builtin"
	f.pages = []string{`[]`}
	listed := f.seen("tools/list")
	set := connect(t, config(server.URL), Options{Known: known})
	if diff := cmp.Diff(known[:3], set.Definitions()); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
	wantText(t, call(t, set, "srv__add", `{"a":1}`), "ok")
	wantText(t, call(t, set, "removed__x", `{}`), `"removed" is not configured any more`)
	if f.seen("tools/list") != listed {
		t.Error("the server was asked for its tools again")
	}
	raw, err := json.Marshal(set.Definitions())
	if err != nil || len(raw) == 0 {
		t.Errorf("definitions cannot be stored: %v", err)
	}
}
