package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/cluster"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/show"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/viewer"
)

// decideOptions are the flags of approve and deny.
type decideOptions struct {
	*app
	output   format
	decision api.Decision
	call     string
	all      bool
	reason   string
	wait     time.Duration
}

func (a *app) approve() *cobra.Command {
	return a.decision(&decideOptions{app: a, decision: api.DecisionApprove}, "approve", "Let a tool call that waits for a person be made", `  kubectl agentloop approve trip-x2k4p
  kubectl agentloop approve trip-x2k4p --call toolu_01 --reason "checked the address"`)
}

func (a *app) deny() *cobra.Command {
	return a.decision(&decideOptions{app: a, decision: api.DecisionDeny}, "deny", "Refuse a tool call that waits for a person; the model reads the reason", `  kubectl agentloop deny trip-x2k4p --reason "use the test account"
  kubectl agentloop deny trip-x2k4p --all`)
}

func (a *app) decision(o *decideOptions, verb, short, example string) *cobra.Command {
	c := &cobra.Command{
		Use: verb + " RUN", Short: short,
		Long: short + `.

Creates a ToolApproval with your name, as the API server knows it, about the call with exactly the arguments that wait. When several
calls of the run wait, one is chosen with --call, or all with --all. The call's arguments are shown when the viewer can be reached.`,
		Example: example, GroupID: groupWork, Args: exactly(1, "a run"), ValidArgsFunction: a.runNames,
		RunE: func(c *cobra.Command, args []string) error { return o.do(c.Context(), args[0]) },
	}
	o.output.bind(c, formatJSON, formatYAML, formatName)
	c.Flags().StringVar(&o.call, "call", "", "Id of the call")
	c.Flags().BoolVar(&o.all, "all", false, "Decide about every call of the run that waits")
	c.Flags().StringVar(&o.reason, "reason", "", "Why, at most 1024 bytes; it is recorded, and the model reads that of a refusal")
	c.Flags().DurationVar(&o.wait, "wait", 20*time.Second, "How long to wait until the decision stands in the run's events; 0 not at all")
	return c
}

func (o *decideOptions) do(ctx context.Context, name string) error {
	c, err := o.open()
	if err != nil {
		return err
	}
	run, err := c.Run(ctx, strings.TrimPrefix(name, "agentrun."+api.GroupName+"/"))
	if err != nil {
		return err
	}
	calls, err := o.calls(run)
	if err != nil {
		return err
	}
	user, err := c.WhoAmI(ctx)
	if err != nil {
		return err
	}
	if o.output.value == formatText {
		o.arguments(ctx, c, run, calls)
	}
	for _, call := range calls {
		approval := &api.ToolApproval{
			ObjectMeta: metav1.ObjectMeta{GenerateName: run.Name + "-"},
			Spec: api.ToolApprovalSpec{
				RunRef:     api.ApprovalRunRef{Name: run.Name, UID: string(run.UID)},
				ToolCallID: call.ToolCallID, ArgumentsDigest: call.ArgumentsDigest, Decision: o.decision, Reason: o.reason, Approver: user,
			},
		}
		if err := c.Decide(ctx, approval); err != nil {
			return err
		}
		if err := o.tell(ctx, c, approval, call); err != nil {
			return err
		}
	}
	return nil
}

// calls are the calls that are decided about.
func (o *decideOptions) calls(run *api.AgentRun) ([]api.PendingApproval, error) {
	waiting := run.Status.PendingApprovals
	var ids []string
	for _, call := range waiting {
		if call.ToolCallID == o.call {
			return []api.PendingApproval{call}, nil
		}
		ids = append(ids, call.ToolCallID+" ("+call.Tool+")")
	}
	switch {
	case len(waiting) == 0:
		return nil, fmt.Errorf("no call of run %s waits for a person: it is at %s", run.Name, show.State(run))
	case o.call != "":
		return nil, fmt.Errorf("no call %s of run %s waits for a person; those that do: %s", o.call, run.Name, strings.Join(ids, ", "))
	case o.all || len(waiting) == 1:
		return waiting, nil
	}
	return nil, &ExitError{ExitUsage, fmt.Errorf("several calls of run %s wait: choose one with --call, or all with --all: %s", run.Name, strings.Join(ids, ", "))}
}

// arguments shows what the calls would do, if it can be read.
func (o *decideOptions) arguments(ctx context.Context, c *cluster.Cluster, run *api.AgentRun, calls []api.PendingApproval) {
	bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	v, err := viewer.Connect(bounded, c, o.viewing)
	if err != nil {
		o.Streams.Note("%s", o.Streams.ErrPaint().As(faint, fmt.Sprintf("the arguments cannot be shown: %v", err)))
		return
	}
	defer v.Close()
	wanted := map[string]string{}
	for _, call := range calls {
		wanted[call.ToolCallID] = call.Tool
	}
	ids := map[string]string{}
	along := &viewer.Along{Client: v, Session: run.Spec.SessionRef.Name}
	err = along.Next(bounded, func(e viewer.Entry) error {
		if e.Of(string(run.UID)) && (e.Type == viewer.TypeTool || e.Type == viewer.TypeMCP) && wanted[e.ToolCallID] != "" {
			ids[e.ToolCallID] = e.ID
		}
		return nil
	})
	for call, id := range ids {
		var detail *viewer.Detail
		if detail, err = v.Detail(bounded, run.Spec.SessionRef.Name, id); err != nil {
			break
		}
		arguments := json.RawMessage("{}")
		if detail.Tool != nil && detail.Tool.Parameters != nil {
			arguments = detail.Tool.Parameters
		}
		o.Streams.Note("%s calls %s %s", call, wanted[call], arguments)
	}
	if err != nil {
		o.Streams.Note("%s", o.Streams.ErrPaint().As(faint, fmt.Sprintf("the arguments cannot be shown: %v", err)))
	}
}

// tell waits until the decision has been taken up, and says what became of it.
func (o *decideOptions) tell(ctx context.Context, c *cluster.Cluster, approval *api.ToolApproval, call api.PendingApproval) error {
	applied, err := o.applied(ctx, c, approval)
	if err != nil {
		return err
	}
	if o.output.value != formatText {
		return o.object(o.output, approval)
	}
	did := map[api.Decision]string{api.DecisionApprove: "approved", api.DecisionDeny: "denied"}[o.decision]
	switch {
	case applied == nil || applied.Status == metav1.ConditionUnknown:
		return o.print(fmt.Sprintf("toolapproval.%s/%s created: %s %s (%s); a worker has yet to take it up\n", api.GroupName, approval.Name, call.Tool, did, call.ToolCallID))
	case applied.Status == metav1.ConditionFalse:
		return fmt.Errorf("the decision about %s (%s) does not count: %s: %s", call.Tool, call.ToolCallID, applied.Reason, applied.Message)
	}
	return o.print(fmt.Sprintf("toolapproval.%s/%s applied: %s %s (%s)\n", api.GroupName, approval.Name, call.Tool, did, call.ToolCallID))
}

// applied is what became of the decision so far.
func (o *decideOptions) applied(ctx context.Context, c *cluster.Cluster, approval *api.ToolApproval) (*metav1.Condition, error) {
	bounded, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		condition := show.Condition(approval.Status.Conditions, api.ConditionApplied)
		if condition != nil && condition.Status != metav1.ConditionUnknown {
			return condition, nil
		}
		select {
		case <-bounded.Done():
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return condition, nil
		case <-tick.C:
		}
		err := c.Get(bounded, client.ObjectKeyFromObject(approval), approval)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return condition, client.IgnoreNotFound(err)
		}
	}
}
