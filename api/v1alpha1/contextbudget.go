package v1alpha1

// ContextBudget is the measured size of one model request against the model's window, in tokens. It is a local estimate:
// neither the provider's tokeniser nor billing usage. The first thirteen fields are uncalibrated numbers of the chosen
// estimator; what calibration adds stands beside them.
type ContextBudget struct {
	// provider is the name of the ModelProvider for which the estimate was made.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Provider string `json:"provider"`

	// model is the id of the model for which the estimate was made.
	// +required
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model"`

	// contextWindow is the model's window as its ModelProvider declares it.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	ContextWindow int64 `json:"contextWindow"`

	// systemTokens is the share of the system prompt with its instructions.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	SystemTokens int64 `json:"systemTokens"`

	// messageTokens is the share of the projected messages, host runtime context included.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	MessageTokens int64 `json:"messageTokens"`

	// toolTokens is the share of the declared tools with their schemas.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	ToolTokens int64 `json:"toolTokens"`

	// estimatedInputTokens is systemTokens + messageTokens + toolTokens.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	EstimatedInputTokens int64 `json:"estimatedInputTokens"`

	// reservedOutputTokens is the room kept for the answer, a fixed thinking budget included.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	ReservedOutputTokens int64 `json:"reservedOutputTokens"`

	// requestOutputTokenLimit is the output cap seen in the final request body. Absent before the body was inspected and
	// when it declares none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	RequestOutputTokenLimit *int64 `json:"requestOutputTokenLimit,omitempty"`

	// safetyTokens is five per cent of the window, rounded up, at most 4096.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4096
	SafetyTokens int64 `json:"safetyTokens"`

	// inputLimit is contextWindow - reservedOutputTokens - safetyTokens, never below zero.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	InputLimit int64 `json:"inputLimit"`

	// remainingInputTokens is contextWindow - reservedOutputTokens - safetyTokens - estimatedInputTokens. Below zero the
	// request does not fit by that much.
	// +required
	// +kubebuilder:validation:Minimum=-9007199254740991
	// +kubebuilder:validation:Maximum=9007199254740991
	RemainingInputTokens int64 `json:"remainingInputTokens"`

	// fits is true when remainingInputTokens is zero or more.
	// +required
	Fits bool `json:"fits"`

	// usedPercent is estimatedInputTokens in per cent of contextWindow, rounded down; above 100 when the estimate exceeds
	// the window. Reserve and safety are no part of it. Absent when there is nothing to measure.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	UsedPercent *int32 `json:"usedPercent,omitempty"`

	// dispatched is true when the measured request went to the provider and false when it was refused before. Absent in an
	// estimate that belongs to no request.
	// +optional
	Dispatched *bool `json:"dispatched,omitempty"`

	// calibratedInputTokens is the estimate multiplied by what earlier usage of this model showed. Absent without calibration.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	CalibratedInputTokens *int64 `json:"calibratedInputTokens,omitempty"`

	// calibratedFits says whether calibratedInputTokens is within inputLimit. When present it, and not fits, decides on dispatch.
	// +optional
	CalibratedFits *bool `json:"calibratedFits,omitempty"`

	// estimator is the estimator that made the numbers. Absent means Heuristic.
	// +optional
	Estimator Estimator `json:"estimator,omitempty"`
}

// TokenUsage adds up what the provider reported. A count that no response carried is absent, which is not the same as zero.
type TokenUsage struct {
	// input is the number of input tokens that were neither read from nor written to the provider's prompt cache.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Input *int64 `json:"input,omitempty"`

	// output is the number of generated tokens, reasoning included.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Output *int64 `json:"output,omitempty"`

	// cacheRead is the number of input tokens that came from the provider's prompt cache.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	CacheRead *int64 `json:"cacheRead,omitempty"`

	// cacheWrite is the number of input tokens that were written to the provider's prompt cache.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	CacheWrite *int64 `json:"cacheWrite,omitempty"`

	// reasoning is the part of output that was spent on reasoning.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Reasoning *int64 `json:"reasoning,omitempty"`
}
