package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/kube"
)

// ModelProviderReconciler says whether sessions can use a provider, for which it sends the endpoint nothing: that a
// credential was refused it learns from runs. What the provider tells about its models is asked in the background.
type ModelProviderReconciler struct {
	client.Client
	// Direct reads Secrets and ConfigMaps past the cache.
	Direct client.Reader
	// Listings is what providers tell about their models; nil when they are not asked.
	Listings *Listings
	Now      func() time.Time
}

// Reconcile implements reconcile.Reconciler.
func (r *ModelProviderReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	target := &api.ModelProvider{}
	if err := r.Get(ctx, req.NamespacedName, target); err != nil {
		if apierrors.IsNotFound(err) {
			r.Listings.Forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	facts, err := r.observe(ctx, target)
	if err != nil {
		return resultOf(err)
	}
	problem := facts.problem()
	if err := r.report(ctx, target, problem, r.verified(facts, problem)); err != nil {
		return resultOf(err)
	}
	// Secrets and ConfigMaps are not watched: they are looked at again, sooner while something is wrong.
	if problem != nil {
		return ctrl.Result{RequeueAfter: referenceInterval}, nil
	}
	return ctrl.Result{RequeueAfter: 10 * referenceInterval}, nil
}

// observe does all the reading.
func (r *ModelProviderReconciler) observe(ctx context.Context, target *api.ModelProvider) (providerFacts, error) {
	facts := providerFacts{target: target}
	if err := r.secrets(ctx, &facts); err != nil || facts.missing != nil {
		return facts, err
	}
	if err := r.certificates(ctx, &facts); err != nil || facts.missing != nil {
		return facts, err
	}
	runs := &api.AgentRunList{}
	if err := r.List(ctx, runs, client.InNamespace(target.Namespace), client.MatchingFields{indexRunProvider: target.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return facts, fmt.Errorf("list runs: %w", err)
	}
	facts.latest = latestOf(runs.Items)
	if facts.latest == nil || !refusedCredential(facts.latest) {
		return facts, nil
	}
	if only, err := r.askedOnly(ctx, facts); err != nil || !only {
		facts.latest = nil
		return facts, err
	}
	// The cache holds no managed fields, and those tell when the spec was changed.
	whole := &api.ModelProvider{}
	if err := r.Direct.Get(ctx, client.ObjectKeyFromObject(target), whole); err != nil {
		return facts, fmt.Errorf("get provider: %w", err)
	}
	if at := changedAt(whole); at.After(facts.changed) {
		facts.changed = at
	}
	return facts, nil
}

// askedOnly says whether the latest run asked no other provider: a summary may be another one's, and the run does not
// tell which of them refused.
func (r *ModelProviderReconciler) askedOnly(ctx context.Context, f providerFacts) (bool, error) {
	owner := &api.AgentSession{}
	if err := r.Get(ctx, client.ObjectKey{Namespace: f.latest.Namespace, Name: f.latest.Spec.SessionRef.Name}, owner); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	summaries := owner.Spec.Compaction.Model
	return summaries == nil || summaries.ProviderRef.Name == f.target.Name, nil
}

// secrets looks at the Secrets that the provider names, one by one, and keeps no value.
func (r *ModelProviderReconciler) secrets(ctx context.Context, facts *providerFacts) error {
	for _, ref := range providerSecrets(facts.target) {
		object := &corev1.Secret{}
		err := r.Direct.Get(ctx, client.ObjectKey{Namespace: facts.target.Namespace, Name: ref.Name}, object)
		if apierrors.IsNotFound(err) {
			facts.missing = &verdict{api.ProviderReasonSecretNotFound, fmt.Sprintf("Secret %s does not exist: create it", ref.Name)}
			return nil
		}
		if err != nil {
			return fmt.Errorf("get Secret %s: %w", ref.Name, err)
		}
		if _, problem := kube.SecretValue(object, ref.Key); problem != nil {
			facts.missing = &verdict{api.ProviderReasonSecretNotFound, problem.Message}
			return nil //nolint:nilerr // the problem is one of the facts
		}
		if at := changedAt(object); at.After(facts.changed) {
			facts.changed = at
		}
		facts.versions += object.ResourceVersion + " "
	}
	return nil
}

func (r *ModelProviderReconciler) certificates(ctx context.Context, facts *providerFacts) error {
	ref := facts.target.Spec.CABundle
	if ref == nil {
		return nil
	}
	object := &corev1.ConfigMap{}
	err := r.Direct.Get(ctx, client.ObjectKey{Namespace: facts.target.Namespace, Name: ref.Name}, object)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get ConfigMap %s: %w", ref.Name, err)
	}
	facts.versions += object.ResourceVersion
	if facts.caBundle = []byte(object.Data[ref.Key]); len(facts.caBundle) == 0 {
		facts.caBundle = object.BinaryData[ref.Key]
	}
	if len(facts.caBundle) == 0 {
		facts.missing = &verdict{api.ProviderReasonConfigMapNotFound, fmt.Sprintf("ConfigMap %s does not exist or has no key %s: create it", ref.Name, ref.Key)}
	}
	return nil
}

// verified says whether the models are declared as the provider tells them; nil when providers are not asked. A provider
// that sessions cannot use is not asked either.
func (r *ModelProviderReconciler) verified(facts providerFacts, problem *verdict) *check {
	if r.Listings == nil {
		return nil
	}
	if problem != nil {
		return &check{metav1.ConditionUnknown, verdict{api.ProviderReasonNotChecked, "the provider is asked for its models when it is Ready"}}
	}
	return verifyModels(facts.target.Spec.Models, r.Listings.Get(facts.target, facts.versions))
}

func (r *ModelProviderReconciler) report(ctx context.Context, target *api.ModelProvider, problem *verdict, verified *check) error {
	changed := target.DeepCopy()
	changed.Status.ObservedGeneration = target.Generation
	ready := metav1.Condition{
		Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: api.ProviderReasonReady, ObservedGeneration: target.Generation,
		LastTransitionTime: seconds(r.Now()),
	}
	if problem != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, problem.reason, problem.message
	}
	meta.SetStatusCondition(&changed.Status.Conditions, ready)
	if verified == nil {
		meta.RemoveStatusCondition(&changed.Status.Conditions, api.ConditionModelsVerified)
	} else {
		meta.SetStatusCondition(&changed.Status.Conditions, metav1.Condition{
			Type: api.ConditionModelsVerified, Status: verified.status, Reason: verified.reason, Message: verified.message,
			ObservedGeneration: target.Generation, LastTransitionTime: ready.LastTransitionTime,
		})
	}
	changed.Status.Bound()
	if equality.Semantic.DeepEqual(target.Status, changed.Status) {
		return nil
	}
	// The lock keeps a look at an old copy from undoing what was written since.
	err := r.Status().Patch(ctx, changed, client.MergeFromWithOptions(target, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
