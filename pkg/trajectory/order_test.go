package trajectory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/viewer/story"
)

func usage(input, output *int64) *message.Usage { return &message.Usage{Input: input, Output: output} }

func TestStreamsMergeByCaptureTime(t *testing.T) {
	h := newHand(t)
	sub := story.Stream("finder-1")
	h.log.add(t, main, ev(runevent.TypeRunStarted, at(1)))
	h.log.add(t, main, ev(runevent.TypeSubagentStarted, at(3), func(e *runevent.Event) { e.Agent = "finder-1" }))
	h.log.add(t, main, ev(runevent.TypeRunFinished, at(9)))
	h.log.add(t, sub, ev(runevent.TypeRunStarted, ofRun("u2"), at(3)))
	h.log.add(t, sub, ev(runevent.TypeRunFinished, ofRun("u2"), at(5)))
	p := page(t, h.index(), "", 100)
	var got []string
	for _, e := range p.Entries {
		got = append(got, e.ID)
	}
	want := []string{"run.main.1", "run.main.2", "run.finder-1.1", "run.finder-1.2", "run.main.3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if len(p.Agents) != 2 || p.Agents[0].Kind != "main" || p.Agents[1].ID != "finder-1" || p.Agents[1].Parent != "main" {
		t.Errorf("agents are %+v", p.Agents)
	}
}

func TestTimesFollowTheSequence(t *testing.T) {
	h := newHand(t)
	h.log.add(t, main, ev(runevent.TypeRunStarted, at(10)))
	h.log.add(t, main, ev(runevent.TypeMessageUser, at(4))) // another machine, whose clock is behind
	h.log.add(t, main, ev(runevent.TypeRunFinished, at(12)))
	ix := h.index()
	entries := page(t, ix, "", 100).Entries
	if entries[1].Event != "message.user" || entries[1].CapturedAt != entries[0].CapturedAt || !entries[1].ClockAdjusted {
		t.Errorf("the second entry is %+v, want it at the time of the first", entries[1])
	}
	if ix.RealTime.Adjusted != 1 || ix.RealTime.Untimed != 0 {
		t.Errorf("real time is %+v", ix.RealTime)
	}
}

func TestATimeThatWasNotRecordedHasNoPlace(t *testing.T) {
	h := newHand(t)
	h.log.add(t, main, ev(runevent.TypeRunStarted, at(1)))
	h.log.add(t, main, ev(runevent.TypeMessageUser, func(e *runevent.Event) { e.Evidence.RecordedAt = time.Unix(3, 0) }))
	ix := h.index()
	p := page(t, ix, "", 100)
	if len(p.Entries) != 1 || len(p.Untimed) != 1 || p.Untimed[0].StartedAt != 0 || p.Untimed[0].CapturedAt != 0 || ix.Counts.Untimed != 1 {
		t.Errorf("page is %+v, want one untimed entry", p)
	}
}

// TestPages walks a session in pages of every size: together they have every entry once, in order.
func TestPages(t *testing.T) {
	_, ix := read(t, sample(t))
	all, _ := ix.All()
	for _, limit := range []int{1, 2, 7, len(all) - 1, len(all), 1000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			var got []trajectory.Entry
			after, pages := "", 0
			for {
				p := page(t, ix, after, limit)
				pages++
				if (pages == 1) != (len(p.Runs) > 0) {
					t.Errorf("page %d has %d runs", pages, len(p.Runs))
				}
				for _, e := range p.Entries {
					got = append(got, *e)
				}
				if p.Next == "" {
					after = p.Cursor
					break
				}
				if len(p.Entries) != limit {
					t.Fatalf("a page that is not the last has %d entries", len(p.Entries))
				}
				after = p.Next
			}
			if diff := cmp.Diff(all, got); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if p := page(t, ix, after, limit); len(p.Entries)+len(p.Runs) > 0 || p.Next != "" {
				t.Errorf("nothing changed, but the increment is %+v", p)
			}
		})
	}
}

// TestIncrements feeds a session record by record, keeps a client's copy by increments alone, and compares it with a
// fresh listing after each step.
func TestIncrements(t *testing.T) {
	source := sample(t)
	log := newHandLog()
	h := newHand(t)
	h.log, h.r = log, trajectory.NewReader(log, source.Store)
	copied, runs, cursor := map[string]trajectory.Entry{}, map[string]trajectory.Run{}, ""
	err := source.Log.Read(t.Context(), main, 0, func(r runevent.Record) error {
		log.streams[main] = append(log.streams[main], r)
		before := log.reads
		ix := h.index()
		if read := log.reads - before; read > 1 {
			t.Fatalf("a refresh read %d records, one was new", read)
		}
		for {
			p := page(t, ix, cursor, 2)
			for _, e := range p.Entries {
				copied[e.ID] = *e
			}
			for _, run := range p.Runs {
				runs[run.UID] = run
			}
			if cursor = p.Next; cursor == "" {
				cursor = p.Cursor
				break
			}
		}
		fresh, _ := ix.All()
		want := map[string]trajectory.Entry{}
		for _, e := range fresh {
			want[e.ID] = e
		}
		if diff := cmp.Diff(want, copied); diff != "" {
			t.Fatalf("after #%d (-fresh +increments):\n%s", r.Head.Sequence, diff)
		}
		for _, run := range ix.AllRuns() {
			if diff := cmp.Diff(run, runs[run.UID]); diff != "" {
				t.Fatalf("after #%d (-fresh +increments):\n%s", r.Head.Sequence, diff)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, whole := read(t, source)
	want, _ := whole.All()
	got, _ := h.index().All()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("built by increments it is another index (-at once +increments):\n%s", diff)
	}
}

// TestAnIndexDoesNotChange keeps an index while its builder goes on.
func TestAnIndexDoesNotChange(t *testing.T) {
	h := newHand(t)
	h.log.add(t, main, ev(runevent.TypeRunStarted))
	h.log.add(t, main, record(runevent.KindContextCaptured, in("r1", "a")))
	h.log.add(t, main, ev(runevent.TypeReasoning, in("r1", "a"), text("x")))
	old := h.index()
	before, _ := old.All()
	runs := old.AllRuns()
	h.log.add(t, main, ev(runevent.TypeReasoning, in("r1", "a"), text("y")))
	h.log.add(t, main, record(runevent.KindModelCompleted, in("r1", "a")))
	h.log.add(t, main, ev(runevent.TypeRunFinished))
	if h.index() == old {
		t.Fatal("the index did not see the new records")
	}
	after, _ := old.All()
	if diff := cmp.Diff(before, after) + cmp.Diff(runs, old.AllRuns()); diff != "" {
		t.Errorf("the old index changed:\n%s", diff)
	}
	if again := h.index(); h.index() != again {
		t.Error("nothing was added, but there is another index")
	}
}
