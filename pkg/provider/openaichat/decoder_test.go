package openaichat

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

func calls(raw string) string { return piece(`{"tool_calls":[`+raw+`]}`, "null") }

// begin and more are fragments of a call with an index.
func begin(index, id, name, arguments string) string {
	return `{"index":` + index + `,"id":"` + id + `","type":"function","function":{"name":"` + name + `","arguments":` + quote(arguments) + `}}`
}

func more(index, arguments string) string {
	return `{"index":` + index + `,"function":{"arguments":` + quote(arguments) + `}}`
}

// TestMessages compares whole messages in their stored form.
func TestMessages(t *testing.T) {
	const head = `{"role":"assistant","content":`
	const counts = `{"input":11,"output":7}`
	tail := func(stop, usage string) string {
		return `,"provider":"p","api":"openai-completions","model":"model-1","stopReason":"` + stop + `","usage":` + usage + `}`
	}
	call := func(id, name, arguments string) string {
		return `{"type":"toolCall","id":"` + id + `","name":"` + name + `","arguments":` + arguments + `}`
	}
	cases := map[string]struct {
		frames []string
		want   string
	}{
		"two calls by the book": {
			frames: join([]string{piece(first, "null"), calls(begin("0", "a", "add", "")), calls(more("0", `{"b": 2,`)), calls(more("0", ` "a": 1.50}`)), calls(begin("1", "b", "now", "{}"))}, ended(`"tool_calls"`)),
			want:   head + `[` + call("a", "add", `{"b":2,"a":1.50}`) + `,` + call("b", "now", `{}`) + `]` + tail("toolUse", counts),
		},
		"increments of two calls in one chunk and interleaved": {
			frames: join([]string{calls(begin("0", "a", "one", "") + `,` + begin("1", "b", "two", "")), calls(more("1", `{"y":2}`) + `,` + more("0", `{"x":1}`))}, ended(`"tool_calls"`)),
			want:   head + `[` + call("a", "one", `{"x":1}`) + `,` + call("b", "two", `{"y":2}`) + `]` + tail("toolUse", counts),
		},
		"every call has the index 0": {
			frames: join([]string{calls(begin("0", "a", "f", `{"a":1}`)), calls(begin("0", "b", "g", `{"b":2}`)), calls(begin("0", "c", "f", `{"c":`)), calls(more("0", `3}`))}, ended(`"tool_calls"`)),
			want:   head + `[` + call("a", "f", `{"a":1}`) + `,` + call("b", "g", `{"b":2}`) + `,` + call("c", "f", `{"c":3}`) + `]` + tail("toolUse", counts),
		},
		"no indexes at all": {
			frames: join([]string{calls(`{"id":"a","function":{"name":"f","arguments":"{\"a\""}}`), calls(`{"function":{"arguments":":1}"}}`), calls(`{"id":"b","function":{"name":"g","arguments":"{}"}}`)}, ended(`"tool_calls"`)),
			want:   head + `[` + call("a", "f", `{"a":1}`) + `,` + call("b", "g", `{}`) + `]` + tail("toolUse", counts),
		},
		"the id is repeated in every fragment": {
			frames: join([]string{calls(begin("0", "a", "f", `{"a"`)), calls(begin("0", "a", "f", `:1}`))}, ended(`"tool_calls"`)),
			want:   head + `[` + call("a", "f", `{"a":1}`) + `]` + tail("toolUse", counts),
		},
		"a fragment without a name has a new id": {
			frames: join([]string{calls(begin("0", "a", "f", `{"a"`)), calls(`{"index":0,"id":"other","function":{"arguments":":1}"}}`)}, ended(`"tool_calls"`)),
			want:   head + `[` + call("a", "f", `{"a":1}`) + `]` + tail("toolUse", counts),
		},
		"no ids: the names tell the calls apart": {
			frames: join([]string{say("x"), calls(begin("0", "", "f", `{"a":1}`)), calls(begin("0", "", "g", `{`)), calls(more("0", `}`))}, ended(`"tool_calls"`)),
			want:   head + `[{"type":"text","text":"x"},` + call("call_9a8fd09575cd_0", "f", `{"a":1}`) + `,` + call("call_9a8fd09575cd_1", "g", `{}`) + `]` + tail("toolUse", counts),
		},
		"the name comes after the first arguments": {
			frames: join([]string{calls(`{"index":0,"id":"a","function":{"arguments":"{\"a\""}}`), calls(`{"index":0,"function":{"name":"f","arguments":":1}"}}`)}, ended(`"tool_calls"`)),
			want:   head + `[` + call("a", "f", `{"a":1}`) + `]` + tail("toolUse", counts),
		},
		"calls without arguments": {
			frames: join([]string{calls(begin("0", "a", "f", "") + `,{"index":1,"id":"b","function":{"name":"g"}},` + begin("2", "c", "h", "null"))}, ended(`"tool_calls"`)),
			want:   head + `[` + call("a", "f", `{}`) + `,` + call("b", "g", `{}`) + `,` + call("c", "h", `{}`) + `]` + tail("toolUse", counts),
		},
		"the finish reason says stop although there are calls": {
			frames: join([]string{calls(begin("0", "a", "f", "{}"))}, ended(`"stop"`)),
			want:   head + `[` + call("a", "f", `{}`) + `]` + tail("toolUse", counts),
		},
		"the finish reason says calls although there are none": {
			frames: join([]string{say("x")}, ended(`"tool_calls"`)),
			want:   head + `[{"type":"text","text":"x"}]` + tail("stop", counts),
		},
		"the form before tool_calls": {
			frames: join([]string{piece(`{"function_call":{"name":"f","arguments":""}}`, "null"), piece(`{"function_call":{"arguments":"{\"a\":1}"}}`, "null")}, ended(`"function_call"`)),
			want:   head + `[` + call("call_9a8fd09575cd_0", "f", `{"a":1}`) + `]` + tail("toolUse", counts),
		},
		"a cap that cuts a call": {
			frames: join([]string{say("x"), calls(begin("0", "a", "rm", `{"path":"/tm`))}, ended(`"length"`)),
			want:   head + `[{"type":"text","text":"x"},` + call("a", "rm", `{}`) + `]` + tail("length", counts),
		},
		"arguments that are no object count as cut": {
			frames: join([]string{calls(begin("0", "a", "rm", `{"a":1}{"b":2}`)), calls(begin("1", "b", "ls", `{}`))}, ended(`"tool_calls"`)),
			want:   head + `[` + call("a", "rm", `{}`) + `,` + call("b", "ls", `{}`) + `]` + tail("length", counts),
		},
		"reasoning_content": {
			frames: join([]string{piece(`{"role":"assistant","reasoning_content":"let "}`, "null"), piece(`{"reasoning_content":"me"}`, "null"), piece(`{"reasoning_content":null,"content":"ok"}`, "null")}, ended(`"stop"`)),
			want:   head + `[{"type":"thinking","thinking":"let me","thinkingSignature":"reasoning_content"},{"type":"text","text":"ok"}]` + tail("stop", counts),
		},
		"reasoning": {
			frames: join([]string{piece(`{"reasoning":"hm"}`, "null"), say("ok")}, ended(`"stop"`)),
			want:   head + `[{"type":"thinking","thinking":"hm","thinkingSignature":"reasoning"},{"type":"text","text":"ok"}]` + tail("stop", counts),
		},
		"the same reasoning under two names is read once": {
			frames: join([]string{piece(`{"reasoning":"hm","reasoning_content":"hm"}`, "null"), piece(`{"reasoning":"!","reasoning_content":"!"}`, "null"), say("ok")}, ended(`"stop"`)),
			want:   head + `[{"type":"thinking","thinking":"hm!","thinkingSignature":"reasoning_content"},{"type":"text","text":"ok"}]` + tail("stop", counts),
		},
		"content in parts, thinking among it": {
			frames: join([]string{piece(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`, "null"), piece(`{"content":[{"type":"text","text":"o"},{"type":"text","text":"k"}]}`, "null")}, ended(`"stop"`)),
			want:   head + `[{"type":"thinking","thinking":"hm"},{"type":"text","text":"ok"}]` + tail("stop", counts),
		},
		"arguments as an object": {
			frames: join([]string{calls(`{"index":0,"id":"a","function":{"name":"f","arguments":{"b": 1, "a": 2}}}`)}, ended(`"tool_calls"`)),
			want:   head + `[` + call("a", "f", `{"b":1,"a":2}`) + `]` + tail("toolUse", counts),
		},
		"fields of other types than expected": {
			frames: join([]string{frame(`{"id":7,"object":[],"choices":[{"index":0,"delta":{"content":"x","refusal":{},"tool_calls":null,"reasoning":9},"finish_reason":false}]}`)}, ended(`"stop"`)),
			want:   head + `[{"type":"text","text":"x"}]` + tail("stop", counts),
		},
		"an error that is null": {
			frames: join([]string{frame(`{"id":"resp-1","error":null,"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`)}, ended(`"stop"`)),
			want:   head + `[{"type":"text","text":"x"}]` + tail("stop", counts),
		},
		"the id changes and the usage chunk has none": {
			frames: []string{say("a"), frame(`{"id":"other","choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}`), frame(`{"id":"","choices":[],"usage":` + someUsage + `}`), done},
			want:   head + `[{"type":"text","text":"ab"}]` + tail("stop", counts),
		},
		"usage in every chunk counts once": {
			frames: []string{frame(`{"id":"resp-1","choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":10,"completion_tokens":1}}`),
				frame(`{"id":"resp-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2}}`),
				usage(`{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}`), done},
			want: head + `[{"type":"text","text":"a"}]` + tail("stop", `{"input":10,"output":2}`),
		},
		"cached and reasoning tokens": {
			frames: []string{say("a"), piece(`{}`, `"stop"`), usage(`{"prompt_tokens":1000,"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":768},"completion_tokens_details":{"reasoning_tokens":60}}`), done},
			want:   head + `[{"type":"text","text":"a"}]` + tail("stop", `{"input":232,"output":100,"cacheRead":768,"reasoning":60}`),
		},
		"no usage, and no [DONE] either": {
			frames: []string{say("a"), piece(`{}`, `"stop"`)},
			want:   head + `[{"type":"text","text":"a"}],"provider":"p","api":"openai-completions","model":"model-1","stopReason":"stop"}`,
		},
		"usage null": {
			frames: []string{say("a"), piece(`{}`, `"stop"`), usage(`null`), done},
			want:   head + `[{"type":"text","text":"a"}],"provider":"p","api":"openai-completions","model":"model-1","stopReason":"stop"}`,
		},
		"a refusal in words is the answer": {
			frames: join([]string{piece(`{"refusal":"I "}`, "null"), piece(`{"refusal":"cannot."}`, "null")}, ended(`"stop"`)),
			want:   head + `[{"type":"text","text":"I cannot."}]` + tail("stop", counts),
		},
		"other choices are not read": {
			frames: join([]string{frame(`{"id":"resp-1","choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"stop"},{"index":0,"delta":{"content":"yes"}}]}`)}, ended(`"stop"`)),
			want:   head + `[{"type":"text","text":"yes"}]` + tail("stop", counts),
		},
		"an unknown finish reason is an ordinary stop": {
			frames: join([]string{say("x")}, ended(`"eos_token"`)),
			want:   head + `[{"type":"text","text":"x"}]` + tail("stop", counts),
		},
		"Mistral's length": {
			frames: join([]string{say("x")}, ended(`"model_length"`)),
			want:   head + `[{"type":"text","text":"x"}]` + tail("length", counts),
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
		})
	}
}

func TestFailures(t *testing.T) {
	cases := map[string]struct {
		frames []string
		class  provider.Class
		code   string
	}{
		"[DONE] without a finish reason":        {[]string{say("x"), done}, provider.ClassTruncated, "no_terminal_event"},
		"a call that never gets a name":         {join([]string{say("x"), calls(`{"index":0,"id":"a","function":{"arguments":"{}"}}`)}, ended(`"tool_calls"`)), provider.ClassTruncated, "no_terminal_event"},
		"the content filter":                    {join([]string{say("x")}, ended(`"content_filter"`)), provider.ClassRefused, "content_filter"},
		"DeepSeek has no resources":             {join([]string{say("x")}, ended(`"insufficient_system_resource"`)), provider.ClassOverloaded, "insufficient_system_resource"},
		"a gateway's upstream failed":           {join([]string{say("x")}, ended(`"error"`)), provider.ClassTransient, "error"},
		"Ollama's error":                        {[]string{say("x"), frame(`{"error":"an error was encountered while running the model"}`)}, provider.ClassTransient, ""},
		"vLLM's error":                          {[]string{say("x"), frame(`{"error":{"object":"error","message":"EngineCore died","type":"InternalServerError","param":null,"code":500}}`), done}, provider.ClassTransient, "500"},
		"vLLM's older error":                    {[]string{say("x"), frame(`{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}`), done}, provider.ClassOverflow, "400"},
		"an event named error":                  {[]string{say("x"), "event: error\ndata: {\"message\":\"rate limit reached\",\"code\":429}\n\n"}, provider.ClassRateLimited, "429"},
		"quota in the stream":                   {[]string{say("x"), frame(`{"error":{"message":"m","code":"insufficient_quota"}}`)}, provider.ClassQuota, "insufficient_quota"},
		"no output although the window is full": {[]string{say("x"), piece(`{}`, `"length"`), usage(`{"prompt_tokens":1000,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":500}}`), done}, provider.ClassOverflow, "stop_reason"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := run(t, c.frames...).Failure
			if f == nil || f.Class != c.class || f.Code != c.code || f.HTTPStatus != 200 || f.Partial == nil || f.Partial.PlainText() != "x" {
				t.Errorf("failure %+v", f)
			}
		})
	}
}

// TestIncrements pins what the consumer of a stream sees.
func TestIncrements(t *testing.T) {
	o := run(t, join([]string{piece(first, "null"), piece(`{"reasoning":"hm"}`, "null"), say("a"), say(""), say("b"),
		calls(begin("0", "c1", "add", "")), calls(more("0", `{"a"`)), calls(more("0", `:1}`))}, ended(`"tool_calls"`))...)
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	var got []string
	for _, d := range o.Deltas {
		got = append(got, strings.Join([]string{string(d.Kind), string(rune('0' + d.Block)), d.Text, d.ToolCallID, d.ToolName}, "|"))
	}
	want := []string{"thinking|0|hm||", "text|1|a||", "text|1|b||", "toolCall|2||c1|add", `toolCall|2|{"a"|c1|`, `toolCall|2|:1}|c1|`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("increments (-want +got):\n%s", diff)
	}
}
