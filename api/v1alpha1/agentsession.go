package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AgentSessionStatus is what the run events of a session add up to: counters and digests, no content but the title that
// spec.title asks for.
type AgentSessionStatus struct {
	// observedGeneration is the metadata.generation that the status belongs to.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// storageUID is the name of the history in the stores: spec.adoptUID, else the session's metadata.uid.
	// +optional
	// +kubebuilder:validation:MaxLength=36
	StorageUID string `json:"storageUID,omitempty"`

	// title is the session's title, only when spec.title is Auto.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Title string `json:"title,omitempty"`

	// activeRun is the run of the main agent that is under way.
	// +optional
	ActiveRun *ActiveRun `json:"activeRun,omitempty"`

	// queuedRuns is how many accepted runs wait.
	// +optional
	// +kubebuilder:validation:Minimum=0
	QueuedRuns int32 `json:"queuedRuns"`

	// runsTotal is how many runs the session has had, deleted ones included.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	RunsTotal int64 `json:"runsTotal,omitempty"`

	// head is the digest of the main agent's latest saved state.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	Head string `json:"head,omitempty"`

	// lastSequence is the sequence of the main agent's latest run event.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	LastSequence int64 `json:"lastSequence,omitempty"`

	// historyMessageCount is how many messages the main agent's history has.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	HistoryMessageCount int64 `json:"historyMessageCount,omitempty"`

	// checkpoint is the latest compaction.
	// +optional
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`

	// contextBudget is the estimate of the next request without a new prompt. Absent for an empty history and while the
	// model is not available.
	// +optional
	ContextBudget *ContextBudget `json:"contextBudget,omitempty"`

	// usage adds up what the provider reported for all runs.
	// +optional
	Usage *TokenUsage `json:"usage,omitempty"`

	// lastActivityTime is when the latest run event was recorded.
	// +optional
	LastActivityTime *metav1.Time `json:"lastActivityTime,omitempty"`

	// trajectoryURL is where the viewer shows the session.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	TrajectoryURL string `json:"trajectoryURL,omitempty"`

	// conditions are Ready, Active and HistoryDurable.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ActiveRun names the run that is under way.
type ActiveRun struct {
	// name is the name of the AgentRun.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// uid is its metadata.uid.
	// +required
	// +kubebuilder:validation:MaxLength=36
	UID string `json:"uid"`
}

// Checkpoint is a summary that stands for the older part of the history.
type Checkpoint struct {
	// id is the checkpoint's identity in the run events.
	// +required
	// +kubebuilder:validation:MaxLength=71
	ID string `json:"id"`

	// boundary is the index of the first history message that requests still hold.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Boundary int64 `json:"boundary"`
}

// AgentSession is a durable conversation and its configuration.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=agentsessions,singular=agentsession,shortName=asess,categories=agentloop
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.model.model`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.activeRun.name`
// +kubebuilder:printcolumn:name="Queued",type=integer,JSONPath=`.status.queuedRuns`
// +kubebuilder:printcolumn:name="Ctx%",type=integer,JSONPath=`.status.contextBudget.usedPercent`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Messages",type=integer,priority=1,JSONPath=`.status.historyMessageCount`
// +kubebuilder:printcolumn:name="In",type=integer,priority=1,JSONPath=`.status.usage.input`
// +kubebuilder:printcolumn:name="Out",type=integer,priority=1,JSONPath=`.status.usage.output`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Title",type=string,priority=1,JSONPath=`.status.title`
// +kubebuilder:printcolumn:name="Last",type=date,priority=1,JSONPath=`.status.lastActivityTime`
type AgentSession struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the session's configuration.
	// +required
	Spec AgentSessionSpec `json:"spec"`

	// status is written by the controllers.
	// +optional
	Status AgentSessionStatus `json:"status,omitzero"`
}

// HistoryUID is the name of the session's history in the stores: the adopted one, else the session's own UID.
func (s *AgentSession) HistoryUID() string {
	if s.Spec.AdoptUID != "" {
		return s.Spec.AdoptUID
	}
	return string(s.UID)
}

// AgentSessionList is a list of AgentSessions.
//
// +kubebuilder:object:root=true
type AgentSessionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []AgentSession `json:"items"`
}
