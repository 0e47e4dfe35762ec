package modelserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// input is a Responses request with these items and further fields.
func input(items string, extra ...string) string {
	return `{"model":"m","input":[` + items + `]` + fields(extra) + `}`
}

func fnCall(id string) string {
	return `{"type":"function_call","call_id":"` + id + `","name":"f","arguments":"{}"}`
}

func fnOutput(id string) string {
	return `{"type":"function_call_output","call_id":"` + id + `","output":"1"}`
}

const responsesTool = `{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":false}`

func TestResponsesAccepts(t *testing.T) {
	cases := map[string]struct{ script, body string }{
		"a string":    {plain, `{"model":"m","input":"hi"}`},
		"items":       {plain, input(`{"role":"developer","content":"d"},{"type":"message","role":"user","content":[{"type":"input_text","text":"x"},{"type":"input_image","image_url":"data:image/png;base64,` + pngPixel + `","detail":"auto"}]}`)},
		"a pair":      {plain, input(userHi + "," + fnCall("a") + "," + fnOutput("a"))},
		"pairs":       {plain, input(userHi + "," + fnCall("a") + "," + fnCall("b") + "," + fnOutput("b") + "," + fnOutput("a") + "," + fnCall("a") + "," + fnOutput("a"))},
		"call, words": {plain, input(userHi + "," + fnCall("a") + `,{"role":"assistant","content":[{"type":"output_text","text":"x","annotations":[]}]},` + fnOutput("a"))},
		"an image from a tool": {plain, input(userHi + "," + fnCall("a") + `,{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"x"},` +
			`{"type":"input_image","image_url":"https://example.com/a.png"}]}`)},
		"options": {plain, input(userHi, `"max_output_tokens":16`, `"temperature":1`, `"store":false`, `"instructions":"i"`, `"tools":[`+responsesTool+`]`,
			`"reasoning":{"effort":"high","summary":"auto"}`, `"include":["reasoning.encrypted_content"]`, `"parallel_tool_calls":false`)},
		"no thinking": {"model: m\nthinking: none\nreplies: [{}]", input(userHi, `"reasoning":{"summary":null}`)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, tc.script)
			if got := c.post("/v1/responses", tc.body); got.status != http.StatusOK {
				t.Errorf("status %d: %s", got.status, got.body)
			}
		})
	}
}

var responsesItemCases = map[string]refused{
	"a call at the end":           {body: input(userHi + "," + fnCall("a")), message: "No tool output found for function call a.", param: "input"},
	"a text before the output":    {body: input(userHi + "," + fnCall("a") + "," + userHi + "," + fnOutput("a")), message: "No tool output found for function call a.", param: "input"},
	"one output of two":           {body: input(userHi + "," + fnCall("a") + "," + fnCall("b") + "," + fnOutput("a")), message: "No tool output found for function call b.", param: "input"},
	"an output without call":      {body: input(userHi + "," + fnOutput("a")), message: "No tool call found for function call output with call_id a.", param: "input"},
	"an output before its call":   {body: input(userHi + "," + fnOutput("a") + "," + fnCall("a")), message: "No tool call found for function call output with call_id a.", param: "input"},
	"two outputs of one call":     {body: input(userHi + "," + fnCall("a") + "," + fnOutput("a") + "," + fnOutput("a")), message: "No tool call found for function call output with call_id a.", param: "input"},
	"one call twice":              {body: input(userHi + "," + fnCall("a") + "," + fnCall("a")), message: "Duplicate function call with call_id a.", param: "input"},
	"an output without id":        {body: input(userHi + `,{"type":"function_call_output","output":""}`), message: "Missing required parameter: 'input[1].call_id'.", param: "input[1].call_id", code: "missing_required_parameter"},
	"an output without output":    {body: input(userHi + "," + fnCall("a") + `,{"type":"function_call_output","call_id":"a"}`), message: "Missing required parameter: 'input[2].output'.", param: "input[2].output", code: "missing_required_parameter"},
	"a call without id":           {body: input(userHi + "," + fnCall("")), message: "Missing required parameter: 'input[1].call_id'.", param: "input[1].call_id", code: "missing_required_parameter"},
	"a call without name":         {body: input(userHi + `,{"type":"function_call","call_id":"a","arguments":""}`), message: "Missing required parameter: 'input[1].name'.", param: "input[1].name", code: "missing_required_parameter"},
	"a call name with a dot":      {body: input(userHi + `,{"type":"function_call","call_id":"a","name":"a.b","arguments":""}`), message: "Invalid 'input[1].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", param: "input[1].name", code: "invalid_value"},
	"arguments as object":         {body: input(userHi + "," + strings.Replace(fnCall("a"), `"{}"`, `{}`, 1)), message: "Invalid type for 'input[1].arguments': expected a string, but got an object instead.", param: "input[1].arguments", code: "invalid_type"},
	"an id of 65 letters":         {body: input(userHi + "," + fnCall(strings.Repeat("a", 65))), message: "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64, but got a string with length 65 instead.", param: "input[1].call_id", code: "string_above_max_length"},
	"an item id of another kind":  {body: input(userHi + "," + strings.Replace(fnCall("a"), `"call_id"`, `"id":"call_a","call_id"`, 1)), message: "Invalid 'input[1].id': 'call_a'. Expected an ID that begins with 'fc'.", param: "input[1].id", code: "invalid_value"},
	"an item id of 65 letters":    {body: input(userHi + `,{"id":"msg_` + strings.Repeat("a", 61) + `","role":"assistant","content":"x"}`), message: "Invalid 'input[1].id': string too long. Expected a string with maximum length 64, but got a string with length 65 instead.", param: "input[1].id", code: "string_above_max_length"},
	"an unknown item":             {body: input(`{"type":"toolResult"}`), message: "Invalid value: 'toolResult'. Supported values are: 'message', 'function_call', 'function_call_output', and 'reasoning'.", param: "input[0]", code: "invalid_value"},
	"an unknown field of an item": {body: input(`{"role":"user","content":"x","name":"y"}`), message: "Unknown parameter: 'input[0].name'.", param: "input[0].name", code: "unknown_parameter"},
	"an unknown role":             {body: input(`{"role":"tool","content":"x"}`), message: "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and 'user'.", param: "input[0].role", code: "invalid_value"},
	"input from the assistant":    {body: input(userHi + `,{"role":"assistant","content":[{"type":"input_text","text":"x"}]}`), message: "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.", param: "input[1].content[0]", code: "invalid_value"},
	"output from the user":        {body: input(`{"role":"user","content":[{"type":"output_text","text":"x"}]}`), message: "Invalid value: 'output_text'. Supported values are: 'input_text' and 'input_image'.", param: "input[0].content[0]", code: "invalid_value"},
	"a part without text":         {body: input(`{"role":"user","content":[{"type":"input_text"}]}`), message: "Missing required parameter: 'input[0].content[0].text'.", param: "input[0].content[0].text", code: "missing_required_parameter"},
	"no content":                  {body: input(`{"role":"user"}`), message: "Missing required parameter: 'input[0].content'.", param: "input[0].content", code: "missing_required_parameter"},
	"content that is a number":    {body: input(`{"role":"user","content":3}`), message: "Invalid type for 'input[0].content': expected one of an array of objects or string, but got an integer instead.", param: "input[0].content", code: "invalid_type"},
	"an item that is a string":    {body: input(`"x"`), message: "Invalid type for 'input[0]': expected an object, but got a string instead.", param: "input[0]", code: "invalid_type"},
	"no input":                    {body: `{"model":"m"}`, message: "Missing required parameter: 'input'.", param: "input", code: "missing_required_parameter"},
	"an empty input":              {body: input(""), message: "Invalid 'input': empty array. Expected an array with minimum length 1, but got an empty array instead.", param: "input", code: "empty_array"},
	"input that is a number":      {body: `{"model":"m","input":3}`, message: "Invalid type for 'input': expected one of a string or array of objects, but got an integer instead.", param: "input", code: "invalid_type"},
	"reasoning that is invented":  {body: input(userHi + `,{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAAABb"},` + fnCall("a")), message: "The encrypted content gAAAAABb could not be verified. Reason: Encrypted content could not be decrypted or parsed.", code: "invalid_encrypted_content"},
	"reasoning without content":   {body: input(userHi + `,{"type":"reasoning","id":"rs_1","summary":[]},` + fnCall("a")), status: 404, message: "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.", param: "input"},
	"reasoning without summary":   {body: input(userHi + `,{"type":"reasoning","id":"rs_1","encrypted_content":"x"}`), message: "Missing required parameter: 'input[1].summary'.", param: "input[1].summary", code: "missing_required_parameter"},
}

func TestResponsesRefusesItems(t *testing.T) {
	runRefused(t, "/v1/responses", plain, responsesItemCases)
}

var responsesFieldCases = map[string]refused{
	"no model":                  {body: `{"input":"x"}`, message: "Missing required parameter: 'model'.", param: "model", code: "missing_required_parameter"},
	"an unknown model":          {body: `{"model":"x","input":"x"}`, status: 404, message: "The requested model 'x' does not exist.", param: "model", code: "model_not_found"},
	"an unknown field":          {body: input(userHi, `"messages":[]`), message: "Unknown parameter: 'messages'.", param: "messages", code: "unknown_parameter"},
	"no key":                    {script: "model: m\nauth: key\nreplies: [{}]", body: input(userHi), status: 401, message: "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."},
	"15 output tokens":          {body: input(userHi, `"max_output_tokens":15`), message: "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 15 instead.", param: "max_output_tokens", code: "integer_below_min_value"},
	"an unknown effort":         {body: input(userHi, `"reasoning":{"effort":"off"}`), message: "Invalid value: 'off'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', and 'max'.", param: "reasoning.effort", code: "invalid_value"},
	"an unknown reasoning":      {body: input(userHi, `"reasoning":{"budget":1}`), message: "Unknown parameter: 'reasoning.budget'.", param: "reasoning.budget", code: "unknown_parameter"},
	"effort without thinking":   {script: "model: m\nthinking: none\nreplies: [{}]", body: input(userHi, `"reasoning":{"effort":"low"}`), message: "Unsupported parameter: 'reasoning.effort' is not supported with this model.", param: "reasoning.effort", code: "unsupported_parameter"},
	"encrypted without it":      {script: "model: m\nthinking: none\nreplies: [{}]", body: input(userHi, `"include":["reasoning.encrypted_content"]`), message: "Encrypted content is not supported with this model.", param: "include"},
	"an earlier response":       {body: input(userHi, `"previous_response_id":"resp_1"`), message: "Previous response with id 'resp_1' not found.", param: "previous_response_id", code: "previous_response_not_found"},
	"instructions that are a 3": {body: input(userHi, `"instructions":3`), message: "Invalid type for 'instructions': expected a string, but got an integer instead.", param: "instructions", code: "invalid_type"},
	"no tools":                  {body: input(userHi, `"tools":[]`), message: "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.", param: "tools", code: "empty_array"},
	"a tool of the other API":   {body: input(userHi, `"tools":[`+chatTool+`]`), message: "Unknown parameter: 'tools[0].function'.", param: "tools[0].function", code: "unknown_parameter"},
	"a tool without type":       {body: input(userHi, `"tools":[{"name":"f"}]`), message: "Missing required parameter: 'tools[0].type'.", param: "tools[0].type", code: "missing_required_parameter"},
	"a tool of another type":    {body: input(userHi, `"tools":[{"type":"web_search"}]`), message: "Invalid value: 'web_search'. Supported values are: 'function'.", param: "tools[0].type", code: "invalid_value"},
	"a tool without name":       {body: input(userHi, `"tools":[{"type":"function"}]`), message: "Missing required parameter: 'tools[0].name'.", param: "tools[0].name", code: "missing_required_parameter"},
	"an image for a text model": {script: "model: m\nimages: false\nreplies: [{}]", body: input(`{"role":"user","content":[{"type":"input_image","image_url":"https://x"}]}`), message: "Invalid content type. image_url is only supported by certain models.", param: "input[0].content[0].image_url", code: "invalid_value"},
	"input above the window":    {script: "model: m\nwindow: 4\nreplies: [{}]", body: input(userHi), message: "Your input exceeds the context window of this model. Please adjust your input and try again.", param: "input", code: "context_length_exceeded"},
	"output beyond the window":  {script: "model: m\nwindow: 20\nwindowIncludesOutput: true\nreplies: [{}]", body: input(userHi, `"max_output_tokens":16`), message: "Your input exceeds the context window of this model. Please adjust your input and try again.", param: "input", code: "context_length_exceeded"},
}

func TestResponsesRefusesFields(t *testing.T) {
	runRefused(t, "/v1/responses", plain, responsesFieldCases)
}

// A streamed request that is too long fails inside its stream, as with the provider.
func TestResponsesOverflowsInItsStream(t *testing.T) {
	c := start(t, "model: m\nwindow: 4\nreplies: [{}]")
	got := c.post("/v1/responses", input(userHi, `"stream":true`))
	var names []string
	events := got.events(t)
	for _, e := range events {
		names = append(names, e.name)
	}
	want := []string{"response.created", "response.in_progress", "error", "response.failed"}
	if diff := cmp.Diff(want, names); diff != "" || got.status != http.StatusOK {
		t.Fatalf("status %d, -want +got:\n%s", got.status, diff)
	}
	if code := str(obj(events[2].json(t), "error"), "code"); code != "context_length_exceeded" {
		t.Errorf("error event has the code %q", code)
	}
	failed := obj(events[3].json(t), "response")
	if str(obj(failed, "error"), "code") != "context_length_exceeded" || str(failed, "status") != "failed" {
		t.Errorf("failed response: %s", events[3].data)
	}
	if rec := c.server.Requests("m")[0]; rec.Outcome != OutcomeRefused {
		t.Errorf("outcome %q", rec.Outcome)
	}
}

const reasoningScript = `
model: m
replies:
  - content: [{thinking: because}, {text: so}, {toolCall: {id: a, name: f, arguments: {x: 1}}}]
    repeat: true
---
model: other
replies: [{repeat: true}]
`

const wantsReasoning = `"include":["reasoning.encrypted_content"],"reasoning":{"summary":"auto"},"store":false`

// reasonedItems are the items of an answer that reasoned.
func reasonedItems(t *testing.T, c *client) []string {
	t.Helper()
	got := c.post("/v1/responses", input(userHi, wantsReasoning))
	var response struct{ Output []json.RawMessage }
	if err := json.Unmarshal(got.body, &response); err != nil || len(response.Output) != 3 {
		t.Fatalf("%v: %s", err, got.body)
	}
	var items []string
	for _, raw := range response.Output {
		items = append(items, string(raw))
	}
	return items
}

// without removes a string field from an item.
func without(item, key string) string {
	var o object
	if err := json.Unmarshal([]byte(item), &o); err != nil {
		panic(err)
	}
	delete(o, key)
	return string(encode(o))
}

func TestResponsesReasoningComesBack(t *testing.T) {
	c := start(t, reasoningScript)
	items := reasonedItems(t, c)
	rs, msg, fc := items[0], items[1], items[2]
	id := func(item string) string { o, _ := parseObject([]byte(item)); return str(o, "id") }
	post := func(model string, items ...string) answerOf {
		body := input(userHi+","+strings.Join(items, ",")+","+fnOutput("a"), wantsReasoning)
		return c.post("/v1/responses", strings.Replace(body, `"m"`, `"`+model+`"`, 1))
	}
	noFollow := fmt.Sprintf("Item '%s' of type 'reasoning' was provided without its required following item.", id(rs))
	altered := strings.Replace(rs, `"encrypted_content":"`, `"encrypted_content":"AAAA`, 1)
	cases := map[string]struct {
		model string
		items []string
		want  string // "" means accepted
	}{
		"as it was":            {"m", []string{rs, msg, fc}, ""},
		"without ids":          {"m", []string{without(rs, "id"), without(msg, "id"), without(fc, "id")}, ""},
		"without reasoning":    {"m", []string{without(msg, "id"), without(fc, "id")}, ""},
		"a call in its place":  {"m", []string{rs, without(fc, "id")}, noFollow},
		"reasoning at the end": {"m", []string{without(msg, "id"), without(fc, "id"), rs}, noFollow},
		"only the ids": {"m", []string{msg, fc},
			fmt.Sprintf("Item '%s' of type 'message' was provided without its required 'reasoning' item: '%s'.", id(msg), id(rs))},
		"under another id": {"m", []string{strings.Replace(rs, id(rs), "rs_1", 1), without(msg, "id"), without(fc, "id")},
			"The encrypted content for item rs_1 could not be verified. Reason: Encrypted content item_id did not match the target item id."},
		"for another model": {"other", []string{rs, msg, fc}, "could not be decrypted or parsed."},
		"altered":           {"m", []string{altered, msg, fc}, "could not be decrypted or parsed."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := post(tc.model, tc.items...)
			if tc.want == "" {
				if got.status != http.StatusOK {
					t.Errorf("status %d: %s", got.status, got.body)
				}
				return
			}
			if message := str(obj(got.object(t), "error"), "message"); !strings.HasSuffix(message, tc.want) {
				t.Errorf("got %q, want %q", message, tc.want)
			}
		})
	}
}

// Without being asked for, neither the text nor the content of reasoning is sent.
func TestResponsesReasoningIsOptional(t *testing.T) {
	c := start(t, reasoningScript)
	got := c.post("/v1/responses", input(userHi))
	item, _ := list(got.object(t), "output")[0].(object)
	if len(list(item, "summary")) != 0 || present(item, "encrypted_content") || str(item, "type") != "reasoning" {
		t.Errorf("got %s", encode(item))
	}
}
