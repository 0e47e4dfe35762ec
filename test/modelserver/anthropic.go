package modelserver

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// anthropicAPI is the Messages API, or its token counting.
type anthropicAPI struct {
	signer   signer
	counting bool
}

var anthropicFields = []string{
	"model", "messages", "max_tokens", "system", "metadata", "stop_sequences", "stream", "temperature", "top_p", "top_k",
	"tools", "tool_choice", "thinking", "service_tier", "container", "output_config", "cache_control", "diagnostics",
	"inference_geo", "speed",
}

var anthropicCountFields = []string{
	"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control", "speed",
}

func (p anthropicAPI) refusal(why refusal, detail string) *apiError {
	switch why {
	case refuseJSON:
		return invalid("The request body is not valid JSON: %s", detail)
	case refuseNoModel:
		return invalid("model: Field required")
	case refuseModel:
		return &apiError{status: http.StatusNotFound, kind: "not_found_error", message: "model: " + detail}
	case refuseNoKey:
		return &apiError{status: http.StatusUnauthorized, kind: "authentication_error",
			message: "x-api-key header is required"}
	case refuseKey:
		return standard(anthropicFaults, "401")
	case refuseSize:
		return standard(anthropicFaults, "413")
	}
	return standard(anthropicFaults, detail)
}

func (p anthropicAPI) errorBody(e *apiError, requestID string) []byte {
	return e.anthropicBody(requestID)
}

// read checks a Messages request.
func (p anthropicAPI) read(h http.Header, body object, m *model) (*call, *apiError) {
	if h.Get("Anthropic-Version") == "" {
		return nil, invalid("anthropic-version: header is required")
	}
	known := anthropicFields
	if p.counting {
		known = anthropicCountFields
	}
	if unknown := unknownKeys(body, known, m.script.AllowFields); len(unknown) > 0 {
		return nil, invalid("%s: Extra inputs are not permitted", unknown[0])
	}
	r := &anthropicReader{api: p, body: body, model: m, call: newCall(m)}
	r.call.stream = boolean(body, "stream")
	for _, step := range []func() *apiError{
		r.readLimits, r.readThinking, r.readSampling, r.readSystem, r.readTools, r.readMessages, r.checkPairs, r.checkLead,
		r.checkCacheControl, r.checkWindow,
	} {
		if e := step(); e != nil {
			return r.call, e
		}
	}
	return r.call, nil
}

// anthropicReader is one request being checked.
type anthropicReader struct {
	api    anthropicAPI
	body   object
	model  *model
	call   *call
	turns  []anthropicTurn
	caches int // cache_control markers seen
	sums   func() []digest
}

// anthropicTurn is a run of messages of one role, which the API reads as one.
type anthropicTurn struct {
	role   string
	blocks []anthropicBlock
}

// anthropicBlock is a content block with its place in the request.
type anthropicBlock struct {
	object
	message, index int
}

func (b anthropicBlock) path() string {
	return fmt.Sprintf("messages.%d.content.%d", b.message, b.index)
}

func (r *anthropicReader) readLimits() *apiError {
	if r.api.counting {
		return nil
	}
	if !present(r.body, "max_tokens") {
		return invalid("max_tokens: Field required")
	}
	n, ok := integer(r.body, "max_tokens")
	if !ok {
		return invalid("max_tokens: Input should be a valid integer")
	}
	if n < 1 {
		return invalid("max_tokens: Input should be greater than or equal to 1")
	}
	if limit := r.model.script.MaxTokens; limit > 0 && n > limit {
		return invalid("max_tokens: %d > %d, which is the maximum allowed number of output tokens for %s",
			n, limit, r.model.name)
	}
	r.call.maxOutput = n
	return nil
}

func (r *anthropicReader) readThinking() *apiError {
	if !present(r.body, "thinking") {
		return nil
	}
	config, mode := obj(r.body, "thinking"), r.model.script.Thinking
	kind := str(config, "type")
	switch kind {
	case "disabled":
		r.call.dropThinking = true
		return nil
	case "enabled", "adaptive", "between_tools":
	default:
		return invalid("thinking: Input tag '%s' found using 'type' does not match any of the expected tags: "+
			"'adaptive', 'between_tools', 'disabled', 'enabled'", kind)
	}
	if mode == ThinkingNone {
		return invalid("thinking is not supported for this model")
	}
	r.call.hideThinking = str(config, "display") == "omitted"
	if kind != "enabled" {
		if mode == ThinkingFixed {
			return invalid("%s thinking is not supported on this model", kind)
		}
		return nil
	}
	if mode == ThinkingAdaptive {
		return invalid(`"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and ` +
			`"output_config.effort" to control thinking behavior.`)
	}
	r.call.leadRequired = true
	return r.checkBudget(config)
}

func (r *anthropicReader) checkBudget(config object) *apiError {
	if !present(config, "budget_tokens") {
		return invalid("thinking.enabled.budget_tokens: Field required")
	}
	budget, ok := integer(config, "budget_tokens")
	if !ok {
		return invalid("thinking.enabled.budget_tokens: Input should be a valid integer")
	}
	if budget < 1024 {
		return invalid("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
	}
	if !r.api.counting && budget >= r.call.maxOutput {
		return invalid("`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at " +
			"https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size")
	}
	return nil
}

func (r *anthropicReader) readSampling() *apiError {
	thinking := present(r.body, "thinking") && !r.call.dropThinking
	if v, is := r.body["temperature"]; is && v != nil {
		t, ok := number(r.body, "temperature")
		if !ok {
			return invalid("temperature: Input should be a valid number")
		}
		if t < 0 || t > 1 {
			return invalid("temperature: range: 0..1")
		}
		if thinking && t != 1 {
			return invalid("`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.")
		}
	}
	if thinking && present(r.body, "top_k") {
		return invalid("`top_k` must be unset when thinking is enabled or in adaptive mode.")
	}
	if effort := str(obj(r.body, "output_config"), "effort"); effort != "" {
		switch effort {
		case "low", "medium", "high", "xhigh", "max":
		default:
			return invalid("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
		}
	}
	if !present(r.body, "tool_choice") {
		return nil
	}
	if len(list(r.body, "tools")) == 0 {
		return invalid("tool_choice may only be specified while providing tools.")
	}
	if kind := str(obj(r.body, "tool_choice"), "type"); thinking && (kind == "any" || kind == "tool") {
		return invalid("Thinking may not be enabled when tool_choice forces tool use.")
	}
	return nil
}

func (r *anthropicReader) readSystem() *apiError {
	switch system := r.body["system"].(type) {
	case nil:
	case string:
		r.call.system = system
	case []any:
		var texts []string
		for i, item := range system {
			block, _ := item.(object)
			if str(block, "type") != "text" {
				return invalid("system.%d.type: Input should be 'text'", i)
			}
			if e := r.checkText(block, fmt.Sprintf("system.%d", i), "system"); e != nil {
				return e
			}
			texts = append(texts, str(block, "text"))
		}
		r.call.system = strings.Join(texts, "\n")
	default:
		return invalid("system: Input should be a valid string or list")
	}
	if r.call.system != "" {
		r.call.inputTokens += r.call.tokens(r.call.system) + tokensPerMessage
	}
	return nil
}

// checkText checks a text block that stands at path in the list named by where.
func (r *anthropicReader) checkText(block object, path, where string) *apiError {
	if unknown := unknownKeys(block, []string{"type", "text", "cache_control", "citations"}); len(unknown) > 0 {
		return invalid("%s.text.%s: Extra inputs are not permitted", path, unknown[0])
	}
	text, ok := block["text"].(string)
	if !ok {
		return invalid("%s.text.text: Field required", path)
	}
	if text == "" && present(block, "cache_control") {
		return invalid("%s.text: cache_control cannot be set for empty text blocks", path)
	}
	if text == "" {
		return invalid("%s: text content blocks must be non-empty", where)
	}
	if strings.TrimSpace(text) == "" {
		return invalid("%s: text content blocks must contain non-whitespace text", where)
	}
	return r.sawCacheControl(block, path+".text")
}

func (r *anthropicReader) sawCacheControl(block object, path string) *apiError {
	if !present(block, "cache_control") {
		return nil
	}
	if str(obj(block, "cache_control"), "type") != "ephemeral" {
		return invalid("%s.cache_control.type: Input should be 'ephemeral'", path)
	}
	r.caches++
	return nil
}

func (r *anthropicReader) checkCacheControl() *apiError {
	if r.caches > 4 {
		return invalid("A maximum of 4 blocks with cache_control may be provided. Found %d.", r.caches)
	}
	return nil
}

func (r *anthropicReader) readTools() *apiError {
	if present(r.body, "tools") && list(r.body, "tools") == nil {
		return invalid("tools: Input should be a valid list")
	}
	names := map[string]bool{}
	for i, item := range list(r.body, "tools") {
		tool, _ := item.(object)
		path := fmt.Sprintf("tools.%d.custom", i)
		if kind := str(tool, "type"); kind != "" && kind != "custom" {
			return invalid("tools.%d: tool type '%s' is not supported for this model", i, kind)
		}
		if unknown := unknownKeys(tool, anthropicToolFields); len(unknown) > 0 {
			return invalid("%s.%s: Extra inputs are not permitted", path, unknown[0])
		}
		name := str(tool, "name")
		if !plainName(name, 128) {
			return invalid("%s.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", path)
		}
		if names[name] {
			return invalid("tools: Tool names must be unique.")
		}
		names[name] = true
		schema := obj(tool, "input_schema")
		if schema == nil {
			return invalid("%s.input_schema: Field required", path)
		}
		if !present(schema, "type") {
			return invalid("%s.input_schema.type: Field required", path)
		}
		if str(schema, "type") != "object" {
			return invalid("%s.input_schema.type: Input should be 'object'", path)
		}
		if e := r.sawCacheControl(tool, path); e != nil {
			return e
		}
		r.call.inputTokens += tokensPerTool + r.call.valueTokens(name) + r.call.valueTokens(str(tool, "description")) + r.call.valueTokens(schema)
	}
	return nil
}

var anthropicToolFields = []string{
	"type", "name", "description", "input_schema", "cache_control", "strict", "eager_input_streaming", "defer_loading",
	"allowed_callers", "input_examples",
}

// plainName says that a name has only the characters that every provider takes, and at most limit of them.
func plainName(name string, limit int) bool {
	if name == "" || len(name) > limit {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !isLetter(c) && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

func (r *anthropicReader) checkWindow() *apiError {
	window := r.model.script.Window
	if window == 0 || r.api.counting {
		return nil
	}
	if n := r.call.inputTokens; n > window {
		return invalid("prompt is too long: %d tokens > %d maximum", n, window)
	}
	if r.model.script.WindowIncludesOutput && r.call.inputTokens+r.call.maxOutput > window {
		return invalid("input length and `max_tokens` exceed context limit: %d + %d > %d, decrease input length or "+
			"`max_tokens` and try again", r.call.inputTokens, r.call.maxOutput, window)
	}
	return nil
}

// prefixes computes, on first use, the digest of everything before each message and before the answer.
func (r *anthropicReader) prefixes(messages [][]anthropicBlock, roles []string) {
	r.sums = sync.OnceValue(func() []digest {
		var c chain
		c.add("system", []byte(r.call.system))
		for _, tool := range list(r.body, "tools") {
			c.add("tool", encode(canonical(tool)))
		}
		sums := []digest{c.sum}
		for i, blocks := range messages {
			for _, b := range blocks {
				if !isThinking(b) {
					c.add(roles[i], encode(canonical(b.object)))
				}
			}
			sums = append(sums, c.sum)
		}
		return sums
	})
	r.call.prefix = func() digest { sums := r.sums(); return sums[len(sums)-1] }
}

// canonical removes what may differ between two requests that say the same: cache markers, and string content in place
// of one text block.
func canonical(v any) any {
	switch v := v.(type) {
	case object:
		out := make(object, len(v))
		for key, value := range v {
			switch {
			case key == "cache_control" || key == "caller" || value == nil || value == false:
			case key == "content":
				out[key] = canonical(asBlocks(value))
			case key == "input" || key == "input_schema":
				out[key] = value
			default:
				out[key] = canonical(value)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = canonical(item)
		}
		return out
	}
	return v
}

func asBlocks(content any) any {
	text, ok := content.(string)
	if !ok {
		return content
	}
	if text == "" {
		return []any{}
	}
	return []any{object{"type": "text", "text": text}}
}
