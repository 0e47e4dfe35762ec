package openairesponses

import (
	"context"
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

const someUsage = `{"input_tokens":11,"input_tokens_details":{},"output_tokens":7,"output_tokens_details":{},"total_tokens":18}`

func whole(event, status, more, usage string) string {
	return frame(`{"type":"` + event + `","sequence_number":1,"response":{"id":"resp-1","object":"response","status":"` + status + `","model":"model-1","usage":` + usage + more + `}}`)
}

func created() string { return whole("response.created", "in_progress", `,"output":[]`, `null`) }

func completed() string {
	return whole("response.completed", "completed", `,"output":[]`, someUsage)
}

func added(index int, item string) string {
	return frame(fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":%s}`, index, item))
}

func finished(index int, item string) string {
	return frame(fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, index, item))
}

func increment(kind string, index int, more, delta string) string {
	return frame(fmt.Sprintf(`{"type":"response.%s.delta","item_id":"i","output_index":%d,%s"delta":%s}`, kind, index, more, quote(delta)))
}

func quote(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

func join(lists ...[]string) []string {
	var out []string
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// textItem streams a message item.
func textItem(index int, increments ...string) []string {
	frames := []string{added(index, `{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}`)}
	whole := ""
	for _, s := range increments {
		whole += s
		frames = append(frames, increment("output_text", index, `"content_index":0,`, s))
	}
	return append(frames, finished(index, `{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":`+quote(whole)+`,"annotations":[]}]}`))
}

func newStreamer(cfg wire.Config) (provider.Streamer, error) { return New(Config{Config: cfg}) }

func run(t *testing.T, frames ...string) providertest.Outcome {
	t.Helper()
	server := providertest.NewServer(t, providertest.Frames(frames...))
	client, err := newStreamer(wire.Config{BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return providertest.Call(context.Background(), t, client, providertest.Request(provider.APIOpenAIResponses))
}

var adapter = providertest.Adapter{
	API: provider.APIOpenAIResponses,
	New: newStreamer,
	Text: func(increments ...string) []string {
		// The finished item is left out of the increments' script: its text would differ where a case edits them.
		frames := []string{created(), added(0, `{"id":"msg_1","type":"message","role":"assistant","content":[]}`)}
		for _, s := range increments {
			frames = append(frames, increment("output_text", 0, `"content_index":0,`, s))
		}
		return append(frames, completed())
	},
	Failure: frame(`{"type":"error","code":"server_is_overloaded","message":"Overloaded","param":null,"sequence_number":3}`),
	Quota:   `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`,
	Whole:   `{"id":"resp-1","object":"response","status":"completed","error":null,"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":1,"output_tokens":1}}`,
	EnvKeys: []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY", "OPENAI_CUSTOM_HEADERS"},
}

func TestConformance(t *testing.T) { providertest.Run(t, adapter) }

func BenchmarkStream(b *testing.B) { providertest.Benchmark(b, adapter) }

func FuzzStream(f *testing.F) {
	providertest.Fuzz(f, adapter, strings.Join([]string{created(), finished(0, reasoningItem("rs_1", "gAAA", "a", "b")), finished(1, callItem("fc_1", "c1", "add", `{"a":1}`)), completed()}, ""))
}
