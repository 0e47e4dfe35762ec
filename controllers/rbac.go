// Package controllers reconciles the resources of agentloop.dev: it observes, decides without side effects, acts and
// reports. It is the only writer of status and never waits for a model, a tool, the stream or the object store.
package controllers

// The controllers' own permissions. Secrets and ConfigMaps are read one by one and never listed or watched.
//
// +kubebuilder:rbac:roleName=agentloop-controllers,groups=agentloop.dev,resources=agentsessions,verbs=get;list;watch;patch
// +kubebuilder:rbac:roleName=agentloop-controllers,groups=agentloop.dev,resources=agentruns,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:roleName=agentloop-controllers,groups=agentloop.dev,resources=modelproviders,verbs=get;list;watch
// +kubebuilder:rbac:roleName=agentloop-controllers,groups=agentloop.dev,resources=toolapprovals,verbs=get;list;watch;patch
// +kubebuilder:rbac:roleName=agentloop-controllers,groups=agentloop.dev,resources=agentsessions/status;agentruns/status;modelproviders/status;toolapprovals/status,verbs=patch
// +kubebuilder:rbac:roleName=agentloop-controllers,groups=agentloop.dev,resources=agentsessions/finalizers;agentruns/finalizers,verbs=update
// +kubebuilder:rbac:roleName=agentloop-controllers,groups="",resources=secrets;configmaps,verbs=get
// +kubebuilder:rbac:roleName=agentloop-controllers,groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:roleName=agentloop-controllers,groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:roleName=agentloop-controllers,groups=coordination.k8s.io,namespace=agentloop-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:roleName=agentloop-controllers,groups="",namespace=agentloop-system,resources=events,verbs=create;patch

// The workers' permissions: they read what a run needs and what was decided, create the runs of subagents, and write no
// status.
//
// +kubebuilder:rbac:roleName=agentloop-workers,groups=agentloop.dev,resources=agentsessions;modelproviders,verbs=get;list;watch
// +kubebuilder:rbac:roleName=agentloop-workers,groups=agentloop.dev,resources=agentruns,verbs=get;list;watch;create
// +kubebuilder:rbac:roleName=agentloop-workers,groups=agentloop.dev,resources=toolapprovals,verbs=list
// +kubebuilder:rbac:roleName=agentloop-workers,groups="",resources=secrets;configmaps,verbs=get
