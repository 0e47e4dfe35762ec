package loopback

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
	"github.com/agentloop/agentloop/test/modelserver"
)

// pixel is the smallest thing that the model server takes for an image.
var pixel = base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n"))

// camera is a set with one tool, which fails with a picture.
type camera struct {
	NoTools
	content []message.Block
}

// Connect implements agent.Tools.
func (c camera) Connect(context.Context, *session.ToolSet) (tool.Set, error) { return c, nil }

// Definitions implements tool.Set.
func (camera) Definitions() []tool.Definition {
	return []tool.Definition{{Tool: message.Tool{Name: "shoot", Description: "Takes a picture.", Parameters: []byte(`{"type":"object"}`)}, Server: "local"}}
}

// Call implements tool.Set.
func (c camera) Call(context.Context, tool.Call, func(string)) (tool.Result, error) {
	return tool.Result{Content: message.Blocks(c.content...), IsError: true, Audit: tool.Audit{Server: "local", Outcome: "toolError"}}, nil
}

// shape is what a request's messages consist of, a word for each part.
func shape(t *testing.T, raw string) []string {
	t.Helper()
	type part struct {
		Type, Role string
		Text       string
		Output     any
		IsError    bool `json:"is_error"`
		Content    json.RawMessage
	}
	var body struct{ Messages, Input []part }
	if err := json.Unmarshal([]byte(raw), &body); err != nil {
		t.Fatal(err)
	}
	var words func(p part) []string
	words = func(p part) []string {
		var nested []part
		name := strings.Trim(p.Role+" "+p.Type, " ")
		if p.IsError {
			name += " failed"
		}
		content := p.Content
		if p.Output != nil {
			content, _ = json.Marshal(p.Output)
		}
		if json.Unmarshal(content, &nested) != nil || len(nested) == 0 {
			return []string{name}
		}
		out := []string{name}
		for _, inner := range nested {
			for _, word := range words(inner) {
				out = append(out, " "+word)
			}
		}
		return out
	}
	var out []string
	for _, p := range append(body.Messages, body.Input...) {
		out = append(out, words(p)...)
	}
	return out
}

// TestErrorResultWithImage: Messages takes no image in a result that is marked as failed, and no such result without text. The picture
// follows the results there; the other protocols have it where they have any.
func TestErrorResultWithImage(t *testing.T) {
	image := message.Block{Type: message.BlockImage, MediaType: "image/png", Data: pixel}
	said := message.Block{Type: message.BlockText, Text: "The lens is dirty."}
	cases := map[string]struct {
		content []message.Block
		want    map[provider.API][]string
	}{
		"beside a text": {[]message.Block{said, image}, map[provider.API][]string{
			provider.APIAnthropicMessages: {"user", " text", "assistant", " tool_use", " tool_use", "user", " tool_result failed", "  text", " tool_result failed", "  text", " image", " image"},
			provider.APIOpenAIChat:        {"system", "user", "assistant", "tool", "tool", "user", " image_url", " image_url"},
			provider.APIOpenAIResponses:   {"user", "function_call", "function_call", "function_call_output", " input_text", " input_image", "function_call_output", " input_text", " input_image"},
		}},
		"alone": {[]message.Block{image}, map[provider.API][]string{
			provider.APIAnthropicMessages: {"user", " text", "assistant", " tool_use", " tool_use", "user", " tool_result failed", "  text", " tool_result failed", "  text", " image", " image"},
			provider.APIOpenAIChat:        {"system", "user", "assistant", "tool", "tool", "user", " image_url", " image_url"},
			provider.APIOpenAIResponses:   {"user", "function_call", "function_call", "function_call_output", " input_image", "function_call_output", " input_image"},
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e, err := New(camera{content: tc.content})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			})
			models := load(t, e, `model: $MODEL
replies:
- content: [{toolCall: {name: shoot}}, {toolCall: {name: shoot}}]
- content: [{text: fine}]
  repeat: true
`)
			for _, api := range APIs {
				model := models[api]
				model.Images = true
				finish(t, e, "one-"+string(api), model, "Take two pictures.")
				requests := e.Models.Requests(string(api))
				if len(requests) != 2 || requests[1].Outcome != modelserver.OutcomeComplete {
					t.Fatalf("%s: %d requests, the last one %s", api, len(requests), requests[len(requests)-1].Outcome)
				}
				if diff := cmp.Diff(tc.want[api], shape(t, requests[1].Raw)); diff != "" {
					t.Errorf("%s: (-want +got):\n%s", api, diff)
				}
			}
		})
	}
}

// TestReasoningWithoutItsAnswer: a reply that broke off in its reasoning stays in the history, and leaves the next request whole: a
// provider refuses reasoning without what followed it.
func TestReasoningWithoutItsAnswer(t *testing.T) {
	e := start(t)
	models := load(t, e, `model: $MODEL
thinking: adaptive
replies:
- content: [{thinking: First I have to think about this for a while.}, {text: "An answer"}]
  chunks: 4
  truncate: {afterChunks: 4}
- content: [{thinking: Now I know.}, {text: fine}]
  repeat: true
`)
	for _, api := range APIs {
		model := models[api]
		model.Thinking = provider.ThinkingAdaptive
		run := Run("s-"+string(api), "broken-"+string(api), model, "hi")
		run.Config.Reasoning = provider.LevelLow
		if got, err := e.Execute(t.Context(), run); err != nil || got.Event != runevent.TypeRunFailed {
			t.Fatalf("%s: %+v, %v", api, got, err)
		}
		for _, uid := range []string{"two-", "three-"} {
			run := Run("s-"+string(api), uid+string(api), model, "and now?")
			run.Config.Reasoning = provider.LevelLow
			if got, err := e.Execute(t.Context(), run); err != nil || got.Event != runevent.TypeRunFinished {
				t.Fatalf("%s: %+v, %v", api, got, err)
			}
		}
		requests := e.Models.Requests(string(api))
		if len(requests) != 3 || strings.Contains(requests[1].Raw, "for a while") || strings.Contains(requests[2].Raw, "for a while") {
			t.Fatalf("%s: %d requests, the second one %s", api, len(requests), requests[1].Raw)
		}
		if replies := strings.Count(requests[1].Raw, `"assistant"`); replies != 0 {
			t.Errorf("%s: the broken reply is sent: %s", api, requests[1].Raw)
		}
		if api != provider.APIOpenAIResponses && !strings.Contains(requests[2].Raw, "Now I know.") || api == provider.APIOpenAIResponses && !strings.Contains(requests[2].Raw, "encrypted_content") {
			t.Errorf("%s: the reasoning of the whole reply is not sent: %s", api, requests[2].Raw)
		}
	}
}
