package controllers

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/kube"
)

// providerFacts is all that is known when a provider is judged.
type providerFacts struct {
	target *api.ModelProvider
	// missing is the first Secret or ConfigMap that cannot be used; nil when all can.
	missing *verdict
	// versions tell the Secrets and the ConfigMap that are used from changed ones.
	versions string
	// caBundle is what spec.caBundle names; empty for none.
	caBundle []byte
	// latest is the run that ended last of those that tell whether the provider takes the credential; nil when there is none.
	latest *api.AgentRun
	// changed is when the provider's spec or one of its Secrets was changed last; known when latest was refused.
	changed time.Time
}

// problem is why sessions cannot use the provider; nil when they can. It is pure.
func (f providerFacts) problem() *verdict {
	if f.missing != nil {
		return f.missing
	}
	if problem := f.endpoint(); problem != nil {
		return problem
	}
	for i := range f.target.Spec.Models {
		declared := &f.target.Spec.Models[i]
		model, err := kube.ModelOf(f.target, declared)
		if err != nil {
			return &verdict{api.ProviderReasonInvalidSampling, fmt.Sprintf("%v: correct spec.models", err)}
		}
		if _, err := budget.ReserveFor(budget.Options{Model: model}); err != nil {
			return &verdict{api.ProviderReasonInvalidCapacity, fmt.Sprintf("model %s: %v: correct spec.models", declared.ID, err)}
		}
	}
	// A run that begins in the second of a change was begun after it more likely than before: objects are applied together.
	if f.latest != nil && refusedCredential(f.latest) && !f.latest.Status.StartTime.Time.Before(f.changed) {
		return &verdict{api.ProviderReasonAuthFailed, f.credential()}
	}
	return nil
}

func (f providerFacts) endpoint() *verdict {
	if base := f.target.Spec.BaseURL; base != "" {
		if u, err := url.Parse(base); err != nil || u.Host == "" || u.User != nil {
			return &verdict{api.ProviderReasonInvalidEndpoint, "spec.baseURL is no URL with a host and without user information: correct it"}
		}
	}
	if ref := f.target.Spec.CABundle; ref != nil && !x509.NewCertPool().AppendCertsFromPEM(f.caBundle) {
		return &verdict{api.ProviderReasonInvalidEndpoint, fmt.Sprintf("ConfigMap %s holds no PEM certificate in key %s: correct it", ref.Name, ref.Key)}
	}
	return nil
}

// credential says what is to be done about a credential that was refused.
func (f providerFacts) credential() string {
	refs := providerSecrets(f.target)
	if len(refs) == 0 {
		return "the provider asks for a credential: name its Secret in spec.apiKeySecretRef"
	}
	return fmt.Sprintf("the provider refused the credential in Secret %s: replace it there; any change of the Secret or of spec lets runs try again", refs[0].Name)
}

// providerSecrets are the Secrets that a provider names.
func providerSecrets(target *api.ModelProvider) []api.SecretKeyRef {
	var refs []api.SecretKeyRef
	if target.Spec.APIKeySecretRef != nil {
		refs = append(refs, *target.Spec.APIKeySecretRef)
	}
	for _, header := range target.Spec.Headers {
		if header.SecretKeyRef != nil {
			refs = append(refs, *header.SecretKeyRef)
		}
	}
	return refs
}

// usedProvider names the provider of a run that ended and tells whether that takes the credential: it was refused, or
// the provider answered. The provider is that of the latest request.
func usedProvider(o client.Object) []string {
	run, ok := o.(*api.AgentRun)
	if !ok || !run.IsFinished() || run.Status.ContextBudget == nil || run.Status.StartTime == nil || run.Status.CompletionTime == nil {
		return nil
	}
	if !refusedCredential(run) && run.Status.Usage == nil && condition(run.Status.Conditions, api.ConditionSucceeded) != metav1.ConditionTrue {
		return nil
	}
	return []string{run.Status.ContextBudget.Provider}
}

func refusedCredential(run *api.AgentRun) bool {
	return reason(&run.Status, api.ConditionSucceeded) == api.RunReasonProviderAuthFailed
}

// latestOf is the run that ended last. Of two that ended in the same second, the one that was not refused.
func latestOf(runs []api.AgentRun) *api.AgentRun {
	var latest *api.AgentRun
	for i := range runs {
		run := &runs[i]
		switch {
		case latest == nil || latest.Status.CompletionTime.Before(run.Status.CompletionTime):
			latest = run
		case latest.Status.CompletionTime.Equal(run.Status.CompletionTime) && !refusedCredential(run):
			latest = run
		}
	}
	return latest
}

// changedAt is when an object was changed last, its status left out, as far as the API server tells.
func changedAt(o client.Object) time.Time {
	at := o.GetCreationTimestamp().Time
	for _, entry := range o.GetManagedFields() {
		if entry.Subresource == "" && entry.Time != nil && entry.Time.After(at) {
			at = entry.Time.Time
		}
	}
	return at
}
