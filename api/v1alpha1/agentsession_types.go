package v1alpha1

// ReasoningEffort is how much a model should reason before it answers.
// +kubebuilder:validation:Enum=off;minimal;low;medium;high;xhigh
type ReasoningEffort string

// The efforts, in rising order. What each means for a model is decided by the model's thinking mode.
const (
	ReasoningOff     ReasoningEffort = "off"
	ReasoningMinimal ReasoningEffort = "minimal"
	ReasoningLow     ReasoningEffort = "low"
	ReasoningMedium  ReasoningEffort = "medium"
	ReasoningHigh    ReasoningEffort = "high"
	ReasoningXHigh   ReasoningEffort = "xhigh"
)

// TitleMode says whether a session gives itself a title.
// +kubebuilder:validation:Enum=Off;Auto
type TitleMode string

const (
	// TitleOff makes no title.
	TitleOff TitleMode = "Off"
	// TitleAuto asks the model for a title beside the first turn and shows it in status.
	TitleAuto TitleMode = "Auto"
)

// PreviewMode says whether the start of an answer may stand in a run's status.
// +kubebuilder:validation:Enum=Off;On
type PreviewMode string

const (
	// PreviewOff keeps answers out of the API server.
	PreviewOff PreviewMode = "Off"
	// PreviewOn shows the start of the answer to whoever may read runs.
	PreviewOn PreviewMode = "On"
)

// DeletePolicy says what becomes of a session's history when the session is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletePolicy string

const (
	// DeletePolicyRetain keeps run events and objects.
	DeletePolicyRetain DeletePolicy = "Retain"
	// DeletePolicyDelete purges run events and objects before the session goes.
	DeletePolicyDelete DeletePolicy = "Delete"
)

// ToolDeclaration says how the model learns of a server's tools.
// +kubebuilder:validation:Enum=Direct;Codemode
type ToolDeclaration string

const (
	// DeclarationDirect declares every allowed tool with its schema.
	DeclarationDirect ToolDeclaration = "Direct"
	// DeclarationCodemode keeps the schemas out of the declarations: the model writes code that calls the tools.
	DeclarationCodemode ToolDeclaration = "Codemode"
)

// UnavailablePolicy says what a run does when a tool server does not answer at its start.
// +kubebuilder:validation:Enum=Fail;Continue
type UnavailablePolicy string

const (
	// UnavailableFail ends the run with reason ToolServerUnavailable.
	UnavailableFail UnavailablePolicy = "Fail"
	// UnavailableContinue goes on without the server's tools.
	UnavailableContinue UnavailablePolicy = "Continue"
)

// SkillLoad says who may load a skill.
// +kubebuilder:validation:Enum=Manual;Automatic
type SkillLoad string

const (
	// SkillManual loads the skill only when a run lists it in spec.skills.
	SkillManual SkillLoad = "Manual"
	// SkillAutomatic lists the skill to the model, which loads it when it fits.
	SkillAutomatic SkillLoad = "Automatic"
)

// ToolsAll in a list of tool names stands for every tool of the server.
const ToolsAll = "*"

// AgentSessionSpec is the configuration of a durable conversation. Runs that started keep what they started with.
// +kubebuilder:validation:XValidation:rule="has(self.adoptUID) == has(oldSelf.adoptUID) && (!has(self.adoptUID) || self.adoptUID == oldSelf.adoptUID)",message="adoptUID cannot be changed: create a new AgentSession that adopts the history",fieldPath=".adoptUID"
// +kubebuilder:validation:XValidation:rule="!has(self.subagents) || self.subagents.all(a, !has(a.toolServers) || a.toolServers.all(n, has(self.toolServers) && self.toolServers.exists(t, t.name == n)))",message="a subagent names a tool server that the session does not have: add it to spec.toolServers or remove it",fieldPath=".subagents"
// +kubebuilder:validation:XValidation:rule="!has(self.subagents) || self.subagents.all(a, !has(a.skills) || a.skills.all(n, has(self.skills) && self.skills.exists(s, s.id == n)))",message="a subagent names a skill that the session does not have: add it to spec.skills or remove it",fieldPath=".subagents"
type AgentSessionSpec struct {
	// model is what the session's own agent uses. A change takes effect with the next run.
	// +required
	Model SessionModel `json:"model"`

	// instructions are the named sections of the system prompt, in this order.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Instructions []PromptSection `json:"instructions,omitempty"`

	// context are named texts about the host that accompany a prompt when they changed since the prompt before.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Context []PromptSection `json:"context,omitempty"`

	// toolServers are the MCP servers whose tools the agent may use.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ToolServers []ToolServer `json:"toolServers,omitempty"`

	// skills are instructions that are loaded on demand.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=64
	Skills []Skill `json:"skills,omitempty"`

	// subagents are agents that the session's own agent may delegate to.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Subagents []Subagent `json:"subagents,omitempty"`

	// compaction says when older history is replaced by a summary in requests.
	// +optional
	// +kubebuilder:default={}
	Compaction Compaction `json:"compaction,omitzero"`

	// overflowRecovery compacts once and sends again when the provider itself says that a request is too long.
	// +optional
	// +kubebuilder:default=Enabled
	OverflowRecovery Toggle `json:"overflowRecovery,omitempty"`

	// title says whether the session gives itself a title. Quote "Off" in YAML.
	// +optional
	// +kubebuilder:default=Off
	Title TitleMode `json:"title,omitempty"`

	// history says how long runs are kept and what becomes of the history in the end.
	// +optional
	// +kubebuilder:default={}
	History HistoryPolicy `json:"history,omitzero"`

	// suspend lets queued runs wait. A live run goes on.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// maxTotalTokens bounds input and output tokens of all runs together. Absent means no bound.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	MaxTotalTokens int64 `json:"maxTotalTokens,omitempty"`

	// resultPreview says whether the start of an answer may stand in its run's status. Quote "On" and "Off" in YAML.
	// +optional
	// +kubebuilder:default=Off
	ResultPreview PreviewMode `json:"resultPreview,omitempty"`

	// adoptUID is the status.storageUID of a session whose history this one continues. It can be set only on creation, by
	// who holds the verb adopt on agentsessions.
	// +optional
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be the status.storageUID of a session, such as 7b2f3a52-4c1d-4f0e-9a57-0f6f2c1b8a11"
	AdoptUID string `json:"adoptUID,omitempty"`
}

// SessionModel is a model with the way it is used.
type SessionModel struct {
	// providerRef names the ModelProvider.
	// +required
	ProviderRef ProviderRef `json:"providerRef"`

	// model is the id of one of the provider's models.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model"`

	// reasoningEffort is how much the model should reason. Quote "off" in YAML.
	// +optional
	// +kubebuilder:default=off
	ReasoningEffort ReasoningEffort `json:"reasoningEffort,omitempty"`

	// maxOutputTokens caps an answer, in tokens. Absent, or above the model's own maximum, means that maximum.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	MaxOutputTokens int64 `json:"maxOutputTokens,omitempty"`
}

// ModelRef names a model of a provider.
type ModelRef struct {
	// providerRef names the ModelProvider.
	// +required
	ProviderRef ProviderRef `json:"providerRef"`

	// model is the id of one of the provider's models.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model"`
}

// PromptSection is a named text.
// +kubebuilder:validation:XValidation:rule="has(self.text) != has(self.configMapKeyRef)",message="set exactly one of text and configMapKeyRef"
type PromptSection struct {
	// name is the section's name. It stays the same while the text changes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-_a-z0-9]*[a-z0-9])?$')",message="must start with a lower-case letter and hold only lower-case letters, digits, '-' and '_'"
	Name string `json:"name"`

	// text is the section itself.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Text string `json:"text,omitempty"`

	// configMapKeyRef names the ConfigMap key that holds the text. It is read when a run starts.
	// +optional
	ConfigMapKeyRef *ConfigMapKeyRef `json:"configMapKeyRef,omitempty"`
}

// ToolServer is an MCP server over streamable HTTP.
// +kubebuilder:validation:XValidation:rule="!has(self.requireApproval) || self.requireApproval.all(t, t == '*' || (has(self.allow) && (t in self.allow || '*' in self.allow)))",message="requireApproval names a tool that allow does not admit: add it to allow or remove it",fieldPath=".requireApproval"
// +kubebuilder:validation:XValidation:rule="!has(self.retrySafe) || self.retrySafe.all(t, t == '*' || (has(self.allow) && (t in self.allow || '*' in self.allow)))",message="retrySafe names a tool that allow does not admit: add it to allow or remove it",fieldPath=".retrySafe"
// +kubebuilder:validation:XValidation:rule="!has(self.bearerTokenSecretRef) || !has(self.headers) || !self.headers.exists(h, h.name.lowerAscii() == 'authorization')",message="bearerTokenSecretRef writes the header Authorization already: remove one of the two",fieldPath=".headers"
type ToolServer struct {
	// name is the server's name, part of its tools' names to the model.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be lower-case letters, digits and '-', with a letter or digit at both ends"
	Name string `json:"name"`

	// url is the server's MCP endpoint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://')",message="must start with https:// or http://"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^https?://[^/?#]*@')",message="must not hold a user or password: put the credential in a Secret and name it in bearerTokenSecretRef or headers"
	// +kubebuilder:validation:XValidation:rule="!self.contains('#')",message="must not hold a fragment: remove the part from '#' on"
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getHostname() != ''",message="must be a URL with a host, for example https://tools.example.com/mcp"
	URL string `json:"url"`

	// bearerTokenSecretRef names the Secret key whose value is sent as bearer token.
	// +optional
	BearerTokenSecretRef *SecretKeyRef `json:"bearerTokenSecretRef,omitempty"`

	// headers are added to every request to the server.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Headers []Header `json:"headers,omitempty"`

	// caBundle names the ConfigMap key with the PEM certificates that the server's certificate is checked against, instead
	// of the system's.
	// +optional
	CABundle *ConfigMapKeyRef `json:"caBundle,omitempty"`

	// allow lists the tools that the agent may use. Empty admits none, "*" admits all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Allow []string `json:"allow,omitempty"`

	// requireApproval lists allowed tools whose calls wait for a person. "*" means every allowed tool.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	RequireApproval []string `json:"requireApproval,omitempty"`

	// retrySafe lists allowed tools that may be called again when it is unknown whether a call took effect. "*" means every
	// allowed tool.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	RetrySafe []string `json:"retrySafe,omitempty"`

	// declaration says how the model learns of the tools.
	// +required
	Declaration ToolDeclaration `json:"declaration"`

	// onUnavailable says what a run does when the server does not answer at its start.
	// +optional
	// +kubebuilder:default=Fail
	OnUnavailable UnavailablePolicy `json:"onUnavailable,omitempty"`

	// approvalTimeoutSeconds is how long a call waits for a person before it counts as denied, in seconds.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	ApprovalTimeoutSeconds int32 `json:"approvalTimeoutSeconds,omitempty"`

	// callTimeoutSeconds bounds one call, in seconds.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	CallTimeoutSeconds int32 `json:"callTimeoutSeconds,omitempty"`

	// maxResultBytes bounds what of one result enters the history, in bytes. The rest is cut off, and the model is told.
	// +optional
	// +kubebuilder:default=65536
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=4194304
	MaxResultBytes int32 `json:"maxResultBytes,omitempty"`
}

// Skill is a set of instructions with its front matter.
// +kubebuilder:validation:XValidation:rule="has(self.configMapKeyRef) != has(self.configMapRef)",message="set exactly one of configMapKeyRef (one SKILL.md) and configMapRef (a whole folder, SKILL.md among its keys)"
type Skill struct {
	// id is the name by which runs, subagents and the model name the skill.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be lower-case letters, digits and '-', with a letter or digit at both ends"
	ID string `json:"id"`

	// configMapKeyRef names the ConfigMap key that holds a SKILL.md.
	// +optional
	ConfigMapKeyRef *ConfigMapKeyRef `json:"configMapKeyRef,omitempty"`

	// configMapRef names a ConfigMap whose keys are the skill's files, SKILL.md among them.
	// +optional
	ConfigMapRef *ConfigMapRef `json:"configMapRef,omitempty"`

	// load says who may load the skill.
	// +optional
	// +kubebuilder:default=Manual
	Load SkillLoad `json:"load,omitempty"`
}

// Subagent is an agent with a history of its own, to which the session's agent delegates a task.
type Subagent struct {
	// name is the subagent's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a DNS label: lower-case letters, digits and '-', with a letter or digit at both ends"
	// +kubebuilder:validation:XValidation:rule="self != 'main'",message="main is the name of the session's own agent: choose another name"
	Name string `json:"name"`

	// description tells the delegating model what the subagent is for.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description"`

	// model is what the subagent uses. Absent means the session's.
	// +optional
	Model *SessionModel `json:"model,omitempty"`

	// instructions are the named sections of its system prompt, instead of the session's.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Instructions []PromptSection `json:"instructions,omitempty"`

	// toolServers names those of the session's tool servers that it may use. Absent means none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=32
	ToolServers []string `json:"toolServers,omitempty"`

	// skills names those of the session's skills that it may use. Absent means none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Skills []string `json:"skills,omitempty"`

	// maxTurns bounds the turns of one delegated task.
	// +optional
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxTurns int32 `json:"maxTurns,omitempty"`

	// maxDepth is how deep below the session's agent this subagent may stand: with 1 only the session's agent delegates to
	// it, with 2 a subagent may too, and so on.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	MaxDepth int32 `json:"maxDepth,omitempty"`

	// maxParallel is how many tasks of this subagent may run at once for one delegating run.
	// +optional
	// +kubebuilder:default=4
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	MaxParallel int32 `json:"maxParallel,omitempty"`
}

// Compaction says when older history is replaced by a summary in requests. The history itself is never changed.
type Compaction struct {
	// automatic compacts by itself before a request that comes near the limit.
	// +optional
	// +kubebuilder:default=Enabled
	Automatic Toggle `json:"automatic,omitempty"`

	// thresholdPercent is how much of the input limit an estimate may reach before it is time to compact, in per cent.
	// +optional
	// +kubebuilder:default=90
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	ThresholdPercent int32 `json:"thresholdPercent,omitempty"`

	// model is what writes the summary. Absent means the session's.
	// +optional
	Model *ModelRef `json:"model,omitempty"`
}

// HistoryPolicy says how long runs are kept and what becomes of the history in the end.
type HistoryPolicy struct {
	// keepRuns is how many finished AgentRuns are kept, the newest ones. Those without the rest stay in the trajectory.
	// +optional
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	KeepRuns *int32 `json:"keepRuns,omitempty"`

	// onDelete says whether the deletion of the session keeps or purges its history.
	// +optional
	// +kubebuilder:default=Retain
	OnDelete DeletePolicy `json:"onDelete,omitempty"`
}
