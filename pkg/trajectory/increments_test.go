package trajectory_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// pagedLog is a log that lists its streams in two requests, between which something may be appended.
type pagedLog struct {
	*handLog
	first   runevent.Stream
	between func()
}

func (l *pagedLog) Streams(ctx context.Context, namespace, session string) ([]runevent.Record, error) {
	early, err := l.handLog.Streams(ctx, namespace, session)
	if err != nil {
		return nil, err
	}
	if l.between != nil {
		l.between()
	}
	late, err := l.handLog.Streams(ctx, namespace, session)
	var out []runevent.Record
	for _, record := range early {
		if record.Stream == l.first {
			out = append(out, record)
		}
	}
	for _, record := range late {
		if record.Stream != l.first {
			out = append(out, record)
		}
	}
	return out, err
}

// endedLog is one that knows its end besides.
type endedLog struct{ *pagedLog }

func (l endedLog) End(context.Context) (uint64, error) { return l.position, nil }

// client keeps a copy of a session by increments alone.
type client struct {
	t      *testing.T
	copied map[string]trajectory.Entry
	runs   map[string]trajectory.Run
	cursor string
}

// follow takes in what an index has new; a cursor that is no longer good makes it begin anew.
func (c *client) follow(ix *trajectory.Index) {
	c.t.Helper()
	for {
		p, err := ix.Page(c.cursor, 2)
		if errors.Is(err, trajectory.ErrCursorExpired) {
			c.copied, c.runs, c.cursor = map[string]trajectory.Entry{}, map[string]trajectory.Run{}, ""
			continue
		}
		if err != nil {
			c.t.Fatal(err)
		}
		for _, e := range append(p.Entries, p.Untimed...) {
			c.copied[e.ID] = *e
		}
		for _, run := range p.Runs {
			c.runs[run.UID] = run
		}
		if c.cursor = p.Next; c.cursor == "" {
			c.cursor = p.Cursor
			return
		}
	}
}

// holds compares the copy with all of an index.
func (c *client) holds(ix *trajectory.Index) {
	c.t.Helper()
	want := map[string]trajectory.Entry{}
	timed, untimed := ix.All()
	for _, e := range append(timed, untimed...) {
		want[e.ID] = e
	}
	if diff := cmp.Diff(want, c.copied); diff != "" {
		c.t.Errorf("entries (-index +increments):\n%s", diff)
	}
	for _, run := range ix.AllRuns() {
		if diff := cmp.Diff(run, c.runs[run.UID]); diff != "" {
			c.t.Errorf("run (-index +increments):\n%s", diff)
		}
	}
}

// TestRecordsBetweenTheRequestsOfARefresh appends to a stream after its end was looked up and before that of another one is: a
// client's next increment must have it, whichever server it asks.
func TestRecordsBetweenTheRequestsOfARefresh(t *testing.T) {
	other := story.Stream("reviewer-0a1b2c3d")
	for name, ended := range map[string]bool{"the log knows its end": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			h := newHand(t)
			paged := &pagedLog{handLog: h.log, first: main}
			var log trajectory.Log = paged
			if ended {
				log = endedLog{paged}
			}
			h.r = trajectory.NewReader(log, h.store)
			h.log.add(t, main, ev(runevent.TypeRunStarted))
			h.log.add(t, main, record(runevent.KindContextCaptured, in("r1", "a")))
			h.log.add(t, other, ev(runevent.TypeRunStarted, ofRun("u2")))
			c := &client{t: t, copied: map[string]trajectory.Entry{}, runs: map[string]trajectory.Run{}}
			c.follow(h.index())
			paged.between = func() {
				paged.between = nil
				h.log.add(t, main, record(runevent.KindModelCompleted, in("r1", "a")))
				h.log.add(t, main, ev(runevent.TypeRunFinished))
				h.log.add(t, other, record(runevent.KindContextCaptured, in("r2", "b"), ofRun("u2")))
			}
			c.follow(h.index())
			elsewhere := *c // the same client, whose next request another server answers
			if ix := h.index(); true {
				c.follow(ix)
				c.holds(ix)
			}
			if !ended {
				return // without it only the server that listed the streams can tell
			}
			b := trajectory.NewBuilder(h.scope)
			if err := h.r.Refresh(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			elsewhere.follow(b.Index())
			elsewhere.holds(b.Index())
		})
	}
}

// TestAnIdleSessionHasNothingNew holds that records of other sessions, which move the log's end, are no news.
func TestAnIdleSessionHasNothingNew(t *testing.T) {
	h := newHand(t)
	h.r = trajectory.NewReader(endedLog{&pagedLog{handLog: h.log}}, h.store)
	h.log.add(t, main, ev(runevent.TypeRunStarted))
	ix := h.index()
	cursor := page(t, ix, "", 10).Cursor
	h.log.position += 100
	again := h.index()
	if again.Tag != ix.Tag {
		t.Error("the index has another tag")
	}
	if p := page(t, again, cursor, 10); len(p.Entries)+len(p.Runs) > 0 || p.Cursor != cursor {
		t.Errorf("the increment is %+v", p)
	}
}
