package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// errOffline is returned when a tool is called of a run that has connected none.
var errOffline = errors.New("the run's tools are not connected")

// offline is a set of tools that are declared and measured, and never called.
type offline struct{ definitions []tool.Definition }

func (o offline) Definitions() []tool.Definition { return o.definitions }
func (o offline) Close() error                   { return nil }

func (o offline) Call(context.Context, tool.Call, func(string)) (tool.Result, error) {
	return tool.Result{}, errOffline
}

// declareOffline gives a run that calls no tool those of the run before it, so that its requests are measured with them
// and no tool server needs to answer.
func (l *loop) declareOffline(ctx context.Context) error {
	if l.cfg.ToolSet == nil {
		var err error
		if l.cfg.ToolSet, err = l.latestToolSet(ctx); err != nil {
			return err
		}
	}
	definitions, err := l.definitionsOf(ctx, l.cfg.ToolSet)
	l.tools = offline{definitions}
	return err
}

// toolSet names the tools of this run, or of the latest one that had any where this one has not connected its own: it was ended
// before that, or a server was away, which does not change what the session has.
func (l *loop) toolSet() *cas.Ref {
	if l.cfg.ToolSet != nil {
		return l.cfg.ToolSet
	}
	return l.state.ToolSet
}

// recallTools takes up the tools that a run which is only brought to its end was begun with. Its end does not depend on them.
func (l *loop) recallTools(ctx context.Context) {
	if !l.state.Live() || l.state.Run.Config == nil {
		return
	}
	if stored, err := object[session.RunConfig](ctx, l, *l.state.Run.Config); err == nil {
		l.cfg.ToolSet = stored.ToolSet
	}
}

// latestToolSet names the tools of the latest run that had connected its own; nil for none.
func (l *loop) latestToolSet(ctx context.Context) (*cas.Ref, error) {
	if l.state.ToolSet != nil {
		return l.state.ToolSet, nil
	}
	// A state of an earlier build does not name them.
	if l.state.Run == nil || l.state.Run.Config == nil {
		return nil, nil //nolint:nilnil // a session's first run has none before it
	}
	latest, err := object[session.RunConfig](ctx, l, *l.state.Run.Config)
	if err != nil {
		return nil, fmt.Errorf("read the latest run's configuration: %w", err)
	}
	return latest.ToolSet, nil
}

func (l *loop) definitionsOf(ctx context.Context, ref *cas.Ref) ([]tool.Definition, error) {
	if ref == nil {
		return nil, nil
	}
	set, err := object[session.ToolSet](ctx, l, *ref)
	if err != nil {
		return nil, fmt.Errorf("read the run's tool set: %w", err)
	}
	return set.Tools, nil
}
