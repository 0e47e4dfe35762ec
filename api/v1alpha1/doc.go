// Package v1alpha1 holds the resources of the API group agentloop.dev: ModelProvider, AgentSession and AgentRun.
//
// Guarantees: the package imports apimachinery only and does no I/O, so that any client can link it; what a single
// object can prove about itself is refused by the schema with a message that says what to do, and what needs another
// object is a condition, so that the order in which manifests are applied does not matter; a reference never leaves its
// namespace; a status holds conditions, counters and digests, and after Bound its JSON is at most MaxStatusBytes long.
//
// +kubebuilder:object:generate=true
// +groupName=agentloop.dev
package v1alpha1
