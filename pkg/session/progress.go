package session

import (
	"slices"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// ToolProgress is how far one call has come.
type ToolProgress struct {
	Attempts int
	// Nested are the tools that its executions have begun to call themselves, each once.
	Nested  []string
	Unknown bool
	// Approval is what is known of a person's decision about the call; nil when nobody was asked.
	Approval *Approval
	// Child is the run that the call was delegated to; nil for a call that was not.
	Child *Child
	// Result is the result's event; nil while there is none.
	Result *runevent.Event
}

// Approval is the question whether a call may be made, and the answer.
type Approval struct {
	Name, Server    string
	ArgumentsDigest cas.Digest
	// Since is when it was asked, Until when the call counts as denied; zero for never.
	Since, Until time.Time
	// Decision is DecisionRequested while nobody has decided.
	Decision runevent.Decision
	// Approver is who decided, Reason what they say about it.
	Approver, Reason string
}

// Open says whether nobody has decided.
func (a *Approval) Open() bool { return a != nil && a.Decision == runevent.DecisionRequested }

// clockSlack is how much earlier than the question a decision may seem to have been made: two clocks are compared.
const clockSlack = 10 * time.Second

// Answers says whether a decision about a call with such arguments that was made then is an answer: nobody has decided
// before, it was in time, and it is not about an earlier call. Models give the same id to a call of a later turn, and a
// decision counts once.
func (r *RunProgress) Answers(callID, decisionID string, arguments cas.Digest, at time.Time) bool {
	progress := r.Tools[callID]
	if progress == nil || !progress.Approval.Open() {
		return false
	}
	asked := progress.Approval
	return arguments == asked.ArgumentsDigest && !at.Before(asked.Since.Add(-clockSlack)) && (asked.Until.IsZero() || !at.After(asked.Until)) &&
		!slices.Contains(r.Decided, decisionID)
}

// Waits says whether the call waits for a person.
func (p *ToolProgress) Waits() bool { return p != nil && p.Result == nil && p.Approval.Open() }

// Delegated says whether the call waits for a run that it was delegated to.
func (p *ToolProgress) Delegated() bool { return p != nil && p.Result == nil && p.Child != nil }

// Child is a run that a call was delegated to.
type Child struct {
	// Agent is the agent key of its stream, RunName the name of its AgentRun.
	Agent, RunName string
	// Ended says that the log has its end.
	Ended bool
}
