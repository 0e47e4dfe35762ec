package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/cluster"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/follow"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/show"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/viewer"
)

// maxPrompt is the longest prompt that a run itself holds, in bytes.
const maxPrompt = 64 << 10

// runOptions are the flags of run.
type runOptions struct {
	*app
	output    format
	follow    bool
	stream    bool
	quiet     bool
	timeout   time.Duration
	name      string
	skills    []string
	maxTurns  int32
	maxTokens int64
	deadline  time.Duration
	ttl       time.Duration
	// streamChosen and ttlChosen say that the flags were given.
	streamChosen, ttlChosen bool
}

func (a *app) run() *cobra.Command {
	o := &runOptions{app: a}
	c := &cobra.Command{
		Use:   "run SESSION PROMPT",
		Short: "Give a session's agent a prompt",
		Long: `Creates an AgentRun with the prompt; - reads the prompt from standard input.

With -f it follows the run until it is over: the answer goes to standard output, what happens meanwhile to standard error. On a
terminal the agent's texts are shown as they come in. The exit code tells how the run ended: 0 it succeeded, 3 it failed, 4 it was
refused, 5 a request did not fit the model, 6 a limit was reached, 7 the provider or a tool server failed, 8 it was cancelled, 9
--timeout was over first. Ctrl-C stops following; the run goes on.`,
		Example: `  kubectl agentloop run trip "Plan two days in Lisbon."              # start it and return
  kubectl agentloop run trip "Plan two days in Lisbon." -f           # wait for the answer
  git diff | kubectl agentloop run reviewer - -f > review.md         # the prompt from a pipe
  kubectl agentloop run trip "Go on." -f --max-turns=5 --skill=maps`,
		GroupID: groupWork, Args: exactly(2, "a session and a prompt"), ValidArgsFunction: a.sessionNames,
		RunE: func(c *cobra.Command, args []string) error {
			o.streamChosen, o.ttlChosen = c.Flags().Changed("stream"), c.Flags().Changed("ttl")
			return o.do(c.Context(), args[0], args[1])
		},
	}
	o.output.bind(c, formatJSON, formatYAML, formatName)
	flags := c.Flags()
	flags.BoolVarP(&o.follow, "follow", "f", false, "Follow the run until it is over and print the answer")
	flags.BoolVar(&o.stream, "stream", false, "With -f, write the agent's texts as they come in, those before the answer too; on a terminal by itself")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "Say nothing about the progress")
	flags.DurationVar(&o.timeout, "timeout", 0, "With -f, how long to follow; 0 for as long as it takes")
	flags.StringVar(&o.name, "name", "", "Name of the AgentRun; made from the session's when empty")
	flags.StringSliceVar(&o.skills, "skill", nil, "Skill of the session to load for this prompt; may be given several times")
	flags.Int32Var(&o.maxTurns, "max-turns", 0, "Most turns that the run may take")
	flags.Int64Var(&o.maxTokens, "max-tokens", 0, "Most tokens that the run may use, input and output together")
	flags.DurationVar(&o.deadline, "deadline", 0, "How long the run may be active")
	flags.DurationVar(&o.ttl, "ttl", 0, "How long the AgentRun is kept when it is over; as long as the session says when not given")
	return c
}

func (o *runOptions) do(ctx context.Context, session, prompt string) error {
	text, err := o.prompt(prompt)
	if err != nil {
		return err
	}
	c, err := o.open()
	if err != nil {
		return err
	}
	owner, err := c.Session(ctx, session)
	if err != nil {
		return err
	}
	run := &api.AgentRun{Spec: api.AgentRunSpec{
		SessionRef: api.SessionRef{Name: owner.Name}, Operation: api.OperationPrompt, Input: &api.RunInput{Text: text}, Skills: o.skills,
		Limits: api.RunLimits{MaxTurns: o.maxTurns, MaxTotalTokens: o.maxTokens, ActiveDeadlineSeconds: seconds(o.deadline)},
	}}
	run.Name = o.name
	if o.ttlChosen {
		run.Spec.TTLSecondsAfterFinished = ptr.To(seconds(o.ttl))
	}
	if !o.streamChosen {
		o.stream = o.Streams.OutTerminal
	}
	return o.start(ctx, c, run)
}

// seconds is a duration in whole seconds, at least one of what is more than nothing.
func seconds(d time.Duration) int32 {
	return int32((d + time.Second - 1) / time.Second)
}

// prompt is the argument, or what standard input has.
func (o *runOptions) prompt(given string) (string, error) {
	if given == "-" {
		raw, err := io.ReadAll(io.LimitReader(o.Streams.In, maxPrompt+1))
		if err != nil {
			return "", fmt.Errorf("read the prompt from standard input: %w", err)
		}
		given = strings.TrimRight(string(raw), "\n")
	}
	switch {
	case strings.TrimSpace(given) == "":
		return "", &ExitError{ExitUsage, errors.New("the prompt is empty")}
	case len(given) > maxPrompt:
		return "", &ExitError{ExitUsage, errors.New("the prompt is longer than 65536 bytes: put it into a ConfigMap (kubectl create configmap NAME --from-file=prompt=FILE) and name that in an AgentRun's spec.input.configMapKeyRef")}
	}
	return given, nil
}

// start creates the run and follows it if that is wanted.
func (o *runOptions) start(ctx context.Context, c *cluster.Cluster, run *api.AgentRun) error {
	if !o.follow {
		if err := c.CreateRun(ctx, run); err != nil {
			return err
		}
		if o.output.value != formatText {
			return o.object(o.output, run)
		}
		return o.print(fmt.Sprintf("agentrun.%s/%s created\n", api.GroupName, run.Name))
	}
	along, stop := o.along(ctx, c, run.Spec.SessionRef.Name)
	defer stop()
	if err := c.CreateRun(ctx, run); err != nil {
		return err
	}
	if !o.quiet {
		o.Streams.Note("agentrun.%s/%s created", api.GroupName, run.Name)
	}
	following, cancel := ctx, context.CancelFunc(func() {})
	if o.timeout > 0 {
		following, cancel = context.WithTimeoutCause(ctx, o.timeout, errTimeout)
	}
	defer cancel()
	f := &follow.Follower{Cluster: c, Streams: o.Streams, Along: along, Stream: o.stream && o.output.value == formatText, Quiet: o.quiet, Every: every}
	ended, err := f.Follow(following, run)
	if err != nil {
		return o.left(run, err)
	}
	return o.tell(ended)
}

var errTimeout = errors.New("--timeout is over")

// left says that a run goes on that is not followed any more.
func (o *runOptions) left(run *api.AgentRun, err error) error {
	hint := fmt.Sprintf("run %s goes on: kubectl agentloop events %s --run %s -f -n %s shows it, kubectl agentloop cancel %s -n %s stops it",
		run.Name, run.Spec.SessionRef.Name, run.Name, run.Namespace, run.Name, run.Namespace)
	switch {
	case errors.Is(err, errTimeout):
		return &ExitError{ExitTimeout, fmt.Errorf("%w; %s", err, hint)}
	case errors.Is(err, ErrInterrupted):
		return &ExitError{ExitStopped, errors.New(hint)}
	}
	return err
}

// along begins to read a session's trajectory at its end. Without a viewer it says so and returns nil.
func (o *runOptions) along(ctx context.Context, c *cluster.Cluster, session string) (*viewer.Along, func()) {
	v, err := viewer.Connect(ctx, c, o.viewing)
	if err == nil {
		along := &viewer.Along{Client: v, Session: session}
		if err = along.Skip(ctx); err == nil {
			return along, v.Close
		}
		v.Close()
	}
	o.Streams.Note("%s", o.Streams.ErrPaint().As(faint, fmt.Sprintf("only the run's status is followed, without answer: %v", err)))
	return nil, func() {}
}

// tell prints the answer and turns the outcome into an exit code.
func (o *runOptions) tell(ended follow.Ended) error {
	run := ended.Run
	if o.output.value != formatText {
		if err := o.object(o.output, run); err != nil {
			return err
		}
	} else if err := o.answer(ended); err != nil {
		return err
	}
	code := outcome(run)
	if code == 0 {
		if !o.quiet {
			o.Streams.Note("%s", o.Streams.ErrPaint().As(faint, summary(run)))
		}
		return nil
	}
	text, do := show.Outcome(run)
	failed := fmt.Sprintf("run %s: %s", run.Name, text)
	if do != "" {
		failed += "\nWhat to do: " + do
	}
	return &ExitError{code, errors.New(failed)}
}

func (o *runOptions) answer(ended follow.Ended) error {
	switch {
	case ended.Streamed || ended.Run.Spec.Operation == api.OperationCompact || outcome(ended.Run) != 0:
		return nil
	case ended.Known:
		return o.print(o.Streams.Safe(strings.TrimSuffix(ended.Answer, "\n")) + "\n")
	case ended.Answer != "":
		o.Streams.Note("the answer begins so; all of it is in the trajectory:")
		return o.print(o.Streams.Safe(ended.Answer) + "\n")
	}
	o.Streams.Note("the answer is in the trajectory: kubectl agentloop messages %s -n %s", ended.Run.Spec.SessionRef.Name, ended.Run.Namespace)
	return nil
}

// summary is what a run took, in a line.
func summary(run *api.AgentRun) string {
	text := fmt.Sprintf("%s: %s, turns %d, tool calls %d", run.Name, show.State(run), run.Status.Turn, run.Status.ToolCalls)
	if u := run.Status.Usage; u != nil && u.Input != nil && u.Output != nil {
		text += fmt.Sprintf(", tokens %s in, %s out", show.Grouped(*u.Input), show.Grouped(*u.Output))
	}
	if b := run.Status.ContextBudget; b != nil && b.UsedPercent != nil {
		text += fmt.Sprintf(", context %d%% full", *b.UsedPercent)
	}
	return text
}

// outcome is the exit code of a run that is over.
func outcome(run *api.AgentRun) int {
	reason := show.State(run)
	if c := show.Condition(run.Status.Conditions, api.ConditionSucceeded); c != nil && c.Status == "True" {
		return 0
	}
	if code, known := outcomes[reason]; known {
		return code
	}
	return ExitRun
}

// outcomes are the exit codes of failed runs by reason; the others have ExitRun.
var outcomes = map[string]int{
	api.RunReasonSessionNotFound: ExitRefused, api.RunReasonSessionNotReady: ExitRefused, api.RunReasonInvalidInput: ExitRefused,
	api.RunReasonQueueDeadlineExceeded: ExitRefused,
	api.RunReasonContextBudgetExceeded: ExitBudget, api.RunReasonOutputCapRejected: ExitBudget,
	api.RunReasonMaxTurnsExceeded: ExitLimit, api.RunReasonTokenLimitExceeded: ExitLimit, api.RunReasonDeadlineExceeded: ExitLimit,
	api.RunReasonProviderAuthFailed: ExitProvider, api.RunReasonProviderRejected: ExitProvider, api.RunReasonProviderUnavailable: ExitProvider,
	api.RunReasonRateLimited: ExitProvider, api.RunReasonToolServerUnavailable: ExitProvider,
	api.RunReasonCancelled: ExitCancel, api.RunReasonSessionDeleted: ExitCancel,
}
