package runevent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// MaxMessage is the largest message of a log in bytes: an entry with the headers that the log puts beside it.
const MaxMessage = 256 << 10

// MaxEntry is the largest encoded entry in bytes. It leaves 4 KiB of MaxMessage to the headers.
const MaxEntry = MaxMessage - 4<<10

// ErrTooLarge is returned when an encoded entry would be longer than MaxEntry. Its long fields belong into objects.
var ErrTooLarge = errors.New("run event too large")

// ErrInvalid is returned when an entry breaks a rule of docs/format/run-events.md.
var ErrInvalid = errors.New("invalid run event")

var knownTypes = []Type{
	TypeRunStarted, TypeRunFinished, TypeRunFailed, TypeRunCancelled, TypeMessageUser, TypeReasoning, TypeBody,
	TypeToolCall, TypeToolStarted, TypeToolResult, TypeToolUnknown, TypeModelRejected, TypeModelFailed, TypeRunHandedBack, TypeMCPAudit,
	TypeSubagentStarted, TypeSubagentFinished, TypeToolOutput, TypeRecord,
}

var knownKinds = []Kind{
	KindContextCaptured, KindModelCompleted, KindStateCommitted, KindContextRecovery, KindCompactionCommitted, KindApproval,
	KindRequestWaiting,
}

// Encode returns the bytes under which e is stored and hashed. The same entry gives the same bytes: keys in the order
// of the struct, nothing escaped for HTML, times in UTC with the digits they have, raw JSON compacted, invalid UTF-8
// replaced by U+FFFD, no newline at the end. It fails with ErrInvalid or ErrTooLarge.
func Encode(e Entry) ([]byte, error) {
	if err := check(e); err != nil {
		return nil, err
	}
	e.CreatedAt = e.CreatedAt.UTC()
	e.Event.Evidence.RecordedAt = e.Event.Evidence.RecordedAt.UTC()
	if ended := e.Event.Evidence.EndedAt; ended != nil {
		utc := ended.UTC()
		e.Event.Evidence.EndedAt = &utc
	}
	if until := e.Event.Until; until != nil {
		utc := until.UTC()
		e.Event.Until = &utc
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	raw := toValidUTF8(bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}))
	if len(raw) > MaxEntry {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(raw), MaxEntry)
	}
	return raw, nil
}

// check holds what every stored entry satisfies, so that a writer's mistake fails at the writer and not at a reader.
func check(e Entry) error {
	switch {
	case e.Sequence < 1:
		return fmt.Errorf("%w: sequence %d, the first is 1", ErrInvalid, e.Sequence)
	case e.Event.V != Version:
		return fmt.Errorf("%w: version %d, this code writes %d", ErrInvalid, e.Event.V, Version)
	case !known(e.Event.Type, e.Event.Kind):
		return fmt.Errorf("%w: type %q with kind %q", ErrInvalid, e.Event.Type, e.Event.Kind)
	case e.CreatedAt.IsZero() || e.Event.Evidence.RecordedAt.IsZero():
		return fmt.Errorf("%w: createdAt and recordedAt must be set", ErrInvalid)
	case (e.Sequence == 1) != e.Event.Evidence.Prev.IsZero():
		return fmt.Errorf("%w: entry %d: every entry but the first names the one before it", ErrInvalid, e.Sequence)
	}
	return nil
}

func known(t Type, k Kind) bool {
	if t == TypeRecord {
		return slices.Contains(knownKinds, k)
	}
	return k == "" && slices.Contains(knownTypes, t)
}

// toValidUTF8 mends what raw JSON fields may bring along; strings were mended by the encoder.
func toValidUTF8(raw []byte) []byte {
	if utf8.Valid(raw) {
		return raw
	}
	out := make([]byte, 0, len(raw)+16)
	for len(raw) > 0 {
		r, size := utf8.DecodeRune(raw)
		out = utf8.AppendRune(out, r)
		raw = raw[size:]
	}
	return out
}
