package openairesponses

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

func callItem(id, callID, name, arguments string) string {
	return `{"id":"` + id + `","type":"function_call","status":"completed","call_id":"` + callID + `","name":"` + name + `","arguments":` + quote(arguments) + `}`
}

func reasoningItem(id, encrypted string, summary ...string) string {
	parts := make([]string, len(summary))
	for i, s := range summary {
		parts[i] = `{"type":"summary_text","text":` + quote(s) + `}`
	}
	item := `{"id":"` + id + `","type":"reasoning","summary":[` + strings.Join(parts, ",") + `]`
	if encrypted != "" {
		item += `,"encrypted_content":"` + encrypted + `"`
	}
	return item + `}`
}

// TestMessages compares whole messages in their stored form.
func TestMessages(t *testing.T) {
	const head = `{"role":"assistant","content":`
	const counts = `{"input":11,"output":7}`
	const someText = `{"type":"text","text":"Hello.","textSignature":"{\"id\":\"msg_1\"}"}`
	tail := func(stop, usage string) string {
		return `,"provider":"p","api":"openai-responses","model":"model-1","stopReason":"` + stop + `","usage":` + usage + `}`
	}
	cases := map[string]struct {
		frames []string
		want   string
	}{
		"text": {
			frames: join([]string{created()}, textItem(0, "Hel", "lo."), []string{completed()}),
			want:   head + `[` + someText + `]` + tail("stop", counts),
		},
		"reasoning with a summary in two parts, text and a call": {
			frames: join([]string{created(), added(0, `{"id":"rs_1","type":"reasoning","summary":[]}`),
				increment("reasoning_summary_text", 0, `"summary_index":0,`, "Look "), increment("reasoning_summary_text", 0, `"summary_index":0,`, "first."),
				increment("reasoning_summary_text", 0, `"summary_index":1,`, "Then."), finished(0, reasoningItem("rs_1", "gAAA+/=", "Look first.", "Then."))},
				textItem(1, "Hello."), []string{added(2, callItem("fc_1", "call_1", "add", "")),
					increment("function_call_arguments", 2, "", `{"b": 2`), increment("function_call_arguments", 2, "", `, "a": 1.50}`),
					frame(`{"type":"response.function_call_arguments.done","output_index":2,"item_id":"i","arguments":"{\"b\": 2, \"a\": 1.50}"}`),
					finished(2, callItem("fc_1", "call_1", "add", `{"b": 2, "a": 1.50}`)),
					whole("response.completed", "completed", `,"output":[`+reasoningItem("rs_1", "gAAA+/=", "Look first.", "Then.")+`]`, `{"input_tokens":100,"input_tokens_details":{"cached_tokens":64},"output_tokens":50,"output_tokens_details":{"reasoning_tokens":32}}`)}),
			want: head + `[{"type":"thinking","thinking":"Look first.\n\nThen.","thinkingSignature":"{\"id\":\"rs_1\",\"encrypted_content\":\"gAAA+/=\",\"summary\":[11,5]}"},` + someText +
				`,{"type":"toolCall","id":"call_1","name":"add","arguments":{"b":2,"a":1.50},"thoughtSignature":"fc_1"}]` + tail("toolUse", `{"input":36,"output":50,"cacheRead":64,"reasoning":32}`),
		},
		"reasoning without a summary is its encrypted content": {
			frames: join([]string{created(), added(0, `{"id":"rs_1","type":"reasoning","summary":[]}`), finished(0, reasoningItem("rs_1", "gAAA"))}, textItem(1, "Hello."), []string{completed()}),
			want:   head + `[{"type":"thinking","thinking":"","thinkingSignature":"{\"id\":\"rs_1\",\"encrypted_content\":\"gAAA\"}"},` + someText + `]` + tail("stop", counts),
		},
		"reasoning text of an open model": {
			frames: join([]string{created(), increment("reasoning_text", 0, `"content_index":0,`, "hm"),
				finished(0, `{"id":"rs_1","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]}`)}, textItem(1, "Hello."), []string{completed()}),
			want: head + `[{"type":"thinking","thinking":"hm","thinkingSignature":"{\"id\":\"rs_1\",\"summary\":[]}"},` + someText + `]` + tail("stop", counts),
		},
		"only the finished items": {
			frames: []string{created(), finished(0, reasoningItem("rs_1", "gAAA", "Sum.")), textItem(1, "Hello.")[2], finished(2, callItem("fc_1", "call_1", "now", "")), completed()},
			want:   head + `[{"type":"thinking","thinking":"Sum.","thinkingSignature":"{\"id\":\"rs_1\",\"encrypted_content\":\"gAAA\"}"},` + someText + `,{"type":"toolCall","id":"call_1","name":"now","arguments":{},"thoughtSignature":"fc_1"}]` + tail("toolUse", counts),
		},
		"only the final response": {
			frames: []string{whole("response.completed", "completed", `,"output":[`+reasoningItem("rs_1", "gAAA", "Sum.")+`,{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello.","annotations":[]}]}]`, someUsage)},
			want:   head + `[{"type":"thinking","thinking":"Sum.","thinkingSignature":"{\"id\":\"rs_1\",\"encrypted_content\":\"gAAA\"}"},` + someText + `]` + tail("stop", counts),
		},
		"a final response that numbers its items anew changes nothing": {
			frames: join([]string{created()}, textItem(3, "Hello."), []string{whole("response.completed", "completed", `,"output":[{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello."}]}]`, someUsage)}),
			want:   head + `[` + someText + `]` + tail("stop", counts),
		},
		"a finished text that was not streamed to its end": {
			frames: []string{created(), increment("output_text", 0, `"content_index":0,`, "Hel"), textItem(0, "Hello.")[2], completed()},
			want:   head + `[` + someText + `]` + tail("stop", counts),
		},
		"two parts of one message, one of them a refusal": {
			frames: []string{created(), increment("output_text", 0, `"content_index":0,`, "Well"), increment("refusal", 0, `"content_index":1,`, "No."),
				finished(0, `{"id":"msg_1","type":"message","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"Well"},{"type":"refusal","refusal":"No."}]}`), completed()},
			want: head + `[{"type":"text","text":"Well","textSignature":"{\"id\":\"msg_1\",\"phase\":\"final_answer\"}"},{"type":"text","text":"No.","textSignature":"{\"id\":\"msg_1\",\"phase\":\"final_answer\"}"}]` + tail("stop", counts),
		},
		"interleaved calls": {
			frames: []string{created(), added(0, callItem("fc_1", "c1", "one", "")), added(1, callItem("fc_2", "c2", "two", "")), increment("function_call_arguments", 1, "", `{"y":2}`), increment("function_call_arguments", 0, "", `{"x":1}`), completed()},
			want:   head + `[{"type":"toolCall","id":"c1","name":"one","arguments":{"x":1}},{"type":"toolCall","id":"c2","name":"two","arguments":{"y":2}}]` + tail("toolUse", counts),
		},
		"an output cap that cuts a call": {
			frames: []string{created(), added(0, callItem("fc_1", "c1", "rm", "")), increment("function_call_arguments", 0, "", `{"path":"/t`),
				finished(0, `{"id":"fc_1","type":"function_call","status":"incomplete","call_id":"c1","name":"rm","arguments":""}`),
				whole("response.incomplete", "incomplete", `,"output":[],"incomplete_details":{"reason":"max_output_tokens"}`, someUsage)},
			want: head + `[{"type":"toolCall","id":"c1","name":"rm","arguments":{},"thoughtSignature":"fc_1"}]` + tail("length", counts),
		},
		"arguments that are no object count as cut": {
			frames: []string{created(), finished(0, callItem("fc_1", "c1", "rm", `{"a":1`)), completed()},
			want:   head + `[{"type":"toolCall","id":"c1","name":"rm","arguments":{},"thoughtSignature":"fc_1"}]` + tail("length", counts),
		},
		"incomplete for a reason that is new": {
			frames: join([]string{created()}, textItem(0, "Hello."), []string{whole("response.incomplete", "incomplete", `,"incomplete_details":{"reason":"tea_break"}`, someUsage)}),
			want:   head + `[` + someText + `]` + tail("length", counts),
		},
		"items and events of unknown kinds are passed over": {
			frames: join([]string{created(), added(0, `{"id":"ws_1","type":"web_search_call","status":"in_progress"}`), frame(`{"type":"response.web_search_call.searching","output_index":0,"item_id":"ws_1"}`),
				finished(0, `{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"x"}}`), frame(`{"type":"response.hologram.delta","output_index":9,"delta":"x"}`)}, textItem(1, "Hello."), []string{completed()}),
			want: head + `[` + someText + `]` + tail("stop", counts),
		},
		"no usage": {
			frames: join([]string{created()}, textItem(0, "Hello."), []string{whole("response.completed", "completed", `,"output":[]`, `null`)}),
			want:   head + `[` + someText + `],"provider":"p","api":"openai-responses","model":"model-1","stopReason":"stop"}`,
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
			for _, d := range o.Deltas {
				if d.Block >= len(o.Response.Message.Content.Blocks) {
					t.Errorf("increment %+v is of no block", d)
				}
			}
		})
	}
}

func TestFailures(t *testing.T) {
	failed := func(code, usage string) string {
		return whole("response.failed", "failed", `,"output":[],"error":{"code":"`+code+`","message":"It failed."}`, usage)
	}
	cases := map[string]struct {
		frame string
		class provider.Class
		code  string
		usage bool
	}{
		"an error event":                        {frame(`{"type":"error","code":"rate_limit_exceeded","message":"slow","param":null}`), provider.ClassRateLimited, "rate_limit_exceeded", false},
		"an error event that wraps its error":   {frame(`{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"m"}}`), provider.ClassOverflow, "context_length_exceeded", false},
		"a failed response":                     {failed("server_error", "null"), provider.ClassTransient, "server_error", false},
		"a failed response with its usage":      {failed("server_error", someUsage), provider.ClassTransient, "server_error", true},
		"a failed response that is an overflow": {failed("context_length_exceeded", "null"), provider.ClassOverflow, "context_length_exceeded", false},
		"a failed response for a policy":        {failed("bio_policy", "null"), provider.ClassRefused, "bio_policy", false},
		"the content filter":                    {whole("response.incomplete", "incomplete", `,"incomplete_details":{"reason":"content_filter"}`, someUsage), provider.ClassRefused, "content_filter", true},
		"a response that was cancelled there":   {whole("response.completed", "cancelled", ``, someUsage), provider.ClassTransient, "cancelled", true},
		"another protocol's error":              {"data: {\"error\":{\"message\":\"m\",\"type\":\"overloaded_error\"}}\n\n", provider.ClassOverloaded, "", false},
		"[DONE] before the end":                 {"data: [DONE]\n\n", provider.ClassTruncated, "no_terminal_event", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := run(t, join([]string{created()}, textItem(0, "Hello."), []string{c.frame})...).Failure
			if f == nil || f.Class != c.class || f.Code != c.code || f.ResponseID != "resp-1" || f.Partial == nil || f.Partial.PlainText() != "Hello." {
				t.Fatalf("failure %+v", f)
			}
			if (f.Usage != nil) != c.usage || c.usage && (*f.Usage.Input != 11 || *f.Partial.Usage.Output != 7) {
				t.Errorf("usage %+v", f.Usage)
			}
		})
	}
}

// TestIncrements pins what the consumer of a stream sees.
func TestIncrements(t *testing.T) {
	o := run(t, join([]string{created(), increment("reasoning_summary_text", 0, `"summary_index":0,`, "a"), increment("reasoning_summary_text", 0, `"summary_index":1,`, "b"), finished(0, reasoningItem("rs_1", "gAAA", "a", "b"))},
		textItem(1, "x", "y"), []string{added(2, callItem("fc_1", "c1", "add", "")), increment("function_call_arguments", 2, "", `{"a":1}`), finished(2, callItem("fc_1", "c1", "add", `{"a":1}`)), completed()})...)
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	var got []string
	for _, d := range o.Deltas {
		got = append(got, strings.Join([]string{string(d.Kind), string(rune('0' + d.Block)), d.Text, d.ToolCallID, d.ToolName}, "|"))
	}
	want := []string{"thinking|0|a||", "thinking|0|\n\n||", "thinking|0|b||", "text|1|x||", "text|1|y||", "toolCall|2||c1|add", `toolCall|2|{"a":1}|c1|`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("increments (-want +got):\n%s", diff)
	}
}
