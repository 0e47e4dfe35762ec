package trajectory_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/synthetic"
)

// sweepable is a log whose sweeps and reads are counted, and whose sweeps may go wrong.
type sweepable struct {
	*memlog.Log
	swept, read int
	// ended counts the sweeps that are over.
	ended int
	// keep says what becomes of the n-th record of a sweep.
	keep func(n int) (bool, error)
}

func (l *sweepable) Sweep(ctx context.Context, s runevent.Sweep, fn func(runevent.Record) error) error {
	n := 0
	defer func() { l.ended++ }()
	return l.Log.Sweep(ctx, s, func(rec runevent.Record) error {
		n++
		if keep, err := l.keep(n); !keep {
			return err
		}
		l.swept++
		return fn(rec)
	})
}

func (l *sweepable) Read(ctx context.Context, stream runevent.Stream, after int64, fn func(runevent.Record) error) error {
	return l.Log.Read(ctx, stream, after, func(rec runevent.Record) error {
		l.read++
		return fn(rec)
	})
}

// plain hides that a log can be swept.
type plain struct{ trajectory.Log }

// TestAnIndexThatIsSwept has a long session read in one go, with a sweep that fails and with one that leaves records out, and
// on from where an index is: the index is always that of its streams.
func TestAnIndexThatIsSwept(t *testing.T) {
	for name, tc := range map[string]struct {
		keep func(n int) (bool, error)
		// least and most bound how many records are read stream by stream.
		least, most int
	}{
		"all":                 {func(int) (bool, error) { return true, nil }, 0, 0},
		"it fails":            {func(n int) (bool, error) { return n <= 1000, errors.New("gone") }, 1000, 1 << 20},
		"records are missing": {func(n int) (bool, error) { return n%500 != 0, nil }, 1, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			scope := cas.Scope{Namespace: "team-a", Session: "00000000-0000-4000-8000-000000000009"}
			shape := synthetic.Sized(6000, time.Hour)
			shape.Input = 1000
			session, err := synthetic.New(t.Context(), store, scope, shape)
			if err != nil {
				t.Fatal(err)
			}
			log := &sweepable{Log: memlog.New(), keep: tc.keep}
			b := trajectory.NewBuilder(scope)
			for round := range 2 {
				if round > 0 {
					if err := session.Extend(t.Context(), 3000); err != nil {
						t.Fatal(err)
					}
				}
				if err := session.Log.Copy(t.Context(), log.Log); err != nil {
					t.Fatal(err)
				}
				if err := trajectory.NewReader(log, store).Refresh(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				alone := trajectory.NewBuilder(scope)
				if err := trajectory.NewReader(plain{log.Log}, store).Refresh(t.Context(), alone); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(listed(t, alone.Index()), listed(t, b.Index())); diff != "" {
					t.Fatalf("round %d: stream by stream (-) and swept (+):\n%s", round, diff)
				}
			}
			if log.swept == 0 || log.read < tc.least || log.read > tc.most {
				t.Errorf("%d records swept, %d read stream by stream", log.swept, log.read)
			}
		})
	}
}

// listed is all that an index tells.
func listed(t *testing.T, ix *trajectory.Index) string {
	t.Helper()
	page, err := ix.Page("", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.MarshalIndent([]any{page, ix.Notices, ix.Counts, ix.Head, ix.Tag}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
