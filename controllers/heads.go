package controllers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// Changes tells which streams have grown. Follow calls fn, from one goroutine, with the stream of every entry that is
// appended from now on, and goes on through reconnects until ctx ends; lost says that entries may have been missed. An
// entry that only moves a live run on is progress.
type Changes interface {
	Follow(ctx context.Context, fn func(stream runevent.Stream, progress bool), lost func()) error
}

// Facts are what the log says about one agent stream. Known is false until it was read: that is not the same as empty.
type Facts struct {
	Known bool
	// Corrupt says that the stream cannot be folded; Unavailable that it could not be read now.
	Corrupt, Unavailable bool
	// ReadAt is when the read began that the facts are from: what was in the log by then is in them.
	ReadAt time.Time
	// State is the stream's state without its messages, and of its calls only with those that wait; Messages counts the former.
	State    session.State
	Messages int
	// Record is the assembly record of the latest dispatched main request, Refused that of a request that was rejected.
	Record, Refused *session.AssemblyRecord
	// Checkpoint is the latest compaction without its summary; nil when there is none.
	Checkpoint *Checkpoint
	// Preview is the start of the latest run's answer, if it was asked for before the run ended, and Title the session's
	// title, if that was.
	Preview, Title string
}

// Checkpoint is a saved compaction: what requests hold begins with the message at Boundary.
type Checkpoint struct {
	ID       string
	Boundary int
	digest   cas.Digest
}

// Content is what may be read of a session besides numbers and digests. The zero value is nothing.
type Content struct {
	// Preview is the start of answers, Title the session's title.
	Preview, Title bool
}

// same says whether both say the same. A state moves on with its head only.
func (f Facts) same(o Facts) bool {
	return f.Known == o.Known && f.Corrupt == o.Corrupt && f.Unavailable == o.Unavailable && f.State.Head == o.State.Head
}

// slim is a state without what only an execution needs. It shares the rest with s, which is not changed any more.
func slim(s session.State) session.State {
	s.History, s.List, s.Snapshots = nil, cas.MessageList{}, nil
	if s.Run != nil {
		run := *s.Run
		run.Summaries, run.Completed, run.Captured, run.Before, run.Ending = nil, nil, nil, nil, nil
		run.Tools = waitingCalls(run.Tools)
		s.Run = &run
	}
	return s
}

// waitingCalls are those calls that wait for something that needs no worker.
func waitingCalls(all map[string]*session.ToolProgress) map[string]*session.ToolProgress {
	var waiting map[string]*session.ToolProgress
	for id, progress := range all {
		if progress.Waits() || progress.Delegated() {
			if waiting == nil {
				waiting = map[string]*session.ToolProgress{}
			}
			copied := *progress
			waiting[id] = &copied
		}
	}
	return waiting
}

// Heads is the cache of what the log says, filled in the background, so that reconciling never waits for the log or
// the object store. A stream is tracked from the first question about it until it is forgotten. While a run is live, its
// whole state is kept, so that each read goes on from the last one; of an idle session only the facts are.
type Heads struct {
	Log     runevent.Log
	Store   cas.Store
	Changes Changes
	Logger  *slog.Logger
	// Notify is called after a stream's facts changed.
	Notify func(stream runevent.Stream)
	// MinInterval is how long a stream rests between two reads. That a run has begun or ended is read at once: it happens
	// once, and somebody waits for it.
	MinInterval time.Duration

	mu      sync.Mutex
	streams map[runevent.Stream]*tracked
	wake    chan runevent.Stream
}

type tracked struct {
	facts Facts
	// state is the whole state, for the next read to go on from; nil when it has to start anew.
	state *session.State
	// context is the one whose record is in the facts.
	context cas.Digest
	// past are the runs that Past was asked about: nil until they were read.
	past map[string]*Facts
	// content is what is asked for.
	content Content
	dirty   bool
	reading bool
	// since is when the first of the entries was told of that were not read yet.
	since time.Time
	// next is when the stream may be read again, soon when for news, later when a live run's progress is worth it.
	soon, next, later time.Time
	// news says that more than progress has not been read yet.
	news bool
}

// due says whether the stream is to be read at now.
func (t *tracked) due(now time.Time) bool {
	if !t.dirty || t.reading {
		return false
	}
	switch {
	case t.news:
		return !now.Before(t.soon)
	case t.state == nil:
		return now.After(t.next)
	}
	return now.After(t.later)
}

// progressRest is how many times MinInterval a live run rests between two reads that only bring progress. What it
// says of that in its status is written more seldom still.
const progressRest = 10

// headReaders is how many streams are read side by side.
const headReaders = 4

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

// Get returns what is known of a stream and starts to follow it. It never waits. content asks for what is to come of the
// content; no other is read.
func (h *Heads) Get(stream runevent.Stream, content Content) Facts {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.track(stream)
	t.content = content
	return t.facts
}

// Renew asks for facts whose read begins now or later: without a change none would be read. It never waits, and tells
// nobody when the new facts say the same.
func (h *Heads) Renew(stream runevent.Stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renew(stream, h.track(stream))
}

// Past returns the facts as they were when a run ended that is not the stream's latest. They are Known once they were
// read, in the background, from the whole stream; Notify tells. Corrupt says that the stream has no such end any more.
func (h *Heads) Past(stream runevent.Stream, runUID string) Facts {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.track(stream)
	facts, asked := t.past[runUID]
	if !asked {
		if t.past == nil {
			t.past = map[string]*Facts{}
		}
		t.past[runUID] = nil
		h.renew(stream, t)
	}
	if facts == nil {
		return Facts{}
	}
	return *facts
}

// DropPast drops what Past has read of a run.
func (h *Heads) DropPast(stream runevent.Stream, runUID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.streams[stream]; t != nil {
		delete(t.past, runUID)
	}
}

// Drop stops following a stream, until somebody asks about it again.
func (h *Heads) Drop(stream runevent.Stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, stream)
}

// Forget stops following the streams of a session, until somebody asks about them again.
func (h *Heads) Forget(namespace, sessionUID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for stream := range h.streams {
		if stream.Namespace == namespace && stream.Session == sessionUID {
			delete(h.streams, stream)
		}
	}
}

func (h *Heads) track(stream runevent.Stream) *tracked {
	h.init()
	t := h.streams[stream]
	if t == nil {
		t = &tracked{}
		t.mark()
		h.streams[stream] = t
		h.push(stream)
	}
	return t
}

// renew marks a stream for a read, now if it has rested.
func (h *Heads) renew(stream runevent.Stream, t *tracked) {
	if t.dirty && t.news {
		return
	}
	t.mark()
	t.news = true
	if t.due(time.Now()) {
		h.push(stream)
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

func (h *Heads) changed(stream runevent.Stream, progress bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.streams[stream]
	switch {
	case t == nil:
	case progress:
		t.mark()
	default:
		h.renew(stream, t)
	}
}

func (h *Heads) allChanged() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.streams {
		t.mark()
		t.news = true
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
				if t.due(now) {
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
	t.dirty, t.reading, t.news = false, true, false
	job := reading{Heads: h, stream: stream, content: t.content, before: t.facts, state: t.state, context: t.context, past: t.wanted()}
	h.mu.Unlock()

	begun := time.Now()
	err := job.load(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		h.Logger.Warn("run events not readable", "session", stream.Session, "namespace", stream.Namespace, "error", err)
	}
	rest := h.MinInterval
	switch {
	case job.facts.Unavailable:
		rest = retryInterval
	case job.facts.Corrupt:
		rest = corruptInterval
	case err != nil:
		rest = retryInterval
	}
	h.mu.Lock()
	t.rest(time.Now(), rest, h.MinInterval)
	t.facts, t.state, t.context = job.facts, job.state, job.context
	if err == nil {
		t.since = begun
	}
	news := t.keep(job.ended)
	t.dirty = t.dirty || job.facts.Unavailable || job.facts.Corrupt || len(t.wanted()) > 0
	if t.due(time.Now()) {
		h.push(stream)
	}
	h.mu.Unlock()
	if news || !job.before.same(job.facts) {
		h.Notify(stream)
	}
}

// rest ends a read, after which the stream is left alone for so long; when that is no longer than the usual interval, only
// by those who have no news.
func (t *tracked) rest(now time.Time, rest, usual time.Duration) {
	t.reading, t.soon, t.next, t.later = false, now, now.Add(rest), now.Add(max(rest, progressRest*usual))
	if rest > usual {
		t.soon = t.next
	}
}

// wanted are the runs that Past was asked about and that were not read yet.
func (t *tracked) wanted() []string {
	var uids []string
	for uid, facts := range t.past {
		if facts == nil {
			uids = append(uids, uid)
		}
	}
	return uids
}

// keep stores what was read of ended runs that are still asked about, and says whether there is any.
func (t *tracked) keep(ended map[string]Facts) bool {
	news := false
	for uid, facts := range ended {
		if _, asked := t.past[uid]; asked {
			t.past[uid], news = &facts, true
		}
	}
	return news
}
