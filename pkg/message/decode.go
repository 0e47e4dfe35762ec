package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrInvalid is returned when bytes are not a message in the form of docs/format/message.md.
var ErrInvalid = errors.New("invalid message")

// wireMessage has every key that a stored message may have; unknown keys are refused.
type wireMessage struct {
	Role         Role            `json:"role"`
	ToolCallID   *string         `json:"toolCallId"`
	ToolName     *string         `json:"toolName"`
	Content      *Content        `json:"content"`
	Provider     string          `json:"provider"`
	API          string          `json:"api"`
	Model        string          `json:"model"`
	StopReason   StopReason      `json:"stopReason"`
	Usage        *Usage          `json:"usage"`
	ErrorMessage string          `json:"errorMessage"`
	Prefix       string          `json:"prefix"`
	IsError      bool            `json:"isError"`
	Details      json.RawMessage `json:"details"`
}

type wireBlock struct {
	Type              BlockType       `json:"type"`
	Text              string          `json:"text"`
	TextSignature     string          `json:"textSignature"`
	Thinking          string          `json:"thinking"`
	ThinkingSignature string          `json:"thinkingSignature"`
	Redacted          bool            `json:"redacted"`
	MediaType         string          `json:"mediaType"`
	Data              string          `json:"data"`
	Ref               *BlobRef        `json:"ref"`
	ID                string          `json:"id"`
	Name              string          `json:"name"`
	Arguments         json.RawMessage `json:"arguments"`
	ThoughtSignature  string          `json:"thoughtSignature"`
}

// Decode parses one message. Unknown keys, unknown roles or block types and trailing bytes are ErrInvalid.
func Decode(raw []byte) (Message, error) {
	var m Message
	if err := strict(raw, &m); err != nil {
		return Message{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return m, nil
}

func strict(raw []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("bytes after the value")
	}
	return nil
}

// UnmarshalJSON implements json.Unmarshaler strictly, as Decode does.
func (m *Message) UnmarshalJSON(raw []byte) error {
	var w wireMessage
	if err := strict(raw, &w); err != nil {
		return err
	}
	if w.Content == nil {
		return errors.New("content is missing")
	}
	*m = Message{Role: w.Role, Content: *w.Content}
	switch w.Role {
	case RoleUser:
		return nil
	case RoleAssistant:
		if w.Content.IsText {
			return errors.New("assistant content must be a list of blocks")
		}
		m.Provider, m.API, m.Model, m.StopReason = w.Provider, w.API, w.Model, w.StopReason
		m.Usage, m.ErrorMessage, m.Prefix = w.Usage, w.ErrorMessage, w.Prefix
		return nil
	case RoleToolResult:
		if w.ToolCallID == nil || w.ToolName == nil {
			return errors.New("a tool result needs toolCallId and toolName")
		}
		m.ToolCallID, m.ToolName, m.IsError = *w.ToolCallID, *w.ToolName, w.IsError
		if len(w.Details) > 0 && !bytes.Equal(w.Details, []byte("null")) {
			m.Details = AppendRaw(nil, w.Details)
		}
		return nil
	}
	return fmt.Errorf("unknown role %q", w.Role)
}

// UnmarshalJSON implements json.Unmarshaler: a JSON string or an array of blocks.
func (c *Content) UnmarshalJSON(raw []byte) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] == '"' {
		c.IsText, c.Blocks = true, nil
		return json.Unmarshal(raw, &c.Text)
	}
	*c = Content{}
	return strict(raw, &c.Blocks)
}

// UnmarshalJSON implements json.Unmarshaler strictly.
func (b *Block) UnmarshalJSON(raw []byte) error {
	var w wireBlock
	if err := strict(raw, &w); err != nil {
		return err
	}
	*b = Block(w)
	switch w.Type {
	case BlockText, BlockThinking, BlockImage:
		b.Arguments = nil
		return nil
	case BlockToolCall:
		args := bytes.TrimSpace(w.Arguments)
		if len(args) == 0 {
			args = []byte("{}")
		}
		if args[0] != '{' {
			return errors.New("tool call arguments must be a JSON object")
		}
		b.Arguments = AppendRaw(nil, args)
		return nil
	}
	return fmt.Errorf("unknown block type %q", w.Type)
}
