package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/tool"
)

// outputs are the entries of every stream of output of the world's session, by the stream's key.
func (w *world) outputs() map[string][]runevent.Entry {
	w.t.Helper()
	ends, err := w.log.Streams(context.Background(), "ns", "sess")
	if err != nil {
		w.t.Fatal(err)
	}
	found := map[string][]runevent.Entry{}
	for _, end := range ends {
		if end.Stream.Class != runevent.ClassOut {
			continue
		}
		last := runevent.Head{}
		if err := w.log.Read(context.Background(), end.Stream, 0, func(r runevent.Record) error {
			if err := runevent.Verify(last, r); err != nil {
				return err
			}
			last = r.Head
			e, err := runevent.Decode(r.Raw)
			found[end.Stream.Key] = append(found[end.Stream.Key], e)
			return err
		}); err != nil {
			w.t.Fatalf("read %s: %v", end.Stream, err)
		}
	}
	return found
}

// printed is what each stream of output holds: its texts, joined by "|".
func (w *world) printed() map[string]string {
	w.t.Helper()
	found := map[string]string{}
	for key, entries := range w.outputs() {
		var texts []string
		for _, e := range entries {
			texts = append(texts, fmt.Sprintf("%s %d %s", e.Event.CallID, e.Event.Attempt, e.Event.Text))
		}
		found[key] = strings.Join(texts, "|")
	}
	return found
}

// inRealTime executes a run with the bubble's clock.
func (w *world) inRealTime(t *testing.T) {
	t.Helper()
	deps := w.deps()
	deps.Now = time.Now
	deps.Sleep = func(_ context.Context, d time.Duration) error { pass(d); return nil }
	if got, err := Execute(t.Context(), deps, w.run("u1", "hi")); err != nil || got != completed {
		t.Fatalf("%+v, %v", got, err)
	}
}

// TestOutputIsMerged has a tool print at once and after a while: what comes close together is one entry, with the times
// of its first and last piece.
func TestOutputIsMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tools.definitions = []tool.Definition{defined("build")}
		var begun time.Time
		w.tools.printing = func(_ tool.Call, say func(string)) {
			begun = time.Now()
			for _, text := range []string{"one", "two\n", "", "three"} {
				say(text)
				pass(50 * time.Millisecond)
			}
			pass(time.Second)
			say("four")
		}
		w.model.replies = []reply{calls("build"), says("done")}
		w.inRealTime(t)
		var request runevent.Evidence
		for _, e := range w.entries() {
			if e.Event.Type == runevent.TypeToolCall {
				request = e.Event.Evidence
			}
		}
		for key, entries := range w.outputs() {
			if len(entries) != 2 || !strings.HasPrefix(key, "build-0-") || !strings.HasSuffix(key, "-1") {
				t.Fatalf("stream %s has %d entries, want 2", key, len(entries))
			}
			first, second := entries[0].Event, entries[1].Event
			if first.Text != "one\ntwo\nthree\n" || second.Text != "four\n" {
				t.Errorf("texts %q and %q", first.Text, second.Text)
			}
			ended := begun.Add(150 * time.Millisecond)
			want := runevent.Event{
				V: runevent.Version, Type: runevent.TypeToolOutput, CallID: "build-0", Name: "build", Attempt: 1, Text: first.Text,
				Evidence: runevent.Evidence{
					AgentID: "main", AgentRunID: "u1", RequestExecutionID: request.RequestExecutionID, Turn: request.Turn, ContextRef: request.ContextRef,
					RecordedAt: begun.UTC(), EndedAt: &ended,
				},
			}
			if diff := cmp.Diff(want, first, cmpopts.EquateComparable(cas.Digest{})); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
		}
		if len(w.outputs()) != 1 {
			t.Errorf("%d streams of output, want 1", len(w.outputs()))
		}
	})
}

// TestOutputIsBounded has a tool print without end: it is not held up, and what is kept ends with a notice.
func TestOutputIsBounded(t *testing.T) {
	w := newWorld(t)
	w.tools.definitions = []tool.Definition{defined("build")}
	w.tools.printing = func(_ tool.Call, say func(string)) {
		say(strings.Repeat("é", 20<<10))
		for range 3000 {
			say(strings.Repeat("x", 1000))
		}
	}
	w.model.replies = []reply{calls("build"), says("done")}
	if got, err := w.execute(t.Context(), w.run("u1", "hi")); err != nil || got != completed {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, entries := range w.outputs() {
		size, last := 0, ""
		for _, e := range entries {
			if size += len(e.Event.Text); len(e.Event.Text) > runevent.MaxInline || !utf8.ValidString(e.Event.Text) || strings.Contains(e.Event.Text, "\uFFFD") {
				t.Errorf("entry #%d has %d bytes, cut within a character or too long", e.Sequence, len(e.Event.Text))
			}
			last = e.Event.Text
		}
		if size < maxOutput-1001 || size > maxOutput+len(textOutputCut) || !strings.HasSuffix(last, "x\n"+textOutputCut) {
			t.Errorf("%d bytes are kept, the end is %q", size, last[max(0, len(last)-100):])
		}
	}
}

// TestOutputOfCallsBesideEachOther runs two calls of one message at a time, and one with an id of a model's own taste.
func TestOutputOfCallsBesideEachOther(t *testing.T) {
	w := newWorld(t)
	w.tools.definitions = []tool.Definition{defined("a", repeatable), defined("b", repeatable)}
	w.tools.printing = func(call tool.Call, say func(string)) { say("I am " + call.ID) }
	w.model.replies = []reply{calls("a", "b"), calls("a"), says("done")}
	if got, err := w.execute(t.Context(), w.run("u1", "hi")); err != nil || got != completed {
		t.Fatalf("%+v, %v", got, err)
	}
	count := map[string]int{}
	for _, text := range w.printed() {
		count[text]++
	}
	// The second turn's call has the id of one of the first: it has a stream of its own all the same.
	if diff := cmp.Diff(map[string]int{"a-0 1 I am a-0\n": 2, "b-1 1 I am b-1\n": 1}, count); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
	for _, id := range []string{"", "call.1/ü*", strings.Repeat("é", 300)} {
		stream := runevent.Stream{Class: runevent.ClassOut, Namespace: "ns", Session: "sess", Key: outputKey(w.run("u1", ""), "r", id, 12)}
		if err := stream.Validate(); err != nil {
			t.Errorf("the key for call id %q: %v", id, err)
		}
	}
}

// TestOutputOfAnotherAttempt kills the worker while a tool prints: the next execution has a stream of its own.
func TestOutputOfAnotherAttempt(t *testing.T) {
	w := newWorld(t)
	w.tools.definitions = []tool.Definition{defined("read", repeatable)}
	attempt := 0
	w.tools.printing = func(_ tool.Call, say func(string)) {
		attempt++
		say(fmt.Sprintf("attempt %d", attempt))
	}
	w.model.replies = []reply{calls("read"), says("done")}
	w.runUntil(w.run("u1", "hi"), "tool.output", 1)
	if got, err := w.execute(t.Context(), w.run("u1", "hi")); err != nil || got != completed {
		t.Fatalf("takeover: %+v, %v", got, err)
	}
	key := ""
	for k := range w.printed() {
		key = strings.TrimRight(k, "12")
	}
	if diff := cmp.Diff(map[string]string{key + "1": "read-0 1 attempt 1\n", key + "2": "read-0 2 attempt 2\n"}, w.printed()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

// outputLog is a log that treats output in its own way.
type outputLog struct {
	runevent.Log
	output func() error
}

func (o *outputLog) Append(ctx context.Context, stream runevent.Stream, expect runevent.Head, raw []byte) (runevent.Head, error) {
	if stream.Class == runevent.ClassOut {
		if err := o.output(); err != nil {
			return runevent.Head{}, err
		}
	}
	return o.Log.Append(ctx, stream, expect, raw)
}

// TestOutputThatCannotBeStored runs a tool whose output the log does not take. The tool is not held up, and the run goes
// its way.
func TestOutputThatCannotBeStored(t *testing.T) {
	refused := errors.New("refused")
	cases := map[string]struct {
		output func() error
		kept   int
		took   time.Duration
	}{
		"a log that is away for good":  {func() error { return runevent.ErrUnavailable }, 0, outputFlush},
		"a log that refuses":           {func() error { return refused }, 0, 0},
		"a stream that another has":    {func() error { return runevent.ErrFenced }, 0, 0},
		"a log that is slow":           {func() error { pass(time.Second); return nil }, 1, time.Second},
		"a log that is away and comes": {away(3), 1, 3 * saveBackoff},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.tools.definitions = []tool.Definition{defined("build")}
				w.log = &outputLog{Log: w.log, output: tc.output}
				var held, returned time.Duration
				var begun time.Time
				w.tools.printing = func(_ tool.Call, say func(string)) {
					begun = time.Now()
					for range 1000 {
						say("line")
					}
					held = time.Since(begun)
				}
				w.model.replies = []reply{calls("build"), says("done")}
				w.inRealTime(t)
				returned = time.Since(begun)
				if held != 0 || returned < tc.took || returned > tc.took+outputAppend {
					t.Errorf("the tool was held up for %s, its result for %s, want 0 and about %s", held, returned, tc.took)
				}
				if got := len(w.outputs()); got != tc.kept {
					t.Errorf("%d streams were kept, want %d", got, tc.kept)
				}
			})
		})
	}
}

// away is a log that fails n times.
func away(n int) func() error {
	return func() error {
		if n--; n >= 0 {
			return runevent.ErrUnavailable
		}
		return nil
	}
}
