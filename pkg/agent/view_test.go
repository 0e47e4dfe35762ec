package agent

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/tool"
)

// viewed executes runs that show themselves to one view.
func (w *world) viewed(view *SessionView, run Run) Result {
	w.t.Helper()
	deps := w.deps()
	deps.View = view
	got, err := Execute(w.t.Context(), deps, run)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// indexes are the history indexes that a map names; nil for no map.
func indexes(p *projection.ModelInputProjection) []int {
	if p == nil {
		return nil
	}
	out := []int{}
	for _, source := range p.Sources {
		out = append(out, source.MessageIndex)
	}
	return out
}

// TestSessionView follows the source map and the budget through the life of a session: set at dispatch, kept after
// completion and failure, cleared by an accepted prompt or another model, not made by a rejection.
func TestSessionView(t *testing.T) {
	w := newWorld(t)
	w.tools.definitions = []tool.Definition{defined("read")}
	view := &SessionView{}
	at := func(when string, want []int, budgeted bool) {
		t.Helper()
		if diff := cmp.Diff(want, indexes(view.ModelInputProjection())); diff != "" {
			t.Errorf("%s: the map's history indexes (-want +got):\n%s", when, diff)
		}
		if got := view.ContextBudget() != nil; got != budgeted {
			t.Errorf("%s: there is a budget: %v", when, got)
		}
	}
	// during checks the view while the model answers.
	during := func(when string, want []int, then reply) reply {
		return func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
			at(when, want, true)
			return then(ctx, req, onDelta)
		}
	}
	plain := func(uid, prompt string) Run {
		run := w.run(uid, prompt)
		run.Config.Context = ""
		return run
	}
	at("before the first request", nil, false)
	w.chaos = func(point string) {
		if point == "prompt.accepted" {
			at("when a prompt is accepted", nil, false)
		}
	}
	w.model.replies = []reply{during("while the model answers", []int{0}, says("hello"))}
	w.viewed(view, plain("u1", "hi"))
	at("after completion", []int{0}, true)

	w.model.replies = []reply{during("the next turn", []int{0, 1, 2}, fails(provider.ClassInvalidRequest))}
	w.viewed(view, plain("u2", "again"))
	at("after a failure", []int{0, 1, 2}, true)

	w.model.replies = []reply{during("a failed reply is left out", []int{0, 1, 2, 4}, calls("read"))}
	w.tools.call = func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: message.Text(tokens(30000)), Audit: tool.Audit{Server: "srv"}}, nil
	}
	w.viewed(view, plain("u3", "read"))
	at("after a continuation was rejected", []int{0, 1, 2, 4}, true)
	if b := view.ContextBudget(); b.Fits {
		t.Error("the budget is not that of the rejected continuation")
	}
	w.viewed(view, plain("u4", tokens(1000)))
	at("after a rejected prompt", nil, true)

	w.tools.call = nil
	other := newWorld(t)
	view = &SessionView{}
	other.model.replies = []reply{says("hello"), says("hello")}
	other.viewed(view, plain("u1", "hi"))
	switched := plain("u2", tokens(30000))
	switched.Config.Model.ID = "other"
	other.viewed(view, switched)
	at("after a switch to another model", nil, true)
	if got := len(view.History()); got != 3 {
		t.Errorf("history has %d messages, want 3", got)
	}
	view = &SessionView{}
	at("in a view of a reopened session", nil, false)
}

// TestViewAfterCancel: the map of a request that was dispatched stays when the run is cancelled; one that was cancelled before has
// none.
func TestViewAfterCancel(t *testing.T) {
	for name, tc := range map[string]struct {
		point string
		want  []int
	}{
		"while the model answers":          {"", []int{0}},
		"after the guard":                  {"guard.passed", []int{0}},
		"when the input is fixed":          {"context.captured", nil},
		"when the prompt has been stored":  {"prompt.accepted", nil},
		"when the response has been saved": {"model.completed", []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			view := &SessionView{}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			w.chaos = func(point string) {
				if point == tc.point {
					cancel(ErrCancelled)
				}
			}
			w.model.replies = []reply{func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
				if tc.point == "" {
					cancel(ErrCancelled)
				}
				if ctx.Err() != nil {
					return provider.Response{}, &provider.Error{Class: provider.ClassCancelled, Dispatched: true, Err: ctx.Err()}
				}
				return says("hello")(ctx, req, onDelta)
			}}
			run := w.run("u1", "hi")
			run.Config.Context = ""
			deps := w.deps()
			deps.View = view
			if got, err := Execute(ctx, deps, run); err != nil || got.Event != runevent.TypeRunCancelled && tc.point != "model.completed" {
				t.Fatalf("%+v, %v", got, err)
			}
			if diff := cmp.Diff(tc.want, indexes(view.ModelInputProjection())); diff != "" {
				t.Errorf("the map's history indexes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestViewAfterSwitch: another model clears the source map by itself, also where no prompt is accepted. The same model does not.
func TestViewAfterSwitch(t *testing.T) {
	for name, other := range map[string]bool{"the same model": false, "another model": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			view := &SessionView{}
			w.model.replies = []reply{says("hello")}
			w.viewed(view, w.run("u1", "hi"))
			run := w.run("compact", "")
			run.Operation, run.Prompt = OperationCompact, message.Message{}
			if other {
				run.Config.Model.ID = "other"
			}
			if got := w.viewed(view, run); got.Reason != ReasonNothingToCompact {
				t.Fatalf("%+v", got)
			}
			if got := view.ModelInputProjection(); (got == nil) != other {
				t.Errorf("the map is %v", got)
			}
		})
	}
}

// TestViewShowsTheBudgetBeforeDispatch: the budget is there as soon as a request is measured, also while a summary is written
// for it; its source map is not, for nothing was dispatched.
func TestViewShowsTheBudgetBeforeDispatch(t *testing.T) {
	w := newWorld(t)
	w.fill(8000, 8000)
	view := &SessionView{}
	w.model.replies = []reply{func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
		if b := view.ContextBudget(); b == nil || b.EstimatedInputTokens < 24_000 || b.RequestOutputTokenLimit != nil || view.ModelInputProjection() != nil {
			t.Errorf("while the summary is written: budget %+v, map %v", b, view.ModelInputProjection())
		}
		return says("short")(ctx, req, onDelta)
	}, says("done")}
	w.viewed(view, w.compacting("u", tokens(9000)))
	if b := view.ContextBudget(); b.EstimatedInputTokens > 10_000 || b.RequestOutputTokenLimit == nil || view.ModelInputProjection() == nil {
		t.Errorf("after the request: budget %+v, map %v", b, view.ModelInputProjection())
	}
}

// TestViewIsIsolated changes what the getters return, which changes nothing else.
func TestViewIsIsolated(t *testing.T) {
	w := newWorld(t)
	view := &SessionView{}
	w.model.replies = []reply{says("hello"), says("again")}
	run := w.run("u1", "hi")
	run.Config.Skills = []projection.SkillSelection{{ID: "notes", Revision: "1", Name: "notes", Content: "Be neat."}}
	w.viewed(view, run)
	shown := func() string {
		raw, err := json.Marshal([]any{view.ModelInputProjection(), view.ContextBudget(), view.History(), view.RuntimeContexts()})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	before := shown()
	view.ModelInputProjection().HistoryMessageCount = 99
	view.ModelInputProjection().Sources[0].MessageIndex = 99
	view.ModelInputProjection().SkillExpansions[0].Skills[0].ID = "changed"
	view.ContextBudget().Fits = false
	*view.ContextBudget().RequestOutputTokenLimit = 99
	view.History()[1].Content.Blocks[0].Text = "changed"
	view.RuntimeContexts()[0].Content = "changed"
	view.RuntimeContexts()[0].Skills[0].Content = "changed"
	if diff := cmp.Diff(before, shown()); diff != "" {
		t.Errorf("what was returned is shared (-before +after):\n%s", diff)
	}
	w.viewed(view, w.run("u2", "go on"))
	if sent := w.model.requests[1].Messages; sent[len(sent)-2].PlainText() != "hello" {
		t.Errorf("the next request has %q", sent[len(sent)-2].PlainText())
	}
}
