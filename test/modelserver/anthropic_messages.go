package modelserver

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

const cannotBeModified = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. " +
	"These blocks must remain as they were in the original response."

func (r *anthropicReader) readMessages() *apiError {
	if !present(r.body, "messages") {
		return invalid("messages: Field required")
	}
	items, ok := r.body["messages"].([]any)
	if !ok {
		return invalid("messages: Input should be a valid list")
	}
	if len(items) == 0 {
		return invalid("messages: at least one message is required")
	}
	messages, roles := make([][]anthropicBlock, len(items)), make([]string, len(items))
	latest := -1
	for i, item := range items {
		message, _ := item.(object)
		roles[i] = str(message, "role")
		if roles[i] == "assistant" {
			latest = i
		}
		blocks, e := r.readMessage(message, i, i == len(items)-1)
		if e != nil {
			return e
		}
		messages[i] = blocks
	}
	if roles[0] != "user" {
		return invalid(`messages: first message must use the "user" role`)
	}
	r.prefixes(messages, roles)
	for i, blocks := range messages {
		for j := range blocks {
			if e := r.checkBlock(blocks[j], roles[i]); e != nil {
				return e
			}
		}
		if e := r.checkThinking(blocks, i, i == latest); e != nil {
			return e
		}
		r.sawMessage(roles[i], blocks)
	}
	return r.checkPrefill(roles, messages)
}

// readMessage returns the message's content as blocks.
func (r *anthropicReader) readMessage(message object, i int, last bool) ([]anthropicBlock, *apiError) {
	role := str(message, "role")
	if role != "user" && role != "assistant" {
		return nil, invalid("messages.%d.role: Input should be 'user' or 'assistant'", i)
	}
	if unknown := unknownKeys(message, []string{"role", "content"}); len(unknown) > 0 {
		return nil, invalid("messages.%d.%s: Extra inputs are not permitted", i, unknown[0])
	}
	if !present(message, "content") {
		return nil, invalid("messages.%d.content: Field required", i)
	}
	content, ok := asBlocks(message["content"]).([]any)
	if !ok {
		return nil, invalid("messages.%d.content: Input should be a valid list", i)
	}
	if len(content) == 0 && role == "user" {
		return nil, invalid("messages.%d: user messages must have non-empty content", i)
	}
	if len(content) == 0 && !last {
		return nil, invalid("messages.%d: all messages must have non-empty content except for the optional final "+
			"assistant message", i)
	}
	blocks := make([]anthropicBlock, len(content))
	for j, item := range content {
		block, ok := item.(object)
		if !ok {
			return nil, invalid("messages.%d.content.%d: Input should be an object", i, j)
		}
		blocks[j] = anthropicBlock{object: block, message: i, index: j}
	}
	return blocks, nil
}

var anthropicBlockFields = map[string][]string{
	"text":              {"type", "text", "cache_control", "citations"},
	"image":             {"type", "source", "cache_control"},
	"tool_use":          {"type", "id", "name", "input", "cache_control", "caller", "toolset_name"},
	"tool_result":       {"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"},
	"thinking":          {"type", "thinking", "signature"},
	"redacted_thinking": {"type", "data"},
}

var anthropicRoleBlocks = map[string][]string{
	"user":      {"text", "image", "tool_result"},
	"assistant": {"text", "tool_use", "thinking", "redacted_thinking"},
}

func (r *anthropicReader) checkBlock(b anthropicBlock, role string) *apiError {
	kind := str(b.object, "type")
	if anthropicBlockFields[kind] == nil {
		return invalid("%s: Input tag '%s' found using 'type' does not match any of the expected tags: %s",
			b.path(), kind, quoted(anthropicRoleBlocks[role]))
	}
	if !slices.Contains(anthropicRoleBlocks[role], kind) {
		return invalid("messages.%d: `%s` blocks can only be in `%s` messages", b.message, kind, otherRole(role))
	}
	if kind == "text" {
		r.call.inputTokens += r.call.tokens(str(b.object, "text"))
		return r.checkText(b.object, b.path(), "messages")
	}
	path := b.path() + "." + kind
	if unknown := unknownKeys(b.object, anthropicBlockFields[kind]); len(unknown) > 0 {
		return invalid("%s.%s: Extra inputs are not permitted", path, unknown[0])
	}
	if e := r.sawCacheControl(b.object, path); e != nil {
		return e
	}
	switch kind {
	case "image":
		return r.checkImage(b.object, path)
	case "tool_use":
		return r.checkToolUse(b.object, path)
	case "tool_result":
		return r.checkToolResult(b.object, path)
	}
	return nil
}

func otherRole(role string) string {
	if role == "user" {
		return "assistant"
	}
	return "user"
}

func quoted(words []string) string { return "'" + strings.Join(words, "', '") + "'" }

func (r *anthropicReader) checkImage(block object, path string) *apiError {
	r.call.inputTokens += tokensPerImage
	if !r.model.takesImages() {
		return invalid("%s: image content is not supported by this model", path)
	}
	source := obj(block, "source")
	if str(source, "type") == "url" {
		return nil
	}
	if str(source, "type") != "base64" {
		return invalid("%s.source: Input tag '%s' found using 'type' does not match any of the expected tags: 'base64', 'url'",
			path, str(source, "type"))
	}
	switch str(source, "media_type") {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
	default:
		return invalid("%s.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'",
			path)
	}
	data, err := base64.StdEncoding.DecodeString(str(source, "data"))
	if err != nil || len(data) == 0 {
		return invalid("%s.source.base64.data: invalid base64 data", path)
	}
	if limit := 5 << 20; len(data) > limit {
		return invalid("%s.source.base64: image exceeds 5 MB maximum: %d bytes > %d bytes", path, len(data), limit)
	}
	return nil
}

func (r *anthropicReader) checkToolUse(block object, path string) *apiError {
	id := str(block, "id")
	if id == "" || !plainName(id, len(id)) {
		return invalid("%s.id: String should match pattern '^[a-zA-Z0-9_-]+$'", path)
	}
	if len(id) > 64 {
		return invalid("%s.id: String should have at most 64 characters", path)
	}
	if !plainName(str(block, "name"), 200) {
		return invalid("%s.name: String should match pattern '^[a-zA-Z0-9_-]{1,200}$'", path)
	}
	if !present(block, "input") {
		return invalid("%s.input: Field required", path)
	}
	if obj(block, "input") == nil {
		return invalid("%s.input: Input should be an object", path)
	}
	r.call.inputTokens += tokensPerTool + r.call.valueTokens(str(block, "name")) + r.call.valueTokens(block["input"])
	return nil
}

func (r *anthropicReader) checkToolResult(block object, path string) *apiError {
	if str(block, "tool_use_id") == "" {
		return invalid("%s.tool_use_id: Field required", path)
	}
	r.call.inputTokens += tokensPerTool
	var content []any
	if present(block, "content") {
		var ok bool
		if content, ok = asBlocks(block["content"]).([]any); !ok {
			return invalid("%s.content: Input should be a valid string or list", path)
		}
	}
	if boolean(block, "is_error") && len(content) == 0 {
		return invalid("%s: content cannot be empty if `is_error` is true", path)
	}
	for i, item := range content {
		part, _ := item.(object)
		at := fmt.Sprintf("%s.content.%d", path, i)
		switch kind := str(part, "type"); kind {
		case "text":
			r.call.inputTokens += r.call.tokens(str(part, "text"))
			if e := r.checkText(part, at, "messages"); e != nil {
				return e
			}
		case "image":
			if boolean(block, "is_error") {
				return invalid("%s: all content must be type \"text\" if \"is_error\" is true", path)
			}
			if e := r.checkImage(part, at+".image"); e != nil {
				return e
			}
		default:
			return invalid("%s: Input tag '%s' found using 'type' does not match any of the expected tags: 'text', 'image'",
				at, kind)
		}
	}
	return nil
}

// checkThinking verifies that thinking is as it was issued, for the same prefix and, in the latest assistant message,
// among the same blocks.
func (r *anthropicReader) checkThinking(blocks []anthropicBlock, message int, latest bool) *apiError {
	if !slices.ContainsFunc(blocks, isThinking) {
		return nil
	}
	var within chain
	sealed, want := 0, 0
	var first *anthropicBlock
	for i := range blocks {
		b := &blocks[i]
		kind := str(b.object, "type")
		if !isThinking(*b) {
			within.add(kind, encode(canonical(b.object)))
			continue
		}
		text, token := str(b.object, "thinking"), str(b.object, "signature")
		if kind == "redacted_thinking" {
			token = str(b.object, "data")
		}
		if token == "" && kind == "thinking" {
			return invalid("%s.thinking.signature: Field required", b.path())
		}
		proof, state := r.api.signer.verify(token, kind, r.model.name, text)
		if state == sealAltered && latest || state == sealGood && latest && proof.b != within.sum {
			return invalid("%s: %s", b.path(), cannotBeModified)
		}
		if state != sealGood || proof.a != r.sums()[message] {
			return invalid("%s: Invalid %s in `%s` block", b.path(), sealName(kind), kind)
		}
		within.add(kind, []byte(token))
		r.call.inputTokens += r.call.tokens(text)
		sealed, want = sealed+1, int(proof.count)
		if first == nil {
			first = b
		}
	}
	if latest && sealed != want {
		return invalid("%s: %s", first.path(), cannotBeModified)
	}
	return nil
}

func isThinking(b anthropicBlock) bool {
	kind := str(b.object, "type")
	return kind == "thinking" || kind == "redacted_thinking"
}

func sealName(kind string) string {
	if kind == "redacted_thinking" {
		return "`data`"
	}
	return "`signature`"
}

// sawMessage appends the message to the turns and notes what scripts match.
func (r *anthropicReader) sawMessage(role string, blocks []anthropicBlock) {
	r.call.inputTokens += tokensPerMessage
	if n := len(r.turns); n > 0 && r.turns[n-1].role == role {
		r.turns[n-1].blocks = append(r.turns[n-1].blocks, blocks...)
	} else {
		r.turns = append(r.turns, anthropicTurn{role: role, blocks: slices.Clone(blocks)})
	}
	if role == "assistant" {
		r.call.sawAssistant()
		return
	}
	var texts []string
	for _, b := range blocks {
		switch str(b.object, "type") {
		case "text":
			texts = append(texts, str(b.object, "text"))
		case "tool_result":
			r.call.sawToolResult()
		}
	}
	r.call.sawText(strings.Join(texts, "\n"))
}

// checkPairs holds each tool call to exactly one result, at the beginning of the user turn that follows.
func (r *anthropicReader) checkPairs() *apiError {
	for i, turn := range r.turns {
		if turn.role == "user" {
			if e := checkResults(turn, r.callsBefore(i)); e != nil {
				return e
			}
			continue
		}
		if e := checkCalls(turn, r.resultsAfter(i)); e != nil {
			return e
		}
	}
	return nil
}

func (r *anthropicReader) callsBefore(i int) map[string]bool {
	calls := map[string]bool{}
	if i == 0 {
		return calls
	}
	for _, b := range r.turns[i-1].blocks {
		if str(b.object, "type") == "tool_use" {
			calls[str(b.object, "id")] = true
		}
	}
	return calls
}

// resultsAfter are the results that open the next turn: what stands behind other content does not count.
func (r *anthropicReader) resultsAfter(i int) map[string]bool {
	results := map[string]bool{}
	if i+1 >= len(r.turns) {
		return results
	}
	for _, b := range r.turns[i+1].blocks {
		if str(b.object, "type") != "tool_result" {
			break
		}
		results[str(b.object, "tool_use_id")] = true
	}
	return results
}

func checkResults(turn anthropicTurn, calls map[string]bool) *apiError {
	seen := map[string]bool{}
	for _, b := range turn.blocks {
		if str(b.object, "type") != "tool_result" {
			continue
		}
		id := str(b.object, "tool_use_id")
		if !calls[id] {
			return invalid("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must "+
				"have a corresponding `tool_use` block in the previous message.", b.path(), id)
		}
		if seen[id] {
			return invalid("%s: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s",
				b.path(), id)
		}
		seen[id] = true
	}
	return nil
}

func checkCalls(turn anthropicTurn, results map[string]bool) *apiError {
	seen := map[string]bool{}
	var missing []string
	at := 0
	for _, b := range turn.blocks {
		if str(b.object, "type") != "tool_use" {
			continue
		}
		id := str(b.object, "id")
		if seen[id] {
			return invalid("%s: `tool_use` ids must be unique", b.path())
		}
		seen[id] = true
		if !results[id] {
			missing = append(missing, id)
			at = b.message
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return invalid("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each "+
		"`tool_use` block must have a corresponding `tool_result` block in the next message.", at, strings.Join(missing, ", "))
}

// checkLead wants back the thinking that led the calls of the turn that goes on, as long as fixed thinking is on.
func (r *anthropicReader) checkLead() *apiError {
	n := len(r.turns)
	if !r.call.leadRequired || n < 2 || !r.call.hasToolResult {
		return nil
	}
	blocks := r.turns[n-2].blocks
	if isThinking(blocks[0]) {
		return nil
	}
	for _, b := range blocks {
		if str(b.object, "type") == "tool_use" && r.model.hadLead(str(b.object, "id"), str(b.object, "name")) {
			return invalid("%s.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, "+
				"a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and "+
				"`tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this "+
				"requirement, disable `thinking`.", blocks[0].path(), str(blocks[0].object, "type"))
		}
	}
	return nil
}

// checkPrefill refuses a request that ends with the assistant's words where the model cannot go on from them.
func (r *anthropicReader) checkPrefill(roles []string, messages [][]anthropicBlock) *apiError {
	last := len(roles) - 1
	if roles[last] != "assistant" {
		return nil
	}
	if r.model.script.Thinking == ThinkingAdaptive || present(r.body, "thinking") && !r.call.dropThinking {
		return invalid("This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	if n := len(messages[last]); n > 0 {
		text := str(messages[last][n-1].object, "text")
		if text != strings.TrimRight(text, " \t\r\n") {
			return invalid("messages: final assistant content cannot end with trailing whitespace")
		}
	}
	return nil
}
