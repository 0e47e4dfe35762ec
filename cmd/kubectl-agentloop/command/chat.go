package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/cluster"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/follow"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/show"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/term"
)

const faint = term.Faint

func (a *app) chat() *cobra.Command {
	o := &runOptions{app: a, follow: true, stream: true}
	c := &cobra.Command{
		Use:   "chat SESSION",
		Short: "Talk with a session's agent, line by line",
		Long: `Reads prompts from standard input, one in a line, and writes the agent's answers as they come in. Each line is an AgentRun. A
line that ends with \ goes on in the next one.

Ctrl-C cancels the run that is under way, and ends the chat when there is none; so does the end of the input (Ctrl-D). A run that
fails ends nothing: the next prompt may go well. The exit code is that of the last run, as of kubectl agentloop run.`,
		Example: `  kubectl agentloop chat trip
  printf 'What is in the report?\nAnd what is missing?\n' | kubectl agentloop chat analyst -q`,
		GroupID: groupWork, Args: exactly(1, "a session"), ValidArgsFunction: a.sessionNames,
		RunE: func(c *cobra.Command, args []string) error { return o.talk(c.Context(), args[0]) },
	}
	c.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "Say nothing about the progress")
	c.Flags().StringSliceVar(&o.skills, "skill", nil, "Skill of the session to load for each prompt; may be given several times")
	return c
}

// talk reads and answers until the input ends.
func (o *runOptions) talk(ctx context.Context, session string) error {
	c, err := o.open()
	if err != nil {
		return err
	}
	owner, err := c.Session(ctx, session)
	if err != nil {
		return err
	}
	along, stop := o.along(ctx, c, session)
	defer stop()
	f := &follow.Follower{Cluster: c, Streams: o.Streams, Along: along, Stream: true, Quiet: o.quiet, Every: every}
	if o.Streams.InTerminal && !o.quiet {
		o.Streams.Note("%s", o.Streams.ErrPaint().As(faint, fmt.Sprintf("%s with %s/%s; Ctrl-D ends", session, owner.Spec.Model.ProviderRef.Name, owner.Spec.Model.Model)))
	}
	interrupts, listen := o.Interrupts()
	defer listen()
	lines := o.lines(ctx)
	var last error
	for {
		o.ask()
		prompt, err := next(ctx, lines, interrupts)
		switch {
		case errors.Is(err, io.EOF):
			return last
		case err != nil:
			return err
		}
		if strings.TrimSpace(prompt) == "" {
			continue
		}
		if len(prompt) > maxPrompt {
			o.Streams.Note("the line is longer than 65536 bytes and was not sent")
			continue
		}
		last = o.exchange(ctx, c, f, &api.AgentRun{Spec: api.AgentRunSpec{
			SessionRef: api.SessionRef{Name: session}, Operation: api.OperationPrompt, Input: &api.RunInput{Text: prompt}, Skills: o.skills,
		}}, interrupts)
		if last != nil {
			o.Streams.Note("%s", o.Streams.ErrPaint().As(term.Bad, last.Error()))
			var exit *ExitError
			if !errors.As(last, &exit) {
				return last
			}
			last = &ExitError{Code: exit.Code}
		}
	}
}

// ask shows that a prompt is waited for.
func (o *runOptions) ask() {
	if o.Streams.InTerminal && o.Streams.ErrTerminal {
		fmt.Fprint(o.Streams.Err, o.Streams.ErrPaint().As(term.Strong, "> ")) // nothing is left to report a failure to
	}
}

// line is a prompt, or why there is none.
type line struct {
	text string
	err  error
}

// lines reads prompts in the background, so that Ctrl-C is heard while nobody types. The reader ends with the input, or with
// the program.
func (o *runOptions) lines(ctx context.Context) <-chan line {
	out := make(chan line)
	go func() {
		from := bufio.NewReader(o.Streams.In)
		var prompt strings.Builder
		for {
			text, err := from.ReadString('\n')
			text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
			if before, more := strings.CutSuffix(text, `\`); more && err == nil {
				prompt.WriteString(before + "\n")
				continue
			}
			prompt.WriteString(text)
			if err != nil && prompt.Len() > 0 && errors.Is(err, io.EOF) { // a last line without its end
				err = nil
			}
			select {
			case out <- line{prompt.String(), err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
			prompt.Reset()
		}
	}()
	return out
}

func next(ctx context.Context, lines <-chan line, interrupts <-chan struct{}) (string, error) {
	select {
	case l := <-lines:
		return l.text, l.err
	case <-interrupts:
		return "", io.EOF
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// exchange gives one prompt and follows its run. An interrupt cancels the run, and a second one stops following it.
func (o *runOptions) exchange(ctx context.Context, c *cluster.Cluster, f *follow.Follower, run *api.AgentRun, interrupts <-chan struct{}) error {
	if err := c.CreateRun(ctx, run); err != nil {
		return err
	}
	following, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-interrupts:
		case <-following.Done():
			return
		}
		o.Streams.Note("cancelling run %s", run.Name)
		cancelled := run.DeepCopy()
		if err := c.Cancel(following, cancelled); err != nil && following.Err() == nil {
			o.Streams.Note("%v", err)
		}
		select {
		case <-interrupts:
			stop(ErrInterrupted)
		case <-following.Done():
		}
	}()
	ended, err := f.Follow(following, run)
	if err != nil {
		return o.left(run, err)
	}
	if err := o.answer(ended); err != nil {
		return err
	}
	code := outcome(ended.Run)
	if code == 0 {
		if !o.quiet {
			o.Streams.Note("%s", o.Streams.ErrPaint().As(faint, summary(ended.Run)))
		}
		return nil
	}
	text, do := show.Outcome(ended.Run)
	if do != "" {
		text += "; " + do
	}
	return &ExitError{code, fmt.Errorf("run %s: %s", ended.Run.Name, text)}
}
