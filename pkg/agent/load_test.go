package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// sameState compares session states: digests by value, and an absent list like an empty one.
var sameState = cmp.Options{cmp.Comparer(func(a, b cas.Digest) bool { return a == b }), cmpopts.EquateEmpty()}

// checkFolds compares the session opened at its latest commit with the one that is folded from its first entry on.
func (w *world) checkFolds(t *testing.T) {
	t.Helper()
	folded := session.Empty(runevent.MainAgent)
	if err := Advance(context.Background(), w.log, w.store, w.run("x", "").Stream(), &folded); err != nil {
		t.Fatalf("fold the whole stream: %v", err)
	}
	opened, _ := w.state()
	if diff := cmp.Diff(folded, opened, sameState); diff != "" {
		t.Errorf("session as opened (-folded from the first entry +opened at the commit):\n%s", diff)
	}
}

// overtaken is a log in which others append between a reader's look at the last entry and what it reads next.
type overtaken struct {
	runevent.Log
	meanwhile func()
}

func (o *overtaken) Last(ctx context.Context, stream runevent.Stream) (runevent.Record, error) {
	last, err := o.Log.Last(ctx, stream)
	o.meanwhile()
	return last, err
}

// TestLoadBesideAppender opens a session while another worker commits to it: what is opened is the session at its new
// end, or an earlier one that can be moved on to it.
func TestLoadBesideAppender(t *testing.T) {
	cases := map[string]struct {
		before, meanwhile []string
		// want are the ended runs that the opened session knows.
		want []string
	}{
		"the first run of a session":     {meanwhile: []string{"u1"}},
		"one more run":                   {before: []string{"u1"}, meanwhile: []string{"u2"}, want: []string{"u1", "u2"}},
		"several runs and their commits": {before: []string{"u1"}, meanwhile: []string{"u2", "u3"}, want: []string{"u1", "u2", "u3"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			execute := func(uids []string) {
				for _, uid := range uids {
					w.model.replies = []reply{says("answer to " + uid)}
					if got, err := w.execute(context.Background(), w.run(uid, "hi")); err != nil || got != completed {
						t.Fatalf("%s: %+v, %v", uid, got, err)
					}
				}
			}
			execute(tc.before)
			log := &overtaken{Log: w.log, meanwhile: func() { execute(tc.meanwhile) }}
			stream := w.run("x", "").Stream()
			opened, err := LoadState(context.Background(), log, w.store, stream)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, opened.Recent, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("ended runs (-want +got):\n%s", diff)
			}
			if err := Advance(context.Background(), w.log, w.store, stream, &opened); err != nil {
				t.Fatal(err)
			}
			want, _ := w.state()
			if diff := cmp.Diff(want, opened, sameState); diff != "" {
				t.Errorf("session at its end (-want +got):\n%s", diff)
			}
			w.checkFolds(t)
		})
	}
}

// damaged is a log in which one entry's bytes are others than were appended.
type damaged struct {
	runevent.Log
	sequence int64
	change   func([]byte) []byte
}

func (d *damaged) spoil(record runevent.Record) runevent.Record {
	if record.Head.Sequence == d.sequence {
		record.Raw = d.change(slices.Clone(record.Raw))
	}
	return record
}

func (d *damaged) Last(ctx context.Context, stream runevent.Stream) (runevent.Record, error) {
	last, err := d.Log.Last(ctx, stream)
	return d.spoil(last), err
}

func (d *damaged) Read(ctx context.Context, stream runevent.Stream, after int64, fn func(runevent.Record) error) error {
	return d.Log.Read(ctx, stream, after, func(record runevent.Record) error { return fn(d.spoil(record)) })
}

// TestDamagedEntryIsAnError: a session with an entry that cannot be read, or that is not the one that was appended, is not
// gone on with as if it ended there: nothing is asked, and nothing appended.
func TestDamagedEntryIsAnError(t *testing.T) {
	changes := map[string]func([]byte) []byte{
		"cut in the middle": func(raw []byte) []byte { return raw[:len(raw)/2] },
		"empty":             func([]byte) []byte { return nil },
		"another time":      func(raw []byte) []byte { return bytes.Replace(raw, []byte("2026-"), []byte("2025-"), 1) },
	}
	probe := newWorld(t)
	probe.model.replies = []reply{says("hello")}
	probe.runUntil(probe.run("u1", "hi"), "model.completed", 1)
	tail := len(probe.entries())
	for name, change := range changes {
		for at := 1; at <= tail; at++ {
			t.Run(fmt.Sprintf("%s, entry %d of %d", name, at, tail), func(t *testing.T) {
				w := newWorld(t)
				w.model.replies = []reply{says("hello"), says("again")}
				w.runUntil(w.run("u1", "hi"), "model.completed", 1)
				deps := w.deps()
				deps.Log = &damaged{Log: w.log, sequence: int64(at), change: change}
				if got, err := Execute(t.Context(), deps, w.run("u1", "hi")); err == nil {
					t.Errorf("the run goes on: %+v", got)
				}
				if got := len(w.entries()); got != tail || len(w.model.requests) != 1 {
					t.Errorf("%d entries, %d before; %d requests", got, tail, len(w.model.requests))
				}
			})
		}
	}
}

// TestShortenedHistory takes up a run in a stream that ends before what is known to have been in it: nothing is asked and
// nothing appended, neither by who executes nor by who seals.
func TestShortenedHistory(t *testing.T) {
	w := newWorld(t)
	w.model.replies = []reply{says("hello"), says("again")}
	if got, err := w.execute(context.Background(), w.run("u1", "hi")); err != nil || got != completed {
		t.Fatalf("%+v, %v", got, err)
	}
	before := w.events()
	run := w.run("u2", "and now?")
	run.Recorded = int64(len(before)) + 1
	if got, err := w.execute(context.Background(), run); !errors.Is(err, ErrHistoryCorrupt) {
		t.Errorf("executed: %+v, %v", got, err)
	}
	if got, err := Seal(context.Background(), w.deps(), run, ErrCancelled); !errors.Is(err, ErrHistoryCorrupt) {
		t.Errorf("sealed: %+v, %v", got, err)
	}
	if diff := cmp.Diff(before, w.events()); diff != "" || len(w.model.requests) != 1 {
		t.Errorf("%d requests; entries (-before +after):\n%s", len(w.model.requests), diff)
	}
	run.Recorded--
	if got, err := w.execute(context.Background(), run); err != nil || got != completed {
		t.Errorf("with what was recorded: %+v, %v", got, err)
	}
}
