package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
)

// headsWorld is a cache of heads over a log and a store that can be made to fail. It lives in a synctest bubble.
type headsWorld struct {
	*Heads
	t      *testing.T
	log    *followedLog
	reads  *faultyLog
	store  *faultyStore
	notes  atomic.Int64
	stream runevent.Stream
}

func newHeads(t *testing.T) *headsWorld {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &headsWorld{t: t, reads: &faultyLog{Log: memlog.New()}, store: &faultyStore{Store: memstore.New()}, stream: streamOf("session-uid")}
	w.log = &followedLog{Log: w.reads}
	w.Heads = &Heads{
		Log: w.log, Store: w.store, Changes: w.log, Logger: slog.New(slog.DiscardHandler), MinInterval: 100 * time.Millisecond,
		Notify: func(runevent.Stream) { w.notes.Add(1) },
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait() // it follows the log
	return w
}

func streamOf(history string) runevent.Stream {
	return runevent.Stream{Class: runevent.ClassRun, Namespace: "ns", Session: history, Key: runevent.MainAgent}
}

// run executes a run of the stream.
func (w *headsWorld) run(name string, model provider.Streamer) {
	w.t.Helper()
	execute(w.t, w.log, w.store, execution{name: name, uid: "uid-" + name, history: w.stream.Session, model: model})
}

// begin starts a run and leaves it live.
func (w *headsWorld) begin(name string) *runevent.Writer {
	w.t.Helper()
	writer := runevent.NewWriter(w.log, runevent.WriterConfig{Stream: w.stream, Head: w.facts().State.Head, StateRef: w.facts().State.StateRef, Now: time.Now})
	w.append(writer, name, runevent.Event{Type: runevent.TypeRunStarted, RunName: name, Attempt: 1, Worker: "w1"})
	return writer
}

func (w *headsWorld) append(writer *runevent.Writer, name string, event runevent.Event) {
	w.t.Helper()
	event.Evidence.AgentID, event.Evidence.AgentRunID = "main", "uid-"+name
	if _, _, err := writer.Append(w.t.Context(), event); err != nil {
		w.t.Fatal(err)
	}
}

// facts are what is known of the stream after it had time to be read.
func (w *headsWorld) facts() Facts {
	w.Get(w.stream, Content{})
	pass(500 * time.Millisecond)
	return w.Get(w.stream, Content{})
}

// TestHeadsFollow knows nothing at first, reads in the background and tells of changes, but of nothing else.
func TestHeadsFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHeads(t)
		if w.Get(w.stream, Content{}).Known {
			t.Error("known without a read")
		}
		if facts := w.facts(); !facts.Known || facts.State.Head.Sequence != 0 || w.notes.Load() != 1 {
			t.Errorf("an empty stream: %+v, %d notes", facts, w.notes.Load())
		}
		w.run("a", says("hello"))
		facts := w.facts()
		if !facts.State.Ended("uid-a") || facts.Messages != 2 || facts.Record == nil || facts.Preview != "" {
			t.Errorf("after a run: %+v", facts)
		}
		before, notes := w.reads.called(), w.notes.Load()
		pass(time.Hour)
		if w.reads.called() != before || w.notes.Load() != notes {
			t.Errorf("%d reads and %d notes without a change", w.reads.called()-before, w.notes.Load()-notes)
		}
		w.allChanged() // as when changes may have been missed
		pass(time.Second)
		if w.reads.called() == before || w.notes.Load() != notes {
			t.Errorf("%d reads and %d notes after changes may have been missed", w.reads.called()-before, w.notes.Load()-notes)
		}
	})
}

// TestHeadsRest lets a stream rest between two reads, however fast it grows: longer while a live run only moves on, and no
// longer than it must for the run's end.
func TestHeadsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHeads(t)
		writer := w.begin("a")
		w.facts()
		before := w.reads.called()
		for range 2500 {
			w.append(writer, "a", runevent.Event{Type: runevent.TypeBody, Text: "x"})
			pass(time.Millisecond)
		}
		if n := w.reads.called() - before; n > 4 || n < 2 {
			t.Errorf("%d reads in 2.5 seconds, want one in a second", n)
		}
		pass(progressRest * 100 * time.Millisecond)
		if facts := w.facts(); facts.State.Head.Sequence != 2501 {
			t.Errorf("the end is at #%d, want #2501", facts.State.Head.Sequence)
		}
		w.append(writer, "a", runevent.Event{Type: runevent.TypeBody, Text: "x"})
		w.append(writer, "a", runevent.Event{Type: runevent.TypeRunFailed, Reason: "InternalError"})
		pass(0)
		if facts := w.Get(w.stream, Content{}); facts.State.Live() {
			t.Error("the run's end was not read at once")
		}
	})
}

// TestHeadsKeepLittle keeps messages and call details of live runs only, whatever the number of sessions and of their
// messages is.
func TestHeadsKeepLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHeads(t)
		for i := range 40 {
			w.run(fmt.Sprintf("r%d", i), says("hello"))
		}
		facts := w.facts()
		kept := w.streams[w.stream]
		if facts.Messages != 80 || kept.state != nil || len(facts.State.History) != 0 {
			t.Errorf("an idle session with %d messages keeps %d of them, whole state %v", facts.Messages, len(facts.State.History), kept.state)
		}
		writer := w.begin("live")
		if facts = w.facts(); kept.state == nil || len(kept.state.History) != 80 || !facts.State.Live() || len(facts.State.History) != 0 {
			t.Errorf("a live session keeps %v and shows %+v", kept.state, facts)
		}
		w.append(writer, "live", runevent.Event{Type: runevent.TypeRunFailed, Reason: "InternalError"})
		if facts = w.facts(); kept.state != nil || facts.State.Live() || facts.Messages != 80 {
			t.Errorf("after the end: whole state %v, facts %+v", kept.state, facts)
		}
	})
}

// TestHeadsForget keeps nothing of a forgotten session, and reads it anew when somebody asks again.
func TestHeadsForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHeads(t)
		w.run("a", says("hello"))
		w.facts()
		w.Forget("ns", "session-uid")
		if len(w.streams) != 0 {
			t.Errorf("%d streams after all were forgotten", len(w.streams))
		}
		w.run("b", says("hello"))
		pass(time.Second)
		if len(w.streams) != 0 {
			t.Error("a change brought a forgotten stream back")
		}
		if w.Get(w.stream, Content{}).Known {
			t.Error("a forgotten stream is known")
		}
		if facts := w.facts(); facts.Messages != 4 {
			t.Errorf("asked again: %+v", facts)
		}
		// A stream that is forgotten while it is read stays forgotten.
		w.store.set(nil, true)
		w.allChanged()
		pass(time.Second)
		w.Forget("ns", "session-uid")
		w.store.set(nil, false)
		pass(time.Minute)
		if len(w.streams) != 0 {
			t.Error("the end of a read brought a forgotten stream back")
		}
	})
}

// TestHeadsThroughOutages keeps the last facts while log or store stay away, says so, and goes on by itself.
func TestHeadsThroughOutages(t *testing.T) {
	cases := map[string]func(w *headsWorld, err error, hang bool){
		"of the log":   func(w *headsWorld, err error, hang bool) { w.reads.set(err, hang) },
		"of the store": func(w *headsWorld, err error, hang bool) { w.store.set(err, hang) },
	}
	for name, set := range cases {
		for _, hang := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hanging %v", name, hang), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newHeads(t)
					w.run("a", says("hello"))
					before := w.facts()
					set(w, errors.New("away"), hang)
					execute(t, w.reads.Log, w.store.Store, execution{name: "b", uid: "uid-b", history: "session-uid", model: says("hello")})
					w.changed(w.stream, false)
					pass(time.Minute)
					facts := w.Get(w.stream, Content{})
					if !facts.Known || !facts.Unavailable || facts.Corrupt || facts.State.Head != before.State.Head || !facts.ReadAt.Equal(before.ReadAt) {
						t.Errorf("during the outage: %+v", facts)
					}
					set(w, nil, false)
					pass(time.Minute)
					if facts = w.Get(w.stream, Content{}); facts.Unavailable || facts.Messages != 4 || !facts.ReadAt.After(before.ReadAt) {
						t.Errorf("after the outage: %+v", facts)
					}
				})
			})
		}
	}
}

// TestHeadsOfADamagedSession says that a stream cannot be used, tells once, and sees when it was restored.
func TestHeadsOfADamagedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHeads(t)
		w.run("a", says("hello"))
		w.facts()
		w.store.set(fmt.Errorf("get: %w", cas.ErrNotFound), false)
		w.allChanged()
		pass(time.Second)
		notes := w.notes.Load()
		pass(10 * time.Minute)
		if facts := w.Get(w.stream, Content{}); !facts.Corrupt || facts.Unavailable || w.notes.Load() != notes {
			t.Errorf("%d more notes, facts %+v", w.notes.Load()-notes, facts)
		}
		w.store.set(nil, false)
		pass(time.Minute)
		if facts := w.Get(w.stream, Content{}); facts.Corrupt || facts.Messages != 2 || w.notes.Load() != notes+1 {
			t.Errorf("restored: %d more notes, facts %+v", w.notes.Load()-notes, facts)
		}
	})
}

// TestHeadsOfAReplacedStream reads a stream anew that is another one than before, as after a restore.
func TestHeadsOfAReplacedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHeads(t)
		w.run("a", says("hello"))
		w.begin("b")
		w.facts()
		w.reads.Log = memlog.New()
		w.allChanged()
		if facts := w.facts(); facts.Corrupt || facts.State.Head.Sequence != 0 || facts.State.Run != nil {
			t.Errorf("an empty stream after one with entries: %+v", facts)
		}
	})
}

// TestHeadsRenew reads a stream although it has not changed, and tells nobody.
func TestHeadsRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHeads(t)
		first := w.facts()
		notes := w.notes.Load()
		pass(time.Minute)
		asked := time.Now()
		w.Renew(w.stream)
		if facts := w.facts(); facts.ReadAt.Before(asked) || !first.ReadAt.Before(asked) || w.notes.Load() != notes {
			t.Errorf("read at %s, asked at %s, %d notes", facts.ReadAt, asked, w.notes.Load()-notes)
		}
	})
}

// TestHeadsPreview reads the start of an answer for a session that shows it, and for no other.
func TestHeadsPreview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHeads(t)
		w.Get(w.stream, Content{Preview: true})
		pass(time.Second)
		w.run("a", says("hello"))
		pass(time.Second)
		if got := w.Get(w.stream, Content{Preview: true}).Preview; got != "hello" {
			t.Errorf("preview %q", got)
		}
		w.Get(w.stream, Content{})
		w.run("b", says("secret"))
		if got := w.facts().Preview; got != "" {
			t.Errorf("preview %q of a session that shows none", got)
		}
	})
}

// TestHeadsPast reads how runs ended that others came after.
func TestHeadsPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHeads(t)
		w.run("a", says("hello"))
		w.run("b", fails(provider.ClassAuth))
		w.run("c", says("hello"))
		w.facts()
		if w.Past(w.stream, "uid-a").Known {
			t.Error("known without a read")
		}
		w.Past(w.stream, "uid-b")
		w.Past(w.stream, "uid-never")
		notes := w.notes.Load()
		pass(time.Second)
		if w.notes.Load() == notes {
			t.Error("nobody was told")
		}
		a, b, never := w.Past(w.stream, "uid-a"), w.Past(w.stream, "uid-b"), w.Past(w.stream, "uid-never")
		if !a.Known || a.Corrupt || a.State.Run.UID != "uid-a" || a.Messages != 2 || a.Record == nil || a.State.Run.Terminal.Type != runevent.TypeRunFinished {
			t.Errorf("the first run: %+v", a)
		}
		if !b.Known || b.State.Run.Terminal.Reason != "ProviderAuthFailed" || b.State.Head.Sequence <= a.State.Head.Sequence {
			t.Errorf("the second run: %+v", b)
		}
		if !never.Known || !never.Corrupt {
			t.Errorf("a run that is not there: %+v", never)
		}
		reads := w.reads.called()
		pass(time.Hour)
		if n := w.reads.called() - reads; n != 0 {
			t.Errorf("%d reads after all was answered", n)
		}
		for _, uid := range []string{"uid-a", "uid-b", "uid-never"} {
			w.DropPast(w.stream, uid)
		}
		if n := len(w.streams[w.stream].past); n != 0 {
			t.Errorf("%d ended runs are kept", n)
		}
	})
}

// TestHeadsContainPanics lets a read meet a fault of the program: the stream counts as unreadable, the others and the
// controllers go on, and it is read again later.
func TestHeadsContainPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHeads(t)
		w.run("a", says("hello"))
		w.reads.set(errBoom, false)
		if facts := w.facts(); facts.Known || !facts.Unavailable {
			t.Errorf("with a fault: %+v", facts)
		}
		w.reads.set(nil, false)
		pass(2 * retryInterval)
		if facts := w.facts(); !facts.Known || facts.Unavailable || facts.Messages != 2 {
			t.Errorf("after it: %+v", facts)
		}
	})
}

// TestUnread says how far the cache is behind: not at all when all was read, and since the first entry that was not.
func TestUnread(t *testing.T) {
	h := &Heads{}
	stream := runevent.Stream{Class: runevent.ClassRun, Namespace: "ns", Session: "s", Key: runevent.MainAgent}
	h.Get(stream, Content{})
	at := h.streams[stream].since
	if n, oldest := h.unread(at.Add(time.Minute)); n != 1 || oldest != time.Minute {
		t.Errorf("a stream that was never read: %d, %s", n, oldest)
	}
	tracked := h.streams[stream]
	tracked.dirty = false
	if n, oldest := h.unread(at.Add(time.Minute)); n != 0 || oldest != 0 {
		t.Errorf("all was read: %d, %s", n, oldest)
	}
	tracked.since = at.Add(-time.Hour)
	h.changed(stream, true)
	first := tracked.since
	h.changed(stream, true)
	if n, oldest := h.unread(first.Add(time.Second)); n != 1 || oldest != time.Second || tracked.since != first {
		t.Errorf("two entries: %d, %s", n, oldest)
	}
	tracked.facts.Corrupt = true
	if n, _ := h.unread(first); n != 0 {
		t.Errorf("a damaged stream is waited for: %d", n)
	}
}
