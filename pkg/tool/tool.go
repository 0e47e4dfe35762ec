// Package tool holds the words that the engine and every kind of tool share: a tool's definition with its safety
// marks, one call, its bounded result, and the Set port.
//
// Guarantees: it imports no SDK and does no I/O; what a tool declares about itself is a hint that only ever makes
// the engine more careful, unless the session's author agrees (see Definition.Repeatable).
package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/agentloop/agentloop/pkg/message"
)

// Definition is one callable tool as discovered at run start.
type Definition struct {
	// Tool is what the model sees: a name that every provider accepts (at most 64 of [a-zA-Z0-9_-]).
	message.Tool
	// Server is the tool server's name in the session; empty for built-in tools. RemoteName is the tool's name there.
	Server     string
	RemoteName string
	// ReadOnly and Idempotent are the server's own annotations.
	ReadOnly   bool
	Idempotent bool
	// RetrySafe says that the session's author allows the tool to be run again after an interruption.
	RetrySafe bool
	// RequiresApproval says that a person must approve each call, within ApprovalSeconds; 0 for whenever they come to it.
	RequiresApproval bool
	ApprovalSeconds  int
	// Delegates says that the engine makes a run of each call itself.
	Delegates bool
	// Nested are the tools that a call of this one may call itself, which no model sees declared; empty for most tools.
	Nested []Definition
}

// storedDefinition is a definition's JSON. It names the tool as a field, because message.Tool brings JSON methods of its
// own, which embedding would make the definition's.
type storedDefinition struct {
	Tool             message.Tool `json:"tool"`
	Server           string       `json:"server,omitempty"`
	RemoteName       string       `json:"remoteName,omitempty"`
	ReadOnly         bool         `json:"readOnly,omitempty"`
	Idempotent       bool         `json:"idempotent,omitempty"`
	RetrySafe        bool         `json:"retrySafe,omitempty"`
	RequiresApproval bool         `json:"requiresApproval,omitempty"`
	ApprovalSeconds  int          `json:"approvalSeconds,omitempty"`
	Delegates        bool         `json:"delegates,omitempty"`
	Nested           []Definition `json:"nested,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (d Definition) MarshalJSON() ([]byte, error) {
	// Without HTML escaping: a schema must come back byte for byte, since prefixes and input digests cover it.
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(storedDefinition{d.Tool, d.Server, d.RemoteName, d.ReadOnly, d.Idempotent, d.RetrySafe, d.RequiresApproval, d.ApprovalSeconds, d.Delegates, d.Nested})
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), err
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Definition) UnmarshalJSON(raw []byte) error {
	var stored storedDefinition
	if err := json.Unmarshal(raw, &stored); err != nil {
		return err
	}
	*d = Definition{stored.Tool, stored.Server, stored.RemoteName, stored.ReadOnly, stored.Idempotent, stored.RetrySafe, stored.RequiresApproval, stored.ApprovalSeconds, stored.Delegates, stored.Nested}
	return nil
}

// Repeatable says whether an interrupted call may be run again: the server's annotations and the author agree.
func (d Definition) Repeatable() bool { return (d.ReadOnly || d.Idempotent) && d.RetrySafe }

// RepeatableAfter says whether an interrupted call that had begun the named nested calls may be run again: every one of
// them reads only, as its server and the author agree. That a tool is idempotent is not enough, for code that runs again
// may call it with other arguments. Without Nested it is Repeatable.
func (d Definition) RepeatableAfter(begun []string) bool {
	if len(d.Nested) == 0 {
		return d.Repeatable()
	}
	for _, name := range begun {
		i := slices.IndexFunc(d.Nested, func(n Definition) bool { return n.Name == name })
		if i < 0 || !d.Nested[i].ReadOnly || !d.Nested[i].RetrySafe {
			return false
		}
	}
	return true
}

// Concurrent says whether calls may run beside others of the same message.
func (d Definition) Concurrent() bool { return d.ReadOnly || d.RetrySafe || d.Delegates }

// Call is one tool call of an assistant message.
type Call struct {
	ID        string
	Name      string
	Arguments json.RawMessage
	// Record takes what a tool with Nested definitions calls itself: each call before it starts and after it ended, in
	// the goroutine that called Set.Call. A call whose Record fails must not start. Nil for nobody.
	Record func(Nested) error
}

// Nested is a call that a tool makes itself.
type Nested struct {
	// Number counts the nested calls of one execution from 1, in the order of their starts.
	Number       int
	Name, Server string
	// Arguments are there before the call.
	Arguments json.RawMessage
	// Audit is nil before the call.
	Audit *Audit
}

// Result is what a call gave. A tool's own failure is a Result with IsError; an error beside it means the outcome is
// not known or the engine is stopping.
type Result struct {
	Content message.Content
	IsError bool
	// Details stay local (never sent to a model): structured content, truncation facts. They are a JSON object or nil.
	Details json.RawMessage
	// Whole is all of the text of which Content shows the beginning; empty when nothing was cut. It may be kept, so that
	// later calls read on; no model sees it as it is.
	Whole string
	Audit Audit
}

// Audit is the evidence of one MCP exchange.
type Audit struct {
	Server   string        `json:"server,omitempty"`
	Method   string        `json:"method,omitempty"`
	Tool     string        `json:"tool,omitempty"`
	Duration time.Duration `json:"durationNanos,omitempty"`
	// Outcome is ok, toolError, timeout, transport or protocol.
	Outcome string `json:"outcome,omitempty"`
	// Bytes is the size of the result before it was cut; Truncated says that it was.
	Bytes     int64 `json:"bytes,omitempty"`
	Truncated bool  `json:"truncated,omitempty"`
}

// Set is the tools of one run.
//
// Call runs one tool to its end, its time limit or ctx's end; it is safe for concurrent use. A failure of the tool,
// a time-out, an oversized or unusable result are Results with IsError and a text that the model can act on. The
// returned error is only non-nil when ctx ended, or Call.Record failed. onProgress, which may be nil, takes what the tool tells
// while it runs: at any time until Call returns, from several goroutines at a time, and it must not wait. Definitions are in a
// stable order. Close releases connections.
type Set interface {
	Definitions() []Definition
	Call(ctx context.Context, call Call, onProgress func(text string)) (Result, error)
	Close() error
}

// maxReadOnID bounds the call ids that a mark repeats: they are the model's own, and may be of any length.
const maxReadOnID = 128

// ReadOn is the sentence in a cut result's mark that says how the named tool reads the rest, from an offset in bytes of
// Result.Whole; empty without such a tool, or for a call that no text can name.
func ReadOn(reader, callID string, offset int) string {
	if reader == "" || callID == "" || len(callID) > maxReadOnID {
		return ""
	}
	return fmt.Sprintf(" To read on, call %s with callId %s and offset %d.", reader, strconv.Quote(callID), offset)
}
