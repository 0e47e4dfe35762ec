package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/agentloop/agentloop/pkg/internal/jsonwalk"
)

// kinds is a set of roles or block types.
type kinds uint8

const (
	ofUser kinds = 1 << iota
	ofAssistant
	ofToolResult
	ofAnyRole = ofUser | ofAssistant | ofToolResult
)

const (
	ofText kinds = 1 << iota
	ofThinking
	ofImage
	ofToolCall
	ofAnyType = ofText | ofThinking | ofImage | ofToolCall
)

// ofTool, ofUsage and ofRef are the only kind of their own tables.
const (
	ofTool  kinds = 1
	ofUsage kinds = 1
	ofRef   kinds = 1
)

// key is one key of an object: the kinds that may have it, those that must have it, and how its value is read. null is
// never handed to set.
type key[T any] struct {
	name      string
	may, must kinds
	set       func(into *T, value []byte) error
}

// into makes a key's set from a reader of its value's type and the field that takes it.
func into[T, F any](read func([]byte, *F) error, field func(*T) *F) func(*T, []byte) error {
	return func(t *T, value []byte) error { return read(value, field(t)) }
}

var messageKeys = []key[Message]{
	{"role", ofAnyRole, ofAnyRole, into(readString, func(m *Message) *string { return (*string)(&m.Role) })},
	{"toolCallId", ofToolResult, ofToolResult, into(readString, func(m *Message) *string { return &m.ToolCallID })},
	{"toolName", ofToolResult, ofToolResult, into(readString, func(m *Message) *string { return &m.ToolName })},
	{"content", ofAnyRole, ofAnyRole, into(decodeContent, func(m *Message) *Content { return &m.Content })},
	{"provider", ofAssistant, 0, into(readString, func(m *Message) *string { return &m.Provider })},
	{"api", ofAssistant, 0, into(readString, func(m *Message) *string { return &m.API })},
	{"model", ofAssistant, 0, into(readString, func(m *Message) *string { return &m.Model })},
	{"stopReason", ofAssistant, 0, into(readString, func(m *Message) *string { return (*string)(&m.StopReason) })},
	{"usage", ofAssistant, 0, into(readUsage, func(m *Message) **Usage { return &m.Usage })},
	{"errorMessage", ofAssistant, 0, into(readString, func(m *Message) *string { return &m.ErrorMessage })},
	{"prefix", ofAssistant, 0, into(readString, func(m *Message) *string { return &m.Prefix })},
	{"isError", ofToolResult, 0, into(readBool, func(m *Message) *bool { return &m.IsError })},
	{"details", ofToolResult, 0, into(readAny, func(m *Message) *json.RawMessage { return &m.Details })},
}

var blockKeys = []key[Block]{
	{"type", ofAnyType, ofAnyType, into(readString, func(b *Block) *string { return (*string)(&b.Type) })},
	{"text", ofText, 0, into(readString, func(b *Block) *string { return &b.Text })},
	{"textSignature", ofText, 0, into(readString, func(b *Block) *string { return &b.TextSignature })},
	{"thinking", ofThinking, 0, into(readString, func(b *Block) *string { return &b.Thinking })},
	{"thinkingSignature", ofThinking, 0, into(readString, func(b *Block) *string { return &b.ThinkingSignature })},
	{"redacted", ofThinking, 0, into(readBool, func(b *Block) *bool { return &b.Redacted })},
	{"mediaType", ofImage, 0, into(readString, func(b *Block) *string { return &b.MediaType })},
	{"data", ofImage, 0, into(readString, func(b *Block) *string { return &b.Data })},
	{"ref", ofImage, 0, into(readRef, func(b *Block) **BlobRef { return &b.Ref })},
	{"id", ofToolCall, 0, into(readString, func(b *Block) *string { return &b.ID })},
	{"name", ofToolCall, 0, into(readString, func(b *Block) *string { return &b.Name })},
	{"arguments", ofToolCall, 0, into(readObject, func(b *Block) *json.RawMessage { return &b.Arguments })},
	{"thoughtSignature", ofToolCall, 0, into(readString, func(b *Block) *string { return &b.ThoughtSignature })},
}

var toolKeys = []key[Tool]{
	{"name", ofTool, ofTool, into(readString, func(t *Tool) *string { return &t.Name })},
	{"description", ofTool, 0, into(readString, func(t *Tool) *string { return &t.Description })},
	{"parameters", ofTool, 0, into(readObject, func(t *Tool) *json.RawMessage { return &t.Parameters })},
}

var usageKeys = []key[Usage]{
	{"input", ofUsage, 0, into(readCount, func(u *Usage) **int64 { return &u.Input })},
	{"output", ofUsage, 0, into(readCount, func(u *Usage) **int64 { return &u.Output })},
	{"cacheRead", ofUsage, 0, into(readCount, func(u *Usage) **int64 { return &u.CacheRead })},
	{"cacheWrite", ofUsage, 0, into(readCount, func(u *Usage) **int64 { return &u.CacheWrite })},
	{"reasoning", ofUsage, 0, into(readCount, func(u *Usage) **int64 { return &u.Reasoning })},
	{"cost", ofUsage, 0, into(readString, func(u *Usage) *string { return &u.Cost })},
}

var refKeys = []key[BlobRef]{
	{"digest", ofRef, ofRef, into(readString, func(r *BlobRef) *string { return &r.Digest })},
	{"size", ofRef, ofRef, into(readSize, func(r *BlobRef) *int64 { return &r.Size })},
}

// decodeObject reads a JSON object by its table and returns which of the table's keys it has, one bit each.
func decodeObject[T any](raw []byte, table []key[T], into *T) (seen uint32, err error) {
	var given uint32 // with null or a value
	ok, err := jsonwalk.Object(raw, func(name, value []byte) error {
		i := indexOf(table, name)
		if i < 0 {
			return fmt.Errorf("unknown key %.40q", name)
		}
		if given&(1<<i) != 0 {
			return fmt.Errorf("key %q is given twice", table[i].name)
		}
		given |= 1 << i
		if value[0] == 'n' { // null
			return nil
		}
		seen |= 1 << i
		if err := table[i].set(into, value); err != nil {
			return fmt.Errorf("%s: %w", table[i].name, err)
		}
		return nil
	})
	if err == nil && !ok {
		err = errors.New("not a JSON object")
	}
	return seen, err
}

func indexOf[T any](table []key[T], name []byte) int {
	for i := range table {
		if table[i].name == string(name) {
			return i
		}
	}
	return -1
}

// checkSeen returns an error when an object of the given kind has a key of another kind or lacks one that it must have.
func checkSeen[T any](table []key[T], seen uint32, own kinds) error {
	for i := range table {
		has := seen&(1<<i) != 0
		if has && table[i].may&own == 0 {
			return fmt.Errorf("key %q belongs to another kind", table[i].name)
		}
		if !has && table[i].must&own != 0 {
			return fmt.Errorf("key %q is missing", table[i].name)
		}
	}
	return nil
}

func readString(value []byte, into *string) error {
	if value[0] != '"' {
		return errors.New("not a string")
	}
	*into = jsonwalk.String(value)
	return nil
}

func readBool(value []byte, into *bool) error {
	if value[0] != 't' && value[0] != 'f' {
		return errors.New("not true or false")
	}
	*into = value[0] == 't'
	return nil
}

func readSize(value []byte, into *int64) error {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return errors.New("not an integer")
	}
	*into = n
	return nil
}

func readCount(value []byte, into **int64) error {
	var n int64
	if err := readSize(value, &n); err != nil {
		return err
	}
	*into = &n
	return nil
}

func readAny(value []byte, into *json.RawMessage) error {
	*into = jsonwalk.AppendCompact(nil, value)
	return nil
}

func readObject(value []byte, into *json.RawMessage) error {
	if value[0] != '{' {
		return errors.New("not a JSON object")
	}
	*into = jsonwalk.AppendCompact(nil, value)
	return nil
}

func readUsage(value []byte, into **Usage) error {
	var u Usage
	seen, err := decodeObject(value, usageKeys, &u)
	if err != nil {
		return err
	}
	*into = &u
	return checkSeen(usageKeys, seen, ofUsage)
}

func readRef(value []byte, into **BlobRef) error {
	var r BlobRef
	seen, err := decodeObject(value, refKeys, &r)
	if err != nil {
		return err
	}
	*into = &r
	return checkSeen(refKeys, seen, ofRef)
}
