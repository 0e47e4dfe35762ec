package agent

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/runevent"
)

// TestUnknownAppendsOfCompactions breaks the connection to the log at each append of a run with two compactions, once or
// as the run ends. Whether the entry was stored then or not: no answer is lost or doubled, the log folds to the session as it
// is opened, and the session goes on.
func TestUnknownAppendsOfCompactions(t *testing.T) {
	broken := func(w *world, at int, stored bool, then func()) runevent.Log {
		seen := 0
		return &breakingLog{Log: w.log, stored: stored, breaks: func(string) bool {
			if seen++; seen == at {
				then()
			}
			return seen == at
		}}
	}
	probe := newWorld(t)
	run := probe.longTurn()
	before := len(probe.entries())
	if got, err := probe.execute(t.Context(), run); err != nil || got != completed {
		t.Fatalf("%+v, %v", got, err)
	}
	want, appends := probe.outcomeOf(t), len(probe.entries())-before
	causes := []struct {
		name  string
		cause error
	}{{"goes on", nil}, {"is cancelled", ErrCancelled}, {"is handed back", ErrHandBack}}
	for at := 1; at <= appends; at++ {
		// What happens to the run goes round from append to append: all of it at each would take a minute.
		name, cause := causes[at%len(causes)].name, causes[at%len(causes)].cause
		for _, stored := range []bool{true, false} {
			t.Run(fmt.Sprintf("append %d, stored %v, the run %s", at, stored, name), func(t *testing.T) {
				w := newWorld(t)
				run := w.longTurn()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				log := w.log
				w.log = broken(w, at, stored, func() {
					if cause != nil {
						cancel(cause)
					}
				})
				got, err := w.execute(ctx, run)
				w.log = log
				w.checkFolds(t)
				if errors.Is(err, ErrHandBack) && errors.Is(cause, ErrHandBack) {
					got, err = w.execute(t.Context(), run)
				}
				if err != nil {
					t.Fatalf("%+v, %v", got, err)
				}
				w.checkKeptAnswers(t)
				if got == completed {
					if diff := cmp.Diff(want, w.outcomeOf(t)); diff != "" {
						t.Errorf("-want +got:\n%s", diff)
					}
				} else if cause == nil || errors.Is(cause, ErrHandBack) {
					t.Errorf("the run ended as %+v", got)
				}
				if got, err := w.execute(t.Context(), w.compacting("next", "go on")); err != nil || got != completed {
					t.Errorf("the next run: %+v, %v", got, err)
				}
				w.checkFolds(t)
			})
		}
	}
}
