package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AgentRunStatus is what the run events of a run add up to: counters and digests, no content but the preview that the
// session's resultPreview asks for.
type AgentRunStatus struct {
	// observedGeneration is the metadata.generation that the status belongs to.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// ordinal is the run's place in its session: of two waiting runs of an agent the lower one goes first. It is given once.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Ordinal int64 `json:"ordinal,omitempty"`

	// startTime is when a worker first took the run up.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the run was over.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// turn is the number of the turn that is under way, or was the last one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Turn int32 `json:"turn,omitempty"`

	// modelRequests is how many requests were sent to a model, repeated ones included.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ModelRequests int32 `json:"modelRequests,omitempty"`

	// requestsWithoutUsage is how many of modelRequests ended without a report of their usage.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RequestsWithoutUsage int32 `json:"requestsWithoutUsage,omitempty"`

	// toolCalls is how many tool calls the model asked for.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ToolCalls int32 `json:"toolCalls,omitempty"`

	// worker is who has the run, or had it last.
	// +optional
	Worker *RunWorker `json:"worker,omitempty"`

	// lastSequence is the sequence of the run's latest event on its agent's stream.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	LastSequence int64 `json:"lastSequence,omitempty"`

	// head is the digest of the agent's state after the run's latest committed step.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	Head string `json:"head,omitempty"`

	// context is the digest of the model input that was dispatched last.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	Context string `json:"context,omitempty"`

	// result names what the run ended with.
	// +optional
	Result *RunResult `json:"result,omitempty"`

	// resultPreview is the start of the answer, only when the session's resultPreview is On.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ResultPreview string `json:"resultPreview,omitempty"`

	// contextBudget is the estimate of the request that was dispatched or refused last.
	// +optional
	ContextBudget *ContextBudget `json:"contextBudget,omitempty"`

	// inputSources counts where the messages of the request that was dispatched last came from.
	// +optional
	InputSources *InputSources `json:"inputSources,omitempty"`

	// usage adds up what the provider reported. Absent means that nothing was reported.
	// +optional
	Usage *TokenUsage `json:"usage,omitempty"`

	// pendingApprovals are tool calls that wait for a person, the oldest ones.
	// +optional
	// +listType=map
	// +listMapKey=toolCallID
	// +kubebuilder:validation:MaxItems=4
	PendingApprovals []PendingApproval `json:"pendingApprovals,omitempty"`

	// pendingApprovalsTotal is how many tool calls wait for a person, those that pendingApprovals has no room for included.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PendingApprovalsTotal int32 `json:"pendingApprovalsTotal,omitempty"`

	// failure is what went wrong, when Succeeded is False.
	// +optional
	Failure *RunFailure `json:"failure,omitempty"`

	// traceID is the OpenTelemetry trace of the run: 32 hexadecimal digits.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	TraceID string `json:"traceID,omitempty"`

	// conditions are Accepted, Succeeded and Finished.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RunWorker is the worker that has a run.
type RunWorker struct {
	// identity is the worker's name, usually that of its Pod.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Identity string `json:"identity"`

	// attempt is 1 for the first worker that took the run up, 2 for the one that took it over, and so on.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt"`
}

// RunResult names what a run ended with.
type RunResult struct {
	// message is the digest of the answer. Absent for Compact.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	Message string `json:"message,omitempty"`

	// state is the digest of the agent's state that the run left behind.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	State string `json:"state,omitempty"`
}

// InputSources counts the messages of one model request by where they came from. The whole map is in the request's
// assembly record.
type InputSources struct {
	// historyMessageCount is how many messages the complete history had.
	// +required
	// +kubebuilder:validation:Minimum=0
	HistoryMessageCount int32 `json:"historyMessageCount"`

	// history is how many messages of the request are messages of the history.
	// +required
	// +kubebuilder:validation:Minimum=0
	History int32 `json:"history"`

	// compaction is how many are summaries of a checkpoint.
	// +required
	// +kubebuilder:validation:Minimum=0
	Compaction int32 `json:"compaction"`

	// runtimeContext is how many are separate messages with host runtime context.
	// +required
	// +kubebuilder:validation:Minimum=0
	RuntimeContext int32 `json:"runtimeContext"`

	// toolRepair is how many stand in for a tool result that the history does not have.
	// +required
	// +kubebuilder:validation:Minimum=0
	ToolRepair int32 `json:"toolRepair"`

	// skillExpansions is how many user messages were sent with skills in front.
	// +required
	// +kubebuilder:validation:Minimum=0
	SkillExpansions int32 `json:"skillExpansions"`
}

// PendingApproval is a tool call that waits for a person.
type PendingApproval struct {
	// toolCallID is the id of the call.
	// +required
	// +kubebuilder:validation:MaxLength=64
	ToolCallID string `json:"toolCallID"`

	// tool is the tool's name as the model calls it.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Tool string `json:"tool"`

	// argumentsDigest is the digest of the call's arguments, which a decision must repeat.
	// +required
	// +kubebuilder:validation:MaxLength=71
	ArgumentsDigest string `json:"argumentsDigest"`

	// expiresAt is when the call counts as denied.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
}

// RunFailure says what went wrong without quoting anybody.
type RunFailure struct {
	// class is the kind of failure: of a provider (overflow, rateLimited, quota, overloaded, auth, invalidRequest, transient,
	// truncated, refused, rejected, cancelled) or of this software.
	// +required
	// +kubebuilder:validation:MaxLength=32
	Class string `json:"class"`

	// httpStatus is the status code that the provider answered with, if it did.
	// +optional
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=599
	HTTPStatus int32 `json:"httpStatus,omitempty"`

	// retryable says whether the same prompt may succeed in a new run without any change.
	// +required
	Retryable bool `json:"retryable"`

	// detail is the digest of the object with the particulars. It is shown in the trajectory.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	Detail string `json:"detail,omitempty"`
}

// AgentRun is one execution of a session's agent: a prompt and its answer, or a compaction.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=agentruns,singular=agentrun,shortName=arun,categories=agentloop
// +kubebuilder:selectablefield:JSONPath=`.spec.sessionRef.name`
// +kubebuilder:selectablefield:JSONPath=`.spec.agent`
// +kubebuilder:printcolumn:name="Session",type=string,JSONPath=`.spec.sessionRef.name`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].reason`
// +kubebuilder:printcolumn:name="Turn",type=integer,JSONPath=`.status.turn`
// +kubebuilder:printcolumn:name="Ctx%",type=integer,JSONPath=`.status.contextBudget.usedPercent`
// +kubebuilder:printcolumn:name="In",type=integer,JSONPath=`.status.usage.input`
// +kubebuilder:printcolumn:name="Out",type=integer,JSONPath=`.status.usage.output`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Tools",type=integer,priority=1,JSONPath=`.status.toolCalls`
// +kubebuilder:printcolumn:name="Worker",type=string,priority=1,JSONPath=`.status.worker.identity`
// +kubebuilder:printcolumn:name="Attempt",type=integer,priority=1,JSONPath=`.status.worker.attempt`
// +kubebuilder:printcolumn:name="Seq",type=integer,priority=1,JSONPath=`.status.lastSequence`
// +kubebuilder:printcolumn:name="Started",type=date,priority=1,JSONPath=`.status.startTime`
// +kubebuilder:printcolumn:name="Finished",type=date,priority=1,JSONPath=`.status.completionTime`
// +kubebuilder:printcolumn:name="Preview",type=string,priority=1,JSONPath=`.status.resultPreview`
type AgentRun struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the execution.
	// +required
	Spec AgentRunSpec `json:"spec"`

	// status is written by the controllers.
	// +optional
	Status AgentRunStatus `json:"status,omitzero"`
}

// IsFinished reports whether the run is over, whatever the outcome.
func (r *AgentRun) IsFinished() bool {
	return r.Status.IsFinished()
}

// IsFinished reports whether the run is over, whatever the outcome.
func (s *AgentRunStatus) IsFinished() bool {
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == ConditionFinished {
			return c.Status == metav1.ConditionTrue
		}
	}
	return false
}

// AgentRunList is a list of AgentRuns.
//
// +kubebuilder:object:root=true
type AgentRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []AgentRun `json:"items"`
}
