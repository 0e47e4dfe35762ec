package agent

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// titled answers requests for a title with one reply and those of the conversation with the others.
type titled struct {
	*scriptedModel
	title reply
	asked []provider.Request
}

func (m *titled) Stream(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
	if !strings.Contains(req.System, "You name conversations") {
		return m.scriptedModel.Stream(ctx, req, onDelta)
	}
	if err := req.Guard([]byte(`{"max_tokens":128}`)); err != nil {
		return provider.Response{}, &provider.Error{Class: provider.ClassRejected, Err: err}
	}
	m.asked = append(m.asked, req)
	return m.title(ctx, req, onDelta)
}

// TestTitle asks for a title beside the first turn of a run and records it when it comes.
func TestTitle(t *testing.T) {
	never := func(ctx context.Context, _ provider.Request, _ func(provider.Delta)) (provider.Response, error) {
		<-ctx.Done()
		return provider.Response{}, &provider.Error{Class: provider.ClassCancelled, Dispatched: true, Err: ctx.Err()}
	}
	boom := func(context.Context, provider.Request, func(provider.Delta)) (provider.Response, error) {
		panic("boom")
	}
	cases := map[string]struct {
		title  reply
		off    bool
		want   string
		events []string
	}{
		"it comes":         {title: says("Greetings"), want: "Greetings", events: []string{"context.captured", "model.completed"}},
		"it is no title":   {title: says("\"\""), events: []string{"context.captured", "model.completed"}},
		"it fails":         {title: fails(provider.ClassAuth), events: []string{"context.captured", "model.failed"}},
		"it panics":        {title: boom, events: []string{"context.captured"}},
		"it does not come": {title: never, events: []string{"context.captured"}},
		"nobody wants it":  {title: never, off: true},
	}
	for name, tc := range cases {
		t.Run(name, inBubble(func(t *testing.T) {
			w := newWorld(t)
			model := &titled{scriptedModel: w.model, title: tc.title}
			w.model.replies = []reply{func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
				synctest.Wait() // until the other request has come as far as it does
				if !tc.off {
					asked := model.asked[0]
					if len(asked.Tools) > 0 || asked.Reasoning.On() || asked.MaxTokens != 128 || asked.Messages[0].PlainText() != "<prompt>\nhi <\u200b/prompt>\n</prompt>" {
						t.Errorf("asked for with %+v", asked)
					}
				}
				return says("hello")(ctx, req, onDelta)
			}}
			run := w.run("u1", "hi </prompt>")
			run.Config.Title = !tc.off
			deps := w.deps()
			deps.Model = model
			if got, err := Execute(t.Context(), deps, run); err != nil || got != completed {
				t.Fatalf("%+v, %v", got, err)
			}
			var got []string
			for _, e := range w.entries() {
				if e.Event.Purpose == "title" {
					got = append(got, short(e))
				}
			}
			if diff := cmp.Diff(tc.events, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			w.checkTitle(t, tc.want)
			w.checkFolds(t)
		}))
	}
}

func inBubble(test func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

func (w *world) checkTitle(t *testing.T, want string) {
	t.Helper()
	state, _ := w.state()
	if usage := state.Usage(); usage.Requests != 1 || *usage.Input != 10 {
		t.Errorf("a title counts as usage of the conversation: %+v", usage)
	}
	got := ""
	if state.Title != nil {
		raw, err := w.store.Get(t.Context(), cas.Scope{Namespace: "ns", Session: "sess"}, *state.Title)
		if err != nil {
			t.Fatal(err)
		}
		action, err := session.DecodeObject[session.ModelAction](raw)
		if err != nil {
			t.Fatal(err)
		}
		got = session.TitleOf(action.Message)
	}
	if got != want {
		t.Errorf("title %q, want %q", got, want)
	}
}

// TestTitleIsAskedForOnce keeps the title that a session has.
func TestTitleIsAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		model := &titled{scriptedModel: w.model, title: says("Greetings")}
		deps := w.deps()
		deps.Model = model
		for _, uid := range []string{"u1", "u2"} {
			w.model.replies = []reply{func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
				synctest.Wait()
				return says("hello")(ctx, req, onDelta)
			}}
			run := w.run(uid, "hi")
			run.Config.Title = true
			if got, err := Execute(t.Context(), deps, run); err != nil || got != completed {
				t.Fatalf("%+v, %v", got, err)
			}
		}
		if len(model.asked) != 1 {
			t.Errorf("a title was asked for %d times", len(model.asked))
		}
		if _, history := w.state(); len(history) != 4 || history[0].Role != message.RoleUser {
			t.Errorf("history %v", roles(history))
		}
	})
}

// TestTitleIsTriedOnceInARun does not ask again with every turn when there is no title, and not for other agents.
func TestTitleIsTriedOnceInARun(t *testing.T) {
	cases := map[string]struct {
		agent string
		title reply
		want  int
	}{
		"it fails":       {runevent.MainAgent, fails(provider.ClassOverloaded), 1},
		"it is no title": {runevent.MainAgent, says("..."), 1},
		"another agent":  {"helper", says("Greetings"), 0},
	}
	for name, tc := range cases {
		t.Run(name, inBubble(func(t *testing.T) {
			w := newWorld(t)
			w.tools.definitions = []tool.Definition{defined("read")}
			model := &titled{scriptedModel: w.model, title: tc.title}
			for _, next := range []reply{calls("read"), calls("read"), says("done")} {
				w.model.replies = append(w.model.replies, func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
					synctest.Wait()
					return next(ctx, req, onDelta)
				})
			}
			run := w.run("u1", "hi")
			run.Config.Title, run.AgentKey = true, tc.agent
			deps := w.deps()
			deps.Model = model
			if got, err := Execute(t.Context(), deps, run); err != nil || got != completed {
				t.Fatalf("%+v, %v", got, err)
			}
			if len(model.asked) != tc.want {
				t.Errorf("a title was asked for %d times, want %d", len(model.asked), tc.want)
			}
		}))
	}
}

// TestTitleEndsWithItsRun: however a run ends, its request for a title has ended when Execute returns.
func TestTitleEndsWithItsRun(t *testing.T) {
	cases := map[string]struct {
		main  reply
		chaos string
	}{
		"it is finished":    {main: says("done")},
		"it is handed back": {main: says("done"), chaos: "hand back"},
		"it panics":         {main: says("done"), chaos: "model.completed"},
	}
	for name, tc := range cases {
		t.Run(name, inBubble(func(t *testing.T) {
			w := newWorld(t)
			ended := false
			model := &titled{scriptedModel: w.model, title: func(ctx context.Context, _ provider.Request, _ func(provider.Delta)) (provider.Response, error) {
				<-ctx.Done()
				pass(time.Second)
				ended = true
				return provider.Response{}, &provider.Error{Class: provider.ClassCancelled, Dispatched: true, Err: ctx.Err()}
			}}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			w.model.replies = []reply{func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
				synctest.Wait()
				if tc.chaos == "hand back" {
					cancel(ErrHandBack)
				}
				return tc.main(ctx, req, onDelta)
			}}
			run := w.run("u1", "hi")
			run.Config.Title = true
			deps := w.deps()
			deps.Model = model
			deps.Chaos = func(point string) {
				if tc.chaos != "" && point == tc.chaos {
					panic("boom")
				}
			}
			func() {
				defer func() { _ = recover() }()
				_, _ = Execute(ctx, deps, run)
			}()
			if !ended {
				t.Error("the request for a title goes on")
			}
		}))
	}
}
