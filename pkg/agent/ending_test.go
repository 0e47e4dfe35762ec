package agent

import (
	"context"
	"errors"
	"slices"
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

// TestEndBeforeClaim ends a run before this worker has claimed it: the end is the run's own, never that of the run
// before it.
func TestEndBeforeClaim(t *testing.T) {
	causes := map[string]struct {
		cause  error
		want   Result
		err    error
		events []string
		prompt bool
	}{
		"its time is over": {
			cause: ErrDeadline, want: Result{runevent.TypeRunFailed, ReasonDeadline}, prompt: true,
			events: []string{"run.started", "message.user", "state.committed", "run.failed"},
		},
		"cancelled": {
			cause: ErrCancelled, want: Result{runevent.TypeRunCancelled, ReasonCancelled}, events: []string{"run.started", "state.committed", "run.cancelled"},
		},
		"its session is deleted": {
			cause: ErrSessionDeleted, want: Result{runevent.TypeRunFailed, ReasonSessionDeleted}, events: []string{"run.started", "state.committed", "run.failed"},
		},
		"handed back": {cause: ErrHandBack, err: ErrHandBack},
	}
	moments := map[string]func(w *world, end func()){
		"before its tools are connected": func(w *world, end func()) {
			w.chaos = func(point string) {
				if point == "run.before-start" {
					end()
				}
			}
		},
		"while its tools are connected": func(w *world, end func()) {
			w.tools.onConnect = func(ctx context.Context) error { end(); return context.Cause(ctx) }
		},
	}
	sessions := map[string]struct {
		events, history []string
		usage           session.Totals
	}{
		"in a new session": {},
		"in a session with an earlier run": {
			events:  []string{"run.started", "message.user", "context.captured", "body", "model.completed", "state.committed", "run.finished"},
			history: []string{"user", "assistant:stop"}, usage: answers(1),
		},
	}
	for name, tc := range causes {
		for moment, at := range moments {
			for where, earlier := range sessions {
				t.Run(name+" "+moment+" "+where, func(t *testing.T) {
					w := newWorld(t)
					if earlier.events != nil {
						w.model.replies = []reply{says("one")}
						if got, err := w.execute(context.Background(), w.run("u0", "hi")); err != nil || got != completed {
							t.Fatalf("the run before: %+v, %v", got, err)
						}
					}
					ctx, cancel := context.WithCancelCause(context.Background())
					at(w, func() { cancel(tc.cause) })
					got, err := w.execute(ctx, w.run("u1", "hi"))
					if got != tc.want || !errors.Is(err, tc.err) {
						t.Fatalf("%+v, %v; want %+v, %v", got, err, tc.want, tc.err)
					}
					history := earlier.history
					if tc.prompt {
						history = slices.Concat(history, []string{"user"})
					}
					w.checkTrace(t, slices.Concat(earlier.events, tc.events), history, earlier.usage)
					if state, _ := w.state(); tc.err == nil && (!state.Ended("u1") || state.Run.UID != "u1") {
						t.Errorf("the run has not ended: %+v", state.Run)
					}
				})
			}
		}
	}
}

// TestCancelBesideResult cancels a run while two of its calls run side by side. One gives up, the other still comes to
// its result, which is kept whichever is told first.
func TestCancelBesideResult(t *testing.T) {
	cases := map[string]struct {
		resultFirst bool
		events      []string
	}{
		"the result comes after the other call gave up": {events: []string{"mcp.audit", "tool.result", "tool.unknown", "tool.result"}},
		"the result comes before the other call gives up": {
			resultFirst: true, events: []string{"mcp.audit", "tool.result", "tool.unknown", "tool.result"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.tools.definitions = []tool.Definition{defined("add", repeatable)}
				w.model.replies = []reply{calls("add", "add")}
				ctx, cancel := context.WithCancelCause(context.Background())
				w.tools.call = func(ctx context.Context, c tool.Call) (tool.Result, error) {
					givesUp := c.ID == "add-0"
					if givesUp == tc.resultFirst {
						synctest.Wait() // until the loop has taken what the other call came to
					}
					if givesUp {
						cancel(ErrCancelled)
						return tool.Result{}, ctx.Err()
					}
					return tool.Result{Content: message.Text("I did it"), Audit: tool.Audit{Server: "srv", Outcome: "ok"}}, nil
				}
				got, err := w.execute(ctx, w.run("u1", "hi"))
				if want := (Result{runevent.TypeRunCancelled, ReasonCancelled}); err != nil || got != want {
					t.Fatalf("%+v, %v; want %+v", got, err, want)
				}
				begun := []string{
					"run.started", "message.user", "context.captured", "model.completed", "tool.call", "tool.call", "tool.started", "tool.started",
				}
				w.checkTrace(t, slices.Concat(begun, tc.events, []string{"state.committed", "run.cancelled"}),
					[]string{"user", "assistant:toolUse", "toolResult:error", "toolResult"}, answers(1))
				_, history := w.state()
				if diff := cmp.Diff([]string{textInterrupted, "I did it"}, []string{history[2].PlainText(), history[3].PlainText()}); diff != "" {
					t.Errorf("results (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestUsageOfUnansweredRequests counts a request from when it may have been sent, and says of one that was cut short that
// its usage is not known.
func TestUsageOfUnansweredRequests(t *testing.T) {
	cases := map[string]struct {
		cancelAt string
		events   []string
		history  []string
		usage    session.Totals
	}{
		"cancelled before the request": {
			cancelAt: "prompt.accepted", events: []string{"run.started", "message.user", "state.committed", "run.cancelled"}, history: []string{"user"},
		},
		"cancelled when the request had left": {
			cancelAt: "guard.passed", events: []string{"run.started", "message.user", "context.captured", "state.committed", "run.cancelled"},
			history: []string{"user", "assistant:aborted"}, usage: unanswered(session.Totals{}, 1),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ctx, cancel := context.WithCancelCause(context.Background())
			w.chaos = func(point string) {
				if point == tc.cancelAt {
					cancel(ErrCancelled)
				}
			}
			w.model.replies = []reply{func(ctx context.Context, _ provider.Request, _ func(provider.Delta)) (provider.Response, error) {
				return provider.Response{}, &provider.Error{Class: provider.ClassCancelled, Dispatched: true, Err: context.Cause(ctx)}
			}}
			got, err := w.execute(ctx, w.run("u1", "hi"))
			if want := (Result{runevent.TypeRunCancelled, ReasonCancelled}); err != nil || got != want {
				t.Fatalf("%+v, %v; want %+v", got, err, want)
			}
			w.checkTrace(t, tc.events, tc.history, tc.usage)
			if state, _ := w.state(); int64(state.Run.Requests) != tc.usage.Requests {
				t.Errorf("the run counts %d requests, its usage %d", state.Run.Requests, tc.usage.Requests)
			}
		})
	}
}

// TestStartBy leaves a run alone that was not begun in time, and goes on with one that was.
func TestStartBy(t *testing.T) {
	w := newWorld(t)
	run := w.run("u1", "hi")
	run.StartBy = w.clock.now.Add(-time.Second)
	if _, err := w.execute(context.Background(), run); !errors.Is(err, ErrOverdue) {
		t.Fatalf("error %v, want ErrOverdue", err)
	}
	if events := w.events(); len(events) != 0 {
		t.Errorf("an overdue run has left events: %v", events)
	}
	run.StartBy = w.clock.now.Add(time.Minute)
	w.runUntil(run, "prompt.accepted", 1)
	w.model.replies = []reply{says("hello")}
	run.StartBy = w.clock.now.Add(-time.Second)
	if got, err := w.execute(context.Background(), run); err != nil || got != completed {
		t.Errorf("takeover after the time to begin: %+v, %v", got, err)
	}
}

// TestRefusal fails a run whose specification cannot be used, unless it has begun: then it goes on with what it has.
func TestRefusal(t *testing.T) {
	refusal := &Failure{Reason: "InvalidInput", Message: "ConfigMap prompts does not exist"}
	refused := Result{runevent.TypeRunFailed, "InvalidInput"}
	cases := map[string]struct {
		until   string
		prompt  string
		want    Result
		history []string
	}{
		"before it began":                        {want: refused},
		"before it began, with a prompt":         {prompt: "hi", want: refused, history: []string{"user"}},
		"after it was claimed":                   {until: "run.started", want: refused},
		"after its prompt was accepted":          {until: "prompt.accepted", want: completed, history: []string{"user", "assistant:stop"}},
		"after its model input was put together": {until: "context.captured", want: completed, history: []string{"user", "assistant:stop"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tc.until != "" {
				w.runUntil(w.run("u1", "hi"), tc.until, 1)
			}
			w.model.replies = []reply{says("hello")}
			run := w.run("u1", "hi")
			run.Prompt, run.Config, run.Refusal = message.Message{Role: message.RoleUser, Content: message.Text(tc.prompt)}, w.run("", "").Config, refusal
			run.Config.Sections, run.Config.Model = nil, provider.Model{}
			if got, err := w.execute(context.Background(), run); err != nil || got != tc.want {
				t.Fatalf("%+v, %v; want %+v", got, err, tc.want)
			}
			_, history := w.state()
			if diff := cmp.Diff(tc.history, roles(history)); diff != "" {
				t.Errorf("history (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRefusalWithdrawn goes on with a run whose refusal was not brought to its end, because the worker died, and whose
// specification can be used by now: it is begun as if it never had been refused.
func TestRefusalWithdrawn(t *testing.T) {
	refusal := &Failure{Reason: "InvalidInput", Message: "ConfigMap prompts does not exist"}
	refusals := map[string]func(w *world) (Result, error){
		"refused when executed": func(w *world) (Result, error) {
			run := w.run("u1", "hi")
			run.Refusal = refusal
			return w.execute(context.Background(), run)
		},
		"refused without being executed": func(w *world) (Result, error) {
			return Seal(context.Background(), w.deps(), w.run("u1", "hi"), refusal)
		},
	}
	points := map[string][]string{
		"run.started":     {"run.started", "run.started", "message.user"},
		"prompt.accepted": {"run.started", "message.user", "run.started"},
	}
	for name, refuse := range refusals {
		for point, begun := range points {
			t.Run(name+", died at "+point, func(t *testing.T) {
				w := newWorld(t)
				w.tools.definitions = []tool.Definition{defined("add")}
				if !w.dies(point, 1, func() {
					if got, err := refuse(w); err != nil {
						t.Errorf("%+v, %v", got, err)
					}
				}) {
					t.Fatalf("the refusal did not come to %s", point)
				}
				w.model.replies = []reply{says("ok")}
				if got, err := w.execute(context.Background(), w.run("u1", "hi")); err != nil || got != completed {
					t.Fatalf("%+v, %v; want %+v", got, err, completed)
				}
				events := append(begun, "context.captured", "body", "model.completed", "state.committed", "run.finished")
				w.checkTrace(t, events, []string{"user", "assistant:stop"}, answers(1))
				if state, _ := w.state(); state.Run.Config == nil {
					t.Error("the run has no configuration")
				}
				if inputs := w.checkInputs(t); inputs[0].Tools == nil {
					t.Error("the request declares no tools")
				}
			})
		}
	}
}

// TestSealKeepsAnnouncedEnd cancels a run whose worker died while it was failing. Once a commit has announced the failure
// it is the run's end; before that the run is cancelled.
func TestSealKeepsAnnouncedEnd(t *testing.T) {
	failed := []string{"run.started", "message.user", "context.captured", "model.failed"}
	cancelled := Result{runevent.TypeRunCancelled, ReasonCancelled}
	cases := map[string]struct {
		until   string
		want    Result
		events  []string
		history []string
	}{
		"after the request failed": {
			until: "model.failed", want: cancelled, events: []string{"run.started", "state.committed", "run.cancelled"}, history: []string{"user"},
		},
		"after the state was stored": {
			until: "state.stored", want: cancelled, events: []string{"run.started", "state.committed", "run.cancelled"}, history: []string{"user"},
		},
		"after the failure was committed": {
			until: "state.committed", want: Result{runevent.TypeRunFailed, ReasonAuthFailed},
			events: []string{"state.committed", "run.started", "run.failed"}, history: []string{"user", "assistant:error"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.model.replies = []reply{fails(provider.ClassAuth)}
			w.runUntil(w.run("u1", "hi"), tc.until, 1)
			got, err := Seal(context.Background(), w.deps(), w.run("u1", "hi"), ErrCancelled)
			if err != nil || got != tc.want {
				t.Errorf("%+v, %v; want %+v", got, err, tc.want)
			}
			w.checkTrace(t, slices.Concat(failed, tc.events), tc.history, unanswered(session.Totals{}, 1))
		})
	}
}

// TestRejectedRequest ends a run whose request the guard refused. The record of that request stays with the run's end, as
// that of one that did not fit, and the request counts as never sent: the latest one that was is the run's latest still.
func TestRejectedRequest(t *testing.T) {
	cases := map[string]struct {
		// sent is how many requests the guard lets through first.
		sent    int
		events  []string
		history []string
		usage   session.Totals
	}{
		"the first one": {
			events: []string{"run.started", "message.user", "context.captured", "model.rejected", "state.committed", "run.failed"}, history: []string{"user"},
		},
		"the one that continues after a tool": {
			sent: 1,
			events: []string{
				"run.started", "message.user", "context.captured", "model.completed", "tool.call", "tool.started", "mcp.audit", "tool.result",
				"state.committed", "context.captured", "model.rejected", "state.committed", "run.failed",
			},
			history: []string{"user", "assistant:toolUse", "toolResult"}, usage: answers(1),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.tools.definitions = []tool.Definition{defined("add")}
			w.model.replies = []reply{calls("add")}
			w.model.body = func(provider.Request) []byte {
				if len(w.model.requests) < tc.sent {
					return []byte(`{"max_tokens":4096}`)
				}
				return []byte(`{"max_tokens":5000}`)
			}
			got, err := w.execute(context.Background(), w.run("u1", "hi"))
			if want := (Result{runevent.TypeRunFailed, ReasonOutputCapRejected}); err != nil || got != want {
				t.Fatalf("%+v, %v; want %+v", got, err, want)
			}
			w.checkTrace(t, tc.events, tc.history, tc.usage)
			var inputs []cas.Ref
			for _, e := range w.entries() {
				if e.Event.Kind == runevent.KindContextCaptured {
					inputs = append(inputs, *e.Event.Evidence.ContextRef)
				}
			}
			state, _ := w.state()
			if record := state.Run.Terminal.Record; record == nil || *record != inputs[tc.sent] {
				t.Errorf("the end names %v, want the refused request %v", record, inputs[tc.sent])
			}
			var last *cas.Ref
			var limit *int64
			if tc.sent > 0 {
				last, limit = &inputs[tc.sent-1], count(4096)
			}
			if diff := cmp.Diff(last, state.Run.LastContext, sameState); diff != "" || state.Run.Requests != tc.sent {
				t.Errorf("%d requests, want %d; the latest (-want +got):\n%s", state.Run.Requests, tc.sent, diff)
			}
			if diff := cmp.Diff(limit, state.Run.LastLimit); diff != "" {
				t.Errorf("output cap of the latest request (-want +got):\n%s", diff)
			}
		})
	}
}
