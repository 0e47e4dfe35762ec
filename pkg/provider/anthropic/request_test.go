package anthropic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/providertest"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// send returns the body that a request has on the wire.
func send(t *testing.T, cfg Config, req provider.Request) providertest.Recorded {
	t.Helper()
	server := providertest.NewServer(t, providertest.Frames(join([]string{start(someUsage)}, textFrames(0, "x"), end(`"end_turn"`, `{"output_tokens":2}`))...))
	cfg.BaseURL = server.URL + cfg.BaseURL
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

func result(id string, isError bool, content message.Content) message.Message {
	return message.Message{Role: message.RoleToolResult, ToolCallID: id, ToolName: "add", IsError: isError, Content: content,
		Details: json.RawMessage(`{"local":"never sent"}`)}
}

func text(s string) message.Block { return message.Block{Type: message.BlockText, Text: s} }

func image(data string) message.Block {
	return message.Block{Type: message.BlockImage, MediaType: "image/png", Data: data}
}

func call(id, name, args string) message.Block {
	return message.Block{Type: message.BlockToolCall, ID: id, Name: name, Arguments: json.RawMessage(args)}
}

func thinking(s, signature string) message.Block {
	return message.Block{Type: message.BlockThinking, Thinking: s, ThinkingSignature: signature}
}

var addTool = message.Tool{Name: "add", Description: "Adds.", Parameters: json.RawMessage(`{"type":"object","required":["b","a"],"properties":{"b":{"type":"number"},"a":{"type":"number"}},"additionalProperties":false}`)}

func request(thinking provider.Thinking, messages ...message.Message) provider.Request {
	return provider.Request{
		Model:     provider.Model{Provider: "p", API: provider.APIAnthropicMessages, ID: "model-1", ContextWindow: 200000, MaxTokens: 8000, Thinking: thinking},
		Messages:  messages,
		MaxTokens: 4000,
	}
}

func TestRequests(t *testing.T) {
	long := []message.Message{
		user("first"),
		assistant(thinking("hm <b>", "sig-1"), text("I add."), call("t1", "add", `{"b":2,"a":12345678901234567890}`), call("t2", "add", `{}`)),
		result("t1", false, message.Text("3")),
		result("t2", true, message.Blocks(text("failed"), image("aW1n"), text(""))),
		user("second"),
		assistant(message.Block{Type: message.BlockThinking, Redacted: true, ThinkingSignature: "opaque"}, text("Done.")),
		user("third"),
	}
	cases := map[string]func() provider.Request{
		"plain": func() provider.Request { return request(provider.ThinkingNone, user("hello")) },
		"conversation": func() provider.Request {
			req := request(provider.ThinkingNone, long...)
			req.System, req.Tools = "Be brief.", []message.Tool{addTool}
			return req
		},
		"failed_with_an_image": func() provider.Request {
			return request(provider.ThinkingNone, user("look"), assistant(call("t1", "shoot", `{}`)), result("t1", true, message.Blocks(image("aW1n"))))
		},
		"cache": func() provider.Request {
			req := request(provider.ThinkingNone, long...)
			req.System, req.Tools = "Be brief.", []message.Tool{addTool, {Name: "now", Parameters: json.RawMessage(`{"type":"object"}`)}}
			req.PromptCache, req.StablePrefix = true, 4
			return req
		},
		"cache_prefix_is_all": func() provider.Request {
			req := request(provider.ThinkingNone, user("one"), assistant(thinking("x", "sig")), user("two"))
			req.PromptCache, req.StablePrefix = true, 3
			return req
		},
		"cache_skips_thinking": func() provider.Request {
			req := request(provider.ThinkingNone, user("one"), assistant(thinking("x", "sig")), user("two"))
			req.PromptCache, req.StablePrefix = true, 2
			return req
		},
		"fixed_thinking": func() provider.Request {
			req := request(provider.ThinkingFixed, user("hello"))
			req.Reasoning, req.ThinkingBudget = provider.LevelMedium, 2048
			return req
		},
		"fixed_thinking_below_the_minimum": func() provider.Request {
			req := request(provider.ThinkingFixed, user("hello"))
			req.Reasoning, req.ThinkingBudget = provider.LevelMedium, 1023
			return req
		},
		"adaptive_thinking": func() provider.Request {
			req := request(provider.ThinkingAdaptive, user("hello"))
			req.Reasoning, req.ThinkingBudget = provider.LevelXHigh, 9999
			return req
		},
		"adaptive_thinking_minimal": func() provider.Request {
			req := request(provider.ThinkingAdaptive, user("hello"))
			req.Reasoning = provider.LevelMinimal
			return req
		},
		"no_empty_text": func() provider.Request {
			return request(provider.ThinkingNone,
				user(" \n"), message.Message{Role: message.RoleUser, Content: message.Blocks(text(""), text("hello"), image("aW1n"))},
				assistant(text(""), thinking("unsigned", ""), text("hi")), assistant(text(" ")), user("go on"),
				assistant(call("t1", "add", ``)), result("t1", false, message.Text("")))
		},
		"sampling": func() provider.Request {
			req := request(provider.ThinkingNone, user("hello"))
			req.Model.Sampling, req.Sampling = json.RawMessage(`{"top_p":0.9,"temperature":1}`), json.RawMessage(`{"temperature":0.2,"stop_sequences":["<END>"]}`)
			return req
		},
	}
	for name, build := range cases {
		t.Run(name, func(t *testing.T) {
			req := build()
			before := message.Encode(message.Message{Role: message.RoleUser, Content: message.Text("")})
			for _, m := range req.Messages {
				before = m.AppendJSON(before)
			}
			recorded := send(t, Config{}, req)
			if recorded.Path != "/v1/messages" {
				t.Errorf("path %s", recorded.Path)
			}
			golden(t, name, recorded.Body)
			if bytes.Contains(recorded.Body, []byte("never sent")) {
				t.Error("details of a tool result were sent")
			}
			after := message.Encode(message.Message{Role: message.RoleUser, Content: message.Text("")})
			for _, m := range req.Messages {
				after = m.AppendJSON(after)
			}
			if !bytes.Equal(before, after) {
				t.Error("the request's messages were changed")
			}
		})
	}
}

func TestEndpointOptions(t *testing.T) {
	recorded := send(t, Config{Config: wire.Config{BaseURL: "/v1/", APIKey: "k"}, Version: "2023-06-01"}, request(provider.ThinkingNone, user("hello")))
	if recorded.Path != "/v1/messages" {
		t.Errorf("a base URL that ends with v1 gave the path %s", recorded.Path)
	}
	if h := recorded.Header; h.Get("Anthropic-Version") != "2023-06-01" || h.Get("X-Api-Key") != "k" || len(h.Values("Anthropic-Version")) != 1 {
		t.Errorf("headers %v", h)
	}
	if h := recorded.Header; h.Get("Authorization") != "" {
		t.Errorf("headers %v", h)
	}
	recorded = send(t, Config{Config: wire.Config{BaseURL: "/gateway", APIKey: "k"}}, request(provider.ThinkingNone, user("hello")))
	if h := recorded.Header; recorded.Path != "/gateway/v1/messages" || h.Get("Anthropic-Version") == "" || h.Get("Authorization") != "Bearer k" {
		t.Errorf("path %s, headers %v", recorded.Path, h)
	}
	older := map[string]string{"Anthropic-Version": "2023-06-01"}
	recorded = send(t, Config{Config: wire.Config{APIKey: "k", Headers: older}}, request(provider.ThinkingNone, user("hello")))
	if h := recorded.Header; h.Get("X-Api-Key") != "k" || h.Get("Authorization") != "" || h.Get("Anthropic-Version") != "2023-06-01" {
		t.Errorf("headers %v", h)
	}
}

// TestThinkingRoundTrip sends back what a stream brought: the blocks must be the same, bytes and order.
func TestThinkingRoundTrip(t *testing.T) {
	o := run(t, join([]string{start(someUsage),
		frame(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`),
		delta("0", "thinking_delta", "thinking", "a\u0000\t\"é\u2028<&>"), delta("0", "signature_delta", "signature", "S1+/="),
		frame(`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"R1+/="}}`)},
		textFrames(2, "So."), []string{beginCall("3", "toolu_1", "add", "{}"), arguments("3", `{"z":1,"a":1e2}`)}, end(`"tool_use"`, `{"output_tokens":2}`))...)
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	stored, err := message.Decode(message.Encode(o.Response.Message))
	if err != nil {
		t.Fatal(err)
	}
	recorded := send(t, Config{}, request(provider.ThinkingNone, user("hello"), stored, result("toolu_1", false, message.Text("1"))))
	var body struct {
		Messages []struct {
			Content []map[string]any `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(recorded.Body, &body); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"type": "thinking", "thinking": "a\u0000\t\"é\u2028<&>", "signature": "S1+/="},
		{"type": "redacted_thinking", "data": "R1+/="},
		{"type": "text", "text": "So."},
		{"type": "tool_use", "id": "toolu_1", "name": "add", "input": map[string]any{"z": 1.0, "a": 100.0}},
	}
	if diff := cmp.Diff(want, body.Messages[1].Content); diff != "" {
		t.Errorf("assistant blocks (-want +got):\n%s", diff)
	}
	if !strings.Contains(string(recorded.Body), `{"z":1,"a":1e2}`) {
		t.Errorf("arguments were rewritten: %s", recorded.Body)
	}
}

func TestRequestsThatCannotBeBuilt(t *testing.T) {
	cases := map[string]provider.Request{
		"an image that was not loaded": request(provider.ThinkingNone, message.Message{Role: message.RoleUser, Content: message.Blocks(image(""))}),
		"an image from an assistant":   request(provider.ThinkingNone, user("x"), assistant(image("aW1n"))),
		"a call from a user":           request(provider.ThinkingNone, message.Message{Role: message.RoleUser, Content: message.Blocks(call("a", "b", "{}"))}),
		"an unknown role":              request(provider.ThinkingNone, message.Message{Role: "system", Content: message.Text("x")}),
		"an output cap in the sampling": func() provider.Request {
			req := request(provider.ThinkingNone, user("x"))
			req.Sampling = json.RawMessage(`{"max_tokens":5}`)
			return req
		}(),
		"a schema that is no JSON": func() provider.Request {
			req := request(provider.ThinkingNone, user("x"))
			req.Tools = []message.Tool{{Name: "a", Parameters: json.RawMessage(`{"type":`)}}
			return req
		}(),
	}
	for name, req := range cases {
		t.Run(name, func(t *testing.T) {
			server := providertest.NewServer(t, providertest.Silence)
			client, err := newStreamer(wire.Config{BaseURL: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			req.Guard = func([]byte) error { return errors.New("the guard must not be reached, or must refuse") }
			o := providertest.Call(context.Background(), t, client, req)
			if o.Failure == nil || o.Failure.Class != provider.ClassRejected || o.Failure.Dispatched || len(server.Requests()) != 0 {
				t.Errorf("failure %+v", o.Failure)
			}
		})
	}
}
