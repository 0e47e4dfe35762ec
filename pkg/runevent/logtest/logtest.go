// Package logtest is the conformance suite of runevent.Log: what every log must do, run against each.
//
// Guarantees: Run uses sessions of its own, so that one log may serve several runs; a log that passes may be used by a
// runevent.Writer as its contract says.
package logtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// Run runs the suite. newLog returns a log for one test; it may be the same each time.
func Run(t *testing.T, newLog func(*testing.T) runevent.Log) {
	cases := map[string]func(*testing.T, runevent.Log){
		"an empty stream has no entries":                  emptyStream,
		"entries come back in order, from any place":      readRanges,
		"a growing stream is read on from where it ended": tails,
		"a read ends at the end that it saw":              readEnds,
		"two appenders: one is fenced":                    fencing,
		"many appenders at once: one is stored":           race,
		"the same append again is a success":              repeats,
		"what does not fit the chain is refused":          refusals,
		"the largest entry is stored":                     largest,
		"bytes belong to the caller":                      ownership,
		"streams of a session are listed":                 streams,
		"a session may have very many streams":            manyStreams,
		"a purge removes one session and nothing else":    purge,
		"a purged session may begin again, byte for byte": beginAgain,
		"an ended context stops every call":               cancelled,
		"streams do not disturb each other":               parallel,
		"a sweep has all streams of a session":            sweeps,
		"records are found where they stand":              singles,
		"the beginning of a stream is removed":            trims,
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) { test(t, newLog(t)) })
	}
}

// NewStream returns the main stream of a session that no other test uses.
func NewStream() runevent.Stream {
	return runevent.Stream{
		Class: runevent.ClassRun, Namespace: "team-a", Session: fmt.Sprintf("%016x", rand.Uint64()), Key: runevent.MainAgent,
	}
}

// Entry returns the bytes of an entry with text that follows head.
func Entry(head runevent.Head, text string) []byte {
	now := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC).Add(time.Duration(head.Sequence) * time.Second)
	raw, err := runevent.Encode(runevent.Entry{CreatedAt: now, Sequence: head.Sequence + 1, Event: runevent.Event{
		V: runevent.Version, Type: runevent.TypeBody, Text: text,
		Evidence: runevent.Evidence{AgentID: "main", AgentRunID: "run-1", RecordedAt: now, Prev: head.Digest},
	}})
	if err != nil {
		panic(err) // only a text that is far too long
	}
	return raw
}

// Fill appends n entries after head and returns their records. It must be called from the test's own goroutine.
func Fill(tb testing.TB, log runevent.Log, stream runevent.Stream, head runevent.Head, n int) []runevent.Record {
	tb.Helper()
	records, err := fill(bounded(tb), log, stream, head, n)
	if err != nil {
		tb.Fatal(err)
	}
	return records
}

func fill(ctx context.Context, log runevent.Log, stream runevent.Stream, head runevent.Head, n int) ([]runevent.Record, error) {
	var records []runevent.Record
	for range n {
		raw := Entry(head, fmt.Sprintf("entry %d of %s", head.Sequence+1, stream))
		next, err := log.Append(ctx, stream, head, raw)
		if err != nil {
			return nil, fmt.Errorf("append entry %d: %w", head.Sequence+1, err)
		}
		head = next
		records = append(records, runevent.Record{Stream: stream, Head: head, Raw: raw})
	}
	return records, nil
}

// ReadAll returns the records after a head and fails when they are no chain.
func ReadAll(tb testing.TB, log runevent.Log, stream runevent.Stream, after runevent.Head) []runevent.Record {
	tb.Helper()
	records, err := readAll(bounded(tb), log, stream, after)
	if err != nil {
		tb.Fatal(err)
	}
	return records
}

func readAll(ctx context.Context, log runevent.Log, stream runevent.Stream, after runevent.Head) ([]runevent.Record, error) {
	var records []runevent.Record
	prev := after
	err := log.Read(ctx, stream, after.Sequence, func(rec runevent.Record) error {
		if err := runevent.Verify(prev, rec); err != nil {
			return err
		}
		prev = rec.Head
		records = append(records, rec)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %s after %d: %w", stream, after.Sequence, err)
	}
	return records, nil
}

// bounded gives a call more time than any healthy log needs.
func bounded(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

// diff describes the first record that differs; empty when none does.
func diff(want, got []runevent.Record) string {
	for i := range min(len(want), len(got)) {
		a, b := want[i], got[i] //nolint:gosec // i is below both lengths
		if a.Stream != b.Stream || a.Head != b.Head || !bytes.Equal(a.Raw, b.Raw) {
			return fmt.Sprintf("record %d (-want +got):\n%s", i, cmp.Diff(a, b, cmp.AllowUnexported(cas.Digest{})))
		}
	}
	if len(want) != len(got) {
		return fmt.Sprintf("%d records, want %d", len(got), len(want))
	}
	return ""
}

func emptyStream(t *testing.T, log runevent.Log) {
	stream := NewStream()
	last, err := log.Last(bounded(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	if d := diff([]runevent.Record{{}}, []runevent.Record{last}); d != "" {
		t.Errorf("last of an empty stream: %s", d)
	}
	if got := ReadAll(t, log, stream, runevent.Head{}); len(got) != 0 {
		t.Errorf("%d records", len(got))
	}
	if got, err := log.Streams(bounded(t), stream.Namespace, stream.Session); err != nil || len(got) != 0 {
		t.Errorf("streams %v, %v", got, err)
	}
}

func readRanges(t *testing.T, log runevent.Log) {
	const n = 600
	stream, other := NewStream(), NewStream()
	var records []runevent.Record
	var head, otherHead runevent.Head
	for len(records) < n { // entries of other streams stand between
		records = append(records, Fill(t, log, stream, head, 1+len(records)%7)...)
		head = records[len(records)-1].Head
		if len(records)%3 == 0 {
			otherHead = Fill(t, log, other, otherHead, 1)[0].Head
		}
	}
	heads := []runevent.Head{{}}
	for i, rec := range records {
		if rec.Head.Sequence != int64(i+1) || (i > 0 && rec.Head.Position <= records[i-1].Head.Position) {
			t.Fatalf("head %d is %+v", i, rec.Head)
		}
		heads = append(heads, rec.Head)
	}
	last := len(records)
	for _, after := range []int{0, 1, 63, 64, 65, 150, 255, 256, 257, last - 130, last - 65, last - 2, last - 1, last, 300, 0} {
		if d := diff(records[after:], ReadAll(t, log, stream, heads[after])); d != "" {
			t.Fatalf("after %d: %s", after, d)
		}
	}
	got, err := log.Last(bounded(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(records[last-1:], []runevent.Record{got}); d != "" {
		t.Errorf("last: %s", d)
	}
	err = log.Read(bounded(t), stream, int64(last+1), func(runevent.Record) error { return nil })
	if !errors.Is(err, runevent.ErrTruncated) {
		t.Errorf("after its end: %v, want ErrTruncated", err)
	}
}

func readEnds(t *testing.T, log runevent.Log) {
	stream := NewStream()
	records := Fill(t, log, stream, runevent.Head{}, 3)
	head, seen := records[2].Head, 0
	err := log.Read(bounded(t), stream, 0, func(runevent.Record) error {
		seen++
		head = Fill(t, log, stream, head, 1)[0].Head
		return nil
	})
	if err != nil || seen != 3 {
		t.Errorf("saw %d entries (%v), want the 3 of the beginning", seen, err)
	}
	enough := errors.New("enough")
	seen = 0
	err = log.Read(bounded(t), stream, 0, func(runevent.Record) error {
		seen++
		return enough
	})
	if err != enough || seen != 1 { //nolint:errorlint // the error must come back as it is
		t.Errorf("%d entries, error %v", seen, err)
	}
}

func fencing(t *testing.T, log runevent.Log) {
	stream := NewStream()
	first := Fill(t, log, stream, runevent.Head{}, 1)[0]
	second := Fill(t, log, stream, first.Head, 1)[0]
	late := Entry(first.Head, "of the first appender")
	for range 2 {
		if _, err := log.Append(bounded(t), stream, first.Head, late); !errors.Is(err, runevent.ErrFenced) || errors.Is(err, runevent.ErrTruncated) {
			t.Errorf("error %v, want ErrFenced", err)
		}
	}
	if _, err := log.Append(bounded(t), stream, runevent.Head{}, Entry(runevent.Head{}, "a new beginning")); !errors.Is(err, runevent.ErrFenced) {
		t.Errorf("error %v, want ErrFenced", err)
	}
	lost := second.Head
	lost.Sequence, lost.Position, lost.Digest = 7, lost.Position+1000, cas.Of([]byte("an entry that is gone"))
	if _, err := log.Append(bounded(t), stream, lost, Entry(lost, "after it")); !errors.Is(err, runevent.ErrTruncated) || !errors.Is(err, runevent.ErrFenced) {
		t.Errorf("error %v, want ErrTruncated", err)
	}
	if d := diff([]runevent.Record{first, second}, ReadAll(t, log, stream, runevent.Head{})); d != "" {
		t.Errorf("stored: %s", d)
	}
}

func race(t *testing.T, log runevent.Log) {
	stream := NewStream()
	first := Fill(t, log, stream, runevent.Head{}, 1)[0]
	heads := make([]runevent.Head, 8)
	errs := make([]error, len(heads))
	var wg sync.WaitGroup
	for i := range heads {
		raw := Entry(first.Head, fmt.Sprintf("of appender %d", i))
		wg.Go(func() { heads[i], errs[i] = log.Append(bounded(t), stream, first.Head, raw) })
	}
	wg.Wait()
	stored := ReadAll(t, log, stream, first.Head)
	if len(stored) != 1 {
		t.Fatalf("%d entries stored", len(stored))
	}
	won := 0
	for i, err := range errs {
		switch {
		case err == nil && heads[i] == stored[0].Head:
			won++
		case !errors.Is(err, runevent.ErrFenced):
			t.Errorf("appender %d: head %+v, error %v", i, heads[i], err)
		}
	}
	if won != 1 {
		t.Errorf("%d appenders were told that they won", won)
	}
}

func repeats(t *testing.T, log runevent.Log) {
	stream := NewStream()
	records := Fill(t, log, stream, runevent.Head{}, 2)
	for range 3 {
		head, err := log.Append(bounded(t), stream, records[0].Head, records[1].Raw)
		if err != nil || head != records[1].Head {
			t.Errorf("again: %+v, %v", head, err)
		}
	}
	if _, err := log.Append(bounded(t), stream, runevent.Head{}, records[0].Raw); !errors.Is(err, runevent.ErrFenced) {
		t.Errorf("an older entry again: %v, want ErrFenced", err)
	}
	if d := diff(records, ReadAll(t, log, stream, runevent.Head{})); d != "" {
		t.Errorf("stored: %s", d)
	}
}

func refusals(t *testing.T, log runevent.Log) {
	stream := NewStream()
	head := Fill(t, log, stream, runevent.Head{}, 1)[0].Head
	dotted, unlinked := stream, head
	dotted.Session = "a.b"
	unlinked.Digest = cas.Of([]byte("another entry"))
	next := Entry(head, "next")
	cases := map[string]struct {
		stream runevent.Stream
		raw    []byte
		want   error
	}{
		"a stream that has no good name":  {dotted, next, runevent.ErrInvalid},
		"bytes that are no entry":         {stream, next[:len(next)-1], runevent.ErrDamaged},
		"an entry with a later sequence":  {stream, Entry(runevent.Head{Sequence: 2, Digest: head.Digest}, "x"), runevent.ErrGap},
		"an entry that names another one": {stream, Entry(unlinked, "x"), runevent.ErrLink},
		"an entry that is too large":      {stream, []byte(strings.Repeat(" ", runevent.MaxEntry) + string(next)), runevent.ErrTooLarge},
	}
	for name, tc := range cases {
		if _, err := log.Append(bounded(t), tc.stream, head, tc.raw); !errors.Is(err, tc.want) {
			t.Errorf("%s: error %v, want %v", name, err, tc.want)
		}
	}
	if got := ReadAll(t, log, stream, head); len(got) != 0 {
		t.Errorf("%d entries were stored", len(got))
	}
	bad := map[string]error{
		"last":    second(log.Last(bounded(t), dotted)),
		"read":    log.Read(bounded(t), dotted, 0, func(runevent.Record) error { return nil }),
		"streams": second(log.Streams(bounded(t), "*", stream.Session)),
		"purge":   log.Purge(bounded(t), stream.Namespace, ">"),
	}
	for call, err := range bad {
		if !errors.Is(err, runevent.ErrInvalid) {
			t.Errorf("%s with a bad name: %v, want ErrInvalid", call, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func largest(t *testing.T, log runevent.Log) {
	stream := NewStream()
	room := runevent.MaxEntry - len(Entry(runevent.Head{}, ""))
	raw := Entry(runevent.Head{}, strings.Repeat("x", room-len(`"text":"",`)))
	if len(raw) != runevent.MaxEntry {
		t.Fatalf("the entry has %d bytes", len(raw))
	}
	head, err := log.Append(bounded(t), stream, runevent.Head{}, raw)
	if err != nil {
		t.Fatal(err)
	}
	Fill(t, log, stream, head, 2)
	if got := ReadAll(t, log, stream, runevent.Head{}); len(got) != 3 || string(got[0].Raw) != string(raw) {
		t.Error("it did not come back")
	}
}

func ownership(t *testing.T, log runevent.Log) {
	stream := NewStream()
	raw := Entry(runevent.Head{}, "text")
	want := string(raw)
	if _, err := log.Append(bounded(t), stream, runevent.Head{}, raw); err != nil {
		t.Fatal(err)
	}
	clear(raw)
	for range 2 {
		got := ReadAll(t, log, stream, runevent.Head{})
		if len(got) != 1 || string(got[0].Raw) != want {
			t.Fatal("the log keeps the bytes that it was given or gave")
		}
		clear(got[0].Raw)
	}
}
