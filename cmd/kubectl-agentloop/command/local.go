package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/local"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/show"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/term"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// localOptions are the flags of local.
type localOptions struct {
	*app
	output   format
	files    []string
	keep     string
	secrets  []string
	approve  string
	serve    bool
	quiet    bool
	verbose  bool
	answered *bufio.Reader
}

func (a *app) local() *cobra.Command {
	o := &localOptions{app: a}
	c := &cobra.Command{
		Use:   "local -f FILES",
		Short: "Run agents on this machine, without a cluster",
		Long: `Executes the AgentRuns of manifests in their order, with the same engine that workers run, and prints their answers. Manifests are
those that kubectl apply takes: ModelProvider, AgentSession, AgentRun, Secret and ConfigMap. They are checked against their schemas;
rules that only an API server checks are not.

With --keep the histories stay in a folder. Used again it goes on with them: runs that are over are not executed again, new ones
continue the conversation. With --serve the event log of the folder is served on loopback until Ctrl-C, for manager verify and the
viewer. The exit code is that of the first run that failed, as of kubectl agentloop run; Ctrl-C cancels the run that is under way.`,
		Example: `  kubectl agentloop local -f provider.yaml -f session.yaml --secret model-key/api-key=ANTHROPIC_API_KEY
  kubectl agentloop local -f agents/ --keep ~/agents
  kubectl agentloop local -f agents/ --keep ~/agents --serve`,
		GroupID: groupOther, Args: exactly(0, "no arguments but flags"),
		RunE: func(c *cobra.Command, _ []string) error { return o.do(c.Context()) },
	}
	o.output.bind(c, formatJSON, formatYAML, formatName)
	flags := c.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "Manifests: a file, a folder, or - for standard input; may be given several times")
	flags.StringVar(&o.keep, "keep", "", "Folder that keeps events and objects; without it they are removed at the end")
	flags.StringArrayVar(&o.secrets, "secret", nil, "Credential from the environment, as SECRET/KEY=VARIABLE; may be given several times")
	flags.StringVar(&o.approve, "approve", "ask", "What becomes of calls that need approval: ask (denied when nobody can be asked), all, none")
	flags.BoolVar(&o.serve, "serve", false, "When the runs are over, serve the event log on loopback until Ctrl-C; takes --keep")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "Say nothing about the progress")
	flags.BoolVar(&o.verbose, "verbose", false, "Write the engine's log to standard error")
	return c
}

// options checks the flags.
func (o *localOptions) options() (local.Options, error) {
	out := local.Options{Files: o.files, Stdin: o.Streams.In, Namespace: "default", Dir: o.keep, Program: o.Program, Credentials: map[string]string{}, Decide: o.decide}
	if *o.kube.Namespace != "" {
		out.Namespace = *o.kube.Namespace
	}
	out.Logger = slog.New(slog.DiscardHandler)
	if o.verbose {
		out.Logger = slog.New(slog.NewTextHandler(o.Streams.Err, nil))
	}
	if !o.quiet {
		out.Progress = o.progress
	}
	switch {
	case len(o.files) == 0:
		return out, &ExitError{ExitUsage, errors.New("name manifests with -f")}
	case o.serve && o.keep == "":
		return out, &ExitError{ExitUsage, errors.New("--serve takes --keep: without it there is nothing left to serve")}
	case !slices.Contains([]string{"ask", "all", "none"}, o.approve):
		return out, &ExitError{ExitUsage, fmt.Errorf("--approve %s: use ask, all or none", o.approve)}
	case o.approve == "ask" && slices.Contains(o.files, "-"):
		o.approve = "none" // standard input has the manifests
	}
	if o.serve {
		out.Listen = "127.0.0.1"
	}
	for _, given := range o.secrets {
		place, variable, ok := strings.Cut(given, "=")
		name, key, both := strings.Cut(place, "/")
		if !ok || !both || name == "" || key == "" {
			return out, &ExitError{ExitUsage, fmt.Errorf("--secret %s: use SECRET/KEY=VARIABLE", place)}
		}
		value := o.Getenv(variable)
		if value == "" {
			return out, &ExitError{ExitUsage, fmt.Errorf("--secret %s: the environment has no %s", place, variable)}
		}
		out.Credentials[place] = value
	}
	return out, nil
}

func (o *localOptions) do(ctx context.Context) (err error) {
	opts, err := o.options()
	if err != nil {
		return err
	}
	l, err := local.Open(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	runs := l.Runs()
	if len(runs) == 0 && !o.serve {
		return errors.New("the manifests have no AgentRun: add one, for example with kubectl agentloop local -f session.yaml -f run.yaml")
	}
	var failed error
	for _, run := range runs {
		outcome, err := l.Run(ctx, run)
		if err != nil {
			return err
		}
		if err := o.tell(outcome, len(runs) > 1); err != nil && failed == nil {
			failed = err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if o.serve {
		o.serving(ctx, l)
	}
	return failed
}

// tell prints a run's answer, or why there is none.
func (o *localOptions) tell(ended local.Outcome, several bool) error {
	run := ended.Run
	code := outcome(run)
	if o.output.value != formatText {
		run.SetGroupVersionKind(api.GroupVersion.WithKind(api.KindAgentRun))
		if err := o.object(o.output, runtime.Object(run)); err != nil {
			return err
		}
	} else if code == 0 && run.Spec.Operation != api.OperationCompact {
		if several && !o.quiet {
			o.Streams.Note("%s", o.Streams.ErrPaint().As(term.Strong, run.Name+":"))
		}
		if err := o.print(o.Streams.Safe(strings.TrimSuffix(ended.Answer, "\n")) + "\n"); err != nil {
			return err
		}
	}
	if code == 0 {
		return nil
	}
	text, do := show.Outcome(run)
	failed := fmt.Sprintf("run %s: %s", run.Name, text)
	if do != "" {
		failed += "\nWhat to do: " + do
	}
	return &ExitError{code, errors.New(failed)}
}

// progress tells of an entry as it is stored.
func (o *localOptions) progress(entry runevent.Entry) {
	e, text := entry.Event, ""
	switch e.Type {
	case runevent.TypeRunStarted:
		text = "run " + e.RunName + " started"
		if e.Attempt > 1 {
			text = fmt.Sprintf("run %s goes on", e.RunName)
		}
	case runevent.TypeToolStarted:
		text = e.Name + " is called"
	case runevent.TypeToolResult:
		text = e.Name + " has answered"
		if e.IsError {
			text = e.Name + " has failed"
		}
	case runevent.TypeSubagentStarted:
		text = "the task goes to subagent " + e.Agent
	case runevent.TypeModelFailed:
		text = "the model request failed: " + e.Message
	case runevent.TypeRecord:
		if e.Kind == runevent.KindContextCaptured && e.Purpose == runevent.PurposeMain {
			text = fmt.Sprintf("turn %d: the model is asked", e.Evidence.Turn)
		}
	}
	if text != "" {
		o.Streams.Note("%s", o.Streams.ErrPaint().As(faint, text))
	}
}

// decide asks the person at the terminal about a call.
func (o *localOptions) decide(ctx context.Context, run string, call local.Call) (approve bool, who, reason string, err error) {
	switch {
	case o.approve == "all":
		return true, "local", "approved by --approve=all", nil
	case o.approve == "none" || !o.Streams.InTerminal:
		return false, "local", "nobody can be asked", nil
	}
	o.Streams.Note("run %s calls %s %s", run, o.Streams.ErrPaint().As(term.Attention, call.Tool), call.Arguments)
	fmt.Fprint(o.Streams.Err, "Approve? [y/N, or why not] ") // nothing is left to report a failure to
	if o.answered == nil {
		o.answered = bufio.NewReader(o.Streams.In)
	}
	said := make(chan string, 1)
	go func() {
		line, _ := o.answered.ReadString('\n') // the end of the input is no approval
		said <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return false, "", "", context.Cause(ctx)
	case line := <-said:
		switch strings.ToLower(line) {
		case "y", "yes":
			return true, "local", "", nil
		case "", "n", "no":
			return false, "local", "", nil
		}
		return false, "local", line, nil
	}
}

// serving tells how the folder is read, until Ctrl-C.
func (o *localOptions) serving(ctx context.Context, l *local.Local) {
	stores := fmt.Sprintf("--nats-url %s --store fs --store-dir %s", l.EventLog(), l.Objects())
	o.Streams.Note("serving the event log of %s; Ctrl-C ends", o.keep)
	for name, uid := range l.Sessions() {
		namespace, _, _ := strings.Cut(name, "/")
		o.Streams.Note("  manager verify %s --namespace %s --session %s", stores, namespace, uid)
	}
	o.Streams.Note("  viewer %s", stores)
	<-ctx.Done()
}
