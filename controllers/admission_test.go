package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
