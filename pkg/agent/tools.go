package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/tool"
)

// maxConcurrentTools bounds the calls of one message that run side by side.
const maxConcurrentTools = 8

// The texts of results that no tool gave. A model reads them.
const (
	textInterrupted = "The tool call was interrupted and its effect is unknown. Check before you repeat it."
	textNotRun      = "The tool call was not run: the response was cut off at its output limit. Send the call again, shorter."
	textNobody      = "The tool call was denied: it needs a person's approval, and nobody can be asked."
	textDenied      = "The tool call was denied by a person."
	textExpired     = "The tool call was denied: nobody approved it in time."
	textStopped     = "The tool call was not run: the run ended first."

	textChildStopped = "The subagent was stopped: the run ended first."
)

// runTools brings every call of the answer to a result and returns the results in call order. What an earlier worker
// finished is taken from the log; what it had started runs again only if the tool is repeatable.
func (l *loop) runTools(ctx context.Context, answer answered) ([]message.Message, error) {
	calls := answer.message.ToolCalls()
	if len(calls) == 0 || answer.failure != nil {
		return nil, nil //nolint:nilerr // nothing failed here: the step that is made of a failed answer ends the run
	}
	results := make([]message.Message, len(calls))
	if answer.message.StopReason == message.StopLength || answer.message.StopReason == message.StopError {
		for i, call := range calls {
			result, err := l.settled(ctx, answer, call, textNotRun)
			if err != nil {
				return results, err
			}
			results[i] = result
		}
		return results, nil
	}
	if err := l.declare(ctx, answer, calls); err != nil {
		return results, err
	}
	if err := l.ask(ctx, answer, calls); err != nil {
		return results, err
	}
	if l.concurrent(calls) {
		if err := l.delegate(ctx, answer, calls); err != nil {
			return results, err
		}
		if err := l.runConcurrently(ctx, answer, calls, results); err != nil {
			return results, err
		}
		return results, l.waits(calls)
	}
	for i, call := range calls {
		if err := l.delegate(ctx, answer, calls[i:i+1]); err != nil {
			return results, err
		}
		if err := l.waits(calls[i : i+1]); err != nil {
			return results, err
		}
		result, err := l.runTool(ctx, answer, call)
		if err != nil {
			return results, err
		}
		results[i] = result
	}
	return results, nil
}

// declare records each call with its arguments, unless an earlier worker did.
func (l *loop) declare(ctx context.Context, answer answered, calls []message.Block) error {
	for _, call := range calls {
		if l.state.Run.Tools[call.ID] != nil {
			continue
		}
		if err := l.append(ctx, runevent.Event{
			Type: runevent.TypeToolCall, CallID: call.ID, Name: call.Name, Arguments: call.Arguments, Server: l.byName[call.Name].Server,
			Evidence: invocationEvidence(answer.request),
		}); err != nil {
			return err
		}
	}
	return nil
}

// concurrent says whether the calls of one message may run side by side: all of them are harmless to run so, and each
// has an id of its own.
func (l *loop) concurrent(calls []message.Block) bool {
	seen := map[string]bool{}
	for _, call := range calls {
		definition, known := l.byName[call.Name]
		if !known || !definition.Concurrent() || seen[call.ID] {
			return false
		}
		seen[call.ID] = true
	}
	return len(calls) > 1
}

// outcome is what a tool gave, or why it could not be told.
type outcome struct {
	result tool.Result
	err    error
	fault  *Panic
}

// runConcurrently starts every unfinished call and records each result as it comes. Only this goroutine appends.
func (l *loop) runConcurrently(ctx context.Context, answer answered, calls []message.Block, results []message.Message) error {
	pending, err := l.startAll(ctx, answer, calls, results)
	if err != nil {
		return err
	}
	done := make(chan int)
	outcomes, outputs := make([]outcome, len(calls)), make([]*output, len(calls))
	for _, i := range pending {
		outputs[i] = l.output(answer, calls[i])
	}
	var group errgroup.Group
	group.SetLimit(maxConcurrentTools)
	go func() {
		for _, i := range pending {
			group.Go(func() error {
				got := &outcomes[i]
				got.fault = caught(func() { got.result, got.err = outputs[i].call(ctx, toolCall(calls[i])) })
				done <- i
				return nil
			})
		}
	}()
	var first error
	var fault *Panic
	for range pending {
		i := <-done
		if fault = cmp.Or(fault, outcomes[i].fault); outcomes[i].fault != nil {
			continue
		}
		if first != nil && ctx.Err() == nil {
			continue // the log or the store is away
		}
		result, err := l.recordOutcome(ctx, answer, calls[i], outcomes[i])
		if err == nil {
			results[i] = result // also when another call was cut short
		} else if first == nil {
			first = err
		}
	}
	if fault != nil {
		panic(fault)
	}
	return first
}

// startAll takes what the log already knows and marks the other calls as started; it returns their indexes.
func (l *loop) startAll(ctx context.Context, answer answered, calls []message.Block, results []message.Message) ([]int, error) {
	var pending []int
	for i, call := range calls {
		if l.waits(calls[i:i+1]) != nil {
			continue
		}
		known, result, err := l.known(ctx, answer, call)
		if err != nil {
			return nil, err
		}
		if known {
			results[i] = result
			continue
		}
		if err := l.start(ctx, answer, call); err != nil {
			return nil, err
		}
		pending = append(pending, i)
	}
	return pending, nil
}

func toolCall(call message.Block) tool.Call {
	return tool.Call{ID: call.ID, Name: call.Name, Arguments: call.Arguments}
}

// runTool brings one call to its result.
func (l *loop) runTool(ctx context.Context, answer answered, call message.Block) (message.Message, error) {
	known, result, err := l.known(ctx, answer, call)
	if known || err != nil {
		return result, err
	}
	if err := l.start(ctx, answer, call); err != nil {
		return message.Message{}, err
	}
	var got outcome
	prepared := toolCall(call)
	if len(l.byName[call.Name].Nested) > 0 {
		prepared.Record = func(nested tool.Nested) error { return l.recordNested(ctx, answer, call, nested) }
	}
	got.result, got.err = l.output(answer, call).call(ctx, prepared)
	l.deps.Chaos("tool.returned")
	return l.recordOutcome(ctx, answer, call, got)
}

// known is the result that a call has without being run now: one in the log, or the reason why it cannot run.
func (l *loop) known(ctx context.Context, answer answered, call message.Block) (bool, message.Message, error) {
	progress := l.state.Run.Tools[call.ID]
	if progress != nil && progress.Result != nil {
		result, err := l.loggedResult(ctx, *progress.Result)
		return true, result, err
	}
	definition, declared := l.byName[call.Name]
	if !declared {
		result, err := l.settled(ctx, answer, call, fmt.Sprintf("There is no tool named %q. Use one of the declared tools.", call.Name))
		return true, result, err
	}
	if denied := l.denied(definition, call); denied != "" {
		result, err := l.settled(ctx, answer, call, denied)
		return true, result, err
	}
	if progress != nil && progress.Attempts > 0 && (progress.Unknown || !definition.RepeatableAfter(progress.Nested)) {
		if err := l.unknown(ctx, answer, call); err != nil {
			return true, message.Message{}, err
		}
		result, err := l.settled(ctx, answer, call, textInterrupted)
		return true, result, err
	}
	return false, message.Message{}, nil
}

// recordNested stores that a running call is about to make a call of its own, or what is known of one that has ended. The
// log has every nested call before it starts: what is not there was not called.
func (l *loop) recordNested(ctx context.Context, answer answered, call message.Block, nested tool.Nested) error {
	event := runevent.Event{CallID: call.ID, Name: nested.Name, Server: nested.Server, Nested: nested.Number, Evidence: invocationEvidence(answer.request)}
	if nested.Audit == nil {
		event.Type, event.Arguments = runevent.TypeToolStarted, nested.Arguments
		l.deps.Chaos("nested.before-start")
		err := l.append(ctx, event)
		l.deps.Chaos("nested.started")
		return err
	}
	saving, cancel := outlive(ctx)
	defer cancel()
	l.deps.Chaos("nested.returned")
	var err error
	if event.Audit, err = json.Marshal(nested.Audit); err != nil {
		return err
	}
	event.Type = runevent.TypeMCPAudit
	return l.append(saving, event)
}

// unknown records that nobody can tell what a started call did.
func (l *loop) unknown(ctx context.Context, answer answered, call message.Block) error {
	return l.append(ctx, runevent.Event{Type: runevent.TypeToolUnknown, CallID: call.ID, Name: call.Name, Evidence: invocationEvidence(answer.request)})
}

func (l *loop) start(ctx context.Context, answer answered, call message.Block) error {
	attempt := 1
	if progress := l.state.Run.Tools[call.ID]; progress != nil {
		attempt += progress.Attempts
	}
	l.deps.Chaos("tool.before-start")
	err := l.append(ctx, runevent.Event{
		Type: runevent.TypeToolStarted, CallID: call.ID, Name: call.Name, Attempt: attempt, Server: l.byName[call.Name].Server,
		Evidence: invocationEvidence(answer.request),
	})
	l.deps.Chaos("tool.started")
	return err
}

// recordOutcome stores what a tool gave: the audit of the exchange, then the result. A result that arrived is stored
// even when the run is ending.
func (l *loop) recordOutcome(ctx context.Context, answer answered, call message.Block, got outcome) (message.Message, error) {
	if got.err != nil {
		return message.Message{}, errors.Join(context.Cause(ctx), got.err)
	}
	saving, cancel := outlive(ctx)
	defer cancel()
	if got.result.Audit.Server != "" {
		audit, err := json.Marshal(got.result.Audit)
		if err != nil {
			return message.Message{}, err
		}
		if err := l.append(saving, runevent.Event{
			Type: runevent.TypeMCPAudit, CallID: call.ID, Name: call.Name, Server: got.result.Audit.Server, Audit: audit,
			Evidence: invocationEvidence(answer.request),
		}); err != nil {
			return message.Message{}, err
		}
	}
	result := message.Message{
		Role: message.RoleToolResult, ToolCallID: call.ID, ToolName: call.Name, Content: got.result.Content,
		IsError: got.result.IsError, Details: got.result.Details,
	}
	whole, err := l.keepWhole(saving, got.result.Whole, &result)
	if err != nil {
		return message.Message{}, err
	}
	return l.recordResult(saving, answer, result, whole)
}

// settled records an error result that no tool gave.
func (l *loop) settled(ctx context.Context, answer answered, call message.Block, text string) (message.Message, error) {
	if progress := l.state.Run.Tools[call.ID]; progress != nil && progress.Result != nil {
		return l.loggedResult(ctx, *progress.Result)
	}
	return l.recordResult(ctx, answer, message.Message{
		Role: message.RoleToolResult, ToolCallID: call.ID, ToolName: call.Name, Content: message.Text(text), IsError: true,
	}, nil)
}

// recordResult logs a result. whole names all of its text when it was cut; nil otherwise.
func (l *loop) recordResult(ctx context.Context, answer answered, result message.Message, whole *cas.Ref) (message.Message, error) {
	stored, err := l.storeImages(ctx, result)
	if err != nil {
		return message.Message{}, err
	}
	raw := message.Encode(stored)
	event := runevent.Event{
		Type: runevent.TypeToolResult, CallID: result.ToolCallID, Name: result.ToolName, IsError: result.IsError, Whole: whole,
		Evidence: invocationEvidence(answer.request),
	}
	if len(raw) <= runevent.MaxInline {
		event.Body = raw
	} else {
		ref, err := l.save(ctx, cas.MediaMessage, raw)
		if err != nil {
			return message.Message{}, err
		}
		event.Ref = &ref
	}
	if err := l.append(ctx, event); err != nil {
		return message.Message{}, err
	}
	l.deps.Chaos("tool.result")
	return result, nil
}

// loggedResult is a result as an earlier worker, or this one, logged it.
func (l *loop) loggedResult(ctx context.Context, event runevent.Event) (message.Message, error) {
	raw := []byte(event.Body)
	if event.Ref != nil {
		var err error
		if raw, err = l.body(ctx, *event.Ref); err != nil {
			return message.Message{}, fmt.Errorf("read a tool result: %w", err)
		}
	}
	stored, err := message.Decode(raw)
	if err != nil {
		return message.Message{}, fmt.Errorf("%w: result of call %s: %w", ErrHistoryCorrupt, event.CallID, err)
	}
	return l.loadImages(ctx, stored)
}
