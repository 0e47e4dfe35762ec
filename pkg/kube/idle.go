package kube

import (
	"context"
	"slices"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/session"
)

// Listed asks a provider what it tells about the models that target declares, in their order. Its credential is read
// anew. Errors are those of provider.Describer, or say that the provider cannot be asked as it is declared.
func (s *Source) Listed(ctx context.Context, target *api.ModelProvider) ([]provider.ModelInfo, error) {
	l := loader{Source: s, ctx: ctx, namespace: target.Namespace}
	endpoint, err := l.endpoint(target, protocols[target.Spec.Protocol])
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(target.Spec.Models))
	for i := range ids {
		ids[i] = target.Spec.Models[i].ID
	}
	return s.Describe(ctx, endpoint, ids)
}

// Admits returns what the session allows of tools that were found earlier, by their servers and their names there. Built-in tools
// belong to no server and stay.
func Admits(owner *api.AgentSession) func(server, tool string) bool {
	return func(server, tool string) bool {
		if server == "" {
			return true
		}
		at := slices.IndexFunc(owner.Spec.ToolServers, func(s api.ToolServer) bool { return s.Name == server })
		if at < 0 {
			return false
		}
		allow := owner.Spec.ToolServers[at].Allow
		return slices.Contains(allow, api.ToolsAll) || slices.Contains(allow, tool)
	}
}

// IdleConfig is what a run of the session would work under if it were started now: model, instructions and output
// settings, without a prompt, Skills and runtime context. It returns a *worker.NotReadyError when the session lacks
// something, and reads no Secret.
func (s *Source) IdleConfig(ctx context.Context, owner *api.AgentSession) (session.RunConfig, error) {
	l := loader{Source: s, ctx: ctx, namespace: owner.Namespace}
	target, err := l.target(owner.Spec.Model.ProviderRef.Name)
	if err != nil {
		return session.RunConfig{}, err
	}
	bare := owner.DeepCopy()
	bare.Spec.Context = nil
	return l.config(&api.AgentRun{}, bare, target)
}
