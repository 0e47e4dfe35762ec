// Package show puts sessions, runs, budgets and trajectories into words and tables for people.
//
// Guarantees: every reason that a condition can have is explained; what is not known is said to be unknown and never shown as
// zero; output is the same for the same input, whatever the clock, but for ages.
package show

import (
	api "github.com/agentloop/agentloop/api/v1alpha1"
)

// advice is what a reason means, and what to do about it; empty when there is nothing to do.
type advice struct{ means, do string }

// runAdvice explains the reasons of a run's conditions.
var runAdvice = map[string]advice{
	api.RunReasonAccepted:              {"it may run", ""},
	api.RunReasonSessionNotFound:       {"its session does not exist in this namespace", "create the session, or name another one in a new run"},
	api.RunReasonSessionNotReady:       {"its session was not ready in time", "see what the session lacks (kubectl agentloop describe SESSION), then start a new run"},
	api.RunReasonInvalidInput:          {"something that it names does not exist or cannot be used", "correct it and start a new run"},
	api.RunReasonQueueDeadlineExceeded: {"it waited too long for its turn", "start a new run, with a longer limits.queueDeadlineSeconds if the session is busy; look at the workers if nothing starts"},

	api.RunReasonQueued:            {"it waits for its turn or for a worker", ""},
	api.RunReasonStarting:          {"a worker loads history, tools and skills", ""},
	api.RunReasonAssemblingRequest: {"the next model request is put together and measured", ""},
	api.RunReasonModelCall:         {"the model is answering", ""},
	api.RunReasonToolCall:          {"tools are at work", ""},
	api.RunReasonCompacting:        {"older history is being summarised", ""},
	api.RunReasonAwaitingApproval:  {"a tool call waits for a person", "decide with kubectl agentloop approve RUN, or deny"},
	api.RunReasonRateLimited:       {"a rate limit of the provider, or the one that the platform set, is waited for", "wait; if it ended the run, start it again later or raise the provider's limits"},
	api.RunReasonRetryBackoff:      {"a failed model request waits for its next attempt", ""},
	api.RunReasonRecovering:        {"another worker takes it over", ""},
	api.RunReasonPendingSave:       {"it waits until what it did can be stored", "see whether the object store and NATS answer; nothing is lost meanwhile"},
	api.RunReasonCancelling:        {"it was asked to stop", ""},
	api.RunReasonInProgress:        {"it is not over", ""},

	api.RunReasonCompleted: {"the agent has answered, or the history was compacted", ""},

	api.RunReasonContextBudgetExceeded: {"a request did not fit the model's window; nothing was sent, and the prompt is kept", "compact the session (kubectl agentloop compact SESSION), shorten the prompt, or switch to a model with a larger window"},
	api.RunReasonOutputCapRejected:     {"the request asked for more output than its budget covers", "lower maxOutputTokens, or remove sampling parameters that raise it"},
	api.RunReasonInvalidProjection:     {"stored history could not be turned into a request", "report it with the session's export"},
	api.RunReasonNothingToCompact:      {"no complete turn is old enough to be summarised", ""},
	api.RunReasonCompactionFailed:      {"no usable summary came about", "start it again, or set another model in spec.compaction.model"},
	api.RunReasonMaxTurnsExceeded:      {"it took as many turns as it may", "go on with a new run, or give it a higher limits.maxTurns"},
	api.RunReasonTokenLimitExceeded:    {"it used as many tokens as the run or the session may", "raise maxTotalTokens of the run or of the session"},
	api.RunReasonDeadlineExceeded:      {"it was active for as long as it may", "go on with a new run, or give it a longer limits.activeDeadlineSeconds"},
	api.RunReasonCancelled:             {"it was cancelled", ""},
	api.RunReasonProviderAuthFailed:    {"the provider refused the credential", "correct the API key in the Secret that the ModelProvider names"},
	api.RunReasonProviderRejected:      {"the provider refused the request, or its quota is used up", "see the failure in the trajectory (kubectl agentloop view SESSION)"},
	api.RunReasonProviderUnavailable:   {"the provider did not answer in any attempt", "start it again when the provider is back"},
	api.RunReasonToolServerUnavailable: {"a tool server did not answer", "see whether the server runs, or set onUnavailable: Continue for it"},
	api.RunReasonPersistenceFailed:     {"what it did could not be stored before its deadline", "see whether the object store and NATS answer, then start it again"},
	api.RunReasonWorkerLost:            {"too many workers were lost with it", "look at the workers' memory and logs, then start it again"},
	api.RunReasonSessionDeleted:        {"its session was deleted", ""},
	api.RunReasonInternalError:         {"a fault of agentloop", "report it with the session's export and the worker's log"},
}

// sessionAdvice explains the reasons of a session's conditions.
var sessionAdvice = map[string]advice{
	api.SessionReasonReady:              {"runs can start", ""},
	api.SessionReasonSuspended:          {"it is suspended: queued runs wait", "set spec.suspend to false"},
	api.SessionReasonProviderNotFound:   {"the ModelProvider that it names does not exist in this namespace", "create the provider, or correct spec.model.providerRef"},
	api.SessionReasonProviderNotReady:   {"its ModelProvider is not ready", "see kubectl describe modelprovider"},
	api.SessionReasonModelNotDeclared:   {"its ModelProvider does not list the model", "add the model to the provider, or correct spec.model.model"},
	api.SessionReasonSecretNotFound:     {"a Secret of a tool server is missing, lacks the key or the label " + api.LabelCredential, "create it, or label it with " + api.LabelCredential + "=true"},
	api.SessionReasonConfigMapNotFound:  {"a ConfigMap that it names is missing or lacks the key", "create it"},
	api.SessionReasonStorageUnavailable: {"the object store does not answer, or stores nothing", "tell those who run agentloop; runs wait meanwhile"},
	api.SessionReasonStreamUnavailable:  {"NATS does not answer, or stores nothing", "tell those who run agentloop; runs wait meanwhile"},
	api.SessionReasonHistoryCorrupt:     {"the history is shorter than it was, or broken; nothing is written over it", "restore the event stream from its backup, or continue in a new session"},
	api.SessionReasonTokenLimitReached:  {"spec.maxTotalTokens is used up", "raise it to go on"},
	api.SessionReasonTerminating:        {"it is being deleted", ""},
	api.SessionReasonRunning:            {"a run is under way", ""},
	api.SessionReasonIdle:               {"no run is under way", ""},
	api.SessionReasonSaved:              {"everything that was accepted is stored", ""},
	api.SessionReasonStreamFilling:      {"everything is stored, but the event stream is nearly full", "tell those who run agentloop"},
	api.SessionReasonPendingSave:        {"a save failed and is tried again", "tell those who run agentloop; nothing is lost meanwhile"},
}
