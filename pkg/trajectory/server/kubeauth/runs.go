package kubeauth

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/pkg/trajectory/server"
)

var _ server.Runs = (*Directory)(nil)

// EndedRuns implements server.Runs. The API server selects the session's runs.
func (d *Directory) EndedRuns(ctx context.Context, namespace, session string) ([]trajectory.Run, error) {
	if !d.has(namespace) {
		return nil, nil
	}
	var out []trajectory.Run
	cursor := ""
	for {
		var page api.AgentRunList
		err := d.client.List(ctx, &page, client.InNamespace(namespace), client.MatchingFields{"spec.sessionRef.name": session}, client.Limit(searchPage), client.Continue(cursor))
		if err != nil {
			return nil, fmt.Errorf("list runs: %w", err)
		}
		for i := range page.Items {
			if run, ended := runOf(&page.Items[i]); ended {
				out = append(out, run)
			}
		}
		if cursor = page.Continue; cursor == "" {
			return out, nil
		}
	}
}

// runOf is an ended run as its resource tells.
func runOf(r *api.AgentRun) (trajectory.Run, bool) {
	succeeded := meta.FindStatusCondition(r.Status.Conditions, api.ConditionSucceeded)
	if succeeded == nil || !r.IsFinished() {
		return trajectory.Run{}, false
	}
	run := trajectory.Run{
		UID: string(r.UID), Name: r.Name, Agent: r.Spec.Agent, Operation: string(r.Spec.Operation), Status: "failed", Reason: succeeded.Reason, Message: succeeded.Message,
		Turns: int(r.Status.Turn), Requests: int(r.Status.ModelRequests), RequestsWithoutUsage: int(r.Status.RequestsWithoutUsage), ToolCalls: int(r.Status.ToolCalls),
	}
	switch {
	case succeeded.Status == "True":
		run.Status = "succeeded"
	case succeeded.Reason == api.RunReasonCancelled:
		run.Status = "cancelled"
	}
	if run.Agent == "" {
		run.Agent = "main"
	}
	if r.Status.StartTime != nil {
		run.StartedAt = trajectory.Time(r.Status.StartTime.UnixMicro())
	}
	if r.Status.CompletionTime != nil {
		run.EndedAt = trajectory.Time(r.Status.CompletionTime.UnixMicro())
	}
	return run, true
}
