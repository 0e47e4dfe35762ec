package message

import (
	"bytes"
	"encoding/json"
	"math/bits"
	"strconv"
	"unicode/utf8"

	"github.com/agentloop/agentloop/pkg/internal/jsonwalk"
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
		if details := bytes.TrimSpace(m.Details); len(details) > 0 && string(details) != "null" {
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
		dst = m.Usage.appendJSON(dst)
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
			dst = b.Ref.appendJSON(dst)
		} else {
			dst = appendField(dst, "data", b.Data)
		}
	case BlockToolCall:
		dst = appendField(dst, "id", b.ID)
		dst = appendField(dst, "name", b.Name)
		dst = append(dst, `,"arguments":`...)
		dst = appendArguments(dst, b.Arguments)
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

func (u *Usage) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	empty := len(dst)
	for _, count := range []struct {
		key string
		n   *int64
	}{{"input", u.Input}, {"output", u.Output}, {"cacheRead", u.CacheRead}, {"cacheWrite", u.CacheWrite},
		{"reasoning", u.Reasoning}} {
		if count.n == nil {
			continue
		}
		if len(dst) > empty {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), count.key...), '"', ':')
		dst = strconv.AppendInt(dst, *count.n, 10)
	}
	if u.Cost != "" {
		if len(dst) > empty {
			dst = append(dst, ',')
		}
		dst = AppendString(append(dst, `"cost":`...), u.Cost)
	}
	return append(dst, '}')
}

func (r *BlobRef) appendJSON(dst []byte) []byte {
	dst = AppendString(append(dst, `{"digest":`...), r.Digest)
	dst = append(dst, `,"size":`...)
	return append(strconv.AppendInt(dst, r.Size, 10), '}')
}

// Encode returns the canonical JSON of m: the bytes that are stored and hashed.
func Encode(m Message) []byte { return m.AppendJSON(nil) }

// MarshalJSON implements json.Marshaler. json.Marshal itself then escapes <, > and & in the result: for the canonical
// bytes use Encode or AppendJSON.
func (m Message) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// MarshalJSON implements json.Marshaler; see Message.MarshalJSON.
func (b Block) MarshalJSON() ([]byte, error) { return b.AppendJSON(nil), nil }

// MarshalJSON implements json.Marshaler; see Message.MarshalJSON.
func (c Content) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }

// MarshalJSON implements json.Marshaler; see Message.MarshalJSON.
func (t Tool) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil), nil }

// AppendRaw appends raw compacted: key order, numbers and escapes as they are, invalid UTF-8 as U+FFFD. Empty raw is
// written as an empty object, and what is not JSON as a string of its text.
func AppendRaw(dst []byte, raw json.RawMessage) []byte {
	switch {
	case len(raw) == 0:
		return append(dst, '{', '}')
	case !json.Valid(raw):
		return AppendString(dst, string(raw))
	}
	return jsonwalk.AppendCompact(dst, raw)
}

// InvalidArgumentsKey is the only key of the object that is written for tool arguments which are not a JSON object: its
// value is their text. Models do produce such arguments, above all when their output was cut, and a message that was
// stored must be readable again.
const InvalidArgumentsKey = "invalidArguments"

// appendArguments appends the arguments of a tool call, always a JSON object.
func appendArguments(dst []byte, raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return append(dst, '{', '}')
	}
	if json.Valid(raw) && jsonwalk.First(raw) == '{' { // not by AppendRaw: it would validate once more
		return jsonwalk.AppendCompact(dst, raw)
	}
	dst = append(append(append(dst, '{', '"'), InvalidArgumentsKey...), '"', ':')
	return append(AppendString(dst, string(raw)), '}')
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
			i += plainPrefix(s[i:])
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

// plainPrefix returns how many bytes of s, up to eight, are written as they are; the first one is. It looks at them as one
// word, for most of what is encoded is long plain text.
func plainPrefix(s string) int {
	if len(s) < 8 {
		return 1
	}
	const ones, high = 0x0101010101010101, 0x8080808080808080
	w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	// Each difference sets the top bit of the bytes that are below a space, a quote or a backslash; w itself has it where
	// a byte is not ASCII. Borrows only reach later bytes, so the first mark is right.
	marks := (w | (w - 0x20*ones) | ((w ^ '"'*ones) - ones) | ((w ^ '\\'*ones) - ones)) & high
	return bits.TrailingZeros64(marks) / 8 // 8 when there is no mark
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
