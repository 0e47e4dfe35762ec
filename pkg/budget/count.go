package budget

import (
	"encoding/json"
	"math"

	"github.com/agentloop/agentloop/pkg/internal/jsonwalk"
	"github.com/agentloop/agentloop/pkg/message"
)

// Fixed costs in tokens: the envelope of a message, the overhead of the system prompt and of the tool list, an image of
// whatever size, and what surrounds the texts of a block where its JSON is not counted.
const (
	MessageOverhead = 16
	GroupOverhead   = 16
	ImageTokens     = 1200
	BlockOverhead   = 8
)

// MessageTokens is the heuristic estimate of one message: its envelope and its content. Details, usage, identity and
// stop reason cost nothing, for no model sees them.
func MessageTokens(m message.Message) int64 { return MessageTokensWith(Heuristic, m) }

// SystemTokens is the heuristic estimate of a system prompt, 0 when it is empty.
func SystemTokens(s string) int64 { return SystemTokensWith(Heuristic, s) }

// ToolTokens is the heuristic estimate of the declared tools with their schemas, 0 when there are none.
func ToolTokens(tools []message.Tool) int64 { return ToolTokensWith(Heuristic, tools) }

// SystemTokensWith is SystemTokens by another estimator.
func SystemTokensWith(e Estimator, s string) int64 {
	if s == "" {
		return 0
	}
	return add(e.Text(s), GroupOverhead)
}

// MessageTokensWith is MessageTokens by another estimator. Each text is rounded by itself: string content is one text, and
// a tool result with blocks has its name and call id as two more. For the heuristic a block is one text, its JSON. Any
// other estimator counts the texts of a block as the model gets them, and BlockOverhead for what surrounds them, for the
// escapes of JSON are not what its tokens are like.
func MessageTokensWith(e Estimator, m message.Message) int64 {
	if m.Content.IsText {
		return add(MessageOverhead, e.Text(m.Content.Text))
	}
	total := int64(MessageOverhead)
	if m.Role == message.RoleToolResult {
		total = add(total, add(e.Text(m.ToolName), e.Text(m.ToolCallID)))
	}
	_, heuristic := e.(heuristic)
	for i := range m.Content.Blocks {
		b := &m.Content.Blocks[i]
		switch {
		case b.Type == message.BlockImage:
			total = add(total, ImageTokens)
		case heuristic:
			total = add(total, roundUp(blockQuarters(b)))
		default:
			total = add(total, blockTokens(e, b))
		}
	}
	return total
}

// blockTokens is the estimate of a block's own texts.
func blockTokens(e Estimator, b *message.Block) int64 {
	var texts [4]string
	switch b.Type {
	case message.BlockText:
		texts = [4]string{b.Text, b.TextSignature}
	case message.BlockThinking:
		texts = [4]string{b.Thinking, b.ThinkingSignature}
	case message.BlockToolCall:
		texts = [4]string{b.ID, b.Name, textOf(b.Arguments), b.ThoughtSignature}
	}
	total := int64(BlockOverhead)
	for _, text := range texts {
		if text != "" {
			total = add(total, e.Text(text))
		}
	}
	return total
}

// ToolTokensWith is ToolTokens by another estimator. The text is the JSON array of {name, description, parameters}.
func ToolTokensWith(e Estimator, tools []message.Tool) int64 {
	if len(tools) == 0 {
		return 0
	}
	if _, heuristic := e.(heuristic); heuristic {
		return add(roundUp(toolQuarters(tools)), GroupOverhead)
	}
	buf := []byte{'['}
	for i := range tools {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = tools[i].AppendJSON(buf)
	}
	return add(e.Text(string(append(buf, ']'))), GroupOverhead)
}

// blockQuarters is quarters(JSON of the block) without the JSON: it follows message.Block.AppendJSON key by key, and a
// test holds the two together.
func blockQuarters(b *message.Block) int64 {
	total := int64(len(`{"type":}`)) + stringQuarters(string(b.Type))
	switch b.Type {
	case message.BlockText:
		total += field("text", b.Text) + optional("textSignature", b.TextSignature)
	case message.BlockThinking:
		total += field("thinking", b.Thinking) + optional("thinkingSignature", b.ThinkingSignature)
		if b.Redacted {
			total += int64(len(`,"redacted":true`))
		}
	case message.BlockToolCall:
		total += field("id", b.ID) + field("name", b.Name) + optional("thoughtSignature", b.ThoughtSignature)
		total += int64(len(`,"arguments":`)) + argumentQuarters(b.Arguments)
	}
	return total
}

func toolQuarters(tools []message.Tool) int64 {
	total := int64(len(`[]`) + len(tools) - 1)
	for i := range tools {
		t := &tools[i]
		total += int64(len(`{"name":,"parameters":}`)) + stringQuarters(t.Name) +
			field("description", t.Description) + rawQuarters(t.Parameters)
	}
	return total
}

func field(key, value string) int64 { return int64(len(`,"":`)+len(key)) + stringQuarters(value) }

func optional(key, value string) int64 {
	if value == "" {
		return 0
	}
	return field(key, value)
}

// argumentQuarters follows the arguments of message.Block.AppendJSON: a JSON object, or what stands for anything else.
func argumentQuarters(raw json.RawMessage) int64 {
	if len(raw) == 0 {
		return int64(len(`{}`))
	}
	text := textOf(raw)
	if json.Valid(raw) && jsonwalk.First(raw) == '{' {
		return compactQuarters(text)
	}
	return int64(len(`{"":}`)+len(message.InvalidArgumentsKey)) + stringQuarters(text)
}

// add returns a+b, or the largest int64 when that is out of range. Both are counts; an estimator's negative answer is
// refused later, when the sums are checked.
func add(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
