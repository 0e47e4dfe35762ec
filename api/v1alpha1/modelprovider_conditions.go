package v1alpha1

// Reasons of a ModelProvider's Ready condition.
const (
	// ProviderReasonReady stands with True: spec and the objects it names are in order. No request was sent to find out.
	ProviderReasonReady = "Ready"

	// ProviderReasonSecretNotFound stands with False: a Secret is missing, lacks the key or lacks the credential label.
	ProviderReasonSecretNotFound = "SecretNotFound"

	// ProviderReasonConfigMapNotFound stands with False: the ConfigMap of caBundle is missing or lacks the key.
	ProviderReasonConfigMapNotFound = "ConfigMapNotFound"

	// ProviderReasonInvalidCapacity stands with False: an output cap that sampling.extra names, or the least one that the
	// protocol has, is above the model's maxOutputTokens.
	ProviderReasonInvalidCapacity = "InvalidCapacity"

	// ProviderReasonInvalidEndpoint stands with False: baseURL is no URL with a host, or caBundle holds no certificate.
	ProviderReasonInvalidEndpoint = "InvalidEndpoint"

	// ProviderReasonInvalidSampling stands with False: a value of sampling.extra is no JSON.
	ProviderReasonInvalidSampling = "InvalidSampling"

	// ProviderReasonAuthFailed stands with False: the provider refused the credential in the run that ended last. It goes
	// when a Secret or the spec changes, or when a run that is under way is answered after all.
	ProviderReasonAuthFailed = "AuthFailed"
)
