package sdktest

import (
	"errors"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/anthropic"
	"github.com/agentloop/agentloop/pkg/provider/openaichat"
	"github.com/agentloop/agentloop/pkg/provider/openairesponses"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

// adapters are the project's own clients of the server at url, by the protocol they speak.
func adapters(t *testing.T, url string) map[provider.API]provider.Streamer {
	t.Helper()
	config := wire.Config{BaseURL: url + "/v1", APIKey: key}
	messages, err := anthropic.New(anthropic.Config{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	chat, err := openaichat.New(openaichat.Config{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	responses, err := openairesponses.New(openairesponses.Config{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	return map[provider.API]provider.Streamer{
		provider.APIAnthropicMessages: messages, provider.APIOpenAIChat: chat, provider.APIOpenAIResponses: responses,
	}
}

func userMessage(text string) message.Message {
	return message.Message{Role: message.RoleUser, Content: message.Text(text)}
}

func adapterRequest(api provider.API, model string, messages ...message.Message) provider.Request {
	return provider.Request{
		Model: provider.Model{Provider: "p", API: api, ID: model, ContextWindow: 1000, MaxTokens: 4096,
			Thinking: provider.ThinkingFixed, Images: true},
		System: "You add.", Messages: messages, MaxTokens: 2000, Reasoning: provider.LevelLow, ThinkingBudget: 1024,
		Tools: []message.Tool{{Name: "add", Description: "adds", Parameters: []byte(`{"type":"object"}`)}},
		Guard: func([]byte) error { return nil }, PromptCache: true,
	}
}

func stream(t *testing.T, s provider.Streamer, req provider.Request) (provider.Response, error) {
	t.Helper()
	return s.Stream(t.Context(), req, func(provider.Delta) {})
}

// What an adapter made of an answer, thinking included, is accepted when it comes back in the next two turns.
func TestAdaptersConverse(t *testing.T) {
	url := serve(t)
	for api, s := range adapters(t, url) {
		t.Run(string(api), func(t *testing.T) {
			history := []message.Message{userMessage("1.5+ü?")}
			for range 2 {
				called, err := stream(t, s, adapterRequest(api, "m", history...))
				if err != nil {
					t.Fatal(err)
				}
				calls := called.Message.ToolCalls()
				if len(calls) != 1 || called.Message.StopReason != message.StopToolUse || string(calls[0].Arguments) != arguments {
					t.Fatalf("got %s", message.Encode(called.Message))
				}
				result := message.Message{Role: message.RoleToolResult, ToolCallID: calls[0].ID, ToolName: "add", Content: message.Text(toolResult)}
				history = append(history, called.Message, result)
				answered, err := stream(t, s, adapterRequest(api, "m", history...))
				if err != nil {
					t.Fatal(err)
				}
				if answered.Message.PlainText() != finally {
					t.Errorf("got %s", message.Encode(answered.Message))
				}
				history = append(history, answered.Message, userMessage("and again?"))
			}
		})
	}
}

func TestAdaptersClassifyFaults(t *testing.T) {
	cases := map[string]struct {
		model, text string
		want        provider.Class
	}{
		"a prompt that is too long": {"m", strings.Repeat("word ", 2000), provider.ClassOverflow},
		"a stream without its end":  {"cut", "truncate", provider.ClassTruncated},
		"overload inside a stream":  {"cut", "overload", provider.ClassOverloaded},
		"a rate limit":              {"cut", "limit", provider.ClassRateLimited},
		"an unknown model":          {"x", "hi", provider.ClassInvalidRequest},
	}
	for name, tc := range cases {
		for _, api := range []provider.API{provider.APIAnthropicMessages, provider.APIOpenAIChat, provider.APIOpenAIResponses} {
			t.Run(name+"/"+string(api), func(t *testing.T) {
				url := serve(t) // a server of its own: replies are used up
				s := adapters(t, url)[api]
				_, err := stream(t, s, adapterRequest(api, tc.model, userMessage(tc.text)))
				var e *provider.Error
				if !errors.As(err, &e) || e.Class != tc.want {
					t.Errorf("got %v, want the class %s", err, tc.want)
				}
			})
		}
	}
}
