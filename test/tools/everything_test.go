// Package tools tests the MCP adapter against servers that others wrote, the protocol's reference server first, each in a
// process of its own.
//
// Guarantees: it needs the servers to be installed and fails, naming the make target, when one is not; they listen
// on loopback and end with the test.
package tools

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
	"github.com/agentloop/agentloop/pkg/tool/mcp"
)

const entry = "everything/node_modules/@modelcontextprotocol/server-everything/dist/index.js"

// start runs the server with the transport of today and returns its endpoint.
func start(t *testing.T) string { return startWith(t, "streamableHttp", "/mcp") }

// startWith runs the server with one of its transports and returns its endpoint. The server gets no environment of this
// process: one of its tools shows it.
func startWith(t *testing.T, transport, path string) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is missing: install Node.js 20 or newer, then run `make npm-tools`")
	}
	if _, err := os.Stat(entry); err != nil {
		t.Fatalf("%s is not installed: run `make npm-tools` (or test/tools/everything/install.sh)", filepath.Dir(entry))
	}
	preload, err := filepath.Abs("everything/loopback.mjs")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, node, "--import", "file://"+preload, entry, transport)
	cmd.Env = []string{"PORT=0", "HOME=" + t.TempDir()}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	port, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if number, ok := strings.CutPrefix(lines.Text(), "LISTENING "); ok {
				port <- number
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = cmd.Wait() // it was killed
	})
	select {
	case number := <-port:
		return "http://127.0.0.1:" + number + path
	case <-ended:
		t.Fatal("the server ended by itself")
	case <-time.After(time.Minute):
		t.Fatal("the server does not listen after a minute")
	}
	return ""
}

func connect(t *testing.T, cfg mcp.ServerConfig) *mcp.Set {
	t.Helper()
	cfg.Name = "everything"
	set, problems, err := mcp.Connect(t.Context(), []mcp.ServerConfig{cfg}, mcp.Options{
		Addresses: mcp.AddressPolicy{AllowLoopback: true}, ConnectTimeout: time.Minute,
	})
	if err != nil || len(problems) > 0 {
		t.Fatalf("connect: %v, problems %+v", err, problems)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return set
}

func call(t *testing.T, set *mcp.Set, name, arguments string) tool.Result {
	t.Helper()
	result, err := set.Call(t.Context(), tool.Call{ID: "c", Name: "everything__" + name, Arguments: json.RawMessage(arguments)}, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return result
}

// flat is a result's content as one line.
func flat(r tool.Result) string {
	return string(message.Encode(message.Message{Role: message.RoleToolResult, Content: r.Content}))
}

func TestReferenceServer(t *testing.T) {
	url := start(t)
	set := connect(t, mcp.ServerConfig{URL: url, Allow: []string{mcp.All}, BearerToken: "a-secret-of-this-test"})
	var names []string
	for _, d := range set.Definitions() {
		names = append(names, d.RemoteName)
		if !json.Valid(d.Parameters) {
			t.Errorf("%s: parameters %s", d.Name, d.Parameters)
		}
	}
	for _, want := range []string{"echo", "get-sum", "get-tiny-image", "get-structured-content", "get-resource-links", "trigger-long-running-operation"} {
		if !slices.Contains(names, want) {
			t.Errorf("tools %q lack %s", names, want)
		}
	}
	cases := map[string]struct {
		tool, arguments string
		isError         bool
		want            []string
	}{
		"text":                      {"echo", `{"message":"grüße"}`, false, []string{"Echo: grüße"}},
		"numbers":                   {"get-sum", `{"a":2,"b":40}`, false, []string{"42"}},
		"an image":                  {"get-tiny-image", `{}`, false, []string{`"type":"image","mediaType":"image/png","data":"iVBOR`, `"type":"text"`}},
		"structured content":        {"get-structured-content", `{"location":"New York"}`, false, []string{`temperature`}},
		"resource links":            {"get-resource-links", `{"count":2}`, false, []string{"Resource link "}},
		"an embedded resource":      {"get-resource-reference", `{"resourceType":"Text","resourceId":1}`, false, []string{"Resource demo://"}},
		"annotations are ignored":   {"get-annotated-message", `{"messageType":"error","includeImage":true}`, false, []string{`"type":"image"`}},
		"arguments that do not fit": {"get-sum", `{"a":"x"}`, true, []string{"do not fit", "/a: got string, want number"}},
		"an argument refused by it": {"get-resource-reference", `{"resourceType":"Text","resourceId":-5}`, true, []string{"resourceId"}},
		"its environment":           {"get-env", `{}`, false, []string{"HOME"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := call(t, set, tc.tool, tc.arguments)
			for _, want := range tc.want {
				if !strings.Contains(flat(got), want) {
					t.Errorf("content %s lacks %q", flat(got), want)
				}
			}
			if got.IsError != tc.isError {
				t.Errorf("isError %t, want %t: %s", got.IsError, tc.isError, flat(got))
			}
		})
	}
	structured := call(t, set, "get-structured-content", `{"location":"Chicago"}`)
	var details struct {
		StructuredContent map[string]any `json:"structuredContent"`
	}
	if err := json.Unmarshal(structured.Details, &details); err != nil || details.StructuredContent["temperature"] == nil {
		t.Errorf("details %s: %v", structured.Details, err)
	}
}

func TestReferenceServerProgressTimeoutAndCancel(t *testing.T) {
	url := start(t)
	set := connect(t, mcp.ServerConfig{URL: url, Allow: []string{"echo", "trigger-long-running-operation"}, CallTimeout: 2 * time.Second})
	if n := len(set.Definitions()); n != 2 {
		t.Errorf("%d tools, want 2", n)
	}
	var mu sync.Mutex
	var steps []string
	long := tool.Call{Name: "everything__trigger-long-running-operation", Arguments: json.RawMessage(`{"duration":1,"steps":4}`)}
	result, err := set.Call(t.Context(), long, func(s string) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, s)
	})
	if err != nil || result.IsError {
		t.Fatalf("%v: %s", err, flat(result))
	}
	if diff := cmp.Diff([]string{"1/4", "2/4", "3/4", "4/4"}, steps); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	long.Arguments = json.RawMessage(`{"duration":60,"steps":1}`)
	result, err = set.Call(t.Context(), long, nil)
	if err != nil || !result.IsError || result.Audit.Outcome != "timeout" {
		t.Errorf("%v: %+v", err, result)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err = set.Call(ctx, long, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the end of its context", err)
	}
	if got := call(t, set, "echo", `{"message":"still here"}`); !strings.Contains(flat(got), "still here") {
		t.Errorf("after that: %s", flat(got))
	}
}

func TestReferenceServerEndsTheSession(t *testing.T) {
	url := start(t)
	recorder := &sessions{next: http.DefaultTransport}
	set := connect(t, mcp.ServerConfig{URL: proxy(t, url, recorder), Allow: []string{mcp.All}, RetrySafe: []string{"echo"}})
	recorder.end(t, url)
	got := call(t, set, "echo", `{"message":"hello"}`)
	if !strings.Contains(flat(got), "Echo: hello") || !strings.Contains(string(got.Details), "session ended (HTTP 400)") {
		t.Errorf("a repeatable call: %s, details %s", flat(got), got.Details)
	}
	recorder.end(t, url)
	got = call(t, set, "toggle-subscriber-updates", `{}`)
	if !got.IsError || !strings.Contains(flat(got), "had ended its session and refused the call (HTTP 400)") {
		t.Errorf("a call that changes something: %s", flat(got))
	}
	if got = call(t, set, "echo", `{"message":"again"}`); !strings.Contains(flat(got), "Echo: again") || len(got.Details) > 0 {
		t.Errorf("after that: %s, details %s", flat(got), got.Details)
	}
}

// TestReferenceServerOverTheOldTransport finds out by itself that the server speaks the transport of 2024-11-05 only.
func TestReferenceServerOverTheOldTransport(t *testing.T) {
	url := startWith(t, "sse", "/sse")
	set := connect(t, mcp.ServerConfig{URL: url, Allow: []string{mcp.All}, BearerToken: "a-secret-of-this-test", CallTimeout: 5 * time.Second})
	for name, want := range map[string][2]string{
		"echo": {`{"message":"grüße"}`, "Echo: grüße"}, "get-sum": {`{"a":2,"b":40}`, "42"}, "get-tiny-image": {`{}`, `"type":"image"`},
	} {
		if got := call(t, set, name, want[0]); got.IsError || !strings.Contains(flat(got), want[1]) {
			t.Errorf("%s: %s", name, flat(got))
		}
	}
	var steps []string
	long := tool.Call{Name: "everything__trigger-long-running-operation", Arguments: json.RawMessage(`{"duration":1,"steps":4}`)}
	result, err := set.Call(t.Context(), long, func(s string) { steps = append(steps, s) })
	if err != nil || result.IsError {
		t.Fatalf("%v: %s", err, flat(result))
	}
	if diff := cmp.Diff([]string{"1/4", "2/4", "3/4", "4/4"}, steps); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	long.Arguments = json.RawMessage(`{"duration":60,"steps":1}`)
	if result, err = set.Call(t.Context(), long, nil); err != nil || result.Audit.Outcome != "timeout" {
		t.Errorf("%v: %+v", err, result)
	}
	if got := call(t, set, "echo", `{"message":"still here"}`); !strings.Contains(flat(got), "still here") {
		t.Errorf("after that: %s", flat(got))
	}
}

func TestReferenceServerAtAnotherPath(t *testing.T) {
	url := start(t)
	cfg := mcp.ServerConfig{URL: url + "-other", Allow: []string{mcp.All}, Name: "everything"}
	_, problems, err := mcp.Connect(t.Context(), []mcp.ServerConfig{cfg}, mcp.Options{Addresses: mcp.AddressPolicy{AllowLoopback: true}})
	if err == nil || len(problems) != 1 || problems[0].Reason != mcp.ReasonProtocol || !strings.Contains(problems[0].Message, "HTTP 404") {
		t.Errorf("a wrong path: %v, problems %+v", err, problems)
	}
}
