package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// folder applies events one after the other, numbered and dated.
type folder struct {
	t     *testing.T
	state State
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	return &folder{t: t, state: Empty(runevent.MainAgent)}
}

func (f *folder) at() time.Time {
	return started.Add(time.Duration(f.state.Head.Sequence) * time.Second)
}

func (f *folder) apply(events ...runevent.Event) *folder {
	f.t.Helper()
	for _, event := range events {
		sequence := f.state.Head.Sequence + 1
		event.Evidence.RecordedAt = f.at()
		head := runevent.Head{Sequence: sequence, Position: uint64(sequence), Digest: cas.Of(fmt.Append(nil, sequence))}
		if err := f.state.Apply(runevent.Entry{Sequence: sequence, Event: event}, head); err != nil {
			f.t.Fatal(err)
		}
	}
	return f
}

// commit stores what a loop would and applies the entry that names it.
func (f *folder) commit(step Step) *folder {
	f.t.Helper()
	committed := AgentState{
		V: ObjectVersion, Agent: f.state.Agent, RunUID: f.state.Run.UID, RunName: f.state.Run.Name, Step: step, LastSequence: f.state.Head.Sequence,
		Run: f.state.Counters(), Recent: f.state.Recent, Earlier: f.state.Earlier,
	}
	raw, err := EncodeObject(committed)
	if err != nil {
		f.t.Fatal(err)
	}
	named := cas.Ref{Digest: cas.Of(raw), Size: int64(len(raw)), MediaType: cas.MediaState}
	f.state.Commit(committed, named)
	return f.apply(runevent.Event{Type: runevent.TypeRecord, Kind: runevent.KindStateCommitted, Evidence: runevent.Evidence{StateRef: &named}})
}

func begin(uid string) runevent.Event {
	return runevent.Event{Type: runevent.TypeRunStarted, RunName: "run-" + uid, Attempt: 1, Worker: "w1", Evidence: runevent.Evidence{AgentRunID: uid}}
}

func prompt(text string) runevent.Event {
	return runevent.Event{Type: runevent.TypeMessageUser, Ref: ref(text, cas.MediaMessage)}
}

func finish() runevent.Event {
	return runevent.Event{Type: runevent.TypeRunFinished, Reason: "Completed"}
}

func request(id string, turn int, context string) runevent.Evidence {
	return runevent.Evidence{RequestExecutionID: id, Turn: turn, ContextRef: ref(context, cas.MediaContext)}
}

func capture(id string, turn int, context string) runevent.Event {
	return runevent.Event{Type: runevent.TypeRecord, Kind: runevent.KindContextCaptured, Purpose: runevent.PurposeMain, Evidence: request(id, turn, context)}
}

func complete(id string, turn int, context string, usage *message.Usage) runevent.Event {
	return runevent.Event{
		Type: runevent.TypeRecord, Kind: runevent.KindModelCompleted, Purpose: runevent.PurposeMain, PayloadRef: ref("action "+id, cas.MediaModelAction),
		Usage: usage, RequestOutputTokenLimit: count(4096), Evidence: request(id, turn, context),
	}
}

func reject(id string, turn int, context string) runevent.Event {
	return runevent.Event{Type: runevent.TypeModelRejected, Purpose: runevent.PurposeMain, Reason: "OutputCapRejected", Evidence: request(id, turn, context)}
}

func used(input, output int64) *message.Usage {
	return &message.Usage{Input: count(input), Output: count(output)}
}

// TestCounts tells what counts as a request, and what the latest dispatched one is.
func TestCounts(t *testing.T) {
	live := []runevent.Event{begin("u1"), prompt("hi")}
	failed := runevent.Event{Type: runevent.TypeModelFailed, Purpose: runevent.PurposeMain, Class: "overloaded", Retryable: true, Usage: used(7, 0)}
	summary := capture("s1", 1, "summary context")
	summary.Purpose = runevent.PurposeSummary
	summarised := complete("s1", 1, "summary context", used(100, 100))
	summarised.Purpose = runevent.PurposeSummary
	takeover := begin("u1")
	takeover.Attempt, takeover.Worker = 2, "w2"
	cases := map[string]struct {
		events   []runevent.Event
		requests int
		usage    Totals
		latest   string
		limit    *int64
		turn     int
	}{
		"an answered request": {
			events:   []runevent.Event{capture("r1", 1, "one"), complete("r1", 1, "one", used(10, 5))},
			requests: 1, usage: Totals{Requests: 1, Input: count(10), Output: count(5)}, latest: "one", limit: count(4096), turn: 1,
		},
		"an open request is counted and not yet summed": {
			events: []runevent.Event{capture("r1", 1, "one")}, requests: 1, latest: "one", turn: 1,
		},
		"a failed attempt is a request, with the usage that came with it": {
			events:   []runevent.Event{capture("r1", 1, "one"), failed, capture("r2", 1, "one"), complete("r2", 1, "one", used(10, 5))},
			requests: 2, usage: Totals{Requests: 2, Input: count(17), Output: count(5)}, latest: "one", limit: count(4096), turn: 1,
		},
		"a request whose worker died has no usage": {
			events:   []runevent.Event{capture("r1", 1, "one"), takeover, capture("r2", 1, "one"), complete("r2", 1, "one", used(10, 5))},
			requests: 2, usage: Totals{Requests: 2, RequestsWithoutUsage: 1, Input: count(10), Output: count(5)}, latest: "one", limit: count(4096), turn: 1,
		},
		"a request that the run's end cut short has no usage": {
			events:   []runevent.Event{capture("r1", 1, "one"), {Type: runevent.TypeRunCancelled, Reason: "Cancelled"}},
			requests: 1, usage: Totals{Requests: 1, RequestsWithoutUsage: 1}, latest: "one", turn: 1,
		},
		"a request that the guard refused was never sent": {
			events: []runevent.Event{capture("r1", 1, "one"), reject("r1", 1, "one")}, turn: 1,
		},
		"a refused request leaves the latest dispatched one what it was": {
			events: []runevent.Event{
				capture("r1", 1, "one"), complete("r1", 1, "one", used(10, 5)), capture("r2", 2, "two"), reject("r2", 2, "two"),
			},
			requests: 1, usage: Totals{Requests: 1, Input: count(10), Output: count(5)}, latest: "one", limit: count(4096), turn: 2,
		},
		"requests of other purposes do not count": {
			events: []runevent.Event{summary, summarised},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t).apply(append(live, tc.events...)...)
			want := RunCounters{
				Attempt: f.state.Run.Attempt, Worker: f.state.Run.Worker, StartedAt: started, Accepted: true, Turn: tc.turn, Requests: tc.requests,
				Usage: tc.usage, LastLimit: tc.limit,
			}
			if tc.latest != "" {
				want.LastContext = ref(tc.latest, cas.MediaContext)
			}
			if diff := cmp.Diff(want, f.state.Run.RunCounters, same); diff != "" {
				t.Errorf("counters (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCountersAtCommit counts a request that is open at a commit: nobody will answer it any more.
func TestCountersAtCommit(t *testing.T) {
	f := newFolder(t).apply(begin("u1"), prompt("hi"), capture("r1", 1, "one")).commit(Step{Turn: 1})
	want := Totals{Requests: 1, RequestsWithoutUsage: 1}
	if diff := cmp.Diff(want, f.state.Run.Usage); diff != "" {
		t.Errorf("usage after the commit (-want +got):\n%s", diff)
	}
	f.apply(runevent.Event{Type: runevent.TypeRunCancelled, Reason: "Cancelled"})
	if diff := cmp.Diff(want, f.state.Usage()); diff != "" {
		t.Errorf("usage after the end (-want +got):\n%s", diff)
	}
}

// TestToolProgress tells how far calls have come, and counts each call once however often it was started.
func TestToolProgress(t *testing.T) {
	call := func(typ runevent.Type, id string) runevent.Event {
		return runevent.Event{Type: typ, CallID: id, Name: "add"}
	}
	nested := func(typ runevent.Type, name string, n int) runevent.Event {
		return runevent.Event{Type: typ, CallID: "c", Name: name, Nested: n}
	}
	result := call(runevent.TypeToolResult, "a")
	f := newFolder(t).apply(
		begin("u1"), prompt("hi"), call(runevent.TypeToolStarted, "stray"), capture("r1", 1, "one"), complete("r1", 1, "one", nil),
		call(runevent.TypeToolCall, "a"), call(runevent.TypeToolCall, "b"), call(runevent.TypeToolCall, "c"),
		call(runevent.TypeToolStarted, "a"), call(runevent.TypeMCPAudit, "a"), result,
		call(runevent.TypeToolStarted, "b"), call(runevent.TypeToolStarted, "b"), call(runevent.TypeToolUnknown, "b"),
		call(runevent.TypeToolStarted, "c"), nested(runevent.TypeToolStarted, "get", 1), nested(runevent.TypeMCPAudit, "get", 1), nested(runevent.TypeToolStarted, "get", 2),
		nested(runevent.TypeToolStarted, "put", 3),
	)
	result.Evidence.RecordedAt = started.Add(10 * time.Second)
	want := map[string]*ToolProgress{"a": {Attempts: 1, Result: &result}, "b": {Attempts: 2, Unknown: true}, "c": {Attempts: 1, Nested: []string{"get", "put"}}}
	if diff := cmp.Diff(want, f.state.Run.Tools, same); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if f.state.Run.ToolCalls != 3 {
		t.Errorf("%d tool calls, want 3", f.state.Run.ToolCalls)
	}
}

// TestPhases names where a live run is.
func TestPhases(t *testing.T) {
	failed := func(class string, retryable bool) runevent.Event {
		return runevent.Event{Type: runevent.TypeModelFailed, Purpose: runevent.PurposeMain, Class: class, Retryable: retryable}
	}
	cases := map[string]struct {
		events []runevent.Event
		want   string
	}{
		"started":                    {want: PhaseStarting},
		"accepted":                   {events: []runevent.Event{prompt("hi")}, want: PhaseAssembling},
		"asked":                      {events: []runevent.Event{prompt("hi"), capture("r1", 1, "one")}, want: PhaseModelCall},
		"waits for another try":      {events: []runevent.Event{prompt("hi"), capture("r1", 1, "one"), failed("overloaded", true)}, want: PhaseRetryBackoff},
		"waits for its turn":         {events: []runevent.Event{prompt("hi"), {Type: runevent.TypeRecord, Kind: runevent.KindRequestWaiting, Purpose: runevent.PurposeMain}}, want: PhaseRateLimited},
		"waits for the rate":         {events: []runevent.Event{prompt("hi"), capture("r1", 1, "one"), failed("rateLimited", true)}, want: PhaseRateLimited},
		"failed for good":            {events: []runevent.Event{prompt("hi"), capture("r1", 1, "one"), failed("auth", false)}, want: PhaseAssembling},
		"refused before it was sent": {events: []runevent.Event{prompt("hi"), capture("r1", 1, "one"), reject("r1", 1, "one")}, want: PhaseAssembling},
		"calls tools": {
			events: []runevent.Event{prompt("hi"), capture("r1", 1, "one"), complete("r1", 1, "one", nil), {Type: runevent.TypeToolStarted, CallID: "a"}},
			want:   PhaseToolCall,
		},
		"ended": {events: []runevent.Event{prompt("hi"), finish()}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := newFolder(t).apply(begin("u1")).apply(tc.events...).state.Run.Phase; got != tc.want {
				t.Errorf("phase %q, want %q", got, tc.want)
			}
		})
	}
}

// TestRecentIsBounded remembers the last runs that ended, and forgets older ones.
func TestRecentIsBounded(t *testing.T) {
	f := newFolder(t)
	if f.state.Ended("u0") || f.state.Live() {
		t.Error("an empty state knows of a run")
	}
	const runs = RecentRuns + 5
	for i := range runs {
		uid := fmt.Sprintf("u%d", i)
		f.apply(begin(uid), prompt("hi"))
		if f.state.Ended(uid) || !f.state.Live() {
			t.Fatalf("run %s counts as ended while it is live", uid)
		}
		f.commit(Step{Turn: 1}).apply(finish())
		if !f.state.Ended(uid) || f.state.Live() {
			t.Fatalf("run %s does not count as ended", uid)
		}
	}
	if len(f.state.Recent) != RecentRuns {
		t.Errorf("%d runs are remembered, want %d", len(f.state.Recent), RecentRuns)
	}
	for i := range runs {
		uid := fmt.Sprintf("u%d", i)
		if got, want := f.state.Ended(uid), i >= runs-RecentRuns; got != want {
			t.Errorf("run %s ended: %v, want %v", uid, got, want)
		}
	}
}

// TestEarlierUsage sums the runs before the latest one.
func TestEarlierUsage(t *testing.T) {
	f := newFolder(t)
	for _, uid := range []string{"u1", "u2"} {
		f.apply(begin(uid), prompt("hi"), capture("r", 1, "one"), complete("r", 1, "one", used(10, 5))).commit(Step{Turn: 1}).apply(finish())
	}
	usage := f.state.Usage()
	if *usage.Input != 20 || *f.state.Run.Usage.Input != 10 || *f.state.Earlier.Input != 10 {
		t.Errorf("usage %d, of the run %d, earlier %d; want 20, 10 and 10", *usage.Input, *f.state.Run.Usage.Input, *f.state.Earlier.Input)
	}
}

// TestApplyRefuses leaves the state as it was when an entry cannot follow.
func TestApplyRefuses(t *testing.T) {
	committed := runevent.Event{Type: runevent.TypeRecord, Kind: runevent.KindStateCommitted}
	other := committed
	other.Evidence.StateRef = ref("another state", cas.MediaState)
	cases := map[string]struct {
		before []runevent.Event
		skip   int64
		event  runevent.Event
		want   string
	}{
		"a gap":                       {before: []runevent.Event{begin("u1")}, skip: 1, event: prompt("hi"), want: "entry #3 after #1"},
		"an entry that was there":     {before: []runevent.Event{begin("u1")}, skip: -1, event: prompt("hi"), want: "entry #1 after #1"},
		"a beginning in the middle":   {skip: 4, event: begin("u1"), want: "entry #5 after #0"},
		"an entry without a run":      {event: prompt("hi"), want: "belongs to no run"},
		"a commit that names nothing": {before: []runevent.Event{begin("u1")}, event: committed, want: "a state that is not loaded"},
		"a commit of another state":   {before: []runevent.Event{begin("u1")}, event: other, want: "a state that is not loaded"},
		"a prompt that names nothing": {before: []runevent.Event{begin("u1")}, event: runevent.Event{Type: runevent.TypeMessageUser}, want: "names no message"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t).apply(tc.before...)
			before := f.state.Clone()
			sequence := f.state.Head.Sequence + 1 + tc.skip
			err := f.state.Apply(runevent.Entry{Sequence: sequence, Event: tc.event}, runevent.Head{Sequence: sequence})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if diff := cmp.Diff(before, f.state, same); diff != "" {
				t.Errorf("the state has changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestCloneIsIndependent moves a copy on, and the original, by different entries.
func TestCloneIsIndependent(t *testing.T) {
	f := newFolder(t).apply(begin("u1"), prompt("hi"), capture("r1", 1, "one"), complete("r1", 1, "one", used(10, 5)),
		runevent.Event{Type: runevent.TypeToolCall, CallID: "a"})
	original := f.state.Clone()
	other := &folder{t: t, state: f.state.Clone()}
	untouched := f.state.Clone()

	snapshots := capture("r2", 2, "two")
	snapshots.SnapshotRefs = []cas.Ref{*ref("snapshot", cas.MediaSnapshot)}
	other.apply(runevent.Event{Type: runevent.TypeToolStarted, CallID: "a"}, runevent.Event{Type: runevent.TypeToolResult, CallID: "a"},
		prompt("more"), snapshots).commit(Step{Turn: 2, Messages: []StepMessage{{Inline: []byte(`{}`)}}}).apply(finish())
	if diff := cmp.Diff(original, f.state, same); diff != "" {
		t.Errorf("moving a copy on has changed the original (-before +after):\n%s", diff)
	}
	f.apply(prompt("other"), runevent.Event{Type: runevent.TypeToolUnknown, CallID: "a"}, finish())
	if diff := cmp.Diff(original, untouched, same); diff != "" {
		t.Errorf("moving the original on has changed a copy (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(cas.MessageRef{Digest: ref("more", "").Digest}, other.state.History[1], same); diff != "" {
		t.Errorf("the copy has another history (-want +got):\n%s", diff)
	}
}

func summaryOf(event runevent.Event) runevent.Event {
	event.Purpose = runevent.PurposeSummary
	return event
}

// TestCompactionFolds tells what compactions leave in the state: the checkpoint with what was admitted beside it, the
// tries since a request was last below the threshold, and summaries that no checkpoint was made of yet.
func TestCompactionFolds(t *testing.T) {
	tried := func(id string, attempt int) runevent.Event {
		event := summaryOf(capture(id, 0, "summary "+id))
		event.Attempt = attempt
		return event
	}
	pressed := func(id string, attempt int) runevent.Event {
		event := capture(id, 1, "main "+id)
		event.Attempt = attempt
		return event
	}
	committed := runevent.Event{
		Type: runevent.TypeRecord, Kind: runevent.KindCompactionCommitted, Checkpoint: ref("checkpoint", cas.MediaCheckpoint),
		SnapshotRefs: []cas.Ref{*ref("snapshot", cas.MediaSnapshot)}, SectionsRef: ref("sections", cas.MediaSections),
	}
	live := []runevent.Event{begin("u1"), prompt("hi")}
	failed := summaryOf(runevent.Event{Type: runevent.TypeModelFailed, Class: "invalidRequest"})
	overflow := runevent.Event{Type: runevent.TypeModelFailed, Purpose: runevent.PurposeMain, Class: "overflow"}
	done := summaryOf(complete("s1", 0, "summary s1", used(100, 10)))
	cases := map[string]struct {
		events    []runevent.Event
		tries     int
		summaries int
		stored    bool
		phase     string
	}{
		"a summary is asked for":                               {events: []runevent.Event{tried("s1", 1)}, tries: 1, phase: PhaseCompacting},
		"a second part of it is no second try":                 {events: []runevent.Event{tried("s1", 1), done, tried("s2", 1)}, tries: 1, summaries: 1, phase: PhaseCompacting},
		"it has come and is not used yet":                      {events: []runevent.Event{tried("s1", 1), done}, tries: 1, summaries: 1, phase: PhaseCompacting},
		"it stands for older messages":                         {events: []runevent.Event{tried("s1", 1), done, committed}, tries: 1, stored: true, phase: PhaseCompacting},
		"a request that is still above the threshold":          {events: []runevent.Event{tried("s1", 1), pressed("m1", 1)}, tries: 1, phase: PhaseModelCall},
		"a request below it":                                   {events: []runevent.Event{tried("s1", 1), done, committed, capture("m1", 1, "main")}, stored: true, phase: PhaseModelCall},
		"its worker died: it may be tried again":               {events: []runevent.Event{tried("s1", 1), done, begin("u1")}, summaries: 1, phase: PhaseStarting},
		"its worker died after it had failed":                  {events: []runevent.Event{tried("s1", 1), failed, begin("u1")}, tries: 1, phase: PhaseStarting},
		"its worker died in a recovery, which is none of them": {events: []runevent.Event{pressed("m1", 1), overflow, tried("s1", 1), begin("u1")}, tries: 1, phase: PhaseStarting},
		"its worker died in a second request of it":            {events: []runevent.Event{tried("s1", 1), failed, tried("s2", 1), begin("u1")}, phase: PhaseStarting},
		"the next prompt":                                      {events: []runevent.Event{tried("s1", 2), finish(), begin("u2"), prompt("next")}, phase: PhaseAssembling},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := newFolder(t).apply(live...).apply(tc.events...).state
			got := []any{state.Run.Compactions, len(state.Run.Summaries), state.Checkpoint != nil, state.Run.Phase}
			if diff := cmp.Diff([]any{tc.tries, tc.summaries, tc.stored, tc.phase}, got); diff != "" {
				t.Errorf("tries, summaries, checkpoint, phase (-want +got):\n%s", diff)
			}
			if stored := len(state.Snapshots) == 1 && state.Sections != nil; stored != tc.stored {
				t.Errorf("snapshots %v, sections %v", state.Snapshots, state.Sections)
			}
			if usage := state.Usage(); usage.Input != nil {
				t.Errorf("a summary counts as usage of the conversation: %+v", usage)
			}
		})
	}
}

// TestTitleAndRecoveryFold keeps the session's title across runs, and the turn that was recovered with its run.
func TestTitleAndRecoveryFold(t *testing.T) {
	title := complete("t1", 0, "title", used(30, 5))
	title.Purpose = runevent.PurposeTitle
	recovery := runevent.Event{Type: runevent.TypeRecord, Kind: runevent.KindContextRecovery, Reason: "overflow", Evidence: runevent.Evidence{Turn: 3}}
	f := newFolder(t).apply(begin("u1"), prompt("hi"), title, recovery)
	if f.state.Title == nil || f.state.Run.Recovered != 3 || f.state.Usage().Input != nil {
		t.Errorf("title %v, recovered turn %d, usage %+v", f.state.Title, f.state.Run.Recovered, f.state.Usage())
	}
	f.apply(finish(), begin("u2"))
	if f.state.Title == nil || f.state.Run.Recovered != 0 {
		t.Errorf("in the next run: title %v, recovered turn %d", f.state.Title, f.state.Run.Recovered)
	}
}
