package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// Changes tells which streams have grown. Follow calls fn, from one goroutine, with the stream of every entry that is
// appended from now on, and goes on through reconnects until ctx ends; lost says that entries may have been missed.
type Changes interface {
	Follow(ctx context.Context, fn func(stream runevent.Stream), lost func()) error
}

// Facts are what the log says about one agent stream. Known is false until it was read: that is not the same as empty.
type Facts struct {
	Known bool
	// Corrupt says that the stream cannot be folded; Unavailable that it could not be read now.
	Corrupt, Unavailable bool
	State                session.State
	// Record is the assembly record of the latest dispatched main request, Refused that of a request that was rejected.
	Record, Refused *session.AssemblyRecord
	// Preview is the start of the latest run's answer, if it was asked for before the run ended.
	Preview string
}

// same says whether both say the same. A state moves on with its head only.
func (f Facts) same(o Facts) bool {
	return f.Known == o.Known && f.Corrupt == o.Corrupt && f.Unavailable == o.Unavailable && f.State.Head == o.State.Head
}

// Heads is the cache of what the log says, filled in the background, so that reconciling never waits for the log or
// the object store. It forgets nothing that is tracked; a stream is tracked from the first question about it.
type Heads struct {
	Log     runevent.Log
	Store   cas.Store
	Changes Changes
	Logger  *slog.Logger
	// Notify is called after a stream's facts changed.
	Notify func(stream runevent.Stream)
	// MinInterval is how long a stream rests between two reads.
	MinInterval time.Duration

	mu      sync.Mutex
	streams map[runevent.Stream]*tracked
	wake    chan runevent.Stream
}

type tracked struct {
	facts Facts
	// preview says that the start of answers is asked for.
	preview bool
	dirty   bool
	reading bool
	// next is when the stream may be read again.
	next    time.Time
	context cas.Digest
}

// headReaders is how many streams are read side by side.
const headReaders = 4

// readTimeout bounds one read of a stream.
const readTimeout = 20 * time.Second

// retryInterval is how long an unreadable stream rests, corruptInterval a damaged one: it may be restored.
const (
	retryInterval   = 2 * time.Second
	corruptInterval = 30 * time.Second
)

// Start implements manager.Runnable. It returns when ctx ends.
func (h *Heads) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for range headReaders {
		wg.Go(func() { h.read(ctx) })
	}
	wg.Go(func() { h.follow(ctx) })
	h.tick(ctx)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: only the leader reconciles.
func (h *Heads) NeedLeaderElection() bool { return true }

func (h *Heads) init() {
	if h.streams == nil {
		h.streams, h.wake = map[runevent.Stream]*tracked{}, make(chan runevent.Stream, 1024)
	}
}

// Get returns what is known of a stream and starts to follow it. It never waits. preview asks for the start of the
// answers to come, too; without it no content is read.
func (h *Heads) Get(stream runevent.Stream, preview bool) Facts {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.init()
	t := h.streams[stream]
	if t == nil {
		t = &tracked{dirty: true}
		h.streams[stream] = t
		h.push(stream)
	}
	t.preview = preview
	return t.facts
}

// Forget stops following the streams of a session.
func (h *Heads) Forget(namespace, sessionUID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for stream := range h.streams {
		if stream.Namespace == namespace && stream.Session == sessionUID {
			delete(h.streams, stream)
		}
	}
}

func (h *Heads) push(stream runevent.Stream) {
	select {
	case h.wake <- stream:
	default: // tick finds it
	}
}

func (h *Heads) follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := h.Changes.Follow(ctx, h.changed, h.allChanged)
		if ctx.Err() == nil {
			h.Logger.Warn("run-event changes not followed, trying again", "error", err)
			wait(ctx, retryInterval)
			h.allChanged()
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (h *Heads) changed(stream runevent.Stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.streams[stream]; t != nil && !t.dirty {
		t.dirty = true
		if !t.reading && time.Now().After(t.next) {
			h.push(stream)
		}
	}
}

func (h *Heads) allChanged() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.streams {
		t.dirty = true
	}
}

// tick takes up what waits for its interval.
func (h *Heads) tick(ctx context.Context) {
	ticker := time.NewTicker(max(h.MinInterval/2, 20*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			h.mu.Lock()
			h.init()
			for stream, t := range h.streams {
				if t.dirty && !t.reading && now.After(t.next) {
					h.push(stream)
				}
			}
			h.mu.Unlock()
		}
	}
}

func (h *Heads) read(ctx context.Context) {
	h.mu.Lock()
	h.init()
	wake := h.wake
	h.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return
		case stream := <-wake:
			h.refresh(ctx, stream)
		}
	}
}

// refresh reads what was appended to a stream and publishes the new facts.
func (h *Heads) refresh(ctx context.Context, stream runevent.Stream) {
	h.mu.Lock()
	t := h.streams[stream]
	if t == nil || !t.dirty || t.reading {
		h.mu.Unlock()
		return
	}
	t.dirty, t.reading = false, true
	before, seen, preview := t.facts, t.context, t.preview
	h.mu.Unlock()

	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	next, digest, err := h.load(bounded, stream, before, seen, preview)
	cancel()
	if err != nil && ctx.Err() == nil {
		h.Logger.Warn("run events not read", "namespace", stream.Namespace, "session", stream.Session, "agent", stream.Key, "error", err)
	}
	rest := h.MinInterval
	switch {
	case next.Unavailable:
		rest = retryInterval
	case next.Corrupt:
		rest = corruptInterval
	}
	h.mu.Lock()
	t.reading, t.next = false, time.Now().Add(rest)
	t.dirty = t.dirty || next.Unavailable || next.Corrupt
	t.facts, t.context = next, digest
	h.mu.Unlock()
	if !before.same(next) {
		h.Notify(stream)
	}
}

// damaged says whether err means that what is stored cannot be used, however often it is read.
func damaged(err error) bool {
	for _, final := range []error{
		agent.ErrHistoryCorrupt, cas.ErrCorrupt, cas.ErrNotFound, cas.ErrInvalid, cas.ErrTooLarge, session.ErrFormat,
		runevent.ErrNewerFormat, runevent.ErrDamaged, runevent.ErrGap, runevent.ErrLink, runevent.ErrInvalid,
	} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// load reads what is new of a stream. Without the stream's state nothing is new; without what the state names, the state
// is.
func (h *Heads) load(ctx context.Context, stream runevent.Stream, facts Facts, seen cas.Digest, preview bool) (Facts, cas.Digest, error) {
	state, err := h.advance(ctx, stream, facts)
	switch {
	case err != nil && damaged(err):
		facts.Known, facts.Corrupt, facts.Unavailable = true, true, false
		return facts, seen, err
	case err != nil:
		facts.Unavailable = true
		return facts, seen, err
	}
	next := Facts{Known: true, State: state, Record: facts.Record}
	seen, err = h.named(ctx, stream, &next, seen, preview)
	switch {
	case err != nil && damaged(err):
		next.Corrupt = true
	case err != nil:
		facts.Unavailable = true
		return facts, seen, err
	}
	return next, seen, err
}

// named reads the few objects that status needs. seen is the context whose record is there already.
func (h *Heads) named(ctx context.Context, stream runevent.Stream, next *Facts, seen cas.Digest, preview bool) (cas.Digest, error) {
	run := next.State.Run
	if run == nil || run.LastContext == nil {
		next.Record, seen = nil, cas.Digest{}
	}
	if run == nil {
		return seen, nil
	}
	var err error
	if run.LastContext != nil && run.LastContext.Digest != seen {
		next.Record = nil
		if next.Record, err = h.record(ctx, stream, *run.LastContext); err != nil {
			return cas.Digest{}, err
		}
		seen = run.LastContext.Digest
	}
	if run.Terminal == nil {
		return seen, nil
	}
	if ref := run.Terminal.Record; ref != nil {
		if next.Refused, err = h.record(ctx, stream, *ref); err != nil {
			return seen, err
		}
	}
	if ref := run.Terminal.Result; ref != nil && preview {
		next.Preview, err = h.preview(ctx, stream, *ref)
	}
	return seen, err
}

// previewBytes is how much of an answer is kept in memory: more than a status shows, so that the cut is marked there.
const previewBytes = 512

func (h *Heads) preview(ctx context.Context, stream runevent.Stream, ref cas.MessageRef) (string, error) {
	resolver := cas.NewResolver(h.Store, session.MessageIn, cas.ResolverOptions{})
	raws, err := resolver.Messages(ctx, cas.Scope{Namespace: stream.Namespace, Session: stream.Session}, []cas.MessageRef{ref})
	if err != nil {
		return "", err
	}
	answer, err := message.Decode(raws[0])
	if err != nil {
		return "", fmt.Errorf("%w: %w", session.ErrFormat, err)
	}
	return beginning(answer.PlainText(), previewBytes), nil
}

// beginning is at most limit bytes of text, cut between two characters.
func beginning(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// advance reads the tail of a stream that is known, and opens one that is not, or whose tail does not fit: it may have
// been purged, cut or restored.
func (h *Heads) advance(ctx context.Context, stream runevent.Stream, facts Facts) (session.State, error) {
	if facts.Known && !facts.Corrupt {
		state := facts.State.Clone()
		err := agent.Advance(ctx, h.Log, h.Store, stream, &state)
		if err == nil || !damaged(err) && !errors.Is(err, runevent.ErrTruncated) {
			return state, err
		}
	}
	return agent.LoadState(ctx, h.Log, h.Store, stream)
}

func (h *Heads) record(ctx context.Context, stream runevent.Stream, ref cas.Ref) (*session.AssemblyRecord, error) {
	raw, err := h.Store.Get(ctx, cas.Scope{Namespace: stream.Namespace, Session: stream.Session}, ref)
	if err != nil {
		return nil, err
	}
	snapshot, err := session.DecodeObject[session.ContextSnapshot](raw)
	if err != nil {
		return nil, err
	}
	return &snapshot.Assembly, nil
}
