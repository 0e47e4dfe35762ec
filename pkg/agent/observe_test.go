package agent

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// watcher is an Observer that writes down what it is told.
type watcher struct {
	mu   sync.Mutex
	told []string
}

type watchedKey struct{}

func (w *watcher) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

func (w *watcher) Run(ctx context.Context, run *Run) (context.Context, func(Result, error)) {
	w.note("run %s", run.Name)
	return context.WithValue(ctx, watchedKey{}, "run"), func(result Result, err error) { w.note("left %s %v", result.Reason, err) }
}

func (w *watcher) Request(ctx context.Context, r ModelRequest) (context.Context, func(ModelAnswer)) {
	w.note("%s request %s of turn %d under %v: %v estimated, %v messages", r.Purpose, r.ExecutionID, r.Turn, ctx.Value(watchedKey{}), r.Estimate > 0, len(r.Request.Messages) > 0)
	return context.WithValue(ctx, watchedKey{}, "request"), func(a ModelAnswer) {
		w.note("answer %s first %v %v", a.Response.Message.StopReason, !a.First.IsZero(), a.Err)
	}
}

func (w *watcher) Tool(ctx context.Context, c ToolCall) (context.Context, func(ToolAnswer)) {
	w.note("tool %s of %s, call %s of turn %d, attempt %d under %v", c.Definition.Name, c.Definition.Server, c.ID, c.Turn, c.Attempt, ctx.Value(watchedKey{}))
	return context.WithValue(ctx, watchedKey{}, "tool"), func(a ToolAnswer) { w.note("gave %s %v", a.Result.Audit.Outcome, a.Err) }
}

func (w *watcher) Recorded(run *Run, entry runevent.Entry, before *session.RunProgress) {
	earlier := ""
	if before != nil {
		earlier = before.Name
	}
	w.note("%s #%d of %s after %q", short(entry), entry.Sequence, run.Name, earlier)
}

func (w *watcher) Compacted(_ *Run, before, after budget.ContextBudget) {
	w.note("compacted to less: %v", after.InputTokens() < before.InputTokens())
}

// TestObserver holds what an observer is told to the order of things, and the contexts that it returns to where they are used.
func TestObserver(t *testing.T) {
	w := newWorld(t)
	w.tools.definitions = []tool.Definition{defined("add")}
	var seen []any
	w.tools.call = func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		seen = append(seen, ctx.Value(watchedKey{}))
		return tool.Result{Audit: tool.Audit{Server: "srv", Outcome: "ok"}}, nil
	}
	w.model.replies = []reply{calls("add"), func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
		seen = append(seen, ctx.Value(watchedKey{}))
		return says("done")(ctx, req, onDelta)
	}}
	watching := &watcher{}
	deps := w.deps()
	deps.Observer = watching
	if _, err := Execute(t.Context(), deps, w.run("1", "add")); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`run run-1`,
		`run.started #1 of run-1 after ""`,
		`message.user #2 of run-1 after "run-1"`,
		`context.captured #3 of run-1 after "run-1"`,
		`main request exec-1 of turn 1 under run: true estimated, true messages`,
		`answer toolUse first false <nil>`,
		`model.completed #4 of run-1 after "run-1"`,
		`tool.call #5 of run-1 after "run-1"`,
		`tool.started #6 of run-1 after "run-1"`,
		`tool add of srv, call add-0 of turn 1, attempt 1 under run`,
		`gave ok <nil>`,
		`mcp.audit #7 of run-1 after "run-1"`,
		`tool.result #8 of run-1 after "run-1"`,
		`state.committed #9 of run-1 after "run-1"`,
		`context.captured #10 of run-1 after "run-1"`,
		`main request exec-2 of turn 2 under run: true estimated, true messages`,
		`answer stop first true <nil>`,
		`body #11 of run-1 after "run-1"`,
		`model.completed #12 of run-1 after "run-1"`,
		`state.committed #13 of run-1 after "run-1"`,
		`run.finished #14 of run-1 after "run-1"`,
		`left Completed <nil>`,
	}
	if diff := cmp.Diff(want, watching.told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"tool", "request"}, seen); diff != "" {
		t.Errorf("contexts (-want +got):\n%s", diff)
	}
}

// TestObserverOfEndings tells of what does not come to a good end, too.
func TestObserverOfEndings(t *testing.T) {
	t.Run("a request that fails", func(t *testing.T) {
		w, watching := newWorld(t), &watcher{}
		w.model.replies = []reply{fails(provider.ClassAuth)}
		deps := w.deps()
		deps.Observer = watching
		if _, err := Execute(t.Context(), deps, w.run("1", "go")); err != nil {
			t.Fatal(err)
		}
		at := len(watching.told) - 1
		if watching.told[at] != "left ProviderAuthFailed <nil>" || watching.told[at-1] != `run.failed #6 of run-1 after "run-1"` {
			t.Errorf("told %q", watching.told)
		}
	})
	t.Run("a panic", func(t *testing.T) {
		w, watching := newWorld(t), &watcher{}
		w.model.replies = []reply{func(context.Context, provider.Request, func(provider.Delta)) (provider.Response, error) {
			panic("fault")
		}}
		deps := w.deps()
		deps.Observer = watching
		func() {
			defer func() { _ = recover() }()
			_, _ = Execute(t.Context(), deps, w.run("1", "go"))
		}()
		at := len(watching.told) - 1
		if watching.told[at] != "left  "+errUnfinished.Error() || watching.told[at-1] != "answer  first false "+errUnfinished.Error() {
			t.Errorf("told %q", watching.told)
		}
	})
	t.Run("a run that is sealed", func(t *testing.T) {
		w, watching := newWorld(t), &watcher{}
		deps := w.deps()
		deps.Observer = watching
		if _, err := Seal(t.Context(), deps, w.run("1", "go"), ErrCancelled); err != nil {
			t.Fatal(err)
		}
		want := []string{`run.started #1 of run-1 after ""`, `state.committed #2 of run-1 after "run-1"`, `run.cancelled #3 of run-1 after "run-1"`}
		if diff := cmp.Diff(want, watching.told); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a compaction", func(t *testing.T) {
		w, watching := newWorld(t), &watcher{}
		w.fill(7000, 7000)
		deps := w.deps()
		deps.Observer = watching
		run := w.compacting("c", "")
		run.Operation, run.Prompt, run.Config.Operation = OperationCompact, message.Message{}, OperationCompact
		w.model.replies = []reply{says("In short: nothing.")}
		result, err := Execute(t.Context(), deps, run)
		if err != nil || result.Reason != reasonCompleted {
			t.Fatal(result, err)
		}
		for _, told := range watching.told {
			if told == "compacted to less: true" {
				return
			}
		}
		t.Errorf("told %q", watching.told)
	})
}
