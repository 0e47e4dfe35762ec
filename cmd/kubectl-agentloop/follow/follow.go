// Package follow goes along with a run until it is over: it tells what happens, streams the answer, and knows how the run
// ended. It polls the viewer, and where there is none it has the run's status alone.
//
// Guarantees: it ends when the run is over, when its context ends, or when the API server stays away; nothing is told twice; the
// answer that it returns is the one that was recorded.
package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/cluster"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/show"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/term"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/viewer"
)

// Follower follows runs of one session, one at a time.
type Follower struct {
	Cluster *cluster.Cluster
	Streams *term.Streams
	// Along reads the session's trajectory; nil when no viewer can be reached.
	Along *viewer.Along
	// Stream writes the agent's texts to Streams.Out as they come in.
	Stream bool
	// Quiet tells nothing about the progress.
	Quiet bool
	// Every is the pause between two looks.
	Every time.Duration
}

// Ended is what is known of a run that is over.
type Ended struct {
	Run *api.AgentRun
	// Answer is the agent's last text, Known whether it could be read. Streamed says that it was written to Out already.
	Answer          string
	Known, Streamed bool
}

// following is one run while it is followed.
type following struct {
	*Follower
	run *api.AgentRun
	// state is what was told last of the run's status.
	state string
	// told has what was told of an entry, printed how much of a text.
	told    map[string]string
	printed map[string]int
	texts   map[string]bool
	// purposes says what requests are for.
	purposes map[string]string
	// answer is the entry of the latest response.
	answer *viewer.Entry
	// open says that a streamed text does not end its line yet.
	open bool
	// away is how often in a row the viewer did not answer.
	away int
}

// patience is how often in a row the viewer may not answer before the rest is told from the run's status.
const patience = 20

// Follow goes along with a run until it is over.
func (f *Follower) Follow(ctx context.Context, run *api.AgentRun) (Ended, error) {
	g := &following{Follower: f, run: run, told: map[string]string{}, printed: map[string]int{}, texts: map[string]bool{}, purposes: map[string]string{}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, stop, err := f.Cluster.Changes(ctx, run)
	if err != nil {
		return Ended{Run: run}, err
	}
	defer func() { stop() }()
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	for !g.run.IsFinished() {
		g.status()
		select {
		case <-ctx.Done():
			g.endLine()
			return Ended{Run: g.run}, context.Cause(ctx)
		case changed, ok := <-changes:
			if ok {
				g.run = changed
				continue
			}
			stop()
			if changes, stop, err = g.again(ctx); err != nil {
				return Ended{Run: g.run}, err
			}
			continue
		case <-tick.C:
		}
		if err := g.look(ctx); err != nil {
			g.endLine()
			return Ended{Run: g.run}, err
		}
	}
	if err := g.look(ctx); err != nil {
		return Ended{Run: g.run}, err
	}
	return g.ended(ctx)
}

// again reads the run and watches it from there, after a watch has ended.
func (g *following) again(ctx context.Context) (<-chan *api.AgentRun, func(), error) {
	for attempt := 1; ; attempt++ {
		run, err := g.Cluster.Run(ctx, g.run.Name)
		if err == nil {
			g.run = run
			changes, stop, err := g.Cluster.Changes(ctx, run)
			if err == nil {
				return changes, stop, nil
			}
		}
		nothing := func() {}
		switch {
		case errors.Is(err, cluster.ErrNotFound):
			return nil, nothing, fmt.Errorf("run %s was deleted while it was followed", g.run.Name)
		case ctx.Err() != nil:
			return nil, nothing, context.Cause(ctx)
		case attempt == patience:
			return nil, nothing, err
		}
		timer := time.NewTimer(g.Every)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// status tells where the run is, as far as its entries do not.
func (g *following) status() {
	c := show.Condition(g.run.Status.Conditions, api.ConditionSucceeded)
	if c == nil || c.Status != metav1.ConditionUnknown || c.Reason+c.Message == g.state {
		return
	}
	g.state = c.Reason + c.Message
	if g.Along != nil && toldByEntries[c.Reason] {
		return
	}
	text, do := show.Outcome(g.run)
	if c.Reason == api.RunReasonAwaitingApproval {
		do = "kubectl agentloop approve " + g.run.Name + " -n " + g.run.Namespace + ", or deny"
	}
	if do != "" {
		text += "; " + do
	}
	colour := term.Faint
	if c.Reason == api.RunReasonAwaitingApproval {
		colour = term.Attention
	}
	g.note(colour, "%s", text)
}

// toldByEntries are the states that a run's entries show better.
var toldByEntries = map[string]bool{
	api.RunReasonStarting: true, api.RunReasonAssemblingRequest: true, api.RunReasonModelCall: true, api.RunReasonToolCall: true,
}

func (g *following) note(colour term.Colour, format string, args ...any) {
	if g.Quiet {
		return
	}
	g.endLine()
	g.Streams.Note("%s", g.Streams.ErrPaint().As(colour, fmt.Sprintf(format, args...)))
}

// look tells what was recorded since the last look.
func (g *following) look(ctx context.Context) error {
	if g.Along == nil {
		return nil
	}
	err := g.Along.Next(ctx, func(e viewer.Entry) error { return g.entry(ctx, e) })
	switch {
	case err == nil:
		g.away = 0
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case viewer.Passing(err) && g.away < patience:
		g.away++
		return nil
	}
	g.note(term.Attention, "going on without the viewer: %v", err)
	g.Along = nil
	return nil
}

// entry tells of one entry.
func (g *following) entry(ctx context.Context, e viewer.Entry) error {
	if !e.Of(string(g.run.UID)) {
		return nil
	}
	now := ""
	if e.Type == viewer.TypeInput {
		g.purposes[e.Request] = e.Purpose
	}
	switch {
	case e.Type == viewer.TypeInput && e.Status == viewer.StatusPending && e.Purpose == viewer.PurposeMain:
		now = fmt.Sprintf("turn %d: %s is asked", e.Turn, e.Model)
	case e.Type == viewer.TypeInput && e.Status == viewer.StatusPending:
		now = fmt.Sprintf("%s is asked for a %s", e.Model, e.Purpose)
	case e.Type == viewer.TypeInput && e.Status != "completed":
		now = fmt.Sprintf("turn %d: the request to %s is %s", e.Turn, e.Model, e.Status)
	case e.Type == viewer.TypeOutput && e.Purpose == viewer.PurposeMain:
		kept := e
		g.answer = &kept
		return g.text(ctx, e)
	case e.Type == viewer.TypeTool || e.Type == viewer.TypeMCP:
		now = e.Title + " " + e.Status
		if took := show.Took(e.StartedAt, e.EndedAt); took != "" {
			now += " in " + took
		}
	case e.Type == viewer.TypeLifecycle && e.Event == viewer.EventBody:
		return g.text(ctx, e)
	}
	if now != "" && g.told[e.ID] != now {
		g.told[e.ID] = now
		g.note(term.Faint, "%s", now)
	}
	return nil
}

// text writes what a text has grown by. The increments of a response and the response itself have the same text: the latter
// counts for what the former did not have.
func (g *following) text(ctx context.Context, e viewer.Entry) error {
	if !g.Stream || g.purposes[e.Request] != viewer.PurposeMain {
		return nil
	}
	detail, err := g.Along.Client.Detail(ctx, g.Along.Session, e.ID)
	if err != nil {
		return err
	}
	text := ""
	switch {
	case detail.Text != nil:
		text = detail.Text.Text
	case detail.Output != nil:
		text = detail.Output.Message.Text()
	}
	if done := g.printed[e.Request]; len(text) > done {
		if done == 0 {
			g.endLine()
		}
		fmt.Fprint(g.Streams.Out, g.Streams.Safe(text[done:])) // nothing is left to report a failure to
		g.printed[e.Request], g.open = len(text), text[len(text)-1] != '\n'
	}
	if e.Type == viewer.TypeOutput {
		g.texts[e.ID] = len(text) > 0
	}
	return nil
}

// endLine ends the line of a streamed text.
func (g *following) endLine() {
	if g.open {
		fmt.Fprintln(g.Streams.Out) // nothing is left to report a failure to
		g.open = false
	}
}

// ended finds the answer.
func (g *following) ended(ctx context.Context) (Ended, error) {
	g.endLine()
	out := Ended{Run: g.run}
	if g.Along == nil || g.answer == nil {
		out.Answer, out.Known = g.run.Status.ResultPreview, false
		return out, nil
	}
	detail, err := g.Along.Client.Detail(ctx, g.Along.Session, g.answer.ID)
	if err != nil {
		g.note(term.Attention, "the answer cannot be read now: %v", err)
		return out, nil
	}
	if detail.Output != nil && detail.Output.Message != nil {
		out.Answer, out.Known, out.Streamed = detail.Output.Message.Text(), true, g.texts[g.answer.ID]
	}
	return out, nil
}
