package v1alpha1

// Reasons of a ModelProvider's Ready condition.
const (
	// ProviderReasonReady stands with True: spec and the objects it names are in order. No request was sent to find out.
	ProviderReasonReady = "Ready"

	// ProviderReasonSecretNotFound stands with False: a Secret is missing, lacks the key or lacks the credential label.
	ProviderReasonSecretNotFound = "SecretNotFound"

	// ProviderReasonConfigMapNotFound stands with False: the ConfigMap of caBundle is missing or lacks the key.
	ProviderReasonConfigMapNotFound = "ConfigMapNotFound"

	// ProviderReasonInvalidCapacity stands with False: a model's window leaves no room for input beside answer and safety.
	ProviderReasonInvalidCapacity = "InvalidCapacity"

	// ProviderReasonInvalidEndpoint stands with False: the manager may not call baseURL, or caBundle holds no certificate.
	ProviderReasonInvalidEndpoint = "InvalidEndpoint"

	// ProviderReasonInvalidSampling stands with False: a value of sampling.extra is no JSON.
	ProviderReasonInvalidSampling = "InvalidSampling"

	// ProviderReasonAuthFailed stands with False: the provider refused the credential in the latest request of a run. It
	// goes when the Secret or the spec changes.
	ProviderReasonAuthFailed = "AuthFailed"
)
