package agent

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// killed is how a test stops the loop at a point: as a killed process would, without any clean-up by the loop.
type killed struct{ point string }

// dies does some work until the loop comes to a point for the nth time, and says whether it did.
func (w *world) dies(point string, n int, work func()) (died bool) {
	w.t.Helper()
	defer func() {
		w.chaos = nil
		if r := recover(); r != nil {
			if aside, ok := r.(*Panic); ok {
				r = aside.Reason
			}
			if _, ok := r.(killed); !ok {
				panic(r)
			}
			died = true
		}
	}()
	w.chaos = func(p string) {
		if p == point {
			if n--; n == 0 {
				panic(killed{p})
			}
		}
	}
	work()
	return false
}

// runUntil executes a run until its worker dies at the point, which it has to come to n times.
func (w *world) runUntil(run Run, point string, n int) {
	w.t.Helper()
	died := w.dies(point, n, func() {
		if result, err := w.execute(context.Background(), run); err != nil {
			w.t.Fatalf("run: %+v, %v", result, err)
		}
	})
	if !died {
		w.t.Fatalf("the run did not come to %s %d times", point, n)
	}
}

// TestTakeover kills the worker at every point that a run with two tool turns reaches and lets another one finish it.
func TestTakeover(t *testing.T) {
	script := func(w *world) {
		w.tools.definitions = []tool.Definition{defined("read", repeatable), defined("write")}
		answer := func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
			results := 0
			for _, m := range req.Messages {
				if m.Role == message.RoleToolResult {
					results++
				}
			}
			return []reply{calls("read"), calls("write"), says("done")}[results](ctx, req, onDelta)
		}
		for range 20 {
			w.model.replies = append(w.model.replies, answer)
		}
	}
	probe := newWorld(t)
	script(probe)
	reached := map[string]int{}
	probe.chaos = func(p string) { reached[p]++ }
	if _, err := probe.execute(context.Background(), probe.run("u1", "hi")); err != nil {
		t.Fatal(err)
	}
	if len(reached) < 15 {
		t.Fatalf("only %d points were reached: %v", len(reached), reached)
	}
	for point, times := range reached {
		for n := 1; n <= times; n++ {
			t.Run(point, func(t *testing.T) {
				w := newWorld(t)
				script(w)
				w.runUntil(w.run("u1", "hi"), point, n)
				got, err := w.execute(context.Background(), w.run("u1", "hi"))
				if err != nil || got != (Result{runevent.TypeRunFinished, "Completed"}) {
					t.Fatalf("takeover: %+v, %v", got, err)
				}
				w.checkInvariants(t)
			})
		}
	}
}

// checkInvariants looks at a finished run with one read and one write call: nothing lost, nothing doubled.
func (w *world) checkInvariants(t *testing.T) {
	t.Helper()
	state, history := w.state()
	if diff := cmp.Diff([]string{"user", "assistant:toolUse", "toolResult", "assistant:toolUse", "toolResult", "assistant:stop"},
		roles(history), cmp.Transformer("noError", func(s string) string { return strings.TrimSuffix(s, ":error") })); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	writes := 0
	for _, id := range w.tools.calls {
		if id == "write-0" {
			writes++
		}
	}
	if writes > 1 {
		t.Errorf("the tool that is not repeatable ran %d times", writes)
	}
	seen := map[string]int{}
	for _, e := range w.entries() {
		switch e.Event.Type {
		case runevent.TypeMessageUser, runevent.TypeRunFinished:
			seen[string(e.Event.Type)]++
		case runevent.TypeToolResult:
			seen["result "+e.Event.CallID]++
		}
	}
	for what, n := range seen {
		if n != 1 {
			t.Errorf("%s stands %d times in the log", what, n)
		}
	}
	if state.Run.Terminal == nil || state.Run.Terminal.Turns != 3 {
		t.Errorf("terminal event: %+v", state.Run.Terminal)
	}
	if usage := state.Usage(); usage.Requests-usage.RequestsWithoutUsage != 3 {
		t.Errorf("usage counts %d answered requests, want 3: %+v", usage.Requests-usage.RequestsWithoutUsage, usage)
	}
}

// TestFencedOut shows that a worker that lost its run writes nothing more.
func TestFencedOut(t *testing.T) {
	w := newWorld(t)
	w.model.replies = []reply{says("late")}
	w.chaos = func(point string) {
		if point != "context.captured" {
			return
		}
		w.chaos = nil
		other := newWorld(t)
		other.log, other.store = w.log, w.store
		other.model.replies = []reply{says("taken over")}
		if got, err := other.execute(context.Background(), other.run("u1", "hi")); err != nil || got.Event != runevent.TypeRunFinished {
			t.Errorf("takeover: %+v, %v", got, err)
		}
	}
	deps := w.deps()
	deps.Chaos = func(p string) {
		if w.chaos != nil {
			w.chaos(p)
		}
	}
	if _, err := Execute(context.Background(), deps, w.run("u1", "hi")); !errors.Is(err, ErrLost) {
		t.Fatalf("got %v, want ErrLost", err)
	}
	if _, history := w.state(); history[1].PlainText() != "taken over" {
		t.Errorf("the late answer was committed: %q", history[1].PlainText())
	}
}

// bound is a set of tools with definitions of its own.
type bound struct {
	*scriptedTools
	definitions []tool.Definition
}

func (b bound) Definitions() []tool.Definition { return b.definitions }

// restoring gives a takeover exactly the definitions that it asks for, as they came out of the store.
type restoring struct{ *scriptedTools }

func (r restoring) Connect(ctx context.Context, want *session.ToolSet) (tool.Set, error) {
	if want == nil {
		return r.scriptedTools.Connect(ctx, nil)
	}
	return bound{r.scriptedTools, want.Tools}, nil
}

// TestTakeoverRepeatsTheInput shows that a takeover sends the request of the lost worker again byte for byte, tools with
// characters that JSON encoders like to escape among it, from the same stored object.
func TestTakeoverRepeatsTheInput(t *testing.T) {
	w := newWorld(t)
	w.tools.definitions = []tool.Definition{defined("add", func(d *tool.Definition) {
		d.Description, d.Parameters = "adds <a> & <b>", []byte(`{"type":"object","description":"a < b & c > d \u2028"}`)
	})}
	w.model.replies = []reply{says("lost"), says("hello")}
	w.runUntil(w.run("u1", "hi"), "model.answered", 1)
	deps := w.deps()
	deps.Tools = restoring{w.tools}
	if got, err := Execute(context.Background(), deps, w.run("u1", "hi")); err != nil || got != completed {
		t.Fatalf("takeover: %+v, %v", got, err)
	}
	lost, again := w.model.requests[0].Tools[0].AppendJSON(nil), w.model.requests[1].Tools[0].AppendJSON(nil)
	if !bytes.Equal(lost, again) {
		t.Errorf("the takeover declares\n%s\ninstead of\n%s", again, lost)
	}
	inputs := w.checkInputs(t)
	if inputs[0].InputDigest != inputs[1].InputDigest {
		t.Errorf("the input changed from %s to %s", inputs[0].InputDigest, inputs[1].InputDigest)
	}
	var refs []string
	for _, e := range w.entries() {
		if e.Event.Kind == runevent.KindContextCaptured {
			refs = append(refs, e.Event.Evidence.ContextRef.Digest.String())
		}
	}
	if len(refs) != 2 || refs[0] != refs[1] {
		t.Errorf("the requests name %v, want one object twice", refs)
	}
}

// TestMaxAttempts ends a run whose workers died too often, with everything in the history that they had brought into the
// log. A run that only lacks its last entry is no lost one.
func TestMaxAttempts(t *testing.T) {
	lost := Result{runevent.TypeRunFailed, ReasonWorkerLost}
	cases := map[string]struct {
		reply   reply
		until   string
		want    Result
		events  []string
		history []string
		usage   session.Totals
	}{
		"after the prompt was accepted": {
			reply: says("hello"), until: "prompt.accepted", want: lost,
			events:  []string{"run.started", "message.user", "run.started", "state.committed", "run.failed"},
			history: []string{"user"},
		},
		"after the request was captured": {
			reply: says("hello"), until: "context.captured", want: lost,
			events:  []string{"run.started", "message.user", "context.captured", "run.started", "state.committed", "run.failed"},
			history: []string{"user"}, usage: unanswered(session.Totals{}, 1),
		},
		"after the answer was logged": {
			reply: says("hello"), until: "model.completed", want: lost,
			events: []string{
				"run.started", "message.user", "context.captured", "body", "model.completed", "run.started", "state.committed", "run.failed",
			},
			history: []string{"user", "assistant:stop"}, usage: answers(1),
		},
		"after the last turn was committed": {
			reply: says("hello"), until: "state.committed", want: completed,
			events: []string{
				"run.started", "message.user", "context.captured", "body", "model.completed", "state.committed", "run.started", "run.finished",
			},
			history: []string{"user", "assistant:stop"}, usage: answers(1),
		},
		"after a tool was started": {
			reply: calls("add"), until: "tool.started", want: lost,
			events: []string{
				"run.started", "message.user", "context.captured", "model.completed", "tool.call", "tool.started", "run.started",
				"tool.unknown", "tool.result", "state.committed", "run.failed",
			},
			history: []string{"user", "assistant:toolUse", "toolResult:error"}, usage: answers(1),
		},
		"after a tool gave its result": {
			reply: calls("add"), until: "tool.result", want: lost,
			events: []string{
				"run.started", "message.user", "context.captured", "model.completed", "tool.call", "tool.started", "mcp.audit", "tool.result",
				"run.started", "state.committed", "run.failed",
			},
			history: []string{"user", "assistant:toolUse", "toolResult"}, usage: answers(1),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.tools.definitions = []tool.Definition{defined("add")}
			w.model.replies = []reply{tc.reply}
			run := w.run("u1", "hi")
			run.Config.Limits.MaxAttempts = 1
			w.runUntil(run, tc.until, 1)
			got, err := w.execute(context.Background(), run)
			if err != nil || got != tc.want {
				t.Errorf("%+v, %v; want %+v", got, err, tc.want)
			}
			w.checkTrace(t, tc.events, tc.history, tc.usage)
		})
	}
}

// TestTakeoverAfterDeadline takes a run over whose time is up: it ends, and what had been paid for stays.
func TestTakeoverAfterDeadline(t *testing.T) {
	cases := map[string]struct {
		until   string
		events  []string
		history []string
		usage   session.Totals
	}{
		"after the prompt was accepted": {until: "prompt.accepted", history: []string{"user"}},
		"after the answer was logged": {
			until: "model.completed", events: []string{"tool.result"}, history: []string{"user", "assistant:toolUse", "toolResult:error"}, usage: answers(1),
		},
		"after a tool was started": {
			until: "tool.started", events: []string{"tool.unknown", "tool.result"},
			history: []string{"user", "assistant:toolUse", "toolResult:error"}, usage: answers(1),
		},
		"after a tool gave its result": {until: "tool.result", history: []string{"user", "assistant:toolUse", "toolResult"}, usage: answers(1)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.clock.now = time.Now()
				w.tools.definitions = []tool.Definition{defined("add")}
				w.model.replies = []reply{calls("add")}
				run := w.run("u1", "hi")
				run.Config.Limits.ActiveDeadlineSeconds = 60
				w.runUntil(run, tc.until, 1)
				before := w.events()
				pass(time.Hour)
				w.clock.now = time.Now()
				got, err := w.execute(context.Background(), run)
				if want := (Result{runevent.TypeRunFailed, ReasonDeadline}); err != nil || got != want {
					t.Errorf("%+v, %v; want %+v", got, err, want)
				}
				w.checkTrace(t, slices.Concat(before, tc.events, []string{"state.committed", "run.failed"}), tc.history, tc.usage)
			})
		})
	}
}

// handsBack is a request that was sent and that a stopping worker gives up.
func handsBack(stop context.CancelCauseFunc) reply {
	return func(ctx context.Context, _ provider.Request, _ func(provider.Delta)) (provider.Response, error) {
		stop(ErrHandBack)
		return provider.Response{}, &provider.Error{Class: provider.ClassCancelled, Dispatched: true, Err: ctx.Err()}
	}
}

// TestHandBacksAreNoAttempts hands a run back more often than workers may be lost: it goes on all the same, and each
// request that was given up counts.
func TestHandBacksAreNoAttempts(t *testing.T) {
	w := newWorld(t)
	run := w.run("u1", "hi")
	events := []string{"run.started", "message.user", "context.captured", "run.handedback"}
	for i := range run.Config.Limits.MaxAttempts + 2 {
		ctx, stop := context.WithCancelCause(context.Background())
		w.model.replies = []reply{handsBack(stop)}
		if got, err := w.execute(ctx, run); !errors.Is(err, ErrHandBack) {
			t.Fatalf("hand-back %d ended the run: %+v, %v", i, got, err)
		}
		if i > 0 {
			events = append(events, "run.started", "context.captured", "run.handedback")
		}
	}
	w.model.replies = []reply{says("hello")}
	if got, err := w.execute(context.Background(), run); err != nil || got != completed {
		t.Fatalf("after the hand-backs: %+v, %v", got, err)
	}
	events = append(events, "run.started", "context.captured", "body", "model.completed", "state.committed", "run.finished")
	w.checkTrace(t, events, []string{"user", "assistant:stop"}, unanswered(answers(1), int64(run.Config.Limits.MaxAttempts+2)))
	if state, _ := w.state(); state.Run.Attempt != 1 {
		t.Errorf("the run was ended by attempt %d, want 1", state.Run.Attempt)
	}
}

// TestHandBackAfterAnswer stops the worker at the moment when the answer is complete: it is committed and not asked for
// again, and the next worker only ends the run.
func TestHandBackAfterAnswer(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancelCause(context.Background())
	w.model.replies = []reply{says("hello")}
	w.chaos = func(point string) {
		if point == "model.answered" {
			stop(ErrHandBack)
		}
	}
	if got, err := w.execute(ctx, w.run("u1", "hi")); !errors.Is(err, ErrHandBack) {
		t.Fatalf("%+v, %v; want a hand-back", got, err)
	}
	events := []string{"run.started", "message.user", "context.captured", "body", "model.completed", "state.committed", "run.handedback"}
	w.checkTrace(t, events, []string{"user", "assistant:stop"}, answers(1))
	w.chaos = nil
	if got, err := w.execute(context.Background(), w.run("u1", "hi")); err != nil || got != completed {
		t.Fatalf("takeover: %+v, %v", got, err)
	}
	w.checkTrace(t, append(events, "run.started", "run.finished"), []string{"user", "assistant:stop"}, answers(1))
	if len(w.model.requests) != 1 {
		t.Errorf("%d requests were sent, want 1", len(w.model.requests))
	}
}
