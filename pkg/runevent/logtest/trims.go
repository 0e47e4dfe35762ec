package logtest

import (
	"context"
	"errors"
	"testing"

	"github.com/agentloop/agentloop/pkg/runevent"
)

// trims holds a log to what Trim is, when it has one: not every log needs to.
func trims(t *testing.T, log runevent.Log) {
	trimmer, ok := log.(interface {
		Trim(ctx context.Context, stream runevent.Stream, through int64) error
	})
	if !ok {
		return
	}
	stream := NewStream()
	beside := stream
	beside.Key = "worker-1"
	var head, other runevent.Head
	for range 30 { // the streams' entries stand between each other
		made := Fill(t, log, stream, head, 10)
		head = made[len(made)-1].Head
		made = Fill(t, log, beside, other, 3)
		other = made[len(made)-1].Head
	}
	numbers := func(stream runevent.Stream, after int64) []int64 {
		t.Helper()
		var got []int64
		err := log.Read(bounded(t), stream, after, func(rec runevent.Record) error {
			got = append(got, rec.Head.Sequence)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	// expect reads until it is so: a replica that is behind shows for a moment what was removed.
	expect := func(what string, stream runevent.Stream, after, first, last int64) {
		t.Helper()
		patience := bounded(t)
		for {
			got := numbers(stream, after)
			if int64(len(got)) == last-first+1 && got[0] == first && got[len(got)-1] == last {
				return
			}
			if patience.Err() != nil || len(got) == 0 || got[len(got)-1] != last || got[0] > first {
				t.Errorf("%s: got %v, want %d to %d", what, got, first, last)
				return
			}
		}
	}
	numbers(stream, 0) // what the log remembers of it must not lead it astray later
	for _, through := range []int64{7, 7, 3, 260} {
		if err := trimmer.Trim(bounded(t), stream, through); err != nil {
			t.Fatalf("trim through %d: %v", through, err)
		}
	}
	expect("what is left", stream, 0, 261, 300)
	expect("from within what is gone", stream, 250, 261, 300)
	expect("from the last that is gone", stream, 260, 261, 300)
	expect("from what is left", stream, 299, 300, 300)
	expect("the stream beside it", beside, 0, 1, 90)
	for _, through := range []int64{300, 301} {
		if err := trimmer.Trim(bounded(t), stream, through); !errors.Is(err, runevent.ErrInvalid) {
			t.Errorf("trim through %d of 300: %v, want ErrInvalid", through, err)
		}
	}
	if err := trimmer.Trim(bounded(t), stream, 299); err != nil {
		t.Fatal(err)
	}
	expect("the last one stays", stream, 0, 300, 300)
	if last, err := log.Last(bounded(t), stream); err != nil || last.Head.Digest != head.Digest {
		t.Errorf("the last entry is %d, %v", last.Head.Sequence, err)
	}
	Fill(t, log, stream, head, 5)
	expect("it goes on", stream, 0, 300, 305)
	if err := trimmer.Trim(bounded(t), NewStream(), 1); !errors.Is(err, runevent.ErrInvalid) {
		t.Errorf("trim of an empty stream: %v, want ErrInvalid", err)
	}
}
