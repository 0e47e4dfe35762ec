package message

import (
	"encoding/json"
	"slices"
)

// Role says who a message is from.
type Role string

// The roles of a conversation. System text is not a message: it stands in a field of its own in every request.
const (
	RoleUser       Role = "user"
	RoleAssistant  Role = "assistant"
	RoleToolResult Role = "toolResult"
)

// StopReason says why an assistant message ended.
type StopReason string

// The stop reasons that are stored. A provider's own reason that is not known maps to StopStop, or to StopToolUse
// when the message calls tools.
const (
	StopStop    StopReason = "stop"
	StopLength  StopReason = "length"
	StopToolUse StopReason = "toolUse"
	StopError   StopReason = "error"
	StopAborted StopReason = "aborted"
)

// Message is one entry of a conversation. Which fields are meaningful depends on Role; the others are zero.
type Message struct {
	Role    Role
	Content Content

	// Provider, API, Model, StopReason, Usage, ErrorMessage and Prefix belong to assistant messages.
	Provider     string
	API          string
	Model        string
	StopReason   StopReason
	Usage        *Usage
	ErrorMessage string
	// Prefix is the digest ("sha256:…") of the system prompt, tools and earlier messages that the message was
	// produced under; empty when it was not recorded.
	Prefix string

	// ToolCallID, ToolName, IsError and Details belong to tool results. Details stay local: no model sees them.
	ToolCallID string
	ToolName   string
	IsError    bool
	Details    json.RawMessage
}

// Content is either one string or a list of blocks. An assistant message always has blocks.
type Content struct {
	// IsText says that the content is the string Text; otherwise it is Blocks, which may be empty.
	IsText bool
	Text   string
	Blocks []Block
}

// Text returns string content.
func Text(s string) Content { return Content{IsText: true, Text: s} }

// Blocks returns block content.
func Blocks(blocks ...Block) Content { return Content{Blocks: blocks} }

// BlockType names the kind of a content block.
type BlockType string

// The block kinds.
const (
	BlockText     BlockType = "text"
	BlockThinking BlockType = "thinking"
	BlockImage    BlockType = "image"
	BlockToolCall BlockType = "toolCall"
)

// Block is one part of a message's content. Which fields are meaningful depends on Type.
type Block struct {
	Type BlockType

	// Text and TextSignature belong to text blocks.
	Text          string
	TextSignature string

	// Thinking, ThinkingSignature and Redacted belong to thinking blocks. The opaque data of a redacted block is its
	// ThinkingSignature. Signed thinking is replayed byte for byte or dropped whole.
	Thinking          string
	ThinkingSignature string
	Redacted          bool

	// MediaType with either Data (base64) or Ref (the body's own stored object) belongs to images. Requests and
	// test vectors hold Data, stored messages hold Ref.
	MediaType string
	Data      string
	Ref       *BlobRef

	// ID, Name, Arguments (a JSON object) and ThoughtSignature belong to tool calls.
	ID               string
	Name             string
	Arguments        json.RawMessage
	ThoughtSignature string
}

// BlobRef names the stored object that holds an image's decoded body.
type BlobRef struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// Usage holds the token counts that a provider reported for one response. A count that was not reported is nil,
// never zero. Input excludes cached tokens; Output includes Reasoning.
type Usage struct {
	Input      *int64 `json:"input,omitempty"`
	Output     *int64 `json:"output,omitempty"`
	CacheRead  *int64 `json:"cacheRead,omitempty"`
	CacheWrite *int64 `json:"cacheWrite,omitempty"`
	Reasoning  *int64 `json:"reasoning,omitempty"`
	// Cost is a decimal string in US dollars, empty when no price is known.
	Cost string `json:"cost,omitempty"`
}

// Tool is a declared tool as the model sees it. Parameters is a JSON Schema object, compact, key order kept.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// ToolCalls returns the message's tool call blocks in order; nil when there are none.
func (m Message) ToolCalls() []Block {
	var calls []Block
	for _, b := range m.Content.Blocks {
		if b.Type == BlockToolCall {
			calls = append(calls, b)
		}
	}
	return calls
}

// PlainText joins the message's text without thinking, images and calls.
func (m Message) PlainText() string {
	if m.Content.IsText {
		return m.Content.Text
	}
	var out []byte
	for _, b := range m.Content.Blocks {
		if b.Type == BlockText {
			out = append(out, b.Text...)
		}
	}
	return string(out)
}

// Clone returns a copy that shares no memory that can be written to.
func (m Message) Clone() Message {
	m.Details = slices.Clone(m.Details)
	if m.Usage != nil {
		u := *m.Usage
		for _, p := range []**int64{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &u.Reasoning} {
			if *p != nil {
				n := **p
				*p = &n
			}
		}
		m.Usage = &u
	}
	m.Content.Blocks = slices.Clone(m.Content.Blocks)
	for i := range m.Content.Blocks {
		b := &m.Content.Blocks[i]
		b.Arguments = slices.Clone(b.Arguments)
		if b.Ref != nil {
			ref := *b.Ref
			b.Ref = &ref
		}
	}
	return m
}
