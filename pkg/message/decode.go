package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agentloop/agentloop/pkg/internal/jsonwalk"
)

// ErrInvalid is returned when bytes are not a message in the form of docs/format/message.md.
var ErrInvalid = errors.New("invalid message")

// Decode parses one message strictly, so that nothing that was stored is lost unseen: text that is not JSON, an unknown
// role or block type, and a key that is unknown, spelled in another case, given twice or foreign to its role or type are
// ErrInvalid. null stands for an absent optional key.
func Decode(raw []byte) (Message, error) {
	var m Message
	if err := m.UnmarshalJSON(raw); err != nil {
		return Message{}, err
	}
	return m, nil
}

// UnmarshalJSON implements json.Unmarshaler as Decode does.
func (m *Message) UnmarshalJSON(raw []byte) error {
	var decoded Message
	if err := decode(raw, func() error { return decodeMessage(raw, &decoded) }); err != nil {
		return err
	}
	*m = decoded
	return nil
}

// UnmarshalJSON implements json.Unmarshaler: a JSON string or an array of blocks.
func (c *Content) UnmarshalJSON(raw []byte) error {
	var decoded Content
	if err := decode(raw, func() error { return decodeContent(raw, &decoded) }); err != nil {
		return err
	}
	*c = decoded
	return nil
}

// UnmarshalJSON implements json.Unmarshaler as strictly as Decode.
func (b *Block) UnmarshalJSON(raw []byte) error {
	var decoded Block
	if err := decode(raw, func() error { return decodeBlock(raw, &decoded) }); err != nil {
		return err
	}
	*b = decoded
	return nil
}

// UnmarshalJSON implements json.Unmarshaler as strictly as Decode. A missing description is empty and missing parameters
// are an empty object.
func (t *Tool) UnmarshalJSON(raw []byte) error {
	var decoded Tool
	if err := decode(raw, func() error { return decodeTool(raw, &decoded) }); err != nil {
		return err
	}
	*t = decoded
	return nil
}

// decode checks that raw is JSON, which the decoders below rely on, and marks their errors.
func decode(raw []byte, parse func() error) error {
	if !json.Valid(raw) {
		return fmt.Errorf("%w: not valid JSON", ErrInvalid)
	}
	if err := parse(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

func decodeMessage(raw []byte, m *Message) error {
	seen, err := decodeObject(raw, messageKeys, m)
	if err != nil {
		return err
	}
	var own kinds
	switch m.Role {
	case RoleUser:
		own = ofUser
	case RoleAssistant:
		own = ofAssistant
		if m.Content.IsText {
			return errors.New("assistant content must be a list of blocks")
		}
	case RoleToolResult:
		own = ofToolResult
	default:
		return fmt.Errorf("unknown role %.32q", m.Role)
	}
	return checkSeen(messageKeys, seen, own)
}

func decodeContent(raw []byte, c *Content) error {
	if jsonwalk.First(raw) == '"' {
		c.IsText, c.Text = true, jsonwalk.String(bytes.TrimSpace(raw))
		return nil
	}
	ok, err := jsonwalk.Array(raw, func(value []byte) error {
		c.Blocks = append(c.Blocks, Block{})
		return decodeBlock(value, &c.Blocks[len(c.Blocks)-1])
	})
	if err == nil && !ok {
		err = errors.New("content must be a string or a list of blocks")
	}
	return err
}

func decodeBlock(raw []byte, b *Block) error {
	seen, err := decodeObject(raw, blockKeys, b)
	if err != nil {
		return err
	}
	var own kinds
	switch b.Type {
	case BlockText:
		own = ofText
	case BlockThinking:
		own = ofThinking
	case BlockImage:
		own = ofImage
		if b.Ref != nil && b.Data != "" {
			return errors.New("an image has either data or ref")
		}
	case BlockToolCall:
		own = ofToolCall
		if b.Arguments == nil {
			b.Arguments = json.RawMessage("{}")
		}
	default:
		return fmt.Errorf("unknown block type %.32q", b.Type)
	}
	return checkSeen(blockKeys, seen, own)
}

func decodeTool(raw []byte, t *Tool) error {
	seen, err := decodeObject(raw, toolKeys, t)
	if err != nil {
		return err
	}
	if t.Parameters == nil {
		t.Parameters = json.RawMessage("{}")
	}
	return checkSeen(toolKeys, seen, ofTool)
}
