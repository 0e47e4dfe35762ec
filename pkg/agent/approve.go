package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// waiting is why a turn cannot go on now: calls of it wait for something that needs no worker.
type waiting struct{ phase string }

func (w *waiting) Error() string { return "waiting: " + w.phase }

// wait gives the run back until what it waits for is there. Its active time stands still from then on.
func (l *loop) wait(ctx context.Context, why *waiting) error {
	if err := l.collectTitle(ctx, true); err != nil {
		return l.undecided(ctx, err)
	}
	l.deps.Chaos("run.before-wait")
	if err := l.append(ctx, runevent.Event{Type: runevent.TypeRunHandedBack, Worker: l.run.Worker, Reason: why.phase}); err != nil {
		return l.undecided(ctx, err)
	}
	l.deps.Chaos("run.waiting")
	return ErrWaiting
}

// waits returns a *waiting when one of the calls cannot be made yet, or is made by another run. People come first.
func (l *loop) waits(calls []message.Block) error {
	var delegated error
	for _, call := range calls {
		progress := l.state.Run.Tools[call.ID]
		switch {
		case progress == nil || progress.Result != nil:
		case progress.Approval.Open():
			return &waiting{session.PhaseApproval}
		case l.byName[call.Name].Delegates:
			delegated = &waiting{session.PhaseToolCall}
		}
	}
	return delegated
}

// ask records which calls need a person's approval, all of them at once, and takes the decisions that there are. Each is
// in the log before its call may start.
func (l *loop) ask(ctx context.Context, answer answered, calls []message.Block) error {
	if l.deps.Approvals == nil {
		return nil
	}
	var open []message.Block
	for _, call := range calls {
		definition, progress := l.byName[call.Name], l.state.Run.Tools[call.ID]
		if !definition.RequiresApproval || progress == nil || progress.Result != nil {
			continue
		}
		if progress.Approval == nil {
			if err := l.requestApproval(ctx, answer, definition, call); err != nil {
				return err
			}
		}
		if progress := l.state.Run.Tools[call.ID]; progress.Approval.Open() {
			open = append(open, call)
		}
	}
	if len(open) == 0 {
		return nil
	}
	decisions, err := l.deps.Approvals.Decisions(ctx)
	if err != nil {
		// The run waits as if there were none: whoever wakes it up when there is one sees the same source.
		l.deps.Logger.Warn("decisions about tool calls not readable", "run", l.run.UID, "error", err)
	}
	for _, call := range open {
		if err := l.decide(ctx, answer, call, decisions); err != nil {
			return err
		}
	}
	return nil
}

func (l *loop) requestApproval(ctx context.Context, answer answered, definition tool.Definition, call message.Block) error {
	event := runevent.Event{
		Type: runevent.TypeRecord, Kind: runevent.KindApproval, Decision: runevent.DecisionRequested, CallID: call.ID, Name: call.Name,
		Server: definition.Server, ArgumentsDigest: ArgumentsDigest(call.Arguments), Evidence: invocationEvidence(answer.request),
	}
	if definition.ApprovalSeconds > 0 {
		until := l.deps.Now().UTC().Add(time.Duration(definition.ApprovalSeconds) * time.Second).Truncate(time.Second)
		event.Until = &until
	}
	err := l.append(ctx, event)
	l.deps.Chaos("approval.requested")
	return err
}

// ArgumentsDigest is what a decision about a call names its arguments by: the digest of their JSON without the spaces
// between its tokens, as the run event of the call has it.
func ArgumentsDigest(arguments json.RawMessage) cas.Digest {
	var compact bytes.Buffer
	if json.Compact(&compact, arguments) != nil {
		return cas.Of(arguments)
	}
	return cas.Of(compact.Bytes())
}

// decide records the first decision about a call that counts, or that its time is over.
func (l *loop) decide(ctx context.Context, answer answered, call message.Block, decisions []Decision) error {
	asked := l.state.Run.Tools[call.ID].Approval
	event := runevent.Event{
		Type: runevent.TypeRecord, Kind: runevent.KindApproval, CallID: call.ID, Name: call.Name, Server: asked.Server,
		ArgumentsDigest: asked.ArgumentsDigest, Evidence: invocationEvidence(answer.request),
	}
	i := slices.IndexFunc(decisions, func(d Decision) bool {
		return d.CallID == call.ID && l.state.Run.Answers(call.ID, d.ID, d.ArgumentsDigest, d.At)
	})
	switch {
	case i >= 0:
		event.Decision, event.Approver, event.Approval = runevent.DecisionDenied, decisions[i].Approver, decisions[i].ID
		event.Text = decisions[i].Reason
		if decisions[i].Approve {
			event.Decision = runevent.DecisionApproved
		}
	case !asked.Until.IsZero() && !l.deps.Now().Before(asked.Until):
		event.Decision = runevent.DecisionExpired
	default:
		return nil
	}
	err := l.append(ctx, event)
	l.deps.Chaos("approval.decided")
	return err
}

// denied is the result of a call that needed approval and did not get it; empty for one that may be made.
func (l *loop) denied(definition tool.Definition, call message.Block) string {
	if !definition.RequiresApproval {
		return ""
	}
	progress := l.state.Run.Tools[call.ID]
	if progress == nil || progress.Approval == nil {
		return textNobody
	}
	switch progress.Approval.Decision {
	case runevent.DecisionApproved:
		return ""
	case runevent.DecisionExpired:
		return textExpired
	}
	if reason := progress.Approval.Reason; reason != "" {
		return textDenied + " They say: " + reason
	}
	return textDenied
}
