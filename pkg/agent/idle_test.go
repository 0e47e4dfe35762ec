package agent

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/castest"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

func (w *world) idle(cfg session.RunConfig, admits func(server, tool string) bool) (budget.ContextBudget, error) {
	w.t.Helper()
	counting := castest.NewCounting(w.store)
	state, _ := w.state()
	got, err := Idle{Store: counting, Stream: w.run("x", "").Stream(), State: state, Config: cfg, Admits: admits}.Measure(w.t.Context())
	if counts := counting.Counts(); counts.Puts != 0 {
		w.t.Errorf("an estimate stored %d objects", counts.Puts)
	}
	return got, err
}

// TestIdleEstimate compares what a session is estimated at while nothing happens with the next request, which has its
// prompt besides.
func TestIdleEstimate(t *testing.T) {
	cases := map[string]struct {
		setup func(t *testing.T, w *world)
		// change is what was changed since the latest run.
		change func(cfg *session.RunConfig)
		// denied is a tool that the session has not allowed any more since.
		denied string
	}{
		"after a turn with tools": {setup: func(_ *testing.T, w *world) { w.fill(500) }},
		"after a failed request": {setup: func(t *testing.T, w *world) {
			w.model.replies = []reply{fails(provider.ClassInvalidRequest)}
			if got, err := w.execute(t.Context(), w.compacting("u", "hi")); err != nil || got.Reason != ReasonRejected {
				t.Fatalf("%+v, %v", got, err)
			}
		}},
		"after a compaction": {setup: func(t *testing.T, w *world) {
			w.fill(8000, 8000)
			w.model.replies = []reply{says("short"), says("done")}
			if got, err := w.execute(t.Context(), w.compacting("u", tokens(9000))); err != nil || got != completed {
				t.Fatalf("%+v, %v", got, err)
			}
		}},
		"after a run that could not be begun": {setup: func(_ *testing.T, w *world) {
			w.fill(500)
			w.refuse("r")
		}},
		"after a run that was cancelled before it began": {setup: func(t *testing.T, w *world) {
			w.fill(500)
			if got, err := Seal(t.Context(), w.deps(), w.compacting("c", "hi"), ErrCancelled); err != nil || got.Reason != ReasonCancelled {
				t.Fatalf("%+v, %v", got, err)
			}
		}},
		"after a run whose tool server was away": {setup: func(t *testing.T, w *world) {
			w.fill(500)
			w.tools.connectErr = &Failure{Reason: ReasonToolServer, Message: "away"}
			if got, err := w.execute(t.Context(), w.compacting("a", "hi")); err != nil || got.Reason != ReasonToolServer {
				t.Fatalf("%+v, %v", got, err)
			}
			w.tools.connectErr = nil
		}},
		"after a run with new tools that others brought to its end": {setup: func(t *testing.T, w *world) {
			w.tools.definitions = w.tools.definitions[:1]
			w.fill(500)
			w.tools.definitions = w.tools.definitions[:2]
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			w.chaos = func(point string) {
				if point == "prompt.accepted" {
					cancel(ErrHandBack)
				}
			}
			run := w.compacting("sealed", "hi")
			if _, err := w.execute(ctx, run); !errors.Is(err, ErrHandBack) {
				t.Fatal(err)
			}
			w.chaos = nil
			if got, err := Seal(t.Context(), w.deps(), run, ErrCancelled); err != nil || got.Reason != ReasonCancelled {
				t.Fatalf("%+v, %v", got, err)
			}
		}},
		"after a compaction by hand that followed a run that could not be begun": {change: func(cfg *session.RunConfig) {
			cfg.Context = "" // else the next request has it anew, for the summary took its place
		}, setup: func(t *testing.T, w *world) {
			w.fill(4000, 8000, 9)
			w.refuse("r")
			w.model.replies = []reply{says("short")}
			run := w.compacting("compact", "")
			run.Operation, run.Prompt = OperationCompact, message.Message{}
			if got, err := w.execute(t.Context(), run); err != nil || got != completed {
				t.Fatalf("%+v, %v", got, err)
			}
		}},
		"after a save that was made up for": {setup: unsavedEnd},
		"with fewer tools allowed":          {setup: func(_ *testing.T, w *world) { w.fill(500) }, denied: "add"},
		"with other instructions": {
			setup:  func(_ *testing.T, w *world) { w.fill(500) },
			change: func(cfg *session.RunConfig) { cfg.Sections[0].Text = tokens(300) },
		},
		"with another model": {
			setup: func(_ *testing.T, w *world) { w.fill(500) },
			change: func(cfg *session.RunConfig) {
				cfg.Model.ID, cfg.Model.ContextWindow, cfg.Model.MaxTokens = "other", 64000, 8000
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.tools.definitions = []tool.Definition{defined("add"), defined("list")}
			for i := range w.tools.definitions {
				w.tools.definitions[i].RemoteName = w.tools.definitions[i].Name
			}
			tc.setup(t, w)
			run := w.compacting("next", "one more question")
			if tc.change != nil {
				tc.change(&run.Config)
			}
			w.tools.definitions = slices.DeleteFunc(w.tools.definitions, func(d tool.Definition) bool { return d.RemoteName == tc.denied })
			idle, err := w.idle(run.Config, func(server, tool string) bool { return server == "srv" && tool != tc.denied })
			if err != nil {
				t.Fatal(err)
			}
			w.model.replies, w.live = []reply{says("done")}, nil
			if got, err := w.execute(t.Context(), run); err != nil || got != completed {
				t.Fatalf("%+v, %v", got, err)
			}
			next := *w.live[0].Budget
			prompt := budget.MessageTokens(run.Prompt)
			next.MessageTokens, next.EstimatedInputTokens, next.RemainingInputTokens = next.MessageTokens-prompt, next.EstimatedInputTokens-prompt, next.RemainingInputTokens+prompt
			next.RequestOutputTokenLimit = nil
			if diff := cmp.Diff(next, idle); diff != "" {
				t.Errorf("idle estimate (-the next request without its prompt +got):\n%s", diff)
			}
		})
	}
}

// refuse has a run ended that cannot be executed as it is.
func (w *world) refuse(uid string) {
	w.t.Helper()
	run := w.compacting(uid, "hi")
	run.Refusal, run.Prompt, run.Config = &Failure{Reason: "InvalidInput", Message: "unusable"}, message.Message{}, session.RunConfig{}
	if got, err := w.execute(context.Background(), run); err != nil || got.Reason != "InvalidInput" {
		w.t.Fatalf("%+v, %v", got, err)
	}
}

// unsavedEnd is a run whose answer is stored, and whose state cannot be until its worker has given up. While nothing happens, the save
// is made up for without asking the model again.
func unsavedEnd(t *testing.T, w *world) {
	w.fill(500)
	store := &outage{Store: w.store, mediaType: cas.MediaState, down: true}
	w.store = store
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	store.onTry = func(tries int) {
		if tries == 3 {
			cancel(ErrHandBack)
		}
	}
	w.model.replies = []reply{says("kept")}
	run := w.compacting("unsaved", "hi")
	if _, err := w.execute(ctx, run); !errors.Is(err, ErrHandBack) {
		t.Fatal(err)
	}
	if state, _ := w.state(); !state.Live() || state.Run.Completed == nil {
		t.Fatalf("the answer is not pending: %+v", state.Run)
	}
	store.down, w.model.replies, w.model.requests = false, nil, nil
	if got, err := w.execute(t.Context(), run); err != nil || got != completed || len(w.model.requests) != 0 {
		t.Fatalf("%+v, %v, %d requests", got, err, len(w.model.requests))
	}
	if _, history := w.state(); len(history) != 4 {
		t.Fatalf("history %v", roles(history))
	}
}

// TestNoIdleEstimate has nothing to say about an empty session, and does not guess over damaged ones.
func TestNoIdleEstimate(t *testing.T) {
	w := newWorld(t)
	if _, err := w.idle(w.run("x", "").Config, nil); !errors.Is(err, ErrEmptySession) {
		t.Errorf("an empty session: %v", err)
	}
	w.fill(10)
	state, _ := w.state()
	missing := message.Encode(message.Message{Role: message.RoleUser, Content: message.Text("not stored")})
	state.History = append(state.History, cas.MessageRef{Digest: cas.Of(missing)})
	_, err := Idle{Store: w.store, Stream: w.run("x", "").Stream(), State: state, Config: w.run("x", "").Config}.Measure(t.Context())
	if !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("a missing message: %v", err)
	}
}
