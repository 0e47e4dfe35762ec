package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/providertest"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

// frame is an event named by its type, as the protocol has it.
func frame(data string) string {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal([]byte(data), &head); err != nil {
		panic(err)
	}
	return providertest.Event(head.Type, data)
}

func start(usage string) string {
	return frame(`{"type":"message_start","message":{"id":"resp-1","type":"message","role":"assistant","content":[],"model":"model-1","stop_reason":null,"usage":` + usage + `}}`)
}

func end(stop, usage string) []string {
	return []string{
		frame(`{"type":"message_delta","delta":{"stop_reason":` + stop + `,"stop_sequence":null},"usage":` + usage + `}`),
		frame(`{"type":"message_stop"}`),
	}
}

func quote(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

func textFrames(index int, increments ...string) []string {
	frames := []string{frame(fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`, index)), frame(`{"type":"ping"}`)}
	for _, s := range increments {
		frames = append(frames, frame(fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":%s}}`, index, quote(s))))
	}
	return append(frames, frame(fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index)))
}

func join(lists ...[]string) []string {
	var out []string
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

func newStreamer(cfg wire.Config) (provider.Streamer, error) { return New(Config{Config: cfg}) }

var adapter = providertest.Adapter{
	API: provider.APIAnthropicMessages,
	New: newStreamer,
	Text: func(increments ...string) []string {
		return join([]string{start(`{"input_tokens":11,"output_tokens":1}`)}, textFrames(0, increments...), end(`"end_turn"`, `{"output_tokens":7}`))
	},
	Failure: frame(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
	Quota:   `{"type":"error","error":{"type":"rate_limit_error","message":"limit","details":{"error_code":"enforced_spend_limit_reached"}}}`,
	Whole:   `{"id":"resp-1","type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`,
	EnvKeys: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_PROFILE"},
}

func TestConformance(t *testing.T) { providertest.Run(t, adapter) }

func BenchmarkStream(b *testing.B) { providertest.Benchmark(b, adapter) }

func FuzzStream(f *testing.F) {
	providertest.Fuzz(f, adapter, strings.Join(join([]string{start(someUsage), beginCall("0", "a", "one", "{}"), arguments("0", `{"x":1}`)}, end(`"tool_use"`, `{"output_tokens":2}`)), ""))
}
