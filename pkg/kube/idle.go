package kube

import (
	"context"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/session"
)

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
