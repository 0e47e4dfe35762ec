package v1alpha1

// ConditionApplied is present on every ToolApproval once the controllers have seen it. True once the decision stands in
// the run events; False when it never will.
const ConditionApplied = "Applied"

// Reasons of a ToolApproval's Applied condition.
const (
	// ApprovalReasonApplied stands with True: the run goes on as was decided.
	ApprovalReasonApplied = "Applied"

	// ApprovalReasonPending stands with Unknown: a worker has yet to take the decision.
	ApprovalReasonPending = "Pending"

	// ApprovalReasonStale stands with False: the call does not wait for this decision. Another one was first, or its time
	// was over, or there is no such call.
	ApprovalReasonStale = "Stale"

	// ApprovalReasonDigestMismatch stands with False: the call waits, but has other arguments.
	ApprovalReasonDigestMismatch = "DigestMismatch"

	// ApprovalReasonRunFinished stands with False: the run was over first.
	ApprovalReasonRunFinished = "RunFinished"

	// ApprovalReasonRunNotFound stands with False: no AgentRun has that name and UID in the namespace.
	ApprovalReasonRunNotFound = "RunNotFound"
)
