package openaichat

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/providertest"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

func frame(data string) string { return providertest.Event("", data) }

// piece is a chunk with one choice.
func piece(delta, finish string) string {
	return frame(`{"id":"resp-1","object":"chat.completion.chunk","created":1,"model":"model-1","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`)
}

func usage(raw string) string {
	return frame(`{"id":"resp-1","object":"chat.completion.chunk","created":1,"model":"model-1","choices":[],"usage":` + raw + `}`)
}

const (
	first     = `{"role":"assistant","content":""}`
	done      = "data: [DONE]\n\n"
	someUsage = `{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}`
)

func quote(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

func say(s string) string { return piece(`{"content":`+quote(s)+`}`, "null") }

func join(lists ...[]string) []string {
	var out []string
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// ended closes a stream properly.
func ended(finish string) []string { return []string{piece(`{}`, finish), usage(someUsage), done} }

func newStreamer(cfg wire.Config) (provider.Streamer, error) { return New(Config{Config: cfg}) }

func run(t *testing.T, frames ...string) providertest.Outcome {
	t.Helper()
	server := providertest.NewServer(t, providertest.Frames(frames...))
	client, err := newStreamer(wire.Config{BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return providertest.Call(context.Background(), t, client, providertest.Request(provider.APIOpenAIChat))
}

var adapter = providertest.Adapter{
	API: provider.APIOpenAIChat,
	New: newStreamer,
	Text: func(increments ...string) []string {
		frames := []string{piece(first, "null")}
		for _, s := range increments {
			frames = append(frames, say(s))
		}
		return append(frames, ended(`"stop"`)...)
	},
	Failure: frame(`{"error":{"message":"Overloaded","type":"overloaded_error","code":null}}`),
	Quota:   `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`,
	Whole:   `{"id":"resp-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`,
	EnvKeys: []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY", "OPENAI_CUSTOM_HEADERS"},
}

func TestConformance(t *testing.T) { providertest.Run(t, adapter) }

func BenchmarkStream(b *testing.B) { providertest.Benchmark(b, adapter) }

func FuzzStream(f *testing.F) {
	providertest.Fuzz(f, adapter, strings.Join(join([]string{calls(begin("0", "a", "f", `{"a"`)), calls(more("0", `:1}`))}, ended(`"tool_calls"`)), ""))
}
