package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// TestEndBeforeClaim ends a run before this worker has claimed it: the end is the run's own, never that of the run
// before it.
func TestEndBeforeClaim(t *testing.T) {
	cases := map[string]struct {
		cause  error
		want   Result
		err    error
		events []string
	}{
		"cancelled": {
			cause: ErrCancelled, want: Result{runevent.TypeRunCancelled, ReasonCancelled}, events: []string{"run.started", "state.committed", "run.cancelled"},
		},
		"its session is deleted": {
			cause: ErrSessionDeleted, want: Result{runevent.TypeRunFailed, ReasonSessionDeleted}, events: []string{"run.started", "state.committed", "run.failed"},
		},
		"handed back": {cause: ErrHandBack, err: ErrHandBack},
	}
	for name, tc := range cases {
		for _, earlier := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				if earlier {
					w.model.replies = []reply{says("one")}
					if _, err := w.execute(context.Background(), w.run("u0", "hi")); err != nil {
						t.Fatal(err)
					}
				}
				before := len(w.events())
				ctx, cancel := context.WithCancelCause(context.Background())
				w.chaos = func(point string) {
					if point == "run.before-start" {
						cancel(tc.cause)
					}
				}
				got, err := w.execute(ctx, w.run("u1", "hi"))
				if got != tc.want || !errors.Is(err, tc.err) {
					t.Fatalf("%+v, %v; want %+v, %v", got, err, tc.want, tc.err)
				}
				if diff := cmp.Diff(tc.events, w.events()[before:]); diff != "" && (tc.events != nil || len(w.events()) != before) {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				state, history := w.state()
				if tc.err == nil && (!state.Ended("u1") || state.Run.UID != "u1") {
					t.Errorf("the run has not ended: %+v", state.Run)
				}
				if want := map[bool]int{false: 0, true: 2}[earlier]; len(history) != want {
					t.Errorf("history has %d messages, want %d", len(history), want)
				}
			})
		}
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
	if _, died := w.runUntil(run, "prompt.accepted", 1); !died {
		t.Fatal("the run did not come to its prompt")
	}
	w.chaos = nil
	w.model.replies = []reply{says("hello")}
	run.StartBy = w.clock.now.Add(-time.Second)
	if got, err := w.execute(context.Background(), run); err != nil || got.Event != runevent.TypeRunFinished {
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
		"after its prompt was accepted":          {until: "prompt.accepted", want: Result{runevent.TypeRunFinished, "Completed"}, history: []string{"user", "assistant:stop"}},
		"after its model input was put together": {until: "context.captured", want: Result{runevent.TypeRunFinished, "Completed"}, history: []string{"user", "assistant:stop"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tc.until != "" {
				if _, died := w.runUntil(w.run("u1", "hi"), tc.until, 1); !died {
					t.Fatalf("the run did not come to %s", tc.until)
				}
				w.chaos = nil
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

// TestRejectedRequestIsNamed keeps the record of a request that the guard refused with the run's end, as that of one
// that did not fit.
func TestRejectedRequestIsNamed(t *testing.T) {
	w := newWorld(t)
	w.model.body = func(provider.Request) []byte { return []byte(`{"max_tokens":5000}`) }
	if _, err := w.execute(context.Background(), w.run("u1", "hi")); err != nil {
		t.Fatal(err)
	}
	state, _ := w.state()
	var captured string
	for _, e := range w.entries() {
		if e.Event.Kind == runevent.KindContextCaptured {
			captured = e.Event.Evidence.ContextRef.Digest.String()
		}
	}
	if record := state.Run.Terminal.Record; record == nil || record.Digest.String() != captured {
		t.Errorf("the end names %v, want the refused request %s", record, captured)
	}
	if state.Run.Requests != 0 || state.Run.LastContext != nil || state.Run.Usage.RequestsWithoutUsage != 0 {
		t.Errorf("the refused request counts as sent: %+v", state.Run.RunCounters)
	}
}
