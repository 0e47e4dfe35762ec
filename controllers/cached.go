package controllers

import (
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
)

// Cached takes from an object, before a cache keeps it, what neither the controllers nor workers read there. There may be
// many thousand runs, most of them over, and a prompt may be long. A patch is made of the difference between two states of
// what was kept, so it leaves the rest as it is.
func Cached(object any) (any, error) {
	if o, err := meta.Accessor(object); err == nil {
		o.SetManagedFields(nil)
		if notes := o.GetAnnotations(); notes[corev1.LastAppliedConfigAnnotation] != "" {
			delete(notes, corev1.LastAppliedConfigAnnotation)
		}
		o.SetNamespace(unique.Make(o.GetNamespace()).Value())
	}
	switch o := object.(type) {
	case *api.AgentRun:
		cachedRun(o)
	case *api.AgentSession:
		shareTexts(&o.ObjectMeta, o.Status.Conditions)
	}
	return object, nil
}

// cachedRun leaves of a run what decides about it, and of one that has ended what decides about others.
func cachedRun(run *api.AgentRun) {
	run.Spec.Input, run.Spec.Sampling = nil, nil
	if run.IsFinished() {
		run.Labels, run.Annotations, run.Spec.Skills = nil, nil, nil
		run.Status = endedStatus(&run.Status)
	}
	shareTexts(&run.ObjectMeta, run.Status.Conditions)
}

// endedStatus is what is asked of a run that has ended: when and how, as which one of its session's, how far the log was
// then, and what it tells about its provider.
func endedStatus(whole *api.AgentRunStatus) api.AgentRunStatus {
	kept := api.AgentRunStatus{
		ObservedGeneration: whole.ObservedGeneration, Ordinal: whole.Ordinal, StartTime: whole.StartTime, CompletionTime: whole.CompletionTime,
		LastSequence: whole.LastSequence,
	}
	if whole.ContextBudget != nil {
		kept.ContextBudget = &api.ContextBudget{Provider: whole.ContextBudget.Provider}
	}
	if whole.Usage != nil {
		kept.Usage = &api.TokenUsage{}
	}
	for _, c := range whole.Conditions {
		if c.Type == api.ConditionSucceeded || c.Type == api.ConditionFinished {
			c.Message = ""
			kept.Conditions = append(kept.Conditions, c)
		}
	}
	return kept
}

// shareTexts keeps texts once that many objects have.
func shareTexts(o *metav1.ObjectMeta, conditions []metav1.Condition) {
	o.Finalizers = slices.Clip(o.Finalizers)
	for i, name := range o.Finalizers {
		o.Finalizers[i] = unique.Make(name).Value()
	}
	for i := range o.OwnerReferences {
		owner := &o.OwnerReferences[i]
		owner.APIVersion, owner.Kind = unique.Make(owner.APIVersion).Value(), unique.Make(owner.Kind).Value()
	}
	for i := range conditions {
		c := &conditions[i]
		c.Type, c.Reason, c.Message = unique.Make(c.Type).Value(), unique.Make(c.Reason).Value(), unique.Make(c.Message).Value()
	}
}
