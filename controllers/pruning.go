package controllers

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// pruneRate is how many ended runs are deleted in a second when many are due, far more than ever end in one. Each
	// deletion is an event for everybody who watches runs.
	pruneRate = 50
	// pruneBurst is how many may go at once after a rest.
	pruneBurst = 50
)

// Pruning spreads the deletions of ended runs, whatever makes them due: thousands may become so at once, when a time to
// live ends, keepRuns is lowered, or the controllers were away. Each run that has to wait gets a turn of its own, so that it
// is not looked at again before that. The zero value is ready; it is safe for concurrent use.
type Pruning struct {
	mu sync.Mutex
	// free is when the next deletion may be, from pruneBurst turns ago on.
	free  time.Time
	turns map[types.NamespacedName]time.Time
}

// turn is how long the run has to wait for its deletion; 0 for one that is to be deleted now, which takes its turn.
func (p *Pruning) turn(run types.NamespacedName, now time.Time) time.Duration {
	const interval = time.Second / pruneRate
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, waits := p.turns[run]; waits {
		if left := at.Sub(now); left > 0 {
			return left
		}
		delete(p.turns, run)
		return 0
	}
	if rested := now.Add(-(pruneBurst - 1) * interval); p.free.Before(rested) {
		p.free = rested
	}
	at := p.free
	p.free = at.Add(interval)
	if !at.After(now) {
		return 0
	}
	if p.turns == nil {
		p.turns = map[types.NamespacedName]time.Time{}
	}
	p.turns[run] = at
	return at.Sub(now)
}

// forget drops the turn of a run that is gone.
func (p *Pruning) forget(run types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.turns, run)
}
