// Package cluster is the plugin's way to the API server: it finds sessions and runs, creates runs and decisions, and asks for
// tokens.
//
// Guarantees: it asks for nothing but what a command needs, without discovery; an error says in words what to do about it
// (which name was meant, which permission is missing, that agentloop is not installed).
package cluster

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
)

// Cluster is a connection with the namespace that a command works in.
type Cluster struct {
	client.WithWatch
	// Config is how the API server is reached.
	Config *rest.Config
	// Namespace is that of the flags, else that of the kubeconfig's context.
	Namespace string
}

// Open reads the kubeconfig that the flags name. It does no I/O beyond that.
func Open(flags *genericclioptions.ConfigFlags) (*Cluster, error) {
	loader := flags.ToRawKubeConfigLoader()
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to talk to: %w; name a kubeconfig with --kubeconfig or KUBECONFIG, or work without a cluster with `kubectl agentloop local`", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, err
	}
	config.UserAgent = "kubectl-agentloop"
	scheme := Scheme()
	connection, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper()})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return &Cluster{WithWatch: connection, Config: config, Namespace: namespace}, nil
}

// Scheme has every type that the plugin reads or writes.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{api.AddToScheme, corev1.AddToScheme, authenticationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // two types of one name: a fault of this program
		}
	}
	return scheme
}

// mapper knows the resources of the kinds, so that the API server is not asked for all that it has.
func mapper() meta.RESTMapper {
	out := meta.NewDefaultRESTMapper([]schema.GroupVersion{api.GroupVersion, corev1.SchemeGroupVersion, authenticationv1.SchemeGroupVersion})
	for _, kind := range []string{api.KindAgentSession, api.KindAgentRun, api.KindModelProvider, api.KindToolApproval} {
		out.Add(api.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Service", "Pod", "ServiceAccount"} {
		out.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	out.Add(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), meta.RESTScopeRoot)
	return out
}

// WhoAmI is the name under which the API server knows the caller.
func (c *Cluster) WhoAmI(ctx context.Context) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return "", fmt.Errorf("ask the API server who you are: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// Session finds a session by its name.
func (c *Cluster) Session(ctx context.Context, name string) (*api.AgentSession, error) {
	session := &api.AgentSession{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, session); err != nil {
		return nil, c.explain(ctx, err, access{verb: "get", resource: "agentsessions", name: name, kind: api.KindAgentSession})
	}
	session.SetGroupVersionKind(api.GroupVersion.WithKind(api.KindAgentSession))
	return session, nil
}

// Run finds a run by its name.
func (c *Cluster) Run(ctx context.Context, name string) (*api.AgentRun, error) {
	run := &api.AgentRun{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, run); err != nil {
		return nil, c.explain(ctx, err, access{verb: "get", resource: "agentruns", name: name, kind: api.KindAgentRun})
	}
	run.SetGroupVersionKind(api.GroupVersion.WithKind(api.KindAgentRun))
	return run, nil
}

// Runs lists the runs of a session, or all when it is empty, of the command's namespace or of all of them.
func (c *Cluster) Runs(ctx context.Context, session string, everywhere bool) (*api.AgentRunList, error) {
	list := &api.AgentRunList{}
	var opts []client.ListOption
	if !everywhere {
		opts = append(opts, client.InNamespace(c.Namespace))
	}
	if session != "" {
		opts = append(opts, client.MatchingFields{"spec.sessionRef.name": session})
	}
	if err := c.List(ctx, list, opts...); err != nil {
		return nil, c.explain(ctx, err, access{verb: "list", resource: "agentruns", everywhere: everywhere})
	}
	list.SetGroupVersionKind(api.GroupVersion.WithKind(api.KindAgentRun + "List"))
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(api.GroupVersion.WithKind(api.KindAgentRun))
	}
	return list, nil
}

// CreateRun creates a run. Its name is generated from the session's when it has none.
func (c *Cluster) CreateRun(ctx context.Context, run *api.AgentRun) error {
	run.Namespace = c.Namespace
	if run.Name == "" {
		run.GenerateName = run.Spec.SessionRef.Name + "-"
	}
	if err := c.Create(ctx, run, client.FieldOwner("kubectl-agentloop")); err != nil {
		return c.explain(ctx, err, access{verb: "create", resource: "agentruns", name: run.Name})
	}
	run.SetGroupVersionKind(api.GroupVersion.WithKind(api.KindAgentRun))
	return nil
}

// Cancel asks a run to stop.
func (c *Cluster) Cancel(ctx context.Context, run *api.AgentRun) error {
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancel":true}}`))
	if err := c.Patch(ctx, run, patch, client.FieldOwner("kubectl-agentloop")); err != nil {
		return c.explain(ctx, err, access{verb: "patch", resource: "agentruns", name: run.Name, kind: api.KindAgentRun})
	}
	return nil
}

// Decide records a decision about a call that waits for a person.
func (c *Cluster) Decide(ctx context.Context, approval *api.ToolApproval) error {
	approval.Namespace = c.Namespace
	if err := c.Create(ctx, approval, client.FieldOwner("kubectl-agentloop")); err != nil {
		return c.explain(ctx, err, access{verb: "create", resource: "toolapprovals"})
	}
	approval.SetGroupVersionKind(api.GroupVersion.WithKind(api.KindToolApproval))
	return nil
}

// Changes watches one run from the state in which it was read.
func (c *Cluster) Changes(ctx context.Context, run *api.AgentRun) (<-chan *api.AgentRun, func(), error) {
	watching, err := c.Watch(ctx, &api.AgentRunList{}, &client.ListOptions{Namespace: run.Namespace, Raw: &metav1.ListOptions{
		FieldSelector: "metadata.name=" + run.Name, ResourceVersion: run.ResourceVersion,
	}})
	if err != nil {
		return nil, nil, c.explain(ctx, err, access{verb: "watch", resource: "agentruns", name: run.Name})
	}
	changes := make(chan *api.AgentRun)
	go func() {
		defer close(changes)
		for event := range watching.ResultChan() {
			changed, ok := event.Object.(*api.AgentRun)
			if !ok || event.Type == watch.Deleted { // the caller reads the run and watches again, or learns that it is gone
				return
			}
			changed.SetGroupVersionKind(api.GroupVersion.WithKind(api.KindAgentRun))
			select {
			case changes <- changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return changes, watching.Stop, nil
}
