package controllers

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/kube"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
	"github.com/agentloop/agentloop/pkg/worker"
)

var arguments = cas.Of([]byte(`{"n":1}`))

// asked is a call that waits for a person since then, for an hour.
func asked(id string, since time.Duration) func(*session.RunProgress) {
	return func(run *session.RunProgress) {
		if run.Tools == nil {
			run.Tools = map[string]*session.ToolProgress{}
		}
		run.Waiting, run.Phase, run.WaitingSince, run.HandedBack = session.PhaseApproval, session.PhaseApproval, born.Add(20*time.Second), true
		run.Tools[id] = &session.ToolProgress{Approval: &session.Approval{
			Name: "tools__write", Server: "tools", ArgumentsDigest: arguments, Since: born.Add(since), Until: born.Add(since + time.Hour),
			Decision: runevent.DecisionRequested,
		}}
	}
}

func approval(name, call string, change ...func(*api.ToolApproval)) *api.ToolApproval {
	a := &api.ToolApproval{ObjectMeta: named(name), Spec: api.ToolApprovalSpec{
		RunRef: api.ApprovalRunRef{Name: "first", UID: "uid-first"}, ToolCallID: call, ArgumentsDigest: arguments.String(),
		Decision: api.DecisionApprove, Approver: "kim",
	}}
	a.UID, a.CreationTimestamp = types.UID("uid-"+name), metav1.NewTime(born.Add(50*time.Second))
	for _, c := range change {
		c(a)
	}
	return a
}

func madeAt(at time.Duration) func(*api.ToolApproval) {
	return func(a *api.ToolApproval) { a.CreationTimestamp = metav1.NewTime(born.Add(at)) }
}
func ofAnotherRun(a *api.ToolApproval) { a.Spec.RunRef.UID = "uid-of-an-earlier-one" }
func otherArguments(a *api.ToolApproval) {
	a.Spec.ArgumentsDigest = cas.Of([]byte(`{"n":2}`)).String()
}
func noDigest(a *api.ToolApproval) { a.Spec.ArgumentsDigest = "sha256:none" }

// decisions are there, and the time is that long after the run was created.
func decisions(now time.Duration, all ...*api.ToolApproval) func(*runFacts) {
	return func(f *runFacts) {
		f.now = born.Add(now)
		for _, a := range all {
			f.approvals = append(f.approvals, *a)
		}
	}
}

// TestDecideRunThatWaitsForPeople wakes a run up when there is something to do for a worker, and not before.
func TestDecideRunThatWaitsForPeople(t *testing.T) {
	const one, two = "Unknown AwaitingApproval: 1 tool call waits for a person: create a ToolApproval for each of status.pendingApprovals",
		"Unknown AwaitingApproval: 2 tool calls wait for a person: create a ToolApproval for each of status.pendingApprovals"
	says := func(succeeded string, more ...string) map[string]string {
		return pairs(append([]string{"Accepted", "True Accepted", "Succeeded", succeeded, "Finished", "False InProgress"}, more...)...)
	}
	waits := started(asked("c1", 10*time.Second))
	forever := started(asked("c1", 10*time.Second), func(run *session.RunProgress) { run.Tools["c1"].Approval.Until = time.Time{} })
	cases := map[string]struct {
		facts runFacts
		want  map[string]string
	}{
		"nobody has decided":                       {facts(waits, decisions(time.Minute)), says(one, "rests", "yes", "again", "59m11s")},
		"nobody has decided, without an end":       {facts(forever, decisions(time.Minute)), says(one, "rests", "yes")},
		"somebody has":                             {facts(waits, decisions(time.Minute, approval("a", "c1"))), says(one, "item", "resume")},
		"about another call":                       {facts(forever, decisions(time.Minute, approval("a", "c2"))), says(one, "rests", "yes")},
		"about a call of an earlier run":           {facts(forever, decisions(time.Minute, approval("a", "c1", ofAnotherRun))), says(one, "rests", "yes")},
		"that was made before the question":        {facts(forever, decisions(time.Minute, approval("a", "c1", madeAt(-2*time.Second)))), says(one, "rests", "yes")},
		"that was taken for an earlier call":       {facts(forever, func(f *runFacts) { f.log.State.Run.Decided = []string{"uid-a"} }, decisions(time.Minute, approval("a", "c1"))), says(one, "rests", "yes")},
		"about other arguments":                    {facts(forever, decisions(time.Minute, approval("a", "c1", otherArguments))), says(one, "rests", "yes")},
		"about what is no digest":                  {facts(forever, decisions(time.Minute, approval("a", "c1", noDigest))), says(one, "rests", "yes")},
		"before the run was given back":            {facts(waits, decisions(time.Minute, approval("a", "c1", madeAt(15*time.Second)))), says(one, "item", "resume")},
		"long before, so that the worker saw it":   {facts(waits, decisions(30*time.Second, approval("a", "c1", madeAt(2*time.Second)))), says(one, "rests", "yes", "again", "20s")},
		"long before, and some time has passed":    {facts(waits, decisions(50*time.Second, approval("a", "c1", madeAt(2*time.Second)))), says(one, "item", "resume")},
		"the call's time is over":                  {facts(waits, decisions(time.Hour+11*time.Second)), says(one, "item", "resume")},
		"the call's time is over, a moment ago":    {facts(waits, decisions(time.Hour+10*time.Second)), says(one, "rests", "yes", "again", "1s")},
		"a decision in the last second":            {facts(waits, decisions(time.Hour+10*time.Second, approval("a", "c1", madeAt(time.Hour+9*time.Second)))), says(one, "item", "resume")},
		"a decision too late":                      {facts(waits, decisions(time.Hour+10*time.Second, approval("a", "c1", madeAt(time.Hour+10*time.Second)))), says(one, "rests", "yes", "again", "1s")},
		"two calls, one decided":                   {facts(started(asked("c1", 10*time.Second), asked("c2", 11*time.Second)), decisions(time.Minute, approval("a", "c2"))), says(two, "item", "resume")},
		"the stores do not answer":                 {facts(forever, unsaved), says(one, "rests", "yes")},
		"it is cancelled":                          {facts(waits, cancelled), says("Unknown Cancelling: the worker was told to stop", "item", "cancel")},
		"it is deleted":                            {facts(waits, deletedRun), says("Unknown Cancelling: the worker was told to stop", "item", "cancel")},
		"its session is deleted":                   {facts(waits, deletedSession), says("Unknown Cancelling: the worker was told to stop", "item", "cancel")},
		"a worker has it and a call of it waits":   {facts(waits, func(f *runFacts) { f.log.State.Run.Waiting, f.log.State.Run.HandedBack = "", false }), says("Unknown AwaitingApproval", "item", "resume")},
		"it does not wait for people any more":     {facts(started(), decisions(time.Minute, approval("a", "c1"))), says("Unknown ModelCall", "item", "resume")},
		"it waits and its finalizer was removed":   {facts(forever, func(f *runFacts) { f.run.Finalizers = nil }), says(one, "rests", "yes", "hold", "yes")},
		"its namespace ends":                       {facts(waits, deletedRun, namespaceEnds(30*time.Second)), says("Unknown Cancelling: the worker was told to stop", "item", "cancel", "again", "1m30s")},
		"a decision that the clocks put in future": {facts(waits, decisions(time.Minute, approval("a", "c1", madeAt(2*time.Minute)))), says(one, "item", "resume")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, brief(decideRun(tc.facts))); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPendingApprovals shows the oldest four calls and counts all of them.
func TestPendingApprovals(t *testing.T) {
	var calls []func(*session.RunProgress)
	for i, id := range []string{"e", "d", "c", "b", "a"} {
		calls = append(calls, asked(id, time.Duration(10-i/2)*time.Second))
	}
	f := facts(started(calls...))
	status := decideRun(f).status
	status.Bound()
	var shown []string
	for _, p := range status.PendingApprovals {
		shown = append(shown, p.ToolCallID)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, shown); diff != "" || status.PendingApprovalsTotal != 5 {
		t.Errorf("%d in all, shown (-want +got):\n%s", status.PendingApprovalsTotal, diff)
	}
	first := status.PendingApprovals[0]
	if first.Tool != "tools__write" || first.ArgumentsDigest != arguments.String() || !first.ExpiresAt.Time.Equal(born.Add(time.Hour+8*time.Second)) {
		t.Errorf("%+v", first)
	}
	f.log.State.Run.Tools, f.log.State.Run.Waiting, f.log.State.Run.Phase, f.run.Status = nil, "", session.PhaseModelCall, *status
	if after := decideRun(f).status; after.PendingApprovals != nil || after.PendingApprovalsTotal != 0 {
		t.Errorf("afterwards %+v, %d", after.PendingApprovals, after.PendingApprovalsTotal)
	}
}

// guarded has one tool, whose calls need approval.
type guarded struct{ noTools }

func (guarded) Connect(context.Context, *session.ToolSet) (tool.Set, error) { return guarded{}, nil }
func (guarded) Call(context.Context, tool.Call, func(string)) (tool.Result, error) {
	return tool.Result{Content: message.Text("written")}, nil
}
func (guarded) Definitions() []tool.Definition {
	d := tool.Definition{Server: "tools", RemoteName: "write", RequiresApproval: true, ApprovalSeconds: 3600}
	d.Tool = message.Tool{Name: "tools__write", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}
	return []tool.Definition{d}
}

// calling is a model that calls the tool once and is done then.
type calling struct{}

func (calling) Stream(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
	response, err := says("done").Stream(ctx, req, onDelta)
	if err == nil && req.Messages[len(req.Messages)-1].Role == message.RoleUser {
		response.Message.StopReason = message.StopToolUse
		response.Message.Content = message.Blocks(message.Block{Type: message.BlockToolCall, ID: "c1", Name: "tools__write", Arguments: json.RawMessage(`{"n":1}`)})
	}
	return response, err
}

// stored are the decisions that the API server has.
type stored struct{ w *world }

func (s stored) Decisions(ctx context.Context) ([]agent.Decision, error) {
	list := &api.ToolApprovalList{}
	if err := s.w.client.List(ctx, list); err != nil {
		return nil, err
	}
	var out []agent.Decision
	for _, a := range kube.InOrder(list.Items) {
		if decision, err := kube.DecisionOf(a); err == nil && a.Spec.RunRef.UID == "uid-first" {
			out = append(out, decision)
		}
	}
	return out, nil
}

// workGuarded executes the run, up to where it waits.
func (w *world) workGuarded() {
	w.t.Helper()
	execute(w.t, w.log, w.store, execution{
		name: "first", uid: "uid-first", history: w.session("chat").HistoryUID(), model: calling{}, tools: guarded{}, approvals: stored{w},
	})
	w.queue.take("first")
}

// TestRunWaitsWithoutAWorker follows a run that waits: it has no item and takes no place until somebody has decided.
func TestRunWaitsWithoutAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil, newProvider(), newSession())
		w.create(newRun("first"))
		w.settle()
		w.workGuarded()
		w.settle()
		run := w.run("first")
		if got := state(run); got != "Unknown AwaitingApproval" || run.Status.PendingApprovalsTotal != 1 {
			t.Fatalf("%s, %d calls wait", got, run.Status.PendingApprovalsTotal)
		}
		for _, want := range []string{"Normal Started worker w1 began the run", "Normal AwaitingApproval 1 tool call to be approved, of tools__write"} {
			if event := <-w.events.Events; event != want {
				t.Errorf("event %q, want %q", event, want)
			}
		}
		pass(10 * time.Minute)
		w.settle()
		if names := w.queue.names(); len(names) != 0 || len(w.admission.wanted) != 0 {
			t.Errorf("while it waits, the queue has %v and %d are wanted", names, len(w.admission.wanted))
		}
		w.create(approval("a", "c1", func(a *api.ToolApproval) { a.CreationTimestamp = metav1.Now() }))
		w.settle()
		if diff := cmp.Diff([]string{"first resume"}, w.queue.names()); diff != "" {
			t.Errorf("queue (-want +got):\n%s", diff)
		}
		if got := w.applied("a"); got != "Unknown Pending" {
			t.Errorf("before a worker has taken it, the decision is %s", got)
		}
		w.workGuarded()
		w.settle()
		pass(approvalInterval)
		w.settle()
		if got := w.applied("a"); got != "True Applied" {
			t.Errorf("the decision is %s", got)
		}
		if run := w.run("first"); state(run) != "True Completed, finished" || run.Status.Worker.Attempt != 1 {
			t.Errorf("afterwards: %s, attempt %d", state(run), run.Status.Worker.Attempt)
		}
	})
}

// applied is what is told of a decision.
func (w *world) applied(name string) string {
	w.t.Helper()
	a := &api.ToolApproval{}
	if err := w.client.Get(w.ctx, types.NamespacedName{Namespace: "ns", Name: name}, a); err != nil {
		w.t.Fatal(err)
	}
	if len(a.OwnerReferences) > 0 && a.OwnerReferences[0].Name != "first" {
		w.t.Errorf("decision %s is owned by %v", name, a.OwnerReferences)
	}
	for _, c := range a.Status.Conditions {
		return string(c.Status) + " " + c.Reason
	}
	return "untold"
}

// TestAdmissionOfAHandedBackRun puts the item of a run that was given back soon after the worker has let go of the one that
// it had.
func TestAdmissionOfAHandedBackRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, queue := admit(t, nil)
		item := itemOf("ns/a")
		a.Want(item, "w1")
		pass(time.Second)
		queue.set(func() { queue.items = []worker.Item{item} }) // in the hands of w1
		a.Done(nameOf("ns/a"))
		item.Kind = worker.KindResume
		a.Want(item, "")
		pass(100 * time.Millisecond)
		queue.take("a")
		pass(3 * time.Second)
		if diff := cmp.Diff([]string{"a resume"}, queue.names()); diff != "" {
			t.Errorf("queue (-want +got):\n%s", diff)
		}
	})
}
