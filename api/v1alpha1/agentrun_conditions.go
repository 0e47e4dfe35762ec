package v1alpha1

const (
	// ConditionAccepted is present on every AgentRun once the controllers have decided whether it may run. True is good.
	// When it is False the run is over, and Succeeded is False with the same reason.
	ConditionAccepted = "Accepted"

	// ConditionSucceeded is present on every AgentRun once the controllers have seen it. Unknown while the run is alive,
	// with a reason that says where it is; True or False, for good, once it is over.
	ConditionSucceeded = "Succeeded"

	// ConditionFinished is present on every AgentRun once the controllers have seen it. True once the run is over, whatever
	// the outcome, so that a wait for it never hangs. Its reason is then that of Succeeded.
	ConditionFinished = "Finished"
)

// Reasons of an AgentRun's Accepted condition. The last four are reasons of Succeeded too.
const (
	// RunReasonAccepted stands with True: the run may be queued.
	RunReasonAccepted = "Accepted"

	// RunReasonSessionNotFound stands with False: no AgentSession of that name exists in the namespace.
	RunReasonSessionNotFound = "SessionNotFound"

	// RunReasonSessionNotReady stands with False: the session was not Ready until the queue deadline.
	RunReasonSessionNotReady = "SessionNotReady"

	// RunReasonInvalidInput stands with False: what the run names (a ConfigMap key, a skill, a subagent, a sampling field)
	// does not exist or cannot be used.
	RunReasonInvalidInput = "InvalidInput"

	// RunReasonQueueDeadlineExceeded stands with False: the run waited longer than limits.queueDeadlineSeconds.
	RunReasonQueueDeadlineExceeded = "QueueDeadlineExceeded"
)

// Reasons of an AgentRun's Succeeded condition while it is Unknown: where the run is.
const (
	// RunReasonQueued means that the run waits for its turn or for a worker.
	RunReasonQueued = "Queued"

	// RunReasonStarting means that a worker has the run and loads its history, tools and skills.
	RunReasonStarting = "Starting"

	// RunReasonAssemblingRequest means that the next model request is assembled and measured.
	RunReasonAssemblingRequest = "AssemblingRequest"

	// RunReasonModelCall means that a model request is under way.
	RunReasonModelCall = "ModelCall"

	// RunReasonToolCall means that tools are being called.
	RunReasonToolCall = "ToolCall"

	// RunReasonCompacting means that older history is being summarised.
	RunReasonCompacting = "Compacting"

	// RunReasonAwaitingApproval means that a tool call waits for a person.
	RunReasonAwaitingApproval = "AwaitingApproval"

	// RunReasonRateLimited means that the provider's or the platform's rate limit is being waited for. With False it means
	// that the attempts ran out.
	RunReasonRateLimited = "RateLimited"

	// RunReasonRetryBackoff means that a failed model request waits for its next attempt.
	RunReasonRetryBackoff = "RetryBackoff"

	// RunReasonRecovering means that another worker takes the run over.
	RunReasonRecovering = "Recovering"

	// RunReasonPendingSave means that the run waits until what it did can be stored.
	RunReasonPendingSave = "PendingSave"

	// RunReasonCancelling means that the run was asked to stop and has not stopped yet.
	RunReasonCancelling = "Cancelling"
)

// RunReasonCompleted is the reason of an AgentRun's Succeeded condition when it is True: the agent answered, or the
// history was compacted.
const RunReasonCompleted = "Completed"

// Reasons of an AgentRun's Succeeded condition when it is False: how the run failed. RateLimited and the reasons of a
// refused run belong here too.
const (
	// RunReasonContextBudgetExceeded means that a request did not fit the model's window. The prompt is kept, nothing was sent.
	RunReasonContextBudgetExceeded = "ContextBudgetExceeded"

	// RunReasonOutputCapRejected means that the final request declared an output cap that its budget does not cover.
	RunReasonOutputCapRejected = "OutputCapRejected"

	// RunReasonInvalidProjection means that stored history could not be turned into a request.
	RunReasonInvalidProjection = "InvalidProjection"

	// RunReasonNothingToCompact means that no complete turn is old enough to be summarised.
	RunReasonNothingToCompact = "NothingToCompact"

	// RunReasonCompactionFailed means that no usable summary came about: empty, cut off, with tool calls, or not smaller.
	RunReasonCompactionFailed = "CompactionFailed"

	// RunReasonMaxTurnsExceeded means that limits.maxTurns was reached before the agent was done.
	RunReasonMaxTurnsExceeded = "MaxTurnsExceeded"

	// RunReasonTokenLimitExceeded means that maxTotalTokens of the run or of its session was reached.
	RunReasonTokenLimitExceeded = "TokenLimitExceeded"

	// RunReasonDeadlineExceeded means that limits.activeDeadlineSeconds ran out.
	RunReasonDeadlineExceeded = "DeadlineExceeded"

	// RunReasonCancelled means that spec.cancel was set, or that the parent run was cancelled.
	RunReasonCancelled = "Cancelled"

	// RunReasonProviderAuthFailed means that the provider refused the credential.
	RunReasonProviderAuthFailed = "ProviderAuthFailed"

	// RunReasonProviderRejected means that the provider refused the request itself, or that its quota is used up.
	RunReasonProviderRejected = "ProviderRejected"

	// RunReasonProviderUnavailable means that the provider did not answer in any attempt.
	RunReasonProviderUnavailable = "ProviderUnavailable"

	// RunReasonToolServerUnavailable means that a tool server with onUnavailable Fail did not answer.
	RunReasonToolServerUnavailable = "ToolServerUnavailable"

	// RunReasonPersistenceFailed means that what the run did could not be stored before its deadline.
	RunReasonPersistenceFailed = "PersistenceFailed"

	// RunReasonWorkerLost means that limits.maxAttempts workers were lost with the run.
	RunReasonWorkerLost = "WorkerLost"

	// RunReasonSessionDeleted means that the session was deleted while the run was alive.
	RunReasonSessionDeleted = "SessionDeleted"

	// RunReasonInternalError means a fault of this software.
	RunReasonInternalError = "InternalError"
)

// RunReasonInProgress is the reason of an AgentRun's Finished condition while it is False.
const RunReasonInProgress = "InProgress"
