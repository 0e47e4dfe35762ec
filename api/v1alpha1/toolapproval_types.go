package v1alpha1

// Decision is what a person decides about a tool call.
// +kubebuilder:validation:Enum=Approve;Deny
type Decision string

const (
	// DecisionApprove lets the call be made.
	DecisionApprove Decision = "Approve"
	// DecisionDeny refuses it; the model is told so, with the reason.
	DecisionDeny Decision = "Deny"
)

// ToolApprovalSpec is one decision about one tool call with certain arguments. It is fixed once created.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a decision cannot be changed: the first one about a call counts"
type ToolApprovalSpec struct {
	// runRef names the run whose call waits.
	// +required
	RunRef ApprovalRunRef `json:"runRef"`

	// toolCallID is the id of the call, as the run's status.pendingApprovals shows it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ToolCallID string `json:"toolCallID"`

	// argumentsDigest is the digest of the call's arguments, as the run's status.pendingApprovals shows it. A decision about
	// other arguments is none.
	// +required
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[0-9a-f]{64}$')",message="must be the argumentsDigest of the run's status.pendingApprovals: sha256: and 64 hexadecimal digits in lower case"
	ArgumentsDigest string `json:"argumentsDigest"`

	// decision is what was decided.
	// +required
	Decision Decision `json:"decision"`

	// reason is why, at most 1024 bytes. When the call is denied, the model reads it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 1024",message="is longer than 1024 bytes: shorten it"
	Reason string `json:"reason,omitempty"`

	// approver is the name under which the API server knows who decides (kubectl auth whoami).
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Approver string `json:"approver"`
}

// ApprovalRunRef names one AgentRun in the same namespace, and no later one of its name.
type ApprovalRunRef struct {
	// name is the name of the AgentRun.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of an AgentRun in this namespace: lower-case letters, digits, '-' and '.'"
	Name string `json:"name"`

	// uid is the metadata.uid of the AgentRun.
	// +required
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be the metadata.uid of the run, such as 7b2f3a52-4c1d-4f0e-9a57-0f6f2c1b8a11"
	UID string `json:"uid"`
}
