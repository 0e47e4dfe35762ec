package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentloop/agentloop/pkg/worker"
)

// resync is the tests' Admission.Resync.
const resync = 30 * time.Second

// admit starts an admission over a fake queue with the worker w1. It lives in a synctest bubble.
func admit(t *testing.T, limits map[string]int) (*Admission, *fakeQueue) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	queue := &fakeQueue{alive: map[string]bool{"w1": true}}
	a := &Admission{
		Queue: queue, Presence: queue, Logger: slog.New(slog.DiscardHandler), Resync: resync,
		Cap: func(_ context.Context, namespace string) int { return limits[namespace] },
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = a.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return a, queue
}

// itemOf is the item of a run, named NAMESPACE/RUN.
func itemOf(run string) worker.Item {
	namespace, name, _ := strings.Cut(run, "/")
	return worker.Item{Namespace: namespace, RunName: name, RunUID: "uid-" + name, SessionUID: "session-uid", Kind: worker.KindRun}
}

func nameOf(run string) types.NamespacedName {
	item := itemOf(run)
	return types.NamespacedName{Namespace: item.Namespace, Name: item.RunName}
}

// TestAdmissionPutsOnce puts a run's item as soon as it is wanted, and no second one while it is there.
func TestAdmissionPutsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, queue := admit(t, nil)
		for range 3 {
			a.Want(itemOf("ns/a"), "")
			pass(time.Millisecond)
		}
		if diff := cmp.Diff([]string{"a run"}, queue.names()); diff != "" {
			t.Errorf("queue (-want +got):\n%s", diff)
		}
		queue.set(func() { queue.err = errors.New("away") })
		a.Want(itemOf("ns/b"), "")
		pass(10 * time.Second)
		queue.set(func() { queue.err = nil })
		pass(5 * time.Second)
		if diff := cmp.Diff([]string{"a run", "b run"}, queue.names()); diff != "" {
			t.Errorf("after an outage (-want +got):\n%s", diff)
		}
	})
}

// TestAdmissionLooksAfterItems puts an item that is gone again, in a bounded time, whoever is said to have the run, and
// leaves alone what is there.
func TestAdmissionLooksAfterItems(t *testing.T) {
	cases := map[string]struct {
		// worker has the run according to the log.
		worker string
		// lose takes the item off the queue; leave lets the worker leave.
		lose, leave bool
		// within is the time after which the item must be there again; 0 for never.
		within time.Duration
	}{
		"a lost item of a run without a worker":     {worker: "", lose: true, within: resync + time.Second},
		"a lost item of a run whose worker died":    {worker: "w1", lose: true, leave: true, within: resync + time.Second},
		"a lost item of a run whose worker is busy": {worker: "w1", lose: true, within: 3*resync + time.Second},
		"an item that is held":                      {worker: "w1"},
		"an item that waits":                        {worker: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, queue := admit(t, nil)
				a.Want(itemOf("ns/a"), "")
				pass(time.Second)
				a.Want(itemOf("ns/a"), tc.worker)
				pass(resync + time.Second)
				if tc.lose && !queue.take("a") {
					t.Fatal("the item was never put")
				}
				if tc.leave {
					queue.set(func() { queue.alive = nil })
				}
				added, _ := queue.count()
				pass(10 * time.Minute)
				now, last := queue.count()
				if tc.within == 0 {
					if now != added {
						t.Errorf("put %d times although the item is there", now-added)
					}
					return
				}
				if after := time.Until(last) + 10*time.Minute; now != added+1 || after > tc.within {
					t.Errorf("put %d times, the last %s after the loss, want once within %s", now-added, after, tc.within)
				}
			})
		})
	}
}

// TestAdmissionLeavesRunsAlone does not wake a second worker when it cannot be told who lives, nor when the item was
// gone for a moment only, as when its run has just ended.
func TestAdmissionLeavesRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, queue := admit(t, nil)
		a.Want(itemOf("ns/a"), "w1")
		pass(resync / 2)
		queue.set(func() { queue.items, queue.added = []worker.Item{itemOf("ns/a")}, 0 })
		queue.set(func() { queue.err = errors.New("away") })
		pass(10 * resync)
		queue.set(func() { queue.err = nil })
		pass(10 * resync)
		if added, _ := queue.count(); added != 0 {
			t.Errorf("put %d times although the item is there", added)
		}
		// The run ends: its worker acknowledges the item, and the end is seen a moment later.
		queue.take("a")
		pass(resync)
		a.Done(nameOf("ns/a"))
		pass(10 * resync)
		if added, _ := queue.count(); added != 0 {
			t.Errorf("put %d times after its end", added)
		}
	})
}

// TestAdmissionWithoutPresence puts new runs although nobody can tell who lives, and takes none from a worker.
func TestAdmissionWithoutPresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, queue := admit(t, nil)
		queue.set(func() { queue.deaf, queue.items = true, []worker.Item{itemOf("ns/b")} })
		a.Want(itemOf("ns/b"), "w1")
		a.Want(itemOf("ns/a"), "")
		pass(time.Second)
		if diff := cmp.Diff([]string{"b run", "a run"}, queue.names()); diff != "" {
			t.Errorf("queue (-want +got):\n%s", diff)
		}
	})
}

// TestAdmissionIsFair takes namespaces in turn, and no more of one than its cap allows.
func TestAdmissionIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, queue := admit(t, map[string]int{"big": 3})
		queue.set(func() { queue.err = errors.New("away") }) // all are wanted before the first is put
		for i := range 10 {
			a.Want(itemOf(fmt.Sprintf("big/b%d", i)), "")
		}
		a.Want(itemOf("small/s0"), "")
		a.Want(itemOf("small/s1"), "")
		queue.set(func() { queue.err = nil })
		pass(2 * resync)
		names := queue.names()
		seen := map[string]bool{}
		for _, name := range names {
			seen[name] = true
		}
		if len(names) != 5 || !seen["b0 run"] || !seen["b1 run"] || !seen["b2 run"] {
			t.Errorf("queue %v, want the first three of big and all of small", names)
		}
		for i, name := range names {
			if i > 0 && i < 4 && strings.HasPrefix(name, "b") == strings.HasPrefix(names[i-1], "b") {
				t.Errorf("queue %v: namespaces do not take turns", names)
			}
		}
		queue.take("b1")
		a.Done(nameOf("big/b1"))
		pass(time.Second)
		if got := queue.names(); got[len(got)-1] != "b3 run" {
			t.Errorf("queue %v: the place of a run that ended is not taken by the next one", got)
		}
	})
}

// fleet is a worker that executes what is on the queue, first come, first served. What it does is known a tenth of a second
// later.
type fleet struct {
	admission *Admission
	queue     *fakeQueue
	mu        sync.Mutex
	next      int
	// begun are the runs in the order in which they began, running how many of each namespace do now, most how many did.
	begun         []string
	running, most map[string]int
}

const known = 100 * time.Millisecond

// start lets the worker execute so many runs at once until the test ends. It lives in a synctest bubble.
func (f *fleet) start(t *testing.T, slots int) {
	t.Helper()
	f.running, f.most = map[string]int{}, map[string]int{}
	f.queue.set(func() { f.queue.capacity = slots })
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	t.Cleanup(func() { cancel(); working.Wait() })
	for range slots {
		working.Go(func() {
			for ctx.Err() == nil {
				item, n, ok := f.take()
				if !ok {
					rest(10 * time.Millisecond)
					continue
				}
				rest(known)
				f.admission.Want(item, "w1")
				rest(time.Duration(8+n%5) * time.Second) // so that slots come free one after the other
				f.mu.Lock()
				f.running[item.Namespace]--
				f.mu.Unlock()
				working.Go(func() {
					rest(known)
					f.admission.Done(nameOf(item.Namespace + "/" + item.RunName))
				})
			}
		})
	}
}

// rest lets time go by in a goroutine of a bubble.
func rest(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // called in bubbles only: no real time
}

func (f *fleet) take() (item worker.Item, n int, ok bool) {
	f.queue.mu.Lock()
	defer f.queue.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == len(f.queue.items) {
		return item, 0, false
	}
	item = f.queue.items[f.next] // it stays on the queue, as one that a worker holds
	f.next++
	f.begun = append(f.begun, item.RunName)
	f.running[item.Namespace]++
	f.most[item.Namespace] = max(f.most[item.Namespace], f.running[item.Namespace])
	return item, f.next, true
}

// since lists the runs that began after the first n.
func (f *fleet) since(n int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.begun[n:])
}

// TestAThousandRunsDelayNobody lets the first run of a namespace begin after one of another namespace that wants a thousand,
// at most, holds a namespace to its cap, and leaves no slot idle that may be used.
func TestAThousandRunsDelayNobody(t *testing.T) {
	const slots = 6
	cases := map[string]struct {
		limits map[string]int
		// most is how many runs of big are executed at once.
		most int
	}{
		"without a cap": {most: slots},
		"with a cap":    {limits: map[string]int{"big": 4}, most: 4},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, queue := admit(t, tc.limits)
				f := &fleet{admission: a, queue: queue}
				f.start(t, slots)
				for i := range 1000 {
					a.Want(itemOf(fmt.Sprintf("big/big-%d", i)), "")
				}
				for i := range 8 {
					pass(time.Duration(7+3*i) * time.Second)
					before := len(f.since(0))
					first := fmt.Sprintf("first-%d", i)
					a.Want(itemOf(fmt.Sprintf("ns%d/%s", i, first)), "")
					pass(15 * time.Second)
					if at := slices.Index(f.since(before), first); at < 0 || at > 1 {
						t.Errorf("the first run of ns%d begins at place %d of %v", i, at, f.since(before))
					}
				}
				if f.most["big"] != tc.most {
					t.Errorf("%d runs of big at once, want %d", f.most["big"], tc.most)
				}
				before := len(f.since(0))
				pass(200 * time.Second)
				// A run takes ten seconds at an average.
				if n, ideal := len(f.since(before)), tc.most*20; n < ideal*9/10 || n > ideal+slots {
					t.Errorf("%d runs began within 200 s, want about %d", n, ideal)
				}
			})
		})
	}
}

// TestAPassOverManyRunsMakesLittleGarbage bounds what a pass takes in which nothing can be put: there is one for each run that
// comes, begins or ends.
func TestAPassOverManyRunsMakesLittleGarbage(t *testing.T) {
	queue := &fakeQueue{alive: map[string]bool{"w1": true}, capacity: 8}
	a := &Admission{
		Queue: queue, Presence: queue, Logger: slog.New(slog.DiscardHandler), Resync: resync, Cap: func(context.Context, string) int { return 0 },
	}
	for i := range 5000 {
		a.Want(itemOf(fmt.Sprintf("ns%02d/run-%d", i%50, i)), "")
	}
	a.admit(t.Context())
	const passes, most = 10, 256 << 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range passes {
		a.admit(t.Context())
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / passes; each > most {
		t.Errorf("a pass over 5000 runs makes %d bytes of garbage, want at most %d", each, most)
	}
}

// TestARunThatIsStuckOnTheQueue does not keep the others of its namespace from it for ever, though all slots are taken.
func TestARunThatIsStuckOnTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, queue := admit(t, nil)
		queue.set(func() { queue.capacity = 1 })
		a.Want(itemOf("other/busy"), "w1")
		a.Want(itemOf("ns/stuck"), "")
		pass(time.Second)
		a.Want(itemOf("ns/second"), "")
		pass(time.Second)
		if got := queue.names(); slices.Contains(got, "second run") {
			t.Errorf("queue %v: there is no room for a second run", got)
		}
		pass(stuckAfter * resync)
		if got := queue.names(); !slices.Contains(got, "second run") {
			t.Errorf("queue %v: one that is stuck keeps the others away", got)
		}
	})
}

// TestAdmissionForgets keeps nothing of runs that are gone, and tells a run from an earlier one of its name.
func TestAdmissionForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, queue := admit(t, nil)
		for i := range 100 {
			run := fmt.Sprintf("ns%d/a", i)
			a.Want(itemOf(run), "w1")
			pass(time.Millisecond)
			a.Done(nameOf(run))
			a.Done(nameOf(run)) // once more does no harm
		}
		if n := len(a.wanted); n != 0 {
			t.Errorf("%d runs are remembered after their end", n)
		}
		a.Want(itemOf("ns/a"), "")
		pass(time.Second)
		again := itemOf("ns/a")
		again.RunUID = "uid-later"
		a.Want(again, "")
		pass(time.Second)
		if there, _ := queue.Has(t.Context(), "ns", "uid-later"); !there {
			t.Error("a run of the same name has no item of its own")
		}
	})
}

// TestAdmissionSurvivesAHangingQueue gives up a look that does not end, and goes on when the queue answers again.
func TestAdmissionSurvivesAHangingQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, queue := admit(t, nil)
		queue.set(func() { queue.hang = true })
		for i := range 50 {
			a.Want(itemOf(fmt.Sprintf("ns/a%d", i)), "")
		}
		pass(time.Minute)
		queue.set(func() { queue.hang = false })
		pass(10 * time.Second)
		if n := len(queue.names()); n != 50 {
			t.Errorf("%d items ten seconds after the queue came back, want 50", n)
		}
	})
}
