package modelserver

import (
	"net/http"
	"strings"
	"testing"
)

// chat is a Chat Completions request with these messages and further fields.
func chat(list string, extra ...string) string {
	return `{"model":"m","messages":[` + list + `]` + fields(extra) + `}`
}

func chatCalls(ids ...string) string {
	calls := make([]string, len(ids))
	for i, id := range ids {
		calls[i] = `{"id":"` + id + `","type":"function","function":{"name":"f","arguments":"{}"}}`
	}
	return `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(calls, ",") + `]}`
}

func chatResult(id string) string { return `{"role":"tool","tool_call_id":"` + id + `","content":"1"}` }

const chatTool = `{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}`

func TestChatAccepts(t *testing.T) {
	cases := map[string]struct{ script, body string }{
		"strings":            {plain, chat(`{"role":"system","content":"s"},` + userHi)},
		"parts":              {plain, chat(`{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + pngPixel + `"}}]}`)},
		"a link to an image": {plain, chat(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}`)},
		"a pair":             {plain, chat(userHi + "," + chatCalls("a") + "," + chatResult("a"))},
		"results in another order, and an id used again": {plain, chat(userHi + "," + chatCalls("a", "b") + "," + chatResult("b") + "," + chatResult("a") +
			"," + chatCalls("a") + "," + chatResult("a"))},
		"an empty text":         {plain, chat(`{"role":"user","content":""}`)},
		"a refusal":             {plain, chat(userHi + `,{"role":"assistant","content":null,"refusal":"no"},` + userHi)},
		"options":               {plain, chat(userHi, `"max_tokens":1`, `"temperature":2`, `"n":1`, `"reasoning_effort":"high"`, `"tools":[`+chatTool+`]`, `"tool_choice":"auto"`, `"parallel_tool_calls":true`)},
		"a strict tool":         {plain, chat(userHi, `"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","additionalProperties":false}}}]`)},
		"a tool without schema": {plain, chat(userHi, `"tools":[{"type":"function","function":{"name":"f"}}]`)},
		"thinking":              {plain, chat(userHi + `,{"role":"assistant","content":"x","reasoning_content":"y"},` + userHi)},
		"thinking as reasoning": {"model: m\nchatReasoning: reasoning\nreplies: [{}]", chat(userHi + `,{"role":"assistant","content":"x","reasoning":"y"},` + userHi)},
		"a scripted field":      {"model: m\nallowFields: [top_k]\nreplies: [{}]", chat(userHi, `"top_k":3`)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, tc.script)
			if got := c.post("/v1/chat/completions", tc.body); got.status != http.StatusOK {
				t.Errorf("status %d: %s", got.status, got.body)
			}
		})
	}
}

const (
	unansweredCall = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. " +
		"The following tool_call_ids did not have response messages: "
	strayTool = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
)

var chatMessageCases = map[string]refused{
	"a call at the end":         {body: chat(userHi + "," + chatCalls("a")), message: unansweredCall + "a", param: "messages.[2].role"},
	"a call without result":     {body: chat(userHi + "," + chatCalls("a", "b") + "," + chatResult("a") + "," + userHi), message: unansweredCall + "b", param: "messages.[2].role"},
	"a text before the result":  {body: chat(userHi + "," + chatCalls("a") + "," + userHi + "," + chatResult("a")), message: unansweredCall + "a", param: "messages.[2].role"},
	"a result without call":     {body: chat(userHi + "," + chatResult("a")), message: strayTool, param: "messages.[1].role"},
	"two results of one call":   {body: chat(userHi + "," + chatCalls("a") + "," + chatResult("a") + "," + chatResult("a")), message: strayTool, param: "messages.[3].role"},
	"a result for another call": {body: chat(userHi + "," + chatCalls("a") + "," + chatResult("b")), message: strayTool, param: "messages.[2].role"},
	"a result without id":       {body: chat(userHi + "," + chatCalls("a") + `,{"role":"tool","content":"x"}`), message: "Missing required parameter: 'messages[2].tool_call_id'.", param: "messages[2].tool_call_id", code: "missing_required_parameter"},
	"one id twice":              {body: chat(userHi + "," + chatCalls("a", "a")), message: "Duplicate value for 'tool_call_id' of 'a'", param: "messages[1].tool_calls[1].id"},
	"an id of 41 letters": {body: chat(userHi + "," + chatCalls(strings.Repeat("a", 41))), param: "messages[1].tool_calls[0].id", code: "string_above_max_length",
		message: "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 41 instead."},
	"an empty list of calls": {body: chat(userHi + `,{"role":"assistant","content":"x","tool_calls":[]}`), param: "messages[1].tool_calls", code: "empty_array",
		message: "Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead."},
	"calls that are no list": {body: chat(userHi + `,{"role":"assistant","tool_calls":{}}`), param: "messages[1].tool_calls", code: "invalid_type",
		message: "Invalid type for 'messages[1].tool_calls': expected an array of objects, but got an object instead."},
	"arguments that are an object": {body: chat(userHi + "," + strings.Replace(chatCalls("a"), `"{}"`, `{}`, 1)), param: "messages[1].tool_calls[0].function.arguments", code: "invalid_type",
		message: "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, but got an object instead."},
	"a call without arguments": {body: chat(userHi + "," + strings.Replace(chatCalls("a"), `,"arguments":"{}"`, ``, 1)), param: "messages[1].tool_calls[0].function.arguments", code: "missing_required_parameter",
		message: "Missing required parameter: 'messages[1].tool_calls[0].function.arguments'."},
	"a call without id":   {body: chat(userHi + "," + chatCalls("")), message: "Missing required parameter: 'messages[1].tool_calls[0].id'.", param: "messages[1].tool_calls[0].id", code: "missing_required_parameter"},
	"a call without type": {body: chat(userHi + "," + strings.Replace(chatCalls("a"), `"type":"function",`, ``, 1)), message: "Missing required parameter: 'messages[1].tool_calls[0].type'.", param: "messages[1].tool_calls[0].type", code: "missing_required_parameter"},
	"a call name with a dot": {body: chat(userHi + "," + strings.Replace(chatCalls("a"), `"f"`, `"a.b"`, 1)), param: "messages[1].tool_calls[0].function.name", code: "invalid_value",
		message: "Invalid 'messages[1].tool_calls[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."},
	"no role": {body: chat(`{"content":"x"}`), message: "Missing required parameter: 'messages[0].role'.", param: "messages[0].role", code: "missing_required_parameter"},
	"an unknown role": {body: chat(`{"role":"toolResult","content":"x"}`), param: "messages[0].role", code: "invalid_value",
		message: "Invalid value: 'toolResult'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'."},
	"an unknown field of a message": {body: chat(`{"role":"user","content":"x","reasoning_content":"y"}`), message: "Unknown parameter: 'messages[0].reasoning_content'.", param: "messages[0].reasoning_content", code: "unknown_parameter"},
	"thinking in another field":     {body: chat(userHi + `,{"role":"assistant","content":"x","reasoning":"y"},` + userHi), message: "Unknown parameter: 'messages[1].reasoning'.", param: "messages[1].reasoning", code: "unknown_parameter"},
	"thinking of a silent model":    {script: "model: m\nchatReasoning: none\nreplies: [{}]", body: chat(userHi + `,{"role":"assistant","content":"x","reasoning_content":"y"},` + userHi), message: "Unknown parameter: 'messages[1].reasoning_content'.", param: "messages[1].reasoning_content", code: "unknown_parameter"},
	"an unknown field of a part":    {body: chat(`{"role":"user","content":[{"type":"text","text":"x","cache_control":{}}]}`), message: "Unknown parameter: 'messages[0].content[0].cache_control'.", param: "messages[0].content[0].cache_control", code: "unknown_parameter"},
	"content that is null":          {body: chat(`{"role":"user","content":null}`), message: "Invalid value for 'content': expected a string, got null.", param: "messages.[0].content"},
	"an assistant with nothing":     {body: chat(userHi + `,{"role":"assistant"},` + userHi), message: "Invalid value for 'content': expected a string, got null.", param: "messages.[1].content"},
	"content that is a number":      {body: chat(`{"role":"user","content":3}`), message: "Invalid type for 'messages[0].content': expected one of a string or array of objects, but got an integer instead.", param: "messages[0].content", code: "invalid_type"},
	"an empty list of parts": {body: chat(`{"role":"user","content":[]}`), param: "messages[0].content", code: "empty_array",
		message: "Invalid 'messages[0].content': empty array. Expected an array with minimum length 1, but got an empty array instead."},
	"a part of the other API":    {body: chat(`{"role":"user","content":[{"type":"input_text","text":"x"}]}`), message: "Invalid value: 'input_text'. Supported values are: 'text' and 'image_url'.", param: "messages[0].content[0].type", code: "invalid_value"},
	"an image from a tool":       {body: chat(userHi + "," + chatCalls("a") + `,{"role":"tool","tool_call_id":"a","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}`), message: "Invalid value: 'image_url'. Supported values are: 'text'.", param: "messages[2].content[0].type", code: "invalid_value"},
	"a part without type":        {body: chat(`{"role":"user","content":[{"text":"x"}]}`), message: "Missing required parameter: 'messages[0].content[0].type'.", param: "messages[0].content[0].type", code: "missing_required_parameter"},
	"a part without text":        {body: chat(`{"role":"user","content":[{"type":"text"}]}`), message: "Missing required parameter: 'messages[0].content[0].text'.", param: "messages[0].content[0].text", code: "missing_required_parameter"},
	"an image for a text model":  {script: "model: m\nimages: false\nreplies: [{}]", body: chat(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}`), message: "Invalid content type. image_url is only supported by certain models.", param: "messages[0].content[0].image_url", code: "invalid_value"},
	"an image that is no base64": {body: chat(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,%"}}]}`), message: "Invalid image data URL: expected a base64-encoded data URL with an image MIME type (e.g. 'data:image/png;base64,...').", param: "messages[0].content[0].image_url", code: "invalid_image_url"},
	"an image of another type":   {body: chat(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/bmp;base64,AAAA"}}]}`), message: "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].", param: "messages[0].content[0].image_url", code: "invalid_image_format"},
	"no messages":                {body: `{"model":"m"}`, message: "Missing required parameter: 'messages'.", param: "messages", code: "missing_required_parameter"},
	"an empty list":              {body: chat(""), message: "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.", param: "messages", code: "empty_array"},
	"messages that are a string": {body: `{"model":"m","messages":"x"}`, message: "Invalid type for 'messages': expected an array of objects, but got a string instead.", param: "messages", code: "invalid_type"},
	"a message that is a string": {body: chat(`"x"`), message: "Invalid type for 'messages[0]': expected an object, but got a string instead.", param: "messages[0]", code: "invalid_type"},
}

func TestChatRefusesMessages(t *testing.T) {
	runRefused(t, "/v1/chat/completions", plain, chatMessageCases)
}

// tooManyTools is a list of 129 tools.
var tooManyTools = `"tools":[` + strings.TrimSuffix(strings.Repeat(chatTool+",", 129), ",") + `]`

var chatFieldCases = map[string]refused{
	"no JSON":             {body: `x`, message: "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)"},
	"no model":            {body: `{"messages":[]}`, message: "you must provide a model parameter"},
	"an unknown model":    {body: strings.Replace(chat(userHi), `"m"`, `"x"`, 1), status: 404, message: "The model `x` does not exist or you do not have access to it.", code: "model_not_found"},
	"no key":              {script: "model: m\nauth: key\nreplies: [{}]", body: chat(userHi), status: 401, message: "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."},
	"another key":         {script: "model: m\napiKey: a\nreplies: [{}]", body: chat(userHi), header: map[string]string{"Authorization": "Bearer b"}, status: 401, message: "Incorrect API key provided.", code: "invalid_api_key"},
	"an unknown field":    {body: chat(userHi, `"top_k":3`), message: "Unrecognized request argument supplied: top_k"},
	"unknown fields":      {body: chat(userHi, `"top_k":3`, `"input":""`), message: "Unrecognized request arguments supplied: input, top_k"},
	"usage of no stream":  {body: chat(userHi, `"stream_options":{"include_usage":true}`), message: "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param: "stream_options"},
	"both caps":           {body: chat(userHi, `"max_tokens":1`, `"max_completion_tokens":1`), message: "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.", code: "invalid_parameter_combination"},
	"a cap of 0":          {body: chat(userHi, `"max_completion_tokens":0`), message: "Invalid 'max_completion_tokens': integer below minimum value. Expected a value >= 1, but got 0 instead.", param: "max_completion_tokens", code: "integer_below_min_value"},
	"a cap as string":     {body: chat(userHi, `"max_tokens":"1"`), message: "Invalid type for 'max_tokens': expected an integer, but got a string instead.", param: "max_tokens", code: "invalid_type"},
	"a cap with fraction": {body: chat(userHi, `"max_tokens":1.5`), message: "Invalid type for 'max_tokens': expected an integer, but got a decimal instead.", param: "max_tokens", code: "invalid_type"},
	"a cap above the model's": {script: "model: m\nmaxTokens: 8\nreplies: [{}]", body: chat(userHi, `"max_tokens":9`), param: "max_tokens", code: "invalid_value",
		message: "max_tokens is too large: 9. This model supports at most 8 completion tokens, whereas you provided 9."},
	"two choices":             {body: chat(userHi, `"n":2`), message: "Invalid 'n': this model gives one choice.", param: "n", code: "invalid_value"},
	"an unknown effort":       {body: chat(userHi, `"reasoning_effort":"off"`), message: "Invalid value: 'off'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', and 'max'.", param: "reasoning_effort", code: "invalid_value"},
	"effort without thinking": {script: "model: m\nthinking: none\nreplies: [{}]", body: chat(userHi, `"reasoning_effort":"low"`), message: "Unrecognized request argument supplied: reasoning_effort"},
	"temperature 3":           {body: chat(userHi, `"temperature":3`), message: "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead.", param: "temperature", code: "decimal_above_max_value"},
	"temperature -1":          {body: chat(userHi, `"temperature":-1`), message: "Invalid 'temperature': decimal below minimum value. Expected a value >= 0, but got -1 instead.", param: "temperature", code: "decimal_below_min_value"},
	"temperature as string":   {body: chat(userHi, `"temperature":"1"`), message: "Invalid type for 'temperature': expected a decimal, but got a string instead.", param: "temperature", code: "invalid_type"},
	"no tools":                {body: chat(userHi, `"tools":[]`), message: "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.", param: "tools", code: "empty_array"},
	"tools that are no list":  {body: chat(userHi, `"tools":{}`), message: "Invalid type for 'tools': expected an array of objects, but got an object instead.", param: "tools", code: "invalid_type"},
	"129 tools": {body: chat(userHi, tooManyTools), param: "tools", code: "array_above_max_length",
		message: "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 129 instead."},
	"a tool without type":      {body: chat(userHi, `"tools":[{"function":{"name":"f"}}]`), message: "Missing required parameter: 'tools[0].type'.", param: "tools[0].type", code: "missing_required_parameter"},
	"a tool of another type":   {body: chat(userHi, `"tools":[{"type":"custom"}]`), message: "Invalid value: 'custom'. Supported values are: 'function'.", param: "tools[0].type", code: "invalid_value"},
	"a tool of the other API":  {body: chat(userHi, `"tools":[{"type":"function","name":"f"}]`), message: "Missing required parameter: 'tools[0].function'.", param: "tools[0].function", code: "missing_required_parameter"},
	"a tool without name":      {body: chat(userHi, `"tools":[{"type":"function","function":{}}]`), message: "Missing required parameter: 'tools[0].function.name'.", param: "tools[0].function.name", code: "missing_required_parameter"},
	"a tool name with a dot":   {body: chat(userHi, `"tools":[{"type":"function","function":{"name":"a.b"}}]`), message: "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", param: "tools[0].function.name", code: "invalid_value"},
	"a tool name of 65":        {body: chat(userHi, `"tools":[{"type":"function","function":{"name":"`+strings.Repeat("a", 65)+`"}}]`), message: "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64, but got a string with length 65 instead.", param: "tools[0].function.name", code: "string_above_max_length"},
	"a schema without type":    {body: chat(userHi, `"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]`), message: "Invalid schema for function 'f': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"None\"'.", param: "tools[0].function.parameters", code: "invalid_function_parameters"},
	"a strict open schema":     {body: chat(userHi, `"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object"}}}]`), message: "Invalid schema for function 'f': In context=(), 'additionalProperties' is required to be supplied and to be false.", param: "tools[0].function.parameters", code: "invalid_function_parameters"},
	"a choice without tools":   {body: chat(userHi, `"tool_choice":"auto"`), message: "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.", param: "tool_choice"},
	"parallel without tools":   {body: chat(userHi, `"parallel_tool_calls":true`), message: "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified.", param: "parallel_tool_calls"},
	"input above the window":   {script: "model: m\nwindow: 4\nreplies: [{}]", body: chat(userHi), message: "This model's maximum context length is 4 tokens. However, your messages resulted in 5 tokens. Please reduce the length of the messages.", param: "messages", code: "context_length_exceeded"},
	"streamed above it":        {script: "model: m\nwindow: 4\nreplies: [{}]", body: chat(userHi, `"stream":true`), message: "This model's maximum context length is 4 tokens. However, your messages resulted in 5 tokens. Please reduce the length of the messages.", param: "messages", code: "context_length_exceeded"},
	"output beyond the window": {script: "model: m\nwindow: 9\nwindowIncludesOutput: true\nreplies: [{}]", body: chat(userHi, `"max_tokens":5`), message: "This model's maximum context length is 9 tokens. However, you requested 10 tokens (5 in the messages, 5 in the completion). Please reduce the length of the messages or completion.", param: "messages", code: "context_length_exceeded"},
}

func TestChatRefusesFields(t *testing.T) {
	runRefused(t, "/v1/chat/completions", plain, chatFieldCases)
}
