package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// reasonCompleted is the reason of every run.finished.
const reasonCompleted = "Completed"

// step is a turn that is ready to be committed.
type step struct {
	answer   answered
	messages []message.Message
	// terminal is set when the run ends with this step.
	terminal *runevent.Event
}

// stepOf makes the step of a turn that came to its end. A request that failed for good ends the run.
func (l *loop) stepOf(answer answered, results []message.Message) step {
	s := step{answer: answer, messages: append([]message.Message{answer.message}, results...)}
	if answer.failure != nil {
		event := l.failedEvent(answer.failure)
		s.terminal = &event
	}
	return s
}

// commit makes a step part of the session: its messages, then the manifest of the new state, then the one entry that
// is the atomic point.
func (l *loop) commit(ctx context.Context, s step) error {
	saving, cancel := l.beyond(ctx)
	defer cancel()
	if s.terminal != nil && len(s.answer.detail()) > 0 && s.terminal.Detail == nil {
		ref, err := l.save(saving, cas.MediaBlob, s.answer.detail())
		if err != nil {
			return err
		}
		s.terminal.Detail = &ref
	}
	stepRecord, raws, err := l.stepRecord(saving, s)
	if err != nil {
		return err
	}
	list, err := cas.BuildList(saving, l.save, l.state.History, &l.list)
	if err != nil {
		return err
	}
	committed := session.AgentState{
		V: session.ObjectVersion, Agent: l.run.AgentKey, RunUID: l.run.UID, RunName: l.run.Name, History: list, Step: stepRecord,
		LastSequence: l.state.Head.Sequence, Run: l.state.Counters(), Recent: l.state.Recent,
		Snapshots: l.state.Snapshots, Sections: l.state.Sections, Checkpoint: l.state.Checkpoint, Model: l.identity(),
		ToolSet: l.toolSet(), Earlier: l.state.Earlier, Title: l.state.Title,
	}
	ref, err := l.saveObject(saving, cas.MediaState, committed)
	if err != nil {
		return err
	}
	l.deps.Chaos("state.stored")
	l.uncommitted = &uncommitted{step: s, state: committed, ref: ref, list: list, raws: raws}
	evidence := runevent.Evidence{StateRef: &ref, Turn: stepRecord.Turn, RequestExecutionID: stepRecord.RequestExecutionID, ContextRef: stepRecord.ContextRef}
	if err := l.append(saving, runevent.Event{Type: runevent.TypeRecord, Kind: runevent.KindStateCommitted, Evidence: evidence}); err != nil {
		return err
	}
	l.deps.Chaos("state.committed")
	return nil
}

// uncommitted is a step whose state is stored and whose entry may not be in the log yet.
type uncommitted struct {
	step  step
	state session.AgentState
	ref   cas.Ref
	list  cas.MessageList
	raws  [][]byte
}

// committing moves the session on by the step that an entry commits. Before the entry is in the log nothing is moved: a
// step that memory alone has would stand in the history of the next state, and in no step that the log names.
func (l *loop) committing(named *cas.Ref) {
	u := l.uncommitted
	if u == nil || named == nil || u.ref.Digest != named.Digest {
		return
	}
	l.uncommitted, l.list = nil, u.list
	l.state.Commit(u.state, u.ref)
	l.history = append(l.history, u.step.messages...)
	l.raws = append(l.raws, u.raws...)
	l.deps.View.stored(l)
}

// stepRecord is the step as the state holds it: the assistant message stands in its action, short results inline, long
// ones in the objects that their entries name. It also returns each message's exact bytes.
func (l *loop) stepRecord(ctx context.Context, s step) (session.Step, [][]byte, error) {
	record := session.Step{Turn: l.state.Run.Committed, Terminal: s.terminal}
	if s.answer.request.Turn > 0 {
		record.Turn = s.answer.request.Turn
	}
	if s.answer.request.RequestExecutionID != "" {
		record.RequestExecutionID, record.ContextRef = s.answer.request.RequestExecutionID, &s.answer.request.ContextRef
	}
	raws := make([][]byte, len(s.messages))
	for i, m := range s.messages {
		stored, err := l.storeImages(ctx, m)
		if err != nil {
			return record, nil, err
		}
		raws[i] = message.Encode(stored)
		if i == 0 && !s.answer.action.IsZero() {
			ref := session.InContainer(s.answer.action.Digest, 0)
			record.Action = &s.answer.action
			record.Messages = append(record.Messages, session.StepMessage{Ref: &ref})
			continue
		}
		if len(raws[i]) <= runevent.MaxInline {
			record.Messages = append(record.Messages, session.StepMessage{Inline: raws[i]})
			continue
		}
		ref, err := l.save(ctx, cas.MediaMessage, raws[i])
		if err != nil {
			return record, nil, err
		}
		record.Messages = append(record.Messages, session.StepMessage{Ref: &cas.MessageRef{Digest: ref.Digest}})
	}
	return record, raws, nil
}

// outlive is a context that goes on for endTimeout after ctx has ended: what is already there is saved for as long as the
// run may wait for the store, and a little longer.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	saving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(endTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-saving.Done():
		}
	})
	return saving, func() { stop(); cancel() }
}

// lasting is outlive for all but a worker that is stopping: that one leaves what is not stored yet to the next.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	outliving, release := outlive(ctx)
	saving, cancel := context.WithCancelCause(outliving)
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrHandBack) {
			cancel(ErrHandBack)
		}
	})
	return saving, func() { stop(); cancel(nil); release() }
}

// beyond is a context for saves that must survive the end of the run's own; a worker that is stopping does not use it.
func (l *loop) beyond(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
}

// end brings the run to its terminal event, whatever happened, and says what is in the log.
func (l *loop) end(ctx context.Context, cause error) (Result, error) {
	if err := handedOver(ctx, cause); err != nil {
		l.handBack(ctx, err)
		return Result{}, err
	}
	var wait *waiting
	if errors.As(cause, &wait) && ctx.Err() == nil {
		return Result{}, l.wait(ctx, wait)
	}
	saving, cancel := lasting(ctx)
	defer cancel()
	if err := l.settle(saving); err != nil {
		return Result{}, l.undecided(ctx, err)
	}
	if ending := l.announcedEnd(); ending != nil {
		return l.terminate(saving, *ending)
	}
	var told *announced
	if errors.As(cause, &told) {
		return l.terminate(saving, told.event)
	}
	if cause == nil {
		return l.terminate(saving, runevent.Event{
			Type: runevent.TypeRunFinished, Reason: reasonCompleted, Turns: l.state.Run.Committed, Result: l.lastMessage(),
		})
	}
	event, ended := l.verdict(ctx, cause)
	if !ended {
		return Result{}, cause
	}
	if err := l.ensureStarted(saving, event.Reason == ReasonDeadline); err != nil {
		return Result{}, l.undecided(ctx, errors.Join(cause, err))
	}
	if err := l.lastCommit(saving, cause, event); err != nil {
		return Result{}, l.undecided(ctx, errors.Join(cause, err))
	}
	return l.terminate(saving, event)
}

// handBackTimeout bounds what a stopping worker still writes.
const handBackTimeout = 5 * time.Second

// handBack records that a worker gives a run back by itself, so that the next start does not count as an attempt. When it
// cannot be written in time the hand-back counts as a lost worker, which only makes limits.maxAttempts stricter.
func (l *loop) handBack(ctx context.Context, why error) {
	if !errors.Is(why, ErrHandBack) || !l.started() {
		return
	}
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), handBackTimeout)
	defer cancel()
	if err := l.append(saving, runevent.Event{Type: runevent.TypeRunHandedBack, Worker: l.run.Worker}); err != nil {
		l.deps.Logger.Warn("hand-back not recorded", "run", l.run.UID, "error", err)
	}
}

// settle stores and folds the entry that an abandoned append left behind, so that nothing is built on a state that the
// log is about to contradict.
func (l *loop) settle(ctx context.Context) error {
	return l.retrySave(ctx, "settle a run event", func() error {
		head, record, err := l.journal.Settle(ctx)
		if err != nil || record.Raw == nil {
			return err
		}
		return l.apply(head, record)
	})
}

// announcedEnd is the terminal event that a commit in the log has announced: the run ends so, whatever came since.
func (l *loop) announcedEnd() *runevent.Event {
	if !l.started() || l.state.StateRef == nil || l.state.StateRef.Digest != l.committed {
		return nil
	}
	return l.state.Run.Ending
}

// started says whether the run is in the log.
func (l *loop) started() bool { return l.state.Live() && l.state.Run.UID == l.run.UID }

// ensureStarted enters a run that ended before its first entry was stored: its end must be its own. Its prompt is not
// history, for nothing was done with it, unless keepPrompt: a run that failed for lack of time was accepted all the same.
func (l *loop) ensureStarted(ctx context.Context, keepPrompt bool) error {
	if !l.started() {
		if err := l.claim(ctx, 1, nil); err != nil {
			return err
		}
	}
	if !keepPrompt || l.state.Run.Accepted || l.run.Prompt.Role == "" {
		return nil
	}
	return l.acceptPrompt(ctx)
}

func (l *loop) undecided(ctx context.Context, err error) error {
	if over := handedOver(ctx, err); over != nil {
		return over
	}
	return err
}

// verdict maps what ended the run to its terminal event. Failures of the log or store are no verdict: the run waits.
func (l *loop) verdict(ctx context.Context, cause error) (runevent.Event, bool) {
	ending := l.ending
	if ending == nil {
		ending = context.Cause(ctx)
	}
	switch {
	case errors.Is(ending, ErrCancelled):
		return runevent.Event{Type: runevent.TypeRunCancelled, Reason: ReasonCancelled, Message: "cancelled on request"}, true
	case errors.Is(ending, ErrSessionDeleted):
		return runevent.Event{Type: runevent.TypeRunFailed, Reason: ReasonSessionDeleted, Message: "the session is being deleted"}, true
	case errors.Is(ending, ErrDeadline) && errors.Is(cause, errUnsaved):
		return runevent.Event{Type: runevent.TypeRunFailed, Reason: ReasonPersistence, Retryable: true,
			Message: "what the run did could not be stored before its time was over"}, true
	case errors.Is(ending, ErrDeadline):
		return runevent.Event{Type: runevent.TypeRunFailed, Reason: ReasonDeadline, Message: "limits.activeDeadlineSeconds is over"}, true
	}
	var rejected *refused
	if errors.As(cause, &rejected) {
		event := l.failedEvent(&rejected.Failure)
		event.Record = &rejected.record
		return event, true
	}
	var failure *Failure
	if errors.As(cause, &failure) {
		return l.failedEvent(failure), true
	}
	if permanent(cause) || errors.Is(cause, ErrHistoryCorrupt) || errors.Is(cause, cas.ErrNotFound) {
		return runevent.Event{Type: runevent.TypeRunFailed, Reason: ReasonPersistence, Message: "stored session data could not be read or written"}, true
	}
	return runevent.Event{}, false
}

func (l *loop) failedEvent(f *Failure) runevent.Event {
	return runevent.Event{
		Type: runevent.TypeRunFailed, Reason: f.Reason, Message: f.Message, Class: string(f.Class), HTTPStatus: f.HTTPStatus,
		Retryable: f.Retryable, Turns: l.state.Run.Committed,
	}
}

// lastCommit saves what the run had accepted and completed but not committed, with the terminal event that follows.
func (l *loop) lastCommit(ctx context.Context, cause error, event runevent.Event) error {
	last := step{terminal: &event}
	var cut *interrupted
	var half *partial
	switch {
	case l.uncommitted != nil:
		last.answer, last.messages = l.uncommitted.step.answer, l.uncommitted.step.messages
	case errors.As(cause, &cut):
		last.answer = cut.answer
		results, err := l.closeCalls(ctx, cut)
		if err != nil {
			return err
		}
		last.messages = append([]message.Message{cut.answer.message}, results...)
	case errors.As(cause, &half):
		last.answer = answered{request: session.Request{Turn: half.invocation.Turn}}
		last.messages = []message.Message{l.aborted(half)}
	case l.state.Run.Completed != nil:
		// A response that is in the log belongs to the history, also when the run could not go on from it.
		return l.commitStored(ctx, cause, last)
	}
	return l.commit(ctx, last)
}

// commitStored commits the response that was logged and not committed, with the results that its calls have.
func (l *loop) commitStored(ctx context.Context, cause error, last step) error {
	answer, err := l.stored(ctx)
	if err != nil {
		return err
	}
	results, err := l.closeCalls(ctx, &interrupted{answer: answer, results: make([]message.Message, len(answer.message.ToolCalls())), cause: cause})
	if err != nil {
		return err
	}
	last.answer, last.messages = answer, append([]message.Message{answer.message}, results...)
	return l.commit(ctx, last)
}

// closeCalls gives every call of an interrupted turn a result: the real one, "effect unknown", or "not run".
func (l *loop) closeCalls(ctx context.Context, cut *interrupted) ([]message.Message, error) {
	results := slices.Clone(cut.results)
	for i, call := range cut.answer.message.ToolCalls() {
		if results[i].Role != "" {
			continue
		}
		text := textStopped
		if progress := l.state.Run.Tools[call.ID]; progress != nil && progress.Child != nil {
			text = textChildStopped
		}
		if progress := l.state.Run.Tools[call.ID]; progress != nil && progress.Attempts > 0 && progress.Result == nil {
			text = textInterrupted
			if err := l.unknown(ctx, cut.answer, call); err != nil {
				return nil, err
			}
		}
		var err error
		if results[i], err = l.settled(ctx, cut.answer, call, text); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// aborted is the trace of a dispatched request that was cut short. It keeps no usage, and later requests leave it out.
func (l *loop) aborted(half *partial) message.Message {
	m := message.Message{
		Role: message.RoleAssistant, Provider: l.cfg.Model.Provider, API: string(l.cfg.Model.API), Model: l.cfg.Model.ID,
		StopReason: message.StopAborted, ErrorMessage: "the request was cut short when the run ended",
	}
	if half.failed.Partial != nil {
		m.Content = half.failed.Partial.Content
	}
	return m
}

// lastMessage references the final message of a finished run.
func (l *loop) lastMessage() *cas.MessageRef {
	if len(l.state.History) == 0 {
		return nil
	}
	return &l.state.History[len(l.state.History)-1]
}

func (l *loop) terminate(ctx context.Context, event runevent.Event) (Result, error) {
	if err := l.collectTitle(ctx, true); err != nil {
		return Result{}, l.undecided(ctx, err)
	}
	l.deps.Chaos("run.before-end")
	if err := l.append(ctx, event); err != nil {
		return Result{}, l.undecided(ctx, err)
	}
	l.deps.Chaos("run.ended")
	return Result{Event: event.Type, Reason: event.Reason}, nil
}

// detail is the provider's error body, for the object store only.
func (a answered) detail() []byte {
	if a.failure == nil {
		return nil
	}
	return a.failure.Detail[:min(len(a.failure.Detail), failedDetailMaxSize)]
}
