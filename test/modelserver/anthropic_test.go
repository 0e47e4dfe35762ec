package modelserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const plain = "model: m\nreplies: [{content: [{text: fine}]}]\n"

// messages is a Messages request with these messages and further fields.
func messages(list string, extra ...string) string {
	return `{"model":"m","max_tokens":2000,"messages":[` + list + `]` + fields(extra) + `}`
}

func fields(extra []string) string {
	if len(extra) == 0 {
		return ""
	}
	return "," + strings.Join(extra, ",")
}

const (
	userHi   = `{"role":"user","content":"hi"}`
	useA     = `{"type":"tool_use","id":"a","name":"f","input":{}}`
	useB     = `{"type":"tool_use","id":"b","name":"f","input":{}}`
	resultA  = `{"type":"tool_result","tool_use_id":"a","content":"1"}`
	resultB  = `{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"2"}]}`
	pngPixel = `iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==`
)

func assistant(blocks ...string) string {
	return `{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]}`
}

func user(blocks ...string) string {
	return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}`
}

func image(data string) string {
	return `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}`
}

func textBlock(s string) string { return fmt.Sprintf(`{"type":"text","text":%q}`, s) }

const toolF = `{"name":"f","description":"d","input_schema":{"type":"object"}}`

func TestAnthropicAccepts(t *testing.T) {
	cases := map[string]struct{ script, body string }{
		"a string":                         {plain, messages(userHi)},
		"blocks":                           {plain, messages(user(textBlock("hi"), image(pngPixel)))},
		"a system":                         {plain, messages(userHi, `"system":"be brief"`, `"temperature":0.5`, `"top_k":3`, `"stop_sequences":["x"]`)},
		"tools":                            {plain, messages(userHi, `"tools":[`+toolF+`]`, `"tool_choice":{"type":"auto"}`)},
		"no tools":                         {plain, messages(userHi, `"tools":[]`)},
		"a pair":                           {plain, messages(userHi + "," + assistant(useA) + "," + user(resultA))},
		"two pairs":                        {plain, messages(userHi + "," + assistant(useA, useB) + "," + user(resultB, resultA, textBlock("go on")))},
		"results in messages of their own": {plain, messages(userHi + "," + assistant(useA, useB) + "," + user(resultA) + "," + user(resultB))},
		"an id used again later": {plain, messages(userHi + "," + assistant(useA) + "," + user(resultA) + "," + assistant(useA) +
			"," + user(resultA))},
		"an error result with the image behind it": {plain, messages(userHi + "," + assistant(useA) + "," +
			user(`{"type":"tool_result","tool_use_id":"a","is_error":true,"content":"no"}`, image(pngPixel)))},
		"a result without content": {plain, messages(userHi + "," + assistant(useA) + "," + user(`{"type":"tool_result","tool_use_id":"a"}`))},
		"cache markers": {plain, messages(user(`{"type":"text","text":"hi","cache_control":{"type":"ephemeral","ttl":"1h"}}`),
			`"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]`)},
		"a fixed budget":          {"model: m\nthinking: fixed\nreplies: [{}]", messages(userHi, `"thinking":{"type":"enabled","budget_tokens":1999}`)},
		"adaptive thinking":       {"model: m\nthinking: adaptive\nreplies: [{}]", messages(userHi, `"thinking":{"type":"adaptive"}`, `"output_config":{"effort":"max"}`)},
		"thinking off":            {"model: m\nthinking: none\nreplies: [{}]", messages(userHi, `"thinking":{"type":"disabled"}`)},
		"a prefill":               {plain, messages(userHi + `,{"role":"assistant","content":"so"}`)},
		"an empty final message":  {plain, messages(userHi + `,{"role":"assistant","content":""}`)},
		"a field the script adds": {"model: m\nallowFields: [betas]\nreplies: [{}]", messages(userHi, `"betas":[]`)},
		"a prompt at the window":  {"model: m\nwindow: 5\nreplies: [{}]", messages(userHi)},
		"an integer with a point": {plain, `{"model":"m","max_tokens":1e3,"messages":[` + userHi + `]}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, tc.script)
			if got := c.post("/v1/messages", tc.body); got.status != http.StatusOK {
				t.Errorf("status %d: %s", got.status, got.body)
			}
		})
	}
}

const (
	missingResult = "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` " +
		"block must have a corresponding `tool_result` block in the next message."
	strayResult = "%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a " +
		"corresponding `tool_use` block in the previous message."
)

var anthropicPairs = map[string]refused{
	"a call at the end":             {body: messages(userHi + "," + assistant(useA)), message: fmt.Sprintf(missingResult, "a")},
	"a call without its result":     {body: messages(userHi + "," + assistant(useA, useB) + "," + user(resultA)), message: fmt.Sprintf(missingResult, "b")},
	"two calls without results":     {body: messages(userHi + "," + assistant(useA, useB) + "," + userHi), message: fmt.Sprintf(missingResult, "a, b")},
	"a result behind a text":        {body: messages(userHi + "," + assistant(useA) + "," + user(textBlock("x"), resultA)), message: fmt.Sprintf(missingResult, "a")},
	"a result without a call":       {body: messages(user(resultA)), message: fmt.Sprintf(strayResult, "messages.0.content.0", "a")},
	"a result of an earlier call":   {body: messages(userHi + "," + assistant(useA) + "," + user(resultA) + "," + assistant(textBlock("x")) + "," + user(resultA)), message: fmt.Sprintf(strayResult, "messages.4.content.0", "a")},
	"a result for another call":     {body: messages(userHi + "," + assistant(useA) + "," + user(resultA, resultB)), message: fmt.Sprintf(strayResult, "messages.2.content.1", "b")},
	"two results of one call":       {body: messages(userHi + "," + assistant(useA) + "," + user(resultA, resultA)), message: "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: a"},
	"one id twice in one message":   {body: messages(userHi + "," + assistant(useA, useA) + "," + user(resultA)), message: "messages.1.content.1: `tool_use` ids must be unique"},
	"a call in a user message":      {body: messages(user(useA)), message: "messages.0: `tool_use` blocks can only be in `assistant` messages"},
	"a result from the assistant":   {body: messages(userHi + "," + assistant(resultA)), message: "messages.1: `tool_result` blocks can only be in `user` messages"},
	"an id with a colon":            {body: messages(userHi + "," + assistant(strings.Replace(useA, `"a"`, `"f:0"`, 1))), message: "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"},
	"an id of 65 letters":           {body: messages(userHi + "," + assistant(strings.Replace(useA, `"a"`, `"`+strings.Repeat("a", 65)+`"`, 1))), message: "messages.1.content.0.tool_use.id: String should have at most 64 characters"},
	"arguments that are a string":   {body: messages(userHi + "," + assistant(strings.Replace(useA, `{}`, `"{}"`, 1))), message: "messages.1.content.0.tool_use.input: Input should be an object"},
	"a call without arguments":      {body: messages(userHi + "," + assistant(`{"type":"tool_use","id":"a","name":"f"}`)), message: "messages.1.content.0.tool_use.input: Field required"},
	"an error result with nothing":  {body: messages(userHi + "," + assistant(useA) + "," + user(`{"type":"tool_result","tool_use_id":"a","is_error":true}`)), message: "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true"},
	"an error result with no block": {body: messages(userHi + "," + assistant(useA) + "," + user(`{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[]}`)), message: "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true"},
	"an image in an error result":   {body: messages(userHi + "," + assistant(useA) + "," + user(`{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[`+image(pngPixel)+`]}`)), message: `messages.2.content.0.tool_result: all content must be type "text" if "is_error" is true`},
	"an empty text in a result":     {body: messages(userHi + "," + assistant(useA) + "," + user(`{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":""}]}`)), message: "messages: text content blocks must be non-empty"},
	"a result with a strange block": {body: messages(userHi + "," + assistant(useA) + "," + user(`{"type":"tool_result","tool_use_id":"a","content":[{"type":"audio"}]}`)), message: "messages.2.content.0.tool_result.content.0: Input tag 'audio' found using 'type' does not match any of the expected tags: 'text', 'image'"},
	"a result without an id":        {body: messages(user(`{"type":"tool_result","content":"x"}`)), message: "messages.0.content.0.tool_result.tool_use_id: Field required"},
}

func TestAnthropicRefusesPairs(t *testing.T) { runRefused(t, "/v1/messages", plain, anthropicPairs) }

var anthropicFieldCases = map[string]refused{
	"no JSON":                    {body: `{"model":`, message: "The request body is not valid JSON: unexpected EOF"},
	"an array":                   {body: `[]`, message: "The request body is not valid JSON: the body is not an object"},
	"no model":                   {body: `{"max_tokens":1,"messages":[]}`, message: "model: Field required"},
	"an unknown model":           {body: strings.Replace(messages(userHi), `"m"`, `"x"`, 1), status: 404, kind: "not_found_error", message: "model: x"},
	"no version":                 {body: messages(userHi), header: map[string]string{"Anthropic-Version": ""}, message: "anthropic-version: header is required"},
	"an unknown field":           {body: messages(userHi, `"max_completion_tokens":3`), message: "max_completion_tokens: Extra inputs are not permitted"},
	"no max_tokens":              {body: `{"model":"m","messages":[` + userHi + `]}`, message: "max_tokens: Field required"},
	"max_tokens as string":       {body: `{"model":"m","max_tokens":"9","messages":[` + userHi + `]}`, message: "max_tokens: Input should be a valid integer"},
	"max_tokens with a fraction": {body: `{"model":"m","max_tokens":1.5,"messages":[` + userHi + `]}`, message: "max_tokens: Input should be a valid integer"},
	"max_tokens 0":               {body: `{"model":"m","max_tokens":0,"messages":[` + userHi + `]}`, message: "max_tokens: Input should be greater than or equal to 1"},
	"max_tokens above the model's": {script: "model: m\nmaxTokens: 1999\nreplies: [{}]", body: messages(userHi),
		message: "max_tokens: 2000 > 1999, which is the maximum allowed number of output tokens for m"},
	"no messages":                  {body: `{"model":"m","max_tokens":9}`, message: "messages: Field required"},
	"messages that are no list":    {body: `{"model":"m","max_tokens":9,"messages":{}}`, message: "messages: Input should be a valid list"},
	"an empty list of messages":    {body: messages(""), message: "messages: at least one message is required"},
	"the assistant first":          {body: messages(assistant(textBlock("x")) + "," + userHi), message: `messages: first message must use the "user" role`},
	"a system message":             {body: messages(`{"role":"system","content":"x"}`), message: "messages.0.role: Input should be 'user' or 'assistant'"},
	"an unknown field of message":  {body: messages(`{"role":"user","content":"x","name":"y"}`), message: "messages.0.name: Extra inputs are not permitted"},
	"an unknown field of block":    {body: messages(user(`{"type":"text","text":"x","textSignature":"y"}`)), message: "messages.0.content.0.text.textSignature: Extra inputs are not permitted"},
	"an unknown field of result":   {body: messages(user(`{"type":"tool_result","tool_use_id":"a","details":{}}`)), message: "messages.0.content.0.tool_result.details: Extra inputs are not permitted"},
	"an unknown block":             {body: messages(user(`{"type":"toolCall"}`)), message: "messages.0.content.0: Input tag 'toolCall' found using 'type' does not match any of the expected tags: 'text', 'image', 'tool_result'"},
	"no content":                   {body: messages(`{"role":"user"}`), message: "messages.0.content: Field required"},
	"content that is a number":     {body: messages(`{"role":"user","content":3}`), message: "messages.0.content: Input should be a valid list"},
	"a block that is a string":     {body: messages(user(`"x"`)), message: "messages.0.content.0: Input should be an object"},
	"an empty user message":        {body: messages(`{"role":"user","content":""}`), message: "messages.0: user messages must have non-empty content"},
	"an empty list of user blocks": {body: messages(user()), message: "messages.0: user messages must have non-empty content"},
	"an empty assistant message":   {body: messages(userHi + "," + assistant() + "," + userHi), message: "messages.1: all messages must have non-empty content except for the optional final assistant message"},
	"an empty text block":          {body: messages(user(textBlock("hi"), textBlock(""))), message: "messages: text content blocks must be non-empty"},
	"a blank text block":           {body: messages(user(textBlock(" \n"))), message: "messages: text content blocks must contain non-whitespace text"},
	"an empty assistant block":     {body: messages(userHi + "," + assistant(textBlock(""), useA) + "," + user(resultA)), message: "messages: text content blocks must be non-empty"},
	"a cache marker on empty text": {body: messages(user(`{"type":"text","text":"","cache_control":{"type":"ephemeral"}}`)), message: "messages.0.content.0.text: cache_control cannot be set for empty text blocks"},
	"a strange cache marker":       {body: messages(user(`{"type":"text","text":"x","cache_control":{"type":"x"}}`)), message: "messages.0.content.0.text.cache_control.type: Input should be 'ephemeral'"},
	"five cache markers":           {body: messages(user(strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},`, 5), ","))), message: "A maximum of 4 blocks with cache_control may be provided. Found 5."},
	"an empty system block":        {body: messages(userHi, `"system":[{"type":"text","text":""}]`), message: "system: text content blocks must be non-empty"},
	"an image as system":           {body: messages(userHi, `"system":[{"type":"image"}]`), message: "system.0.type: Input should be 'text'"},
	"a system that is a number":    {body: messages(userHi, `"system":3`), message: "system: Input should be a valid string or list"},
	"temperature 1.5":              {body: messages(userHi, `"temperature":1.5`), message: "temperature: range: 0..1"},
	"an unknown effort":            {body: messages(userHi, `"output_config":{"effort":"minimal"}`), message: "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"},
	"a tool choice without tools":  {body: messages(userHi, `"tool_choice":{"type":"any"}`), message: "tool_choice may only be specified while providing tools."},
	"a tool without schema":        {body: messages(userHi, `"tools":[{"name":"f"}]`), message: "tools.0.custom.input_schema: Field required"},
	"a tool with an empty schema":  {body: messages(userHi, `"tools":[{"name":"f","input_schema":{}}]`), message: "tools.0.custom.input_schema.type: Field required"},
	"a tool whose schema is array": {body: messages(userHi, `"tools":[{"name":"f","input_schema":{"type":"array"}}]`), message: "tools.0.custom.input_schema.type: Input should be 'object'"},
	"a tool with parameters":       {body: messages(userHi, `"tools":[{"name":"f","parameters":{}}]`), message: "tools.0.custom.parameters: Extra inputs are not permitted"},
	"a tool name with a dot":       {body: messages(userHi, `"tools":[{"name":"a.b","input_schema":{"type":"object"}}]`), message: "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"},
	"a tool named twice":           {body: messages(userHi, `"tools":[`+toolF+`,`+toolF+`]`), message: "tools: Tool names must be unique."},
	"a server tool":                {body: messages(userHi, `"tools":[{"type":"bash_20250124","name":"bash"}]`), message: "tools.0: tool type 'bash_20250124' is not supported for this model"},
	"tools that are no list":       {body: messages(userHi, `"tools":{}`), message: "tools: Input should be a valid list"},
	"prefill that ends in space":   {body: messages(userHi + `,{"role":"assistant","content":"so "}`), message: "messages: final assistant content cannot end with trailing whitespace"},
	"prefill of an adaptive model": {script: "model: m\nthinking: adaptive\nreplies: [{}]", body: messages(userHi + `,{"role":"assistant","content":"so"}`), message: "This model does not support assistant message prefill. The conversation must end with a user message."},
	"a text-only model":            {script: "model: m\nimages: false\nreplies: [{}]", body: messages(user(image(pngPixel))), message: "messages.0.content.0.image: image content is not supported by this model"},
	"an image that is no base64":   {body: messages(user(image("%%"))), message: "messages.0.content.0.image.source.base64.data: invalid base64 data"},
	"an image of another type":     {body: messages(user(strings.Replace(image(pngPixel), "png", "bmp", 1))), message: "messages.0.content.0.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"},
	"a prompt above the window":    {script: "model: m\nwindow: 4\nreplies: [{}]", body: messages(userHi), message: "prompt is too long: 5 tokens > 4 maximum"},
	"input and output above the window": {script: "model: m\nwindow: 2004\nwindowIncludesOutput: true\nreplies: [{}]", body: messages(userHi),
		message: "input length and `max_tokens` exceed context limit: 5 + 2000 > 2004, decrease input length or `max_tokens` and try again"},
	"no key":             {script: "model: m\nauth: key\nreplies: [{}]", body: messages(userHi), status: 401, kind: "authentication_error", message: "x-api-key header is required"},
	"another key":        {script: "model: m\napiKey: a\nreplies: [{}]", body: messages(userHi), header: map[string]string{"X-Api-Key": "b"}, status: 401, kind: "authentication_error", message: "invalid x-api-key"},
	"more than the body": {body: messages(userHi) + "x", message: "The request body is not valid JSON: there is more after the object"},
}

func TestAnthropicRefusesFields(t *testing.T) {
	runRefused(t, "/v1/messages", plain, anthropicFieldCases)
}

func thinking(config string) string { return `"thinking":` + config }

var anthropicThinkingCases = map[string]refused{
	"a budget of 1023":           {body: messages(userHi, thinking(`{"type":"enabled","budget_tokens":1023}`)), message: "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"},
	"no budget":                  {body: messages(userHi, thinking(`{"type":"enabled"}`)), message: "thinking.enabled.budget_tokens: Field required"},
	"a budget that is a string":  {body: messages(userHi, thinking(`{"type":"enabled","budget_tokens":"x"}`)), message: "thinking.enabled.budget_tokens: Input should be a valid integer"},
	"a budget of all the output": {body: messages(userHi, thinking(`{"type":"enabled","budget_tokens":2000}`)), message: "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size"},
	"a budget for an adaptive model": {script: "model: m\nthinking: adaptive\nreplies: [{}]", body: messages(userHi, thinking(`{"type":"enabled","budget_tokens":1024}`)),
		message: `"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`},
	"adaptive for a fixed model": {script: "model: m\nthinking: fixed\nreplies: [{}]", body: messages(userHi, thinking(`{"type":"adaptive"}`)), message: "adaptive thinking is not supported on this model"},
	"thinking for a model without": {script: "model: m\nthinking: none\nreplies: [{}]", body: messages(userHi, thinking(`{"type":"adaptive"}`)),
		message: "thinking is not supported for this model"},
	"an unknown type":           {body: messages(userHi, thinking(`{"type":"auto"}`)), message: "thinking: Input tag 'auto' found using 'type' does not match any of the expected tags: 'adaptive', 'between_tools', 'disabled', 'enabled'"},
	"a temperature":             {body: messages(userHi, thinking(`{"type":"adaptive"}`), `"temperature":0.5`), message: "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode."},
	"top_k":                     {body: messages(userHi, thinking(`{"type":"adaptive"}`), `"top_k":5`), message: "`top_k` must be unset when thinking is enabled or in adaptive mode."},
	"a forced tool":             {body: messages(userHi, thinking(`{"type":"adaptive"}`), `"tools":[`+toolF+`]`, `"tool_choice":{"type":"any"}`), message: "Thinking may not be enabled when tool_choice forces tool use."},
	"a prefill":                 {body: messages(userHi+`,{"role":"assistant","content":"so"}`, thinking(`{"type":"adaptive"}`)), message: "This model does not support assistant message prefill. The conversation must end with a user message."},
	"an invented signature":     {body: messages(userHi + "," + assistant(`{"type":"thinking","thinking":"x","signature":"abc"}`) + "," + userHi), message: "messages.1.content.0: Invalid `signature` in `thinking` block"},
	"no signature":              {body: messages(userHi + "," + assistant(`{"type":"thinking","thinking":"x"}`) + "," + userHi), message: "messages.1.content.0.thinking.signature: Field required"},
	"invented redacted data":    {body: messages(userHi + "," + assistant(`{"type":"redacted_thinking","data":"abc"}`) + "," + userHi), message: "messages.1.content.0: Invalid `data` in `redacted_thinking` block"},
	"thinking in a user's turn": {body: messages(user(`{"type":"thinking","thinking":"x","signature":"abc"}`)), message: "messages.0: `thinking` blocks can only be in `assistant` messages"},
}

func TestAnthropicRefusesThinking(t *testing.T) {
	runRefused(t, "/v1/messages", plain, anthropicThinkingCases)
}

func TestAnthropicCountTokens(t *testing.T) {
	c := start(t, "model: m\nwindow: 4\nreplies: [{}]")
	const path = "/v1/messages/count_tokens"
	body := `{"model":"m","messages":[` + userHi + `],"system":"be brief"}`
	got := c.post(path, body)
	if n, _ := integer(got.object(t), "input_tokens"); got.status != http.StatusOK || n != 11 {
		t.Errorf("status %d, %d tokens, want 200 and 11: %s", got.status, n, got.body)
	}
	if left := c.server.lookup("m").counts(); left[0] != 0 {
		t.Error("counting used up a reply")
	}
	got = c.post(path, messages(userHi))
	if want := "max_tokens: Extra inputs are not permitted"; str(obj(got.object(t), "error"), "message") != want {
		t.Errorf("got %s, want %q", got.body, want)
	}
	if n := len(c.server.Requests("m")); n != 2 {
		t.Errorf("%d requests recorded, want 2", n)
	}
}
