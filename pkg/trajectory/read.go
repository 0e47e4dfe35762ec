package trajectory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/internal/lru"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// Log is what this package needs of the run-event log. The contract is that of runevent.Log's methods.
type Log interface {
	Read(ctx context.Context, stream runevent.Stream, after int64, fn func(runevent.Record) error) error
	Streams(ctx context.Context, namespace, session string) ([]runevent.Record, error)
}

// Reader reads sessions out of a log and an object store. It only calls what reads. Safe for concurrent use.
type Reader struct {
	log      Log
	store    cas.Store
	resolver *cas.Resolver
	bodies   *lru.Cache[bodyKey, body]
	states   *lru.Cache[bodyKey, *AgentState]
	parts    *lru.Cache[bodyKey, parts]
}

// Over returns a reader of the same log that gets its objects from another store, and shares what this one keeps.
func (r *Reader) Over(store cas.Store) *Reader {
	over := *r
	over.store, over.resolver = store, resolverOf(store)
	return &over
}

func resolverOf(store cas.Store) *cas.Resolver {
	return cas.NewResolver(store, session.MessageIn, cas.ResolverOptions{CacheBytes: -1})
}

// NewReader returns a reader. It keeps the most recently used messages in memory, up to some megabytes.
func NewReader(log Log, store cas.Store) *Reader {
	return &Reader{
		log: log, store: store, resolver: resolverOf(store), bodies: lru.New[bodyKey, body](bodyBytes), states: lru.New[bodyKey, *AgentState](keptStates), parts: lru.New[bodyKey, parts](partBytes),
	}
}

// ErrRewritten is returned by Refresh when a stream is no longer the one that the builder was fed: it is shorter, gone,
// or ends in another record. A new builder must be filled, with the expectations of the old one (see Successor).
var ErrRewritten = errors.New("a run-event stream was rewritten")

// Refresh adds what was appended to the session's streams since the last call. Only that is read. The first call reads the
// imported files as well. Any error but ErrRewritten is the log's, or the store's while imported files are read: the
// builder is good, and the call may be repeated.
func (r *Reader) Refresh(ctx context.Context, b *Builder) error {
	if b.imports == nil {
		if err := r.readImports(ctx, b); err != nil {
			return err
		}
	}
	safe, err := r.end(ctx)
	if err != nil {
		return err
	}
	ends, err := r.log.Streams(ctx, b.scope.Namespace, b.scope.Session)
	if err != nil {
		return fmt.Errorf("list streams: %w", err)
	}
	if b.lost(ends) {
		return ErrRewritten
	}
	// Event streams come first: what a tool printed refers to its call.
	slices.SortStableFunc(ends, func(x, y runevent.Record) int { return -cmp.Compare(x.Stream.Class, y.Stream.Class) })
	var complete uint64
	var class runevent.Class
	for _, end := range ends {
		if end.Stream.Class != class {
			class = end.Stream.Class
			r.sweep(ctx, b, ends, class)
		}
		complete = max(complete, end.Head.Position)
		if err := r.extend(ctx, b, end); err != nil {
			return err
		}
	}
	b.Complete(min(complete, safe))
	r.models(ctx, b)
	return r.match(ctx, b)
}

// Ended is what a log may be besides. End returns the position of the last record of the whole log: streams that are looked
// up afterwards have everything up to there.
type Ended interface {
	End(ctx context.Context) (uint64, error)
}

// end is the position up to which a refresh that begins now misses nothing. Streams need not be listed all at the same
// moment: up to where the last one of them ends, an earlier listed one may have got records meanwhile.
func (r *Reader) end(ctx context.Context) (uint64, error) {
	log, ok := r.log.(Ended)
	if !ok {
		return math.MaxUint64, nil
	}
	position, err := log.End(ctx)
	if err != nil {
		return 0, fmt.Errorf("find the log's end: %w", err)
	}
	return position, nil
}

// lost says whether a stream that was read before has vanished.
func (b *Builder) lost(ends []runevent.Record) bool {
	there := make(map[runevent.Stream]bool, len(ends))
	for _, end := range ends {
		there[end.Stream] = true
	}
	for name, s := range b.streams {
		if s.head.Sequence > 0 && !there[name] && name.Class != classLegacy {
			return true
		}
	}
	return false
}

// extend reads one stream up to its end.
func (r *Reader) extend(ctx context.Context, b *Builder, end runevent.Record) error {
	head := b.Head(end.Stream)
	switch {
	case end.Head.Sequence < head.Sequence, end.Head.Sequence == head.Sequence && end.Head.Digest != head.Digest:
		return ErrRewritten
	case end.Head.Sequence == head.Sequence:
		return nil
	case end.Head.Sequence == head.Sequence+1:
		b.Add(end)
		return nil
	}
	err := r.log.Read(ctx, end.Stream, head.Sequence, func(record runevent.Record) error {
		b.Add(record)
		return nil
	})
	if errors.Is(err, runevent.ErrTruncated) {
		return ErrRewritten
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", streamName(end.Stream), err)
	}
	b.Missing(end.Stream, end.Head)
	return nil
}

// Successor returns an empty builder for the same session that still knows how long its streams have been.
func (b *Builder) Successor() *Builder {
	next := NewBuilder(b.scope)
	for name, sequence := range b.expected {
		next.Expect(name, sequence)
	}
	return next
}

// models names the models of runs whose configuration was not read yet. A store that does not answer is no reason to
// fail: the next refresh tries again.
func (r *Reader) models(ctx context.Context, b *Builder) {
	named := map[runKey]bool{}
	for _, key := range b.order {
		run := b.runs[key]
		if run.config == nil || run.Model != nil {
			continue
		}
		model, known := b.configs[run.config.Digest]
		if !known {
			config, notice, err := load[session.RunConfig](ctx, r, b.scope, *run.config)
			if err != nil {
				break
			}
			if notice != nil {
				notice.EntryID, notice.Agent = b.nodes[run.started].ID, run.Agent
				b.notice(*notice)
			} else {
				model = &ModelName{Provider: config.Model.Provider, API: string(config.Model.API), ID: config.Model.ID}
			}
			b.configs[run.config.Digest] = model
		}
		if model != nil {
			b.editRun(key, runevent.Head{}).Model = model
			named[key], b.dirty = true, true
		}
	}
	if len(named) == 0 {
		return
	}
	for at, n := range b.nodes {
		if n.Run == nil || n.Model != "" || n.file != nil {
			continue
		}
		if key := (runKey{n.Agent, n.Run.UID}); named[key] {
			b.edit(at, runevent.Head{}).model(b.runs[key])
		}
	}
}

// maxObject bounds what is read as one object, its parts together, in bytes.
const maxObject = 256 << 20

// load reads an object. What is wrong with the object itself is a notice; an error means that the store could not say.
func load[T any](ctx context.Context, r *Reader, scope cas.Scope, ref cas.Ref) (T, *Notice, error) {
	var object T
	raw, notice, err := r.bytes(ctx, scope, ref)
	if err != nil || notice != nil {
		return object, notice, err
	}
	object, err = session.DecodeObject[T](raw)
	if err != nil {
		return object, &Notice{Code: CodeNewObject, Digest: ref.Digest, Message: "The stored object has a format that this program does not know."}, nil //nolint:nilerr // the notice says it
	}
	return object, nil, nil
}

// bytes reads a body of any size.
func (r *Reader) bytes(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, *Notice, error) {
	return r.bounded(ctx, scope, ref, maxObject)
}

// bounded reads a body of up to limit bytes; one with more is not what was stored in its place.
func (r *Reader) bounded(ctx context.Context, scope cas.Scope, ref cas.Ref, limit int64) ([]byte, *Notice, error) {
	raw, _, err := cas.GetBody(ctx, r.store, scope, ref, limit)
	if err == nil {
		return raw, nil, nil
	}
	if notice := objectNotice(ref.Digest, err); notice != nil {
		return nil, notice, nil
	}
	return nil, nil, fmt.Errorf("read an object: %w", err)
}

// objectNotice says what is wrong with an object; nil when err is the store's own failure.
func objectNotice(digest cas.Digest, err error) *Notice {
	switch {
	case errors.Is(err, cas.ErrNotFound):
		return &Notice{Code: CodeMissing, Digest: digest, Message: "The stored body " + digest.String() + " is missing. The record that names it is intact."}
	case errors.Is(err, cas.ErrCorrupt), errors.Is(err, cas.ErrTooLarge), errors.Is(err, cas.ErrInvalid):
		return &Notice{
			Code: CodeCorrupt, Digest: digest,
			Message: "The stored body " + digest.String() + " is not what its digest says: it was damaged or changed. The record that names it is intact.",
		}
	case errors.Is(err, session.ErrFormat):
		return &Notice{Code: CodeNewObject, Digest: digest, Message: "The stored object has a format that this program does not know."}
	}
	return nil
}
