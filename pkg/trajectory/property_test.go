package trajectory_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// kinds are all events that a stream may hold.
var kinds = []runevent.Event{
	ev(runevent.TypeRunStarted), ev(runevent.TypeRunFinished), ev(runevent.TypeRunFailed), ev(runevent.TypeRunCancelled), ev(runevent.TypeMessageUser),
	ev(runevent.TypeReasoning, text("r")), ev(runevent.TypeBody, text("b")), ev(runevent.TypeToolCall, call("1")), ev(runevent.TypeToolStarted, call("1")),
	ev(runevent.TypeToolResult, call("1")), ev(runevent.TypeToolUnknown, call("1")), ev(runevent.TypeModelRejected), ev(runevent.TypeModelFailed),
	ev(runevent.TypeMCPAudit, call("1")), ev(runevent.TypeSubagentStarted), ev(runevent.TypeSubagentFinished), record(runevent.KindContextCaptured),
	record(runevent.KindModelCompleted), record(runevent.KindStateCommitted), record(runevent.KindContextRecovery),
	record(runevent.KindCompactionCommitted), record(runevent.KindApproval),
}

// anyEvent is an event that belongs to one of few runs, requests, inputs and responses, at any time.
func anyEvent(r *rand.Rand) runevent.Event {
	event := kinds[r.IntN(len(kinds))]
	in(fmt.Sprint("r", r.IntN(3)), fmt.Sprint("i", r.IntN(2)))(&event)
	event.Evidence.AgentRunID = fmt.Sprint("u", r.IntN(2))
	event.Evidence.ResponseID = fmt.Sprint("x", r.IntN(2))
	event.Purpose = []runevent.Purpose{runevent.PurposeMain, runevent.PurposeMain, runevent.PurposeSummary}[r.IntN(3)]
	if event.CallID != "" {
		event.CallID = fmt.Sprint("c", r.IntN(2))
	}
	if r.IntN(20) > 0 {
		event.Evidence.RecordedAt = start.Add(1000*1000*1000*60).AddDate(0, 0, r.IntN(3))
	}
	return event
}

// TestAnyStreamFolds feeds random streams, whatever sense they make: nothing panics, an index that grew is the one that
// is made at once, every record is in exactly one entry, and a client that reads increments has what a new one has.
func TestAnyStreamFolds(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := newHand(t)
		streams := []runevent.Stream{main, story.Stream("finder-1")}
		copied, cursor := map[string]trajectory.Entry{}, ""
		total := 60 + r.IntN(60)
		for i := range total {
			h.log.add(t, streams[r.IntN(len(streams))], anyEvent(r))
			if i%7 != 0 && i != total-1 {
				continue
			}
			for {
				p := page(t, h.index(), cursor, 9)
				for _, e := range append(p.Entries, p.Untimed...) {
					copied[e.ID] = *e
				}
				if cursor = p.Next; cursor == "" {
					cursor = p.Cursor
					break
				}
			}
		}
		grown := h.index()
		h.b = h.b.Successor()
		whole := h.index()
		timed, untimed := whole.All()
		grownTimed, grownUntimed := grown.All()
		if diff := cmp.Diff(timed, grownTimed) + cmp.Diff(untimed, grownUntimed) + cmp.Diff(whole.AllRuns(), grown.AllRuns()); diff != "" {
			t.Fatalf("seed %d: the index that grew differs (-at once +grown):\n%s", seed, diff)
		}
		records := 0
		for _, e := range append(timed, untimed...) {
			if diff := cmp.Diff(e, copied[e.ID]); diff != "" {
				t.Fatalf("seed %d: the client's copy differs (-fresh +copy):\n%s", seed, diff)
			}
			d, err := h.r.Detail(t.Context(), whole, e.ID, 0)
			if err != nil {
				t.Fatalf("seed %d: detail of %s: %v", seed, e.ID, err)
			}
			records += len(d.Events)
			if _, err := trajectory.Encode(d); err != nil {
				t.Fatalf("seed %d: encode %s: %v", seed, e.ID, err)
			}
		}
		if len(copied) != whole.Counts.Entries || records != total {
			t.Fatalf("seed %d: %d entries of %d, with %d records of %d", seed, len(copied), whole.Counts.Entries, records, total)
		}
	}
}

func TestNoticesAreBounded(t *testing.T) {
	h := newHand(t)
	for i := range int64(1500) {
		h.log.put(main, i+1, []byte("no record"))
	}
	notices := h.index().Notices
	if n := len(notices); n != 1001 || notices[n-1].Code != trajectory.CodeMore || notices[0].Code != trajectory.CodeDamaged {
		t.Errorf("%d notices, the last is %+v", n, notices[len(notices)-1])
	}
}

func FuzzCursor(f *testing.F) {
	h := newHand(&testing.T{})
	f.Add("")
	f.Add("eyJ2IjoxLCJzIjoiMGQ2ZjJhNTQtN2YwYy00YzUyLTlkMGUtNmEzYjFjOGU1ZjI3IiwidSI6MCwiYSI6e319")
	ix := h.b.Index()
	f.Fuzz(func(t *testing.T, cursor string) {
		p, err := ix.Page(cursor, 3)
		if err == nil && (p.Cursor == "" || len(p.Entries) > 3) {
			t.Errorf("page %+v", p)
		}
	})
}

// BenchmarkIndex reads a session of 100,000 events and lists its first page.
func BenchmarkIndex(b *testing.B) {
	log := newHandLog()
	t := &testing.T{}
	for i := range 20000 {
		request, input := fmt.Sprint("r", i), fmt.Sprint("i", i)
		for _, event := range []runevent.Event{
			record(runevent.KindContextCaptured, in(request, input)), ev(runevent.TypeReasoning, in(request, input), text("x")),
			record(runevent.KindModelCompleted, in(request, input)), ev(runevent.TypeToolCall, in(request, input), call("1")),
			ev(runevent.TypeToolResult, in(request, input), call("1")),
		} {
			log.add(t, main, event)
		}
	}
	reader := trajectory.NewReader(log, nil)
	b.Run("build", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			builder := trajectory.NewBuilder(newHand(t).scope)
			if err := reader.Refresh(b.Context(), builder); err != nil {
				b.Fatal(err)
			}
			builder.Index()
		}
	})
	builder := trajectory.NewBuilder(newHand(t).scope)
	if err := reader.Refresh(b.Context(), builder); err != nil {
		b.Fatal(err)
	}
	ix := builder.Index()
	b.Run("page", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p, err := ix.Page("", 5000)
			if err != nil {
				b.Fatal(err)
			}
			raw, err := trajectory.Encode(p.Entries)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(raw)))
		}
	})
}
