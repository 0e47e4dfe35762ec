package trajectory

import (
	"context"

	"github.com/agentloop/agentloop/pkg/runevent"
)

// Sweeper is what a log may be besides. Sweep calls fn with the records of a session's streams of one class in the order of
// the log; fn's error ends it and is returned as it is. What it delivers is without a gap, but it may end before the end,
// with or without an error.
type Sweeper interface {
	Sweep(ctx context.Context, sweep runevent.Sweep, fn func(runevent.Record) error) error
}

// sweepFrom is how many new records of a class are read together, and not stream by stream.
const sweepFrom = 2000

// sweep adds new records of many streams at once, where the log can. That it fails is nothing: what it leaves out is read
// stream by stream.
func (r *Reader) sweep(ctx context.Context, b *Builder, ends []runevent.Record, class runevent.Class) {
	sweeper, ok := r.log.(Sweeper)
	if !ok {
		return
	}
	what := runevent.Sweep{Class: class, Namespace: b.scope.Namespace, Session: b.scope.Session, After: b.complete}
	last := map[runevent.Stream]int64{}
	var missing int64
	for _, end := range ends {
		if end.Stream.Class != class {
			continue
		}
		last[end.Stream] = end.Head.Sequence
		missing += max(end.Head.Sequence-b.Head(end.Stream).Sequence, 0)
		what.Until = max(what.Until, end.Head.Position)
	}
	if missing < sweepFrom {
		return
	}
	_ = sweeper.Sweep(ctx, what, func(record runevent.Record) error {
		// One that does not follow is left to the read of its stream, which knows what is missing.
		if next := b.Head(record.Stream).Sequence + 1; record.Head.Sequence == next && next <= last[record.Stream] {
			b.Add(record)
		}
		return nil
	})
}
