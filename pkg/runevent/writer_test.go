package runevent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
)

var (
	stream = runevent.Stream{Class: runevent.ClassRun, Namespace: "team-a", Session: "uid-1", Key: runevent.MainAgent}
	start  = time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
)

// clock moves on by a second at each reading.
func clock() func() time.Time {
	var mu sync.Mutex
	now := start
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}
}

func newWriter(t *testing.T, log runevent.Log, put runevent.Put) *runevent.Writer {
	t.Helper()
	w, _, err := runevent.OpenWriter(t.Context(), log, runevent.WriterConfig{Stream: stream, Now: clock(), Put: put})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func body(text string) runevent.Event {
	return runevent.Event{Type: runevent.TypeBody, Text: text, Evidence: runevent.Evidence{AgentID: "main", AgentRunID: "run-1"}}
}

func entries(t *testing.T, log runevent.Log) []runevent.Entry {
	t.Helper()
	var out []runevent.Entry
	var prev runevent.Head
	err := log.Read(t.Context(), stream, 0, func(rec runevent.Record) error {
		if err := runevent.Verify(prev, rec); err != nil {
			return err
		}
		prev = rec.Head
		e, err := runevent.Decode(rec.Raw)
		out = append(out, e)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func texts(t *testing.T, log runevent.Log) []string {
	t.Helper()
	var out []string
	for _, e := range entries(t, log) {
		out = append(out, e.Event.Text)
	}
	return out
}

func TestWriterNumbersLinksAndStamps(t *testing.T) {
	log := memlog.New()
	w := newWriter(t, log, nil)
	state := &cas.Ref{Digest: cas.Of([]byte("state")), Size: 5}
	committed := runevent.Event{Type: runevent.TypeRecord, Kind: runevent.KindStateCommitted,
		Evidence: runevent.Evidence{RecordedAt: start.Add(-time.Hour), StateRef: state}}
	for _, event := range []runevent.Event{body("before"), committed, body("after")} {
		head, rec, err := w.Append(t.Context(), event)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(head, rec.Head, cmp.AllowUnexported(cas.Digest{})); diff != "" || rec.Stream != stream {
			t.Errorf("record does not stand at the head: %s", diff)
		}
	}
	got := entries(t, log)
	if len(got) != 3 {
		t.Fatalf("%d entries", len(got))
	}
	if got[0].Event.Evidence.StateRef != nil || got[2].Event.Evidence.StateRef == nil || *got[2].Event.Evidence.StateRef != *state {
		t.Errorf("the state reference does not travel on: %v, %v", got[0].Event.Evidence.StateRef, got[2].Event.Evidence.StateRef)
	}
	if !got[1].Event.Evidence.RecordedAt.Equal(start.Add(-time.Hour)) || !got[1].CreatedAt.Equal(start.Add(2*time.Second)) {
		t.Errorf("times %v %v", got[1].Event.Evidence.RecordedAt, got[1].CreatedAt)
	}
	if !got[2].Event.Evidence.RecordedAt.Equal(got[2].CreatedAt) {
		t.Errorf("an unset capture time must be the time of the append")
	}

	next, last, err := runevent.OpenWriter(t.Context(), log, runevent.WriterConfig{Stream: stream, Now: clock()})
	if err != nil || last.Head != w.Head() {
		t.Fatalf("open: %v at %v, want %v", err, last.Head, w.Head())
	}
	if _, _, err := next.Append(t.Context(), body("of the next writer")); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, log); *got[3].Event.Evidence.StateRef != *state {
		t.Error("the next writer lost the state reference")
	}
}

func TestWriterStopsForEverOnceFenced(t *testing.T) {
	log := memlog.New()
	first := newWriter(t, log, nil)
	if _, _, err := first.Append(t.Context(), body("a")); err != nil {
		t.Fatal(err)
	}
	second := newWriter(t, log, nil)
	if _, _, err := second.Append(t.Context(), body("b")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, _, err := first.Append(t.Context(), body("late")); !errors.Is(err, runevent.ErrFenced) {
			t.Fatalf("error %v, want ErrFenced", err)
		}
	}
	if _, _, err := first.Settle(t.Context()); !errors.Is(err, runevent.ErrFenced) {
		t.Errorf("error %v, want ErrFenced", err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, texts(t, log)); diff != "" {
		t.Error(diff)
	}
}

// flaky loses the answer of an append, after or before it was stored.
type flaky struct {
	runevent.Log
	lose map[int]string
	n    int
}

func (f *flaky) Append(ctx context.Context, s runevent.Stream, expect runevent.Head, raw []byte) (runevent.Head, error) {
	f.n++
	switch f.lose[f.n] {
	case "before":
		return runevent.Head{}, fmt.Errorf("%w: timeout", runevent.ErrUnavailable)
	case "after":
		if _, err := f.Log.Append(ctx, s, expect, raw); err != nil {
			return runevent.Head{}, err
		}
		return runevent.Head{}, fmt.Errorf("%w: timeout", runevent.ErrUnavailable)
	case "refuse":
		return runevent.Head{}, errors.New("no such stream")
	}
	return f.Log.Append(ctx, s, expect, raw)
}

func TestWriterAfterAnUnknownOutcome(t *testing.T) {
	cases := map[string]struct {
		lose   map[int]string
		settle bool
		want   []string
	}{
		"stored, then the next append":        {map[int]string{2: "after"}, false, []string{"a", "b", "c"}},
		"not stored, then the next append":    {map[int]string{2: "before"}, false, []string{"a", "b", "c"}},
		"stored, then settled":                {map[int]string{2: "after"}, true, []string{"a", "b", "c"}},
		"not stored, then settled":            {map[int]string{2: "before"}, true, []string{"a", "b", "c"}},
		"refused for good: it is not kept":    {map[int]string{2: "refuse"}, false, []string{"a", "c"}},
		"refused for good: nothing to settle": {map[int]string{2: "refuse"}, true, []string{"a", "c"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			log := &flaky{Log: memlog.New(), lose: tc.lose}
			w := newWriter(t, log, nil)
			if _, _, err := w.Append(t.Context(), body("a")); err != nil {
				t.Fatal(err)
			}
			if _, _, err := w.Append(t.Context(), body("b")); err == nil {
				t.Fatal("the failure was not reported")
			}
			if w.Head().Sequence != 1 {
				t.Errorf("head %d, want the last entry that is certain", w.Head().Sequence)
			}
			if tc.settle {
				head, rec, err := w.Settle(t.Context())
				if err != nil || int(head.Sequence) != len(tc.want)-1 || (rec.Head.Sequence > 0) != (len(tc.want) == 3) {
					t.Errorf("settle: %v, head %d, record %d", err, head.Sequence, rec.Head.Sequence)
				}
			}
			if _, _, err := w.Append(t.Context(), body("c")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, texts(t, log)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWriterMovesLongFieldsToObjectsFirst(t *testing.T) {
	long := strings.Repeat("x", runevent.MaxInline+1)
	log := memlog.New()
	stored := map[cas.Digest]string{}
	put := func(_ context.Context, mediaType string, data []byte) (cas.Ref, error) {
		if last, err := log.Last(t.Context(), stream); err != nil || last.Head.Sequence != 0 {
			t.Errorf("the entry was stored before its object (%v)", err)
		}
		ref := cas.Ref{Digest: cas.Of(data), Size: int64(len(data)), MediaType: mediaType}
		stored[ref.Digest] = string(data)
		return ref, nil
	}
	w := newWriter(t, log, put)
	event := runevent.Event{Type: runevent.TypeToolCall, Text: long, Body: []byte(`"` + long + `"`), Arguments: []byte(`{"a":"` + long + `"}`)}
	if _, _, err := w.Append(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	got := entries(t, log)[0].Event
	if got.Text != "" || got.Body != nil || got.Arguments != nil {
		t.Error("a long field stayed inline")
	}
	if stored[got.TextRef.Digest] != long || stored[got.Ref.Digest] != string(event.Body) || stored[got.ArgumentsRef.Digest] != string(event.Arguments) {
		t.Error("an object does not hold its field")
	}

	failing := newWriter(t, memlog.New(), func(context.Context, string, []byte) (cas.Ref, error) { return cas.Ref{}, errors.New("no space") })
	if _, _, err := failing.Append(t.Context(), event); err == nil || failing.Head().Sequence != 0 {
		t.Errorf("appended without its object: %v", err)
	}
	inline := newWriter(t, log, nil)
	if _, rec, err := inline.Append(t.Context(), body(long)); err != nil || !strings.Contains(string(rec.Raw), long) {
		t.Errorf("without Put a long text stays inline: %v", err)
	}
}

func TestWriterKeepsOneAppendInFlight(t *testing.T) {
	log := &exclusive{Log: memlog.New()}
	w := newWriter(t, log, nil)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, _, err := w.Append(t.Context(), body("x")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := len(entries(t, log)); got != 50 || log.overlap {
		t.Errorf("%d entries, overlapping appends: %v", got, log.overlap)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := w.Append(ended, body("y")); err == nil {
		t.Error("appended under an ended context")
	}
	if _, _, err := w.Append(t.Context(), body("z")); err != nil {
		t.Error(err)
	}
}

type exclusive struct {
	runevent.Log
	mu      sync.Mutex
	overlap bool
}

func (x *exclusive) Append(ctx context.Context, s runevent.Stream, expect runevent.Head, raw []byte) (runevent.Head, error) {
	if !x.mu.TryLock() {
		x.overlap = true
		x.mu.Lock()
	}
	defer x.mu.Unlock()
	return x.Log.Append(ctx, s, expect, raw)
}

func TestOpenWriterRefusesANewerFormat(t *testing.T) {
	log := newerLog{memlog.New()}
	_, _, err := runevent.OpenWriter(t.Context(), log, runevent.WriterConfig{Stream: stream, Now: clock()})
	if !errors.Is(err, runevent.ErrNewerFormat) {
		t.Errorf("error %v, want ErrNewerFormat", err)
	}
}

type newerLog struct{ runevent.Log }

func (newerLog) Last(context.Context, runevent.Stream) (runevent.Record, error) {
	raw := []byte(`{"sequence":3,"event":{"v":2,"type":"body"}}`)
	return runevent.Record{Stream: stream, Raw: raw, Head: runevent.HeadOf(3, 3, raw)}, nil
}
