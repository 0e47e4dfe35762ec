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

// Queue puts work items. An item that is there already, or in a worker's hands, makes Put a success with false; Has says
// whether there is one, without a change.
type Queue interface {
	Put(ctx context.Context, item worker.Item) (added bool, err error)
	Has(ctx context.Context, namespace, runUID string) (bool, error)
}

// Presence tells which workers are alive, and how many runs each executes at once.
type Presence interface {
	Alive(ctx context.Context) (map[string]int, error)
}

// Admission puts runs that need a worker on the queue, at most Cap of a namespace at a time and namespaces in turn. It
// is asked without waiting and works in the background; asking again for the same run is free.
//
// The queue is first come, first served, so it gets no more than what workers have room for, and one run of each namespace
// beyond that: the first run of a namespace waits behind one of each other namespace, however many those want. A slot that
// comes free finds a run there already.
//
// An item that was lost is put again: within Resync when nobody alive has the run, and within three times Resync when
// somebody has it who could be busy with it. A worker that is busy is left alone as long as its item is there. A run that
// has begun and that no worker has is tried again soon while there is an item of it: it may be the one with which the run
// was given back.
type Admission struct {
	Queue    Queue
	Presence Presence
	// Cap is how many runs of a namespace may be queued or running; 0 for no limit.
	Cap    func(ctx context.Context, namespace string) int
	Logger *slog.Logger
	// Resync is how often the item of a run is looked after.
	Resync time.Duration

	mu      sync.Mutex
	wanted  map[place]*wanted
	arrival uint64
	wake    chan struct{}

	// workers are who was alive last, and asked when that was; known is what was wanted at the last pass, kept because there
	// may be thousands and passes are many. All are the goroutine's own.
	workers map[string]int
	asked   time.Time
	known   map[string][]wanted
}

// place is what an item is wanted for: a run, by its name; or the end of a run whose object is gone, by the history that
// it is in.
type place struct {
	namespace, name string
	seal            bool
}

func placeOf(item worker.Item) place {
	if item.Kind == worker.KindSeal {
		return place{namespace: item.Namespace, name: item.SessionUID, seal: true}
	}
	return place{namespace: item.Namespace, name: item.RunName}
}

type wanted struct {
	item    worker.Item
	arrival uint64
	// worker has the run according to the log; empty when nobody has.
	worker string
	// looked is when the item was last looked after; zero before it was put. missing says that it was not there then.
	looked  time.Time
	missing bool
	// put is when the item was put first.
	put time.Time
}

// admitted says whether the run counts as queued or running: a worker has it, or this process has put its item.
func (w *wanted) admitted() bool { return w.worker != "" || !w.looked.IsZero() }

// queued says whether the run stands on the queue and waits for a worker. One that waits for very long may lack something
// that others of its namespace have, and does not keep them from the queue.
func (w *wanted) queued(now time.Time, resync time.Duration) bool {
	return w.item.Kind == worker.KindRun && w.worker == "" && !w.put.IsZero() && now.Sub(w.put) < stuckAfter*resync
}

// stuckAfter is after how many times Resync a run on the queue does not count for its namespace any more.
const stuckAfter = 10

func (a *Admission) init() {
	if a.wanted == nil {
		a.wanted, a.wake = map[place]*wanted{}, make(chan struct{}, 1)
	}
}

// Want says that a run needs a worker. workerID is who has it according to the log; empty when nobody has. fresh is
// false when that was known already.
func (a *Admission) Want(item worker.Item, workerID string) (fresh bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.init()
	if known := a.wanted[placeOf(item)]; known != nil && known.item.RunUID == item.RunUID {
		if known.worker != workerID {
			known.worker, known.missing = workerID, false
			a.poke() // it has left the queue, or needs a worker again
		}
		known.item = item
		return false
	}
	a.arrival++
	a.wanted[placeOf(item)] = &wanted{item: item, worker: workerID, arrival: a.arrival}
	a.poke()
	return true
}

// Done says that a run needs no worker any more.
func (a *Admission) Done(run types.NamespacedName) {
	a.drop(place{namespace: run.Namespace, name: run.Name})
}

// Sealed says that no run of a history is left whose object is gone.
func (a *Admission) Sealed(namespace, sessionUID string) {
	a.drop(place{namespace: namespace, name: sessionUID, seal: true})
}

func (a *Admission) drop(at place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wanted[at] != nil {
		delete(a.wanted, at)
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

// look is one thing to be done about an item.
type look struct {
	item worker.Item
	// ask only asks whether the item is there: a live worker may be busy with the run. first says that the item of a run
	// that has not begun is put for the first time: that may have to wait.
	ask, first bool
}

// room is what the queue may take.
type room struct {
	// free is how many runs the workers have room for that no run on the queue will take.
	free int
	// queued is how many runs of a namespace are on the queue.
	queued map[string]int
}

// admits says whether the first put of a run of the namespace may be now, and counts it.
func (r *room) admits(namespace string) bool {
	if r.queued[namespace] > 0 && r.free <= 0 {
		return false
	}
	r.queued[namespace]++
	r.free--
	return true
}

// admit looks after what is due, one item of each namespace in turn. It ends early when the queue does not answer: the
// rest is due again at the next turn.
func (a *Admission) admit(ctx context.Context) {
	due, room := a.due(ctx)
	for len(due) > 0 {
		rest := due[:0]
		for _, looks := range due {
			if looks[0].first && !room.admits(looks[0].item.Namespace) {
				continue // those behind it have not been put either
			}
			if !a.look(ctx, looks[0]) {
				return
			}
			if len(looks) > 1 {
				rest = append(rest, looks[1:])
			}
		}
		due = rest
	}
}

// due lists, for each namespace, the runs whose item must be put or looked after: those that were admitted, and as many
// of the others as the cap has room for, in the order of their arrival. Those that are put for the first time come last.
func (a *Admission) due(ctx context.Context) ([][]look, *room) {
	pass := &survey{now: time.Now(), room: &room{queued: map[string]int{}}}
	var due [][]look
	for namespace, all := range a.snapshot() {
		if looks := a.dueOf(ctx, namespace, all, pass); len(looks) > 0 {
			slices.SortStableFunc(looks, firstsLast)
			due = append(due, looks)
		}
	}
	if pass.firsts {
		pass.room.free = a.capacity(ctx) - pass.running
		for _, n := range pass.room.queued {
			pass.room.free -= n
		}
	}
	return due, pass.room
}

// survey is what one look at all namespaces finds out.
type survey struct {
	now     time.Time
	alive   func(string) bool // asked for at the first run that a worker has
	firsts  bool              // some are put for the first time
	running int
	room    *room
}

// dueOf lists those of one namespace.
func (a *Admission) dueOf(ctx context.Context, namespace string, all []wanted, pass *survey) []look {
	places := len(all)
	if limit := a.Cap(ctx, namespace); limit > 0 {
		places = limit
	}
	var looks []look
	begins := 0
	for i := range all {
		w := &all[i]
		if w.worker != "" {
			pass.running++
		}
		if w.queued(pass.now, a.Resync) {
			pass.room.queued[namespace]++
		}
		if i >= places && !w.admitted() {
			break
		}
		if !w.looked.IsZero() && pass.now.Sub(w.looked) < a.Resync {
			continue
		}
		if w.worker != "" && pass.alive == nil {
			pass.alive = a.alive(ctx)
		}
		first := w.worker == "" && w.put.IsZero() && w.item.Kind == worker.KindRun
		if first {
			if begins++; begins > a.capacity(ctx)+1 {
				continue // no more have room, however many wait
			}
		}
		pass.firsts = pass.firsts || first
		looks = append(looks, look{item: w.item, ask: w.worker != "" && pass.alive(w.worker) && !w.missing, first: first})
	}
	return looks
}

func firstsLast(x, y look) int {
	switch {
	case x.first == y.first:
		return 0
	case y.first:
		return -1
	}
	return 1
}

// snapshot lists what is wanted by namespace, the admitted first. The result is good until the next call.
func (a *Admission) snapshot() map[string][]wanted {
	if a.known == nil {
		a.known = map[string][]wanted{}
	}
	for namespace, before := range a.known {
		if len(before) == 0 {
			delete(a.known, namespace)
			continue
		}
		clear(before) // the texts of what is gone go too
		a.known[namespace] = before[:0]
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.wanted {
		a.known[w.item.Namespace] = append(a.known[w.item.Namespace], *w)
	}
	for _, all := range a.known {
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
	return a.known
}

// alive asks who lives. When that cannot be told, everybody counts as alive: no run is taken from a worker by mistake.
func (a *Admission) alive(ctx context.Context) func(workerID string) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	workers, err := a.Presence.Alive(ctx)
	a.asked = time.Now()
	if err != nil {
		a.Logger.Warn("worker presence not readable", "error", err)
		return func(string) bool { return true }
	}
	a.workers = workers
	return func(workerID string) bool {
		_, lives := workers[workerID]
		return lives
	}
}

// capacityAge is how long it counts who was alive for what the queue may take.
const capacityAge = time.Second

// capacity is how many runs the workers that are alive execute at once, as far as that is known.
func (a *Admission) capacity(ctx context.Context) int {
	if time.Since(a.asked) >= capacityAge {
		a.alive(ctx)
	}
	sum := 0
	for _, slots := range a.workers {
		sum += slots
	}
	return sum
}

// handOver is how long a run that was given back rests whose item was still there.
const handOver = time.Second

// lookTimeout bounds one question to the queue, or who is alive.
const lookTimeout = 5 * time.Second

// look asks for an item or puts it. It returns false when the queue did not answer in time.
func (a *Admission) look(ctx context.Context, l look) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	there, added := true, true
	var err error
	if l.ask {
		there, err = a.Queue.Has(ctx, l.item.Namespace, l.item.RunUID)
	} else {
		added, err = a.put(ctx, l.item)
	}
	if err != nil {
		a.Logger.Warn("work queue not reachable, trying again", "namespace", l.item.Namespace, "run", l.item.RunName, "error", err)
		return ctx.Err() == nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.wanted[placeOf(l.item)]; w != nil && w.item.RunUID == l.item.RunUID {
		w.looked, w.missing = time.Now(), !there
		if w.put.IsZero() {
			w.put = w.looked
		}
		if !added && w.worker == "" && l.item.Kind != worker.KindRun {
			// The item may be that of the worker which gave the run back, and go with it.
			w.looked = w.looked.Add(min(handOver-a.Resync, 0))
		}
	}
	return true
}

func (a *Admission) put(ctx context.Context, item worker.Item) (added bool, err error) {
	added, err = a.Queue.Put(ctx, item)
	if added {
		a.Logger.Info("run put on the work queue", "namespace", item.Namespace, "run", item.RunName, "kind", string(item.Kind))
	}
	return added, err
}
