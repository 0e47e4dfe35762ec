package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
)

// purgerWorld is a purger over a log and a store that can be made to fail. It lives in a synctest bubble.
type purgerWorld struct {
	*Purger
	log   *faultyLog
	store *faultyStore

	mu    sync.Mutex
	notes []string
}

func newPurger(t *testing.T) *purgerWorld {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &purgerWorld{log: &faultyLog{Log: memlog.New()}, store: &faultyStore{Store: memstore.New()}}
	w.Purger = &Purger{Log: w.log, Store: w.store, Logger: slog.New(slog.DiscardHandler), Retry: 5 * time.Second, Notify: func(namespace, session string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.notes = append(w.notes, namespace+"/"+session)
	}}
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// told are the sessions that Notify was called with since the last call.
func (w *purgerWorld) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	notes := w.notes
	w.notes = nil
	return notes
}

// TestPurge removes events and objects of one history, once, and of no other.
func TestPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPurger(t)
		for _, history := range []string{"a", "b"} {
			execute(t, w.log.Log, w.store.Store, execution{name: "first", uid: "uid-first", history: history, model: says("hello")})
		}
		for range 3 {
			w.Want("ns", "a")
		}
		pass(time.Minute)
		if got := w.Of("ns", "a"); got != (Purge{Done: true}) {
			t.Errorf("purge %+v", got)
		}
		if diff := cmp.Diff([]string{"ns/a"}, w.told()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		for history, want := range map[string]bool{"a": false, "b": true} {
			last, err := w.log.Log.Last(t.Context(), streamOf(history))
			if err != nil || (last.Head.Sequence > 0) != want {
				t.Errorf("history %s ends at #%d (%v)", history, last.Head.Sequence, err)
			}
			objects := 0
			err = w.store.List(t.Context(), cas.Scope{Namespace: "ns", Session: history}, func(cas.Ref) error { objects++; return nil })
			if err != nil || (objects > 0) != want {
				t.Errorf("history %s has %d objects (%v)", history, objects, err)
			}
		}
		w.Forget("ns", "a")
		if got := w.Of("ns", "a"); got != (Purge{}) || len(w.jobs) != 0 {
			t.Errorf("after it was forgotten: %+v, %d jobs", got, len(w.jobs))
		}
	})
}

// TestPurgeGoesOn tries again until both stores have answered, tells of every try, and never waits where it is asked.
func TestPurgeGoesOn(t *testing.T) {
	faults := map[string]func(w *purgerWorld, err error, hang bool){
		"the log is away":   func(w *purgerWorld, err error, hang bool) { w.log.set(err, hang) },
		"the store is away": func(w *purgerWorld, err error, hang bool) { w.store.set(err, hang) },
	}
	for name, set := range faults {
		for _, hang := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hanging %v", name, hang), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newPurger(t)
					set(w, errors.New("away"), hang)
					asked := time.Now()
					w.Want("ns", "a")
					if now := w.Of("ns", "a"); now.Done || !time.Now().Equal(asked) {
						t.Errorf("purge %+v after %s", now, time.Since(asked))
					}
					pass(3*purgeTimeout + time.Minute)
					failed := w.Of("ns", "a").Failed
					if failed < namespacePurges || len(w.told()) != failed {
						t.Errorf("%d tries have failed, and not each was told", failed)
					}
					set(w, nil, false)
					pass(purgeTimeout + time.Minute)
					if got := w.Of("ns", "a"); !got.Done {
						t.Errorf("after the outage: %+v", got)
					}
					calls := w.log.called()
					pass(time.Hour)
					if w.log.called() != calls {
						t.Error("a history that is gone is purged again and again")
					}
				})
			})
		}
	}
}

// TestPurgeOfAForgottenSession drops a history that nobody waits for any more, without a word.
func TestPurgeOfAForgottenSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPurger(t)
		w.store.set(nil, true)
		w.Want("ns", "a")
		pass(time.Second)
		w.Forget("ns", "a")
		w.store.set(nil, false)
		pass(2 * purgeTimeout)
		if told := w.told(); len(told) != 0 || len(w.jobs) != 0 {
			t.Errorf("told %v, %d jobs", told, len(w.jobs))
		}
	})
}

// TestHealth calls a store away after two probes that failed, tells of changes only, and bounds a probe that hangs.
func TestHealth(t *testing.T) {
	cases := map[string]struct {
		log, store error
		hang       bool
		want       []bool // storage and stream are down
	}{
		"both answer":             {want: []bool{false, false}},
		"the store is away":       {store: errors.New("away"), want: []bool{true, false}},
		"the log is away":         {log: errors.New("away"), want: []bool{false, true}},
		"both are away":           {log: errors.New("away"), store: errors.New("away"), want: []bool{true, true}},
		"the store hangs":         {store: errors.New("away"), hang: true, want: []bool{true, false}},
		"the log hangs":           {log: errors.New("away"), hang: true, want: []bool{false, true}},
		"an empty store is there": {store: fmt.Errorf("get: %w", cas.ErrNotFound), want: []bool{false, false}},
		"the store takes nothing": {store: errTakesNothing, want: []bool{true, false}},
		"the log takes nothing":   {log: errTakesNothing, want: []bool{false, true}},
		"another leader is first": {log: errOverwritten, want: []bool{false, false}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				log, store := &faultyLog{Log: memlog.New()}, &faultyStore{Store: memstore.New()}
				var changes []time.Duration
				began := time.Now()
				h := &Health{Log: log, Store: store, Logger: slog.New(slog.DiscardHandler), Interval: 5 * time.Second, Timeout: 3 * time.Second, Notify: func() {
					changes = append(changes, time.Since(began))
				}}
				done := make(chan struct{})
				go func() { defer close(done); _ = h.Start(ctx) }()
				t.Cleanup(func() { cancel(); <-done })
				pass(time.Second)
				log.set(tc.log, tc.log != nil && tc.hang)
				store.set(tc.store, tc.store != nil && tc.hang)
				pass(6 * time.Second) // the second probe
				if storage, stream := h.Down(); storage || stream {
					t.Error("one probe that failed counts as an outage")
				}
				pass(20 * time.Second)
				if storage, stream := h.Down(); !slices.Equal(tc.want, []bool{storage, stream}) {
					t.Errorf("storage down %v, stream down %v, want %v", storage, stream, tc.want)
				}
				pass(time.Hour)
				log.set(nil, false)
				store.set(nil, false)
				pass(20 * time.Second)
				if storage, stream := h.Down(); storage || stream {
					t.Error("down after the outage")
				}
				want := 0
				if slices.Contains(tc.want, true) {
					want = 2
				}
				if len(changes) != want {
					t.Errorf("told at %v, want %d times", changes, want)
				}
			})
		})
	}
}

// TestHealthLeavesLittle probes for a day: what it stores is removed again.
func TestHealthLeavesLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		log, store := memlog.New(), memstore.New()
		h := &Health{Log: log, Store: store, Logger: slog.New(slog.DiscardHandler), Interval: 5 * time.Second, Timeout: 3 * time.Second, Notify: func() { t.Error("told of a change") }}
		done := make(chan struct{})
		go func() { defer close(done); _ = h.Start(ctx) }()
		pass(24 * time.Hour)
		cancel()
		<-done
		last, err := log.Last(t.Context(), probeStream)
		if err != nil || last.Head.Sequence > probesKept {
			t.Errorf("%d probe entries are left (%v)", last.Head.Sequence, err)
		}
		objects := 0
		if err := store.List(t.Context(), probeScope, func(cas.Ref) error { objects++; return nil }); err != nil || objects > probesKept {
			t.Errorf("%d probe objects are left (%v)", objects, err)
		}
		if h.puts < 5000 {
			t.Errorf("%d objects were put in a day", h.puts)
		}
	})
}
