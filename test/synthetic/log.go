package synthetic

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agentloop/agentloop/pkg/runevent"
)

// Log holds the events of one session in memory and can lose some of them, which no log that appends does. Safe for
// concurrent use.
type Log struct {
	mu       sync.RWMutex
	position uint64
	streams  map[runevent.Stream][]runevent.Record
	heads    map[runevent.Stream]runevent.Head
}

func newLog() *Log {
	return &Log{streams: map[runevent.Stream][]runevent.Record{}, heads: map[runevent.Stream]runevent.Head{}}
}

// add numbers, links and keeps an entry; with lose it takes its place in the stream and is not there.
func (l *Log) add(stream runevent.Stream, entry runevent.Entry, lose bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	head := l.heads[stream]
	entry.Sequence, entry.Event.V, entry.Event.Evidence.Prev = head.Sequence+1, runevent.Version, head.Digest
	raw, err := runevent.Encode(entry)
	if err != nil {
		return fmt.Errorf("entry %d of %s: %w", entry.Sequence, stream, err)
	}
	l.position++
	head = runevent.HeadOf(entry.Sequence, l.position, raw)
	l.heads[stream] = head
	if !lose {
		l.streams[stream] = append(l.streams[stream], runevent.Record{Stream: stream, Head: head, Raw: raw})
	}
	return nil
}

// Read calls fn with every record of the stream behind a sequence, in order.
func (l *Log) Read(ctx context.Context, stream runevent.Stream, after int64, fn func(runevent.Record) error) error {
	l.mu.RLock()
	records := l.streams[stream] // only ever appended to: the slice seen now does not change
	l.mu.RUnlock()
	from, _ := slices.BinarySearchFunc(records, after+1, func(r runevent.Record, sequence int64) int { return cmp.Compare(r.Head.Sequence, sequence) })
	for _, record := range records[from:] {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fn(record); err != nil {
			return err
		}
	}
	return nil
}

// Streams lists the last record of each stream, sorted by the streams' names.
func (l *Log) Streams(_ context.Context, namespace, session string) ([]runevent.Record, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var last []runevent.Record
	for stream, records := range l.streams {
		if stream.Namespace == namespace && stream.Session == session && len(records) > 0 {
			last = append(last, records[len(records)-1])
		}
	}
	slices.SortFunc(last, func(a, b runevent.Record) int { return cmp.Compare(a.Stream.String(), b.Stream.String()) })
	return last, nil
}

// Events is how many records there are in all streams.
func (l *Log) Events() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	count := 0
	for _, records := range l.streams {
		count += len(records)
	}
	return count
}

// Bytes is the size of all records.
func (l *Log) Bytes() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var size int64
	for _, records := range l.streams {
		for _, record := range records {
			size += int64(len(record.Raw))
		}
	}
	return size
}

// Copy appends to another log what it does not have yet, about in the order of the times: streams that were written at the
// same time stand beside each other there. It refuses a stream with lost records.
func (l *Log) Copy(ctx context.Context, to runevent.Log) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	heads := map[runevent.Stream]*runevent.Head{}
	var left []timed
	for stream, records := range l.streams {
		last, err := to.Last(ctx, stream)
		if err != nil {
			return fmt.Errorf("copy %s: %w", stream, err)
		}
		heads[stream] = &last.Head
		var latest time.Time
		for _, record := range records {
			if record.Head.Sequence <= last.Head.Sequence {
				continue
			}
			entry, err := runevent.Decode(record.Raw)
			if err != nil {
				return fmt.Errorf("copy %s: %w", stream, err)
			}
			if entry.CreatedAt.After(latest) {
				latest = entry.CreatedAt
			}
			left = append(left, timed{latest, record})
		}
	}
	slices.SortFunc(left, func(a, b timed) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.record.Stream.String(), b.record.Stream.String()), cmp.Compare(a.record.Head.Sequence, b.record.Head.Sequence))
	})
	for some := range slices.Chunk(left, copiedAtOnce) {
		if err := copyTo(ctx, to, some, heads); err != nil {
			return err
		}
	}
	return nil
}

// timed is a record with its time.
type timed struct {
	at     time.Time
	record runevent.Record
}

// copiedAtOnce is how many records have no order among each other, but for those of a stream.
const copiedAtOnce = 256

// copyTo appends records, several streams at the same time.
func copyTo(ctx context.Context, to runevent.Log, records []timed, heads map[runevent.Stream]*runevent.Head) error {
	streams := map[runevent.Stream][]runevent.Record{}
	for _, one := range records {
		streams[one.record.Stream] = append(streams[one.record.Stream], one.record)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for stream, records := range streams {
		head := heads[stream]
		group.Go(func() error {
			for _, record := range records {
				var err error
				if *head, err = to.Append(ctx, stream, *head, record.Raw); err != nil {
					return fmt.Errorf("copy %s: %w", stream, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}
