package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
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
