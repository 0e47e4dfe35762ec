package agent

import (
	"context"
	"errors"
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

// people are decisions that somebody has made.
type people struct {
	decisions []Decision
	err       error
}

func (p *people) Decisions(context.Context) ([]Decision, error) { return p.decisions, p.err }

// decides makes a decision about the first call of a tool, with the arguments that the scripted model gives.
func (w *world) decides(tool string, approve bool, change ...func(*Decision)) Decision {
	d := Decision{
		ID: "uid-" + tool, CallID: tool + "-0", ArgumentsDigest: ArgumentsDigest([]byte(`{"n": 1}`)), Approve: approve,
		At: w.clock.Now(), Approver: "kim",
	}
	for _, c := range change {
		c(&d)
	}
	return d
}

func hourly(d *tool.Definition) { d.RequiresApproval, d.ApprovalSeconds = true, 3600 }

// asking is a world whose model calls the named tools once and is done then. Tools that begin with "guarded" need approval.
func asking(t *testing.T, names ...string) (*world, *people) {
	w, p := newWorld(t), &people{}
	w.tools.definitions = []tool.Definition{defined("guarded", hourly), defined("guarded2", hourly), defined("read", repeatable), defined("write")}
	w.model.replies = []reply{calls(names...), says("done")}
	w.approvals = p
	return w, p
}

func (w *world) mustWait(run Run) {
	w.t.Helper()
	if _, err := w.execute(context.Background(), run); !errors.Is(err, ErrWaiting) {
		w.t.Fatalf("the run ended with %v, it should wait", err)
	}
}

func (w *world) mustFinish(run Run) {
	w.t.Helper()
	got, err := w.execute(context.Background(), run)
	if want := (Result{runevent.TypeRunFinished, "Completed"}); err != nil || got != want {
		w.t.Fatalf("the run ended with %+v, %v", got, err)
	}
}

// results are the texts of the history's tool results.
func (w *world) results() []string {
	w.t.Helper()
	var out []string
	_, history := w.state()
	for _, m := range history {
		if m.Role == message.RoleToolResult {
			out = append(out, m.PlainText())
		}
	}
	return out
}

func TestApprovalIsWaitedFor(t *testing.T) {
	w, p := asking(t, "guarded")
	run := w.run("u1", "hi")
	w.mustWait(run)
	if len(w.tools.calls) > 0 {
		t.Fatalf("called before anybody decided: %v", w.tools.calls)
	}
	state, _ := w.state()
	asked := state.Run.Tools["guarded-0"].Approval
	if !asked.Open() || asked.ArgumentsDigest != ArgumentsDigest([]byte(`{"n":1}`)) || asked.Until.IsZero() {
		t.Errorf("asked %+v", asked)
	}
	if !state.Live() || state.Run.Phase != session.PhaseApproval || state.Run.Waiting != session.PhaseApproval {
		t.Errorf("phase %q, waiting for %q", state.Run.Phase, state.Run.Waiting)
	}
	w.mustWait(run) // woken up for nothing
	p.decisions = []Decision{w.decides("guarded", true)}
	w.mustFinish(run)
	if diff := cmp.Diff([]string{"guarded-0"}, w.tools.calls); diff != "" {
		t.Error(diff)
	}
	state, _ = w.state()
	if state.Run.Attempt != 1 || !cmp.Equal(state.Run.Decided, []string{"uid-guarded"}) {
		t.Errorf("attempt %d, decided %v", state.Run.Attempt, state.Run.Decided)
	}
	if len(w.model.requests) != 2 {
		t.Errorf("%d requests", len(w.model.requests))
	}
	w.decidedBeforeStart(t)
}

// decidedBeforeStart checks the log: no call that needs approval starts before it was approved.
func (w *world) decidedBeforeStart(t *testing.T) {
	t.Helper()
	approved := map[string]bool{}
	for _, e := range w.entries() {
		switch {
		case e.Event.Kind == runevent.KindApproval && e.Event.Decision == runevent.DecisionApproved:
			approved[e.Event.CallID] = true
		case e.Event.Type == runevent.TypeToolStarted && strings.HasPrefix(e.Event.Name, "guarded") && !approved[e.Event.CallID]:
			t.Errorf("#%d starts %s before it was approved", e.Sequence, e.Event.CallID)
		}
	}
}

func TestApprovalOutcomes(t *testing.T) {
	late := func(d *Decision) { d.At = d.At.Add(2 * time.Hour) }
	because := func(d *Decision) { d.Reason = "not on a Friday" }
	otherCall := func(d *Decision) { d.CallID = "guarded-7" }
	otherArguments := func(d *Decision) { d.ArgumentsDigest = ArgumentsDigest([]byte(`{"n":2}`)) }
	for name, c := range map[string]struct {
		decide func(*world) []Decision
		err    error
		later  time.Duration
		want   string // empty: it goes on waiting
	}{
		"approved":                   {decide: func(w *world) []Decision { return []Decision{w.decides("guarded", true)} }, want: "result of guarded-0"},
		"denied":                     {decide: func(w *world) []Decision { return []Decision{w.decides("guarded", false)} }, want: textDenied},
		"denied with a reason":       {decide: func(w *world) []Decision { return []Decision{w.decides("guarded", false, because)} }, want: textDenied + " They say: not on a Friday"},
		"the first of two decisions": {decide: func(w *world) []Decision { return []Decision{w.decides("guarded", false), w.decides("guarded", true)} }, want: textDenied},
		"for another call":           {decide: func(w *world) []Decision { return []Decision{w.decides("guarded", true, otherCall)} }},
		"for other arguments":        {decide: func(w *world) []Decision { return []Decision{w.decides("guarded", true, otherArguments)} }},
		"nobody in time":             {decide: func(*world) []Decision { return nil }, later: time.Hour, want: textExpired},
		"too late":                   {decide: func(w *world) []Decision { return []Decision{w.decides("guarded", true, late)} }, later: 3 * time.Hour, want: textExpired},
		"in time, seen too late":     {decide: func(w *world) []Decision { return []Decision{w.decides("guarded", true)} }, later: 3 * time.Hour, want: "result of guarded-0"},
		"not readable":               {decide: func(*world) []Decision { return nil }, err: errors.New("API server away")},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := asking(t, "guarded")
			run := w.run("u1", "hi")
			w.mustWait(run)
			p.decisions, p.err = c.decide(w), c.err
			w.clock.now = w.clock.now.Add(c.later)
			if c.want == "" {
				w.mustWait(run)
				return
			}
			w.mustFinish(run)
			if diff := cmp.Diff([]string{c.want}, w.results()); diff != "" {
				t.Error(diff)
			}
			w.decidedBeforeStart(t)
		})
	}
}

// Models give the same id to calls of different turns: what was decided about one is no decision about the next.
func TestDecisionCountsOnce(t *testing.T) {
	for name, second := range map[string]func(*world) []Decision{
		"the one that was taken": func(w *world) []Decision { return []Decision{w.decides("guarded", true)} },
		"another one, from before the question": func(w *world) []Decision {
			return []Decision{w.decides("guarded", true), w.decides("guarded", true, func(d *Decision) { d.ID = "uid-2" })}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := asking(t, "guarded")
			w.model.replies = []reply{calls("guarded"), calls("guarded"), says("done")}
			run := w.run("u1", "hi")
			w.mustWait(run)
			p.decisions = second(w)
			w.clock.now = w.clock.now.Add(time.Minute)
			w.mustWait(run)
			if diff := cmp.Diff([]string{"guarded-0"}, w.tools.calls); diff != "" {
				t.Error(diff)
			}
			p.decisions = append(p.decisions, w.decides("guarded", false, func(d *Decision) { d.ID = "uid-3" }))
			w.mustFinish(run)
			if diff := cmp.Diff([]string{"result of guarded-0", textDenied}, w.results()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNobodyToAsk(t *testing.T) {
	w, _ := asking(t, "guarded")
	w.approvals = nil
	w.mustFinish(w.run("u1", "hi"))
	if diff := cmp.Diff([]string{textNobody}, w.results()); diff != "" {
		t.Error(diff)
	}
}

func TestCallsAroundAnApproval(t *testing.T) {
	for name, c := range map[string]struct {
		calls         []string
		before, after []string // the calls that were made before and after the decisions
	}{
		"several at once":            {calls: []string{"guarded", "guarded2"}, after: []string{"guarded-0", "guarded2-1"}},
		"in order, the later waits":  {calls: []string{"guarded", "write"}, after: []string{"guarded-0", "write-1"}},
		"in order, the earlier runs": {calls: []string{"write", "guarded"}, before: []string{"write-0"}, after: []string{"guarded-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := asking(t, c.calls...)
			run := w.run("u1", "hi")
			w.mustWait(run)
			if diff := cmp.Diff(c.before, w.tools.calls); diff != "" {
				t.Errorf("before: %s", diff)
			}
			state, _ := w.state()
			for id, progress := range state.Run.Tools {
				if strings.HasPrefix(id, "guarded") != progress.Approval.Open() {
					t.Errorf("%s: %+v", id, progress.Approval)
				}
				p.decisions = append(p.decisions, w.decides("guarded", true, func(d *Decision) { d.ID, d.CallID = "uid-"+id, id }))
			}
			w.tools.calls = nil
			w.mustFinish(run)
			if diff := cmp.Diff(c.after, w.tools.calls); diff != "" {
				t.Errorf("after: %s", diff)
			}
			w.decidedBeforeStart(t)
		})
	}
}

// TestWaitingStopsTheDeadline waits much longer than the run may be active. What it was active before and after counts.
func TestWaitingStopsTheDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		waits, works time.Duration
		want         Result
	}{
		"a long wait":            {waits: 30 * time.Minute, works: 10 * time.Second, want: Result{runevent.TypeRunFinished, "Completed"}},
		"too long at work after": {waits: 30 * time.Minute, works: 2 * time.Minute, want: Result{runevent.TypeRunFailed, ReasonDeadline}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, p := asking(t, "guarded")
				w.clock.now = time.Now()
				run := w.run("u1", "hi")
				run.Config.Limits.ActiveDeadlineSeconds = 60
				w.mustWait(run)
				pass(c.waits)
				w.clock.now = time.Now()
				p.decisions = []Decision{w.decides("guarded", true)}
				w.tools.call = func(ctx context.Context, _ tool.Call) (tool.Result, error) {
					select {
					case <-ctx.Done():
						return tool.Result{}, ctx.Err()
					case <-time.After(c.works):
						return tool.Result{Content: message.Text("done")}, nil
					}
				}
				if got, err := w.execute(context.Background(), run); err != nil || got != c.want {
					t.Errorf("%+v, %v", got, err)
				}
				state, _ := w.state()
				if waited := state.Run.Waited(w.clock.Now()); waited < c.waits-time.Second || waited > c.waits+time.Minute {
					t.Errorf("waited %s", waited)
				}
			})
		})
	}
}

func TestWaitingRunIsCancelled(t *testing.T) {
	w, _ := asking(t, "write", "guarded")
	run := w.run("u1", "hi")
	w.mustWait(run)
	got, err := Seal(context.Background(), w.deps(), run, ErrCancelled)
	if err != nil || got.Event != runevent.TypeRunCancelled {
		t.Fatalf("%+v, %v", got, err)
	}
	if diff := cmp.Diff([]string{"result of write-0", textStopped}, w.results()); diff != "" {
		t.Error(diff)
	}
}

// TestOverdueWhileWaiting: a run that cannot be loaded is ended with its deadline, but not for the time that it waited.
func TestOverdueWhileWaiting(t *testing.T) {
	w, p := asking(t, "guarded")
	run := w.run("u1", "hi")
	w.mustWait(run)
	run.Config.Limits.ActiveDeadlineSeconds = 60
	w.clock.now = w.clock.now.Add(30 * time.Minute)
	if _, err := Seal(context.Background(), w.deps(), run, ErrDeadline); !errors.Is(err, ErrNotOverdue) {
		t.Fatalf("a run that waited for half an hour, of which nothing counts: %v", err)
	}
	run.Config.Limits.ActiveDeadlineSeconds = 0
	p.decisions = []Decision{w.decides("guarded", true)}
	if !w.dies("approval.decided", 1, func() { _, _ = w.execute(context.Background(), run) }) {
		t.Fatal("the worker did not die")
	}
	run.Config.Limits.ActiveDeadlineSeconds = 60
	w.clock.now = w.clock.now.Add(time.Minute)
	got, err := Seal(context.Background(), w.deps(), run, ErrDeadline)
	if want := (Result{runevent.TypeRunFailed, ReasonDeadline}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestApprovalTakeover kills the worker at every point of a run that waits for approval twice.
func TestApprovalTakeover(t *testing.T) {
	script := func(t *testing.T) (*world, *people, Run) {
		w, p := asking(t, "guarded", "write", "guarded2")
		return w, p, w.run("u1", "hi")
	}
	// live is a whole run: woken up once for each decision.
	live := func(w *world, p *people, run Run) error {
		for _, decided := range [][]Decision{nil, {w.decides("guarded", true)}, {w.decides("guarded", true), w.decides("guarded2", false, func(d *Decision) { d.CallID = "guarded2-2" })}} {
			p.decisions = decided
			if _, err := w.execute(context.Background(), run); err != nil && !errors.Is(err, ErrWaiting) {
				return err
			}
		}
		return nil
	}
	probe, people, run := script(t)
	reached := map[string]int{}
	probe.chaos = func(point string) { reached[point]++ }
	if err := live(probe, people, run); err != nil {
		t.Fatal(err)
	}
	for _, point := range []string{"approval.requested", "approval.decided", "run.before-wait", "run.waiting"} {
		if reached[point] != 2 {
			t.Errorf("%s was reached %d times", point, reached[point])
		}
	}
	for point, times := range reached {
		for n := 1; n <= times; n++ {
			t.Run(point, func(t *testing.T) {
				w, p, run := script(t)
				w.model.replies = append(w.model.replies, says("done"), says("done"))
				again := calls("guarded", "write", "guarded2")
				w.model.replies[1] = func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
					if req.Messages[len(req.Messages)-1].Role == message.RoleUser {
						return again(ctx, req, onDelta)
					}
					return says("done")(ctx, req, onDelta)
				}
				if !w.dies(point, n, func() { _ = live(w, p, run) }) {
					t.Fatal("the worker did not die")
				}
				if err := live(w, p, run); err != nil {
					t.Fatal(err)
				}
				state, _ := w.state()
				if state.Live() {
					t.Fatal("the run is live")
				}
				made := map[string]int{}
				for _, id := range w.tools.calls {
					made[id]++
				}
				if made["guarded-0"] > 1 || made["write-1"] > 1 || made["guarded2-2"] > 0 {
					t.Errorf("made %v", made)
				}
				if got := w.results(); len(got) != 3 || got[2] != textDenied {
					t.Errorf("results %q", got)
				}
				w.decidedBeforeStart(t)
			})
		}
	}
}
