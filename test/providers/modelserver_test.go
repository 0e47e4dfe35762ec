package providers

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/wire"
	"github.com/agentloop/agentloop/test/modelserver"
)

// strict runs a case on all protocols against a scripted model server of its own.
func strict(t *testing.T, script string, check func(t *testing.T, p protocol, s provider.Streamer, m *modelserver.Server)) {
	for _, p := range protocols {
		t.Run(string(p.api), func(t *testing.T) {
			m := modelserver.New(modelserver.Options{})
			if _, err := m.LoadYAML([]byte("model: mock-model\nwindow: 200000\n"+script), ""); err != nil {
				t.Fatal(err)
			}
			h := httptest.NewServer(m)
			t.Cleanup(func() { m.Close(); h.Close() })
			s, err := p.new(wire.Config{BaseURL: h.URL + "/v1", APIKey: "k"})
			if err != nil {
				t.Fatal(err)
			}
			check(t, p, s, m)
		})
	}
}

// TestStrictConversation walks through what the providers are strict about: thinking that comes back as it was, parallel
// calls, an error result with an image, cache markers, and a second prompt.
func TestStrictConversation(t *testing.T) {
	const script = `
thinking: adaptive
images: true
replies:
  - match: {step: 1, lastUser: first}
    content:
      - thinking: "Look <at> it & decide."
      - text: I use both.
      - toolCall: {id: c1, name: add, rawArguments: '{"b": 2, "a": 1.50, "s": "ü\"\\"}'}
      - toolCall: {id: c2, name: now, arguments: {}}
    usage: {input: 100, output: 20, cacheRead: 30, cacheWrite: 40, reasoning: 5}
    chunks: 5
  - match: {step: 2}
    content: [{thinking: Another thought.}, {text: Three.}]
    usage: {}
  - match: {lastUser: second}
    content: [{text: Welcome.}]
    usage: {input: 7}
`
	strict(t, script, func(t *testing.T, p protocol, s provider.Streamer, m *modelserver.Server) {
		history := []message.Message{user("first")}
		request := func() provider.Request {
			req := ask(p, history...)
			req.Reasoning, req.Model.Images, req.StablePrefix = provider.LevelMedium, true, len(history)-1
			return req
		}
		first, _ := call(t, s, request())
		if got := first.Message.ToolCalls(); len(got) != 2 || string(got[0].Arguments) != `{"b":2,"a":1.50,"s":"ü\"\\"}` || string(got[1].Arguments) != "{}" {
			t.Fatalf("message %s", message.Encode(first.Message))
		}
		wantUsage(t, p, first.Message.Usage)
		stored, err := message.Decode(message.Encode(first.Message))
		if err != nil {
			t.Fatal(err)
		}
		failed := result("c2", "now", "")
		failed.IsError, failed.Details = true, json.RawMessage(`{"local":"never sent"}`)
		failed.Content = message.Blocks(message.Block{Type: message.BlockText, Text: "no clock"}, message.Block{Type: message.BlockImage, MediaType: "image/png", Data: pixel})
		history = append(history, stored, result("c1", "add", "3.5"), failed)
		second, _ := call(t, s, request())
		if second.Message.PlainText() != "Three." || second.Message.Usage != nil {
			t.Errorf("message %s", message.Encode(second.Message))
		}
		history = append(history, second.Message, user("second"))
		third, _ := call(t, s, request())
		if u := third.Message.Usage; third.Message.PlainText() != "Welcome." || u == nil || u.Input == nil || *u.Input != 7 || u.Output != nil || u.CacheRead != nil {
			t.Errorf("message %s", message.Encode(third.Message))
		}
		requests := m.Requests("mock-model")
		if len(requests) != 3 {
			t.Fatalf("%d requests", len(requests))
		}
		for _, r := range requests {
			if r.Outcome != modelserver.OutcomeComplete || strings.Contains(r.Raw, "never sent") || strings.Contains(r.Raw, `"details"`) {
				t.Errorf("request %s: %s", r.Outcome, r.Raw)
			}
		}
	})
}

// pixel is a PNG of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func wantUsage(t *testing.T, p protocol, got *message.Usage) {
	t.Helper()
	n := func(v int64) *int64 { return &v }
	want := &message.Usage{Input: n(100), Output: n(20), CacheRead: n(30), CacheWrite: n(40), Reasoning: n(5)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: usage (-want +got):\n%s", p.api, diff)
	}
}

func TestStrictEndings(t *testing.T) {
	const script = `
replies:
  - match: {lastUser: cut call}
    content: [{text: I remove it.}, {toolCall: {id: c1, name: remove, rawArguments: '{"path": "/tm'}}]
    stopReason: length
  - match: {lastUser: broken call}
    content: [{toolCall: {id: c1, name: remove, rawArguments: '{"path": '}}]
    stopReason: toolUse
  - match: {lastUser: new word}
    content: [{text: Fine.}]
    stopReason: tea_break
`
	strict(t, script, func(t *testing.T, p protocol, s provider.Streamer, _ *modelserver.Server) {
		for _, prompt := range []string{"cut call", "broken call"} {
			resp, _ := call(t, s, ask(p, user(prompt)))
			calls := resp.Message.ToolCalls()
			if len(calls) != 1 || string(calls[0].Arguments) != "{}" || resp.Message.StopReason != message.StopLength {
				t.Errorf("%s: message %s", prompt, message.Encode(resp.Message))
			}
		}
		if p.api == provider.APIOpenAIResponses {
			return // it has no stop reasons besides completed and incomplete
		}
		resp, _ := call(t, s, ask(p, user("new word")))
		if resp.Message.StopReason != message.StopStop || resp.RawStopReason != "tea_break" {
			t.Errorf("stop reason %s of %q", resp.Message.StopReason, resp.RawStopReason)
		}
	})
}

func TestStrictFaults(t *testing.T) {
	const script = `
replies:
  - match: {lastUser: drop}
    content: [{text: {repeat: "half of this ", times: 50}}]
    drop: {afterChunks: 3}
  - match: {lastUser: truncate}
    content: [{text: {repeat: "half of this ", times: 50}}]
    truncate: {afterChunks: 3}
  - match: {lastUser: fail inside}
    content: [{text: {repeat: "half of this ", times: 50}}]
    error: {status: 529, type: overloaded_error, code: server_is_overloaded, message: Overloaded, afterChunks: 2}
  - match: {lastUser: wait}
    error: {status: 429, retryAfter: 3}
  - match: {lastUser: page}
    raw: {status: 502, body: "<html><body>Bad Gateway</body></html>"}
  - match: {lastUser: sign in}
    raw: {body: "<html><body>Sign in</body></html>"}
`
	cases := map[string]struct {
		class   provider.Class
		status  int
		partial bool
	}{
		"drop":        {provider.ClassTruncated, 200, true},
		"truncate":    {provider.ClassTruncated, 200, true},
		"fail inside": {provider.ClassOverloaded, 200, true},
		"wait":        {provider.ClassRateLimited, 429, false},
		"page":        {provider.ClassTransient, 502, false},
		"sign in":     {provider.ClassTransient, 200, false},
	}
	strict(t, script, func(t *testing.T, p protocol, s provider.Streamer, m *modelserver.Server) {
		for prompt, c := range cases {
			f := failure(t, s, ask(p, user(prompt)))
			if f.Class != c.class || f.HTTPStatus != c.status || (f.Partial != nil) != c.partial {
				t.Errorf("%s: failure %+v", prompt, f)
			}
		}
		if n := len(m.Requests("mock-model")); n != len(cases) {
			t.Errorf("%d requests for %d calls", n, len(cases))
		}
	})
}

func TestStrictCancelReachesTheServer(t *testing.T) {
	strict(t, "replies: [{content: [{text: {repeat: 'word ', times: 50}}], hang: {afterChunks: 2}}]", func(t *testing.T, p protocol, s provider.Streamer, m *modelserver.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := s.Stream(ctx, ask(p, user("go")), func(provider.Delta) { cancel() })
		var f *provider.Error
		if !errors.As(err, &f) || f.Class != provider.ClassCancelled || f.Partial == nil || f.Partial.StopReason != message.StopAborted || f.Usage != nil {
			t.Errorf("error %v (%+v)", err, f)
		}
		m.Close() // ends what would still hang, so that the outcome below is final
		if got := m.Requests("mock-model"); len(got) != 1 {
			t.Errorf("%d requests", len(got))
		}
	})
}

func TestStrictServerSeesNothingOfARefusedRequest(t *testing.T) {
	strict(t, "replies: [{content: [{text: x}], repeat: true}]", func(t *testing.T, p protocol, s provider.Streamer, m *modelserver.Server) {
		refused := errors.New("omitted")
		req := ask(p, user("go"))
		req.Guard = func([]byte) error { return refused }
		if f := failure(t, s, req); f.Class != provider.ClassRejected || !errors.Is(f, refused) {
			t.Errorf("failure %+v", f)
		}
		if n := len(m.Requests("mock-model")); n != 0 {
			t.Errorf("%d requests arrived", n)
		}
	})
}

// TestStrictServerNoticesChangedThinking shows that the byte-identical replay is needed, and checked where it matters.
func TestStrictServerNoticesChangedThinking(t *testing.T) {
	const script = "thinking: adaptive\nreplies: [{content: [{thinking: A thought.}, {toolCall: {id: c1, name: add, arguments: {a: 1}}}], repeat: true}]"
	strict(t, script, func(t *testing.T, p protocol, s provider.Streamer, _ *modelserver.Server) {
		req := ask(p, user("go"))
		req.Reasoning = provider.LevelHigh
		resp, _ := call(t, s, req)
		changed := resp.Message
		changed.Content.Blocks = append([]message.Block(nil), changed.Content.Blocks...)
		switch p.api {
		case provider.APIAnthropicMessages:
			changed.Content.Blocks[0].Thinking += "!"
		case provider.APIOpenAIResponses:
			changed.Content.Blocks[0].ThinkingSignature = strings.Replace(changed.Content.Blocks[0].ThinkingSignature, `"encrypted_content":"`, `"encrypted_content":"A`, 1)
		default:
			return // chat reasoning is not signed
		}
		req.Messages = append(req.Messages, changed, result("c1", "add", "1"))
		if f := failure(t, s, req); f.Class != provider.ClassInvalidRequest || f.HTTPStatus != 400 {
			t.Errorf("failure %+v", f)
		}
	})
}
