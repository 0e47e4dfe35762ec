package controllers

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

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
	wanted  map[types.NamespacedName]*wanted
	arrival uint64
	wake    chan struct{}
}

type wanted struct {
	item    worker.Item
	arrival uint64
	// worker has the run according to the log; empty when nobody has.
	worker string
	// put is when the item was last known to be on the queue or in a worker's hands; zero before that.
	put time.Time
}

// admitted says whether the run counts as queued or running: a worker has it, or this process has put its item.
func (w *wanted) admitted() bool { return w.worker != "" || !w.put.IsZero() }

func (w *wanted) name() types.NamespacedName {
	return types.NamespacedName{Namespace: w.item.Namespace, Name: w.item.RunName}
}

func (a *Admission) init() {
	if a.wanted == nil {
		a.wanted, a.wake = map[types.NamespacedName]*wanted{}, make(chan struct{}, 1)
	}
}

// Want says that a run needs a worker. workerID is who has it according to the log; empty when nobody has.
func (a *Admission) Want(item worker.Item, workerID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.init()
	fresh := &wanted{item: item, worker: workerID}
	if known := a.wanted[fresh.name()]; known != nil && known.item.RunUID == item.RunUID {
		known.worker = workerID
		return
	}
	a.arrival++
	fresh.arrival = a.arrival
	a.wanted[fresh.name()] = fresh
	a.poke()
}

// Done says that a run needs no worker any more.
func (a *Admission) Done(run types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wanted[run] != nil {
		delete(a.wanted, run)
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

// due lists, for each namespace, the runs whose item must be put or looked after: those that were admitted, and as many
// of the others as the cap has room for, in the order of their arrival.
func (a *Admission) due(ctx context.Context) [][]worker.Item {
	var alive map[string]bool
	var due [][]worker.Item
	for namespace, all := range a.snapshot() {
		room := len(all)
		if limit := a.Cap(ctx, namespace); limit > 0 {
			room = limit
		}
		var items []worker.Item
		for i := range all {
			w := &all[i]
			if i >= room && !w.admitted() {
				break
			}
			if !w.put.IsZero() && time.Since(w.put) < a.Resync {
				continue
			}
			if w.worker != "" {
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

// snapshot lists what is wanted by namespace, the admitted first.
func (a *Admission) snapshot() map[string][]wanted {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string][]wanted{}
	for _, w := range a.wanted {
		out[w.item.Namespace] = append(out[w.item.Namespace], *w)
	}
	for _, all := range out {
		slices.SortFunc(all, func(x, y wanted) int {
			if x.admitted() != y.admitted() {
				if x.admitted() {
					return -1
				}
				return 1
			}
			return cmp.Compare(x.arrival, y.arrival)
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
	done := wanted{item: item}
	if w := a.wanted[done.name()]; w != nil && w.item.RunUID == item.RunUID {
		w.put = time.Now()
	}
}
