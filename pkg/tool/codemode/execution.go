package codemode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
)

// errWall is the cause with which an execution's context ends when its time is over.
var errWall = errors.New("execution time is over")

// execution is one call of the code tool. One goroutine runs it; nested calls go on in others.
type execution struct {
	set     *Set
	limits  Limits
	record  func(tool.Nested) error
	report  func(text string)
	process *process
	ended   chan ended

	// queued are calls that wait for others to end, running those that go on; seen are the ids that were used.
	queued  []callFrame
	running map[int]tool.Nested
	seen    map[int]bool
	number  int
}

// ended is a nested call that is over.
type ended struct {
	id     int
	nested tool.Nested
	result tool.Result
	err    error
	fault  any
}

// received is what the interpreter process sent.
type received struct {
	frame frame
	err   error
}

// run runs the code to its end. The error is ctx's cause or record's error.
func (e *execution) run(ctx context.Context, code string) (tool.Result, error) {
	if ctx.Err() != nil {
		return tool.Result{}, context.Cause(ctx)
	}
	e.running, e.seen = map[int]tool.Nested{}, map[int]bool{}
	bounded, cancel := context.WithTimeoutCause(ctx, e.limits.Wall, errWall)
	defer cancel()
	var err error
	e.process, err = e.set.runner.start(bounded)
	if ctx.Err() != nil {
		return tool.Result{}, context.Cause(ctx)
	}
	if err != nil {
		return failed("The interpreter could not be started. Nothing was run."), nil
	}
	defer e.process.end() // also when a nested call panicked
	done, err := e.converse(bounded, code)
	how := e.process.end()
	cancel() // nested calls that still go on belong to a failed execution
	err = errors.Join(err, e.drain())
	var stop *stopError
	switch {
	case ctx.Err() != nil:
		return tool.Result{}, errors.Join(context.Cause(ctx), asStop(err))
	case errors.As(err, &stop):
		return tool.Result{}, stop.err
	case errors.Is(context.Cause(bounded), errWall):
		return failed(fmt.Sprintf("The code was stopped: it took longer than %s. Calls that it had made may have taken effect.", e.limits.Wall)), nil
	case errors.Is(err, errFrame), errors.Is(err, errTooLong):
		return failed("The code was stopped: the interpreter broke its protocol. Calls that it had made may have taken effect."), nil
	case done == nil && e.process.unconfined():
		return failed("The interpreter process cannot give up its rights on this machine, so that code is not run here. Nothing was run."), nil
	case err != nil || done == nil:
		return failed(fmt.Sprintf("The code was stopped: the interpreter ended (%s). It may have used too much memory or time. "+
			"Calls that it had made may have taken effect.", how)), nil
	}
	return e.result(*done), nil
}

// stopError is returned when a nested call could not be recorded: nothing may go on.
type stopError struct{ err error }

func (s *stopError) Error() string { return s.err.Error() }
func (s *stopError) Unwrap() error { return s.err }

// asStop is err if it is why nothing may go on.
func asStop(err error) error {
	var stop *stopError
	if errors.As(err, &stop) {
		return stop.err
	}
	return nil
}

// converse speaks with the process until the code is done and every call that it began is over.
func (e *execution) converse(ctx context.Context, code string) (*doneFrame, error) {
	start := &runFrame{Code: code, Limits: e.limits}
	for _, c := range e.set.callables {
		start.Names = append(start.Names, toolNames{Server: c.server, Tool: c.tool, Refusal: c.refusal})
	}
	frames := make(chan received)
	go e.receive(ctx, frames)
	if err := e.send(frame{Run: start}); err != nil {
		return nil, err
	}
	var done *doneFrame
	for done == nil || len(e.running) > 0 {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case got := <-frames:
			if got.err != nil {
				return nil, got.err
			}
			if got.frame.Done != nil {
				done, e.queued = got.frame.Done, nil
				continue
			}
			if err := e.called(ctx, *got.frame.Call); err != nil {
				return nil, err
			}
		case one := <-e.ended:
			if err := e.over(ctx, one, done == nil); err != nil {
				return nil, err
			}
		}
	}
	return done, nil
}

// receive reads what the process sends until there is nothing more.
func (e *execution) receive(ctx context.Context, frames chan<- received) {
	for {
		f, err := readFrame(e.process.out, maxFromChild)
		if err == nil && f.Call == nil && f.Done == nil {
			err = fmt.Errorf("%w: not for the host", errFrame)
		}
		if err != nil && !errors.Is(err, errFrame) && !errors.Is(err, errTooLong) {
			err = fmt.Errorf("%w: %w", errEnded, err)
		}
		select {
		case frames <- received{f, err}:
		case <-ctx.Done():
			return
		}
		if err != nil || f.Done != nil {
			return
		}
	}
}

// called takes a call of the code.
func (e *execution) called(ctx context.Context, call callFrame) error {
	if call.ID < 1 || e.seen[call.ID] || len(e.seen) >= e.limits.Calls {
		return fmt.Errorf("%w: call %d", errFrame, call.ID)
	}
	e.seen[call.ID] = true
	switch call.Kind {
	case kindSearch, kindDescribe:
		return e.look(call)
	case kindTool:
		e.queued = append(e.queued, call)
		return e.next(ctx)
	}
	return fmt.Errorf("%w: kind of call %d", errFrame, call.ID)
}

// look answers a question about tools.
func (e *execution) look(call callFrame) error {
	var words string
	if err := json.Unmarshal(call.Arguments, &words); err != nil {
		return fmt.Errorf("%w: call %d", errFrame, call.ID)
	}
	var answer any
	if call.Kind == kindSearch {
		answer = search(e.set.callables, words)
	} else {
		found, refusal := describe(e.set.callables, words)
		if refusal != "" {
			return e.reply(replyFrame{ID: call.ID, Error: refusal})
		}
		answer = found
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return e.reply(replyFrame{ID: call.ID, Error: "This tool cannot be described."})
	}
	return e.reply(replyFrame{ID: call.ID, Value: raw})
}

// next starts queued calls as long as there is room.
func (e *execution) next(ctx context.Context) error {
	for len(e.queued) > 0 && len(e.running) < e.limits.Parallel {
		call := e.queued[0]
		e.queued = e.queued[1:]
		if err := e.begin(ctx, call); err != nil {
			return err
		}
	}
	return nil
}

// begin records a call and starts it.
func (e *execution) begin(ctx context.Context, call callFrame) error {
	target, known := e.set.byName[call.Name]
	if !known || target.refusal != "" { // the interpreter offers no such function
		return fmt.Errorf("%w: call %d of another tool", errFrame, call.ID)
	}
	e.number++
	nested := tool.Nested{Number: e.number, Name: target.definition.Name, Server: target.definition.Server, Arguments: call.Arguments}
	if err := e.tell(nested); err != nil {
		return err
	}
	e.running[call.ID] = nested
	go func() {
		out := ended{id: call.ID, nested: nested}
		defer func() {
			out.fault = recover()
			e.ended <- out // there is room for every running call
		}()
		started := time.Now()
		// Without an id: what is cut of its result is kept nowhere, and no mark may say how to read on.
		out.result, out.err = e.set.inner.Call(ctx, tool.Call{Name: nested.Name, Arguments: nested.Arguments}, func(text string) {
			e.report(target.name() + ": " + text)
		})
		if out.err != nil {
			out.result.Audit = tool.Audit{Server: nested.Server, Tool: target.definition.RemoteName, Duration: time.Since(started), Outcome: "timeout"}
		}
	}()
	return nil
}

// tell reports a nested call to the engine.
func (e *execution) tell(nested tool.Nested) error {
	if e.record == nil {
		return nil
	}
	if err := e.record(nested); err != nil {
		return &stopError{err}
	}
	return nil
}

// over records a call that is over and gives the code what came of it, if it still listens.
func (e *execution) over(ctx context.Context, one ended, listens bool) error {
	if err := e.finished(one); err != nil {
		return err
	}
	if !listens {
		return nil
	}
	if err := e.reply(answer(one)); err != nil {
		return err
	}
	return e.next(ctx)
}

// finished takes a call off the running ones and records its audit.
func (e *execution) finished(one ended) error {
	delete(e.running, one.id)
	if one.fault != nil {
		panic(one.fault)
	}
	audit := one.result.Audit
	one.nested.Arguments, one.nested.Audit = nil, &audit
	return e.tell(one.nested)
}

// drain waits for calls that were cut short, which end with their context, and records what is known of them.
func (e *execution) drain() error {
	var first error
	for len(e.running) > 0 {
		if err := e.finished(<-e.ended); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// reply sends an answer to the process. One that is too long becomes an error for the code.
func (e *execution) reply(r replyFrame) error {
	err := e.send(frame{Reply: &r})
	if errors.Is(err, errTooLong) {
		return e.send(frame{Reply: &replyFrame{ID: r.ID, Error: "The tool's result is too long for code. Ask for less."}})
	}
	return err
}

// send writes a frame to the process. That the process does not read any more is no error here: what it wrote, or that it
// ended, says more.
func (e *execution) send(f frame) error {
	err := writeFrame(e.process.in, f, maxToChild)
	if errors.Is(err, errTooLong) || errors.Is(err, errFrame) {
		return err
	}
	return nil
}

// answer is what code gets of a call: the structured result if there is one, else the text; a failure is thrown.
func answer(one ended) replyFrame {
	out := replyFrame{ID: one.id}
	text := resultText(one.result.Content)
	if one.err != nil || one.result.IsError {
		out.Error = text
		if out.Error == "" {
			out.Error = "The tool failed."
		}
		return out
	}
	var details struct {
		StructuredContent json.RawMessage `json:"structuredContent"`
	}
	if json.Unmarshal(one.result.Details, &details) == nil && len(details.StructuredContent) > 0 && string(details.StructuredContent) != "null" {
		out.Value = details.StructuredContent
		return out
	}
	raw, err := json.Marshal(text)
	if err != nil {
		return replyFrame{ID: one.id, Error: "The tool's result cannot be read."}
	}
	out.Value = raw
	return out
}

// resultText is the text of a tool's result; what is no text is named.
func resultText(content message.Content) string {
	if content.IsText {
		return content.Text
	}
	var parts []string
	for _, block := range content.Blocks {
		if block.Type == message.BlockText {
			parts = append(parts, block.Text)
			continue
		}
		parts = append(parts, fmt.Sprintf("[%s, which code cannot see: call the tool itself]", block.Type))
	}
	return strings.Join(parts, "\n")
}

// result is what the model gets.
func (e *execution) result(done doneFrame) tool.Result {
	value, cutValue := message.Beginning(strings.ToValidUTF8(done.Value, "\uFFFD"), e.limits.ResultBytes), done.ValueBytes > e.limits.ResultBytes
	text := value
	switch {
	case done.Error != "":
		text = strings.ToValidUTF8(done.Error, "\uFFFD")
	case value == "":
		text = "The code returned nothing."
	}
	if cutValue {
		text += fmt.Sprintf("\n\n[Cut: the result has %d bytes, the first %d are shown. Return less.]", done.ValueBytes, len(value))
	}
	if logs := message.Beginning(strings.ToValidUTF8(done.Logs, "\uFFFD"), e.limits.LogBytes); logs != "" {
		text += "\n\nconsole:\n" + strings.TrimSuffix(logs, "\n")
		if done.LogBytes > e.limits.LogBytes {
			text += fmt.Sprintf("\n[Cut: the console has %d bytes.]", done.LogBytes)
		}
	}
	return tool.Result{Content: message.Text(text), IsError: done.Error != ""}
}
