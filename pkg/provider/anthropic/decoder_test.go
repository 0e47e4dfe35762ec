package anthropic

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/providertest"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

const someUsage = `{"input_tokens":5,"output_tokens":1}`

func run(t *testing.T, frames ...string) providertest.Outcome {
	t.Helper()
	server := providertest.NewServer(t, providertest.Frames(frames...))
	client, err := newStreamer(wire.Config{BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return providertest.Call(context.Background(), t, client, providertest.Request(provider.APIAnthropicMessages))
}

func beginCall(index, id, name, input string) string {
	return frame(`{"type":"content_block_start","index":` + index + `,"content_block":{"type":"tool_use","id":"` + id + `","name":"` + name + `","input":` + input + `}}`)
}

func arguments(index, part string) string {
	return frame(`{"type":"content_block_delta","index":` + index + `,"delta":{"type":"input_json_delta","partial_json":` + quote(part) + `}}`)
}

func delta(index, kind, field, value string) string {
	return frame(`{"type":"content_block_delta","index":` + index + `,"delta":{"type":"` + kind + `","` + field + `":` + quote(value) + `}}`)
}

// TestMessages compares whole messages in their stored form.
func TestMessages(t *testing.T) {
	const head = `{"role":"assistant","content":`
	tail := func(stop, usage string) string {
		return `,"provider":"p","api":"anthropic-messages","model":"model-1","stopReason":"` + stop + `","usage":` + usage + `}`
	}
	cases := map[string]struct {
		frames []string
		want   string
		raw    string
	}{
		"thinking, redacted thinking and signatures are kept byte for byte and in order": {
			frames: join([]string{start(someUsage),
				frame(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`),
				delta("0", "thinking_delta", "thinking", "Let me <see> & \u2028 think"),
				delta("0", "signature_delta", "signature", "EqQB+/=="),
				frame(`{"type":"content_block_stop","index":0}`),
				frame(`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"Em0K+/=="}}`),
				frame(`{"type":"content_block_start","index":2,"content_block":{"type":"thinking","thinking":"","signature":""}}`),
				delta("2", "signature_delta", "signature", "only-signed"),
			}, textFrames(3, "Done."), end(`"end_turn"`, `{"output_tokens":9,"output_tokens_details":{"thinking_tokens":6}}`)),
			want: head + `[{"type":"thinking","thinking":"Let me <see> & ` + "\u2028" + ` think","thinkingSignature":"EqQB+/=="},` +
				`{"type":"thinking","thinking":"","thinkingSignature":"Em0K+/==","redacted":true},` +
				`{"type":"thinking","thinking":"","thinkingSignature":"only-signed"},{"type":"text","text":"Done."}]` +
				tail("stop", `{"input":5,"output":9,"reasoning":6}`),
			raw: "end_turn",
		},
		"two calls with arguments in pieces": {
			frames: join([]string{start(someUsage), beginCall("0", "toolu_1", "add", "{}"), arguments("0", ""), arguments("0", `{"b": 2, "a"`), arguments("0", `: 1.50}`),
				frame(`{"type":"content_block_stop","index":0}`), beginCall("1", "toolu_2", "now", "{}"), frame(`{"type":"content_block_stop","index":1}`)}, end(`"tool_use"`, `{"output_tokens":9}`)),
			want: head + `[{"type":"toolCall","id":"toolu_1","name":"add","arguments":{"b":2,"a":1.50}},{"type":"toolCall","id":"toolu_2","name":"now","arguments":{}}]` + tail("toolUse", `{"input":5,"output":9}`),
			raw:  "tool_use",
		},
		"interleaved blocks": {
			frames: join([]string{start(someUsage), beginCall("0", "a", "one", "{}"), beginCall("1", "b", "two", "{}"), arguments("1", `{"y":`), arguments("0", `{"x":1`), arguments("1", `2}`), arguments("0", `}`)}, end(`"tool_use"`, `{"output_tokens":2}`)),
			want:   head + `[{"type":"toolCall","id":"a","name":"one","arguments":{"x":1}},{"type":"toolCall","id":"b","name":"two","arguments":{"y":2}}]` + tail("toolUse", `{"input":5,"output":2}`),
			raw:    "tool_use",
		},
		"a call whose input is in its start event": {
			frames: join([]string{start(someUsage), beginCall("0", "a", "one", `{"x": [1, 2]}`)}, end(`"tool_use"`, `{"output_tokens":2}`)),
			want:   head + `[{"type":"toolCall","id":"a","name":"one","arguments":{"x":[1,2]}}]` + tail("toolUse", `{"input":5,"output":2}`),
			raw:    "tool_use",
		},
		"a start event with input and increments: the increments are the input": {
			frames: join([]string{start(someUsage), beginCall("0", "a", "one", `{"x":1}`), arguments("0", `{"x":1}`)}, end(`"tool_use"`, `{"output_tokens":2}`)),
			want:   head + `[{"type":"toolCall","id":"a","name":"one","arguments":{"x":1}}]` + tail("toolUse", `{"input":5,"output":2}`),
			raw:    "tool_use",
		},
		"a text block that begins with text": {
			frames: join([]string{start(someUsage), frame(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hel"}}`), delta("0", "text_delta", "text", "lo")}, end(`"end_turn"`, `{"output_tokens":2}`)),
			want:   head + `[{"type":"text","text":"Hello"}]` + tail("stop", `{"input":5,"output":2}`),
			raw:    "end_turn",
		},
		"an empty text block leaves no trace": {
			frames: join([]string{start(someUsage)}, textFrames(0), textFrames(1, "x"), end(`"end_turn"`, `{"output_tokens":2}`)),
			want:   head + `[{"type":"text","text":"x"}]` + tail("stop", `{"input":5,"output":2}`),
			raw:    "end_turn",
		},
		"blocks, increments and events of unknown kinds are passed over": {
			frames: join([]string{start(someUsage), frame(`{"type":"content_block_start","index":0,"content_block":{"type":"hologram","data":{"z":1}}}`),
				frame(`{"type":"content_block_delta","index":0,"delta":{"type":"hologram_delta","z":2}}`), frame(`{"type":"content_block_stop","index":0}`),
				frame(`{"type":"hologram_event","x":[1]}`)}, textFrames(1, "seen"), end(`"end_turn"`, `{"output_tokens":2}`)),
			want: head + `[{"type":"text","text":"seen"}]` + tail("stop", `{"input":5,"output":2}`),
			raw:  "end_turn",
		},
		"fields of other types than expected": {
			frames: join([]string{start(someUsage), frame(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":null,"id":5}}`),
				frame(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x","thinking":[],"stop_reason":{}}}`)}, end(`"end_turn"`, `{"output_tokens":2}`)),
			want: head + `[{"type":"text","text":"x"}]` + tail("stop", `{"input":5,"output":2}`),
			raw:  "end_turn",
		},
		"an unknown stop reason is an ordinary stop": {
			frames: join([]string{start(someUsage)}, textFrames(0, "x"), end(`"tea_break"`, `{"output_tokens":2}`)),
			want:   head + `[{"type":"text","text":"x"}]` + tail("stop", `{"input":5,"output":2}`),
			raw:    "tea_break",
		},
		"an unknown stop reason after a call is a tool use": {
			frames: join([]string{start(someUsage), beginCall("0", "a", "one", "{}")}, end(`"tea_break"`, `{"output_tokens":2}`)),
			want:   head + `[{"type":"toolCall","id":"a","name":"one","arguments":{}}]` + tail("toolUse", `{"input":5,"output":2}`),
			raw:    "tea_break",
		},
		"no stop reason but the end": {
			frames: join([]string{start(someUsage)}, textFrames(0, "x"), []string{frame(`{"type":"message_stop"}`)}),
			want:   head + `[{"type":"text","text":"x"}]` + tail("stop", `{"input":5,"output":1}`),
		},
		"a stop sequence": {
			frames: join([]string{start(someUsage)}, textFrames(0, "x"), end(`"stop_sequence"`, `{"output_tokens":2}`)),
			want:   head + `[{"type":"text","text":"x"}]` + tail("stop", `{"input":5,"output":2}`),
			raw:    "stop_sequence",
		},
		"a cap that cuts a call: it is kept, cannot run, and the stop is length": {
			frames: join([]string{start(someUsage)}, textFrames(0, "x"), []string{beginCall("1", "a", "rm", "{}"), arguments("1", `{"path":"/tmp/x`)}, end(`"max_tokens"`, `{"output_tokens":100}`)),
			want:   head + `[{"type":"text","text":"x"},{"type":"toolCall","id":"a","name":"rm","arguments":{}}]` + tail("length", `{"input":5,"output":100}`),
			raw:    "max_tokens",
		},
		"arguments that are no object count as cut whatever the stop reason says": {
			frames: join([]string{start(someUsage), beginCall("0", "a", "rm", "{}"), arguments("0", `["x"]`), beginCall("1", "b", "ls", "{}")}, end(`"tool_use"`, `{"output_tokens":2}`)),
			want:   head + `[{"type":"toolCall","id":"a","name":"rm","arguments":{}},{"type":"toolCall","id":"b","name":"ls","arguments":{}}]` + tail("length", `{"input":5,"output":2}`),
			raw:    "tool_use",
		},
		"two calls with one id get two": {
			frames: join([]string{start(someUsage), beginCall("0", "a", "one", "{}"), beginCall("1", "a", "two", "{}")}, end(`"tool_use"`, `{"output_tokens":2}`)),
			want:   head + `[{"type":"toolCall","id":"a","name":"one","arguments":{}},{"type":"toolCall","id":"ax","name":"two","arguments":{}}]` + tail("toolUse", `{"input":5,"output":2}`),
			raw:    "tool_use",
		},
		"cache counts, null where they do not change": {
			frames: join([]string{start(`{"input_tokens":3,"cache_creation_input_tokens":1200,"cache_read_input_tokens":50000,"output_tokens":1}`)}, textFrames(0, "x"),
				end(`"end_turn"`, `{"input_tokens":null,"cache_creation_input_tokens":null,"output_tokens":8}`)),
			want: head + `[{"type":"text","text":"x"}]` + tail("stop", `{"input":3,"output":8,"cacheRead":50000,"cacheWrite":1200}`),
			raw:  "end_turn",
		},
		"no usage is not zero usage": {
			frames: join([]string{frame(`{"type":"message_start","message":{"id":"resp-1","content":[]}}`)}, textFrames(0, "x"), end(`"end_turn"`, `null`)),
			want:   head + `[{"type":"text","text":"x"}],"provider":"p","api":"anthropic-messages","model":"model-1","stopReason":"stop"}`,
			raw:    "end_turn",
		},
		"an answer without content": {
			frames: join([]string{start(someUsage)}, end(`"end_turn"`, `{"output_tokens":2}`)),
			want:   head + `[]` + tail("stop", `{"input":5,"output":2}`),
			raw:    "end_turn",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := run(t, c.frames...)
			if o.Err != nil {
				t.Fatalf("%v: %v", o.Err, o.Failure.Err)
			}
			if diff := cmp.Diff(c.want, string(message.Encode(o.Response.Message))); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if o.Response.RawStopReason != c.raw {
				t.Errorf("raw stop reason %q, want %q", o.Response.RawStopReason, c.raw)
			}
		})
	}
}

func TestFailingStopReasons(t *testing.T) {
	cases := map[string]struct {
		stop, usage string
		class       provider.Class
		code        string
	}{
		"a refusal":                             {`"refusal"`, `{"output_tokens":2}`, provider.ClassRefused, "refusal"},
		"the window is full":                    {`"model_context_window_exceeded"`, `{"output_tokens":2}`, provider.ClassOverflow, "model_context_window_exceeded"},
		"no output although the window is full": {`"max_tokens"`, `{"input_tokens":995,"output_tokens":0}`, provider.ClassOverflow, "stop_reason"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := run(t, join([]string{start(someUsage)}, textFrames(0, "half"), end(c.stop, c.usage))...)
			f := o.Failure
			if f == nil || f.Class != c.class || f.Code != c.code || f.Usage == nil || f.Partial == nil || f.Partial.PlainText() != "half" || f.ResponseID != "resp-1" {
				t.Errorf("failure %+v", f)
			}
		})
	}
}

// TestIncrements pins what the consumer of a stream sees.
func TestIncrements(t *testing.T) {
	o := run(t, join([]string{start(someUsage),
		frame(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`),
		delta("0", "thinking_delta", "thinking", "hm"), delta("0", "signature_delta", "signature", "sig")},
		textFrames(1), textFrames(2, "a", "", "b"),
		[]string{beginCall("3", "toolu_1", "add", "{}"), arguments("3", `{"a"`), arguments("3", `:1}`)}, end(`"tool_use"`, `{"output_tokens":2}`))...)
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	var got []string
	for _, d := range o.Deltas {
		got = append(got, strings.Join([]string{string(d.Kind), string(rune('0' + d.Block)), d.Text, d.ToolCallID, d.ToolName}, "|"))
	}
	want := []string{"thinking|0|hm||", "text|1|a||", "text|1|b||", "toolCall|2||toolu_1|add", `toolCall|2|{"a"|toolu_1|`, `toolCall|2|:1}|toolu_1|`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("increments (-want +got):\n%s", diff)
	}
	for i, b := range o.Response.Message.Content.Blocks {
		if want := []message.BlockType{message.BlockThinking, message.BlockText, message.BlockToolCall}[i]; b.Type != want {
			t.Errorf("block %d is %s, want %s", i, b.Type, want)
		}
	}
}
