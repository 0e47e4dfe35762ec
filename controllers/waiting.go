package controllers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/kube"
	"github.com/agentloop/agentloop/pkg/session"
)

// A run that waits for something that needs no worker was given back and acknowledged: it has no work item and takes no
// place of its namespace until there is something for a worker to do. What that is, each reason to wait says here.

const (
	// expiryGrace is how long after the end of a call's time the run is woken up: the worker's clock decides that it is over.
	expiryGrace = time.Second
	// wakeRetry is how long a run rests that was given back although there is something to do: the worker could not see it.
	wakeRetry = 30 * time.Second
	// wakeSlack is how much earlier than the hand-back something may seem to have come that the worker had not seen: two
	// clocks and a time in whole seconds are compared.
	wakeSlack = 10 * time.Second
)

// holder is the worker that has the stream's live run according to the log; empty when none has, because the run waits.
func (f Facts) holder() string {
	if f.State.Run == nil || f.State.Run.Waiting != "" {
		return ""
	}
	return f.State.Run.Worker
}

// rests says whether the run needs no worker now, and when it will need one although nothing changes; zero for never.
func (f runFacts) rests() (bool, time.Time) {
	run := f.log.State.Run
	if run.Waiting == "" || f.cancelling() {
		return false, time.Time{}
	}
	wake := earlier(earlier(f.decided(run), expires(run)), f.answered(run))
	return wake.IsZero() || f.now.Before(wake), wake
}

// decided is when the run is to take a decision about one of its calls; zero when there is none that it has not taken.
func (f runFacts) decided(run *session.RunProgress) time.Time {
	var wake time.Time
	for _, approval := range kube.InOrder(f.approvals) {
		decision, err := kube.DecisionOf(approval)
		if err != nil || approval.Spec.RunRef.UID != run.UID {
			continue
		}
		if !run.Tools[decision.CallID].Waits() || !run.Answers(decision.CallID, decision.ID, decision.ArgumentsDigest, decision.At) {
			continue
		}
		at := f.now
		if decision.At.Before(run.WaitingSince.Add(-wakeSlack)) {
			at = run.WaitingSince.Add(wakeRetry)
		}
		wake = earlier(wake, at)
	}
	return wake
}

// expires is when the first call counts as denied that nobody has decided about; zero for never.
func expires(run *session.RunProgress) time.Time {
	var first time.Time
	for _, progress := range run.Tools {
		if progress.Waits() && !progress.Approval.Until.IsZero() {
			first = earlier(first, progress.Approval.Until.Add(expiryGrace))
		}
	}
	return first
}

// answered is when the run is to take the answer of one that it delegated to, or to look for one that is not there; zero
// while all of them are at work.
func (f runFacts) answered(run *session.RunProgress) time.Time {
	var wake time.Time
	for _, progress := range run.Tools {
		if !progress.Delegated() {
			continue
		}
		i := slices.IndexFunc(f.siblings, func(r api.AgentRun) bool { return kube.AgentKey(&r) == progress.Child.Agent })
		at := run.WaitingSince.Add(wakeRetry)
		switch {
		case i >= 0 && !f.siblings[i].IsFinished():
			continue
		case i >= 0 && f.siblings[i].Status.CompletionTime != nil && !f.siblings[i].Status.CompletionTime.Time.Before(run.WaitingSince.Add(-wakeSlack)):
			at = f.now
		}
		wake = earlier(wake, at)
	}
	return wake
}

// earlier is the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// awaiting says what a run waits for, without naming anything of its content.
func awaiting(run *session.RunProgress) string {
	if run.Waiting == session.PhaseApproval {
		n := len(pendingApprovals(run))
		verb := "wait"
		if n == 1 {
			verb = "waits"
		}
		return fmt.Sprintf("%s %s for a person: create a ToolApproval for each of status.pendingApprovals", counted(n, "tool call"), verb)
	}
	n := 0
	for _, progress := range run.Tools {
		if progress.Delegated() {
			n++
		}
	}
	return "waits for " + counted(n, "subagent")
}

// pendingApprovals are the calls that wait for a person, the oldest first.
func pendingApprovals(run *session.RunProgress) []api.PendingApproval {
	var ids []string
	for id, progress := range run.Tools {
		if progress.Waits() {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(x, y string) int {
		return cmp.Or(run.Tools[x].Approval.Since.Compare(run.Tools[y].Approval.Since), cmp.Compare(x, y))
	})
	var out []api.PendingApproval
	for _, id := range ids {
		asked := run.Tools[id].Approval
		pending := api.PendingApproval{ToolCallID: id, Tool: asked.Name, ArgumentsDigest: asked.ArgumentsDigest.String()}
		if !asked.Until.IsZero() {
			until := metav1.NewTime(asked.Until).Rfc3339Copy()
			pending.ExpiresAt = &until
		}
		out = append(out, pending)
	}
	return out
}

// toolNames are the tools whose calls wait, each once, as far as the status shows them.
func toolNames(status *api.AgentRunStatus) string {
	var names []string
	for _, pending := range status.PendingApprovals {
		if !slices.Contains(names, pending.Tool) {
			names = append(names, pending.Tool)
		}
	}
	return strings.Join(names, ", ")
}
