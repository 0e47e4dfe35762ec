package openaichat

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/providertest"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// send returns the request that arrives.
func send(t *testing.T, cfg Config, req provider.Request) providertest.Recorded {
	t.Helper()
	server := providertest.NewServer(t, providertest.Frames(join([]string{say("x")}, ended(`"stop"`))...))
	cfg.BaseURL = server.URL + "/v1/"
	client, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	req.Guard = func([]byte) error { return nil }
	if o := providertest.Call(context.Background(), t, client, req); o.Err != nil {
		t.Fatalf("%v: %v", o.Err, o.Failure.Err)
	}
	return server.Requests()[0]
}

func golden(t *testing.T, name string, body []byte) {
	t.Helper()
	var indented bytes.Buffer
	if err := json.Indent(&indented, body, "", "  "); err != nil {
		t.Fatal(err)
	}
	indented.WriteByte('\n')
	path := filepath.Join("testdata", "requests", name+".json")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, indented.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), indented.String()); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func user(text string) message.Message {
	return message.Message{Role: message.RoleUser, Content: message.Text(text)}
}

func assistant(blocks ...message.Block) message.Message {
	return message.Message{Role: message.RoleAssistant, Content: message.Blocks(blocks...)}
}

func result(id string, content message.Content) message.Message {
	return message.Message{Role: message.RoleToolResult, ToolCallID: id, ToolName: "add", Content: content, Details: json.RawMessage(`{"local":"never sent"}`)}
}

func text(s string) message.Block { return message.Block{Type: message.BlockText, Text: s} }

func picture(data string) message.Block {
	return message.Block{Type: message.BlockImage, MediaType: "image/png", Data: data}
}

func toolCall(id, name, args string) message.Block {
	return message.Block{Type: message.BlockToolCall, ID: id, Name: name, Arguments: json.RawMessage(args)}
}

func thinking(s, signature string) message.Block {
	return message.Block{Type: message.BlockThinking, Thinking: s, ThinkingSignature: signature}
}

var addTool = message.Tool{Name: "add", Description: "Adds.", Parameters: json.RawMessage(`{"type":"object","required":["b","a"],"properties":{"b":{"type":"number"},"a":{"type":"number"}},"additionalProperties":false}`)}

func request(messages ...message.Message) provider.Request {
	return provider.Request{
		Model:     provider.Model{Provider: "p", API: provider.APIOpenAIChat, ID: "model-1", ContextWindow: 200000, MaxTokens: 8000, Thinking: provider.ThinkingNone},
		Messages:  messages,
		MaxTokens: 4000,
	}
}

func TestRequests(t *testing.T) {
	conversation := []message.Message{
		user("first"),
		assistant(thinking("hm", "reasoning_content"), text("I "), text("add."), toolCall("t1", "add", `{"b":2,"a":12345678901234567890}`), toolCall("t2", "add", ``)),
		result("t1", message.Text("3")),
		result("t2", message.Blocks(text("see "), text("this"), picture("aW1n"))),
		user("second"),
		assistant(toolCall("t3", "add", `{}`)),
		result("t3", message.Blocks(picture("aW1n"))),
		assistant(thinking("foreign", "sig-of-another-protocol"), text("Done.")),
		{Role: message.RoleUser, Content: message.Blocks(text("third"), picture("aW1n"))},
	}
	type prepared struct {
		cfg Config
		req provider.Request
	}
	cases := map[string]func() prepared{
		"plain": func() prepared { return prepared{req: request(user("hello"))} },
		"conversation": func() prepared {
			req := request(conversation...)
			req.System, req.Tools = "Be brief.", []message.Tool{addTool}
			return prepared{req: req}
		},
		"reasoning_dropped": func() prepared { return prepared{Config{DropReasoning: true}, request(conversation[:4]...)} },
		"legacy_max_tokens": func() prepared { return prepared{Config{LegacyMaxTokens: true}, request(user("hello"))} },
		"no_output_cap": func() prepared {
			req := request(user("hello"))
			req.MaxTokens = 0
			return prepared{req: req}
		},
		"cap_in_sampling": func() prepared {
			req := request(user("hello"))
			req.Model.Sampling, req.Sampling = json.RawMessage(`{"temperature":1,"max_tokens":20000}`), json.RawMessage(`{"temperature":0}`)
			return prepared{req: req}
		},
		"effort": func() prepared {
			req := request(user("hello"))
			req.Model.Thinking, req.Reasoning = provider.ThinkingAdaptive, provider.LevelHigh
			return prepared{req: req}
		},
		"effort_for_a_model_without_thinking": func() prepared {
			req := request(user("hello"))
			req.Reasoning = provider.LevelHigh
			return prepared{req: req}
		},
		"no_empty_text": func() prepared {
			return prepared{req: request(user(""), message.Message{Role: message.RoleUser, Content: message.Blocks(text(""), text("hello"))},
				assistant(text("")), assistant(thinking("only", "reasoning")), user("go on"))}
		},
	}
	for name, build := range cases {
		t.Run(name, func(t *testing.T) {
			p := build()
			recorded := send(t, p.cfg, p.req)
			if recorded.Path != "/v1/chat/completions" {
				t.Errorf("path %s", recorded.Path)
			}
			if bytes.Contains(recorded.Body, []byte("never sent")) {
				t.Error("details of a tool result were sent")
			}
			golden(t, name, recorded.Body)
		})
	}
}

func TestKeyAndHeaders(t *testing.T) {
	recorded := send(t, Config{Config: wire.Config{APIKey: "k"}}, request(user("hello")))
	if got := recorded.Header.Get("Authorization"); got != "Bearer k" {
		t.Errorf("authorization %q", got)
	}
	recorded = send(t, Config{Config: wire.Config{APIKey: "k", Headers: map[string]string{"Authorization": "Basic x", "Api-Key": "y"}}}, request(user("hello")))
	if h := recorded.Header; h.Get("Authorization") != "Basic x" || h.Get("Api-Key") != "y" {
		t.Errorf("configured headers do not win: %v", h)
	}
}

func TestReasoningRoundTrip(t *testing.T) {
	o := run(t, join([]string{piece(`{"reasoning":"a<&>é"}`, "null"), calls(begin("0", "c1", "add", `{"z":1,"a":1e2}`))}, ended(`"tool_calls"`))...)
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	recorded := send(t, Config{}, request(user("hello"), o.Response.Message, result("c1", message.Text("1"))))
	var body struct {
		Messages []map[string]any `json:"messages"`
	}
	if err := json.Unmarshal(recorded.Body, &body); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"role": "assistant", "content": nil, "reasoning": "a<&>é", "tool_calls": []any{map[string]any{
		"id": "c1", "type": "function", "function": map[string]any{"name": "add", "arguments": `{"z":1,"a":1e2}`}}}}
	if diff := cmp.Diff(want, body.Messages[1]); diff != "" {
		t.Errorf("assistant (-want +got):\n%s", diff)
	}
}

func TestRequestsThatCannotBeBuilt(t *testing.T) {
	cases := map[string]provider.Request{
		"an image that was not loaded":             request(message.Message{Role: message.RoleUser, Content: message.Blocks(picture(""))}),
		"an image of a result that was not loaded": request(user("x"), assistant(toolCall("a", "b", "{}")), result("a", message.Blocks(picture("")))),
		"an image from an assistant":               request(user("x"), assistant(picture("aW1n"))),
		"a call from a user":                       request(message.Message{Role: message.RoleUser, Content: message.Blocks(toolCall("a", "b", "{}"))}),
		"a call in a result":                       request(user("x"), result("a", message.Blocks(toolCall("a", "b", "{}")))),
		"an unknown role":                          request(message.Message{Role: "system", Content: message.Text("x")}),
	}
	for name, req := range cases {
		t.Run(name, func(t *testing.T) {
			server := providertest.NewServer(t, providertest.Silence)
			client, err := newStreamer(wire.Config{BaseURL: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			req.Guard = func([]byte) error { return nil }
			o := providertest.Call(context.Background(), t, client, req)
			if o.Failure == nil || o.Failure.Class != provider.ClassRejected || len(server.Requests()) != 0 {
				t.Errorf("failure %+v", o.Failure)
			}
		})
	}
}
