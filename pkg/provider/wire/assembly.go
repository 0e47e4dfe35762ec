package wire

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

// Key is the place of a block in its response, as the protocol numbers it. Blocks are put in the order of their keys.
type Key struct{ Output, Part int64 }

// Assembly builds an assistant message out of a stream's increments and reports each increment. A block exists from its
// first content on: blocks that stay empty leave no trace.
type Assembly struct {
	report     func(provider.Delta)
	responseID string
	blocks     map[Key]*assembled
}

// assembled is a block that is being built.
type assembled struct {
	number int
	key    Key
	block  message.Block
	text   strings.Builder
}

func newAssembly(report func(provider.Delta)) *Assembly {
	return &Assembly{report: report, blocks: map[Key]*assembled{}}
}

// SetResponseID notes the provider's id of the response; the first one stands.
func (a *Assembly) SetResponseID(id string) {
	if a.responseID == "" {
		a.responseID = id
	}
}

// ResponseID returns the provider's id of the response; empty until it is known.
func (a *Assembly) ResponseID() string { return a.responseID }

func (a *Assembly) at(key Key, kind message.BlockType) *assembled {
	b := a.blocks[key]
	if b == nil {
		b = &assembled{number: len(a.blocks), key: key, block: message.Block{Type: kind}}
		a.blocks[key] = b
	}
	return b
}

// Has says whether the block at key has content.
func (a *Assembly) Has(key Key) bool { return a.blocks[key] != nil }

func (a *Assembly) append(key Key, kind message.BlockType, delta provider.DeltaKind, text string) {
	if text == "" {
		return
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	b := a.at(key, kind)
	b.text.WriteString(text)
	a.report(provider.Delta{Kind: delta, Block: b.number, Text: text, ToolCallID: b.block.ID, ResponseID: a.responseID})
}

// Text appends to a text block.
func (a *Assembly) Text(key Key, text string) {
	a.append(key, message.BlockText, provider.DeltaText, text)
}

// Thinking appends to a thinking block.
func (a *Assembly) Thinking(key Key, text string) {
	a.append(key, message.BlockThinking, provider.DeltaThinking, text)
}

// CompleteText gives a text block its whole text: what has not been streamed yet is appended; a text that is no
// continuation of what was streamed replaces it. The empty text says nothing.
func (a *Assembly) CompleteText(key Key, text string) { a.complete(key, text, a.Text) }

// CompleteThinking does the same for a thinking block.
func (a *Assembly) CompleteThinking(key Key, text string) { a.complete(key, text, a.Thinking) }

func (a *Assembly) complete(key Key, text string, add func(Key, string)) {
	if text == "" {
		return
	}
	b := a.blocks[key]
	if b == nil {
		add(key, text)
		return
	}
	if rest, ok := strings.CutPrefix(text, b.text.String()); ok {
		add(key, rest)
		return
	}
	b.text.Reset()
	b.text.WriteString(strings.ToValidUTF8(text, "\uFFFD"))
}

// SignThinking appends to a thinking block's signature. Thinking may consist of its signature alone.
func (a *Assembly) SignThinking(key Key, signature string) {
	if signature != "" {
		a.at(key, message.BlockThinking).block.ThinkingSignature += signature
	}
}

// SetThinkingSignature replaces a thinking block's signature.
func (a *Assembly) SetThinkingSignature(key Key, signature string) {
	a.at(key, message.BlockThinking).block.ThinkingSignature = signature
}

// SetTextSignature replaces a text block's signature, if the block has content.
func (a *Assembly) SetTextSignature(key Key, signature string) {
	if b := a.blocks[key]; b != nil {
		b.block.TextSignature = signature
	}
}

// Redacted adds a thinking block whose content is the opaque data.
func (a *Assembly) Redacted(key Key, data string) {
	b := a.at(key, message.BlockThinking)
	b.block.Redacted, b.block.ThinkingSignature = true, data
}

// Call begins a tool call and reports it.
func (a *Assembly) Call(key Key, id, name string) {
	b := a.at(key, message.BlockToolCall)
	b.block.ID, b.block.Name = strings.ToValidUTF8(id, "\uFFFD"), strings.ToValidUTF8(name, "\uFFFD")
	a.report(provider.Delta{Kind: provider.DeltaToolCall, Block: b.number, ToolCallID: b.block.ID, ToolName: b.block.Name,
		ResponseID: a.responseID})
}

// SetCallSignature notes the provider's own id of a tool call's item.
func (a *Assembly) SetCallSignature(key Key, signature string) {
	if b := a.blocks[key]; b != nil {
		b.block.ThoughtSignature = signature
	}
}

// Arguments appends to the raw arguments of a call that has begun.
func (a *Assembly) Arguments(key Key, part string) {
	if a.Has(key) {
		a.append(key, message.BlockToolCall, provider.DeltaToolCall, part)
	}
}

// CompleteArguments gives a call its whole raw arguments, as CompleteText does for text.
func (a *Assembly) CompleteArguments(key Key, raw string) {
	if a.Has(key) {
		a.complete(key, raw, a.Arguments)
	}
}

// ArgumentsComplete says whether a call's raw arguments so far are one JSON object.
func (a *Assembly) ArgumentsComplete(key Key) bool {
	b := a.blocks[key]
	if b == nil || b.text.Len() == 0 {
		return false
	}
	_, ok := parseArguments(b.text.String())
	return ok
}

// finish returns the blocks in order. broken says that a call's raw arguments are no JSON object: that call has empty
// arguments now and must not be executed.
func (a *Assembly) finish() (blocks []message.Block, broken bool) {
	sorted := make([]*assembled, 0, len(a.blocks))
	for _, b := range a.blocks {
		sorted = append(sorted, b)
	}
	slices.SortFunc(sorted, func(x, y *assembled) int {
		switch {
		case x.key == y.key:
			return 0
		case x.key.Output < y.key.Output, x.key.Output == y.key.Output && x.key.Part < y.key.Part:
			return -1
		}
		return 1
	})
	blocks = make([]message.Block, 0, len(sorted))
	for _, b := range sorted {
		block := b.block
		switch block.Type {
		case message.BlockText:
			block.Text = b.text.String()
		case message.BlockThinking:
			block.Thinking = b.text.String()
		case message.BlockToolCall:
			arguments, ok := parseArguments(b.text.String())
			block.Arguments = arguments
			broken = broken || !ok
		}
		blocks = append(blocks, block)
	}
	return blocks, broken
}

// parseArguments returns a call's arguments as a JSON object. Nothing and null are what servers send for a call without
// arguments; anything else that is no object is not ok and becomes the empty object.
func parseArguments(raw string) (arguments json.RawMessage, ok bool) {
	raw = strings.TrimSpace(raw)
	switch {
	case raw == "", raw == "null":
		return json.RawMessage("{}"), true
	case raw[0] != '{' || !json.Valid([]byte(raw)):
		return json.RawMessage("{}"), false
	}
	return message.AppendRaw(nil, json.RawMessage(raw)), true
}
