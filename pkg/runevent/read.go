package runevent

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/internal/jsonwalk"
	"github.com/agentloop/agentloop/pkg/message"
)

// read parses an entry that is written as Encode writes it, without reflection: every reader of a long session decodes
// all of its entries. It gives up on anything else (another order of keys, a key given twice or unknown, null, what is no
// JSON): what those mean is for encoding/json to say.
func (r *reader) read(raw []byte, e *Entry) bool {
	r.Cursor = jsonwalk.Over(raw)
	return members(r, entryFields, e) && r.End()
}

// reader reads one entry. With a shared memory it copies no content and shares what is written alike.
type reader struct {
	jsonwalk.Cursor
	shared *shared
}

// field reads one member of an object of type T. Members stand in the order of a list of fields.
type field[T any] struct {
	name string
	read func(to *T, r *reader) bool
}

func members[T any](r *reader, fields []field[T], to *T) bool {
	if !r.Object() {
		return false
	}
	next := 0
	for key, ok := r.Member(); ok; key, ok = r.Member() {
		for next < len(fields) && fields[next].name != string(key) {
			next++
		}
		if next == len(fields) || !fields[next].read(to, r) {
			r.Fail()
			return false
		}
		next++
	}
	return true
}

func text[T any, S ~string](name string, at func(*T) *S) field[T] {
	return field[T]{name, func(to *T, r *reader) bool {
		quoted, plain := r.Text()
		if quoted == nil {
			return false
		}
		if plain {
			*at(to) = S(r.shared.text(jsonwalk.Plain(quoted)))
		} else {
			*at(to) = S(jsonwalk.String(quoted))
		}
		return true
	}}
}

// content reads a text that may be long and is not kept.
func content[T any](name string, at func(*T) *string) field[T] {
	return field[T]{name, func(to *T, r *reader) bool {
		quoted, plain := r.Text()
		if quoted == nil {
			return false
		}
		switch {
		case r.shared != nil && plain:
			*at(to) = jsonwalk.Plain(quoted)
		case r.shared != nil:
			*at(to) = r.shared.content(quoted)
		default:
			*at(to) = jsonwalk.String(quoted)
		}
		return true
	}}
}

func whole[T any, N int | int64](name string, at func(*T) *N) field[T] {
	return field[T]{name, func(to *T, r *reader) bool {
		n, ok := r.Int()
		*at(to) = N(n)
		return ok && int64(N(n)) == n
	}}
}

func yes[T any](name string, at func(*T) *bool) field[T] {
	return field[T]{name, func(to *T, r *reader) (ok bool) {
		*at(to), ok = r.Bool()
		return ok
	}}
}

// verbatim copies a value: an entry does not hold on to the bytes that it was read from, unless it shares.
func verbatim[T any](name string, at func(*T) *json.RawMessage) field[T] {
	return field[T]{name, func(to *T, r *reader) bool {
		value := r.Value()
		if r.shared == nil {
			value = bytes.Clone(value)
		}
		*at(to) = value
		return value != nil
	}}
}

// nested reads an object into a pointer.
func nested[T, P any](name string, fields []field[P], at func(*T) **P) field[T] {
	return field[T]{name, func(to *T, r *reader) bool {
		one := new(P)
		*at(to) = one
		return members(r, fields, one)
	}}
}

// reference reads a reference.
func reference[T any](name string, at func(*T) **cas.Ref) field[T] {
	return field[T]{name, func(to *T, r *reader) bool {
		one := r.shared.ref()
		*one = cas.Ref{}
		ok := members(r, refFields, one)
		*at(to) = r.shared.same(one)
		return ok
	}}
}

// decoded leaves a value that is rare to encoding/json.
func decoded[T, P any](name string, at func(*T) *P) field[T] {
	return field[T]{name, func(to *T, r *reader) bool {
		value := r.Value()
		return value != nil && value[0] != 'n' && json.Unmarshal(value, at(to)) == nil
	}}
}

func moment[T any](name string, at func(*T) *time.Time) field[T] {
	return field[T]{name, func(to *T, r *reader) bool {
		quoted, plain := r.Text()
		return plain && at(to).UnmarshalJSON(quoted) == nil
	}}
}

var refFields = []field[cas.Ref]{
	digest("digest", func(r *cas.Ref) *cas.Digest { return &r.Digest }),
	whole("size", func(r *cas.Ref) *int64 { return &r.Size }),
	text("mediaType", func(r *cas.Ref) *string { return &r.MediaType }),
}

func digest[T any](name string, at func(*T) *cas.Digest) field[T] {
	return field[T]{name, func(to *T, r *reader) bool {
		quoted, plain := r.Text()
		if !plain {
			return false
		}
		one, err := cas.ParseDigest(r.shared.text(jsonwalk.Plain(quoted)))
		*at(to) = one
		return err == nil
	}}
}

func tally(name string, at func(*message.Usage) **int64) field[message.Usage] {
	return field[message.Usage]{name, func(to *message.Usage, r *reader) bool {
		n, ok := r.Int()
		*at(to) = &n
		return ok
	}}
}

var usageFields = []field[message.Usage]{
	tally("input", func(u *message.Usage) **int64 { return &u.Input }),
	tally("output", func(u *message.Usage) **int64 { return &u.Output }),
	tally("cacheRead", func(u *message.Usage) **int64 { return &u.CacheRead }),
	tally("cacheWrite", func(u *message.Usage) **int64 { return &u.CacheWrite }),
	tally("reasoning", func(u *message.Usage) **int64 { return &u.Reasoning }),
	text("cost", func(u *message.Usage) *string { return &u.Cost }),
}

var evidenceFields = []field[Evidence]{
	text("agentId", func(e *Evidence) *string { return &e.AgentID }),
	text("agentRunId", func(e *Evidence) *string { return &e.AgentRunID }),
	text("requestExecutionId", func(e *Evidence) *string { return &e.RequestExecutionID }),
	whole("turn", func(e *Evidence) *int { return &e.Turn }),
	moment("recordedAt", func(e *Evidence) *time.Time { return &e.RecordedAt }),
	decoded("endedAt", func(e *Evidence) **time.Time { return &e.EndedAt }),
	text("responseId", func(e *Evidence) *string { return &e.ResponseID }),
	reference("contextRef", func(e *Evidence) **cas.Ref { return &e.ContextRef }),
	reference("stateRef", func(e *Evidence) **cas.Ref { return &e.StateRef }),
	digest("prev", func(e *Evidence) *cas.Digest { return &e.Prev }),
}

var eventFields = []field[Event]{
	whole("v", func(e *Event) *int { return &e.V }),
	text("type", func(e *Event) *Type { return &e.Type }),
	text("kind", func(e *Event) *Kind { return &e.Kind }),
	text("runName", func(e *Event) *string { return &e.RunName }),
	text("operation", func(e *Event) *string { return &e.Operation }),
	whole("attempt", func(e *Event) *int { return &e.Attempt }),
	text("worker", func(e *Event) *string { return &e.Worker }),
	reference("config", func(e *Event) **cas.Ref { return &e.Config }),
	text("reason", func(e *Event) *string { return &e.Reason }),
	text("message", func(e *Event) *string { return &e.Message }),
	text("class", func(e *Event) *string { return &e.Class }),
	whole("httpStatus", func(e *Event) *int { return &e.HTTPStatus }),
	yes("retryable", func(e *Event) *bool { return &e.Retryable }),
	reference("detail", func(e *Event) **cas.Ref { return &e.Detail }),
	reference("record", func(e *Event) **cas.Ref { return &e.Record }),
	decoded("result", func(e *Event) **cas.MessageRef { return &e.Result }),
	whole("turns", func(e *Event) *int { return &e.Turns }),
	verbatim("body", func(e *Event) *json.RawMessage { return &e.Body }),
	reference("ref", func(e *Event) **cas.Ref { return &e.Ref }),
	content("text", func(e *Event) *string { return &e.Text }),
	reference("textRef", func(e *Event) **cas.Ref { return &e.TextRef }),
	whole("block", func(e *Event) *int { return &e.Block }),
	text("callId", func(e *Event) *string { return &e.CallID }),
	text("name", func(e *Event) *string { return &e.Name }),
	verbatim("arguments", func(e *Event) *json.RawMessage { return &e.Arguments }),
	reference("argumentsRef", func(e *Event) **cas.Ref { return &e.ArgumentsRef }),
	yes("isError", func(e *Event) *bool { return &e.IsError }),
	text("server", func(e *Event) *string { return &e.Server }),
	verbatim("audit", func(e *Event) *json.RawMessage { return &e.Audit }),
	reference("whole", func(e *Event) **cas.Ref { return &e.Whole }),
	whole("nested", func(e *Event) *int { return &e.Nested }),
	text("purpose", func(e *Event) *Purpose { return &e.Purpose }),
	reference("payloadRef", func(e *Event) **cas.Ref { return &e.PayloadRef }),
	nested("usage", usageFields, func(e *Event) **message.Usage { return &e.Usage }),
	text("stopReason", func(e *Event) *string { return &e.StopReason }),
	decoded("requestOutputTokenLimit", func(e *Event) **int64 { return &e.RequestOutputTokenLimit }),
	reference("checkpoint", func(e *Event) **cas.Ref { return &e.Checkpoint }),
	decoded("snapshotRefs", func(e *Event) *[]cas.Ref { return &e.SnapshotRefs }),
	reference("sectionsRef", func(e *Event) **cas.Ref { return &e.SectionsRef }),
	text("decision", func(e *Event) *Decision { return &e.Decision }),
	digest("argumentsDigest", func(e *Event) *cas.Digest { return &e.ArgumentsDigest }),
	decoded("until", func(e *Event) **time.Time { return &e.Until }),
	text("approver", func(e *Event) *string { return &e.Approver }),
	text("approval", func(e *Event) *string { return &e.Approval }),
	text("agent", func(e *Event) *string { return &e.Agent }),
	{"evidence", func(e *Event, r *reader) bool { return members(r, evidenceFields, &e.Evidence) }},
}

var entryFields = []field[Entry]{
	moment("createdAt", func(e *Entry) *time.Time { return &e.CreatedAt }),
	whole("sequence", func(e *Entry) *int64 { return &e.Sequence }),
	{"event", func(e *Entry, r *reader) bool { return members(r, eventFields, &e.Event) }},
}
