package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// outage is a store that refuses writes of one media type while it is down.
type outage struct {
	cas.Store
	mediaType string
	down      bool
	tries     int
	onTry     func(tries int)
}

func (o *outage) Put(ctx context.Context, scope cas.Scope, mediaType string, data []byte) (cas.Ref, error) {
	if !o.down || mediaType != o.mediaType {
		return o.Store.Put(ctx, scope, mediaType, data)
	}
	o.tries++
	o.onTry(o.tries)
	return cas.Ref{}, errors.New("store away")
}

// TestStoreOutage takes the store away in the middle of a run: the run waits and goes on, or ends with a reason of its own
// when its time is over first. What was accepted stays either way.
func TestStoreOutage(t *testing.T) {
	cases := map[string]struct {
		end     bool
		want    Result
		history []string
	}{
		"it comes back in time":  {want: Result{runevent.TypeRunFinished, "Completed"}, history: []string{"user", "assistant:stop"}},
		"the time is over first": {end: true, want: Result{runevent.TypeRunFailed, ReasonPersistence}, history: []string{"user"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.model.replies = []reply{says("hello")}
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			store := &outage{Store: w.store, mediaType: cas.MediaContext, down: true}
			store.onTry = func(tries int) {
				if tries < 3 {
					return
				}
				store.down = false
				if tc.end {
					cancel(ErrDeadline)
				}
			}
			w.store = store
			got, err := w.execute(ctx, w.run("u1", "hi"))
			if err != nil || got != tc.want {
				t.Fatalf("%+v, %v; want %+v", got, err, tc.want)
			}
			if store.tries != 3 {
				t.Errorf("the save was tried %d times, want 3", store.tries)
			}
			_, history := w.state()
			if diff := cmp.Diff(tc.history, roles(history)); diff != "" {
				t.Errorf("history (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFailureThatCannotBeSaved lets a run fail whose end cannot be stored either: both failures are told, nothing that was
// accepted is lost, and whoever goes on with the run ends it.
func TestFailureThatCannotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.clock.now = time.Now()
		w.model.replies = []reply{fails(provider.ClassAuth), fails(provider.ClassAuth)}
		store := &outage{Store: w.store, mediaType: cas.MediaState, down: true, onTry: func(int) {}}
		w.store = store
		deps := w.deps()
		deps.Now = time.Now
		deps.Sleep = sleep
		run := w.run("u1", "hi")
		run.Config.Limits.ActiveDeadlineSeconds = 60
		_, err := Execute(t.Context(), deps, run)
		var failure *Failure
		if !errors.Is(err, errUnsaved) || !errors.As(err, &failure) || failure.Reason != ReasonAuthFailed {
			t.Fatalf("error %v, want the provider's failure and the save's", err)
		}
		store.down = false
		got, err := Execute(t.Context(), deps, run)
		if want := (Result{runevent.TypeRunFailed, ReasonDeadline}); err != nil || got != want {
			t.Errorf("afterwards: %+v, %v; want %+v", got, err, want)
		}
		if _, history := w.state(); len(history) != 1 {
			t.Errorf("history %v", roles(history))
		}
	})
}

// sleep waits in the bubble's time.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// TestSavesRest lets a save fail for half an hour, as while clocks differ or a credential is missing: it is tried again in time for
// the end of the outage, and not in a busy loop.
func TestSavesRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.clock.now = time.Now()
		w.model.replies = []reply{says("hello")}
		begun := time.Now()
		store := &outage{Store: w.store, mediaType: cas.MediaContext, down: true}
		store.onTry = func(int) { store.down = time.Since(begun) < 30*time.Minute }
		w.store = store
		deps := w.deps()
		deps.Now, deps.Sleep = time.Now, sleep
		if got, err := Execute(t.Context(), deps, w.run("u1", "hi")); err != nil || got != completed {
			t.Fatalf("%+v, %v", got, err)
		}
		if late := time.Since(begun) - 30*time.Minute; late > 2*saveBackoffMax {
			t.Errorf("the run went on %s after the outage", late)
		}
		if most := int(30*time.Minute/saveBackoffMax) + 10; store.tries > most {
			t.Errorf("%d tries in half an hour, at most %d are worth it", store.tries, most)
		}
	})
}
