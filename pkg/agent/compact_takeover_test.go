package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// thinks is a reply that begins with signed thinking.
func thinks(next reply) reply {
	return func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
		out, err := next(ctx, req, onDelta)
		if req.Reasoning.On() {
			thought := message.Block{Type: message.BlockThinking, Thinking: "let me see", ThinkingSignature: "signed"}
			out.Message.Content.Blocks = append([]message.Block{thought}, out.Message.Content.Blocks...)
		}
		return out, err
	}
}

// longTurn is a run that compacts twice: before its first request, and inside its turn, which is split then.
func (w *world) longTurn() Run {
	w.fill(8000, 8000)
	w.tools.definitions = []tool.Definition{defined("read", repeatable)}
	w.tools.call = func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: message.Text(tokens(12000)), Audit: tool.Audit{Server: "srv", Outcome: "ok"}}, nil
	}
	answer := func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
		if isSummary(req) {
			return says("all of it, short")(ctx, req, onDelta)
		}
		results := 0
		for _, e := range w.entries() {
			if e.Event.Type == runevent.TypeToolResult {
				results++
			}
		}
		return thinks([]reply{calls("read"), calls("read"), says("done")}[results])(ctx, req, onDelta)
	}
	for range 20 {
		w.model.replies = append(w.model.replies, answer)
	}
	run := w.compacting("u", tokens(9000))
	run.Config.Model.Thinking, run.Config.Reasoning = provider.ThinkingFixed, provider.LevelMedium
	return run
}

// outcomeOf is what must be the same in whatever way a session came to it.
func (w *world) outcomeOf(t *testing.T) map[string]any {
	t.Helper()
	state, history := w.state()
	committed, err := object[session.Checkpoint](t.Context(), &loop{deps: w.deps(), run: w.run("x", "")}, *state.Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	checkpoints := 0
	for _, e := range w.entries() {
		if e.Event.Kind == runevent.KindCompactionCommitted {
			checkpoints++
		}
	}
	return map[string]any{
		"history": roles(history), "snapshots": len(state.Snapshots), "boundary": committed.FirstKeptMessageIndex, "summary": committed.Summary,
		"checkpoints": checkpoints, "compactions": state.Run.Compactions, "tool calls": state.Run.ToolCalls,
	}
}

// checkThinking looks at the requests: one that asks for thinking brings the thinking of each reply of its turn.
func (w *world) checkThinking(t *testing.T) {
	t.Helper()
	for i, req := range w.model.requests {
		for row := len(req.Messages) - 1; row >= 0 && req.Messages[row].Role != message.RoleUser; row-- {
			m := req.Messages[row]
			if req.Reasoning.On() && m.Role == message.RoleAssistant && m.Content.Blocks[0].Type != message.BlockThinking {
				t.Errorf("request %d asks for thinking, and reply %d of its turn has lost its own", i, row)
			}
		}
	}
}

// checkKeptAnswers compares the answers that the log has with those of the history: none is lost, and none there twice.
func (w *world) checkKeptAnswers(t *testing.T) {
	t.Helper()
	logged, kept := 0, 0
	for _, e := range w.entries() {
		if e.Event.Kind == runevent.KindModelCompleted && e.Event.Purpose == runevent.PurposeMain {
			logged++
		}
	}
	_, history := w.state()
	for _, m := range history {
		if m.Role == message.RoleAssistant && m.StopReason != message.StopAborted {
			kept++
		}
	}
	if logged != kept {
		t.Errorf("%d answers are in the log, %d in the history", logged, kept)
	}
}

// TestEndsOfCompactions cancels, and hands back, a run with two compactions at every point that it reaches. A cancelled one
// asks its model for nothing any more and keeps what was committed; one that was handed back comes out as if it had not been.
func TestEndsOfCompactions(t *testing.T) {
	probe := newWorld(t)
	run := probe.longTurn()
	reached := map[string]int{}
	probe.chaos = func(p string) { reached[p]++ }
	if got, err := probe.execute(t.Context(), run); err != nil || got != completed {
		t.Fatalf("%+v, %v", got, err)
	}
	want := probe.outcomeOf(t)
	for point, times := range reached {
		for n := 1; n <= times; n++ {
			for name, cause := range map[string]error{"cancelled": ErrCancelled, "handed back": ErrHandBack} {
				t.Run(fmt.Sprintf("%s at %s %d", name, point, n), func(t *testing.T) {
					w := newWorld(t)
					run := w.longTurn()
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					seen, asked, sent := 0, -1, 0
					w.chaos = func(p string) {
						if p != point {
							return
						}
						if seen++; seen == n {
							cancel(cause)
							asked = len(w.model.requests)
						}
					}
					if point == "guard.passed" { // it is on its way then
						sent = 1
					}
					got, err := w.execute(ctx, run)
					if asked >= 0 && len(w.model.requests) > asked+sent {
						t.Errorf("%d requests after the end, at most %d are on their way", len(w.model.requests)-asked, sent)
					}
					w.chaos = nil
					if errors.Is(cause, ErrHandBack) {
						if err == nil && got == completed {
							return // it had ended before
						}
						if !errors.Is(err, ErrHandBack) {
							t.Fatalf("%+v, %v", got, err)
						}
						run.Config.Limits.MaxAttempts = 1
						if got, err := w.execute(t.Context(), run); err != nil || got != completed {
							t.Fatalf("taken up again: %+v, %v", got, err)
						}
						if diff := cmp.Diff(want, w.outcomeOf(t)); diff != "" {
							t.Errorf("-want +got:\n%s", diff)
						}
						w.checkFolds(t)
						return
					}
					if err != nil || got.Event != runevent.TypeRunCancelled && got != completed {
						t.Fatalf("%+v, %v", got, err)
					}
					w.checkFolds(t)
					w.checkKeptAnswers(t)
					if got, err := w.execute(t.Context(), w.compacting("next", "go on")); err != nil || got != completed {
						t.Errorf("the next run: %+v, %v", got, err)
					}
				})
			}
		}
	}
}

// TestTakeoverOfCompactions kills the worker at every point of a run that compacts before its first request and inside its
// turn. However often, the session comes out the same, and at most one summary is paid for twice.
func TestTakeoverOfCompactions(t *testing.T) {
	probe := newWorld(t)
	run := probe.longTurn()
	reached := map[string]int{}
	probe.chaos = func(p string) { reached[p]++ }
	if got, err := probe.execute(t.Context(), run); err != nil || got != completed {
		t.Fatalf("%+v, %v", got, err)
	}
	probe.checkThinking(t)
	want := probe.outcomeOf(t)
	if want["checkpoints"] != 2 || want["boundary"].(int) <= 4 {
		t.Fatalf("the run does not compact as it should: %v", want)
	}
	asked := len(probe.model.requests)
	for point, times := range reached {
		for n := 1; n <= times; n++ {
			t.Run(fmt.Sprintf("%s %d", point, n), func(t *testing.T) {
				w := newWorld(t)
				run := w.longTurn()
				w.runUntil(run, point, n)
				if got, err := w.execute(t.Context(), run); err != nil || got != completed {
					t.Fatalf("takeover: %+v, %v", got, err)
				}
				if diff := cmp.Diff(want, w.outcomeOf(t)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				if len(w.model.requests) > asked+1 {
					t.Errorf("%d requests, %d without a takeover", len(w.model.requests), asked)
				}
				w.checkThinking(t)
				w.checkFolds(t)
			})
		}
	}
}

// TestTakeoverLearnsMeanwhile kills a calibrating worker after each summary was answered, and lets others learn another ratio
// before the run is taken over: no summary is asked for again.
func TestTakeoverLearnsMeanwhile(t *testing.T) {
	start := func(t *testing.T) (*world, Run, *fakeCalibrations) {
		w := newWorld(t)
		run := w.longTurn()
		run.Config.Calibrate = true
		key := keyOf(run.Namespace, run.Config.Model)
		known := &fakeCalibrations{known: map[ModelKey]budget.Calibration{key: {Ratio: 1.2, Observations: 9, Estimator: budget.Heuristic.Name()}}}
		w.calibrations = known
		return w, run, known
	}
	probe, run, _ := start(t)
	points, summaries := 0, []int{}
	probe.chaos = func(p string) {
		if p != "model.completed" {
			return
		}
		if points++; isSummary(probe.model.requests[len(probe.model.requests)-1]) {
			summaries = append(summaries, points)
		}
	}
	if got, err := probe.execute(t.Context(), run); err != nil || got != completed {
		t.Fatalf("%+v, %v", got, err)
	}
	asked := probe.asked()
	if len(summaries) < 2 {
		t.Fatalf("the run asks for %d summaries", len(summaries))
	}
	for name, ratio := range map[string]float64{"less": 1.02, "more": 1.29} {
		for i, point := range summaries {
			t.Run(fmt.Sprintf("%s after summary %d", name, i+1), func(t *testing.T) {
				w, run, known := start(t)
				w.runUntil(run, "model.completed", point)
				for key, c := range known.known {
					c.Ratio = ratio
					known.known[key] = c
				}
				if got, err := w.execute(t.Context(), run); err != nil || got != completed {
					t.Fatalf("takeover: %+v, %v", got, err)
				}
				// From the next answer of the conversation on, what was learnt meanwhile counts.
				next := point + slices.Index(asked[point:], "main") + 1
				if diff := cmp.Diff(asked[:next], w.asked()[:next]); diff != "" {
					t.Errorf("requests (-without a takeover +got):\n%s", diff)
				}
				w.checkFolds(t)
			})
		}
	}
}
