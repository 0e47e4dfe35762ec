package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// The bounds of a delegated task: what is asked for, and what of the answer the delegating model sees, in bytes.
const (
	MaxTask      = 64 << 10
	maxDelegated = 64 << 10
)

// maxChildPrefix is how much of its parent's name a child's has.
const maxChildPrefix = 128

// delegated are the arguments of a call that delegates.
type delegated struct {
	Agent string `json:"agent"`
	Task  string `json:"task"`
}

// ChildKey is the agent key of the run that a call of a run is delegated to. It is another one for each run, turn and call:
// models give the same id to calls of different turns.
func ChildKey(agent, parentUID string, turn int, callID string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", parentUID, turn, callID))
	return agent + "-" + hex.EncodeToString(sum[:6])
}

// ChildName is the name of the run that a run of the name parent delegates to, whose agent key is key.
func ChildName(parent, key string) string {
	return strings.TrimRight(parent[:min(len(parent), maxChildPrefix)], "-.") + "-" + key
}

// delegate brings those of the calls that delegate forward: it begins the runs that may begin, and takes the answers of
// those that have ended. It does not wait for any.
func (l *loop) delegate(ctx context.Context, answer answered, calls []message.Block) error {
	for _, call := range calls {
		progress := l.state.Run.Tools[call.ID]
		if !l.byName[call.Name].Delegates || progress == nil || progress.Result != nil {
			continue
		}
		if err := l.delegateOne(ctx, answer, call); err != nil {
			return err
		}
	}
	return nil
}

func (l *loop) delegateOne(ctx context.Context, answer answered, call message.Block) error {
	want, subagent, complaint := l.task(call)
	if l.deps.Children == nil { // another program began the run
		complaint = "Tasks cannot be delegated here."
	}
	if complaint != "" {
		_, err := l.settled(ctx, answer, call, complaint)
		return err
	}
	turn := answer.request.Turn
	child := Child{
		Key: ChildKey(want.Agent, l.run.UID, turn, call.ID), Agent: want.Agent, CallID: call.ID, Turn: turn, Task: want.Task, MaxTurns: subagent.MaxTurns,
	}
	child.Name = ChildName(l.run.Name, child.Key)
	if l.state.Run.Tools[call.ID].Child == nil {
		if limit := subagent.MaxParallel; limit > 0 && l.underWay(want.Agent) >= limit {
			return nil // its turn comes when another one has ended
		}
		l.deps.Chaos("subagent.before-start")
		if err := l.append(ctx, childEvent(runevent.TypeSubagentStarted, answer, child)); err != nil {
			return err
		}
		l.deps.Chaos("subagent.started")
		return l.ensure(ctx, answer, call, child)
	}
	return l.follow(ctx, answer, call, child)
}

// task reads what a call delegates; the complaint is for the model.
func (l *loop) task(call message.Block) (want delegated, to session.Subagent, complaint string) {
	dec := json.NewDecoder(bytes.NewReader(call.Arguments))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&want); err != nil {
		return want, to, "The arguments are not what delegate takes: an object with the texts agent and task."
	}
	i := slices.IndexFunc(l.cfg.Subagents, func(s session.Subagent) bool { return s.Name == want.Agent })
	switch {
	case i < 0:
		var names []string
		for _, s := range l.cfg.Subagents {
			names = append(names, s.Name)
		}
		return want, to, fmt.Sprintf("There is no subagent named %.64q. There are: %s.", want.Agent, strings.Join(names, ", "))
	case strings.TrimSpace(want.Task) == "":
		return want, to, "The task is empty: say what the subagent is to do, with all that it needs to know."
	case len(want.Task) > MaxTask:
		return want, to, fmt.Sprintf("The task has %d bytes, at most %d are possible: say less, or delegate parts of it.", len(want.Task), MaxTask)
	}
	return want, l.cfg.Subagents[i], ""
}

// underWay counts the tasks of a subagent that were begun and have not ended.
func (l *loop) underWay(agent string) int {
	n := 0
	for _, progress := range l.state.Run.Tools {
		if c := progress.Child; c != nil && !c.Ended && c.Agent[:strings.LastIndexByte(c.Agent, '-')] == agent {
			n++
		}
	}
	return n
}

// follow takes the answer of a child that has ended, and makes one that is not there yet.
func (l *loop) follow(ctx context.Context, answer answered, call message.Block, child Child) error {
	ended, err := l.childLog(ctx, child)
	if err != nil {
		return err
	}
	if ended != nil {
		return l.childEnded(ctx, answer, call, child, *ended)
	}
	return l.ensure(ctx, answer, call, child)
}

// ensure makes the child's run if it is not there. One that never got to its log has no answer. A child that cannot be
// looked after now is looked after when the run is woken up the next time.
func (l *loop) ensure(ctx context.Context, answer answered, call message.Block, child Child) error {
	known, err := l.deps.Children.Ensure(ctx, l.bounded(child))
	l.deps.Chaos("subagent.ensured")
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		return l.childEnded(ctx, answer, call, child, childEnd{reason: failure.Reason, problem: failure.Message})
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		l.deps.Logger.Warn("subagent's run not made, trying again later", "run", l.run.UID, "child", child.Name, "error", err)
		return nil
	case !known.Ended:
		return nil
	}
	// It may have written to its log since.
	ended, err := l.childLog(ctx, child)
	switch {
	case err != nil:
		return err
	case ended == nil:
		ended = &childEnd{reason: known.Reason}
	}
	return l.childEnded(ctx, answer, call, child, *ended)
}

// bounded gives the child what tokens are left to the run and to the session.
func (l *loop) bounded(child Child) Child {
	left := func(limit, used int64) {
		if limit <= 0 {
			return
		}
		rest := max(1, limit-used)
		if child.MaxTotalTokens == 0 || rest < child.MaxTotalTokens {
			child.MaxTotalTokens = rest
		}
	}
	usage := l.state.Usage()
	left(l.cfg.Limits.MaxTotalTokens, l.state.Run.Usage.Total()+l.state.Run.Delegated.Total())
	left(l.cfg.Limits.SessionMaxTotalTokens, usage.Total())
	return child
}

// childEnd is how a child ended.
type childEnd struct {
	reason string
	// text is its answer, problem why it cannot have any; both may be empty.
	text, problem string
	usage         *message.Usage
	turns         int
}

// childLog reads a child's log; nil for one that has not ended there.
func (l *loop) childLog(ctx context.Context, child Child) (*childEnd, error) {
	stream := l.run.Stream()
	stream.Key = child.Key
	var state session.State
	err := l.retrySave(ctx, "read a subagent's log", func() error {
		var err error
		state, err = LoadState(ctx, l.deps.Log, l.deps.Store, stream)
		return err
	})
	switch {
	case errors.Is(err, ErrHistoryCorrupt):
		return &childEnd{reason: ReasonInternal}, nil
	case err != nil:
		return nil, err
	case state.Run == nil || state.Run.Terminal == nil:
		return nil, nil //nolint:nilnil // said above
	}
	run := state.Run
	end := &childEnd{reason: run.Terminal.Reason, usage: run.Usage.PlusTokens(run.Delegated).Reported(), turns: run.Committed}
	if run.Terminal.Type != runevent.TypeRunFinished || run.Terminal.Result == nil {
		return end, nil
	}
	resolver := cas.NewResolver(l.deps.Store, session.MessageIn, cas.ResolverOptions{})
	raws, err := resolver.Messages(ctx, l.run.Scope(), []cas.MessageRef{*run.Terminal.Result})
	if err != nil {
		return nil, fmt.Errorf("read a subagent's answer: %w", err)
	}
	m, err := message.Decode(raws[0])
	if err != nil {
		return nil, fmt.Errorf("%w: answer of run %s: %w", ErrHistoryCorrupt, child.Name, err)
	}
	end.text = m.PlainText()
	return end, nil
}

// childEnded records the end of a child and what the delegating model learns of it.
func (l *loop) childEnded(ctx context.Context, answer answered, call message.Block, child Child, end childEnd) error {
	saving, cancel := outlive(ctx)
	defer cancel()
	if !l.state.Run.Tools[call.ID].Child.Ended {
		event := childEvent(runevent.TypeSubagentFinished, answer, child)
		event.Reason, event.Usage, event.Turns = end.reason, end.usage, end.turns
		if err := l.append(saving, event); err != nil {
			return err
		}
		l.deps.Chaos("subagent.finished")
	}
	result := message.Message{Role: message.RoleToolResult, ToolCallID: call.ID, ToolName: call.Name}
	details, err := json.Marshal(map[string]string{"agent": child.Key, "runName": child.Name})
	if err != nil {
		return err
	}
	result.Details = details
	whole := ""
	switch {
	case end.reason != reasonCompleted:
		result.IsError = true
		result.Content = message.Text(strings.TrimSuffix(fmt.Sprintf("The subagent did not finish: %s. %s", end.reason, end.problem), " "))
	case strings.TrimSpace(end.text) == "":
		result.Content = message.Text("The subagent finished without a text.")
	default:
		var shown string
		shown, whole = cutAnswer(end.text, call.ID)
		result.Content = message.Text(shown)
	}
	ref, err := l.keepWhole(saving, whole, &result)
	if err != nil {
		return err
	}
	_, err = l.recordResult(saving, answer, result, ref)
	return err
}

// cutAnswer bounds an answer, on a rune's boundary. whole is empty for one that was not cut.
func cutAnswer(text, callID string) (shown, whole string) {
	if len(text) <= maxDelegated {
		return text, ""
	}
	kept := message.Beginning(text, maxDelegated)
	mark := fmt.Sprintf("\n\n[Cut: the first %d of %d bytes are shown. read_result with callId %q and offset %d reads on.]", len(kept), len(text), callID, len(kept))
	return kept + mark, text
}

func childEvent(kind runevent.Type, answer answered, child Child) runevent.Event {
	return runevent.Event{
		Type: kind, CallID: child.CallID, RunName: child.Name, Agent: child.Key, Evidence: invocationEvidence(answer.request),
	}
}
