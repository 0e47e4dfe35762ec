package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas"
)

// FieldApprovalRun is the field by which the ToolApprovals of a run are selected. It is of a name: a later run of the same
// name has them too.
const FieldApprovalRun = "spec.runRef.name"

// approvals are the decisions about the calls of one run.
type approvals struct {
	reader              client.Reader
	namespace, run, uid string
}

// Decisions implements agent.Approvals. It reads past any cache, so that a decision which woke the run is among them.
func (a *approvals) Decisions(ctx context.Context) ([]agent.Decision, error) {
	list := &api.ToolApprovalList{}
	if err := a.reader.List(ctx, list, client.InNamespace(a.namespace), client.MatchingFields{FieldApprovalRun: a.run}); err != nil {
		return nil, fmt.Errorf("list the decisions about run %s: %w", a.run, err)
	}
	var out []agent.Decision
	for _, approval := range InOrder(list.Items) {
		decision, err := DecisionOf(approval)
		if err == nil && approval.Spec.RunRef.UID == a.uid {
			out = append(out, decision)
		}
	}
	return out, nil
}

// InOrder sorts decisions by when they were made; those of the same second by name.
func InOrder(all []api.ToolApproval) []*api.ToolApproval {
	out := make([]*api.ToolApproval, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	slices.SortFunc(out, func(x, y *api.ToolApproval) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.Name, y.Name))
	})
	return out
}

// DecisionOf is what a ToolApproval says. The API server knows only the second in which it was made, and the end of that
// counts: a decision that came after a call's time was over never looks as if it came before.
func DecisionOf(approval *api.ToolApproval) (agent.Decision, error) {
	digest, err := cas.ParseDigest(approval.Spec.ArgumentsDigest)
	if err != nil {
		return agent.Decision{}, fmt.Errorf("argumentsDigest: %w", err)
	}
	return agent.Decision{
		ID: string(approval.UID), CallID: approval.Spec.ToolCallID, ArgumentsDigest: digest, Approve: approval.Spec.Decision == api.DecisionApprove,
		At:       approval.CreationTimestamp.Truncate(time.Second).Add(time.Second - time.Nanosecond),
		Approver: approval.Spec.Approver, Reason: approval.Spec.Reason,
	}, nil
}
