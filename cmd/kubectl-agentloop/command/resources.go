package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/cluster"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/show"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/term"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/viewer"
)

func (a *app) runs() *cobra.Command {
	var output format
	var everywhere bool
	c := &cobra.Command{
		Use:   "runs [SESSION]",
		Short: "List runs with their state, turns and tokens",
		Example: `  kubectl agentloop runs              # of the namespace
  kubectl agentloop runs trip         # of one session
  kubectl agentloop runs -A -o name   # of all namespaces, names only`,
		GroupID: groupRead, Args: between(0, 1, "at most a session"), ValidArgsFunction: a.sessionNames,
		RunE: func(c *cobra.Command, args []string) error {
			session := ""
			if len(args) > 0 {
				session = args[0]
			}
			return a.listRuns(c.Context(), session, everywhere, output)
		},
	}
	output.bind(c, formatJSON, formatYAML, formatName)
	c.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "List the runs of all namespaces")
	return c
}

func (a *app) listRuns(ctx context.Context, session string, everywhere bool, output format) error {
	c, err := a.open()
	if err != nil {
		return err
	}
	list, err := c.Runs(ctx, session, everywhere)
	if err != nil {
		return err
	}
	if output.value != formatText {
		return a.object(output, list)
	}
	if len(list.Items) > 0 {
		return a.print(show.Runs(list.Items, everywhere, time.Now(), a.Streams.Paint()))
	}
	if session != "" {
		if _, err := c.Session(ctx, session); err != nil {
			return err
		}
		a.Streams.Note("session %s has no runs in namespace %s", session, c.Namespace)
		return nil
	}
	a.Streams.Note("there are no runs in %s", where(c, everywhere))
	return nil
}

func where(c *cluster.Cluster, everywhere bool) string {
	if everywhere {
		return "any namespace"
	}
	return "namespace " + c.Namespace
}

func (a *app) describe() *cobra.Command {
	c := &cobra.Command{
		Use:   "describe [session/|run/]NAME",
		Short: "Say how a session or a run is, what its conditions mean, and what to do",
		Example: `  kubectl agentloop describe trip           # the session of that name, else the run
  kubectl agentloop describe run/trip-x2k4p`,
		GroupID: groupRead, Args: exactly(1, "the name of a session or a run"), ValidArgsFunction: a.sessionNames,
		RunE: func(c *cobra.Command, args []string) error { return a.describeOne(c.Context(), args[0]) },
	}
	return c
}

func (a *app) describeOne(ctx context.Context, given string) error {
	kind, name, named := strings.Cut(given, "/")
	if !named {
		kind, name = "", given
	}
	c, err := a.open()
	if err != nil {
		return err
	}
	switch strings.ToLower(kind) {
	case "run", "arun", "agentrun", "agentruns":
		return a.describeRun(ctx, c, name)
	case "", "session", "asess", "agentsession", "agentsessions":
	default:
		return &ExitError{ExitUsage, fmt.Errorf("%s: use session/NAME or run/NAME", given)}
	}
	session, err := c.Session(ctx, name)
	if errors.Is(err, cluster.ErrNotFound) && kind == "" {
		if a.describeRun(ctx, c, name) == nil {
			return nil
		}
	}
	if err != nil {
		return err
	}
	runs, err := c.Runs(ctx, name, false)
	if err != nil {
		return err
	}
	return a.show(show.Session(session, runs.Items, time.Now(), a.Streams.Paint()))
}

func (a *app) describeRun(ctx context.Context, c *cluster.Cluster, name string) error {
	run, err := c.Run(ctx, name)
	if err != nil {
		return err
	}
	return a.show(show.Run(run, time.Now(), a.Streams.Paint()))
}

func (a *app) budget() *cobra.Command {
	var output format
	c := &cobra.Command{
		Use:   "budget SESSION",
		Short: "Say how full the session's context is",
		Long: `Shows the estimate of the next request without a new prompt, as the session's status has it, and, when the viewer can be reached,
what the latest request measured when its input was captured. Estimates are agentloop's own; a provider may count otherwise.`,
		Example: `  kubectl agentloop budget trip
  kubectl agentloop budget trip -o json`,
		GroupID: groupRead, Args: exactly(1, "a session"), ValidArgsFunction: a.sessionNames,
		RunE: func(c *cobra.Command, args []string) error { return a.showBudget(c.Context(), args[0], output) },
	}
	output.bind(c, formatJSON, formatYAML)
	return c
}

// budgets is what budget prints as a document.
type budgets struct {
	Session string             `json:"session"`
	Next    *api.ContextBudget `json:"next,omitempty"`
	Latest  *captured          `json:"latest,omitempty"`
}

// captured is the budget of an input that was captured.
type captured struct {
	Input      string         `json:"input"`
	CapturedAt viewer.Time    `json:"capturedAt"`
	Status     string         `json:"status"`
	Dispatched bool           `json:"dispatched"`
	Budget     *viewer.Budget `json:"budget"`
}

func (a *app) showBudget(ctx context.Context, name string, output format) error {
	c, err := a.open()
	if err != nil {
		return err
	}
	session, err := c.Session(ctx, name)
	if err != nil {
		return err
	}
	out := budgets{Session: name, Next: session.Status.ContextBudget}
	if out.Latest, err = a.latestInput(ctx, c, name); err != nil {
		a.Streams.Note("%s", a.Streams.ErrPaint().As(faint, fmt.Sprintf("without the latest request: %v", err)))
	}
	if output.value != formatText {
		return a.value(output, out)
	}
	paint := a.Streams.Paint()
	text := paint.As(term.Strong, "Next request, without a new prompt") + "\n" + show.Budget(out.Next, paint)
	if l := out.Latest; l != nil {
		text += "\n" + paint.As(term.Strong, fmt.Sprintf("Latest request (%s, %s, %s)", l.Input, show.At(l.CapturedAt, a.Zone), l.Status)) + "\n" + show.Budget(l.Budget.API(), paint)
	}
	return a.show(text)
}

// latestInput is what was measured of the newest request of the main agent.
func (a *app) latestInput(ctx context.Context, c *cluster.Cluster, session string) (*captured, error) {
	v, err := viewer.Connect(ctx, c, a.viewing)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	var last *viewer.Entry
	along := &viewer.Along{Client: v, Session: session}
	err = along.Next(ctx, func(e viewer.Entry) error {
		if e.Type == viewer.TypeInput && e.Purpose == viewer.PurposeMain && e.Agent == api.AgentMain {
			last = &e
		}
		return nil
	})
	if err != nil || last == nil {
		return nil, err
	}
	detail, err := v.Detail(ctx, session, last.ID)
	if err != nil || detail.Assembly == nil || detail.Assembly.Budget == nil {
		return nil, err
	}
	return &captured{Input: last.ID, CapturedAt: last.CapturedAt, Status: last.Status, Dispatched: detail.Assembly.Dispatched, Budget: detail.Assembly.Budget}, nil
}

func (a *app) compact() *cobra.Command {
	o := &runOptions{app: a}
	c := &cobra.Command{
		Use:   "compact SESSION",
		Short: "Let a summary stand for older history in later requests",
		Long: `Creates an AgentRun with the operation Compact. The history itself is never changed. The exit codes with -f are those of kubectl
agentloop run.`,
		Example: `  kubectl agentloop compact trip -f`,
		GroupID: groupWork, Args: exactly(1, "a session"), ValidArgsFunction: a.sessionNames,
		RunE: func(c *cobra.Command, args []string) error {
			connection, err := o.open()
			if err != nil {
				return err
			}
			owner, err := connection.Session(c.Context(), args[0])
			if err != nil {
				return err
			}
			run := &api.AgentRun{Spec: api.AgentRunSpec{SessionRef: api.SessionRef{Name: owner.Name}, Operation: api.OperationCompact}}
			run.Name = o.name
			return o.start(c.Context(), connection, run)
		},
	}
	o.output.bind(c, formatJSON, formatYAML, formatName)
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "Follow the run until it is over")
	c.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "Say nothing about the progress")
	c.Flags().DurationVar(&o.timeout, "timeout", 0, "With -f, how long to follow; 0 for as long as it takes")
	c.Flags().StringVar(&o.name, "name", "", "Name of the AgentRun; made from the session's when empty")
	return c
}

func (a *app) cancel() *cobra.Command {
	var wait bool
	var session string
	c := &cobra.Command{
		Use:   "cancel RUN...",
		Short: "Stop runs",
		Long: `Sets spec.cancel of the runs, which cannot be taken back. What a run has completed is kept; subagents that it waits for are cancelled
with it. A run that is over is left as it is.`,
		Example: `  kubectl agentloop cancel trip-x2k4p
  kubectl agentloop cancel --session trip --wait   # every run of the session that is not over`,
		GroupID: groupWork, ValidArgsFunction: a.runNames,
		Args: func(c *cobra.Command, args []string) error {
			if (len(args) == 0) == (session == "") {
				return usageError(c, errors.New("name runs, or a session with --session"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.cancelAll(c.Context(), args, session, wait) },
	}
	c.Flags().BoolVar(&wait, "wait", false, "Wait until the runs are over")
	c.Flags().StringVar(&session, "session", "", "Cancel every run of the session that is not over")
	return c
}

func (a *app) cancelAll(ctx context.Context, names []string, session string, wait bool) error {
	c, err := a.open()
	if err != nil {
		return err
	}
	runs, err := a.toCancel(ctx, c, names, session)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if run.IsFinished() {
			a.Streams.Note("run %s is over already: %s", run.Name, show.State(run))
			continue
		}
		if err := c.Cancel(ctx, run); err != nil {
			return err
		}
		if err := a.print(fmt.Sprintf("agentrun.%s/%s cancelling\n", api.GroupName, run.Name)); err != nil {
			return err
		}
	}
	for _, run := range runs {
		if !wait {
			break
		}
		if err := waitFor(ctx, c, run, (*api.AgentRun).IsFinished); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) toCancel(ctx context.Context, c *cluster.Cluster, names []string, session string) ([]*api.AgentRun, error) {
	var out []*api.AgentRun
	if session != "" {
		if _, err := c.Session(ctx, session); err != nil {
			return nil, err
		}
		list, err := c.Runs(ctx, session, false)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if !list.Items[i].IsFinished() {
				out = append(out, &list.Items[i])
			}
		}
		if len(out) == 0 {
			a.Streams.Note("session %s has no run that is not over", session)
		}
		return out, nil
	}
	for _, name := range names {
		run, err := c.Run(ctx, strings.TrimPrefix(name, "agentrun."+api.GroupName+"/"))
		if err != nil {
			return nil, err
		}
		out = append(out, run)
	}
	return out, nil
}

// waitFor waits until something is true of a run.
func waitFor(ctx context.Context, c *cluster.Cluster, run *api.AgentRun, done func(*api.AgentRun) bool) error {
	for {
		current, err := c.Run(ctx, run.Name)
		if err != nil || done(current) {
			return err
		}
		changes, stop, err := c.Changes(ctx, current)
		if err != nil {
			return err
		}
		for changed := range changes {
			if done(changed) {
				stop()
				return nil
			}
		}
		stop()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
