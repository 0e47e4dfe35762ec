package v1alpha1

// ConditionModelsVerified says whether spec.models agrees with what the provider itself tells about its models. True is
// good; False is a warning and holds no run back. It is present once the controllers have seen the object, unless they
// ask no provider.
const ConditionModelsVerified = "ModelsVerified"

// Reasons of a ModelProvider's ModelsVerified condition.
const (
	// ProviderReasonMatches stands with True: every model is listed, and each limit that is told is the declared one.
	ProviderReasonMatches = "Matches"

	// ProviderReasonLimitsDiffer stands with False: a model's contextWindow or maxOutputTokens is not what the provider tells.
	ProviderReasonLimitsDiffer = "LimitsDiffer"

	// ProviderReasonModelNotListed stands with False: the provider does not know a model under its id.
	ProviderReasonModelNotListed = "ModelNotListed"

	// ProviderReasonNotChecked stands with Unknown: the provider was not asked yet, or is not Ready.
	ProviderReasonNotChecked = "NotChecked"

	// ProviderReasonLimitsNotTold stands with Unknown: the models are listed, and no limit of any is told.
	ProviderReasonLimitsNotTold = "LimitsNotTold"

	// ProviderReasonListingUnsupported stands with Unknown: the provider has no model listing.
	ProviderReasonListingUnsupported = "ListingUnsupported"

	// ProviderReasonListingRefused stands with Unknown: the credential may not read the listing. Runs may work all the same.
	ProviderReasonListingRefused = "ListingRefused"

	// ProviderReasonListingUnavailable stands with Unknown: the listing could not be read, and is asked for again.
	ProviderReasonListingUnavailable = "ListingUnavailable"
)

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
