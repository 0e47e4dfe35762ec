package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/tool"
)

func roles(history []message.Message) []string {
	var out []string
	for _, m := range history {
		role := string(m.Role)
		if m.StopReason != "" {
			role += ":" + string(m.StopReason)
		}
		if m.IsError {
			role += ":error"
		}
		out = append(out, role)
	}
	return out
}

// TestRun tells whole runs: what the model says, how the run ends, what is in the log and in the history.
func TestRun(t *testing.T) {
	cases := map[string]struct {
		setup   func(w *world, run *Run)
		want    Result
		events  []string
		history []string
	}{
		"a prompt without tools": {
			setup:   func(w *world, _ *Run) { w.model.replies = []reply{says("hello")} },
			want:    Result{runevent.TypeRunFinished, "Completed"},
			events:  []string{"run.started", "message.user", "context.captured", "body", "model.completed", "state.committed", "run.finished"},
			history: []string{"user", "assistant:stop"},
		},
		"two tool turns": {
			setup: func(w *world, _ *Run) {
				w.tools.definitions = []tool.Definition{defined("add")}
				w.model.replies = []reply{calls("add"), calls("add"), says("done")}
			},
			want: Result{runevent.TypeRunFinished, "Completed"},
			events: []string{
				"run.started", "message.user",
				"context.captured", "model.completed", "tool.call", "tool.started", "mcp.audit", "tool.result", "state.committed",
				"context.captured", "model.completed", "tool.call", "tool.started", "mcp.audit", "tool.result", "state.committed",
				"context.captured", "body", "model.completed", "state.committed", "run.finished",
			},
			history: []string{"user", "assistant:toolUse", "toolResult", "assistant:toolUse", "toolResult", "assistant:stop"},
		},
		"calls that may run side by side": {
			setup: func(w *world, _ *Run) {
				w.tools.definitions = []tool.Definition{defined("add", repeatable)}
				w.model.replies = []reply{calls("add", "add", "add"), says("done")}
			},
			want: Result{runevent.TypeRunFinished, "Completed"},
			events: []string{
				"run.started", "message.user", "context.captured", "model.completed", "tool.call", "tool.call", "tool.call",
				"tool.started", "tool.started", "tool.started", "mcp.audit", "tool.result", "mcp.audit", "tool.result", "mcp.audit", "tool.result",
				"state.committed", "context.captured", "body", "model.completed", "state.committed", "run.finished",
			},
			history: []string{"user", "assistant:toolUse", "toolResult", "toolResult", "toolResult", "assistant:stop"},
		},
		"a model error, then an answer": {
			setup: func(w *world, _ *Run) { w.model.replies = []reply{fails(provider.ClassOverloaded), says("hello")} },
			want:  Result{runevent.TypeRunFinished, "Completed"},
			events: []string{
				"run.started", "message.user", "context.captured", "model.failed", "context.captured", "body", "model.completed", "state.committed", "run.finished",
			},
			history: []string{"user", "assistant:stop"},
		},
		"a model that stays away leaves one error in the history": {
			setup: func(w *world, _ *Run) {
				w.model.replies = []reply{fails(provider.ClassOverloaded), fails(provider.ClassTransient), fails(provider.ClassTransient)}
			},
			want: Result{runevent.TypeRunFailed, ReasonUnavailable},
			events: []string{
				"run.started", "message.user", "context.captured", "model.failed", "context.captured", "model.failed",
				"context.captured", "model.failed", "state.committed", "run.failed",
			},
			history: []string{"user", "assistant:error"},
		},
		"a refused credential is not retried": {
			setup:   func(w *world, _ *Run) { w.model.replies = []reply{fails(provider.ClassAuth)} },
			want:    Result{runevent.TypeRunFailed, ReasonAuthFailed},
			events:  []string{"run.started", "message.user", "context.captured", "model.failed", "state.committed", "run.failed"},
			history: []string{"user", "assistant:error"},
		},
		"over budget: the prompt is kept and nothing is dispatched": {
			setup: func(w *world, run *Run) {
				run.Prompt.Content = message.Text(strings.Repeat("x", 4*30000))
			},
			want:    Result{runevent.TypeRunFailed, ReasonBudgetExceeded},
			events:  []string{"run.started", "message.user", "state.committed", "run.failed"},
			history: []string{"user"},
		},
		"a body above the reserve is refused before dispatch": {
			setup: func(w *world, _ *Run) {
				w.model.body = func(provider.Request) []byte { return []byte(`{"max_tokens":5000}`) }
			},
			want:    Result{runevent.TypeRunFailed, ReasonOutputCapRejected},
			events:  []string{"run.started", "message.user", "context.captured", "model.rejected", "state.committed", "run.failed"},
			history: []string{"user"},
		},
		"the turn limit ends the run with its results kept": {
			setup: func(w *world, run *Run) {
				run.Config.Limits.MaxTurns = 1
				w.tools.definitions = []tool.Definition{defined("add")}
				w.model.replies = []reply{calls("add")}
			},
			want: Result{runevent.TypeRunFailed, ReasonMaxTurns},
			events: []string{
				"run.started", "message.user", "context.captured", "model.completed", "tool.call", "tool.started", "mcp.audit", "tool.result",
				"state.committed", "state.committed", "run.failed",
			},
			history: []string{"user", "assistant:toolUse", "toolResult"},
		},
		"calls of a response that was cut off are not run": {
			setup: func(w *world, _ *Run) {
				w.tools.definitions = []tool.Definition{defined("add")}
				w.model.replies = []reply{func(ctx context.Context, r provider.Request, d func(provider.Delta)) (provider.Response, error) {
					response, err := calls("add")(ctx, r, d)
					response.Message.StopReason = message.StopLength
					return response, err
				}, says("sorry")}
			},
			want: Result{runevent.TypeRunFinished, "Completed"},
			events: []string{
				"run.started", "message.user", "context.captured", "model.completed", "tool.result", "state.committed",
				"context.captured", "body", "model.completed", "state.committed", "run.finished",
			},
			history: []string{"user", "assistant:length", "toolResult:error", "assistant:stop"},
		},
		"an unknown tool is told to the model": {
			setup: func(w *world, _ *Run) { w.model.replies = []reply{calls("nope"), says("sorry")} },
			want:  Result{runevent.TypeRunFinished, "Completed"},
			events: []string{
				"run.started", "message.user", "context.captured", "model.completed", "tool.call", "tool.result", "state.committed",
				"context.captured", "body", "model.completed", "state.committed", "run.finished",
			},
			history: []string{"user", "assistant:toolUse", "toolResult:error", "assistant:stop"},
		},
		"tool servers that are away fail the run, the prompt is kept": {
			setup: func(w *world, _ *Run) {
				w.tools.connectErr = &Failure{Reason: ReasonToolServer, Message: "tool server docs is not reachable"}
			},
			want:    Result{runevent.TypeRunFailed, ReasonToolServer},
			events:  []string{"run.started", "message.user", "state.committed", "run.failed"},
			history: []string{"user"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.run("u1", "hi")
			tc.setup(w, &run)
			got, err := w.execute(context.Background(), run)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.events, w.events()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			_, history := w.state()
			if diff := cmp.Diff(tc.history, roles(history)); diff != "" {
				t.Errorf("history (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSecondRunContinues shows that a run gets everything that earlier ones left, and that a run is never run twice.
func TestSecondRunContinues(t *testing.T) {
	w := newWorld(t)
	w.model.replies = []reply{says("one"), says("two")}
	ctx := context.Background()
	for i, uid := range []string{"u1", "u2"} {
		if got, err := w.execute(ctx, w.run(uid, "prompt "+uid)); err != nil || got.Event != runevent.TypeRunFinished {
			t.Fatalf("run %d: %v, %v", i, got, err)
		}
	}
	before := len(w.events())
	if got, err := w.execute(ctx, w.run("u1", "prompt u1")); err != nil || got.Event != runevent.TypeRunFinished {
		t.Fatalf("run 1 again: %v, %v", got, err)
	}
	if after := len(w.events()); after != before {
		t.Errorf("a run that had ended wrote %d more entries", after-before)
	}
	if got := len(w.model.requests[1].Messages); got != 4 {
		t.Errorf("second request has %d messages, want 4: context snapshot, prompt, answer, prompt", got)
	}
	state, history := w.state()
	if diff := cmp.Diff([]string{"user", "assistant:stop", "user", "assistant:stop"}, roles(history)); diff != "" {
		t.Error(diff)
	}
	if usage := state.Usage(); *usage.Input != 20 || usage.Requests != 2 || *state.Run.Usage.Input != 10 || usage.CacheRead != nil {
		t.Errorf("usage: session %+v, run %+v", usage, state.Run.Usage)
	}
}

// TestCancel ends a run before, during and after a dispatch; what was there stays.
func TestCancel(t *testing.T) {
	cases := map[string]struct {
		setup   func(w *world, cancel context.CancelCauseFunc)
		history []string
		sent    int
		// unfixed says that no input was fixed: the session then has no snapshot of the run's context either.
		unfixed bool
	}{
		"before dispatch": {
			setup: func(w *world, cancel context.CancelCauseFunc) {
				w.chaos = func(point string) {
					if point == "prompt.accepted" {
						cancel(ErrCancelled)
					}
				}
			},
			history: []string{"user"}, unfixed: true,
		},
		"after the input was captured": {
			setup: func(w *world, cancel context.CancelCauseFunc) {
				w.chaos = func(point string) {
					if point == "context.captured" {
						cancel(ErrCancelled)
					}
				}
			},
			history: []string{"user"},
		},
		"during the model call": {
			setup: func(w *world, cancel context.CancelCauseFunc) {
				w.model.replies = []reply{func(ctx context.Context, _ provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
					onDelta(provider.Delta{Kind: provider.DeltaText, Text: "par", At: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)})
					cancel(ErrCancelled)
					half := message.Message{Content: message.Blocks(message.Block{Type: message.BlockText, Text: "par"})}
					return provider.Response{}, &provider.Error{Class: provider.ClassCancelled, Dispatched: true, Partial: &half, Err: ctx.Err()}
				}}
			},
			history: []string{"user", "assistant:aborted"}, sent: 1,
		},
		"during a tool call": {
			setup: func(w *world, cancel context.CancelCauseFunc) {
				w.tools.definitions = []tool.Definition{defined("add")}
				w.model.replies = []reply{calls("add", "add")}
				w.tools.call = func(ctx context.Context, _ tool.Call) (tool.Result, error) {
					cancel(ErrCancelled)
					return tool.Result{}, ctx.Err()
				}
			},
			history: []string{"user", "assistant:toolUse", "toolResult:error", "toolResult:error"}, sent: 1,
		},
		"after the answer": {
			setup: func(w *world, cancel context.CancelCauseFunc) {
				w.tools.definitions = []tool.Definition{defined("add")}
				w.model.replies = []reply{calls("add")}
				w.chaos = func(point string) {
					if point == "state.committed" {
						cancel(ErrCancelled)
					}
				}
			},
			history: []string{"user", "assistant:toolUse", "toolResult"}, sent: 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			tc.setup(w, cancel)
			got, err := w.execute(ctx, w.run("u1", "hi"))
			if err != nil || got != (Result{runevent.TypeRunCancelled, ReasonCancelled}) {
				t.Fatalf("%+v, %v", got, err)
			}
			if len(w.model.requests) != tc.sent {
				t.Errorf("%d requests left, want %d", len(w.model.requests), tc.sent)
			}
			state, history := w.state()
			if none := len(state.Snapshots) == 0; none != tc.unfixed {
				t.Errorf("%d snapshots of the runtime context", len(state.Snapshots))
			}
			if diff := cmp.Diff(tc.history, roles(history)); diff != "" {
				t.Error(diff)
			}
			w.chaos = nil
			w.tools.call = nil
			w.model.replies = []reply{says("back")}
			if got, err := w.execute(context.Background(), w.run("u2", "again")); err != nil || got.Event != runevent.TypeRunFinished {
				t.Fatalf("the session is not usable afterwards: %+v, %v", got, err)
			}
		})
	}
}

// liveBudget is what watchers are told of a request, in short.
func liveBudget(l Live) string {
	state := "measured"
	if l.Dispatched != nil {
		state = map[bool]string{true: "dispatched", false: "rejected"}[*l.Dispatched]
	}
	limit := "no limit"
	if n := l.Budget.RequestOutputTokenLimit; n != nil {
		limit = fmt.Sprint("limit ", *n)
	}
	return fmt.Sprintf("%s %d %s, fits %v, %s", l.Type, l.Turn, state, l.Budget.Fits, limit)
}

// TestBudgetIsPublished shows the live budgets of main requests: before each dispatch, again with the cap that the exact body
// declares, and of rejected ones. Reserve and input limit stay what they were. Summaries and titles tell nothing.
func TestBudgetIsPublished(t *testing.T) {
	cases := map[string]struct {
		replies []reply
		body    string
		prompt  string
		title   bool
		want    []string
	}{
		"a dispatched request": {
			replies: []reply{says("hello")}, prompt: "hi",
			want: []string{"context_budget 1 measured, fits true, no limit", "context_budget 1 dispatched, fits true, limit 4096"},
		},
		"each request of a run": {
			replies: []reply{calls("add"), says("done")}, prompt: "hi",
			want: []string{
				"context_budget 1 measured, fits true, no limit", "context_budget 1 dispatched, fits true, limit 4096",
				"context_budget 2 measured, fits true, no limit", "context_budget 2 dispatched, fits true, limit 4096",
			},
		},
		"a request that is sent again": {
			replies: []reply{fails(provider.ClassOverloaded), says("done")}, prompt: "hi",
			want: []string{
				"context_budget 1 measured, fits true, no limit", "context_budget 1 dispatched, fits true, limit 4096",
				"context_budget 1 measured, fits true, no limit", "context_budget 1 dispatched, fits true, limit 4096",
			},
		},
		"one without a declared cap": {
			replies: []reply{says("hello")}, prompt: "hi", body: `{}`,
			want: []string{"context_budget 1 measured, fits true, no limit", "context_budget 1 dispatched, fits true, no limit"},
		},
		"one that does not fit": {prompt: strings.Repeat("x", 120000), want: []string{"context_budget 1 rejected, fits false, no limit"}},
		"one that the guard refuses": {
			prompt: "hi", body: `{"max_tokens":5000}`,
			want: []string{"context_budget 1 measured, fits true, no limit", "context_budget 1 rejected, fits true, no limit"},
		},
		"a title beside it": {
			replies: []reply{says("hello")}, prompt: "hi", title: true,
			want: []string{"context_budget 1 measured, fits true, no limit", "context_budget 1 dispatched, fits true, limit 4096"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.tools.definitions = []tool.Definition{defined("add")}
			w.model.replies = tc.replies
			if tc.body != "" {
				w.model.body = func(provider.Request) []byte { return []byte(tc.body) }
			}
			run := w.run("u1", tc.prompt)
			run.Config.Title = tc.title
			deps := w.deps()
			if tc.title {
				deps.Model = &titled{scriptedModel: w.model, title: says("A greeting")}
			}
			if _, err := Execute(t.Context(), deps, run); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range w.live {
				got = append(got, liveBudget(l))
				if l.Budget.ReservedOutputTokens != 4096 || l.Budget.InputLimit != 26304 || l.Run != "u1" {
					t.Errorf("live: %+v", l)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
