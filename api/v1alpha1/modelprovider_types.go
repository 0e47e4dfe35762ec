package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Protocol is the wire protocol of a model endpoint.
// +kubebuilder:validation:Enum=Anthropic;OpenAIChat;OpenAIResponses
type Protocol string

const (
	// ProtocolAnthropic is the Messages API of Anthropic.
	ProtocolAnthropic Protocol = "Anthropic"
	// ProtocolOpenAIChat is the chat completions API, which many servers speak.
	ProtocolOpenAIChat Protocol = "OpenAIChat"
	// ProtocolOpenAIResponses is the Responses API of OpenAI.
	ProtocolOpenAIResponses Protocol = "OpenAIResponses"
)

// Thinking is the way a model reasons before it answers.
// +kubebuilder:validation:Enum=None;Adaptive;FixedBudget
type Thinking string

const (
	// ThinkingNone is for models that do not reason.
	ThinkingNone Thinking = "None"
	// ThinkingAdaptive is for models that take an effort and decide themselves how long to reason.
	ThinkingAdaptive Thinking = "Adaptive"
	// ThinkingFixedBudget is for Anthropic models that take a number of thinking tokens.
	ThinkingFixedBudget Thinking = "FixedBudget"
)

// Estimator is the way tokens are counted before a request.
// +kubebuilder:validation:Enum=Heuristic;Scan;O200k
type Estimator string

const (
	// EstimatorHeuristic counts a quarter token for ASCII and half the bytes of anything else.
	EstimatorHeuristic Estimator = "Heuristic"
	// EstimatorScan looks at sub-words without a vocabulary, which is closer on code, logs and other scripts.
	EstimatorScan Estimator = "Scan"
	// EstimatorO200k counts with the o200k vocabulary: the closest and the slowest.
	EstimatorO200k Estimator = "O200k"
)

// Toggle switches a feature that is not off by nature.
// +kubebuilder:validation:Enum=Enabled;Disabled
type Toggle string

const (
	// Enabled switches the feature on.
	Enabled Toggle = "Enabled"
	// Disabled switches the feature off.
	Disabled Toggle = "Disabled"
)

// PromptCache says whether requests mark what the provider may cache.
// +kubebuilder:validation:Enum=Auto;Off
type PromptCache string

const (
	// PromptCacheAuto marks the stable parts of a request, where the protocol has such marks.
	PromptCacheAuto PromptCache = "Auto"
	// PromptCacheOff marks nothing.
	PromptCacheOff PromptCache = "Off"
)

// ModelProviderSpec is a model endpoint with its models, its credentials and its limits.
// +kubebuilder:validation:XValidation:rule="self.protocol == 'Anthropic' || self.models.all(m, m.thinking != 'FixedBudget')",message="thinking FixedBudget exists only in protocol Anthropic: use Adaptive for a model that reasons, else None",fieldPath=".models"
// +kubebuilder:validation:XValidation:rule="self.protocol == 'OpenAIResponses' || self.models.all(m, m.outputCaps != 'Disabled')",message="outputCaps can be Disabled only in protocol OpenAIResponses: remove it",fieldPath=".models"
// +kubebuilder:validation:XValidation:rule="self.protocol == 'Anthropic' || self.models.all(m, !has(m.sampling) || !has(m.sampling.topK))",message="sampling.topK exists only in protocol Anthropic: remove it, or put the server's own field in sampling.extra",fieldPath=".models"
// +kubebuilder:validation:XValidation:rule="self.protocol == 'OpenAIChat' || self.models.all(m, !has(m.sampling) || !(has(m.sampling.presencePenalty) || has(m.sampling.frequencyPenalty) || has(m.sampling.seed)))",message="sampling.presencePenalty, frequencyPenalty and seed exist only in protocol OpenAIChat: remove them",fieldPath=".models"
// +kubebuilder:validation:XValidation:rule="self.protocol != 'OpenAIResponses' || self.models.all(m, !has(m.sampling) || !has(m.sampling.stop))",message="sampling.stop does not exist in protocol OpenAIResponses: remove it",fieldPath=".models"
// +kubebuilder:validation:XValidation:rule="self.idleTimeoutSeconds <= self.requestTimeoutSeconds",message="idleTimeoutSeconds is larger than requestTimeoutSeconds: lower it, or raise requestTimeoutSeconds",fieldPath=".idleTimeoutSeconds"
type ModelProviderSpec struct {
	// protocol is the wire protocol that the endpoint speaks.
	// +required
	Protocol Protocol `json:"protocol"`

	// baseURL is where the endpoint is, without the protocol's own path (/v1/messages, /chat/completions, /responses).
	// Absent means the public endpoint of the protocol's maker.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://')",message="must start with https:// or http://"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^https?://[^/?#]*@')",message="must not hold a user or password: put the credential in a Secret and name it in apiKeySecretRef"
	// +kubebuilder:validation:XValidation:rule="!self.contains('?') && !self.contains('#')",message="must not hold a query or a fragment: give scheme, host and path only"
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getHostname() != ''",message="must be a URL with a host, for example https://models.example.com/v1"
	BaseURL string `json:"baseURL,omitempty"`

	// apiKeySecretRef names the Secret key that holds the API key. Absent for an endpoint without one.
	// +optional
	APIKeySecretRef *SecretKeyRef `json:"apiKeySecretRef,omitempty"`

	// caBundle names the ConfigMap key with the PEM certificates that the endpoint's certificate is checked against,
	// instead of the system's.
	// +optional
	CABundle *ConfigMapKeyRef `json:"caBundle,omitempty"`

	// headers are added to every request to the endpoint.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Headers []Header `json:"headers,omitempty"`

	// models are the models that sessions may name.
	// +required
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Models []Model `json:"models"`

	// promptCache says whether requests mark what the provider may cache.
	// +optional
	// +kubebuilder:default=Auto
	PromptCache PromptCache `json:"promptCache,omitempty"`

	// limits are shared by all workers. Absent means none.
	// +optional
	Limits *ProviderLimits `json:"limits,omitempty"`

	// retry says how often and how patiently a failed request is sent again.
	// +optional
	// +kubebuilder:default={}
	Retry RetryPolicy `json:"retry,omitzero"`

	// requestTimeoutSeconds bounds one request, from its start to the end of the answer, in seconds.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	RequestTimeoutSeconds int32 `json:"requestTimeoutSeconds,omitempty"`

	// idleTimeoutSeconds bounds the time in which not one byte of the answer arrives, in seconds.
	// +optional
	// +kubebuilder:default=120
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	IdleTimeoutSeconds int32 `json:"idleTimeoutSeconds,omitempty"`
}

// Model is a model of the endpoint with the capacities that budgets are computed from.
// +kubebuilder:validation:XValidation:rule="self.maxOutputTokens <= self.contextWindow",message="maxOutputTokens is larger than contextWindow: look both up in the model's documentation",fieldPath=".maxOutputTokens"
// +kubebuilder:validation:XValidation:rule="!has(self.thinkingBudgets) || self.thinking == 'FixedBudget'",message="thinkingBudgets needs thinking: FixedBudget",fieldPath=".thinkingBudgets"
type Model struct {
	// id is the model's name on the wire.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][-A-Za-z0-9._:/@+]*$')",message="must be a model id: a letter or digit first, then letters, digits and . _ : / @ + -"
	ID string `json:"id"`

	// contextWindow is how many tokens input and output may have together.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	ContextWindow int64 `json:"contextWindow"`

	// maxOutputTokens is how many tokens one answer may have at most, reasoning included.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	MaxOutputTokens int64 `json:"maxOutputTokens"`

	// thinking is the way the model reasons.
	// +optional
	// +kubebuilder:default=None
	Thinking Thinking `json:"thinking,omitempty"`

	// thinkingBudgets replaces the thinking tokens of each effort.
	// +optional
	ThinkingBudgets *ThinkingBudgets `json:"thinkingBudgets,omitempty"`

	// images is true when the model reads images. For one that does not, images become a short text in the request.
	// +optional
	Images bool `json:"images,omitempty"`

	// estimator is the way this model's tokens are estimated.
	// +optional
	// +kubebuilder:default=Heuristic
	Estimator Estimator `json:"estimator,omitempty"`

	// calibrate lets estimates be multiplied by what earlier usage of this model showed.
	// +optional
	// +kubebuilder:default=Disabled
	Calibrate Toggle `json:"calibrate,omitempty"`

	// sampling holds the model's parameters. Those of a run come on top.
	// +optional
	Sampling *Sampling `json:"sampling,omitempty"`

	// outputCaps is Disabled for a server that refuses output caps. The whole maxOutputTokens is then reserved.
	// +optional
	// +kubebuilder:default=Enabled
	OutputCaps Toggle `json:"outputCaps,omitempty"`

	// price is what tokens cost, for reports. Nothing is decided by it.
	// +optional
	Price *Price `json:"price,omitempty"`
}

// ThinkingBudgets are thinking tokens by effort. An absent one keeps its default.
// +kubebuilder:validation:MinProperties=1
type ThinkingBudgets struct {
	// minimal is the budget of effort minimal, in tokens; 1024 by default.
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=9007199254740991
	Minimal int64 `json:"minimal,omitempty"`

	// low is the budget of effort low, in tokens; 2048 by default.
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=9007199254740991
	Low int64 `json:"low,omitempty"`

	// medium is the budget of effort medium, in tokens; 8192 by default.
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=9007199254740991
	Medium int64 `json:"medium,omitempty"`

	// high is the budget of efforts high and xhigh, in tokens; 16384 by default.
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=9007199254740991
	High int64 `json:"high,omitempty"`
}

// Price is what a million tokens cost, as decimal strings.
// +kubebuilder:validation:MinProperties=1
type Price struct {
	// currency is the ISO 4217 code of the prices.
	// +optional
	// +kubebuilder:default=USD
	// +kubebuilder:validation:MaxLength=3
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z]{3}$')",message="must be a currency code of three capital letters, for example USD"
	Currency string `json:"currency,omitempty"`

	// inputPerMTok is the price of a million uncached input tokens.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,9}([.][0-9]{1,9})?$')",message="must be a decimal number in quotes, for example \"3.75\""
	InputPerMTok string `json:"inputPerMTok,omitempty"`

	// outputPerMTok is the price of a million generated tokens, reasoning included.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,9}([.][0-9]{1,9})?$')",message="must be a decimal number in quotes, for example \"3.75\""
	OutputPerMTok string `json:"outputPerMTok,omitempty"`

	// cacheReadPerMTok is the price of a million input tokens read from the prompt cache.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,9}([.][0-9]{1,9})?$')",message="must be a decimal number in quotes, for example \"3.75\""
	CacheReadPerMTok string `json:"cacheReadPerMTok,omitempty"`

	// cacheWritePerMTok is the price of a million input tokens written to the prompt cache.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,9}([.][0-9]{1,9})?$')",message="must be a decimal number in quotes, for example \"3.75\""
	CacheWritePerMTok string `json:"cacheWritePerMTok,omitempty"`
}

// ProviderLimits are held across all workers together. An absent one does not limit.
// +kubebuilder:validation:MinProperties=1
type ProviderLimits struct {
	// maxConcurrentRequests is how many requests may be under way at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxConcurrentRequests int32 `json:"maxConcurrentRequests,omitempty"`

	// requestsPerMinute is how many requests may start within a minute.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000
	RequestsPerMinute int32 `json:"requestsPerMinute,omitempty"`

	// inputTokensPerMinute is how many estimated input tokens may be sent within a minute.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	InputTokensPerMinute int64 `json:"inputTokensPerMinute,omitempty"`
}

// RetryPolicy says how a request that failed in passing is sent again.
type RetryPolicy struct {
	// maxAttempts is how often one request is sent at most, the first time included.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	MaxAttempts int32 `json:"maxAttempts,omitempty"`

	// maxDelaySeconds is the longest wait before the next attempt, a wait that the provider asked for included, in seconds.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	MaxDelaySeconds int32 `json:"maxDelaySeconds,omitempty"`
}

// ModelProviderStatus is what the controllers found out about a provider. For Ready they send it nothing.
type ModelProviderStatus struct {
	// observedGeneration is the metadata.generation that the status belongs to.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions say whether sessions can use the provider and whether its models are declared as it tells them; see
	// ConditionReady and ConditionModelsVerified.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ModelProvider is the platform team's object: an endpoint, its credential, its models' capacities and the limits that
// all its users share. Sessions only name it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=modelproviders,singular=modelprovider,shortName=mprov,categories=agentloop
// +kubebuilder:printcolumn:name="Protocol",type=string,JSONPath=`.spec.protocol`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="URL",type=string,priority=1,JSONPath=`.spec.baseURL`
// +kubebuilder:printcolumn:name="Verified",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="ModelsVerified")].reason`
type ModelProvider struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the endpoint with its models.
	// +required
	Spec ModelProviderSpec `json:"spec"`

	// status is written by the controllers.
	// +optional
	Status ModelProviderStatus `json:"status,omitzero"`
}

// ModelProviderList is a list of ModelProviders.
//
// +kubebuilder:object:root=true
type ModelProviderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []ModelProvider `json:"items"`
}
