package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentloop/agentloop/pkg/tool"
)

// local admits the test servers' addresses.
var local = AddressPolicy{AllowLoopback: true}

// fake is an MCP server written by hand, so that it can misbehave in every way. Its zero value has no tools.
type fake struct {
	// pages are the pages of tools/list, each a JSON array; loop makes the last page point to the first.
	pages []string
	loop  bool
	// call answers tools/call; nil gives the text "ok".
	call func(w http.ResponseWriter, r *http.Request, req rpcRequest)
	// before may answer any request itself; it says whether it did.
	before func(w http.ResponseWriter, r *http.Request, req rpcRequest) bool
	// noSession leaves the session header out.
	noSession bool

	mu       sync.Mutex
	sessions map[string]bool
	made     int
	calls    int
	methods  []string
}

type rpcRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Cursor    string          `json:"cursor"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      struct {
			ProgressToken string `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

// plainTool is the definition of a tool named add, with annotations that make it harmless.
const plainTool = `{"name":"add","description":"Adds.","inputSchema":{"type":"object","properties":{"a":{"type":"integer"}}},"annotations":{"readOnlyHint":true,"idempotentHint":true}}`

// riskyTool is the definition of a tool named write, without annotations.
const riskyTool = `{"name":"write","description":"Writes.","inputSchema":{"type":"object"}}`

func (f *fake) start(t *testing.T) *httptest.Server {
	t.Helper()
	f.sessions = map[string]bool{}
	if f.pages == nil {
		f.pages = []string{"[" + plainTool + "," + riskyTool + "]"}
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return server
}

// ServeHTTP implements http.Handler.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req rpcRequest
	_ = json.NewDecoder(r.Body).Decode(&req) // GET and DELETE have no body
	f.mu.Lock()
	f.methods = append(f.methods, req.Method)
	session := r.Header.Get("Mcp-Session-Id")
	known := f.noSession || f.sessions[session]
	if req.Method == "tools/call" && known {
		f.calls++
	}
	f.mu.Unlock()
	if f.before != nil && f.before(w, r, req) {
		return
	}
	switch {
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case req.Method == "initialize":
		f.mu.Lock()
		f.made++
		id := fmt.Sprintf("session-%d", f.made)
		f.sessions[id] = true
		f.mu.Unlock()
		if !f.noSession {
			w.Header().Set("Mcp-Session-Id", id)
		}
		answer(w, req, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}`)
	case len(req.ID) == 0:
		w.WriteHeader(http.StatusAccepted)
	case req.Method == "server/discover":
		rpcFail(w, req, http.StatusOK, -32601, "method not found")
	case !known:
		http.Error(w, "session not found", http.StatusNotFound)
	case req.Method == "tools/list":
		f.list(w, req)
	case f.call != nil:
		f.call(w, r, req)
	default:
		answer(w, req, `{"content":[{"type":"text","text":"ok"}]}`)
	}
}

func (f *fake) list(w http.ResponseWriter, req rpcRequest) {
	page := 0
	if req.Params.Cursor != "" {
		if _, err := fmt.Sscanf(req.Params.Cursor, "page-%d", &page); err != nil {
			rpcFail(w, req, http.StatusOK, -32602, "unknown cursor")
			return
		}
	}
	next := ""
	if page+1 < len(f.pages) {
		next = fmt.Sprintf(`,"nextCursor":"page-%d"`, page+1)
	} else if f.loop {
		next = `,"nextCursor":"page-0"`
	}
	answer(w, req, fmt.Sprintf(`{"tools":%s%s}`, f.pages[page], next))
}

// forget ends all sessions.
func (f *fake) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions = map[string]bool{}
}

func (f *fake) callCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *fake) seen(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, m := range f.methods {
		if m == method {
			n++
		}
	}
	return n
}

func answer(w http.ResponseWriter, req rpcRequest, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, result)
}

func rpcFail(w http.ResponseWriter, req rpcRequest, status, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, req.ID, code, text)
}

// config is a server configuration that admits everything.
func config(url string) ServerConfig {
	return ServerConfig{Name: "srv", URL: url, Allow: []string{All}, CallTimeout: 10 * time.Second}
}

// connect makes a set of one server and closes it with the test.
func connect(t *testing.T, cfg ServerConfig, opts Options) *Set {
	t.Helper()
	opts.Addresses = local
	set, problems, err := Connect(t.Context(), []ServerConfig{cfg}, opts)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	if len(problems) > 0 {
		t.Fatalf("problems: %+v", problems)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return set
}

// call runs one tool and fails the test on an error.
func call(t *testing.T, set *Set, name, arguments string) tool.Result {
	t.Helper()
	result, err := set.Call(t.Context(), tool.Call{ID: "c1", Name: name, Arguments: json.RawMessage(arguments)}, nil)
	if err != nil {
		t.Fatalf("call %s: %v", name, err)
	}
	return result
}

// text is the text of a result, blocks joined.
func text(r tool.Result) string {
	if r.Content.IsText {
		return r.Content.Text
	}
	var parts []string
	for _, b := range r.Content.Blocks {
		parts = append(parts, string(b.Type)+":"+b.Text)
	}
	return strings.Join(parts, "|")
}

// wantText fails unless the result's text has each part.
func wantText(t *testing.T, r tool.Result, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text(r), part) {
			t.Errorf("result %q lacks %q", text(r), part)
		}
	}
}

// sdkServer serves tools with the SDK's own server.
func sdkServer(t *testing.T, opts *sdk.StreamableHTTPOptions, register func(*sdk.Server)) string {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "1"}, nil)
	register(server)
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, opts)
	web := httptest.NewServer(handler)
	t.Cleanup(web.CloseClientConnections)
	t.Cleanup(web.Close)
	return web.URL
}

// raw registers a tool with an untyped handler.
func raw(server *sdk.Server, name string, handle func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error)) {
	server.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, handle)
}

// hang answers nothing until the client goes away, which a server only notices after it has read the request.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}
