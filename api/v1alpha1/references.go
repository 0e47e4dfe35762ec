package v1alpha1

// SecretKeyRef names one key of a Secret in the same namespace. The Secret is read only if it has the label
// agentloop.dev/credential: "true".
type SecretKeyRef struct {
	// name is the name of the Secret. It must have the label agentloop.dev/credential: "true".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of a Secret in this namespace: lower-case letters, digits, '-' and '.'"
	Name string `json:"name"`

	// key is the entry of the Secret's data that holds the value.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of the Secret's data: letters, digits, '-', '_' and '.'"
	Key string `json:"key"`
}

// ConfigMapKeyRef names one key of a ConfigMap in the same namespace.
type ConfigMapKeyRef struct {
	// name is the name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of a ConfigMap in this namespace: lower-case letters, digits, '-' and '.'"
	Name string `json:"name"`

	// key is the entry of the ConfigMap's data or binaryData that holds the value.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of the ConfigMap's data: letters, digits, '-', '_' and '.'"
	Key string `json:"key"`
}

// ConfigMapRef names a ConfigMap in the same namespace, of which every key is used.
type ConfigMapRef struct {
	// name is the name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of a ConfigMap in this namespace: lower-case letters, digits, '-' and '.'"
	Name string `json:"name"`
}

// ProviderRef names a ModelProvider in the same namespace.
type ProviderRef struct {
	// name is the name of the ModelProvider.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of a ModelProvider in this namespace: lower-case letters, digits, '-' and '.'"
	Name string `json:"name"`
}

// SessionRef names an AgentSession in the same namespace.
type SessionRef struct {
	// name is the name of the AgentSession.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of an AgentSession in this namespace: lower-case letters, digits, '-' and '.'"
	Name string `json:"name"`
}

// RunRef names an AgentRun in the same namespace.
type RunRef struct {
	// name is the name of the AgentRun.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of an AgentRun in this namespace: lower-case letters, digits, '-' and '.'"
	Name string `json:"name"`

	// uid tells the run from a later one of the same name. Absent means whichever run has the name.
	// +optional
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be the metadata.uid of the run, such as 7b2f3a52-4c1d-4f0e-9a57-0f6f2c1b8a11"
	UID string `json:"uid,omitempty"`
}

// Header is an HTTP header that is added to every request to an endpoint.
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.secretKeyRef)",message="set exactly one of value and secretKeyRef"
// +kubebuilder:validation:XValidation:rule="has(self.secretKeyRef) || !(self.name.lowerAscii() in ['authorization', 'proxy-authorization', 'x-api-key', 'api-key', 'x-goog-api-key', 'cookie'])",message="this header carries a credential: put the value in a Secret and name it with secretKeyRef",fieldPath=".value"
type Header struct {
	// name is the name of the header. Names that HTTP itself writes, such as Host and Content-Length, are refused.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-!#$%&*+.^_|~0-9A-Za-z]+$')",message="must be a header name: letters, digits and '-', without a colon or blanks"
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['host', 'content-length', 'content-type', 'transfer-encoding', 'connection', 'upgrade', 'te', 'trailer', 'keep-alive', 'proxy-connection'])",message="this header is written by the HTTP client: remove it"
	Name string `json:"name"`

	// value is the header's value, for what is no secret.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[ -~]*$')",message="must be printable ASCII on one line"
	Value string `json:"value,omitempty"`

	// secretKeyRef names the Secret key that holds the header's value.
	// +optional
	SecretKeyRef *SecretKeyRef `json:"secretKeyRef,omitempty"`
}
