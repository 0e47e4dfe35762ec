package trajectory_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// handLog is a log whose records are made by hand, so that they can be lost, damaged and replaced.
type handLog struct {
	streams  map[runevent.Stream][]runevent.Record
	position uint64
	reads    int
	// fail, when set, is what reads return.
	fail error
}

func newHandLog() *handLog { return &handLog{streams: map[runevent.Stream][]runevent.Record{}} }

func (l *handLog) Streams(context.Context, string, string) ([]runevent.Record, error) {
	if l.fail != nil {
		return nil, l.fail
	}
	var last []runevent.Record
	for _, records := range l.streams {
		if n := len(records); n > 0 {
			last = append(last, records[n-1])
		}
	}
	slices.SortFunc(last, func(a, b runevent.Record) int {
		if a.Stream.String() < b.Stream.String() {
			return -1
		}
		return 1
	})
	return last, nil
}

func (l *handLog) Read(_ context.Context, stream runevent.Stream, after int64, fn func(runevent.Record) error) error {
	if l.fail != nil {
		return l.fail
	}
	for _, record := range l.streams[stream] {
		if record.Head.Sequence <= after {
			continue
		}
		l.reads++
		if err := fn(record); err != nil {
			return err
		}
	}
	return nil
}

// start is the time of the first record that is made by hand; each later one is a second after.
var start = time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)

// add appends an event to a stream, with the numbers and links that belong to it.
func (l *handLog) add(t *testing.T, stream runevent.Stream, event runevent.Event) runevent.Record {
	t.Helper()
	var head runevent.Head
	if n := len(l.streams[stream]); n > 0 {
		head = l.streams[stream][n-1].Head
	}
	l.position++
	at := start.Add(time.Duration(l.position) * time.Second)
	event.V = runevent.Version
	event.Evidence.Prev = head.Digest
	if event.Evidence.RecordedAt.IsZero() {
		event.Evidence.RecordedAt = at
	}
	if event.Evidence.AgentID == "" {
		event.Evidence.AgentID = stream.Key
	}
	raw, err := runevent.Encode(runevent.Entry{CreatedAt: at, Sequence: head.Sequence + 1, Event: event})
	if err != nil {
		t.Fatal(err)
	}
	return l.put(stream, head.Sequence+1, raw)
}

func (l *handLog) put(stream runevent.Stream, sequence int64, raw []byte) runevent.Record {
	record := runevent.Record{Stream: stream, Head: runevent.HeadOf(sequence, l.position, raw), Raw: raw}
	l.streams[stream] = append(l.streams[stream], record)
	return record
}

// hand is a session made by hand on the main stream.
type hand struct {
	t   *testing.T
	log *handLog
	b   *trajectory.Builder
	r   *trajectory.Reader
	// scope is the session's.
	scope cas.Scope
	store cas.Store
}

func newHand(t *testing.T) *hand {
	log := newHandLog()
	scope := cas.Scope{Namespace: story.Namespace, Session: story.Session}
	store := memstore.New()
	return &hand{t: t, log: log, r: trajectory.NewReader(log, store), b: trajectory.NewBuilder(scope), scope: scope, store: store}
}

func (h *hand) index() *trajectory.Index {
	h.t.Helper()
	if err := h.r.Refresh(context.Background(), h.b); err != nil {
		h.t.Fatal(err)
	}
	return h.b.Index()
}

var main = story.Stream(runevent.MainAgent)

// ev is an event of run u1.
func ev(kind runevent.Type, change ...func(*runevent.Event)) runevent.Event {
	event := runevent.Event{Type: kind, Evidence: runevent.Evidence{AgentRunID: "u1"}}
	for _, c := range change {
		c(&event)
	}
	return event
}

func record(kind runevent.Kind, change ...func(*runevent.Event)) runevent.Event {
	return ev(runevent.TypeRecord, append([]func(*runevent.Event){func(e *runevent.Event) { e.Kind = kind }}, change...)...)
}

// in puts the event into a dispatch of an input.
func in(request, input string) func(*runevent.Event) {
	return func(e *runevent.Event) {
		e.Evidence.RequestExecutionID, e.Evidence.Turn = request, 1
		e.Evidence.ContextRef = &cas.Ref{Digest: cas.Of([]byte(input)), Size: 10}
		if e.Kind == runevent.KindContextCaptured || e.Kind == runevent.KindModelCompleted || e.Type == runevent.TypeModelFailed {
			e.Purpose = runevent.PurposeMain
		}
	}
}

func response(id string) func(*runevent.Event) {
	return func(e *runevent.Event) { e.Evidence.ResponseID = id }
}

func text(s string) func(*runevent.Event) { return func(e *runevent.Event) { e.Text = s } }

func call(id string) func(*runevent.Event) {
	return func(e *runevent.Event) { e.CallID, e.Name = id, "tool-"+id }
}

func at(seconds int) func(*runevent.Event) {
	return func(e *runevent.Event) { e.Evidence.RecordedAt = start.Add(time.Duration(seconds) * time.Second) }
}

func ofRun(uid string) func(*runevent.Event) {
	return func(e *runevent.Event) { e.Evidence.AgentRunID, e.RunName = uid, "run-"+uid }
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// short is an entry in short: type, event, sequences and status.
func short(entries []*trajectory.Entry) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = fmt.Sprintf("%s %s #%d", e.Type, e.Event, e.Sequence)
		if e.LastSequence > 0 {
			out[i] += fmt.Sprintf("-%d", e.LastSequence)
		}
		if e.Status != "" {
			out[i] += " " + string(e.Status)
		}
		if e.InputID != "" {
			out[i] += " <" + e.InputID
		}
	}
	return out
}

func (h *hand) want(want ...string) {
	h.t.Helper()
	if diff := cmp.Diff(want, short(page(h.t, h.index(), "", 1000).Entries)); diff != "" {
		h.t.Errorf("entries (-want +got):\n%s", diff)
	}
}
