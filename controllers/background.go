package controllers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// Health watches the object store and the run-event log, so that conditions can say which of them is away although
// reconciling never talks to either.
type Health struct {
	Log    runevent.Log
	Store  cas.Store
	Logger *slog.Logger
	// Interval is how often both are probed; Timeout bounds one probe.
	Interval, Timeout time.Duration
	// Notify is called when an answer changed.
	Notify func()

	mu                sync.Mutex
	storage, streamed bool // down
}

// Down says which of the two did not answer the last probe.
func (h *Health) Down() (storage, stream bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.storage, h.streamed
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (h *Health) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (h *Health) Start(ctx context.Context) error {
	ticker := time.NewTicker(h.Interval)
	defer ticker.Stop()
	for {
		h.probe(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// probeScope and probeStream name nothing that any session can have.
var (
	probeScope  = cas.Scope{Namespace: "agentloop-probe", Session: "none"}
	probeStream = runevent.Stream{Class: runevent.ClassRun, Namespace: "agentloop-probe", Session: "none", Key: runevent.MainAgent}
)

func (h *Health) probe(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	_, storeErr := h.Store.Get(bounded, probeScope, cas.Ref{Digest: cas.Of(nil)})
	_, logErr := h.Log.Last(bounded, probeStream)
	if ctx.Err() != nil {
		return
	}
	storage := storeErr != nil && !errors.Is(storeErr, cas.ErrNotFound)
	stream := logErr != nil
	h.mu.Lock()
	changed := storage != h.storage || stream != h.streamed
	h.storage, h.streamed = storage, stream
	h.mu.Unlock()
	if !changed {
		return
	}
	h.Logger.Info("store health changed", "storageDown", storage, "streamDown", stream)
	h.Notify()
}

// Purger removes the histories of deleted sessions in the background and keeps trying.
type Purger struct {
	Log    runevent.Log
	Store  cas.Store
	Logger *slog.Logger
	// Notify is called when a history is gone.
	Notify func(namespace, sessionUID string)
	// Retry is how long a purge that failed waits.
	Retry time.Duration

	mu   sync.Mutex
	jobs map[cas.Scope]bool // done
	wake chan struct{}
}

func (p *Purger) init() {
	if p.jobs == nil {
		p.jobs, p.wake = map[cas.Scope]bool{}, make(chan struct{}, 1)
	}
}

// Want asks for a history to be removed. It never waits.
func (p *Purger) Want(namespace, sessionUID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.init()
	scope := cas.Scope{Namespace: namespace, Session: sessionUID}
	if _, known := p.jobs[scope]; known {
		return
	}
	p.jobs[scope] = false
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Purged says whether a history that Want named is gone.
func (p *Purger) Purged(namespace, sessionUID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.jobs[cas.Scope{Namespace: namespace, Session: sessionUID}]
}

// Forget drops what is known of a session that is gone.
func (p *Purger) Forget(namespace, sessionUID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.jobs, cas.Scope{Namespace: namespace, Session: sessionUID})
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (p *Purger) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (p *Purger) Start(ctx context.Context) error {
	p.mu.Lock()
	p.init()
	wake := p.wake
	p.mu.Unlock()
	ticker := time.NewTicker(p.Retry)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-ticker.C:
		}
		for _, scope := range p.open() {
			p.purge(ctx, scope)
		}
	}
}

func (p *Purger) open() []cas.Scope {
	p.mu.Lock()
	defer p.mu.Unlock()
	var open []cas.Scope
	for scope, done := range p.jobs {
		if !done {
			open = append(open, scope)
		}
	}
	return open
}

// purge removes the events first: an object without an event is unreachable, an event without its object is a hole.
func (p *Purger) purge(ctx context.Context, scope cas.Scope) {
	err := p.Log.Purge(ctx, scope.Namespace, scope.Session)
	if err == nil {
		err = p.Store.Purge(ctx, scope)
	}
	if err != nil {
		p.Logger.Warn("history not purged, trying again", "namespace", scope.Namespace, "session", scope.Session, "error", err)
		return
	}
	p.mu.Lock()
	p.jobs[scope] = true
	p.mu.Unlock()
	p.Logger.Info("history purged", "namespace", scope.Namespace, "session", scope.Session)
	p.Notify(scope.Namespace, scope.Session)
}
