package controllers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// purgeTimeout bounds one try to purge a history. What it got done stays done.
const purgeTimeout = 2 * time.Minute

// Purge is how far the removal of a history has come.
type Purge struct {
	// Done says that the history is gone, Failed how many tries have failed so far.
	Done   bool
	Failed int
}

// Purger removes the histories of deleted sessions in the background and keeps trying.
type Purger struct {
	Log    runevent.Log
	Store  cas.Store
	Logger *slog.Logger
	// Notify is called when a history is gone, and when a try has failed.
	Notify func(namespace, sessionUID string)
	// Retry is how long a purge that failed waits.
	Retry time.Duration

	mu   sync.Mutex
	jobs map[cas.Scope]Purge
	wake chan struct{}
}

func (p *Purger) init() {
	if p.jobs == nil {
		p.jobs, p.wake = map[cas.Scope]Purge{}, make(chan struct{}, 1)
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
	p.jobs[scope] = Purge{}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Of says how far the removal of a history is that Want named.
func (p *Purger) Of(namespace, sessionUID string) Purge {
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
	for scope, job := range p.jobs {
		if !job.Done {
			open = append(open, scope)
		}
	}
	return open
}

// purge removes the events first: an object without an event is unreachable, an event without its object is a hole.
func (p *Purger) purge(ctx context.Context, scope cas.Scope) {
	bounded, cancel := context.WithTimeout(ctx, purgeTimeout)
	defer cancel()
	err := p.Log.Purge(bounded, scope.Namespace, scope.Session)
	if err == nil {
		err = p.Store.Purge(bounded, scope)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		p.Logger.Warn("history not purged, trying again", "namespace", scope.Namespace, "session", scope.Session, "error", err)
	} else {
		p.Logger.Info("history purged", "namespace", scope.Namespace, "session", scope.Session)
	}
	p.mu.Lock()
	job, known := p.jobs[scope]
	if known {
		job.Done = err == nil
		if err != nil {
			job.Failed++
		}
		p.jobs[scope] = job
	}
	p.mu.Unlock()
	if known {
		p.Notify(scope.Namespace, scope.Session)
	}
}
