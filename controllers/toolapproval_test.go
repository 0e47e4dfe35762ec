package controllers

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// told is what is known of a decision, about a run as the facts have it. The log was read after the decision was seen.
func told(f runFacts, a *api.ToolApproval, change ...func(*approvalFacts)) approvalFacts {
	out := approvalFacts{approval: a, run: f.run, log: f.log, seen: f.now.Add(-time.Second)}
	for _, c := range change {
		c(&out)
	}
	return out
}

func said(status metav1.ConditionStatus, reason string) func(*api.ToolApproval) {
	return func(a *api.ToolApproval) {
		a.Status.Conditions = []metav1.Condition{{Type: api.ConditionApplied, Status: status, Reason: reason, Message: "as before"}}
	}
}

func TestDecideApproval(t *testing.T) {
	waits := started(asked("c1", 10*time.Second))
	taken := started(asked("c1", 10*time.Second), func(run *session.RunProgress) {
		run.Tools, run.Waiting, run.Decided = nil, "", []string{"uid-other", "uid-a"}
	})
	takenBefore := started(asked("c1", 10*time.Second), func(run *session.RunProgress) { run.Decided = []string{"uid-a"} })
	moved := started() // the call does not wait
	ended := started(terminal(runevent.Event{Type: runevent.TypeRunFinished}))
	finished := func(f *runFacts) {
		f.run.Status.Conditions = []metav1.Condition{{Type: api.ConditionFinished, Status: metav1.ConditionTrue}}
	}
	noRun := func(f *approvalFacts) { f.run = nil }
	early := func(f *approvalFacts) { f.seen = f.log.ReadAt }
	notRead := func(f *approvalFacts) { f.log, f.unread = Facts{}, true }
	owned := func(a *api.ToolApproval) { a.OwnerReferences = []metav1.OwnerReference{{UID: "uid-first"}} }
	cases := map[string]struct {
		facts approvalFacts
		want  string
	}{
		"the log has it":                              {told(facts(taken), approval("a", "c1")), "True Applied, own"},
		"the log has it, and the run ended":           {told(facts(taken, finished), approval("a", "c1")), "True Applied, own"},
		"it was applied, and nothing is known by now": {told(facts(moved), approval("a", "c1", said("True", "Applied")), notRead), "True Applied"},
		"the call waits":                              {told(facts(waits), approval("a", "c1")), "Unknown Pending, own, again"},
		"the call waits, and it is owned":             {told(facts(waits), approval("a", "c1", owned)), "Unknown Pending, again"},
		"the call waits with other arguments":         {told(facts(waits), approval("a", "c1", otherArguments)), "False DigestMismatch, own"},
		"it names no digest":                          {told(facts(waits), approval("a", "c1", noDigest)), "False DigestMismatch, own"},
		"it came too late":                            {told(facts(waits), approval("a", "c1", madeAt(2*time.Hour))), "False Stale, own"},
		"there is no such call":                       {told(facts(waits), approval("a", "c9")), "False Stale, own"},
		"another decision was first":                  {told(facts(taken), approval("b", "c1")), "False Stale, own"},
		"the log was read before it was seen":         {told(facts(moved), approval("a", "c1"), early), "Unknown Pending, own, again"},
		"nothing was read":                            {told(facts(moved), approval("a", "c1"), notRead), "Unknown Pending, own, again"},
		"the run ended first":                         {told(facts(ended), approval("a", "c1")), "False RunFinished, own"},
		"the run is over, says its status":            {told(facts(finished), approval("a", "c1")), "False RunFinished, own"},
		"the run is over, the log not read":           {told(facts(finished), approval("a", "c1"), notRead), "Unknown Pending, own, again"},
		"the run is over, and it was stale":           {told(facts(finished), approval("a", "c1", said("False", "Stale")), notRead), "False Stale"},
		"it was made long before the question":        {told(facts(waits), approval("a", "c1", madeAt(-time.Minute))), "False Stale, own"},
		"another call of its id was decided with it":  {told(facts(takenBefore), approval("a", "c1")), "True Applied, own"},
		"it was about others, and one was taken":      {told(facts(taken), approval("b", "c1", owned, said("False", "DigestMismatch"))), "False DigestMismatch"},
		"it was about others, and the run ended":      {told(facts(ended), approval("b", "c1", owned, said("False", "DigestMismatch"))), "False DigestMismatch"},
		"there is no run":                             {told(facts(), approval("a", "c1"), noRun), "False RunNotFound"},
		"there was no run, and now there is":          {told(facts(waits), approval("a", "c1", said("False", "RunNotFound"))), "Unknown Pending, own, again"},
		"it was stale, and the log is read anew":      {told(facts(moved), approval("a", "c1", owned, said("False", "Stale")), notRead), "False Stale"},
		"it was stale, and was taken after all":       {told(facts(taken), approval("a", "c1", owned, said("False", "Stale"))), "True Applied"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decideApproval(tc.facts)
			got := string(d.status) + " " + d.reason
			for word, set := range map[string]bool{", own": d.own} {
				if set {
					got += word
				}
			}
			if d.again {
				got += ", again"
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if d.status == metav1.ConditionFalse && d.message == "" {
				t.Error("nobody is told why")
			}
		})
	}
}

// TestStaleDecisions tells what became of decisions that no worker takes, once, and only when the log is known.
func TestStaleDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil, newProvider(), newSession())
		w.create(newRun("first"))
		w.settle()
		w.workGuarded()
		w.settle()
		now := func(a *api.ToolApproval) { a.CreationTimestamp = metav1.Now() }
		for _, a := range []*api.ToolApproval{
			approval("wrong", "c1", now, otherArguments), approval("unknown", "c9", now), approval("earlier", "c1", now, ofAnotherRun), approval("late", "c1", now),
		} {
			w.create(a)
		}
		w.settle()
		pass(approvalInterval)
		w.settle()
		got := map[string]string{}
		all := []string{"wrong", "unknown", "earlier", "late"}
		for _, name := range all {
			got[name] = w.applied(name)
		}
		want := map[string]string{"wrong": "False DigestMismatch", "unknown": "False Stale", "earlier": "False RunNotFound", "late": "Unknown Pending"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("while the call waits (-want +got):\n%s", diff)
		}
		w.work("first", nil, agent.ErrCancelled)
		w.settle()
		pass(approvalInterval)
		w.settle()
		if got := w.applied("late"); got != "False RunFinished" {
			t.Errorf("after the end, the open decision is %s", got)
		}
		if len(w.approvals.seen) != 0 {
			t.Errorf("%d decisions are remembered", len(w.approvals.seen))
		}
		w.taken()
		pass(time.Hour)
		w.settle()
		if writes := w.taken(); len(writes) != 0 {
			t.Errorf("writes without news: %v", writes)
		}
	})
}
