package server

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory"
)

// indexes keeps the indexes of the sessions that were read last, up to a number of bytes. Refreshing one reads only what
// was appended since.
type indexes struct {
	reader  *trajectory.Reader
	limit   int64
	metrics *metrics
	now     func() time.Time

	mu      sync.Mutex
	entries map[cas.Scope]*list.Element
	order   *list.List // of *indexed, most recently used first
	bytes   int64
}

// indexed is one session. turn holds one token: whoever has it may use the builder.
type indexed struct {
	scope   cas.Scope
	turn    chan struct{}
	builder *trajectory.Builder
	noticed int
	// looked is when the session was last asked for imported files.
	looked time.Time
	// bytes is guarded by indexes.mu.
	bytes int64
}

// importsEvery is how long files that are imported meanwhile may stay unseen: looking costs a listing in the store.
const importsEvery = 30 * time.Second

func newIndexes(reader *trajectory.Reader, limit int64, m *metrics, now func() time.Time) *indexes {
	return &indexes{reader: reader, limit: limit, metrics: m, now: now, entries: map[cas.Scope]*list.Element{}, order: list.New()}
}

// want says which index is asked for.
type want struct {
	scope cas.Scope
	// sequence is how many records the main agent's stream is known to have had.
	sequence int64
	// stale is true when the index as it was last read is good enough.
	stale bool
}

// get returns a session's index.
func (x *indexes) get(ctx context.Context, w want) (*trajectory.Index, error) {
	one := x.entry(w.scope)
	select {
	case <-one.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { one.turn <- struct{}{} }()
	fresh := one.builder == nil
	if fresh {
		one.builder = trajectory.NewBuilder(w.scope)
	}
	one.builder.Expect(runevent.Stream{Class: runevent.ClassRun, Namespace: w.scope.Namespace, Session: w.scope.Session, Key: runevent.MainAgent}, w.sequence)
	if fresh || !w.stale {
		if err := x.refresh(ctx, one); err != nil {
			return nil, err
		}
	}
	index := one.builder.Index()
	x.count(one, index)
	x.grown(one)
	return index, nil
}

// refresh reads what is new, and everything when the streams are not what they were.
func (x *indexes) refresh(ctx context.Context, one *indexed) error {
	err := x.imported(ctx, one)
	if err == nil {
		err = x.reader.Refresh(ctx, one.builder)
	}
	if !errors.Is(err, trajectory.ErrRewritten) {
		return err
	}
	x.metrics.rebuilt.Inc()
	one.builder, one.noticed = one.builder.Successor(), 0
	return x.reader.Refresh(ctx, one.builder)
}

// imported looks from time to time whether files were imported. That the store does not answer is no reason to fail: what
// was imported before is known.
func (x *indexes) imported(ctx context.Context, one *indexed) error {
	now := x.now()
	if now.Sub(one.looked) < importsEvery {
		return nil
	}
	one.looked = now
	if err := x.reader.Imported(ctx, one.builder); errors.Is(err, trajectory.ErrRewritten) {
		return err
	}
	return nil
}

// count adds the notices that are new to the metric.
func (x *indexes) count(one *indexed, index *trajectory.Index) {
	for _, notice := range index.Notices[min(one.noticed, len(index.Notices)):] {
		x.metrics.notices.WithLabelValues(string(notice.Code)).Inc()
	}
	one.noticed = len(index.Notices)
}

// entry returns the place of a session and makes it the last used one.
func (x *indexes) entry(scope cas.Scope) *indexed {
	x.mu.Lock()
	defer x.mu.Unlock()
	if element, ok := x.entries[scope]; ok {
		x.order.MoveToFront(element)
		return sessionOf(element)
	}
	one := &indexed{scope: scope, turn: make(chan struct{}, 1)}
	one.turn <- struct{}{}
	x.entries[scope] = x.order.PushFront(one)
	x.metrics.indexes.Set(float64(len(x.entries)))
	return one
}

func sessionOf(element *list.Element) *indexed {
	return element.Value.(*indexed) //nolint:forcetypeassert // the list holds nothing else
}

// grown notes an index's size and lets the least used ones go. An index in use stays good for who has it.
func (x *indexes) grown(one *indexed) {
	const overhead = 4 << 10
	size := one.builder.Size() + overhead
	x.mu.Lock()
	defer x.mu.Unlock()
	if element, ok := x.entries[one.scope]; !ok || element.Value != any(one) {
		return // dropped meanwhile
	}
	x.bytes += size - one.bytes
	one.bytes = size
	for x.bytes > x.limit && x.order.Len() > 1 {
		last := x.order.Back()
		oldest := sessionOf(last)
		x.order.Remove(last)
		delete(x.entries, oldest.scope)
		x.bytes -= oldest.bytes
	}
	x.metrics.indexes.Set(float64(len(x.entries)))
	x.metrics.bytes.Set(float64(x.bytes))
}
