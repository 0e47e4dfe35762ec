package mcpserver_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
	"github.com/agentloop/agentloop/pkg/tool/mcp"
	"github.com/agentloop/agentloop/test/mcpserver"
)

// start serves a server and connects a set to it.
func start(t *testing.T) (*mcpserver.Server, string, *mcp.Set) {
	t.Helper()
	server := mcpserver.New(mcpserver.Options{})
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	set, problems, err := mcp.Connect(t.Context(), []mcp.ServerConfig{{
		Name: "demo", URL: web.URL + mcpserver.Path, Allow: []string{mcp.All}, RetrySafe: []string{mcp.All}, CallTimeout: 20 * time.Second,
	}}, mcp.Options{Addresses: mcp.AddressPolicy{AllowLoopback: true}})
	if err != nil || len(problems) > 0 {
		t.Fatalf("connect: %v, problems %+v", err, problems)
	}
	t.Cleanup(func() { _ = set.Close() })
	return server, web.URL, set
}

func call(t *testing.T, set *mcp.Set, name, arguments string) tool.Result {
	t.Helper()
	result, err := set.Call(t.Context(), tool.Call{Name: "demo__" + name, Arguments: json.RawMessage(arguments)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestTools(t *testing.T) {
	server, _, set := start(t)
	cases := map[string]struct {
		tool, arguments string
		want            message.Content
		isError         bool
	}{
		"numbers are added":          {"add", `{"a":2,"b":40}`, message.Text("42"), false},
		"fractions too":              {"add", `{"a":0.5,"b":1}`, message.Text("1.5"), false},
		"the weather is made up":     {"weather", `{"city":"Oslo"}`, message.Text("Oslo: fog, 18 °C"), false},
		"a failure is the tool's":    {"fail", `{"message":"disk full"}`, message.Text("disk full"), true},
		"a text of the wanted size":  {"big", `{"bytes":20}`, message.Text("0123456789abcde\n0123"), false},
		"a size that is not allowed": {"big", `{"bytes":-1}`, message.Text("bytes must be between 0 and 268435456"), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := call(t, set, tc.tool, tc.arguments)
			if diff := cmp.Diff(tc.want, got.Content); diff != "" || got.IsError != tc.isError {
				t.Errorf("isError %t, content (-want +got):\n%s", got.IsError, diff)
			}
		})
	}
	image := call(t, set, "image", `{}`)
	if len(image.Content.Blocks) != 2 || image.Content.Blocks[1].MediaType != "image/png" {
		t.Errorf("image: %+v", image.Content)
	}
	if effects := server.Effects(""); len(effects) != 0 {
		t.Errorf("effects of tools that have none: %+v", effects)
	}
}

func TestMarks(t *testing.T) {
	_, _, set := start(t)
	got := map[string][2]bool{}
	for _, d := range set.Definitions() {
		got[d.RemoteName] = [2]bool{d.ReadOnly, d.Idempotent}
	}
	harmless, risky := [2]bool{true, true}, [2]bool{}
	want := map[string][2]bool{
		"add": harmless, "weather": harmless, "slow": harmless, "big": harmless, "fail": harmless, "image": harmless, "hang": harmless,
		"append_note": risky, "slow_note": risky,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read-only and idempotent (-want +got):\n%s", diff)
	}
}

func TestEffectsAreCountedAndOthersCanRead(t *testing.T) {
	server, url, set := start(t)
	call(t, set, "append_note", `{"text":"one"}`)
	call(t, set, "append_note", `{"text":"two"}`)
	want := []mcpserver.Effect{{Tool: "append_note", Text: "one"}, {Tool: "append_note", Text: "two"}}
	if diff := cmp.Diff(want, server.Effects("")); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	if body := get(t, url+"/_effects?part=tw"); body != `[{"tool":"append_note","text":"two"}]` {
		t.Errorf("over HTTP: %s", body)
	}
}

func TestWaitingToolsAreReleased(t *testing.T) {
	server, url, set := start(t)
	done := make(chan tool.Result, 1)
	waiting := make(chan string, 1)
	go func() {
		result, err := set.Call(t.Context(), tool.Call{Name: "demo__slow_note", Arguments: json.RawMessage(`{"key":"k"}`)}, func(s string) { waiting <- s })
		if err != nil {
			t.Error(err)
		}
		done <- result
	}()
	if s := <-waiting; s != "1 waiting for k" {
		t.Errorf("progress %q", s)
	}
	if n := server.Started("k"); n != 1 || get(t, url+"/_started?key=k") != "1" {
		t.Errorf("%d started", n)
	}
	if effects := server.Effects("k"); len(effects) != 1 {
		t.Errorf("effects while it waits: %+v", effects)
	}
	select {
	case result := <-done:
		t.Fatalf("it answered before it was released: %+v", result)
	default:
	}
	resp, err := http.Post(url+"/_release?key=k", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if result := <-done; result.Content.Text != "released" {
		t.Errorf("result %+v", result)
	}
	if got := call(t, set, "slow", `{"key":"k"}`); got.Content.Text != "released" {
		t.Errorf("a later call with the key: %+v", got)
	}
}

func TestForgottenSessions(t *testing.T) {
	server, url, set := start(t)
	server.Forget()
	got := call(t, set, "append_note", `{"text":"one"}`)
	if !got.IsError || !strings.Contains(got.Content.Text, "had ended its session") {
		t.Errorf("result %+v", got)
	}
	resp, err := http.Post(url+"/_forget", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := call(t, set, "add", `{"a":1,"b":1}`); got.Content.Text != "2" {
		t.Errorf("a repeatable call after that: %+v", got)
	}
	if effects := server.Effects(""); len(effects) != 0 {
		t.Errorf("effects %+v", effects)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(body))
}
