package trajectory_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/runevent"
)

func TestFold(t *testing.T) {
	const (
		started  = runevent.TypeRunStarted
		finished = runevent.TypeRunFinished
	)
	captured, completed := runevent.KindContextCaptured, runevent.KindModelCompleted
	title := func(e *runevent.Event) { e.Purpose = runevent.PurposeTitle }
	cases := map[string]struct {
		events []runevent.Event
		want   []string
	}{
		"increments of one response merge, text is hidden": {
			[]runevent.Event{
				record(captured, in("r1", "a")), ev(runevent.TypeReasoning, in("r1", "a"), response("x"), text("1")),
				ev(runevent.TypeBody, in("r1", "a"), response("x"), text("2")), ev(runevent.TypeReasoning, in("r1", "a"), response("x"), text("3")),
				record(completed, in("r1", "a"), response("x")),
			},
			[]string{
				"modelInput context.captured #1 completed", "reasoning reasoning #2-4 completed <run.main.1",
				"lifecycle body #3 completed <run.main.1", "modelOutput model.completed #5 completed <run.main.1",
			},
		},
		"increments of two responses, requests, inputs or runs do not": {
			[]runevent.Event{
				ev(runevent.TypeReasoning, in("r1", "a"), response("x"), text("1")), ev(runevent.TypeReasoning, in("r1", "a"), response("y"), text("1")),
				ev(runevent.TypeReasoning, in("r2", "a"), response("x"), text("1")), ev(runevent.TypeReasoning, in("r1", "b"), response("x"), text("1")),
				ev(runevent.TypeReasoning, ofRun("u2"), in("r1", "a"), response("x"), text("1")),
			},
			[]string{
				"reasoning reasoning #1 running", "reasoning reasoning #2 running", "reasoning reasoning #3 running", "reasoning reasoning #4 running",
				"reasoning reasoning #5 running",
			},
		},
		"partial text of a failed request makes no output": {
			[]runevent.Event{
				record(captured, in("r1", "a")), ev(runevent.TypeReasoning, in("r1", "a"), response("x"), text("1")),
				ev(runevent.TypeBody, in("r1", "a"), response("x"), text("2")), ev(runevent.TypeModelFailed, in("r1", "a")),
			},
			[]string{
				"modelInput context.captured #1 failed", "reasoning reasoning #2 unfinished <run.main.1", "lifecycle body #3 unfinished <run.main.1",
				"lifecycle model.failed #4 failed <run.main.1",
			},
		},
		"an answer to another input or request is not associated": {
			[]runevent.Event{
				record(captured, in("r1", "a")), record(completed, in("r2", "a")), record(completed, in("r1", "b")), ev(finished),
			},
			[]string{
				"modelInput context.captured #1 unfinished", "modelOutput model.completed #2 completed", "modelOutput model.completed #3 completed",
				"lifecycle run.finished #4 completed",
			},
		},
		"a request that nobody answered before the next worker is unfinished, its tool goes on": {
			[]runevent.Event{
				ev(started), record(captured, in("r1", "a")), record(completed, in("r1", "a")), ev(runevent.TypeToolCall, in("r1", "a"), call("1")),
				ev(runevent.TypeToolStarted, in("r1", "a"), call("1")), ev(started), ev(runevent.TypeToolUnknown, in("r1", "a"), call("1")),
				ev(runevent.TypeToolResult, in("r1", "a"), call("1")), record(captured, in("r2", "b")), ev(started),
			},
			[]string{
				"lifecycle run.started #1", "modelInput context.captured #2 completed", "modelOutput model.completed #3 completed <run.main.2",
				"tool tool.call #4-8 unknown <run.main.2", "lifecycle run.started #6", "modelInput context.captured #9 unfinished", "lifecycle run.started #10",
			},
		},
		"a title is asked for beside the run: neither request ends the other": {
			[]runevent.Event{
				record(captured, in("t1", "t"), title), record(captured, in("r1", "a")), record(completed, in("r1", "a"), response("x")),
				record(captured, in("r2", "b")), record(completed, in("t1", "t"), title), record(completed, in("r2", "b")), ev(finished),
			},
			[]string{
				"modelInput context.captured #1 completed", "modelInput context.captured #2 completed", "modelOutput model.completed #3 completed <run.main.2",
				"modelInput context.captured #4 completed", "modelOutput model.completed #5 completed <run.main.1",
				"modelOutput model.completed #6 completed <run.main.4", "lifecycle run.finished #7 completed",
			},
		},
		"a request that is open when a title is asked for goes on, a title that does not come in time is unfinished": {
			[]runevent.Event{
				record(captured, in("r1", "a")), record(captured, in("t1", "t"), title), record(completed, in("r1", "a")), ev(finished),
			},
			[]string{
				"modelInput context.captured #1 completed", "modelInput context.captured #2 unfinished",
				"modelOutput model.completed #3 completed <run.main.1", "lifecycle run.finished #4 completed",
			},
		},
		"a refused request is rejected, a cancelled run cancels what is open": {
			[]runevent.Event{
				record(captured, in("r1", "a")), ev(runevent.TypeModelRejected, in("r1", "a")), record(captured, in("r2", "b")),
				ev(runevent.TypeReasoning, in("r2", "b"), text("x")), ev(runevent.TypeRunCancelled),
			},
			[]string{
				"modelInput context.captured #1 rejected", "lifecycle model.rejected #2 rejected <run.main.1", "modelInput context.captured #3 cancelled",
				"reasoning reasoning #4 unfinished <run.main.3", "lifecycle run.cancelled #5 cancelled",
			},
		},
		"tools of the same id in two requests are two": {
			[]runevent.Event{
				ev(runevent.TypeToolCall, in("r1", "a"), call("1")), ev(runevent.TypeToolCall, in("r2", "a"), call("1")),
				ev(runevent.TypeToolStarted, in("r2", "a"), call("1")),
			},
			[]string{"tool tool.call #1 declared", "tool tool.call #2-3 running"},
		},
		"a tool's own failure, and the evidence of a server": {
			[]runevent.Event{
				ev(runevent.TypeToolCall, in("r1", "a"), call("1")), ev(runevent.TypeToolStarted, in("r1", "a"), call("1")),
				ev(runevent.TypeMCPAudit, in("r1", "a"), call("1"), func(e *runevent.Event) { e.Server = "s" }),
				ev(runevent.TypeToolResult, in("r1", "a"), call("1"), func(e *runevent.Event) { e.IsError = true }),
			},
			[]string{"mcp tool.call #1-4 error"},
		},
		"a tool that a run leaves behind is unfinished": {
			[]runevent.Event{ev(runevent.TypeToolStarted, in("r1", "a"), call("1")), ev(runevent.TypeRunFailed)},
			[]string{"tool tool.started #1 unfinished", "lifecycle run.failed #2 failed"},
		},
		"other records are kept and hidden": {
			[]runevent.Event{
				record(runevent.KindCompactionCommitted), record(runevent.KindContextRecovery), record(runevent.KindApproval), ev(runevent.TypeSubagentFinished),
			},
			[]string{
				"lifecycle compaction.committed #1", "lifecycle context_recovery #2", "lifecycle approval #3", "lifecycle subagent.finished #4",
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHand(t)
			for _, event := range c.events {
				h.log.add(t, main, event)
			}
			h.want(c.want...)
		})
	}
}

func TestWhatTheViewerHides(t *testing.T) {
	h := newHand(t)
	for _, event := range []runevent.Event{
		ev(runevent.TypeRunStarted), ev(runevent.TypeMessageUser), record(runevent.KindContextCaptured, in("r1", "a")),
		ev(runevent.TypeReasoning, in("r1", "a"), text("x")), ev(runevent.TypeBody, in("r1", "a"), text("x")),
		record(runevent.KindModelCompleted, in("r1", "a")), ev(runevent.TypeToolCall, in("r1", "a"), call("1")),
		ev(runevent.TypeMCPAudit, in("r1", "a"), call("2"), func(e *runevent.Event) { e.Server = "s" }), record(runevent.KindStateCommitted),
		ev(runevent.TypeSubagentStarted), ev(runevent.TypeRunFailed),
	} {
		h.log.add(t, main, event)
	}
	ix := h.index()
	shown := map[string]int{}
	for _, e := range page(t, ix, "", 100).Entries {
		if !e.Hidden {
			shown[string(e.Type)]++
		}
	}
	want := map[string]int{"modelInput": 1, "reasoning": 1, "modelOutput": 1, "tool": 1, "mcp": 1}
	for kind, n := range want {
		if shown[kind] != n {
			t.Errorf("%d entries of type %s are shown, want %d", shown[kind], kind, n)
		}
	}
	if len(shown) != len(want) || ix.Counts.Entries-ix.Counts.Hidden != 5 || ix.Counts.Entries != 11 {
		t.Errorf("shown are %v of %+v", shown, ix.Counts)
	}
}

// TestTitlesOfWaiting: who decided what about a call of which tool is said by the index, and whom a run delegated to; the
// arguments and what people say are not.
func TestTitlesOfWaiting(t *testing.T) {
	decided := func(decision runevent.Decision, approver, said string) runevent.Event {
		return record(runevent.KindApproval, in("r1", "a"), call("c1"), func(e *runevent.Event) {
			e.Name, e.Server, e.Decision, e.Approver, e.Text = "notes__append", "notes", decision, approver, said
		})
	}
	delegated := func(kind runevent.Type, agent, reason string) runevent.Event {
		return ev(kind, call("d1"), func(e *runevent.Event) { e.Agent, e.Reason, e.RunName = agent, reason, "first-writer-0a" })
	}
	h := newHand(t)
	for _, event := range []runevent.Event{
		delegated(runevent.TypeSubagentStarted, "writer-0a", ""), delegated(runevent.TypeSubagentFinished, "writer-0a", "Cancelled"),
		delegated(runevent.TypeSubagentFinished, "writer-0a", ""), delegated(runevent.TypeSubagentStarted, "", ""),
		decided(runevent.DecisionRequested, "", ""), ev(runevent.TypeRunHandedBack, func(e *runevent.Event) { e.Reason = "AwaitingApproval" }),
		decided(runevent.DecisionApproved, "kim", "fine"), decided(runevent.DecisionDenied, "kim", "not on a Friday"), decided(runevent.DecisionExpired, "", ""),
		ev(runevent.TypeRunHandedBack), record(runevent.KindApproval),
	} {
		h.log.add(t, main, event)
	}
	ix := h.index()
	var got []string
	for _, e := range page(t, ix, "", 100).Entries {
		got = append(got, strings.Join([]string{e.Event, e.Title, e.ToolCallID, e.Server}, "|"))
	}
	want := []string{
		"subagent.started|subagent.started: writer-0a|d1|", "subagent.finished|subagent.finished: writer-0a, Cancelled|d1|",
		"subagent.finished|subagent.finished: writer-0a, ended|d1|", "subagent.started|subagent.started|d1|",
		"approval|approval requested: notes__append|c1|notes", "run.handedback|run.handedback: AwaitingApproval||", "approval|approved by kim: notes__append|c1|notes",
		"approval|denied by kim: notes__append|c1|notes", "approval|approval expired: notes__append|c1|notes", "run.handedback|run.handedback||", "approval|approval||",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUsageOfARun(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	h := newHand(t)
	h.log.add(t, main, ev(runevent.TypeRunStarted))
	h.log.add(t, main, record(runevent.KindContextCaptured, in("r1", "a")))
	h.log.add(t, main, record(runevent.KindModelCompleted, in("r1", "a"), func(e *runevent.Event) { e.Usage = usage(n(7), n(3)) }))
	h.log.add(t, main, record(runevent.KindContextCaptured, in("r2", "b")))
	h.log.add(t, main, ev(runevent.TypeModelFailed, in("r2", "b"), func(e *runevent.Event) { e.Usage = usage(n(5), nil) }))
	h.log.add(t, main, record(runevent.KindContextCaptured, in("r3", "c")))
	h.log.add(t, main, ev(runevent.TypeModelRejected, in("r3", "c")))
	h.log.add(t, main, record(runevent.KindContextCaptured, in("r4", "d"), func(e *runevent.Event) { e.Purpose = runevent.PurposeSummary }))
	h.log.add(t, main, record(runevent.KindModelCompleted, in("r4", "d"), func(e *runevent.Event) {
		e.Purpose, e.Usage = runevent.PurposeSummary, usage(n(1000), n(1000))
	}))
	h.log.add(t, main, record(runevent.KindContextCaptured, in("r5", "e")))
	h.log.add(t, main, ev(runevent.TypeRunCancelled))
	r := h.index().AllRuns()[0]
	if r.Requests != 3 || r.RequestsWithoutUsage != 1 || r.Status != "cancelled" {
		t.Errorf("run is %+v, want 3 requests, one without usage", r)
	}
	if r.Usage == nil || *r.Usage.Input != 12 || *r.Usage.Output != 3 || r.Usage.CacheRead != nil {
		t.Errorf("usage is %+v, want 12 in, 3 out and nothing else", r.Usage)
	}
}
