package kube

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// maxDepth bounds how far the parents of a run are followed; no subagent may stand deeper.
const maxDepth = 5

// AgentKey is the key of the run's event stream: main, or that of the one call for which a subagent runs.
func AgentKey(run *api.AgentRun) string {
	if run.Spec.Parent == nil {
		return runevent.MainAgent
	}
	call := run.Spec.Parent
	return agent.ChildKey(run.Spec.Agent, call.RunRef.UID, int(call.Turn), call.ToolCallID)
}

// as returns the session as the run's agent has it: itself for main, else with what the subagent's declaration replaces.
// The tokens that are left to a subagent's run stand in its own limits.
func (l *loader) as(run *api.AgentRun, owner *api.AgentSession) (*api.AgentSession, error) {
	if run.Spec.Parent == nil {
		return owner, nil
	}
	at := slices.IndexFunc(owner.Spec.Subagents, func(s api.Subagent) bool { return s.Name == run.Spec.Agent })
	if at < 0 {
		return nil, invalid("spec.agent: the session has no subagent %s", run.Spec.Agent)
	}
	declared := &owner.Spec.Subagents[at]
	var err error
	if l.depth, err = l.depthOf(run); err != nil {
		return nil, err
	}
	if l.depth > int(declared.MaxDepth) {
		return nil, invalid("spec.parent: subagent %s stands at depth %d, its maxDepth is %d", declared.Name, l.depth, declared.MaxDepth)
	}
	out := owner.DeepCopy()
	if declared.Model != nil {
		out.Spec.Model = *declared.Model
	}
	out.Spec.Instructions, out.Spec.Title, out.Spec.MaxTotalTokens = declared.Instructions, api.TitleOff, 0
	out.Spec.ToolServers = slices.DeleteFunc(out.Spec.ToolServers, func(s api.ToolServer) bool { return !slices.Contains(declared.ToolServers, s.Name) })
	out.Spec.Skills = slices.DeleteFunc(out.Spec.Skills, func(s api.Skill) bool { return !slices.Contains(declared.Skills, s.ID) })
	return out, nil
}

// depthOf counts the runs above a run. A parent that is gone counts, but nothing above it is known any more.
func (l *loader) depthOf(run *api.AgentRun) (int, error) {
	depth := 0
	for parent := run.Spec.Parent; parent != nil && depth <= maxDepth; depth++ {
		above := &api.AgentRun{}
		err := l.get(parent.RunRef.Name, above)
		if apierrors.IsNotFound(err) {
			return depth + 1, nil
		}
		if err != nil {
			return 0, err
		}
		parent = above.Spec.Parent
	}
	return depth, nil
}

// subagents are what a run at the loader's depth may delegate to.
func (l *loader) subagents(owner *api.AgentSession) []session.Subagent {
	var out []session.Subagent
	for i := range owner.Spec.Subagents {
		if s := &owner.Spec.Subagents[i]; int(s.MaxDepth) > l.depth {
			out = append(out, session.Subagent{Name: s.Name, Description: s.Description, MaxTurns: int(s.MaxTurns), MaxParallel: int(s.MaxParallel)})
		}
	}
	return out
}

// children makes the runs that one run delegates to.
type children struct {
	source *Source
	parent *api.AgentRun
}

// Ensure implements agent.Children.
func (c *children) Ensure(ctx context.Context, child agent.Child) (agent.ChildState, error) {
	run := &api.AgentRun{}
	key := client.ObjectKey{Namespace: c.parent.Namespace, Name: child.Name}
	err := c.source.Reader.Get(ctx, key, run)
	if apierrors.IsNotFound(err) {
		run = c.run(child)
		if traced := c.source.TraceParent; traced != nil {
			if parent := traced(ctx); parent != "" {
				run.Annotations = map[string]string{api.AnnotationTraceParent: parent}
			}
		}
		err = c.source.Creator.Create(ctx, run)
		if apierrors.IsAlreadyExists(err) {
			err = c.source.Reader.Get(ctx, key, run)
		}
	}
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		return agent.ChildState{}, &agent.Failure{Reason: api.RunReasonInvalidInput, Message: "its AgentRun was refused by the API server", Err: err}
	case err != nil:
		return agent.ChildState{}, fmt.Errorf("make the run of a subagent: %w", err)
	case !c.made(run, child):
		return agent.ChildState{}, &agent.Failure{Reason: api.RunReasonInvalidInput, Message: fmt.Sprintf("another AgentRun has the name %s", child.Name)}
	}
	state := agent.ChildState{Ended: run.IsFinished()}
	for _, condition := range run.Status.Conditions {
		if condition.Type == api.ConditionSucceeded {
			state.Reason = condition.Reason
		}
	}
	return state, nil
}

// call is what a child runs for.
func (c *children) call(child agent.Child) api.ParentCall {
	return api.ParentCall{
		RunRef: api.RunRef{Name: c.parent.Name, UID: string(c.parent.UID)}, ToolCallID: child.CallID,
		Turn: int32(child.Turn),
	}
}

// made says whether a run is the one that was made for the child, and not somebody else's in its place.
func (c *children) made(run *api.AgentRun, child agent.Child) bool {
	call, input := run.Spec.Parent, run.Spec.Input
	return call != nil && *call == c.call(child) && run.Spec.Agent == child.Agent && run.Spec.SessionRef == c.parent.Spec.SessionRef &&
		input != nil && input.Text == child.Task
}

// run is the resource of a child: its parent's limits, but for those that are its own.
func (c *children) run(child agent.Child) *api.AgentRun {
	limits, call := c.parent.Spec.Limits, c.call(child)
	limits.MaxTotalTokens = child.MaxTotalTokens
	if child.MaxTurns > 0 {
		limits.MaxTurns = int32(child.MaxTurns)
	}
	return &api.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.parent.Namespace, Name: child.Name, Labels: map[string]string{api.LabelParent: string(c.parent.UID)}},
		Spec: api.AgentRunSpec{
			SessionRef: c.parent.Spec.SessionRef, Operation: api.OperationPrompt, Input: &api.RunInput{Text: child.Task}, Agent: child.Agent,
			Parent: &call, Limits: limits,
		},
	}
}
