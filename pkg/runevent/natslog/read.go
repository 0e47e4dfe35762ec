package natslog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/runevent"
)

const (
	// batchMessages and batchBytes bound one batch of a read.
	batchMessages = 256
	batchBytes    = 4 << 20
	// searchNear ends a search for a place in a stream: so few entries are rather read and dropped.
	searchNear = 64
)

// hint remembers where an entry of a stream stands, so that the next read of its tail needs no search.
type hint struct {
	sequence int64
	position uint64
}

// stride names an entry of a stream.
type stride struct {
	stream   runevent.Stream
	sequence int64
}

// readStrides is how many entries' places are remembered: those of two million entries.
const readStrides = 8192

// storedMessage is a message as the JetStream API gives it.
type storedMessage struct {
	Message *struct {
		Subject  string    `json:"subject"`
		Sequence uint64    `json:"seq"`
		Header   []byte    `json:"hdrs"`
		Data     []byte    `json:"data"`
		Time     time.Time `json:"time"`
	} `json:"message"`
}

// getRequest asks for messages: the last of a subject, or the next of one from a position on.
type getRequest struct {
	Sequence  uint64   `json:"seq,omitempty"`
	LastFor   string   `json:"last_by_subj,omitempty"`
	NextFor   string   `json:"next_by_subj,omitempty"`
	Batch     int      `json:"batch,omitempty"`
	MaxBytes  int      `json:"max_bytes,omitempty"`
	MultiLast []string `json:"multi_last,omitempty"`
}

// Last implements runevent.Log. It asks the stream's leader.
func (l *Log) Last(ctx context.Context, stream runevent.Stream) (runevent.Record, error) {
	if err := stream.Validate(); err != nil {
		return runevent.Record{}, err
	}
	var rec runevent.Record
	err := l.patiently(ctx, "last entry of "+stream.String(), func(ctx context.Context) (err error) {
		rec, err = l.last(ctx, stream)
		return l.healed(ctx, err)
	})
	return rec, err
}

// healed makes a stream that is missing, after which the call is tried again.
func (l *Log) healed(ctx context.Context, err error) error {
	if code(err) == jetstream.JSErrCodeStreamNotFound {
		return errors.Join(err, l.Ensure(ctx))
	}
	return err
}

// last asks the leader once. A direct get could be answered by a replica that is behind.
func (l *Log) last(ctx context.Context, stream runevent.Stream) (runevent.Record, error) {
	return l.leaderGet(ctx, stream, getRequest{LastFor: subjectOf(stream)})
}

// leaderGet returns a zero record when there is no such message.
func (l *Log) leaderGet(ctx context.Context, stream runevent.Stream, req getRequest) (runevent.Record, error) {
	var got storedMessage
	err := l.api(ctx, "STREAM.MSG.GET", req, &got)
	if code(err) == jetstream.JSErrCodeMessageNotFound {
		return runevent.Record{}, nil
	}
	if err != nil {
		return runevent.Record{}, err
	}
	if got.Message == nil {
		return runevent.Record{}, errors.New("answer without a message")
	}
	var header nats.Header
	if len(got.Message.Header) > 0 {
		if header, err = nats.DecodeHeadersMsg(got.Message.Header); err != nil {
			return runevent.Record{}, err
		}
	}
	return record(stream, header, got.Message.Sequence, got.Message.Data), nil
}

func record(stream runevent.Stream, header nats.Header, position uint64, raw []byte) runevent.Record {
	return runevent.Record{Stream: stream, Head: runevent.HeadOf(sequenceOf(header, raw), position, raw), Raw: raw}
}

// Read implements runevent.Log. The end is asked from the leader; the entries come from whichever replica answers, and
// from the leader those that the replica does not have yet.
func (l *Log) Read(ctx context.Context, stream runevent.Stream, after int64, fn func(runevent.Record) error) error {
	last, err := l.Last(ctx, stream)
	if err != nil {
		return err
	}
	switch {
	case last.Head.Sequence < after:
		return fmt.Errorf("read %s: %w: it ends with entry %d, not %d", stream, runevent.ErrTruncated, last.Head.Sequence, after)
	case last.Head.Sequence == after:
		return nil
	case last.Head.Sequence == after+1:
		return fn(last)
	}
	r := reading{log: l, stream: stream, after: after, end: last.Head.Position, fn: fn}
	err = errMoved
	if h, ok := l.hint(stream, after); ok && h.position < last.Head.Position {
		r.from, r.mark = h.position, h
		err = r.run(ctx)
	}
	if errors.Is(err, errMoved) {
		r.mark = hint{}
		if r.from, err = l.place(ctx, stream, after, last.Head); err == nil {
			err = r.run(ctx)
		}
	}
	if err != nil {
		return err
	}
	l.hints.Add(stream, hint{sequence: last.Head.Sequence, position: last.Head.Position})
	return nil
}

// hint is an entry at or a little before another one, whose place is remembered.
func (l *Log) hint(stream runevent.Stream, sequence int64) (hint, bool) {
	if h, ok := l.hints.Get(stream); ok && h.sequence <= sequence && sequence-h.sequence <= searchNear {
		return h, true
	}
	position, ok := l.strides.Get(stride{stream, sequence})
	return hint{sequence, position}, ok
}

// errMoved is returned when the entry that a hint names does not stand in its place: a backup was restored.
var errMoved = errors.New("the entry stands elsewhere")

// place returns a position from which on the stream's entries above after stand, few others before them. Positions grow
// with sequences, so it halves the range: some twenty small requests at most, however long stream and session are.
func (l *Log) place(ctx context.Context, stream runevent.Stream, after int64, end runevent.Head) (uint64, error) {
	if after == 0 {
		return 1, nil
	}
	low, high := hint{sequence: 0, position: 1}, hint{sequence: end.Sequence, position: end.Position}
	if h, ok := l.hints.Get(stream); ok && h.sequence <= after && h.position < end.Position {
		known, err := l.next(ctx, stream, h.position)
		if err != nil {
			return 0, err
		}
		if known.Head.Sequence == h.sequence && known.Head.Position == h.position { // not so after a restored backup
			low = h
		}
	}
	for after-low.sequence > searchNear && high.position-low.position > 1 {
		middle, err := l.next(ctx, stream, low.position+(high.position-low.position)/2)
		if err != nil {
			return 0, err
		}
		found := hint{sequence: middle.Head.Sequence, position: middle.Head.Position}
		if found.sequence > 0 && found.sequence <= after+1 {
			low = found
			continue
		}
		high.position = low.position + (high.position-low.position)/2
	}
	return low.position, nil
}

// next returns the stream's first record at or after position; a zero record when there is none.
func (l *Log) next(ctx context.Context, stream runevent.Stream, position uint64) (runevent.Record, error) {
	var rec runevent.Record
	err := l.patiently(ctx, "read "+stream.String(), func(ctx context.Context) (err error) {
		rec, err = l.leaderGet(ctx, stream, getRequest{Sequence: position, NextFor: subjectOf(stream)})
		return err
	})
	return rec, err
}

// reading is one Read in progress.
type reading struct {
	log    *Log
	stream runevent.Stream
	after  int64
	from   uint64 // the next position to ask for
	end    uint64 // the position of the last record to deliver
	// mark is the entry that must stand at from; zero for any. It is read along, which spares a request for it alone.
	mark hint
	fn   func(runevent.Record) error
}

func (r *reading) run(ctx context.Context) error {
	for r.from <= r.end {
		var batch []runevent.Record
		err := r.log.patiently(ctx, "read "+r.stream.String(), func(ctx context.Context) (err error) {
			batch, err = r.batch(ctx)
			return err
		})
		if err != nil {
			return err
		}
		if r.mark != (hint{}) {
			if len(batch) == 0 || batch[0].Head.Sequence != r.mark.sequence || batch[0].Head.Position != r.mark.position {
				return errMoved
			}
			r.mark = hint{}
		}
		if len(batch) == 0 {
			return nil // the rest was purged meanwhile or is lost: whoever verifies the chain finds out
		}
		for _, rec := range batch {
			if rec.Head.Position > r.end {
				return nil
			}
			r.from = rec.Head.Position + 1
			if rec.Head.Sequence%runevent.Stride == 0 && rec.Head.Sequence > 0 {
				r.log.strides.Add(stride{r.stream, rec.Head.Sequence}, rec.Head.Position)
			}
			if rec.Head.Sequence <= r.after {
				continue
			}
			if err := r.fn(rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// batch returns the next records, at least one if there is any up to the end.
func (r *reading) batch(ctx context.Context) ([]runevent.Record, error) {
	req := getRequest{Sequence: r.from, NextFor: subjectOf(r.stream), Batch: batchMessages, MaxBytes: batchBytes}
	batch, err := r.log.directGet(ctx, req)
	if len(batch) > 0 {
		return batch, nil // what arrived in order is good, even if the batch then broke
	}
	if err != nil && !errors.Is(err, errNotThere) {
		return nil, err
	}
	rec, err := r.log.leaderGet(ctx, r.stream, getRequest{Sequence: r.from, NextFor: subjectOf(r.stream)})
	if err != nil || rec.Head.Position == 0 {
		return nil, err
	}
	return []runevent.Record{rec}, nil
}
