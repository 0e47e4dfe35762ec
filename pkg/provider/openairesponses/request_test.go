package openairesponses

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
	server := providertest.NewServer(t, providertest.Frames(join([]string{created()}, textItem(0, "x"), []string{completed()})...))
	cfg.BaseURL = server.URL + "/v1"
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

func ask(text string) message.Message {
	return message.Message{Role: message.RoleUser, Content: message.Text(text)}
}

func said(blocks ...message.Block) message.Message {
	return message.Message{Role: message.RoleAssistant, Content: message.Blocks(blocks...)}
}

func toolResult(id string, content message.Content) message.Message {
	return message.Message{Role: message.RoleToolResult, ToolCallID: id, ToolName: "add", Content: content, Details: json.RawMessage(`{"local":"never sent"}`)}
}

func text(s, signature string) message.Block {
	return message.Block{Type: message.BlockText, Text: s, TextSignature: signature}
}

func picture(data string) message.Block {
	return message.Block{Type: message.BlockImage, MediaType: "image/png", Data: data}
}

func toolCall(id, name, args string) message.Block {
	return message.Block{Type: message.BlockToolCall, ID: id, Name: name, Arguments: json.RawMessage(args), ThoughtSignature: "fc_1"}
}

func thinking(s, signature string) message.Block {
	return message.Block{Type: message.BlockThinking, Thinking: s, ThinkingSignature: signature}
}

var addTool = message.Tool{Name: "add", Description: "Adds.", Parameters: json.RawMessage(`{"type":"object","required":["b","a"],"properties":{"b":{"type":"number"},"a":{"type":"number"}},"additionalProperties":false}`)}

func request(mode provider.Thinking, messages ...message.Message) provider.Request {
	return provider.Request{
		Model:     provider.Model{Provider: "p", API: provider.APIOpenAIResponses, ID: "model-1", ContextWindow: 200000, MaxTokens: 8000, Thinking: mode},
		Messages:  messages,
		MaxTokens: 4000,
	}
}

func TestRequests(t *testing.T) {
	conversation := []message.Message{
		ask("first"),
		said(thinking("Look.\n\nThen.", `{"id":"rs_1","encrypted_content":"gAAA","summary":[5,5]}`), text("I add.", `{"id":"msg_1","phase":"commentary"}`),
			thinking("", `{"id":"rs_2","encrypted_content":"gBBB"}`), toolCall("c1", "add", `{"b":2,"a":12345678901234567890}`), toolCall("c2", "add", ``)),
		toolResult("c1", message.Text("3")),
		toolResult("c2", message.Blocks(text("see", ""), picture("aW1n"))),
		said(text("Done.", ""), thinking("left out: nothing follows", `{"id":"rs_3","encrypted_content":"gCCC"}`)),
		{Role: message.RoleUser, Content: message.Blocks(text("second", ""), picture("aW1n"))},
	}
	type prepared struct {
		cfg Config
		req provider.Request
	}
	reasoning := func(level provider.Level) provider.Request {
		req := request(provider.ThinkingAdaptive, ask("hello"))
		req.Reasoning = level
		return req
	}
	cases := map[string]func() prepared{
		"plain": func() prepared { return prepared{req: request(provider.ThinkingNone, ask("hello"))} },
		"conversation": func() prepared {
			req := request(provider.ThinkingAdaptive, conversation...)
			req.System, req.Tools, req.Reasoning = "Be brief.", []message.Tool{addTool}, provider.LevelMedium
			return prepared{req: req}
		},
		"reasoning_off":           func() prepared { return prepared{req: reasoning(provider.LevelOff)} },
		"reasoning_minimal":       func() prepared { return prepared{req: reasoning(provider.LevelMinimal)} },
		"reasoning_without_texts": func() prepared { return prepared{Config{NoReasoningSummary: true}, reasoning(provider.LevelMax)} },
		"cap_of_one": func() prepared {
			req := request(provider.ThinkingNone, ask("hello"))
			req.MaxTokens = 1
			return prepared{req: req}
		},
		"no_output_cap": func() prepared {
			req := request(provider.ThinkingNone, ask("hello"))
			req.MaxTokens = 0
			return prepared{req: req}
		},
		"cap_in_sampling": func() prepared {
			req := request(provider.ThinkingNone, ask("hello"))
			req.Sampling = json.RawMessage(`{"max_output_tokens":20,"text":{"verbosity":"low"}}`)
			return prepared{req: req}
		},
		"reasoning_that_cannot_go_back": func() prepared {
			return prepared{req: request(provider.ThinkingAdaptive, ask("hello"),
				said(thinking("no content", `{"id":"rs_1"}`), thinking("another protocol's", "EqQB+/=="), text("a", "")),
				ask("x"), said(thinking("alone", `{"id":"rs_2","encrypted_content":"gAAA"}`)), ask("go on"))}
		},
		"reasoning_without_id": func() prepared {
			return prepared{req: request(provider.ThinkingAdaptive, ask("hello"), said(thinking("text", `{"encrypted_content":"gAAA","summary":[]}`), text("a", "")), ask("x"))}
		},
		"no_empty_text": func() prepared {
			return prepared{req: request(provider.ThinkingNone, ask(""), message.Message{Role: message.RoleUser, Content: message.Blocks(text("", ""), text("hello", ""))}, said(text("", "")), ask("go on"))}
		},
	}
	for name, build := range cases {
		t.Run(name, func(t *testing.T) {
			p := build()
			recorded := send(t, p.cfg, p.req)
			if recorded.Path != "/v1/responses" {
				t.Errorf("path %s", recorded.Path)
			}
			for _, never := range []string{"never sent", "previous_response_id", "truncation", "fc_1"} {
				if bytes.Contains(recorded.Body, []byte(never)) {
					t.Errorf("%q was sent", never)
				}
			}
			golden(t, name, recorded.Body)
		})
	}
}

// TestReasoningRoundTrip sends back what a stream brought: the encrypted content and the summary's parts must be the same.
func TestReasoningRoundTrip(t *testing.T) {
	summaries := map[string][]string{"none": nil, "one": {"a<&>é"}, "two": {"one", "two\n\nand more"}, "with an empty part": {"", "x", ""}, "an empty one": {""}}
	for name, summary := range summaries {
		t.Run(name, func(t *testing.T) {
			o := run(t, join([]string{created(), finished(0, reasoningItem("rs_1", "gAAA+/=", summary...)), finished(1, callItem("fc_1", "c1", "add", `{"z":1,"a":1e2}`)), completed()})...)
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			stored, err := message.Decode(message.Encode(o.Response.Message))
			if err != nil {
				t.Fatal(err)
			}
			recorded := send(t, Config{}, request(provider.ThinkingAdaptive, ask("hello"), stored, toolResult("c1", message.Text("1"))))
			var body struct {
				Input []map[string]any `json:"input"`
			}
			if err := json.Unmarshal(recorded.Body, &body); err != nil {
				t.Fatal(err)
			}
			parts := []any{}
			for _, s := range summary {
				if s != "" || len(summary) > 1 {
					parts = append(parts, map[string]any{"type": "summary_text", "text": s})
				}
			}
			want := []map[string]any{
				{"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA+/=", "summary": parts},
				{"type": "function_call", "call_id": "c1", "name": "add", "arguments": `{"z":1,"a":1e2}`},
			}
			if diff := cmp.Diff(want, body.Input[1:3]); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzSignature states that no signature breaks a replay and that the parts of a summary, put together again, are the
// thinking.
func FuzzSignature(f *testing.F) {
	f.Add("a\n\nb", `{"encrypted_content":"x","summary":[1,1]}`)
	f.Add("ab", `{"encrypted_content":"x","summary":[-1,99]}`)
	f.Add("", `{"encrypted_content":"x","summary":[]}`)
	f.Add("é", `{"encrypted_content":"x","summary":[1]}`)
	f.Fuzz(func(t *testing.T, text, signature string) {
		item, ok := replay(thinking(text, signature))
		if !ok {
			return
		}
		joined := ""
		for i, part := range item.OfReasoning.Summary {
			if i > 0 {
				joined += summaryGap
			}
			joined += part.Text
		}
		if joined != text && len(item.OfReasoning.Summary) > 0 {
			t.Fatalf("parts %q of %q", joined, text)
		}
	})
}

func TestRequestsThatCannotBeBuilt(t *testing.T) {
	cases := map[string]provider.Request{
		"an image that was not loaded":             request("", message.Message{Role: message.RoleUser, Content: message.Blocks(picture(""))}),
		"an image of a result that was not loaded": request("", ask("x"), toolResult("a", message.Blocks(picture("")))),
		"an image from an assistant":               request("", ask("x"), said(picture("aW1n"))),
		"a call from a user":                       request("", message.Message{Role: message.RoleUser, Content: message.Blocks(toolCall("a", "b", "{}"))}),
		"a call in a result":                       request("", ask("x"), toolResult("a", message.Blocks(toolCall("a", "b", "{}")))),
		"an unknown role":                          request("", message.Message{Role: "system", Content: message.Text("x")}),
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
