package controllers

import (
	"context"
	"fmt"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/kube"
)

// ModelProviderReconciler says whether sessions can use a provider. It sends the endpoint nothing.
type ModelProviderReconciler struct {
	client.Client
	// Direct reads Secrets and ConfigMaps past the cache.
	Direct client.Reader
	Now    func() time.Time
}

// Reconcile implements reconcile.Reconciler.
func (r *ModelProviderReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	target := &api.ModelProvider{}
	if err := r.Get(ctx, req.NamespacedName, target); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	problem, err := r.missing(ctx, target)
	if err != nil {
		return resultOf(err)
	}
	if problem == nil {
		problem = unusable(target)
	}
	if err := r.report(ctx, target, problem); err != nil {
		return resultOf(err)
	}
	// Secrets and ConfigMaps are not watched: they are looked at again, sooner while something is missing.
	if problem != nil {
		return ctrl.Result{RequeueAfter: referenceInterval}, nil
	}
	return ctrl.Result{RequeueAfter: 10 * referenceInterval}, nil
}

// unusable finds what is wrong with the specification beyond what the schema refuses.
func unusable(target *api.ModelProvider) *verdict {
	if base := target.Spec.BaseURL; base != "" {
		if u, err := url.Parse(base); err != nil || u.Host == "" || u.User != nil {
			return &verdict{api.ProviderReasonInvalidEndpoint, "spec.baseURL is no URL with a host and without user information: correct it"}
		}
	}
	for i := range target.Spec.Models {
		declared := &target.Spec.Models[i]
		model, err := kube.ModelOf(target, declared)
		if err != nil {
			return &verdict{api.ProviderReasonInvalidSampling, err.Error()}
		}
		if _, err := budget.ReserveFor(budget.Options{Model: model}); err != nil {
			return &verdict{api.ProviderReasonInvalidCapacity, fmt.Sprintf("model %s: %v", declared.ID, err)}
		}
	}
	return nil
}

func (r *ModelProviderReconciler) missing(ctx context.Context, target *api.ModelProvider) (*verdict, error) {
	var refs []api.SecretKeyRef
	if target.Spec.APIKeySecretRef != nil {
		refs = append(refs, *target.Spec.APIKeySecretRef)
	}
	for _, header := range target.Spec.Headers {
		if header.SecretKeyRef != nil {
			refs = append(refs, *header.SecretKeyRef)
		}
	}
	for _, ref := range refs {
		object := &corev1.Secret{}
		err := r.Direct.Get(ctx, client.ObjectKey{Namespace: target.Namespace, Name: ref.Name}, object)
		if apierrors.IsNotFound(err) {
			return &verdict{api.ProviderReasonSecretNotFound, fmt.Sprintf("Secret %s does not exist: create it", ref.Name)}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("get Secret %s: %w", ref.Name, err)
		}
		if _, problem := kube.SecretValue(object, ref.Key); problem != nil {
			return &verdict{api.ProviderReasonSecretNotFound, problem.Message}, nil
		}
	}
	if ref := target.Spec.CABundle; ref != nil {
		object := &corev1.ConfigMap{}
		err := r.Direct.Get(ctx, client.ObjectKey{Namespace: target.Namespace, Name: ref.Name}, object)
		if apierrors.IsNotFound(err) || err == nil && object.Data[ref.Key] == "" && len(object.BinaryData[ref.Key]) == 0 {
			return &verdict{api.ProviderReasonConfigMapNotFound, fmt.Sprintf("ConfigMap %s does not exist or has no key %s: create it", ref.Name, ref.Key)}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("get ConfigMap %s: %w", ref.Name, err)
		}
	}
	return nil, nil
}

func (r *ModelProviderReconciler) report(ctx context.Context, target *api.ModelProvider, problem *verdict) error {
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
	changed.Status.Bound()
	if equality.Semantic.DeepEqual(target.Status, changed.Status) {
		return nil
	}
	return client.IgnoreNotFound(r.Status().Patch(ctx, changed, client.MergeFrom(target)))
}
