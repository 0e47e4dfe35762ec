package agent

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// measuredAside is what the record of a request beside the conversation says of its budget.
type measuredAside struct{ Reserve, Limit, Declared int64 }

// asides reads the records of the requests of one purpose.
func (w *world) asides(t *testing.T, purpose runevent.Purpose) []measuredAside {
	t.Helper()
	var out []measuredAside
	for _, e := range w.entries() {
		if e.Event.Kind != runevent.KindContextCaptured || e.Event.Purpose != purpose {
			continue
		}
		raw, err := w.store.Get(t.Context(), w.run("u", "").Scope(), *e.Event.Evidence.ContextRef)
		if err != nil {
			t.Fatal(err)
		}
		snapshot, err := session.DecodeObject[session.ContextSnapshot](raw)
		if err != nil {
			t.Fatal(err)
		}
		b := snapshot.Assembly.Budget
		if b.ToolTokens != 0 || b.SystemTokens == 0 || b.MessageTokens == 0 || !b.Fits {
			t.Errorf("%s: %+v", purpose, b)
		}
		out = append(out, measuredAside{b.ReservedOutputTokens, b.InputLimit, snapshot.Parameters.MaxTokens})
	}
	return out
}

// TestSummariesAndTitlesHaveTheirOwnBudgets: they reserve their own small cap, not what the conversation's requests reserve.
func TestSummariesAndTitlesHaveTheirOwnBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fill(8000, 8000)
		run := w.compacting("u", tokens(12_000))
		run.Config.Title = true
		run.Config.Model.ContextWindow, run.Config.Model.MaxTokens = 48_000, 16_000
		deps := w.deps()
		deps.Model = &titled{scriptedModel: w.model, title: says("Words")}
		w.model.replies = []reply{says("short"), func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
			synctest.Wait()
			return says("done")(ctx, req, onDelta)
		}}
		if got, err := Execute(t.Context(), deps, run); err != nil || got != completed {
			t.Fatalf("%+v, %v", got, err)
		}
		if diff := cmp.Diff([]measuredAside{{4096, 48_000 - 4096 - 2400, 4096}}, w.asides(t, runevent.PurposeSummary)); diff != "" {
			t.Errorf("summaries (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]measuredAside{{128, 48_000 - 128 - 2400, 128}}, w.asides(t, runevent.PurposeTitle)); diff != "" {
			t.Errorf("titles (-want +got):\n%s", diff)
		}
	})
}

// hooked is a model whose adapter lets the caller's hook change the body, as the real ones do.
type hooked struct{ *scriptedModel }

func (m hooked) Stream(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
	guard := req.Guard
	req.Guard = func(body []byte) error {
		if req.CallerHook != nil {
			changed, err := req.CallerHook(body)
			if err != nil {
				return err
			}
			body = changed
		}
		return guard(body)
	}
	return m.scriptedModel.Stream(ctx, req, onDelta)
}

// TestSummariesAreGuarded: the exact body of a request for a summary, as the caller's hook leaves it, is held to the summary's own
// cap. A refused one saves nothing, and the run goes on without.
func TestSummariesAreGuarded(t *testing.T) {
	const own = `{"max_tokens":4096}`
	cases := map[string]struct {
		body   string
		events []string
	}{
		"as it was made":          {own, []string{"context.captured", "model.completed", "compaction.committed"}},
		"a smaller cap":           {`{"max_tokens":400}`, []string{"context.captured", "model.completed", "compaction.committed"}},
		"a cap above its own":     {`{"max_tokens":4097}`, []string{"context.captured", "model.rejected"}},
		"a cap that is a text":    {`{"max_tokens":"400"}`, []string{"context.captured", "model.rejected"}},
		"a cap that is left out":  {`{}`, []string{"context.captured", "model.rejected"}},
		"a body that is no JSON":  {`max_tokens: 400`, []string{"context.captured", "model.rejected"}},
		"a cap under other names": {`{"max_output_tokens":4096,"max_completion_tokens":4097}`, []string{"context.captured", "model.rejected"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(8000, 8000)
			from := len(w.events())
			w.model.replies = []reply{says("short"), says("done")}
			if tc.events[1] == "model.rejected" {
				w.model.replies = w.model.replies[1:]
			}
			run := w.compacting("u", tokens(8000))
			run.Config.Model.MaxTokens = 5000
			seen := 0
			run.CallerHook = func(body []byte) ([]byte, error) {
				if seen++; seen == 1 {
					if !bytes.Equal(body, []byte(own)) {
						t.Errorf("the hook gets %s", body)
					}
					return []byte(tc.body), nil
				}
				return body, nil
			}
			deps := w.deps()
			deps.Model = hooked{w.model}
			got, err := Execute(t.Context(), deps, run)
			if err != nil || got != completed {
				t.Fatalf("%+v, %v", got, err)
			}
			want := append([]string{"run.started", "message.user"}, tc.events...)
			if diff := cmp.Diff(want, w.events()[from:from+len(want)]); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			state, _ := w.state()
			if saved := state.Checkpoint != nil; saved != (tc.events[1] == "model.completed") {
				t.Errorf("a checkpoint is there: %v", saved)
			}
			w.checkFolds(t)
		})
	}
}

// refusedTitle is a model whose request for a title declares more than its cap.
type refusedTitle struct{ *scriptedModel }

func (m refusedTitle) Stream(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
	if req.MaxTokens == titleOutput {
		if err := req.Guard([]byte(`{"max_tokens":129}`)); err != nil {
			return provider.Response{}, &provider.Error{Class: provider.ClassRejected, Err: err}
		}
	}
	return m.scriptedModel.Stream(ctx, req, onDelta)
}

// TestTitlesAreGuarded: a body that asks for more than a title's cap does not leave, and the run does not mind.
func TestTitlesAreGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.model.replies = []reply{func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
			synctest.Wait()
			return says("hello")(ctx, req, onDelta)
		}}
		run := w.run("u", "hi")
		run.Config.Title = true
		deps := w.deps()
		deps.Model = refusedTitle{w.model}
		if got, err := Execute(t.Context(), deps, run); err != nil || got != completed {
			t.Fatalf("%+v, %v", got, err)
		}
		var events []string
		for _, e := range w.entries() {
			if e.Event.Purpose == runevent.PurposeTitle {
				events = append(events, short(e))
			}
		}
		if diff := cmp.Diff([]string{"context.captured", "model.rejected"}, events); diff != "" {
			t.Errorf("events of the title (-want +got):\n%s", diff)
		}
		if state, _ := w.state(); state.Title != nil || len(w.model.requests) != 1 {
			t.Errorf("a title is there: %v; %d requests", state.Title != nil, len(w.model.requests))
		}
	})
}
