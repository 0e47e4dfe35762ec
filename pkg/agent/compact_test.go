package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// tokens is a text of about n tokens.
func tokens(n int) string { return strings.Repeat("word ", n*4/5) }

// isSummary tells a request for a summary from one of the conversation.
func isSummary(req provider.Request) bool {
	return strings.Contains(req.System, "working memory of an agent")
}

// asked lists what the model was asked for: "main" and "summary".
func (w *world) asked() []string {
	var out []string
	for _, req := range w.model.requests {
		if isSummary(req) {
			out = append(out, "summary")
			continue
		}
		out = append(out, "main")
	}
	return out
}

// compacting is a run in a session that compacts by itself.
func (w *world) compacting(uid, prompt string) Run {
	run := w.run(uid, prompt)
	run.Config.Compaction.Automatic = true
	run.Config.OverflowRecovery = true
	return run
}

// fill makes turns with prompts of so many tokens each.
func (w *world) fill(sizes ...int) {
	w.t.Helper()
	for i, size := range sizes {
		w.model.replies = []reply{says(fmt.Sprintf("answer %d", i))}
		if got, err := w.execute(context.Background(), w.compacting(fmt.Sprintf("old-%d", i), tokens(size))); err != nil || got != completed {
			w.t.Fatalf("turn %d: %+v, %v", i, got, err)
		}
	}
	w.model.requests = nil
}

func (w *world) kinds(from int) []string { return w.events()[from:] }

// TestAutomaticCompaction drives requests over the threshold: 23,674 of an input limit of 26,304 tokens.
func TestAutomaticCompaction(t *testing.T) {
	summarised := []string{"context.captured", "model.completed", "compaction.committed"}
	answeredRun := []string{"context.captured", "body", "model.completed", "state.committed", "run.finished"}
	begun := []string{"run.started", "message.user"}
	cases := map[string]struct {
		old     []int
		prompt  int
		system  int
		replies []reply
		want    Result
		asked   []string
		events  []string
		// kept is the first history message that is still sent; 0 for all of them.
		kept int
	}{
		"below the threshold": {
			old: []int{10000}, prompt: 10000, replies: []reply{says("done")}, want: completed, asked: []string{"main"}, events: slices.Concat(begun, answeredRun),
		},
		"above it, a summary stands for the older turns": {
			old: []int{8000, 8000}, prompt: 9000, replies: []reply{says("all of it, short"), says("done")}, want: completed,
			asked: []string{"summary", "main"}, events: slices.Concat(begun, summarised, answeredRun), kept: 4,
		},
		"the first pass is not enough": {
			old: []int{3000, 5000}, prompt: 100, system: 21500, replies: []reply{says("short"), says("shorter"), says("done")}, want: completed,
			asked: []string{"summary", "summary", "main"}, events: slices.Concat(begun, summarised, summarised, answeredRun), kept: 4,
		},
		"the summary is larger than what it stands for": {
			old: []int{200}, prompt: 24000, replies: []reply{says(tokens(900)), says("done")}, want: completed, asked: []string{"summary", "main"},
			events: slices.Concat(begun, []string{"context.captured", "model.completed"}, answeredRun),
		},
		"no summary, but the request fits": {
			old: []int{8000, 8000}, prompt: 8000, replies: []reply{fails(provider.ClassInvalidRequest), says("done")}, want: completed, asked: []string{"summary", "main"},
			events: slices.Concat(begun, []string{"context.captured", "model.failed"}, answeredRun),
		},
		"no summary, and the request does not fit": {
			old: []int{8000, 8000}, prompt: 11000, replies: []reply{fails(provider.ClassInvalidRequest), fails(provider.ClassInvalidRequest)},
			want: Result{runevent.TypeRunFailed, ReasonBudgetExceeded}, asked: []string{"summary", "summary"},
			events: slices.Concat(begun, []string{"context.captured", "model.failed", "context.captured", "model.failed", "state.committed", "run.failed"}),
		},
		"a summary after a failure that passes": {
			old: []int{8000, 8000}, prompt: 9000, replies: []reply{fails(provider.ClassOverloaded), says("short"), says("done")}, want: completed,
			asked: []string{"summary", "summary", "main"}, kept: 4,
			events: slices.Concat(begun, []string{"context.captured", "model.failed"}, summarised, answeredRun),
		},
		"the request for a summary is too long": {
			old: []int{8000, 8000}, prompt: 9000, replies: []reply{fails(provider.ClassOverflow), says("first part"), says("all of it"), says("done")}, want: completed,
			asked: []string{"summary", "summary", "summary", "main"}, kept: 4,
			events: slices.Concat(begun, []string{"context.captured", "model.failed", "context.captured", "model.completed"}, summarised, answeredRun),
		},
		"the summary was cut off": {
			old: []int{8000, 8000}, prompt: 8000, replies: []reply{stops("half", message.StopLength), says("done")}, want: completed, asked: []string{"summary", "main"},
			events: slices.Concat(begun, []string{"context.captured", "model.completed"}, answeredRun),
		},
		"nothing is old enough": {
			prompt: 24000, replies: []reply{says("done")}, want: completed, asked: []string{"main"}, events: slices.Concat(begun, answeredRun),
		},
		"a system prompt above the limit": {
			system: 30000, prompt: 10, want: Result{runevent.TypeRunFailed, ReasonBudgetExceeded}, events: slices.Concat(begun, []string{"state.committed", "run.failed"}),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(tc.old...)
			before := len(w.events())
			run := w.compacting("u", tokens(tc.prompt))
			if tc.system > 0 {
				run.Config.Sections = []projection.Section{{Name: "project", Text: tokens(tc.system)}}
			}
			w.model.replies = tc.replies
			if got, err := w.execute(t.Context(), run); err != nil || got != tc.want {
				t.Fatalf("%+v, %v; want %+v", got, err, tc.want)
			}
			if diff := cmp.Diff(tc.asked, w.asked()); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.events, w.kinds(before)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			w.checkKept(tc.kept, 2*len(tc.old)+1)
			w.checkFolds(t)
		})
	}
}

func stops(text string, reason message.StopReason) reply {
	return func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
		out, err := says(text)(ctx, req, onDelta)
		out.Message.StopReason = reason
		return out, err
	}
}

// checkKept checks the saved checkpoint, and that history is complete nevertheless.
func (w *world) checkKept(kept, atLeast int) {
	w.t.Helper()
	l := &loop{deps: w.deps(), run: w.run("x", "")}
	l.state, _ = w.state()
	if err := l.load(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	got := 0
	if l.checkpoint != nil {
		got = l.checkpoint.FirstKeptMessageIndex
	}
	if got != kept || len(l.history) < atLeast {
		w.t.Errorf("the checkpoint keeps from message %d on, want %d; history has %d messages, at least %d wanted", got, kept, len(l.history), atLeast)
	}
}

// TestContinuationIsCompacted lets a tool result push the next request of the same turn over the limit.
func TestContinuationIsCompacted(t *testing.T) {
	cases := map[string]struct {
		old     []int
		result  int
		replies []reply
		want    Result
		asked   []string
	}{
		"older turns make room": {
			old: []int{9000, 9000}, result: 9000, replies: []reply{calls("read"), says("short"), says("done")}, want: completed, asked: []string{"main", "summary", "main"},
		},
		"the turn itself is cut when it is too large": {
			old: []int{1000}, result: 20000, replies: []reply{calls("read"), calls("read"), says("short"), says("done")}, want: completed,
			asked: []string{"main", "main", "summary", "main"},
		},
		"a result larger than the window cannot be helped": {
			result: 40000, replies: []reply{calls("read"), says("short")}, want: Result{runevent.TypeRunFailed, ReasonBudgetExceeded}, asked: []string{"main", "summary"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(tc.old...)
			w.tools.definitions = []tool.Definition{defined("read")}
			w.tools.call = func(context.Context, tool.Call) (tool.Result, error) {
				return tool.Result{Content: message.Text(tokens(tc.result)), Audit: tool.Audit{Server: "srv", Outcome: "ok"}}, nil
			}
			w.model.replies = tc.replies
			if got, err := w.execute(t.Context(), w.compacting("u", "read it")); err != nil || got != tc.want {
				t.Fatalf("%+v, %v; want %+v", got, err, tc.want)
			}
			if diff := cmp.Diff(tc.asked, w.asked()); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			w.checkFolds(t)
			// The session stays usable, whatever stands in its history.
			w.model.requests, w.model.replies = nil, []reply{says("short"), says("back"), says("back"), says("back")}
			if got, err := w.execute(t.Context(), w.compacting("u2", "go on")); err != nil || got != completed {
				t.Errorf("afterwards: %+v, %v, asked %v", got, err, w.asked())
			}
		})
	}
}

// TestNoEndlessCompaction asks for no third summary while the requests of one prompt stay above the threshold.
func TestNoEndlessCompaction(t *testing.T) {
	w := newWorld(t)
	w.fill(20000)
	w.tools.definitions = []tool.Definition{defined("read")}
	w.model.replies = []reply{fails(provider.ClassInvalidRequest), calls("read"), calls("read"), calls("read"), says("done")}
	if got, err := w.execute(t.Context(), w.compacting("u", tokens(4000))); err != nil || got != completed {
		t.Fatalf("%+v, %v", got, err)
	}
	if diff := cmp.Diff([]string{"summary", "main", "main", "main", "main"}, w.asked()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// TestCancelWhileCompacting ends a run at points of a compaction: before the commit nothing of it stays, after it the
// checkpoint does, and in neither case is the main model asked.
func TestCancelWhileCompacting(t *testing.T) {
	cases := map[string]struct {
		point string
		kept  int
	}{
		"when the summary is asked for": {point: "summary.captured"},
		"when it has come":              {point: "summary.answered"},
		"when it is stored":             {point: "checkpoint.stored"},
		"when it is committed":          {point: "compaction.committed", kept: 4},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(8000, 8000)
			ctx, cancel := context.WithCancelCause(t.Context())
			w.chaos = func(point string) {
				if point == tc.point {
					cancel(ErrCancelled)
				}
			}
			w.model.replies = []reply{says("short"), says("never asked for")}
			got, err := w.execute(ctx, w.compacting("u", tokens(9000)))
			if want := (Result{runevent.TypeRunCancelled, ReasonCancelled}); err != nil || got != want {
				t.Fatalf("%+v, %v; want %+v", got, err, want)
			}
			if slices.Contains(w.asked(), "main") {
				t.Error("the main model was asked")
			}
			w.chaos = nil
			w.checkKept(tc.kept, 5)
			if _, history := w.state(); history[len(history)-1].Role != message.RoleUser {
				t.Errorf("the prompt is not the last message: %v", roles(history))
			}
			w.checkFolds(t)
		})
	}
}

// TestTakeoverWhileCompacting kills the worker at points of a compaction. The next one uses the summary that is there
// and does not pay for it twice.
func TestTakeoverWhileCompacting(t *testing.T) {
	cases := map[string]struct {
		point string
		asked []string
	}{
		"before the summary has come": {point: "summary.captured", asked: []string{"summary", "main"}},
		"after it":                    {point: "model.completed", asked: []string{"summary", "main"}},
		"when it is stored":           {point: "checkpoint.stored", asked: []string{"summary", "main"}},
		"when it is committed":        {point: "compaction.committed", asked: []string{"summary", "main"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(8000, 8000)
			w.model.replies = []reply{says("short"), says("done"), says("one too many")}
			run := w.compacting("u", tokens(9000))
			w.runUntil(run, tc.point, 1)
			if got, err := w.execute(t.Context(), run); err != nil || got != completed {
				t.Fatalf("takeover: %+v, %v", got, err)
			}
			if diff := cmp.Diff(tc.asked, w.asked()); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			w.checkKept(4, 6)
			w.checkFolds(t)
		})
	}
}

// cutAt is an answer that ended at its length limit after so many tokens.
func cutAt(tokens int64) reply {
	return func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
		out, err := stops("half an ans", message.StopLength)(ctx, req, onDelta)
		out.Message.Usage = &message.Usage{Input: count(20000), Output: &tokens}
		return out, err
	}
}

// TestOverflowRecovery has the provider find a request too long that was estimated to fit: it is compacted and sent
// once more, and only once.
func TestOverflowRecovery(t *testing.T) {
	failed := Result{runevent.TypeRunFailed, ReasonRejected}
	cases := map[string]struct {
		old     []int
		off     bool
		replies []reply
		want    Result
		asked   []string
		record  bool
	}{
		"compacted and sent again": {
			old: []int{5000, 5000}, replies: []reply{fails(provider.ClassOverflow), says("short"), says("done")}, want: completed,
			asked: []string{"main", "summary", "main"}, record: true,
		},
		"too long again": {
			old: []int{5000, 5000}, replies: []reply{fails(provider.ClassOverflow), says("short"), fails(provider.ClassOverflow), says("never")}, want: failed,
			asked: []string{"main", "summary", "main"}, record: true,
		},
		"nothing to compact": {replies: []reply{fails(provider.ClassOverflow)}, want: failed, asked: []string{"main"}},
		"an answer that was cut off well below its cap": {
			old: []int{5000, 5000}, replies: []reply{cutAt(100), says("short"), says("done")}, want: completed,
			asked: []string{"main", "summary", "main"}, record: true,
		},
		"cut off again": {
			old: []int{5000, 5000}, replies: []reply{cutAt(100), says("short"), cutAt(200)}, want: completed,
			asked: []string{"main", "summary", "main"}, record: true,
		},
		"cut off at its cap":              {old: []int{5000, 5000}, replies: []reply{cutAt(4090)}, want: completed, asked: []string{"main"}},
		"cut off, and nothing to compact": {replies: []reply{cutAt(100)}, want: completed, asked: []string{"main"}},
		"cut off, and no summary: the answer stays": {
			old: []int{5000, 5000}, replies: []reply{cutAt(100), fails(provider.ClassAuth)}, want: completed, asked: []string{"main", "summary"},
		},
		"switched off": {old: []int{5000, 5000}, off: true, replies: []reply{fails(provider.ClassOverflow)}, want: failed, asked: []string{"main"}},
		"the summary fails": {
			old: []int{5000, 5000}, replies: []reply{fails(provider.ClassOverflow), fails(provider.ClassAuth)}, want: failed, asked: []string{"main", "summary"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(tc.old...)
			w.model.replies = tc.replies
			run := w.compacting("u", tokens(1000))
			run.Config.OverflowRecovery = !tc.off
			if got, err := w.execute(t.Context(), run); err != nil || got != tc.want {
				t.Fatalf("%+v, %v; want %+v", got, err, tc.want)
			}
			if diff := cmp.Diff(tc.asked, w.asked()); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if got := slices.Contains(w.events(), string(runevent.KindContextRecovery)); got != tc.record {
				t.Errorf("recovery recorded: %v, want %v", got, tc.record)
			}
			w.checkFolds(t)
		})
	}
}

// TestCompactOperation runs compactions by hand.
func TestCompactOperation(t *testing.T) {
	compact := func(w *world, uid string) Run {
		run := w.compacting(uid, "")
		run.Operation, run.Prompt, run.Config.Operation = OperationCompact, message.Message{}, OperationCompact
		run.Config.Compaction.Automatic = false
		return run
	}
	failed := func(reason string) Result { return Result{runevent.TypeRunFailed, reason} }
	cases := map[string]struct {
		old     []int
		replies []reply
		want    Result
		asked   []string
		kept    int
		// cap is the output cap that requests declare; 0 for the right one.
		cap int
	}{
		"the guard refuses the request": {old: []int{7000, 7000}, cap: 100_000, want: failed(ReasonOutputCapRejected)},

		"older turns":              {old: []int{7000, 7000}, replies: []reply{says("short")}, want: completed, asked: []string{"summary"}, kept: 2},
		"one turn":                 {old: []int{7000}, want: failed(ReasonNothingToCompact)},
		"an empty session":         {want: failed(ReasonNothingToCompact)},
		"all of it is recent":      {old: []int{100, 100}, want: failed(ReasonNothingToCompact)},
		"the summary is no answer": {old: []int{7000, 7000}, replies: []reply{stops("half", message.StopLength)}, want: failed(ReasonCompactionFailed), asked: []string{"summary"}},
		"the summary is too long":  {old: []int{7000, 7000}, replies: []reply{says(tokens(9000))}, want: failed(ReasonCompactionFailed), asked: []string{"summary"}},
		"the key is refused":       {old: []int{7000, 7000}, replies: []reply{fails(provider.ClassAuth)}, want: failed(ReasonAuthFailed), asked: []string{"summary"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(tc.old...)
			w.model.replies = tc.replies
			if tc.cap > 0 {
				w.model.body = func(provider.Request) []byte { return fmt.Appendf(nil, `{"max_tokens":%d}`, tc.cap) }
			}
			if got, err := w.execute(t.Context(), compact(w, "c")); err != nil || got != tc.want {
				t.Fatalf("%+v, %v; want %+v", got, err, tc.want)
			}
			if diff := cmp.Diff(tc.asked, w.asked()); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			w.checkKept(tc.kept, 2*len(tc.old))
			state, history := w.state()
			if len(history) != 2*len(tc.old) || state.Usage().Requests != int64(len(tc.old)) {
				t.Errorf("history %v, usage %+v", roles(history), state.Usage())
			}
			w.checkFolds(t)
			w.model.body, w.model.replies = nil, []reply{says("on we go")}
			if got, err := w.execute(t.Context(), w.run("next", "hi")); err != nil || got != completed {
				t.Errorf("the next run: %+v, %v", got, err)
			}
		})
	}
	t.Run("with a tool server that is away", func(t *testing.T) {
		w := newWorld(t)
		w.tools.definitions = []tool.Definition{defined("read")}
		w.fill(7000, 7000)
		before, err := w.idle(w.run("x", "").Config, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.tools.connectErr = errors.New("away")
		w.model.replies = []reply{says("short")}
		if got, err := w.execute(t.Context(), compact(w, "c")); err != nil || got != completed {
			t.Fatalf("%+v, %v", got, err)
		}
		if after, err := w.idle(w.run("x", "").Config, nil); err != nil || after.ToolTokens != before.ToolTokens || before.ToolTokens == 0 {
			t.Errorf("tools take %d tokens afterwards, %d before, %v", after.ToolTokens, before.ToolTokens, err)
		}
	})
	t.Run("taken over when the checkpoint is committed", func(t *testing.T) {
		w := newWorld(t)
		w.fill(7000, 7000)
		w.model.replies = []reply{says("short")}
		w.runUntil(compact(w, "c"), "compaction.committed", 1)
		if got, err := w.execute(t.Context(), compact(w, "c")); err != nil || got != completed {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// TestSummaryIsEvidence reads the fixed input of a summary back: what it was asked with, of which messages.
func TestSummaryIsEvidence(t *testing.T) {
	w := newWorld(t)
	w.fill(8000, 8000)
	w.model.replies = []reply{says("short"), says("done")}
	if got, err := w.execute(t.Context(), w.compacting("u", tokens(9000))); err != nil || got != completed {
		t.Fatalf("%+v, %v", got, err)
	}
	var records []session.AssemblyRecord
	var purposes []runevent.Purpose
	for _, e := range w.entries() {
		if e.Event.Kind == runevent.KindContextCaptured && e.Event.Evidence.AgentRunID == "u" {
			raw, err := w.store.Get(t.Context(), w.run("u", "").Scope(), *e.Event.Evidence.ContextRef)
			if err != nil {
				t.Fatal(err)
			}
			snapshot, err := session.DecodeObject[session.ContextSnapshot](raw)
			if err != nil {
				t.Fatal(err)
			}
			records, purposes = append(records, snapshot.Assembly), append(purposes, snapshot.Purpose)
		}
	}
	if diff := cmp.Diff([]runevent.Purpose{runevent.PurposeSummary, runevent.PurposeMain}, purposes); diff != "" {
		t.Fatal(diff)
	}
	if got := session.UnpackSources(records[0].Summarized); len(got) != 4 || got[3].MessageIndex != 3 {
		t.Errorf("the summary is of %+v, want messages 0 to 3", got)
	}
	if sources := session.UnpackSources(records[1].Sources); sources[0].Type != projection.SourceCompaction || sources[0].SummarizedBefore != 4 || records[1].Compaction == "" {
		t.Errorf("the request after it has the sources %+v", sources)
	}
}

// TestCheckpointIsCommittedWhole: a compaction brings its checkpoint, the new runtime context and the new system prompt into the session in
// one entry. Cancelled right after it, the session has all of them; cancelled right before, none.
func TestCheckpointIsCommittedWhole(t *testing.T) {
	for point, committed := range map[string]bool{"checkpoint.stored": false, "compaction.committed": true} {
		t.Run("cancelled at "+point, func(t *testing.T) {
			w := newWorld(t)
			w.fill(8000, 8000)
			old, _ := w.state()
			run := w.compacting("u", tokens(9000))
			run.Config.Sections = []projection.Section{{Name: "project", Text: "Be very brief."}}
			run.Config.Context = "cluster: other"
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			w.chaos = func(p string) {
				if p == point {
					cancel(ErrCancelled)
				}
			}
			w.model.replies = []reply{says("short")}
			if got, err := w.execute(ctx, run); err != nil || got.Reason != ReasonCancelled {
				t.Fatalf("%+v, %v", got, err)
			}
			if diff := cmp.Diff([]string{"summary"}, w.asked()); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			l := w.opened()
			want := old.Sections.Digest
			if committed {
				raw, err := session.EncodeObject(session.Sections{V: session.ObjectVersion, Sections: run.Config.Sections})
				if err != nil {
					t.Fatal(err)
				}
				want = cas.Of(raw)
			}
			if l.state.Sections.Digest != want {
				t.Errorf("the system prompt is %s, want %s (before: %s)", l.state.Sections.Digest, want, old.Sections.Digest)
			}
			if (l.checkpoint != nil) != committed {
				t.Errorf("checkpoint %+v", l.checkpoint)
			}
			if other := l.snapshots[len(l.snapshots)-1].Content == "cluster: other"; other != committed {
				t.Errorf("snapshots %+v", l.snapshots)
			}
			if n := len(l.history); n != 5 || l.history[4].PlainText() != run.Prompt.PlainText() {
				t.Errorf("history has %d messages", n)
			}
		})
	}
}
