package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// ErrEmptySession is returned where there is no history to measure.
var ErrEmptySession = errors.New("the session has no history")

// Idle is what the next request of a session would be measured as if it were sent now, without a new prompt.
type Idle struct {
	Store cas.Store
	// Stream is the agent's, State its folded state. The state is only read.
	Stream runevent.Stream
	State  session.State
	// Config is what the session says now: model, sections, output settings. Its tools are those of the latest run that had
	// connected its own, for nobody is asked here, as far as Admits allows them.
	Config session.RunConfig
	// Admits says whether the session still allows a tool, by its server and its name there; nil for all of them.
	Admits    func(server, tool string) bool
	Estimator func(name string) budget.Estimator
	// Calibrations corrects the estimate where the model's configuration says so; nil for never.
	Calibrations Calibrations
	Logger       *slog.Logger
}

// Measure reads the session's messages, snapshots and checkpoint, projects and measures them. It asks no model and no tool
// server, and writes nothing. A session without history is ErrEmptySession.
func (i Idle) Measure(ctx context.Context) (budget.ContextBudget, error) {
	if len(i.State.History) == 0 {
		return budget.ContextBudget{}, ErrEmptySession
	}
	l := &loop{
		deps:  Deps{Store: i.Store, Estimator: i.Estimator, Calibrations: i.Calibrations, Logger: i.Logger},
		run:   Run{Namespace: i.Stream.Namespace, SessionUID: i.Stream.Session, AgentKey: i.Stream.Key},
		cfg:   i.Config,
		state: i.State,
	}
	if err := l.load(ctx); err != nil {
		return budget.ContextBudget{}, err
	}
	set, err := l.latestToolSet(ctx)
	if err != nil {
		return budget.ContextBudget{}, err
	}
	definitions, err := l.definitionsOf(ctx, set)
	if err != nil {
		return budget.ContextBudget{}, err
	}
	if i.Admits != nil {
		definitions = slices.DeleteFunc(definitions, func(d tool.Definition) bool { return !i.Admits(d.Server, d.RemoteName) })
	}
	request, err := l.project(projectionInput{checkpoint: l.checkpoint, snapshots: l.snapshots, tools: declarations(definitions)})
	return request.budget, err
}
