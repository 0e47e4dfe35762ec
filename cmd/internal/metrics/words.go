package metrics

import (
	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// The values of labels. Whatever is not among them is "other".
var (
	operations = setOf(agent.OperationPrompt, agent.OperationCompact)
	// endings are the reasons for which runs end.
	endings = setOf(
		api.RunReasonCompleted, api.RunReasonContextBudgetExceeded, api.RunReasonOutputCapRejected, api.RunReasonInvalidProjection,
		api.RunReasonNothingToCompact, api.RunReasonCompactionFailed, api.RunReasonMaxTurnsExceeded, api.RunReasonTokenLimitExceeded,
		api.RunReasonDeadlineExceeded, api.RunReasonCancelled, api.RunReasonProviderAuthFailed, api.RunReasonProviderRejected,
		api.RunReasonProviderUnavailable, api.RunReasonRateLimited, api.RunReasonToolServerUnavailable, api.RunReasonPersistenceFailed,
		api.RunReasonWorkerLost, api.RunReasonSessionDeleted, api.RunReasonInternalError, api.RunReasonInvalidInput,
		api.RunReasonSessionNotFound, api.RunReasonSessionNotReady, api.RunReasonQueueDeadlineExceeded,
	)
	// places are where live runs are.
	places = []string{
		api.RunReasonQueued, api.RunReasonStarting, api.RunReasonAssemblingRequest, api.RunReasonModelCall, api.RunReasonToolCall,
		api.RunReasonCompacting, api.RunReasonAwaitingApproval, api.RunReasonRateLimited, api.RunReasonRetryBackoff,
		api.RunReasonRecovering, api.RunReasonPendingSave, api.RunReasonCancelling,
	}
	// readiness are the reasons of sessions' Ready condition.
	readiness = []string{
		api.SessionReasonReady, api.SessionReasonSuspended, api.SessionReasonProviderNotFound, api.SessionReasonProviderNotReady,
		api.SessionReasonModelNotDeclared, api.SessionReasonSecretNotFound, api.SessionReasonConfigMapNotFound,
		api.SessionReasonStorageUnavailable, api.SessionReasonStreamUnavailable, api.SessionReasonHistoryCorrupt,
		api.SessionReasonTokenLimitReached, api.SessionReasonTerminating,
	}
	purposes = setOf(string(runevent.PurposeMain), string(runevent.PurposeSummary), string(runevent.PurposeTitle))
	classes  = setOf(
		string(provider.ClassOverflow), string(provider.ClassRateLimited), string(provider.ClassQuota), string(provider.ClassOverloaded),
		string(provider.ClassAuth), string(provider.ClassInvalidRequest), string(provider.ClassTransient), string(provider.ClassTruncated),
		string(provider.ClassRefused), string(provider.ClassCancelled), string(provider.ClassRejected),
	)
	toolOutcomes = setOf("ok", "toolError", "timeout", "transport", "protocol")
	decisions    = setOf(
		string(runevent.DecisionRequested), string(runevent.DecisionApproved), string(runevent.DecisionDenied), string(runevent.DecisionExpired),
	)
	// waits are what runs are given back to wait for.
	waits      = setOf(api.RunReasonAwaitingApproval, api.RunReasonToolCall)
	rejections = setOf(agent.ReasonBudgetExceeded, agent.ReasonTokenLimit)
)

// Labels that have no word elsewhere.
const (
	outcomeOK        = "ok"
	outcomeError     = "error"
	outcomeCancelled = "cancelled"

	kindBuiltIn = "builtin"
	kindServer  = "mcp"
	kindCode    = "code"
	kindNested  = "nested"

	reasonStopping = "WorkerStopping"
)
