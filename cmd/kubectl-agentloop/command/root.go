// Package command has the plugin's commands: what they are called, what they take, and what they print.
//
// Guarantees: results go to standard output and progress to standard error; the exit code tells how it went, as
// docs/operations/kubectl.md lists; a wrong command line is said before anything is done.
package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/cluster"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/term"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/viewer"
)

// Environment is what the program hands to its commands.
type Environment struct {
	Streams *term.Streams
	// ViewerURL is --viewer-url for who does not give it.
	ViewerURL string
	// Getenv reads the environment, for the credentials that local is told to take from there.
	Getenv func(string) string
	// Program is the program's own file, which local starts for code that models write.
	Program string
	// Browse opens a page; Interrupts tells of Ctrl-C while somebody listens, until stop is called.
	Browse     func(address string) error
	Interrupts func() (interrupts <-chan struct{}, stop func())
	// Zone is where times are shown.
	Zone *time.Location
}

// app is what the commands share.
type app struct {
	Environment
	kube    *genericclioptions.ConfigFlags
	viewing viewer.Options
}

// every is the pause between two looks at what is followed.
const every = 300 * time.Millisecond

// New makes the plugin's command.
func New(env Environment) *cobra.Command {
	a := &app{Environment: env, kube: genericclioptions.NewConfigFlags(true)}
	root := &cobra.Command{
		Use:   "kubectl-agentloop",
		Short: "Work with agents in Kubernetes from the command line",
		Long: `Gives prompts to agents, follows what they do, decides about their tool calls, and reads and checks what was recorded.

Prompts, runs and decisions go to the API server. What agents said and did is read from agentloop's viewer: at --viewer-url, or
through a port-forward to its Service.`,
		Example: `  kubectl agentloop run trip "Plan two days in Lisbon." -f    # give a prompt, wait for the answer
  kubectl agentloop chat trip                                 # talk, line by line
  kubectl agentloop events trip -f                            # see what it does
  kubectl agentloop budget trip                               # see how full its context is
  kubectl agentloop local -f session.yaml                     # run agents without a cluster`,
		SilenceErrors: true, SilenceUsage: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl agentloop"},
	}
	root.SetIn(env.Streams.In)
	root.SetOut(env.Streams.Out)
	root.SetErr(env.Streams.Err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usageError(c, err) })
	a.kube.AddFlags(root.PersistentFlags())
	hideFlags(root.PersistentFlags())
	flags := root.PersistentFlags()
	flags.StringVar(&a.viewing.URL, "viewer-url", env.ViewerURL, "Address of the viewer; empty forwards a port to its Service. AGENTLOOP_VIEWER_URL sets it as well")
	flags.StringVar(&a.viewing.Namespace, "viewer-namespace", "", "Namespace of the viewer's Service; empty looks in all that you may look in")
	flags.StringVar(&a.viewing.CAFile, "viewer-ca-file", "", "Certificates in PEM that the viewer's is checked against, instead of the system's")
	flags.StringVar(&a.viewing.TokenFile, "viewer-token-file", "", "File with the bearer token for the viewer, instead of the kubeconfig's")
	flags.StringVar(&a.viewing.Account, "viewer-account", "", "ServiceAccount whose token is asked for and shown to the viewer, as NAMESPACE/NAME")
	root.AddGroup(&cobra.Group{ID: groupWork, Title: "Working with agents:"}, &cobra.Group{ID: groupRead, Title: "Reading what was recorded:"}, &cobra.Group{ID: groupOther, Title: "Other:"})
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	root.AddCommand(
		a.run(), a.chat(), a.compact(), a.cancel(), a.approve(), a.deny(),
		a.runs(), a.describe(), a.budget(), a.events(), a.messages(), a.inputs(), a.export(), a.view(),
		a.verify(), a.local(),
	)
	return root
}

const (
	groupWork  = "work"
	groupRead  = "read"
	groupOther = "other"
)

// shownFlags are those of kubectl's flags that help texts list; the others are there as well.
var shownFlags = []string{"namespace", "context", "kubeconfig", "as"}

// hideFlags keeps help texts readable.
func hideFlags(flags *pflag.FlagSet) {
	flags.VisitAll(func(flag *pflag.Flag) { flag.Hidden = !slices.Contains(shownFlags, flag.Name) })
}

// The exit codes.
const (
	ExitFailed   = 1
	ExitUsage    = 2
	ExitRun      = 3
	ExitRefused  = 4
	ExitBudget   = 5
	ExitLimit    = 6
	ExitProvider = 7
	ExitCancel   = 8
	ExitTimeout  = 9
	ExitStopped  = 130
)

// ExitError ends the program with a code. Err is nil when everything was said.
type ExitError struct {
	Code int
	Err  error
}

// Error returns what is to be said.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// ErrInterrupted is the cause with which Ctrl-C ends a command.
var ErrInterrupted = errors.New("interrupted")

// Code is the exit code of a command's error.
func Code(err error) int {
	var exit *ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	case errors.Is(err, ErrInterrupted):
		return ExitStopped
	case strings.HasPrefix(err.Error(), "unknown command"):
		return ExitUsage
	}
	return ExitFailed
}

// usageError is what is wrong with a command line, and where to read on.
func usageError(c *cobra.Command, err error) error {
	return &ExitError{ExitUsage, fmt.Errorf("%w\nSee %s --help", err, c.CommandPath())}
}

// exactly wants a number of arguments and says which.
func exactly(n int, what string) cobra.PositionalArgs {
	return between(n, n, what)
}

// between wants from least to most arguments.
func between(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		return usageError(c, fmt.Errorf("%s takes %s; %d arguments were given", c.CommandPath(), what, len(args)))
	}
}

// open connects to the cluster.
func (a *app) open() (*cluster.Cluster, error) { return cluster.Open(a.kube) }

// reading connects to the cluster and its viewer.
func (a *app) reading(ctx context.Context) (*cluster.Cluster, *viewer.Client, error) {
	c, err := a.open()
	if err != nil {
		return nil, nil, err
	}
	v, err := viewer.Connect(ctx, c, a.viewing)
	return c, v, err
}

// sessionNames completes the first argument.
func (a *app) sessionNames(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(c, "AgentSession")
}

// runNames completes every argument.
func (a *app) runNames(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(c, "AgentRun")
}

func (a *app) complete(c *cobra.Command, kind string) ([]string, cobra.ShellCompDirective) {
	connection, err := a.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
	defer cancel()
	return connection.Names(ctx, kind), cobra.ShellCompDirectiveNoFileComp
}
