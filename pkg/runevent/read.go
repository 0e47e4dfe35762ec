package runevent

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/internal/jsonwalk"
	"github.com/agentloop/agentloop/pkg/message"
)

// read parses an entry that is written as Encode writes it, without reflection: every reader of a long session decodes
// all of its entries. It gives up on anything else (another order of keys, a key given twice or unknown, null): what
// those mean is for encoding/json to say. raw must be valid JSON.
func read(raw []byte) (Entry, bool) {
	var e Entry
	ok := members(raw, entryFields, &e)
	return e, ok
}

// field reads one member of an object of type T. Members stand in the order of at.
type field[T any] struct {
	at   int
	read func(to *T, value []byte) bool
}

func members[T any](raw []byte, fields map[string]field[T], to *T) bool {
	last, good := 0, true
	isObject, _ := jsonwalk.Object(raw, func(key, value []byte) error {
		f, known := fields[string(key)]
		if good = known && f.at > last && f.read(to, value); !good {
			return errGiveUp
		}
		last = f.at
		return nil
	})
	return isObject && good
}

// giveUp ends a walk.
type giveUp struct{}

// Error implements error.
func (giveUp) Error() string { return "not as Encode writes it" }

var errGiveUp error = giveUp{}

// ordered numbers fields in the order in which they are listed.
func ordered[T any](list ...named[T]) map[string]field[T] {
	fields := make(map[string]field[T], len(list))
	for i, n := range list {
		fields[n.name] = field[T]{i + 1, n.read}
	}
	return fields
}

type named[T any] struct {
	name string
	read func(to *T, value []byte) bool
}

func text[T any, S ~string](name string, at func(*T) *S) named[T] {
	return named[T]{name, func(to *T, value []byte) bool {
		if value[0] != '"' {
			return false
		}
		*at(to) = S(jsonwalk.String(value))
		return true
	}}
}

func whole[T any, N int | int64](name string, at func(*T) *N) named[T] {
	return named[T]{name, func(to *T, value []byte) bool {
		n, err := strconv.ParseInt(string(value), 10, 64)
		*at(to) = N(n)
		return err == nil && int64(N(n)) == n
	}}
}

func yes[T any](name string, at func(*T) *bool) named[T] {
	return named[T]{name, func(to *T, value []byte) bool {
		*at(to) = value[0] == 't'
		return value[0] == 't' || value[0] == 'f'
	}}
}

// verbatim copies a value: an entry does not hold on to the bytes that it was read from.
func verbatim[T any](name string, at func(*T) *json.RawMessage) named[T] {
	return named[T]{name, func(to *T, value []byte) bool {
		*at(to) = bytes.Clone(value)
		return true
	}}
}

// nested reads an object into a pointer.
func nested[T, P any](name string, fields map[string]field[P], at func(*T) **P) named[T] {
	return named[T]{name, func(to *T, value []byte) bool {
		one := new(P)
		*at(to) = one
		return members(value, fields, one)
	}}
}

// decoded leaves a value that is rare to encoding/json.
func decoded[T, P any](name string, at func(*T) *P) named[T] {
	return named[T]{name, func(to *T, value []byte) bool {
		return value[0] != 'n' && json.Unmarshal(value, at(to)) == nil
	}}
}

var refFields = ordered(
	decodedDigest("digest", func(r *cas.Ref) *cas.Digest { return &r.Digest }),
	whole("size", func(r *cas.Ref) *int64 { return &r.Size }),
	text("mediaType", func(r *cas.Ref) *string { return &r.MediaType }),
)

func decodedDigest[T any](name string, at func(*T) *cas.Digest) named[T] {
	return named[T]{name, func(to *T, value []byte) bool {
		if value[0] != '"' {
			return false
		}
		digest, err := cas.ParseDigest(jsonwalk.String(value))
		*at(to) = digest
		return err == nil
	}}
}

func tally(name string, at func(*message.Usage) **int64) named[message.Usage] {
	return named[message.Usage]{name, func(to *message.Usage, value []byte) bool {
		n, err := strconv.ParseInt(string(value), 10, 64)
		*at(to) = &n
		return err == nil
	}}
}

var usageFields = ordered(
	tally("input", func(u *message.Usage) **int64 { return &u.Input }),
	tally("output", func(u *message.Usage) **int64 { return &u.Output }),
	tally("cacheRead", func(u *message.Usage) **int64 { return &u.CacheRead }),
	tally("cacheWrite", func(u *message.Usage) **int64 { return &u.CacheWrite }),
	tally("reasoning", func(u *message.Usage) **int64 { return &u.Reasoning }),
	text("cost", func(u *message.Usage) *string { return &u.Cost }),
)

var evidenceFields = ordered(
	text("agentId", func(e *Evidence) *string { return &e.AgentID }),
	text("agentRunId", func(e *Evidence) *string { return &e.AgentRunID }),
	text("requestExecutionId", func(e *Evidence) *string { return &e.RequestExecutionID }),
	whole("turn", func(e *Evidence) *int { return &e.Turn }),
	named[Evidence]{"recordedAt", func(e *Evidence, value []byte) bool {
		return value[0] == '"' && e.RecordedAt.UnmarshalJSON(value) == nil
	}},
	decoded("endedAt", func(e *Evidence) **time.Time { return &e.EndedAt }),
	text("responseId", func(e *Evidence) *string { return &e.ResponseID }),
	nested("contextRef", refFields, func(e *Evidence) **cas.Ref { return &e.ContextRef }),
	nested("stateRef", refFields, func(e *Evidence) **cas.Ref { return &e.StateRef }),
	decodedDigest("prev", func(e *Evidence) *cas.Digest { return &e.Prev }),
)

var eventFields = ordered(
	whole("v", func(e *Event) *int { return &e.V }),
	text("type", func(e *Event) *Type { return &e.Type }),
	text("kind", func(e *Event) *Kind { return &e.Kind }),
	text("runName", func(e *Event) *string { return &e.RunName }),
	text("operation", func(e *Event) *string { return &e.Operation }),
	whole("attempt", func(e *Event) *int { return &e.Attempt }),
	text("worker", func(e *Event) *string { return &e.Worker }),
	nested("config", refFields, func(e *Event) **cas.Ref { return &e.Config }),
	text("reason", func(e *Event) *string { return &e.Reason }),
	text("message", func(e *Event) *string { return &e.Message }),
	text("class", func(e *Event) *string { return &e.Class }),
	whole("httpStatus", func(e *Event) *int { return &e.HTTPStatus }),
	yes("retryable", func(e *Event) *bool { return &e.Retryable }),
	nested("detail", refFields, func(e *Event) **cas.Ref { return &e.Detail }),
	nested("record", refFields, func(e *Event) **cas.Ref { return &e.Record }),
	decoded("result", func(e *Event) **cas.MessageRef { return &e.Result }),
	whole("turns", func(e *Event) *int { return &e.Turns }),
	verbatim("body", func(e *Event) *json.RawMessage { return &e.Body }),
	nested("ref", refFields, func(e *Event) **cas.Ref { return &e.Ref }),
	text("text", func(e *Event) *string { return &e.Text }),
	nested("textRef", refFields, func(e *Event) **cas.Ref { return &e.TextRef }),
	whole("block", func(e *Event) *int { return &e.Block }),
	text("callId", func(e *Event) *string { return &e.CallID }),
	text("name", func(e *Event) *string { return &e.Name }),
	verbatim("arguments", func(e *Event) *json.RawMessage { return &e.Arguments }),
	nested("argumentsRef", refFields, func(e *Event) **cas.Ref { return &e.ArgumentsRef }),
	yes("isError", func(e *Event) *bool { return &e.IsError }),
	text("server", func(e *Event) *string { return &e.Server }),
	verbatim("audit", func(e *Event) *json.RawMessage { return &e.Audit }),
	nested("whole", refFields, func(e *Event) **cas.Ref { return &e.Whole }),
	whole("nested", func(e *Event) *int { return &e.Nested }),
	text("purpose", func(e *Event) *Purpose { return &e.Purpose }),
	nested("payloadRef", refFields, func(e *Event) **cas.Ref { return &e.PayloadRef }),
	nested("usage", usageFields, func(e *Event) **message.Usage { return &e.Usage }),
	text("stopReason", func(e *Event) *string { return &e.StopReason }),
	decoded("requestOutputTokenLimit", func(e *Event) **int64 { return &e.RequestOutputTokenLimit }),
	nested("checkpoint", refFields, func(e *Event) **cas.Ref { return &e.Checkpoint }),
	decoded("snapshotRefs", func(e *Event) *[]cas.Ref { return &e.SnapshotRefs }),
	nested("sectionsRef", refFields, func(e *Event) **cas.Ref { return &e.SectionsRef }),
	text("agent", func(e *Event) *string { return &e.Agent }),
	named[Event]{"evidence", func(e *Event, value []byte) bool { return members(value, evidenceFields, &e.Evidence) }},
)

var entryFields = ordered(
	named[Entry]{"createdAt", func(e *Entry, value []byte) bool { return value[0] == '"' && e.CreatedAt.UnmarshalJSON(value) == nil }},
	whole("sequence", func(e *Entry) *int64 { return &e.Sequence }),
	named[Entry]{"event", func(e *Entry, value []byte) bool { return members(value, eventFields, &e.Event) }},
)
