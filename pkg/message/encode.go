package message

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// AppendJSON appends the canonical JSON of m to dst. Keys stand in the order that docs/format/message.md gives.
func (m Message) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"role":`...)
	dst = AppendString(dst, string(m.Role))
	if m.Role == RoleToolResult {
		dst = appendField(dst, "toolCallId", m.ToolCallID)
		dst = appendField(dst, "toolName", m.ToolName)
	}
	dst = append(dst, `,"content":`...)
	dst = m.Content.AppendJSON(dst)
	switch m.Role {
	case RoleAssistant:
		dst = m.appendAssistant(dst)
	case RoleToolResult:
		dst = append(dst, `,"isError":`...)
		dst = appendBool(dst, m.IsError)
		if len(m.Details) > 0 {
			dst = append(dst, `,"details":`...)
			dst = AppendRaw(dst, m.Details)
		}
	}
	return append(dst, '}')
}

func (m Message) appendAssistant(dst []byte) []byte {
	dst = appendField(dst, "provider", m.Provider)
	dst = appendField(dst, "api", m.API)
	dst = appendField(dst, "model", m.Model)
	dst = appendField(dst, "stopReason", string(m.StopReason))
	if m.Usage != nil {
		dst = append(dst, `,"usage":`...)
		raw, _ := json.Marshal(m.Usage) // holds integers and one decimal string: cannot fail
		dst = append(dst, raw...)
	}
	dst = appendOptional(dst, "errorMessage", m.ErrorMessage)
	return appendOptional(dst, "prefix", m.Prefix)
}

// AppendJSON appends the content's JSON: a string or an array of blocks.
func (c Content) AppendJSON(dst []byte) []byte {
	if c.IsText {
		return AppendString(dst, c.Text)
	}
	dst = append(dst, '[')
	for i := range c.Blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = c.Blocks[i].AppendJSON(dst)
	}
	return append(dst, ']')
}

// AppendJSON appends the block's canonical JSON.
func (b Block) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"type":`...)
	dst = AppendString(dst, string(b.Type))
	switch b.Type {
	case BlockText:
		dst = appendField(dst, "text", b.Text)
		dst = appendOptional(dst, "textSignature", b.TextSignature)
	case BlockThinking:
		dst = appendField(dst, "thinking", b.Thinking)
		dst = appendOptional(dst, "thinkingSignature", b.ThinkingSignature)
		if b.Redacted {
			dst = append(dst, `,"redacted":true`...)
		}
	case BlockImage:
		dst = appendField(dst, "mediaType", b.MediaType)
		if b.Ref != nil {
			dst = append(dst, `,"ref":`...)
			raw, _ := json.Marshal(b.Ref) // a string and an integer: cannot fail
			dst = append(dst, raw...)
		} else {
			dst = appendField(dst, "data", b.Data)
		}
	case BlockToolCall:
		dst = appendField(dst, "id", b.ID)
		dst = appendField(dst, "name", b.Name)
		dst = append(dst, `,"arguments":`...)
		dst = AppendRaw(dst, b.Arguments)
		dst = appendOptional(dst, "thoughtSignature", b.ThoughtSignature)
	}
	return append(dst, '}')
}

// AppendJSON appends the tool as {name, description, parameters}.
func (t Tool) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"name":`...)
	dst = AppendString(dst, t.Name)
	dst = appendField(dst, "description", t.Description)
	dst = append(dst, `,"parameters":`...)
	return append(AppendRaw(dst, t.Parameters), '}')
}

// Encode returns the canonical JSON of m: the bytes that are stored and hashed.
func Encode(m Message) []byte { return m.AppendJSON(nil) }

// MarshalJSON implements json.Marshaler with the canonical form.
func (m Message) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// MarshalJSON implements json.Marshaler with the canonical form.
func (b Block) MarshalJSON() ([]byte, error) { return b.AppendJSON(nil), nil }

// MarshalJSON implements json.Marshaler with the canonical form.
func (c Content) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }

// AppendRaw appends raw compacted, key order and numbers untouched; empty raw is written as an empty object.
func AppendRaw(dst []byte, raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return append(dst, '{', '}')
	}
	buf := bytes.NewBuffer(dst)
	if err := json.Compact(buf, raw); err != nil {
		return AppendString(dst, string(raw))
	}
	return buf.Bytes()
}

func appendField(dst []byte, key, value string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, key...)
	dst = append(dst, '"', ':')
	return AppendString(dst, value)
}

func appendOptional(dst []byte, key, value string) []byte {
	if value == "" {
		return dst
	}
	return appendField(dst, key, value)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, "true"...)
	}
	return append(dst, "false"...)
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Only what JSON requires is escaped; invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, c)
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}
