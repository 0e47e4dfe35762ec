package controllers

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/kube"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// approvalFacts is all that is known when it is told what became of a decision.
type approvalFacts struct {
	approval *api.ToolApproval
	// run is the one that is named, with that UID; nil when there is none.
	run *api.AgentRun
	// stream is the run's, and log what it says, or, with past, what it said when the run ended; unread says that this is
	// still to be read.
	stream       runevent.Stream
	log          Facts
	past, unread bool
	// seen is when this process saw the decision first: what was asked before it stands in a log that was read later.
	seen time.Time
}

// approvalDecision is what is to be told of a decision, and done with it.
type approvalDecision struct {
	check
	// own sets the owner reference; again says that the log is to be read once more.
	own, again bool
}

// decideApproval is pure. What was told of a decision stands: a later call with the same id is another question, and that the
// run has ended since changes nothing about why a decision did not count. Only that it was applied after all is told in its
// place.
func decideApproval(f approvalFacts) approvalDecision {
	told := meta.FindStatusCondition(f.approval.Status.Conditions, api.ConditionApplied)
	if told != nil && settled(told, f.run) {
		return approvalDecision{check: check{told.Status, verdict{told.Reason, told.Message}}}
	}
	if f.run == nil {
		return refusedApproval(api.ApprovalReasonRunNotFound, "there is no such run, or another one has its name now")
	}
	d := f.outcome()
	if d.status != metav1.ConditionTrue && told != nil && told.Status == metav1.ConditionFalse && told.Reason != api.ApprovalReasonRunNotFound {
		d = refusedApproval(told.Reason, told.Message)
	}
	d.own = !slices.ContainsFunc(f.approval.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == f.run.UID })
	return d
}

// settled says whether what was told of a decision stands for good.
func settled(told *metav1.Condition, run *api.AgentRun) bool {
	return told.Status == metav1.ConditionTrue ||
		told.Status == metav1.ConditionFalse && told.Reason != api.ApprovalReasonRunNotFound && run != nil && run.IsFinished()
}

func refusedApproval(reason, message string) approvalDecision {
	return approvalDecision{check: check{metav1.ConditionFalse, verdict{reason, message}}}
}

// pendingApproval is a decision of which nothing can be told yet.
func pendingApproval(message string) approvalDecision {
	return approvalDecision{check: check{metav1.ConditionUnknown, verdict{api.ApprovalReasonPending, message}}, again: true}
}

// outcome is what the run has made of the decision.
func (f approvalFacts) outcome() approvalDecision {
	run := f.progress()
	if run != nil && slices.Contains(run.Decided, string(f.approval.UID)) {
		return approvalDecision{check: check{metav1.ConditionTrue, verdict{api.ApprovalReasonApplied, ""}}}
	}
	if f.unread {
		return pendingApproval("the run events are being read")
	}
	if f.run.IsFinished() || run != nil && run.Terminal != nil {
		return refusedApproval(api.ApprovalReasonRunFinished, "the run was over before a worker took the decision")
	}
	decision, err := kube.DecisionOf(f.approval)
	if err != nil {
		return refusedApproval(api.ApprovalReasonDigestMismatch, "argumentsDigest is no digest")
	}
	asked := f.asked(decision.CallID)
	switch {
	case asked == nil && !f.log.ReadAt.After(f.seen):
		return pendingApproval("it is being looked whether the call waits")
	case asked == nil:
		return refusedApproval(api.ApprovalReasonStale, "the call does not wait: another decision was first, its time was over, or there is no such call")
	case asked.ArgumentsDigest != decision.ArgumentsDigest:
		return refusedApproval(api.ApprovalReasonDigestMismatch, "the call waits with other arguments: decide about the argumentsDigest in the run's status.pendingApprovals")
	case !run.Answers(decision.CallID, string(f.approval.UID), decision.ArgumentsDigest, decision.At):
		return refusedApproval(api.ApprovalReasonStale, "the call's time was over, or it was asked about only after this decision")
	}
	return pendingApproval("the call waits; a worker takes the decision")
}

// progress is what the log says of the run; nil when it says nothing.
func (f approvalFacts) progress() *session.RunProgress {
	if f.log.State.Run == nil || f.log.State.Run.UID != string(f.run.UID) {
		return nil
	}
	return f.log.State.Run
}

// asked is the question about a call that waits; nil when it does not.
func (f approvalFacts) asked(callID string) *session.Approval {
	run := f.progress()
	if run == nil || !run.Tools[callID].Waits() {
		return nil
	}
	return run.Tools[callID].Approval
}
