package modelserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// chatAPI is the Chat Completions API.
type chatAPI struct{}

var chatFields = []string{
	"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p", "n",
	"stop", "seed", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "verbosity", "response_format",
	"frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs", "user", "store", "metadata",
	"modalities", "audio", "prediction", "service_tier", "prompt_cache_key", "prompt_cache_retention",
	"prompt_cache_options", "safety_identifier", "web_search_options", "functions", "function_call", "moderation",
}

func (chatAPI) refusal(why refusal, detail string) *apiError { return openAIRefusal(why, detail) }

func (chatAPI) errorBody(e *apiError, _ string) []byte { return e.openAIBody() }

// chatReader is one request being checked.
type chatReader struct {
	body object
	call *call
	// open are the tool calls of the latest assistant message that have no result yet, in order.
	open   []string
	openAt int
}

func (chatAPI) read(_ http.Header, body object, m *model) (*call, *apiError) {
	r := &chatReader{body: body, call: newCall(m)}
	r.call.stream = boolean(body, "stream")
	r.call.includeUsage = boolean(obj(body, "stream_options"), "include_usage")
	for _, step := range []func() *apiError{r.readOptions, r.readTools, r.readMessages, r.checkWindow} {
		if e := step(); e != nil {
			return r.call, e
		}
	}
	return r.call, nil
}

func (r *chatReader) readOptions() *apiError {
	if unknown := unknownKeys(r.body, chatFields, r.call.model.script.AllowFields); len(unknown) == 1 {
		return invalid("Unrecognized request argument supplied: %s", unknown[0])
	} else if len(unknown) > 1 {
		return invalid("Unrecognized request arguments supplied: %s", strings.Join(unknown, ", "))
	}
	if present(r.body, "reasoning_effort") && r.call.model.script.Thinking == ThinkingNone {
		return invalid("Unrecognized request argument supplied: reasoning_effort")
	}
	if present(r.body, "stream_options") && !r.call.stream {
		return invalid("The 'stream_options' parameter is only allowed when 'stream' is enabled.").at("stream_options")
	}
	if present(r.body, "max_tokens") && present(r.body, "max_completion_tokens") {
		return invalid("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.").
			coded("invalid_parameter_combination")
	}
	for _, key := range []string{"max_tokens", "max_completion_tokens"} {
		if e := checkOutputCap(r.call, r.body, key, 1); e != nil {
			return e
		}
	}
	if n, ok := integer(r.body, "n"); ok && n != 1 {
		return invalid("Invalid 'n': this model gives one choice.").at("n").coded("invalid_value")
	}
	if e := checkEffort("reasoning_effort", str(r.body, "reasoning_effort")); e != nil {
		return e
	}
	return checkTemperature(r.body)
}

func (r *chatReader) readTools() *apiError {
	if e := checkToolList(r.body); e != nil {
		return e
	}
	for i, item := range list(r.body, "tools") {
		tool, _ := item.(object)
		path := fmt.Sprintf("tools[%d]", i)
		if kind := str(tool, "type"); kind == "" {
			return missing(path + ".type")
		} else if kind != "function" {
			return invalidValue(path+".type", kind, []string{"function"})
		}
		if obj(tool, "function") == nil {
			return missing(path + ".function")
		}
		if e := checkFunction(r.call, obj(tool, "function"), path+".function"); e != nil {
			return e
		}
	}
	if present(r.body, "tool_choice") && !present(r.body, "tools") {
		return invalid("Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.").at("tool_choice")
	}
	if present(r.body, "parallel_tool_calls") && !present(r.body, "tools") {
		return invalid("Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified.").
			at("parallel_tool_calls")
	}
	return nil
}

var chatRoles = []string{"system", "assistant", "user", "function", "tool", "developer"}

var chatMessageFields = map[string][]string{
	"system":    {"role", "content", "name"},
	"developer": {"role", "content", "name"},
	"user":      {"role", "content", "name"},
	"assistant": {"role", "content", "name", "refusal", "tool_calls", "audio", "function_call", "annotations"},
	"tool":      {"role", "content", "tool_call_id"},
	"function":  {"role", "content", "name"},
}

func (r *chatReader) readMessages() *apiError {
	if !present(r.body, "messages") {
		return missing("messages")
	}
	messages, ok := r.body["messages"].([]any)
	if !ok {
		return wrongType(r.body["messages"], "messages", "an array of objects")
	}
	if len(messages) == 0 {
		return emptyArray("messages")
	}
	for i, item := range messages {
		message, ok := item.(object)
		if !ok {
			return wrongType(item, fmt.Sprintf("messages[%d]", i), "an object")
		}
		if e := r.readMessage(message, i); e != nil {
			return e
		}
	}
	return r.noOpenCalls()
}

func (r *chatReader) readMessage(message object, i int) *apiError {
	role, path := str(message, "role"), fmt.Sprintf("messages[%d]", i)
	if role == "" {
		return missing(path + ".role")
	}
	if !slices.Contains(chatRoles, role) {
		return invalidValue(path+".role", role, chatRoles)
	}
	if unknown := unknownKeys(message, chatMessageFields[role], r.reasoningField(role)); len(unknown) > 0 {
		return unknownParameter(path + "." + unknown[0])
	}
	r.call.inputTokens += tokensPerMessage
	if role == "tool" {
		return r.readResult(message, i)
	}
	if e := r.noOpenCalls(); e != nil {
		return e
	}
	if role == "assistant" {
		return r.readAssistant(message, i)
	}
	text, e := r.readContent(message, i)
	if e != nil {
		return e
	}
	if role == "user" {
		r.call.sawText(text)
		return nil
	}
	r.call.system = strings.TrimPrefix(r.call.system+"\n"+text, "\n")
	return nil
}

// reasoningField is the field of assistant messages in which a model that sends thinking takes it back.
func (r *chatReader) reasoningField(role string) []string {
	field := chatReasoningField(r.call.model)
	if role != "assistant" || field == ChatReasoningNone {
		return nil
	}
	return []string{field}
}

// noOpenCalls refuses what comes before every call of the latest assistant message has its result.
func (r *chatReader) noOpenCalls() *apiError {
	if len(r.open) == 0 {
		return nil
	}
	return invalid("An assistant message with 'tool_calls' must be followed by tool messages responding to each "+
		"'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(r.open, ", ")).
		at("messages.[%d].role", r.openAt+1)
}

func (r *chatReader) readResult(message object, i int) *apiError {
	id := str(message, "tool_call_id")
	if id == "" {
		return missing(fmt.Sprintf("messages[%d].tool_call_id", i))
	}
	at := slices.Index(r.open, id)
	if at < 0 {
		return invalid("Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "+
			"'tool_calls'.").at("messages.[%d].role", i)
	}
	r.open = slices.Delete(r.open, at, at+1)
	r.call.sawToolResult()
	_, e := r.readContent(message, i)
	return e
}

func (r *chatReader) readAssistant(message object, i int) *apiError {
	r.call.sawAssistant()
	r.call.inputTokens += r.call.tokens(str(message, chatReasoningField(r.call.model)))
	path := fmt.Sprintf("messages[%d].tool_calls", i)
	if present(message, "tool_calls") {
		calls, ok := message["tool_calls"].([]any)
		if !ok {
			return wrongType(message["tool_calls"], path, "an array of objects")
		}
		if len(calls) == 0 {
			return emptyArray(path)
		}
		r.openAt = i
		for j, item := range calls {
			if e := r.readCall(item, fmt.Sprintf("%s[%d]", path, j)); e != nil {
				return e
			}
		}
	}
	if !present(message, "content") && (present(message, "tool_calls") || present(message, "refusal")) {
		return nil
	}
	_, e := r.readContent(message, i)
	return e
}

func (r *chatReader) readCall(item any, path string) *apiError {
	tool, _ := item.(object)
	id, fn := str(tool, "id"), obj(tool, "function")
	switch {
	case id == "":
		return missing(path + ".id")
	case len(id) > 40:
		return tooLong(path+".id", id, 40)
	case str(tool, "type") == "":
		return missing(path + ".type")
	case str(tool, "type") != "function":
		return invalidValue(path+".type", str(tool, "type"), []string{"function"})
	case str(fn, "name") == "":
		return missing(path + ".function.name")
	case !plainName(str(fn, "name"), 64):
		return invalid("Invalid '%s.function.name': string does not match pattern. Expected a string that matches the pattern "+
			"'^[a-zA-Z0-9_-]+$'.", path).at("%s.function.name", path).coded("invalid_value")
	case !present(fn, "arguments"):
		return missing(path + ".function.arguments")
	}
	args, ok := fn["arguments"].(string)
	if !ok {
		return wrongType(fn["arguments"], path+".function.arguments", "a string")
	}
	if slices.Contains(r.open, id) {
		return invalid("Duplicate value for 'tool_call_id' of '%s'", id).at("%s.id", path)
	}
	r.open = append(r.open, id)
	r.call.inputTokens += tokensPerTool + r.call.tokens(str(fn, "name")) + r.call.tokens(args)
	return nil
}

// readContent counts a message's content and returns its text.
func (r *chatReader) readContent(message object, i int) (string, *apiError) {
	path := fmt.Sprintf("messages[%d].content", i)
	switch content := message["content"].(type) {
	case string:
		r.call.inputTokens += r.call.tokens(content)
		return content, nil
	case []any:
		if len(content) == 0 {
			return "", emptyArray(path)
		}
		var texts []string
		for j, item := range content {
			text, e := r.readPart(item, str(message, "role"), fmt.Sprintf("%s[%d]", path, j))
			if e != nil {
				return "", e
			}
			texts = append(texts, text)
		}
		return strings.Join(texts, "\n"), nil
	case nil:
		return "", invalid("Invalid value for 'content': expected a string, got null.").at("messages.[%d].content", i)
	}
	return "", wrongType(message["content"], path, "one of a string or array of objects")
}

func (r *chatReader) readPart(item any, role, path string) (string, *apiError) {
	part, _ := item.(object)
	allowed := []string{"text"}
	switch role {
	case "user":
		allowed = []string{"text", "image_url"}
	case "assistant":
		allowed = []string{"text", "refusal"}
	}
	kind := str(part, "type")
	if kind == "" {
		return "", missing(path + ".type")
	}
	if !slices.Contains(allowed, kind) {
		return "", invalidValue(path+".type", kind, allowed)
	}
	if kind == "image_url" {
		return "", checkImageURL(r.call, str(obj(part, "image_url"), "url"), path+".image_url")
	}
	text, ok := part[kind].(string)
	if !ok {
		return "", missing(path + "." + kind)
	}
	if unknown := unknownKeys(part, []string{"type", kind}); len(unknown) > 0 {
		return "", unknownParameter(path + "." + unknown[0])
	}
	r.call.inputTokens += r.call.tokens(text)
	return text, nil
}

func (r *chatReader) checkWindow() *apiError {
	window, n := r.call.model.script.Window, r.call.inputTokens
	if window == 0 {
		return nil
	}
	if n > window {
		return invalid("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please "+
			"reduce the length of the messages.", window, n).at("messages").coded("context_length_exceeded")
	}
	if r.call.model.script.WindowIncludesOutput && n+r.call.maxOutput > window {
		return invalid("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, "+
			"%d in the completion). Please reduce the length of the messages or completion.",
			window, n+r.call.maxOutput, n, r.call.maxOutput).at("messages").coded("context_length_exceeded")
	}
	return nil
}
