package v1alpha1

const (
	// ConditionActive is present on every AgentSession once the controllers have seen it. It is neither good nor bad: True
	// while a run of the session's main agent is under way.
	ConditionActive = "Active"

	// ConditionHistoryDurable is present on an AgentSession from its first saved step. True is good: everything that was
	// accepted is stored. False means that a save is being tried again and new steps wait for it.
	ConditionHistoryDurable = "HistoryDurable"
)

// Reasons of an AgentSession's Ready condition.
const (
	// SessionReasonReady stands with True: runs can start.
	SessionReasonReady = "Ready"

	// SessionReasonSuspended stands with False: spec.suspend is true. Queued runs wait, a live one goes on.
	SessionReasonSuspended = "Suspended"

	// SessionReasonProviderNotFound stands with False: no ModelProvider of that name exists in the namespace.
	SessionReasonProviderNotFound = "ProviderNotFound"

	// SessionReasonProviderNotReady stands with False: the ModelProvider's own Ready condition is not True.
	SessionReasonProviderNotReady = "ProviderNotReady"

	// SessionReasonModelNotDeclared stands with False: the ModelProvider lists no model of that id.
	SessionReasonModelNotDeclared = "ModelNotDeclared"

	// SessionReasonSecretNotFound stands with False: a Secret of a tool server is missing, lacks the key or lacks the
	// credential label.
	SessionReasonSecretNotFound = "SecretNotFound"

	// SessionReasonConfigMapNotFound stands with False: a ConfigMap of instructions, context, skills or caBundle is missing
	// or lacks the key.
	SessionReasonConfigMapNotFound = "ConfigMapNotFound"

	// SessionReasonStorageUnavailable stands with False: the object store does not answer, or stores nothing.
	SessionReasonStorageUnavailable = "StorageUnavailable"

	// SessionReasonStreamUnavailable stands with False: the run-event stream does not answer, or stores nothing.
	SessionReasonStreamUnavailable = "StreamUnavailable"

	// SessionReasonHistoryCorrupt stands with False: the run events are shorter than what was once saved, or broken. No
	// new history is started over them.
	SessionReasonHistoryCorrupt = "HistoryCorrupt"

	// SessionReasonTokenLimitReached stands with False: spec.maxTotalTokens is used up. Raise it to go on.
	SessionReasonTokenLimitReached = "TokenLimitReached"

	// SessionReasonTerminating stands with False: the session is being deleted.
	SessionReasonTerminating = "Terminating"
)

// Reasons of an AgentSession's Active condition.
const (
	// SessionReasonRunning stands with True: status.activeRun names the run.
	SessionReasonRunning = "Running"

	// SessionReasonIdle stands with False: no run of the main agent is under way.
	SessionReasonIdle = "Idle"
)

// Reasons of an AgentSession's HistoryDurable condition.
const (
	// SessionReasonSaved stands with True: nothing waits to be saved.
	SessionReasonSaved = "Saved"

	// SessionReasonStreamFilling stands with True: nothing waits to be saved, but the run-event stream is nearly full.
	SessionReasonStreamFilling = "StreamFilling"

	// SessionReasonPendingSave stands with False: a save failed and is being tried again.
	SessionReasonPendingSave = "PendingSave"
)
