package controllers

import (
	"context"
	"log/slog"
	"sort"
	"sync"
	"time"

	"github.com/agentloop/agentloop/pkg/worker"
)

// Queue puts work items. An item that is there already, or in a worker's hands, makes Put a success with false.
type Queue interface {
	Put(ctx context.Context, item worker.Item) (added bool, err error)
}

// Presence tells which workers are alive.
type Presence interface {
	Alive(ctx context.Context) (map[string]bool, error)
}

// Admission puts runs that need a worker on the queue, at most Cap of a namespace at a time and namespaces in turn. It
// is asked without waiting and works in the background; asking again for the same run is free.
type Admission struct {
	Queue    Queue
	Presence Presence
	// Cap is how many runs of a namespace may be queued or running; 0 for no limit.
	Cap    func(ctx context.Context, namespace string) int
	Logger *slog.Logger
	// Resync is how often the item of a run without a live worker is looked after.
	Resync time.Duration

	mu      sync.Mutex
	wanted  map[string]*wanted // by run UID
	arrival uint64
	wake    chan struct{}
}

type wanted struct {
	item    worker.Item
	arrival uint64
	worker  string
	put     time.Time
}

func (a *Admission) init() {
	if a.wanted == nil {
		a.wanted, a.wake = map[string]*wanted{}, make(chan struct{}, 1)
	}
}

// Want says that a run needs a worker. workerID is who has it according to the log; empty when nobody has.
func (a *Admission) Want(item worker.Item, workerID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.init()
	if w := a.wanted[item.RunUID]; w != nil {
		w.worker = workerID
		return
	}
	a.arrival++
	a.wanted[item.RunUID] = &wanted{item: item, arrival: a.arrival, worker: workerID}
	a.poke()
}

// Admitted says whether a run was put on the queue by this process.
func (a *Admission) Admitted(runUID string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.wanted[runUID]
	return w != nil && !w.put.IsZero()
}

// Done says that a run needs no worker any more.
func (a *Admission) Done(runUID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wanted[runUID] != nil {
		delete(a.wanted, runUID)
		a.poke()
	}
}

func (a *Admission) poke() {
	a.init()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (a *Admission) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (a *Admission) Start(ctx context.Context) error {
	a.mu.Lock()
	a.init()
	wake := a.wake
	a.mu.Unlock()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-ticker.C:
		}
		a.admit(ctx)
	}
}

// admit puts what is due, one item of each namespace in turn.
func (a *Admission) admit(ctx context.Context) {
	due := a.due(ctx)
	for len(due) > 0 {
		rest := due[:0]
		for _, items := range due {
			a.put(ctx, items[0])
			if len(items) > 1 {
				rest = append(rest, items[1:])
			}
		}
		due = rest
	}
}

// due lists, for each namespace, the runs within its cap whose item must be put or looked after.
func (a *Admission) due(ctx context.Context) [][]worker.Item {
	byNamespace := a.snapshot()
	alive := map[string]bool(nil)
	var due [][]worker.Item
	for namespace, all := range byNamespace {
		if limit := a.Cap(ctx, namespace); limit > 0 && len(all) > limit {
			all = all[:limit]
		}
		var items []worker.Item
		for _, w := range all {
			if !w.put.IsZero() && time.Since(w.put) < a.Resync {
				continue
			}
			if !w.put.IsZero() && w.worker != "" {
				if alive == nil {
					alive = a.alive(ctx)
				}
				if alive[w.worker] {
					continue
				}
			}
			items = append(items, w.item)
		}
		if len(items) > 0 {
			due = append(due, items)
		}
	}
	return due
}

func (a *Admission) snapshot() map[string][]wanted {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string][]wanted{}
	for _, w := range a.wanted {
		out[w.item.Namespace] = append(out[w.item.Namespace], *w)
	}
	for _, all := range out {
		sort.Slice(all, func(i, j int) bool {
			if all[i].put.IsZero() != all[j].put.IsZero() {
				return !all[i].put.IsZero()
			}
			return all[i].arrival < all[j].arrival
		})
	}
	return out
}

// alive asks who lives. When that cannot be told, everybody counts as alive: no run is taken from a worker by mistake.
func (a *Admission) alive(ctx context.Context) map[string]bool {
	alive, err := a.Presence.Alive(ctx)
	if err == nil {
		return alive
	}
	a.Logger.Warn("worker presence not readable", "error", err)
	alive = map[string]bool{}
	for _, all := range a.snapshot() {
		for _, w := range all {
			alive[w.worker] = true
		}
	}
	return alive
}

func (a *Admission) put(ctx context.Context, item worker.Item) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	added, err := a.Queue.Put(ctx, item)
	if err != nil {
		a.Logger.Warn("run not put on the work queue, trying again", "namespace", item.Namespace, "run", item.RunName, "error", err)
		return
	}
	if added {
		a.Logger.Info("run put on the work queue", "namespace", item.Namespace, "run", item.RunName, "kind", string(item.Kind))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.wanted[item.RunUID]; w != nil {
		w.put = time.Now()
	}
}
