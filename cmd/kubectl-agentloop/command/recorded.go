package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/cluster"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/show"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/term"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/viewer"
)

// eventsOptions are the flags of events.
type eventsOptions struct {
	*app
	output      format
	follow, all bool
	run, agent  string
}

func (a *app) events() *cobra.Command {
	o := &eventsOptions{app: a}
	c := &cobra.Command{
		Use:   "events SESSION",
		Short: "List what a session's agents did: requests, answers, tool calls",
		Long: `Lists the entries of the session's trajectory, as the viewer has them. With -f it goes on until Ctrl-C, or with --run until that run
is over; entries that change, as a tool that ends, come again. With -f, -o json writes one entry a line.`,
		Example: `  kubectl agentloop events trip
  kubectl agentloop events trip -f                            # go on
  kubectl agentloop events trip --run trip-x2k4p --all -o json`,
		GroupID: groupRead, Args: exactly(1, "a session"), ValidArgsFunction: a.sessionNames,
		RunE: func(c *cobra.Command, args []string) error { return o.do(c.Context(), args[0]) },
	}
	o.output.bind(c, formatJSON, formatYAML)
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "Go on with what happens")
	c.Flags().BoolVar(&o.all, "all", false, "List also what the viewer hides: starts and ends, increments, saves")
	c.Flags().StringVar(&o.run, "run", "", "List this run's entries only")
	c.Flags().StringVar(&o.agent, "agent", "", "List this agent's entries only")
	return c
}

func (o *eventsOptions) wanted(e viewer.Entry) bool {
	return (o.all || !e.Hidden) && (o.agent == "" || e.Agent == o.agent) && (o.run == "" || e.Run != nil && (e.Run.Name == o.run || e.Run.UID == o.run))
}

func (o *eventsOptions) do(ctx context.Context, session string) error {
	c, v, err := o.reading(ctx)
	if err != nil {
		return err
	}
	defer v.Close()
	along := &viewer.Along{Client: v, Session: session}
	if o.follow {
		return o.along(ctx, c, along)
	}
	var entries []viewer.Entry
	if err := along.Next(ctx, func(e viewer.Entry) error {
		if o.wanted(e) {
			entries = append(entries, e)
		}
		return nil
	}); err != nil {
		return o.missing(ctx, c, session, err)
	}
	if o.output.value != formatText {
		raw := make([]json.RawMessage, len(entries))
		for i, e := range entries {
			raw[i] = e.Raw
		}
		return o.list(o.output, raw)
	}
	o.notices(along.Notices)
	if len(entries) == 0 {
		o.Streams.Note("nothing was recorded yet")
		return nil
	}
	table := term.Table{Headers: show.EventHeaders()}
	for _, e := range entries {
		table.AddCells(show.EventCells(e, o.Zone)...)
	}
	return o.print(table.String(o.Streams.Paint()))
}

func (a *app) notices(notices []viewer.Notice) {
	if text := show.Notices(notices, a.Streams.ErrPaint()); text != "" {
		a.Streams.Note("%s", strings.TrimSuffix(text, "\n"))
	}
}

// missing explains that the viewer knows no such session: names near to it help more than the viewer's own words.
func (a *app) missing(ctx context.Context, c *cluster.Cluster, session string, err error) error {
	if !viewer.Missing(err) {
		return err
	}
	if _, near := c.Session(ctx, session); near != nil {
		return fmt.Errorf("%w. A deleted session's history is named by its UID", near)
	}
	return err
}

// along lists entries as they come, until the run is over or somebody interrupts.
func (o *eventsOptions) along(ctx context.Context, c *cluster.Cluster, along *viewer.Along) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var run *api.AgentRun
	for away, noted := 0, false; ; {
		over := false
		if o.run != "" {
			var err error
			if run, err = c.Run(ctx, o.run); err != nil && !errors.Is(err, cluster.ErrNotFound) {
				return err
			}
			over = err != nil || run.IsFinished()
		}
		err := along.Next(ctx, o.one)
		switch {
		case err == nil:
			away = 0
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case viewer.Passing(err) && away < 100:
			away, over = away+1, false
		default:
			return o.missing(ctx, c, along.Session, err)
		}
		if !noted && err == nil {
			o.notices(along.Notices)
			noted = true
		}
		if over {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// one writes an entry.
func (o *eventsOptions) one(e viewer.Entry) error {
	if !o.wanted(e) {
		return nil
	}
	switch o.output.value {
	case formatJSON:
		var line bytes.Buffer
		if err := json.Compact(&line, e.Raw); err != nil {
			return err
		}
		return o.print(line.String() + "\n")
	case formatYAML:
		if err := o.print("---\n"); err != nil {
			return err
		}
		return o.document(o.output, e.Raw)
	}
	return o.show(show.EventLine(e, o.Zone, o.Streams.Paint()) + "\n")
}

func (a *app) messages() *cobra.Command {
	var output format
	var limit int
	var agent string
	var full bool
	c := &cobra.Command{
		Use:   "messages SESSION",
		Short: "Show the conversation",
		Example: `  kubectl agentloop messages trip              # the newest twenty messages
  kubectl agentloop messages trip --limit 0 --full -o json`,
		GroupID: groupRead, Args: exactly(1, "a session"), ValidArgsFunction: a.sessionNames,
		RunE: func(c *cobra.Command, args []string) error {
			connection, v, err := a.reading(c.Context())
			if err != nil {
				return err
			}
			defer v.Close()
			page, err := newest(c.Context(), v, args[0], agent, limit)
			if err != nil {
				return a.missing(c.Context(), connection, args[0], err)
			}
			return a.conversation(page, output, full)
		},
	}
	output.bind(c, formatJSON, formatYAML)
	c.Flags().IntVar(&limit, "limit", 20, "How many of the newest messages; 0 for all")
	c.Flags().StringVar(&agent, "agent", "", "Key of the agent whose conversation is shown; the main agent when empty")
	c.Flags().BoolVar(&full, "full", false, "Show long arguments, results and thoughts whole")
	return c
}

// maxPage is the largest page of messages that the viewer gives.
const maxPage = 1000

// newest reads the newest messages, page by page backwards.
func newest(ctx context.Context, v *viewer.Client, session, agent string, limit int) (*viewer.Messages, error) {
	size := maxPage
	if limit > 0 {
		size = min(limit, maxPage)
	}
	out, err := v.Messages(ctx, session, agent, size, "")
	if err != nil {
		return nil, err
	}
	for out.Previous != "" && (limit == 0 || len(out.Messages) < limit) {
		page, err := v.Messages(ctx, session, agent, maxPage, out.Previous)
		if err != nil {
			return nil, err
		}
		out.Messages, out.Previous = append(page.Messages, out.Messages...), page.Previous
	}
	if limit > 0 && len(out.Messages) > limit {
		out.Messages = out.Messages[len(out.Messages)-limit:]
	}
	return out, nil
}

func (a *app) conversation(page *viewer.Messages, output format, full bool) error {
	if output.value != formatText {
		raw := make([]json.RawMessage, len(page.Messages))
		for i, m := range page.Messages {
			raw[i] = m.Raw
		}
		return a.list(output, raw)
	}
	a.notices(page.Notices)
	if page.Total == 0 {
		a.Streams.Note("nothing was said yet")
		return nil
	}
	if shown := len(page.Messages); shown < page.Total {
		a.Streams.Note("the newest %d of %d messages; --limit shows more", shown, page.Total)
	}
	var texts []string
	for _, m := range page.Messages {
		texts = append(texts, show.Message(m, a.Zone, full, a.Streams.Paint()))
	}
	return a.show(strings.Join(texts, "\n"))
}

func (a *app) inputs() *cobra.Command {
	var output format
	var full bool
	var run string
	c := &cobra.Command{
		Use:   "inputs SESSION [ID]",
		Short: "List model inputs, or show one with the source of each message",
		Long: `Without an ID it lists the inputs of the session's model requests. With one it shows that input as it was fixed before it was sent:
system prompt, tools, and each message with where it came from (history, summary, runtime context, tool repair). ID is an entry's id,
a sequence of the main agent, or last.`,
		Example: `  kubectl agentloop inputs trip
  kubectl agentloop inputs trip last
  kubectl agentloop inputs trip run.main.14 -o json`,
		GroupID: groupRead, Args: between(1, 2, "a session and at most an input's id"), ValidArgsFunction: a.sessionNames,
		RunE: func(c *cobra.Command, args []string) error {
			connection, v, err := a.reading(c.Context())
			if err != nil {
				return err
			}
			defer v.Close()
			entries, err := inputsOf(c.Context(), v, args[0], run)
			if err != nil {
				return a.missing(c.Context(), connection, args[0], err)
			}
			if len(args) == 1 {
				return a.listInputs(entries, output)
			}
			return a.oneInput(c.Context(), v, args[0], entries, args[1], output, full)
		},
	}
	output.bind(c, formatJSON, formatYAML)
	c.Flags().BoolVar(&full, "full", false, "Show long texts whole")
	c.Flags().StringVar(&run, "run", "", "List this run's inputs only")
	return c
}

func inputsOf(ctx context.Context, v *viewer.Client, session, run string) ([]viewer.Entry, error) {
	var out []viewer.Entry
	along := &viewer.Along{Client: v, Session: session}
	err := along.Next(ctx, func(e viewer.Entry) error {
		if e.Type == viewer.TypeInput && (run == "" || e.Run != nil && e.Run.Name == run) {
			out = append(out, e)
		}
		return nil
	})
	return out, err
}

func (a *app) listInputs(entries []viewer.Entry, output format) error {
	if output.value != formatText {
		raw := make([]json.RawMessage, len(entries))
		for i, e := range entries {
			raw[i] = e.Raw
		}
		return a.list(output, raw)
	}
	if len(entries) == 0 {
		a.Streams.Note("no model request was recorded yet")
		return nil
	}
	table := term.Table{Headers: []string{"ID", "TIME", "RUN", "TURN", "PURPOSE", "MODEL", "STATUS", "TOOK"}}
	for _, e := range entries {
		cells := show.EventCells(e, a.Zone)
		table.AddCells(term.Cell{Text: e.ID, Colour: term.Link}, cells[1], cells[3], term.Cell{Text: strconv.Itoa(e.Turn)}, term.Cell{Text: e.Purpose}, term.Cell{Text: e.Model}, cells[6], cells[7])
	}
	return a.print(table.String(a.Streams.Paint()))
}

func (a *app) oneInput(ctx context.Context, v *viewer.Client, session string, entries []viewer.Entry, id string, output format, full bool) error {
	at := slices.IndexFunc(entries, func(e viewer.Entry) bool {
		return e.ID == id || e.Agent == api.AgentMain && strconv.FormatInt(e.Sequence, 10) == id
	})
	if id == "last" {
		at = len(entries) - 1
	}
	if at < 0 {
		return fmt.Errorf("session %s has no input %s: kubectl agentloop inputs %s lists them", session, id, session)
	}
	detail, err := v.Detail(ctx, session, entries[at].ID)
	if err != nil {
		return err
	}
	if output.value != formatText {
		return a.document(output, detail.Raw)
	}
	if detail.Input == nil {
		return fmt.Errorf("input %s cannot be read any more: kubectl agentloop events %s shows the notices", entries[at].ID, session)
	}
	paint := a.Streams.Paint()
	text := show.Input(detail, a.Zone, full, paint)
	if detail.Assembly != nil && detail.Assembly.Budget != nil {
		text += "\n" + paint.As(term.Strong, "Budget") + "\n" + show.Budget(detail.Assembly.Budget.API(), paint)
	}
	return a.show(text)
}
