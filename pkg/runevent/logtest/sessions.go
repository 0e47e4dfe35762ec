package logtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/agentloop/agentloop/pkg/runevent"
)

func streams(t *testing.T, log runevent.Log) {
	main := NewStream()
	out, sub, longer, neighbour := main, main, main, main
	out.Class, out.Key = runevent.ClassOut, "call_1-2"
	sub.Key = "reviewer-0a1b"
	longer.Session += "0"
	neighbour.Namespace = "team-b"
	want := []runevent.Record{
		Fill(t, log, out, runevent.Head{}, 1)[0],
		Fill(t, log, main, runevent.Head{}, 4)[3],
		Fill(t, log, sub, runevent.Head{}, 2)[1],
	}
	Fill(t, log, longer, runevent.Head{}, 1)
	Fill(t, log, neighbour, runevent.Head{}, 1)
	got, err := log.Streams(bounded(t), main.Namespace, main.Session)
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(want, got); d != "" {
		t.Errorf("streams (-want +got):\n%s", d)
	}
}

func manyStreams(t *testing.T, log runevent.Log) {
	const n = 600
	stream := NewStream()
	stream.Class = runevent.ClassOut
	want := make([]runevent.Record, n)
	ctx := bounded(t)
	var wg sync.WaitGroup
	for worker := range 10 {
		wg.Go(func() {
			for i := worker; i < n; i += 10 {
				one := stream
				one.Key = fmt.Sprintf("call-%04d", i)
				records, err := fill(ctx, log, one, runevent.Head{}, 1)
				if err != nil {
					t.Error(err)
					return
				}
				want[i] = records[0]
			}
		})
	}
	wg.Wait()
	got, err := log.Streams(bounded(t), stream.Namespace, stream.Session)
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(want, got); d != "" {
		t.Errorf("streams (-want +got):\n%s", d)
	}
}

func purge(t *testing.T, log runevent.Log) {
	stream := NewStream()
	out, kept := stream, stream
	out.Class = runevent.ClassOut
	kept.Session += "0"
	head := Fill(t, log, stream, runevent.Head{}, 3)[2].Head
	Fill(t, log, out, runevent.Head{}, 1)
	want := Fill(t, log, kept, runevent.Head{}, 2)
	for range 2 {
		if err := log.Purge(bounded(t), stream.Namespace, stream.Session); err != nil {
			t.Fatal(err)
		}
		if got, err := log.Streams(bounded(t), stream.Namespace, stream.Session); err != nil || len(got) != 0 {
			t.Errorf("streams %v, %v", got, err)
		}
	}
	if d := diff(want, ReadAll(t, log, kept, runevent.Head{})); d != "" {
		t.Errorf("another session lost entries: %s", d)
	}
	if _, err := log.Append(bounded(t), stream, head, Entry(head, "late")); !errors.Is(err, runevent.ErrTruncated) {
		t.Errorf("append after the purge: %v, want ErrTruncated", err)
	}
	if err := log.Read(bounded(t), stream, head.Sequence, func(runevent.Record) error { return nil }); !errors.Is(err, runevent.ErrTruncated) {
		t.Errorf("read after the purge: %v, want ErrTruncated", err)
	}
}

func beginAgain(t *testing.T, log runevent.Log) {
	stream := NewStream()
	Fill(t, log, stream, runevent.Head{}, 3)
	ReadAll(t, log, stream, runevent.Head{}) // whatever is remembered of it is wrong after the purge
	if err := log.Purge(bounded(t), stream.Namespace, stream.Session); err != nil {
		t.Fatal(err)
	}
	want := Fill(t, log, stream, runevent.Head{}, 8)
	for _, after := range []int{4, 3, 0} {
		head := runevent.Head{}
		if after > 0 {
			head = want[after-1].Head
		}
		if d := diff(want[after:], ReadAll(t, log, stream, head)); d != "" {
			t.Errorf("after %d: %s", after, d)
		}
	}
}

func tails(t *testing.T, log runevent.Log) {
	stream := NewStream()
	var head runevent.Head
	for range 5 {
		want := Fill(t, log, stream, head, 90)
		if d := diff(want, ReadAll(t, log, stream, head)); d != "" {
			t.Errorf("after %d: %s", head.Sequence, d)
		}
		head = want[len(want)-1].Head
	}
}

func cancelled(t *testing.T, log runevent.Log) {
	stream := NewStream()
	head := Fill(t, log, stream, runevent.Head{}, 1)[0].Head
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	calls := map[string]error{
		"append":  second(log.Append(ended, stream, head, Entry(head, "never"))),
		"read":    log.Read(ended, stream, 0, func(runevent.Record) error { return nil }),
		"last":    second(log.Last(ended, stream)),
		"streams": second(log.Streams(ended, stream.Namespace, stream.Session)),
		"purge":   log.Purge(ended, stream.Namespace, stream.Session),
	}
	for call, err := range calls {
		if !errors.Is(err, runevent.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v, want ErrUnavailable and why", call, err)
		}
	}
	if got := ReadAll(t, log, stream, runevent.Head{}); len(got) != 1 {
		t.Errorf("%d entries", len(got))
	}
}

func parallel(t *testing.T, log runevent.Log) {
	const streams, entries = 16, 20
	session := NewStream()
	ctx := bounded(t)
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			stream := session
			stream.Key = fmt.Sprintf("agent-%d", i)
			want, err := fill(ctx, log, stream, runevent.Head{}, entries)
			if err != nil {
				t.Error(err)
				return
			}
			got, err := readAll(ctx, log, stream, runevent.Head{})
			if d := diff(want, got); err != nil || d != "" {
				t.Errorf("%s: %v %s", stream, err, d)
			}
		})
	}
	wg.Wait()
}
