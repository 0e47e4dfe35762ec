package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/viewer"
)

// viewOptions are the flags of view.
type viewOptions struct {
	*app
	noOpen, conversation bool
	port                 int
}

func (a *app) view() *cobra.Command {
	o := &viewOptions{app: a}
	c := &cobra.Command{
		Use:   "view [SESSION]",
		Short: "Open the viewer's page in the browser",
		Long: `Opens the trajectory of the session, or the list of sessions, and serves it on loopback until Ctrl-C. You need no token of your own: the
command puts one into each request on its way to the viewer, your kubeconfig's or a short-lived one of the viewer's access account. It
stays in this process. The address that is opened is good once, for one browser.`,
		Example: `  kubectl agentloop view trip
  kubectl agentloop view trip --no-open      # print the address
  kubectl agentloop view                     # the list of sessions`,
		GroupID: groupRead, Args: between(0, 1, "at most a session"), ValidArgsFunction: a.sessionNames,
		RunE: func(c *cobra.Command, args []string) error {
			session := ""
			if len(args) > 0 {
				session = args[0]
			}
			return o.do(c.Context(), session)
		},
	}
	c.Flags().BoolVar(&o.noOpen, "no-open", false, "Print the address instead of opening it")
	c.Flags().BoolVar(&o.conversation, "conversation", false, "Open the conversation instead of the trajectory")
	c.Flags().IntVar(&o.port, "port", 0, "Port of loopback to serve on; 0 chooses one")
	return c
}

func (o *viewOptions) do(ctx context.Context, session string) error {
	c, v, err := o.reading(ctx)
	if err != nil {
		return err
	}
	defer v.Close()
	page := "/?namespace=" + c.Namespace
	if session != "" {
		// Asked before a page is opened, so that what is wrong is said here.
		if _, err := v.Trajectory(ctx, session, ""); err != nil {
			return o.missing(ctx, c, session, err)
		}
		view := "trajectory"
		if o.conversation {
			view = ""
		}
		page = v.Page(session, view)
	}
	door, err := viewer.Open(v, o.port, page)
	if err != nil {
		return err
	}
	if o.noOpen {
		err = o.print(door.Address + "\n")
	} else if err = o.Browse(door.Address); err != nil {
		o.Streams.Note("no browser could be started (%v); open this:", err)
		err = o.print(door.Address + "\n")
	}
	if err != nil {
		return err
	}
	o.Streams.Note("%s", fmt.Sprintf("serving %s; Ctrl-C ends", page))
	if err := door.Serve(ctx); err != nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, ErrInterrupted) {
		return cause
	}
	return nil
}
