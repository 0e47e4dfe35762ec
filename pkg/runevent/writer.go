package runevent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
)

// Put stores a long field of an event as an object and returns its reference once it is durable.
type Put func(ctx context.Context, mediaType string, data []byte) (cas.Ref, error)

// WriterConfig says where a Writer appends and from where it goes on.
type WriterConfig struct {
	Stream Stream
	// Head is the stream's end when the writer takes over.
	Head Head
	// StateRef names the latest committed state; nil before the first commit.
	StateRef *cas.Ref
	// Put moves texts, bodies and arguments longer than MaxInline out of the entry. Without it they stay inline.
	Put Put
	// Now is the clock.
	Now func() time.Time
}

// Writer is the one appender of a stream. It numbers and links the entries, encodes each once, and keeps one append in
// flight; it may be used by several goroutines, whose entries then stand in the order in which they got hold of it.
//
// When an append ends in ErrUnavailable its entry may or may not be stored. The writer keeps it: the next Append, or
// Settle, stores it first under the same bytes, so that it is in the stream exactly once. After ErrFenced the writer is
// finished: every later call fails with the same error and nothing is written.
type Writer struct {
	log  Log
	cfg  WriterConfig
	turn chan struct{} // holds one token: whoever has it owns the fields below

	head     Head
	stateRef *cas.Ref
	// pending is an encoded entry that is not certainly stored, pendingState the stateRef that holds once it is.
	pending      []byte
	pendingState *cas.Ref
	fenced       error
}

// NewWriter returns a writer that goes on after cfg.Head.
func NewWriter(log Log, cfg WriterConfig) *Writer {
	w := &Writer{log: log, cfg: cfg, turn: make(chan struct{}, 1), head: cfg.Head, stateRef: cfg.StateRef}
	w.turn <- struct{}{}
	return w
}

// OpenWriter reads the end of cfg.Stream and returns a writer that goes on after it, and that last record (zero for an
// empty stream); Head and StateRef of cfg are overwritten. A last entry of a newer format gives ErrNewerFormat: code
// that cannot read a stream does not write to it either.
func OpenWriter(ctx context.Context, log Log, cfg WriterConfig) (*Writer, Record, error) {
	last, err := log.Last(ctx, cfg.Stream)
	if err != nil {
		return nil, Record{}, fmt.Errorf("open %s: %w", cfg.Stream, err)
	}
	cfg.Head, cfg.StateRef = last.Head, nil
	if last.Head.Sequence > 0 {
		e, err := Decode(last.Raw)
		if err != nil {
			return nil, Record{}, fmt.Errorf("open %s: %w", cfg.Stream, err)
		}
		cfg.StateRef = e.Event.Evidence.StateRef
	}
	return NewWriter(log, cfg), last, nil
}

// Append stores event as the stream's next entry and returns the new head and the record when it is durable. It sets
// v, createdAt, sequence and prev; recordedAt when it is zero; and stateRef when it is nil, to the one that an earlier
// entry named last. The event's slices and pointers must not change afterwards.
func (w *Writer) Append(ctx context.Context, event Event) (Head, Record, error) {
	if err := w.acquire(ctx); err != nil {
		return Head{}, Record{}, err
	}
	defer w.release()
	if _, _, err := w.settle(ctx); err != nil {
		return w.head, Record{}, fmt.Errorf("append to %s: the entry before: %w", w.cfg.Stream, err)
	}
	event, err := w.moveLong(ctx, event)
	if err != nil {
		return w.head, Record{}, fmt.Errorf("append to %s: %w", w.cfg.Stream, err)
	}
	entry := w.complete(event)
	raw, err := Encode(entry)
	if err != nil {
		return w.head, Record{}, fmt.Errorf("append to %s: %w", w.cfg.Stream, err)
	}
	w.pending, w.pendingState = raw, entry.Event.Evidence.StateRef
	head, rec, err := w.settle(ctx)
	if err != nil {
		return head, Record{}, fmt.Errorf("append to %s: %w", w.cfg.Stream, err)
	}
	return head, rec, nil
}

// Settle stores the entry whose append ended in ErrUnavailable and returns its record; a zero Record when there is none.
func (w *Writer) Settle(ctx context.Context) (Head, Record, error) {
	if err := w.acquire(ctx); err != nil {
		return Head{}, Record{}, err
	}
	defer w.release()
	return w.settle(ctx)
}

// Head returns the stream's end as the writer knows it: the last entry that is certainly stored.
func (w *Writer) Head() Head {
	<-w.turn
	defer w.release()
	return w.head
}

func (w *Writer) acquire(ctx context.Context) error {
	select {
	case <-w.turn:
	case <-ctx.Done():
		return fmt.Errorf("append to %s: nothing was sent: %w", w.cfg.Stream, ctx.Err())
	}
	if w.fenced != nil {
		w.release()
		return w.fenced
	}
	return nil
}

func (w *Writer) release() { w.turn <- struct{}{} }

func (w *Writer) settle(ctx context.Context) (Head, Record, error) {
	if w.pending == nil {
		return w.head, Record{}, nil
	}
	head, err := w.log.Append(ctx, w.cfg.Stream, w.head, w.pending)
	switch {
	case errors.Is(err, ErrFenced):
		w.fenced, w.pending = err, nil
		return w.head, Record{}, err
	case errors.Is(err, ErrUnavailable):
		return w.head, Record{}, err
	case err != nil: // refused for good: it is not in the stream and must not be sent again
		w.pending = nil
		return w.head, Record{}, err
	}
	rec := Record{Stream: w.cfg.Stream, Head: head, Raw: w.pending}
	w.head, w.stateRef, w.pending = head, w.pendingState, nil
	return head, rec, nil
}

func (w *Writer) complete(event Event) Entry {
	now := w.cfg.Now()
	event.V = Version
	event.Evidence.Prev = w.head.Digest
	if event.Evidence.RecordedAt.IsZero() {
		event.Evidence.RecordedAt = now
	}
	if event.Evidence.StateRef == nil {
		event.Evidence.StateRef = w.stateRef
	}
	return Entry{CreatedAt: now, Sequence: w.head.Sequence + 1, Event: event}
}

// moveLong stores long fields as objects before the entry that names them.
func (w *Writer) moveLong(ctx context.Context, event Event) (Event, error) {
	if w.cfg.Put == nil {
		return event, nil
	}
	move := func(mediaType string, data []byte, ref **cas.Ref) (bool, error) {
		if len(data) <= MaxInline || *ref != nil {
			return false, nil
		}
		stored, err := w.cfg.Put(ctx, mediaType, data)
		if err != nil {
			return false, fmt.Errorf("put a long field: %w", err)
		}
		*ref = &stored
		return true, nil
	}
	moved, err := move(cas.MediaBlob, []byte(event.Text), &event.TextRef)
	if err != nil {
		return event, err
	}
	if moved {
		event.Text = ""
	}
	if moved, err = move(cas.MediaMessage, event.Body, &event.Ref); err != nil {
		return event, err
	}
	if moved {
		event.Body = nil
	}
	if moved, err = move(cas.MediaBlob, event.Arguments, &event.ArgumentsRef); err != nil {
		return event, err
	}
	if moved {
		event.Arguments = nil
	}
	return event, nil
}
