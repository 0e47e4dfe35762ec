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

// singles holds a log to what reading records by their places is, when it can.
func singles(t *testing.T, log runevent.Log) {
	placed, ok := log.(interface {
		Records(ctx context.Context, stream runevent.Stream, places []runevent.Head) ([]runevent.Record, error)
	})
	if !ok {
		return
	}
	stream, other := NewStream(), NewStream()
	all := Fill(t, log, stream, runevent.Head{}, 5)
	stranger := Fill(t, log, other, runevent.Head{}, 1)[0]
	at := func(sequence int64, position uint64) runevent.Head {
		return runevent.Head{Sequence: sequence, Position: position}
	}
	got, err := placed.Records(bounded(t), stream, []runevent.Head{
		at(4, all[3].Head.Position), at(1, all[0].Head.Position), at(3, all[1].Head.Position), at(1, stranger.Head.Position), at(6, stranger.Head.Position+1000),
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]runevent.Record{all[3], all[0], {}, {}, {}}, got, cmp.AllowUnexported(cas.Digest{})); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if got, err := placed.Records(bounded(t), stream, nil); err != nil || len(got) != 0 {
		t.Errorf("none: %v, %v", got, err)
	}
	if _, err := placed.Records(bounded(t), runevent.Stream{}, nil); !errors.Is(err, runevent.ErrInvalid) {
		t.Errorf("no stream: %v", err)
	}
}
