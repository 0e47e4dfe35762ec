package trajectory_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/synthetic"
)

func exported(t *testing.T, log trajectory.Log, store cas.Store, ix *trajectory.Index) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := trajectory.NewReader(log, store).Export(t.Context(), ix, trajectory.Header{Session: 1}, trajectory.OneByOne, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestAnExportReadsTheLogOnce exports a session of many agents forward through its log: what it has is what an export stream by
// stream has, whatever becomes of the way forward.
func TestAnExportReadsTheLogOnce(t *testing.T) {
	intact := func(int) (bool, error) { return true, nil }
	for name, tc := range map[string]struct {
		change func(*synthetic.Shape)
		keep   func(n int) (bool, error)
		// swept and read bound how many records are read forward at least, and stream by stream at most.
		swept, read int
	}{
		"as it was written":       {func(*synthetic.Shape) {}, intact, 5000, 0},
		"with clocks that differ": {func(s *synthetic.Shape) { s.Skew = time.Minute }, intact, 1000, 1 << 20},
		"it breaks off":           {func(*synthetic.Shape) {}, func(n int) (bool, error) { return n <= 700, errors.New("nobody read on") }, 4000, 4000},
		"it gets nowhere":         {func(*synthetic.Shape) {}, func(int) (bool, error) { return false, errors.New("no consumer") }, 0, 1 << 20},
		"records are missing":     {func(*synthetic.Shape) {}, func(n int) (bool, error) { return n%50 != 0, nil }, 4000, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			scope := cas.Scope{Namespace: "team-a", Session: "00000000-0000-4000-8000-000000000009"}
			shape := synthetic.Sized(6000, time.Hour)
			shape.Input = 1000
			tc.change(&shape)
			session, err := synthetic.New(t.Context(), store, scope, shape)
			if err != nil {
				t.Fatal(err)
			}
			log := &sweepable{Log: memlog.New(), keep: tc.keep}
			if err := session.Log.Copy(t.Context(), log.Log); err != nil {
				t.Fatal(err)
			}
			b := trajectory.NewBuilder(scope)
			if err := trajectory.NewReader(plain{log.Log}, store).Refresh(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			want := exported(t, plain{log.Log}, store, b.Index())
			if got := exported(t, log, store, b.Index()); !bytes.Equal(got, want) {
				t.Errorf("the exports differ: %d bytes, want %d", len(got), len(want))
			}
			if log.swept < tc.swept || log.read > tc.read {
				t.Errorf("%d records were read forward, %d stream by stream", log.swept, log.read)
			}
		})
	}
}

// TestAnExportThatEndsEndsItsReading holds that nothing goes on when an export is given up.
func TestAnExportThatEndsEndsItsReading(t *testing.T) {
	store := memstore.New()
	scope := cas.Scope{Namespace: "team-a", Session: "00000000-0000-4000-8000-000000000009"}
	shape := synthetic.Sized(6000, time.Hour)
	shape.Input = 1000
	session, err := synthetic.New(t.Context(), store, scope, shape)
	if err != nil {
		t.Fatal(err)
	}
	log := &sweepable{Log: memlog.New(), keep: func(int) (bool, error) { return true, nil }}
	if err := session.Log.Copy(t.Context(), log.Log); err != nil {
		t.Fatal(err)
	}
	r := trajectory.NewReader(log, store)
	b := trajectory.NewBuilder(scope)
	if err := r.Refresh(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	log.swept, log.ended = 0, 0
	full := errors.New("no room")
	_, err = r.Export(context.Background(), b.Index(), trajectory.Header{Session: 1}, trajectory.OneByOne, &limited{left: 2 << 20, err: full})
	if !errors.Is(err, full) {
		t.Fatalf("the export ended with %v", err)
	}
	if log.swept == 0 || log.swept > 3000 || log.ended != 1 {
		t.Errorf("%d records were read, and %d sweeps came to their end, want 1", log.swept, log.ended)
	}
}

// limited takes some bytes and then fails.
type limited struct {
	left int
	err  error
}

func (l *limited) Write(data []byte) (int, error) {
	if l.left -= len(data); l.left < 0 {
		return 0, l.err
	}
	return len(data), nil
}
