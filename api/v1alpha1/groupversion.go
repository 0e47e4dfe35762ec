package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind of this package.
const GroupName = "agentloop.dev"

var (
	// GroupVersion is the group and the version under which the kinds are served.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the kinds in a scheme. It returns an error only when another type already has one of the names.
	AddToScheme = schemeBuilder.AddToScheme
)

// Kind names, as they stand in manifests and owner references.
const (
	KindModelProvider = "ModelProvider"
	KindAgentSession  = "AgentSession"
	KindAgentRun      = "AgentRun"
	KindToolApproval  = "ToolApproval"
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ModelProvider{}, &ModelProviderList{},
		&AgentSession{}, &AgentSessionList{},
		&AgentRun{}, &AgentRunList{},
		&ToolApproval{}, &ToolApprovalList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
