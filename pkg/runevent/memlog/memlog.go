// Package memlog keeps run-event streams in memory: the twin of the real log for tests and for engines embedded
// without a server.
//
// Guarantees: the whole contract of runevent.Log, fencing and idempotent repeats included, and that every method may be
// called concurrently. Nothing outlives the value.
package memlog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/agentloop/agentloop/pkg/runevent"
)

// Log is an in-memory runevent.Log.
type Log struct {
	mu       sync.Mutex
	position uint64
	streams  map[runevent.Stream][]runevent.Record
}

var _ runevent.Log = (*Log)(nil)

// New returns an empty log.
func New() *Log { return &Log{streams: map[runevent.Stream][]runevent.Record{}} }

// Append implements runevent.Log.
func (l *Log) Append(ctx context.Context, stream runevent.Stream, expect runevent.Head, raw []byte) (runevent.Head, error) {
	entry, err := runevent.CheckAppend(stream, expect, raw)
	if err != nil {
		return runevent.Head{}, err
	}
	if err := available(ctx); err != nil {
		return runevent.Head{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var end runevent.Head
	if records := l.streams[stream]; len(records) > 0 {
		end = records[len(records)-1].Head
	}
	head := runevent.HeadOf(entry.Sequence, 0, raw)
	switch {
	case end == expect:
	case end.Sequence == head.Sequence && end.Digest == head.Digest:
		return end, nil
	case end.Sequence < expect.Sequence:
		return runevent.Head{}, fmt.Errorf("%w: it ends with entry %d, not %d", runevent.ErrTruncated, end.Sequence, expect.Sequence)
	default:
		return runevent.Head{}, fmt.Errorf("%w: it ends with entry %d", runevent.ErrFenced, end.Sequence)
	}
	l.position++
	head.Position = l.position
	rec := runevent.Record{Stream: stream, Head: head, Raw: slices.Clone(raw)}
	l.streams[stream] = append(l.streams[stream], rec)
	return head, nil
}

// Read implements runevent.Log.
func (l *Log) Read(ctx context.Context, stream runevent.Stream, after int64, fn func(runevent.Record) error) error {
	if err := stream.Validate(); err != nil {
		return err
	}
	if err := available(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	records := l.streams[stream] // only ever appended to: the slice seen now does not change
	l.mu.Unlock()
	var end int64
	if len(records) > 0 {
		end = records[len(records)-1].Head.Sequence
	}
	if end < after {
		return fmt.Errorf("read %s: %w: it ends with entry %d, not %d", stream, runevent.ErrTruncated, end, after)
	}
	for _, rec := range records {
		if err := available(ctx); err != nil {
			return err
		}
		if rec.Head.Sequence <= after {
			continue
		}
		if err := fn(clone(rec)); err != nil {
			return err
		}
	}
	return nil
}

// Sweep calls fn with the records of a session's streams of one class, in the order of the log.
func (l *Log) Sweep(ctx context.Context, s runevent.Sweep, fn func(runevent.Record) error) error {
	if err := runevent.ValidateSession(s.Namespace, s.Session); err != nil {
		return err
	}
	var swept []runevent.Record
	l.mu.Lock()
	for stream, records := range l.streams {
		if stream.Class != s.Class || stream.Namespace != s.Namespace || stream.Session != s.Session {
			continue
		}
		for _, rec := range records {
			if rec.Head.Position > s.After && rec.Head.Position <= s.Until {
				swept = append(swept, rec)
			}
		}
	}
	l.mu.Unlock()
	slices.SortFunc(swept, func(a, b runevent.Record) int { return cmp.Compare(a.Head.Position, b.Head.Position) })
	for _, rec := range swept {
		if err := available(ctx); err != nil {
			return err
		}
		if err := fn(clone(rec)); err != nil {
			return err
		}
	}
	return nil
}

// Records returns the stream's records at the given places, in that order, and a zero Record for each that is not there.
func (l *Log) Records(ctx context.Context, stream runevent.Stream, places []runevent.Head) ([]runevent.Record, error) {
	if err := stream.Validate(); err != nil {
		return nil, err
	}
	if err := available(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]runevent.Record, len(places))
	for i, place := range places {
		for _, rec := range l.streams[stream] {
			if rec.Head.Sequence == place.Sequence && rec.Head.Position == place.Position {
				out[i] = clone(rec)
			}
		}
	}
	return out, nil
}

// Last implements runevent.Log.
func (l *Log) Last(ctx context.Context, stream runevent.Stream) (runevent.Record, error) {
	if err := stream.Validate(); err != nil {
		return runevent.Record{}, err
	}
	if err := available(ctx); err != nil {
		return runevent.Record{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	records := l.streams[stream]
	if len(records) == 0 {
		return runevent.Record{}, nil
	}
	return clone(records[len(records)-1]), nil
}

// Streams implements runevent.Log.
func (l *Log) Streams(ctx context.Context, namespace, session string) ([]runevent.Record, error) {
	if err := runevent.ValidateSession(namespace, session); err != nil {
		return nil, err
	}
	if err := available(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var last []runevent.Record
	for stream, records := range l.streams {
		if stream.Namespace == namespace && stream.Session == session {
			last = append(last, clone(records[len(records)-1]))
		}
	}
	slices.SortFunc(last, func(a, b runevent.Record) int { return cmp.Compare(a.Stream.String(), b.Stream.String()) })
	return last, nil
}

// Purge implements runevent.Log.
func (l *Log) Purge(ctx context.Context, namespace, session string) error {
	if err := runevent.ValidateSession(namespace, session); err != nil {
		return err
	}
	if err := available(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for stream := range l.streams {
		if stream.Namespace == namespace && stream.Session == session {
			delete(l.streams, stream)
		}
	}
	return nil
}

// Trim removes the entries of a stream up to the one numbered through, which must not be its last one: ErrInvalid. Removing
// them again is a success.
func (l *Log) Trim(ctx context.Context, stream runevent.Stream, through int64) error {
	if err := stream.Validate(); err != nil {
		return err
	}
	if err := available(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	records := l.streams[stream]
	if len(records) == 0 || through >= records[len(records)-1].Head.Sequence {
		return fmt.Errorf("%w: trim %s through entry %d, which is its last one or behind it", runevent.ErrInvalid, stream, through)
	}
	l.streams[stream] = slices.DeleteFunc(slices.Clone(records), func(rec runevent.Record) bool { return rec.Head.Sequence <= through })
	return nil
}

func clone(rec runevent.Record) runevent.Record {
	rec.Raw = slices.Clone(rec.Raw)
	return rec
}

func available(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", runevent.ErrUnavailable, err)
	}
	return nil
}
