package v1alpha1

// Operation is what a run does.
// +kubebuilder:validation:Enum=Prompt;Compact
type Operation string

const (
	// OperationPrompt gives the agent a prompt and lets it work until it has answered.
	OperationPrompt Operation = "Prompt"
	// OperationCompact replaces older history by a summary in later requests.
	OperationCompact Operation = "Compact"
)

// ImageMediaType is the format of an image.
// +kubebuilder:validation:Enum=image/png;image/jpeg;image/gif;image/webp
type ImageMediaType string

// The formats that every protocol takes.
const (
	ImagePNG  ImageMediaType = "image/png"
	ImageJPEG ImageMediaType = "image/jpeg"
	ImageGIF  ImageMediaType = "image/gif"
	ImageWebP ImageMediaType = "image/webp"
)

// AgentRunSpec is one execution. It is fixed once created, but for cancel and ttlSecondsAfterFinished.
// +kubebuilder:validation:XValidation:rule="self.operation != 'Prompt' || has(self.input)",message="a Prompt run needs input: set one of input.text, input.configMapKeyRef and input.parts",fieldPath=".input"
// +kubebuilder:validation:XValidation:rule="self.operation != 'Compact' || !has(self.input)",message="a Compact run takes no input: remove it, or set operation to Prompt",fieldPath=".input"
// +kubebuilder:validation:XValidation:rule="self.operation != 'Compact' || !has(self.skills)",message="a Compact run takes no skills: remove them, or set operation to Prompt",fieldPath=".skills"
// +kubebuilder:validation:XValidation:rule="self.operation != 'Compact' || self.agent == 'main'",message="a Compact run works on the agent main only: remove agent and parent",fieldPath=".agent"
// +kubebuilder:validation:XValidation:rule="self.agent == 'main' || has(self.parent)",message="a subagent runs only for another run: name that run in parent, or set agent to main",fieldPath=".parent"
// +kubebuilder:validation:XValidation:rule="self.agent != 'main' || !has(self.parent)",message="a run with a parent needs the name of a subagent in agent: set it, or remove parent",fieldPath=".agent"
// +kubebuilder:validation:XValidation:rule="has(self.input) == has(oldSelf.input) && (!has(self.input) || self.input == oldSelf.input)",message="input cannot be changed: create a new AgentRun",fieldPath=".input"
// +kubebuilder:validation:XValidation:rule="has(self.skills) == has(oldSelf.skills) && (!has(self.skills) || self.skills == oldSelf.skills)",message="skills cannot be changed: create a new AgentRun",fieldPath=".skills"
// +kubebuilder:validation:XValidation:rule="has(self.parent) == has(oldSelf.parent) && (!has(self.parent) || self.parent == oldSelf.parent)",message="parent cannot be changed: create a new AgentRun",fieldPath=".parent"
// +kubebuilder:validation:XValidation:rule="has(self.sampling) == has(oldSelf.sampling) && (!has(self.sampling) || self.sampling == oldSelf.sampling)",message="sampling cannot be changed: create a new AgentRun",fieldPath=".sampling"
// +kubebuilder:validation:XValidation:rule="has(self.limits) == has(oldSelf.limits) && (!has(self.limits) || self.limits == oldSelf.limits)",message="limits cannot be changed: create a new AgentRun",fieldPath=".limits"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.cancel) || !oldSelf.cancel || (has(self.cancel) && self.cancel)",message="cancel cannot be taken back: create a new AgentRun",fieldPath=".cancel"
type AgentRunSpec struct {
	// sessionRef names the session whose history the run continues.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="sessionRef cannot be changed: create a new AgentRun"
	SessionRef SessionRef `json:"sessionRef"`

	// operation is what the run does.
	// +optional
	// +kubebuilder:default=Prompt
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="operation cannot be changed: create a new AgentRun"
	Operation Operation `json:"operation,omitempty"`

	// input is the prompt. Required for Prompt, forbidden for Compact.
	// +optional
	Input *RunInput `json:"input,omitempty"`

	// skills lists ids of the session's skills that are loaded for this prompt.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Skills []string `json:"skills,omitempty"`

	// agent is main for the session's own agent, else the name of one of its subagents.
	// +optional
	// +kubebuilder:default=main
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be main or the name of a subagent: lower-case letters, digits and '-', with a letter or digit at both ends"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="agent cannot be changed: create a new AgentRun"
	Agent string `json:"agent,omitempty"`

	// parent is the tool call for which a subagent runs. Required for a subagent, forbidden for main.
	// +optional
	Parent *ParentCall `json:"parent,omitempty"`

	// limits end a run that takes too much.
	// +optional
	// +kubebuilder:default={}
	Limits RunLimits `json:"limits,omitzero"`

	// sampling comes on top of the model's own parameters.
	// +optional
	Sampling *Sampling `json:"sampling,omitempty"`

	// cancel set to true stops the run. It cannot be taken back.
	// +optional
	Cancel bool `json:"cancel,omitempty"`

	// ttlSecondsAfterFinished is how long the finished AgentRun is kept, in seconds since its completion. Absent means as
	// long as the session's history.keepRuns says. The trajectory keeps the run in any case.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// RunInput is a prompt in one of three forms.
// +kubebuilder:validation:XValidation:rule="[has(self.text), has(self.configMapKeyRef), has(self.parts)].filter(x, x).size() == 1",message="set exactly one of text, configMapKeyRef and parts"
type RunInput struct {
	// text is the prompt itself, at most 65536 bytes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=131072
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 65536",message="is larger than 65536 bytes: put the text in a ConfigMap and name it in configMapKeyRef"
	// +kubebuilder:validation:XValidation:rule="self.matches('[^[:space:]]')",message="holds only blanks: write the prompt"
	Text string `json:"text,omitempty"`

	// configMapKeyRef names the ConfigMap key that holds the prompt. It is read once, when the run starts.
	// +optional
	ConfigMapKeyRef *ConfigMapKeyRef `json:"configMapKeyRef,omitempty"`

	// parts are texts and images, in this order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Parts []InputPart `json:"parts,omitempty"`
}

// InputPart is a text or an image.
// +kubebuilder:validation:XValidation:rule="has(self.text) != has(self.image)",message="set exactly one of text and image"
type InputPart struct {
	// text is a part of the prompt, at most 65536 bytes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=131072
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 65536",message="is larger than 65536 bytes: split it into several parts"
	// +kubebuilder:validation:XValidation:rule="self.matches('[^[:space:]]')",message="holds only blanks: write the text or remove the part"
	Text string `json:"text,omitempty"`

	// image is a picture. A model that reads no images gets a short text in its place.
	// +optional
	Image *ImageSource `json:"image,omitempty"`
}

// ImageSource is an image in a ConfigMap's binaryData.
type ImageSource struct {
	// configMapKeyRef names the entry of a ConfigMap's binaryData that holds the image.
	// +required
	ConfigMapKeyRef ConfigMapKeyRef `json:"configMapKeyRef"`

	// mediaType is the image's format.
	// +required
	MediaType ImageMediaType `json:"mediaType"`
}

// ParentCall is the tool call for which a subagent runs.
type ParentCall struct {
	// runRef names the run that delegates.
	// +required
	RunRef RunRef `json:"runRef"`

	// toolCallID is the id of the delegating tool call in that run.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ToolCallID string `json:"toolCallID"`

	// turn is the turn of that run in which it called: models give the same id to calls of different turns.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Turn int32 `json:"turn,omitempty"`
}

// RunLimits end a run that takes too much.
type RunLimits struct {
	// maxTurns is how many turns the run may take. A turn is one model request with its tool calls.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxTurns int32 `json:"maxTurns,omitempty"`

	// maxTotalTokens bounds input and output tokens of the run together, as the provider reports them. Absent means no bound.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	MaxTotalTokens int64 `json:"maxTotalTokens,omitempty"`

	// activeDeadlineSeconds bounds the time from the run's start to its end, in seconds. While the run waits for a
	// person or for its subagents, it stands still.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	ActiveDeadlineSeconds int32 `json:"activeDeadlineSeconds,omitempty"`

	// queueDeadlineSeconds bounds the time from the run's creation to its start, in seconds.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	QueueDeadlineSeconds int32 `json:"queueDeadlineSeconds,omitempty"`

	// maxAttempts is how many workers may take the run up, should workers be lost with it.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	MaxAttempts int32 `json:"maxAttempts,omitempty"`
}
