package controllers

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	api "github.com/agentloop/agentloop/api/v1alpha1"
)

// The reasons of Events that are no reasons of conditions.
const (
	eventStarted   = "Started"
	eventTakenOver = "TakenOver"
	eventCompacted = "Compacted"
)

// tell records Events about what a status that was just written says more than the one before it: once for each change, and
// for the provider's limits once for each run, which may meet them with every request. run is as it was written.
func (r *AgentRunReconciler) tell(run *api.AgentRun, before *api.AgentRunStatus, known *note) {
	next := &run.Status
	if next.IsFinished() {
		if !before.IsFinished() {
			r.announce(run)
			if next.StartTime == nil && r.Refused != nil {
				r.Refused(reason(next, api.ConditionSucceeded))
			}
		}
		return
	}
	switch {
	case next.Worker == nil:
	case before.StartTime == nil:
		r.Events.Eventf(run, nil, corev1.EventTypeNormal, eventStarted, "Run", "worker %s began the run", next.Worker.Identity)
	case before.Worker != nil && next.Worker.Attempt > before.Worker.Attempt:
		r.Events.Eventf(run, nil, corev1.EventTypeWarning, eventTakenOver, "Run", "worker %s took the run over from one that was lost, attempt %d",
			next.Worker.Identity, next.Worker.Attempt)
	}
	if awaits(next) && !awaits(before) {
		r.ask(run)
	}
	if reason(next, api.ConditionSucceeded) == api.RunReasonRateLimited && !known.limited {
		known.limited = true
		r.Events.Eventf(run, nil, corev1.EventTypeNormal, api.RunReasonRateLimited, "Wait", "requests of the run wait for their turn under the provider's limits")
	}
}

// announce records one Event for a run that has ended: the reason, and what the condition says of it.
func (r *AgentRunReconciler) announce(run *api.AgentRun) {
	why := reason(&run.Status, api.ConditionSucceeded)
	if why == api.RunReasonCompleted {
		r.Events.Eventf(run, nil, corev1.EventTypeNormal, why, "Run", "run completed in %s", counted(int(run.Status.Turn), "turn"))
		return
	}
	what := why
	if c := meta.FindStatusCondition(run.Status.Conditions, api.ConditionSucceeded); c != nil && c.Message != "" {
		what = c.Message
	}
	r.Events.Eventf(run, nil, corev1.EventTypeWarning, why, "Run", "run ended: %s", what)
}

// ask records one Event for a run that has begun to wait for people: which tools are to be approved, and nothing of the calls.
func (r *AgentRunReconciler) ask(run *api.AgentRun) {
	r.Events.Eventf(run, nil, corev1.EventTypeNormal, api.RunReasonAwaitingApproval, "Wait", "%s to be approved, of %s",
		counted(int(run.Status.PendingApprovalsTotal), "tool call"), toolNames(&run.Status))
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// tell records Events about what a session's status that was just written says more than the one before it: that history
// was compacted, and that no run can start before somebody does something about it. What is away for all sessions at once is
// said by their conditions only.
func (r *AgentSessionReconciler) tell(owner *api.AgentSession, before *api.AgentSessionStatus) {
	next := &owner.Status
	if next.Checkpoint != nil && (before.Checkpoint == nil || before.Checkpoint.ID != next.Checkpoint.ID) {
		r.Events.Eventf(owner, nil, corev1.EventTypeNormal, eventCompacted, "Compact", "a summary stands for the messages before number %d of the history",
			next.Checkpoint.Boundary)
	}
	ready := meta.FindStatusCondition(next.Conditions, api.ConditionReady)
	if ready == nil || ready.Reason != api.SessionReasonHistoryCorrupt && ready.Reason != api.SessionReasonTokenLimitReached {
		return
	}
	if earlier := meta.FindStatusCondition(before.Conditions, api.ConditionReady); earlier != nil && earlier.Reason == ready.Reason {
		return
	}
	r.Events.Eventf(owner, nil, corev1.EventTypeWarning, ready.Reason, "Run", "no run can start: %s", ready.Message)
}
