package agent

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// Observer is told what runs do while they do it, for metrics and traces. It decides nothing: a run with one and a run
// without write the same entries.
//
// Its methods and the functions that they return are called in the goroutine whose work they measure, several of a run at
// a time; they must not wait and must not change what they are given, nor keep it. The contexts that they return are used
// for what is measured, and must end with the ones that they were made of. Each returned function is called once.
type Observer interface {
	// Run begins with the execution of a run by this worker and ends with it, whether the run has ended then or not.
	Run(ctx context.Context, run *Run) (context.Context, func(Result, error))
	// Request begins when a captured request is handed to the model's adapter, which may still refuse it, and ends with the
	// answer.
	Request(ctx context.Context, request ModelRequest) (context.Context, func(ModelAnswer))
	// Tool is about one execution of a tool. Calls that code makes are part of the execution of the code.
	Tool(ctx context.Context, call ToolCall) (context.Context, func(ToolAnswer))
	// Recorded is told of each entry that this worker has stored, once, and of what was known of the stream's latest run
	// before it; nil for the first run of a stream.
	Recorded(run *Run, entry runevent.Entry, before *session.RunProgress)
	// Compacted is told of a saved compaction: the request's budget before and after.
	Compacted(run *Run, before, after budget.ContextBudget)
}

// ModelRequest is one request on its way to a model.
type ModelRequest struct {
	Run     *Run
	Purpose runevent.Purpose
	Turn    int
	// ExecutionID is the request's in the run events, Context the digest of its stored input.
	ExecutionID, Context string
	// Estimate is the measured size of the input in tokens, as it was judged.
	Estimate int64
	// Request holds contents: they go no further than the session's owner has asked for.
	Request *provider.Request
}

// ModelAnswer is what came of a request: a complete response, or Err.
type ModelAnswer struct {
	Response provider.Response
	Err      error
	// First is when the first increment was read; zero for none.
	First time.Time
}

// ToolCall is one execution of a tool.
type ToolCall struct {
	Run        *Run
	Turn       int
	ID         string
	Definition tool.Definition
	// Attempt counts the executions of the call from 1.
	Attempt int
	// Arguments are contents, as Request of a ModelRequest is.
	Arguments json.RawMessage
}

// ToolAnswer is what a tool gave. With Err nobody knows.
type ToolAnswer struct {
	Result tool.Result
	Err    error
}

// errUnfinished is what came of something that met a fault of this program.
var errUnfinished = errors.New("the execution panicked")

func (d *Deps) observer() Observer {
	if d.Observer == nil {
		return unobserved{}
	}
	return d.Observer
}

// unobserved is the Observer of who does not look.
type unobserved struct{}

func (unobserved) Run(ctx context.Context, _ *Run) (context.Context, func(Result, error)) {
	return ctx, func(Result, error) {}
}

func (unobserved) Request(ctx context.Context, _ ModelRequest) (context.Context, func(ModelAnswer)) {
	return ctx, func(ModelAnswer) {}
}

func (unobserved) Tool(ctx context.Context, _ ToolCall) (context.Context, func(ToolAnswer)) {
	return ctx, func(ToolAnswer) {}
}

func (unobserved) Recorded(*Run, runevent.Entry, *session.RunProgress) {}
func (unobserved) Compacted(_ *Run, _, _ budget.ContextBudget)         {}

// ask hands the request to the model.
func (c *call) ask(ctx context.Context, request provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
	ctx, answered := c.loop.deps.observer().Request(ctx, ModelRequest{
		Run: &c.loop.run, Purpose: c.purpose, Turn: c.invocation.Turn, ExecutionID: c.invocation.RequestExecutionID,
		Context: c.invocation.ContextRef.Digest.String(), Estimate: c.estimate, Request: &request,
	})
	answer := ModelAnswer{Err: errUnfinished}
	defer func() { answered(answer) }()
	answer.Response, answer.Err = c.loop.deps.Model.Stream(ctx, request, func(d provider.Delta) {
		if answer.First.IsZero() {
			answer.First = d.At
		}
		onDelta(d)
	})
	return answer.Response, answer.Err
}

// execute runs the tool.
func (o *output) execute(ctx context.Context, call tool.Call) (tool.Result, error) {
	ctx, answered := o.loop.deps.observer().Tool(ctx, ToolCall{
		Run: &o.loop.run, Turn: o.event.Evidence.Turn, ID: call.ID, Definition: o.loop.byName[call.Name], Attempt: o.event.Attempt, Arguments: call.Arguments,
	})
	answer := ToolAnswer{Err: errUnfinished}
	defer func() { answered(answer) }()
	answer.Result, answer.Err = o.loop.tools.Call(ctx, call, func(text string) { o.print(ctx, text) })
	return answer.Result, answer.Err
}
