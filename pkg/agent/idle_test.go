package agent

import (
	"errors"
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

func (w *world) idle(cfg session.RunConfig) (budget.ContextBudget, error) {
	w.t.Helper()
	counting := castest.NewCounting(w.store)
	state, _ := w.state()
	got, err := Idle{Store: counting, Stream: w.run("x", "").Stream(), State: state, Config: cfg}.Measure(w.t.Context())
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
			w.tools.definitions = []tool.Definition{defined("add")}
			tc.setup(t, w)
			run := w.compacting("next", "one more question")
			if tc.change != nil {
				tc.change(&run.Config)
			}
			idle, err := w.idle(run.Config)
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

// TestNoIdleEstimate has nothing to say about an empty session, and does not guess over damaged ones.
func TestNoIdleEstimate(t *testing.T) {
	w := newWorld(t)
	if _, err := w.idle(w.run("x", "").Config); !errors.Is(err, ErrEmptySession) {
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
