package session

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// RecentRuns is how many ended runs a state names, so that none of them is started again.
const RecentRuns = 64

// State is the state of one agent stream: what its latest committed AgentState says, moved on by the entries since.
type State struct {
	Agent string
	// Head is the stream's last folded entry.
	Head     runevent.Head
	StateRef *cas.Ref
	// History references every message in order: committed ones, and accepted prompts from the moment that their
	// message.user was appended.
	History []cas.MessageRef
	// List is the history before the latest committed step, as it is stored: its segments are durable.
	List       cas.MessageList
	Snapshots  []cas.Ref
	Sections   *cas.Ref
	Checkpoint *cas.Ref
	// ToolSet is the tools of the latest run that had connected its own; nil before there was one.
	ToolSet *cas.Ref
	Model   ModelIdentity
	// Earlier is the usage of the runs before the latest one.
	Earlier Totals
	// Title names the model action that holds the session's title; nil while it has none.
	Title *cas.Ref
	// Run is the latest run of the stream, live or ended; nil before the first.
	Run *RunProgress
	// Recent names the last ended runs, newest last.
	Recent []string
}

// RunProgress is how far the latest run has come: what recovery and status need.
type RunProgress struct {
	UID, Name string
	RunCounters
	// Committed is the latest committed turn.
	Committed int
	// Phase is where a live run is: one of the Unknown reasons of the Succeeded condition.
	Phase string
	// Captured is the latest main request without a completion; Completed a response that is not committed yet.
	Captured  *Request
	Completed *Completed
	// Summaries are the complete summaries that no checkpoint has been made of yet: by the digest of the context that each
	// was asked for with, the action that holds it.
	Summaries map[cas.Digest]cas.Ref
	// Compacting says that a compaction was begun whose outcome is not in the log, Counted that Compactions counts it.
	Compacting, Counted bool
	// Compacted says that the run has made a checkpoint since its last commit.
	Compacted bool
	// Before is what Captured has displaced; it comes back when that request is refused before dispatch.
	Before *Latest
	// Tools is the progress of the completed response's calls, by call id.
	Tools map[string]*ToolProgress
	// HandedBack says that the worker gave the run back by itself: the next one's start is no further attempt.
	HandedBack bool
	// Waiting is what the run was given back to wait for, one of the phases; empty when it does not wait. WaitingSince is
	// when that was.
	Waiting      string
	WaitingSince time.Time
	// Ending is the terminal event that the latest commit announced.
	Ending *runevent.Event
	// Terminal is the run's last event; nil while it is live. EndedAt is its capture time.
	Terminal *runevent.Event
	EndedAt  time.Time
}

// Request is one captured request.
type Request struct {
	RequestExecutionID string
	Turn               int
	ContextRef         cas.Ref
}

// Latest names the latest dispatched main request: its context and the output cap that its body declared.
type Latest struct {
	Context *cas.Ref
	Limit   *int64
}

// Completed is one complete response.
type Completed struct {
	Request
	Action     cas.Ref
	ResponseID string
}

// Waited is how long the run has waited without a worker until now.
func (r *RunProgress) Waited(now time.Time) time.Duration {
	waited := time.Duration(r.WaitedMillis) * time.Millisecond
	if r.Waiting != "" && now.After(r.WaitingSince) {
		waited += now.Sub(r.WaitingSince)
	}
	return waited
}

// The phases that events tell; PendingSave is not among them, for then no event can be stored.
const (
	PhaseStarting     = "Starting"
	PhaseAssembling   = "AssemblingRequest"
	PhaseCompacting   = "Compacting"
	PhaseModelCall    = "ModelCall"
	PhaseToolCall     = "ToolCall"
	PhaseRetryBackoff = "RetryBackoff"
	PhaseRateLimited  = "RateLimited"
	PhaseApproval     = "AwaitingApproval"
)

// Live says whether a run has started and not ended.
func (s *State) Live() bool { return s.Run != nil && s.Run.Terminal == nil }

// Counters are the run's counters as a commit stores them. A request that is open then will not be answered any more:
// it counts as a request without usage.
func (s *State) Counters() RunCounters {
	counters := s.Run.RunCounters
	if s.Run.Captured != nil {
		counters.Usage.Add(nil)
	}
	return counters
}

// Usage is the session's usage so far, with the tokens of the runs that were delegated to and have ended.
func (s *State) Usage() Totals {
	if s.Run == nil {
		return s.Earlier
	}
	return s.Earlier.Plus(s.Run.Usage).PlusTokens(s.Run.Delegated)
}

// Ended says whether the run is known to have ended.
func (s *State) Ended(uid string) bool {
	if s.Run != nil && s.Run.UID == uid {
		return s.Run.Terminal != nil
	}
	for _, recent := range s.Recent {
		if recent == uid {
			return true
		}
	}
	return false
}

// Empty is the state of a stream before its first entry.
func Empty(agent string) State { return State{Agent: agent} }

// FromState is the state that a commit stands for. history is the decoded s.History. Entries after s.LastSequence, the
// commit's own among them, are then applied with Apply.
func FromState(s AgentState, ref cas.Ref, history []cas.MessageRef) State {
	state := State{
		Agent: s.Agent, Recent: s.Recent, History: append([]cas.MessageRef(nil), history...),
		Run: &RunProgress{UID: s.RunUID, Name: s.RunName},
	}
	state.Commit(s, ref)
	state.Head.Sequence = s.LastSequence
	return state
}

// Commit moves the state on by a committed step. The state.committed entry that names it is then applied with Apply.
func (s *State) Commit(committed AgentState, ref cas.Ref) {
	s.StateRef = &ref
	s.List = committed.History
	s.History = append(s.History, committed.Step.StepRefs(ref.Digest)...)
	s.Snapshots, s.Sections, s.Checkpoint = committed.Snapshots, committed.Sections, committed.Checkpoint
	s.ToolSet = committed.ToolSet
	s.Model, s.Earlier, s.Recent, s.Title = committed.Model, committed.Earlier, committed.Recent, committed.Title
	s.Run.Committed, s.Run.Ending = committed.Step.Turn, committed.Step.Terminal
	s.Run.RunCounters = committed.Run
	s.Run.Phase = PhaseAssembling
	s.Run.Captured, s.Run.Before, s.Run.Completed, s.Run.Tools, s.Run.Summaries = nil, nil, nil, nil, nil
	s.Run.Compacted, s.Run.Compacting, s.Run.Counted = false, false, false
}

// Apply folds one verified entry. An entry that does not follow the state, and a commit whose state was not loaded
// (through FromState or Commit), are errors; the state is then unchanged.
func (s *State) Apply(entry runevent.Entry, head runevent.Head) error {
	if entry.Sequence != s.Head.Sequence+1 {
		return fmt.Errorf("fold: entry #%d after #%d", entry.Sequence, s.Head.Sequence)
	}
	event := entry.Event
	if event.Kind == runevent.KindStateCommitted {
		named := event.Evidence.StateRef
		if named == nil || s.StateRef == nil || s.StateRef.Digest != named.Digest {
			return fmt.Errorf("fold: entry #%d commits a state that is not loaded", entry.Sequence)
		}
	}
	if event.Type == runevent.TypeMessageUser && event.Ref == nil {
		return fmt.Errorf("fold: entry #%d names no message", entry.Sequence)
	}
	if event.Type != runevent.TypeRunStarted && s.Run == nil {
		return fmt.Errorf("fold: entry #%d belongs to no run", entry.Sequence)
	}
	s.Head = head
	switch event.Type {
	case runevent.TypeRunStarted:
		s.runStarted(event)
	case runevent.TypeMessageUser:
		s.History = append(s.History, cas.MessageRef{Digest: event.Ref.Digest})
		s.Run.Accepted, s.Run.Phase, s.Run.Compactions = true, PhaseAssembling, 0
	case runevent.TypeRunFinished, runevent.TypeRunFailed, runevent.TypeRunCancelled:
		s.runEnded(event)
	case runevent.TypeRunHandedBack:
		s.Run.HandedBack = true
		if event.Reason != "" {
			s.Run.Waiting, s.Run.WaitingSince, s.Run.Phase = event.Reason, event.Evidence.RecordedAt, event.Reason
		}
	case runevent.TypeModelFailed:
		s.modelFailed(event)
	case runevent.TypeModelRejected:
		s.rejected(event)
	case runevent.TypeRecord:
		s.record(event)
	default:
		s.tool(event)
	}
	return nil
}

func (s *State) runStarted(event runevent.Event) {
	if s.Run == nil || s.Run.UID != event.Evidence.AgentRunID {
		s.Earlier = s.Usage()
		s.Run = &RunProgress{UID: event.Evidence.AgentRunID, Name: event.RunName}
		s.Run.StartedAt = event.Evidence.RecordedAt
	}
	if s.Run.Compacting && s.Run.Counted { // it ended with its worker: the next one may try it again
		s.Run.Compactions--
	}
	s.Run.Compacting, s.Run.Counted = false, false
	s.Run.WaitedMillis = s.Run.Waited(event.Evidence.RecordedAt).Milliseconds()
	s.Run.Attempt, s.Run.Worker, s.Run.Phase, s.Run.HandedBack = event.Attempt, event.Worker, PhaseStarting, false
	s.Run.Waiting, s.Run.WaitingSince = "", time.Time{}
	if event.Config != nil {
		s.Run.Config = event.Config
	}
}

func (s *State) runEnded(event runevent.Event) {
	s.Run.RunCounters = s.Counters()
	s.Run.WaitedMillis = s.Run.Waited(event.Evidence.RecordedAt).Milliseconds()
	s.Run.Captured, s.Run.Before, s.Run.Waiting, s.Run.WaitingSince = nil, nil, "", time.Time{}
	s.Run.Terminal, s.Run.EndedAt, s.Run.Phase = &event, event.Evidence.RecordedAt, ""
	s.Recent = appendRecent(s.Recent, s.Run.UID)
}

func appendRecent(recent []string, uid string) []string {
	out := append(append([]string(nil), recent...), uid)
	if len(out) > RecentRuns {
		out = out[len(out)-RecentRuns:]
	}
	return out
}

// modelFailed counts a failed attempt; what the provider reported with the failure is usage like any other.
func (s *State) modelFailed(event runevent.Event) {
	s.Run.Compacting = s.Run.Compacting && event.Purpose != runevent.PurposeSummary
	if s.Run.Captured == nil || event.Purpose != runevent.PurposeMain {
		return
	}
	s.Run.Captured, s.Run.Before, s.Run.Phase = nil, nil, PhaseAssembling
	if event.Retryable {
		s.Run.Phase = PhaseRetryBackoff
	}
	if event.Retryable && event.Class == string(provider.ClassRateLimited) {
		s.Run.Phase = PhaseRateLimited
	}
	s.Run.Usage.Add(event.Usage)
}

func (s *State) record(event runevent.Event) {
	switch event.Kind {
	case runevent.KindContextCaptured:
		s.captured(event)
	case runevent.KindModelCompleted:
		s.completed(event)
	case runevent.KindCompactionCommitted:
		s.Checkpoint = event.Checkpoint
		s.admit(event)
		s.Run.Summaries, s.Run.Compacted, s.Run.Compacting, s.Run.Counted = nil, true, false, false
	case runevent.KindContextRecovery:
		s.Run.Recovered = event.Evidence.Turn
	case runevent.KindRequestWaiting:
		s.Run.Phase = PhaseRateLimited
	case runevent.KindApproval:
		s.approval(event)
	}
}

// approval takes the question about a call, or the first answer to it: those that come later change nothing.
func (s *State) approval(event runevent.Event) {
	progress := s.Run.Tools[event.CallID]
	switch {
	case progress == nil:
	case event.Decision == runevent.DecisionRequested && progress.Approval == nil:
		progress.Approval = &Approval{
			Name: event.Name, Server: event.Server, ArgumentsDigest: event.ArgumentsDigest, Decision: event.Decision,
			Since: event.Evidence.RecordedAt,
		}
		if event.Until != nil {
			progress.Approval.Until = *event.Until
		}
	case event.Decision != runevent.DecisionRequested && progress.Approval.Open():
		decided := *progress.Approval
		decided.Decision, decided.Approver, decided.Reason = event.Decision, event.Approver, event.Text
		progress.Approval = &decided
		if event.Approval != "" {
			s.Run.Decided = append(s.Run.Decided[max(0, len(s.Run.Decided)+1-maxDecided):len(s.Run.Decided):len(s.Run.Decided)], event.Approval)
		}
	}
}

// completed takes a whole response. A summary or a title is no part of the conversation.
func (s *State) completed(event runevent.Event) {
	switch {
	case event.PayloadRef == nil, event.Reason != "" && event.Purpose != runevent.PurposeMain: // it was of no use
	case event.Purpose == runevent.PurposeSummary && event.Evidence.ContextRef != nil:
		if s.Run.Summaries == nil {
			s.Run.Summaries = map[cas.Digest]cas.Ref{}
		}
		s.Run.Summaries[event.Evidence.ContextRef.Digest] = *event.PayloadRef
	case event.Purpose == runevent.PurposeTitle:
		s.Title = event.PayloadRef
	case event.Purpose == runevent.PurposeMain && s.Run.Captured != nil:
		s.Run.Completed = &Completed{Request: *s.Run.Captured, Action: *event.PayloadRef, ResponseID: event.Evidence.ResponseID}
		s.Run.Captured, s.Run.Before, s.Run.Tools = nil, nil, map[string]*ToolProgress{}
		s.Run.LastLimit = event.RequestOutputTokenLimit
		s.Run.Usage.Add(event.Usage)
	}
}

// admit takes the snapshots and the section checkpoint that become part of the session with an entry.
func (s *State) admit(event runevent.Event) {
	s.Snapshots = append(s.Snapshots[:len(s.Snapshots):len(s.Snapshots)], event.SnapshotRefs...)
	if event.SectionsRef != nil {
		s.Sections = event.SectionsRef
	}
}

// captured begins a main request. One that is still open was never answered, because its worker died: it counts as a
// request without usage.
func (s *State) captured(event runevent.Event) {
	s.admit(event)
	if event.Evidence.ContextRef == nil {
		return
	}
	if event.Purpose == runevent.PurposeSummary {
		s.Run.Counted = s.Run.Counted || event.Attempt > s.Run.Compactions
		s.Run.Compactions, s.Run.Phase, s.Run.Compacting = max(s.Run.Compactions, event.Attempt), PhaseCompacting, true
	}
	if event.Purpose != runevent.PurposeMain {
		return
	}
	s.Run.Compactions, s.Run.Summaries, s.Run.Compacting, s.Run.Counted = event.Attempt, nil, false, false
	s.Run.RunCounters = s.Counters()
	s.Run.Before = &Latest{Context: s.Run.LastContext, Limit: s.Run.LastLimit}
	s.Run.Turn, s.Run.Phase = event.Evidence.Turn, PhaseModelCall
	s.Run.Requests++
	s.Run.LastContext, s.Run.LastLimit = event.Evidence.ContextRef, nil
	s.Run.Captured = &Request{event.Evidence.RequestExecutionID, event.Evidence.Turn, *event.Evidence.ContextRef}
}

// rejected takes a captured request back that its guard refused: nothing was sent, so it moves neither the counts nor
// the latest dispatched context.
func (s *State) rejected(event runevent.Event) {
	s.Run.Compacting = s.Run.Compacting && event.Purpose != runevent.PurposeSummary
	if s.Run.Captured == nil || event.Purpose != runevent.PurposeMain {
		return
	}
	s.Run.Requests--
	s.Run.LastContext, s.Run.LastLimit = s.Run.Before.Context, s.Run.Before.Limit
	s.Run.Captured, s.Run.Before, s.Run.Phase = nil, nil, PhaseAssembling
}

func (s *State) tool(event runevent.Event) {
	if s.Run.Tools == nil || event.CallID == "" {
		return
	}
	progress := s.Run.Tools[event.CallID]
	if progress == nil {
		progress = &ToolProgress{}
		s.Run.Tools[event.CallID] = progress
	}
	if event.Nested > 0 {
		if event.Type == runevent.TypeToolStarted && !slices.Contains(progress.Nested, event.Name) {
			progress.Nested = append(progress.Nested, event.Name)
		}
		return
	}
	switch event.Type {
	case runevent.TypeToolCall:
		s.Run.ToolCalls++
	case runevent.TypeToolStarted:
		progress.Attempts++
		s.Run.Phase = PhaseToolCall
	case runevent.TypeToolUnknown:
		progress.Unknown = true
	case runevent.TypeSubagentStarted:
		progress.Child = &Child{Agent: event.Agent, RunName: event.RunName}
		s.Run.Phase = PhaseToolCall
	case runevent.TypeSubagentFinished:
		s.childEnded(progress, event)
	case runevent.TypeToolResult:
		progress.Result = &event
	}
}

// childEnded takes the first end of a run that was delegated to.
func (s *State) childEnded(progress *ToolProgress, event runevent.Event) {
	if progress.Child == nil || progress.Child.Ended {
		return
	}
	ended := *progress.Child
	ended.Ended = true
	progress.Child = &ended
	s.Run.Delegated.Add(event.Usage)
}

// Clone returns a copy that can be moved on without changing s.
func (s *State) Clone() State {
	out := *s
	out.History = append([]cas.MessageRef(nil), s.History...)
	if s.Run == nil {
		return out
	}
	run := *s.Run
	run.Summaries = maps.Clone(s.Run.Summaries)
	if s.Run.Tools != nil {
		run.Tools = make(map[string]*ToolProgress, len(s.Run.Tools))
		for id, progress := range s.Run.Tools {
			copied := *progress
			copied.Nested = slices.Clone(progress.Nested)
			run.Tools[id] = &copied
		}
	}
	out.Run = &run
	return out
}
