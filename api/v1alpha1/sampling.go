package v1alpha1

// Sampling holds parameters that shape how a model draws its tokens. An absent field leaves the provider's own default.
// Fractions are decimal strings, because binary fractions do not survive every client.
type Sampling struct {
	// temperature scales randomness: a decimal string from "0" to "2".
	// +optional
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-2]([.][0-9]{1,6})?$') && double(self) <= 2.0",message="must be a decimal string from \"0\" to \"2\", for example \"0.7\""
	Temperature string `json:"temperature,omitempty"`

	// topP keeps the most likely tokens whose probabilities add up to this: a decimal string from "0" to "1".
	// +optional
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:XValidation:rule="self.matches('^[01]([.][0-9]{1,6})?$') && double(self) <= 1.0",message="must be a decimal string from \"0\" to \"1\", for example \"0.95\""
	TopP string `json:"topP,omitempty"`

	// topK keeps this many of the most likely tokens. Only the Anthropic protocol has it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	TopK int32 `json:"topK,omitempty"`

	// presencePenalty lowers tokens that occurred already: a decimal string from "-2" to "2". Only OpenAIChat has it.
	// +optional
	// +kubebuilder:validation:MaxLength=9
	// +kubebuilder:validation:XValidation:rule="self.matches('^-?[0-2]([.][0-9]{1,6})?$') && double(self) >= -2.0 && double(self) <= 2.0",message="must be a decimal string from \"-2\" to \"2\", for example \"0.5\""
	PresencePenalty string `json:"presencePenalty,omitempty"`

	// frequencyPenalty lowers tokens by how often they occurred: a decimal string from "-2" to "2". Only OpenAIChat has it.
	// +optional
	// +kubebuilder:validation:MaxLength=9
	// +kubebuilder:validation:XValidation:rule="self.matches('^-?[0-2]([.][0-9]{1,6})?$') && double(self) >= -2.0 && double(self) <= 2.0",message="must be a decimal string from \"-2\" to \"2\", for example \"0.5\""
	FrequencyPenalty string `json:"frequencyPenalty,omitempty"`

	// seed asks the provider for repeatable draws, as far as it offers them. Only OpenAIChat has it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Seed *int64 `json:"seed,omitempty"`

	// stop lists texts at which the model stops. The Anthropic and OpenAIChat protocols have it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Stop []string `json:"stop,omitempty"`

	// extra holds further top-level fields of the request, for servers that know more than their protocol says.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Extra []SamplingField `json:"extra,omitempty"`
}

// SamplingField is one further top-level field of the request to the model.
// +kubebuilder:validation:XValidation:rule="!(self.name in ['max_tokens', 'max_completion_tokens', 'max_output_tokens']) || (self.value.matches('^[1-9][0-9]{0,15}$') && int(self.value) <= 9007199254740991)",message="an output cap must be a whole number from 1 to 9007199254740991 in quotes, for example \"16000\"",fieldPath=".value"
type SamplingField struct {
	// name is the field's name on the wire. Fields that the engine writes itself are refused.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="must be the name of a top-level request field: letters, digits and '_'"
	// +kubebuilder:validation:XValidation:rule="!(self in ['model', 'messages', 'input', 'system', 'instructions', 'tools', 'tool_choice', 'stream', 'stream_options', 'thinking', 'reasoning', 'reasoning_effort', 'output_config', 'truncation', 'previous_response_id', 'conversation', 'store', 'include', 'background', 'prompt', 'n'])",message="this field is written by the engine: remove it"
	// +kubebuilder:validation:XValidation:rule="!(self in ['temperature', 'top_p', 'top_k', 'presence_penalty', 'frequency_penalty', 'seed', 'stop', 'stop_sequences'])",message="this field has a place of its own in sampling: use temperature, topP, topK, presencePenalty, frequencyPenalty, seed or stop"
	Name string `json:"name"`

	// value is the field's value as JSON text, for example "0.05", "true" or "{\"effort\":\"low\"}".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Value string `json:"value"`
}
