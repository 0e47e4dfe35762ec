package modelserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// responsesAPI is the Responses API. It stores no responses, as if every request said store: false.
type responsesAPI struct{ signer signer }

var responsesFields = []string{
	"model", "input", "instructions", "max_output_tokens", "stream", "stream_options", "store", "include", "reasoning",
	"text", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p", "top_logprobs", "truncation", "metadata",
	"user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "service_tier",
	"previous_response_id", "conversation", "background", "max_tool_calls", "prompt", "context_management", "moderation",
	"access_programs", "image",
}

func (responsesAPI) refusal(why refusal, detail string) *apiError {
	if why == refuseModel {
		return &apiError{status: http.StatusNotFound, kind: "invalid_request_error", code: "model_not_found", param: "model",
			message: fmt.Sprintf("The requested model '%s' does not exist.", detail)}
	}
	if why == refuseNoModel {
		return missing("model")
	}
	return openAIRefusal(why, detail)
}

func (responsesAPI) errorBody(e *apiError, _ string) []byte { return e.openAIBody() }

// responsesReader is one request being checked.
type responsesReader struct {
	api   responsesAPI
	body  object
	call  *call
	items []object
	// open are the function calls that have no output yet, in order; reasoning are the reasoning items seen.
	open      []string
	reasoning map[string]bool
	// inAssistant says that the newest item belongs to an assistant turn that has been counted.
	inAssistant bool
}

func (p responsesAPI) read(_ http.Header, body object, m *model) (*call, *apiError) {
	r := &responsesReader{api: p, body: body, call: newCall(m), reasoning: map[string]bool{}}
	r.call.stream = boolean(body, "stream")
	r.call.wantEncrypted = slices.Contains(list(body, "include"), any("reasoning.encrypted_content"))
	r.call.wantSummary = str(obj(body, "reasoning"), "summary") != ""
	r.call.echoed = body
	for _, step := range []func() *apiError{r.readOptions, r.readTools, r.readInput, r.checkItems, r.checkWindow} {
		if e := step(); e != nil {
			return r.call, e
		}
	}
	return r.call, nil
}

func (r *responsesReader) readOptions() *apiError {
	if unknown := unknownKeys(r.body, responsesFields, r.call.model.script.AllowFields); len(unknown) > 0 {
		return unknownParameter(unknown[0])
	}
	if id := str(r.body, "previous_response_id"); id != "" {
		return invalid("Previous response with id '%s' not found.", id).
			at("previous_response_id").coded("previous_response_not_found")
	}
	if e := checkOutputCap(r.call, r.body, "max_output_tokens", 16); e != nil {
		return e
	}
	if e := r.readReasoning(); e != nil {
		return e
	}
	if present(r.body, "instructions") {
		text, ok := r.body["instructions"].(string)
		if !ok {
			return wrongType(r.body["instructions"], "instructions", "a string")
		}
		r.sawSystem(text)
	}
	return checkTemperature(r.body)
}

func (r *responsesReader) readReasoning() *apiError {
	reasoning := obj(r.body, "reasoning")
	known := []string{"effort", "summary", "generate_summary", "mode", "context"}
	if unknown := unknownKeys(reasoning, known); len(unknown) > 0 {
		return unknownParameter("reasoning." + unknown[0])
	}
	if r.call.model.script.Thinking != ThinkingNone {
		return checkEffort("reasoning.effort", str(reasoning, "effort"))
	}
	if present(reasoning, "effort") {
		return invalid("Unsupported parameter: 'reasoning.effort' is not supported with this model.").
			at("reasoning.effort").coded("unsupported_parameter")
	}
	if r.call.wantEncrypted {
		return invalid("Encrypted content is not supported with this model.").at("include")
	}
	return nil
}

func (r *responsesReader) sawSystem(text string) {
	r.call.system = strings.TrimPrefix(r.call.system+"\n"+text, "\n")
	r.call.inputTokens += r.call.tokens(text) + tokensPerMessage
}

func (r *responsesReader) readTools() *apiError {
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
		if unknown := unknownKeys(tool, []string{"type", "name", "description", "parameters", "strict"}); len(unknown) > 0 {
			return unknownParameter(path + "." + unknown[0])
		}
		if e := checkFunction(r.call, tool, path); e != nil {
			return e
		}
	}
	return nil
}

func (r *responsesReader) readInput() *apiError {
	switch input := r.body["input"].(type) {
	case nil:
		return missing("input")
	case string:
		r.items = []object{{"role": "user", "content": input}}
	case []any:
		for i, item := range input {
			o, ok := item.(object)
			if !ok {
				return wrongType(item, fmt.Sprintf("input[%d]", i), "an object")
			}
			r.items = append(r.items, o)
		}
	default:
		return wrongType(input, "input", "one of a string or array of objects")
	}
	if len(r.items) == 0 {
		return emptyArray("input")
	}
	return nil
}

func (r *responsesReader) checkItems() *apiError {
	for i, item := range r.items {
		if e := r.checkItem(item, i); e != nil {
			return e
		}
	}
	return r.noOpenCalls()
}

var responsesItemFields = map[string][]string{
	"message":              {"type", "id", "role", "content", "status", "phase"},
	"function_call":        {"type", "id", "call_id", "name", "arguments", "status", "namespace", "caller"},
	"function_call_output": {"type", "id", "call_id", "output", "status", "caller"},
	"reasoning":            {"type", "id", "summary", "content", "encrypted_content", "status"},
}

// responsesIDs are the prefixes of item ids.
var responsesIDs = map[string]string{
	"message": "msg", "function_call": "fc", "function_call_output": "fc", "reasoning": "rs",
}

func (r *responsesReader) checkItem(item object, i int) *apiError {
	kind, path := itemKind(item), fmt.Sprintf("input[%d]", i)
	fields := responsesItemFields[kind]
	if fields == nil {
		return invalidValue(path, kind, []string{"message", "function_call", "function_call_output", "reasoning"})
	}
	if unknown := unknownKeys(item, fields); len(unknown) > 0 {
		return unknownParameter(path + "." + unknown[0])
	}
	id := str(item, "id")
	if id != "" && !strings.HasPrefix(id, responsesIDs[kind]) {
		return invalid("Invalid '%s.id': '%s'. Expected an ID that begins with '%s'.", path, id, responsesIDs[kind]).
			at("%s.id", path).coded("invalid_value")
	}
	if len(id) > 64 {
		return tooLong(path+".id", id, 64)
	}
	if e := r.checkReasoningOf(kind, id); e != nil {
		return e
	}
	switch kind {
	case "message":
		return r.checkMessage(item, path)
	case "function_call":
		return r.checkFunctionCall(item, path)
	case "function_call_output":
		return r.checkOutput(item, path)
	}
	return r.checkReasoning(item, i)
}

func itemKind(item object) string {
	kind := str(item, "type")
	if kind == "" && present(item, "role") {
		return "message"
	}
	return kind
}

func (r *responsesReader) sawAssistant() {
	if !r.inAssistant {
		r.call.sawAssistant()
	}
	r.inAssistant = true
}

// noOpenCalls refuses what comes before every function call has its output.
func (r *responsesReader) noOpenCalls() *apiError {
	if len(r.open) == 0 {
		return nil
	}
	return invalid("No tool output found for function call %s.", r.open[0]).at("input")
}

func (r *responsesReader) checkMessage(item object, path string) *apiError {
	role := str(item, "role")
	roles := []string{"assistant", "system", "developer", "user"}
	if !slices.Contains(roles, role) {
		return invalidValue(path+".role", role, roles)
	}
	r.call.inputTokens += tokensPerMessage
	if role == "assistant" {
		r.sawAssistant()
		_, e := r.readContent(item["content"], path+".content", []string{"output_text", "refusal"})
		return e
	}
	r.inAssistant = false
	if e := r.noOpenCalls(); e != nil {
		return e
	}
	text, e := r.readContent(item["content"], path+".content", []string{"input_text", "input_image"})
	if e != nil {
		return e
	}
	if role == "user" {
		r.call.sawText(text)
		return nil
	}
	r.sawSystem(text)
	return nil
}

// readContent counts content whose parts are of the allowed types and returns its text.
func (r *responsesReader) readContent(content any, path string, allowed []string) (string, *apiError) {
	switch content := content.(type) {
	case string:
		r.call.inputTokens += r.call.tokens(content)
		return content, nil
	case []any:
		var texts []string
		for i, item := range content {
			text, e := r.readPart(item, fmt.Sprintf("%s[%d]", path, i), allowed)
			if e != nil {
				return "", e
			}
			texts = append(texts, text)
		}
		return strings.Join(texts, "\n"), nil
	case nil:
		return "", missing(path)
	}
	return "", wrongType(content, path, "one of an array of objects or string")
}

func (r *responsesReader) readPart(item any, path string, allowed []string) (string, *apiError) {
	part, _ := item.(object)
	kind := str(part, "type")
	if !slices.Contains(allowed, kind) {
		return "", invalidValue(path, kind, allowed)
	}
	if kind == "input_image" {
		return "", checkImageURL(r.call, str(part, "image_url"), path+".image_url")
	}
	key := "text"
	if kind == "refusal" {
		key = "refusal"
	}
	text, ok := part[key].(string)
	if !ok {
		return "", missing(path + "." + key)
	}
	r.call.inputTokens += r.call.tokens(text)
	return text, nil
}

func (r *responsesReader) checkFunctionCall(item object, path string) *apiError {
	id := str(item, "call_id")
	switch {
	case id == "":
		return missing(path + ".call_id")
	case len(id) > 64:
		return tooLong(path+".call_id", id, 64)
	case str(item, "name") == "":
		return missing(path + ".name")
	case !plainName(str(item, "name"), 64):
		return invalid("Invalid '%s.name': string does not match pattern. Expected a string that matches the pattern "+
			"'^[a-zA-Z0-9_-]+$'.", path).at("%s.name", path).coded("invalid_value")
	}
	args, ok := item["arguments"].(string)
	if !ok {
		return wrongType(item["arguments"], path+".arguments", "a string")
	}
	if slices.Contains(r.open, id) {
		return invalid("Duplicate function call with call_id %s.", id).at("input")
	}
	r.sawAssistant()
	r.open = append(r.open, id)
	r.call.inputTokens += tokensPerTool + r.call.tokens(str(item, "name")) + r.call.tokens(args)
	return nil
}

func (r *responsesReader) checkOutput(item object, path string) *apiError {
	id := str(item, "call_id")
	if id == "" {
		return missing(path + ".call_id")
	}
	at := slices.Index(r.open, id)
	if at < 0 {
		return invalid("No tool call found for function call output with call_id %s.", id).at("input")
	}
	r.open = slices.Delete(r.open, at, at+1)
	r.inAssistant = false
	r.call.sawToolResult()
	r.call.inputTokens += tokensPerTool
	_, e := r.readContent(item["output"], path+".output", []string{"input_text", "input_image"})
	return e
}

// checkReasoning verifies a reasoning item: its encrypted content, and that the item it led to follows.
func (r *responsesReader) checkReasoning(item object, i int) *apiError {
	id, token := str(item, "id"), str(item, "encrypted_content")
	if !present(item, "summary") {
		return missing(fmt.Sprintf("input[%d].summary", i))
	}
	r.sawAssistant()
	if token == "" {
		return &apiError{status: http.StatusNotFound, kind: "invalid_request_error", param: "input", message: fmt.Sprintf(
			"Item with id '%s' not found. Items are not persisted when `store` is set to false. Try again with `store` set "+
				"to true, or remove this item from your input.", id)}
	}
	proof, state := r.api.signer.verify(token, "reasoning", r.call.model.name, "")
	if state != sealGood {
		return invalid("The encrypted content %s could not be verified. Reason: Encrypted content could not be decrypted or "+
			"parsed.", shortened(token)).coded("invalid_encrypted_content")
	}
	if id != "" && proof.a != digestOf(id) {
		return invalid("The encrypted content for item %s could not be verified. Reason: Encrypted content item_id did not "+
			"match the target item id.", id).coded("invalid_encrypted_content")
	}
	r.reasoning[id] = true
	r.call.inputTokens += r.call.tokens(token)
	next := i + 1
	for next < len(r.items) && itemKind(r.items[next]) == "reasoning" {
		next++
	}
	if next == len(r.items) || followDigest(r.items[next]) != proof.b {
		return invalid("Item '%s' of type 'reasoning' was provided without its required following item.", id).at("input")
	}
	return nil
}

// followDigest identifies the item that reasoning led to by what survives a replay without ids.
func followDigest(item object) digest {
	switch kind := itemKind(item); kind {
	case "function_call":
		return digestOf(kind + "\x00" + str(item, "call_id"))
	case "message":
		return digestOf(kind + "\x00" + str(item, "role"))
	}
	return digest{}
}

func shortened(token string) string {
	if len(token) <= 8 {
		return token
	}
	return token[:4] + "..." + token[len(token)-4:]
}

// checkReasoningOf wants the reasoning that led to an item when the item is named by the id it was given.
func (r *responsesReader) checkReasoningOf(kind, id string) *apiError {
	reasoning := reasoningOf(id)
	if kind == "reasoning" || reasoning == "" || r.reasoning[reasoning] {
		return nil
	}
	return invalid("Item '%s' of type '%s' was provided without its required 'reasoning' item: '%s'.", id, kind, reasoning).
		at("input")
}

func (r *responsesReader) checkWindow() *apiError {
	window, n := r.call.model.script.Window, r.call.inputTokens
	if window == 0 {
		return nil
	}
	if n > window || r.call.model.script.WindowIncludesOutput && n+r.call.maxOutput > window {
		e := invalid("Your input exceeds the context window of this model. Please adjust your input and try again.").
			at("input").coded("context_length_exceeded")
		e.inStream = true
		return e
	}
	return nil
}
