package logtest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// sweeps holds a log to what a sweep is, when it has one: not every log needs to.
func sweeps(t *testing.T, log runevent.Log) {
	sweeper, ok := log.(interface {
		Sweep(ctx context.Context, s runevent.Sweep, fn func(runevent.Record) error) error
	})
	if !ok {
		return
	}
	main := NewStream()
	other, printed, stranger := main, main, NewStream()
	other.Key, printed.Class, printed.Key = "worker-1", runevent.ClassOut, "call-1"
	heads := map[runevent.Stream]runevent.Head{}
	var want []runevent.Record
	for range 150 {
		for _, stream := range []runevent.Stream{main, stranger, other, printed} {
			made := Fill(t, log, stream, heads[stream], 2)
			heads[stream] = made[1].Head
			if stream != stranger && stream != printed {
				want = append(want, made...)
			}
		}
	}
	read := func(s runevent.Sweep) (got []runevent.Record) {
		s.Class, s.Namespace, s.Session = runevent.ClassRun, main.Namespace, main.Session
		if err := sweeper.Sweep(bounded(t), s, func(rec runevent.Record) error {
			got = append(got, rec)
			return nil
		}); err != nil {
			t.Error(err)
		}
		return got
	}
	end := want[len(want)-1].Head.Position
	for name, tc := range map[string]struct {
		sweep runevent.Sweep
		want  []runevent.Record
	}{
		"all":                                    {runevent.Sweep{Until: end}, want},
		"a part":                                 {runevent.Sweep{After: want[99].Head.Position, Until: want[399].Head.Position}, want[100:400]},
		"to the place of another stream's entry": {runevent.Sweep{Until: want[99].Head.Position + 1}, want[:100]},
		"nothing":                                {runevent.Sweep{After: end, Until: end + 1000}, nil},
		"to behind the end":                      {runevent.Sweep{After: want[len(want)-3].Head.Position, Until: end + 1000}, want[len(want)-2:]},
	} {
		if diff := cmp.Diff(tc.want, read(tc.sweep), cmp.AllowUnexported(cas.Digest{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	enough := errors.New("enough")
	calls := 0
	err := sweeper.Sweep(bounded(t), runevent.Sweep{Class: runevent.ClassRun, Namespace: main.Namespace, Session: main.Session, Until: end}, func(runevent.Record) error {
		calls++
		return enough
	})
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("%d calls, error %v; want the function's own after one", calls, err)
	}
}
