package agent

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// The causes with which a run's context ends. Whoever cancels the context gives one of them as its cause.
var (
	// ErrCancelled ends the run as cancelled: its owner asked for it.
	ErrCancelled = errors.New("run cancelled")
	// ErrSessionDeleted ends the run because its session is being deleted.
	ErrSessionDeleted = errors.New("session deleted")
	// ErrDeadline ends the run because its time is up.
	ErrDeadline = errors.New("run deadline exceeded")
	// ErrHandBack stops the loop without ending the run: another worker goes on with it.
	ErrHandBack = errors.New("worker is stopping")
)

// ErrWaiting is returned when the run waits for people, or for runs that it delegated to, and needs no worker until then.
// The log says so.
var ErrWaiting = errors.New("run waits without a worker")

// ErrNotOverdue is returned when a run that was to be ended with ErrDeadline may be active for longer: while it waited
// without a worker, its time stood still.
var ErrNotOverdue = errors.New("the run's active time is not over")

// ErrLost is returned when another worker has taken the run over: nothing more may be written for it.
var ErrLost = errors.New("run lost to another worker")

// ErrOverdue is returned when a run was not begun because its time for that is over. Nothing was written for it.
var ErrOverdue = errors.New("run was not begun in time")

// The operations of runs.
const (
	OperationPrompt  = "Prompt"
	OperationCompact = "Compact"
)

// Live is something that happens while a run goes on and is not stored: watchers may see it, nobody depends on it.
type Live struct {
	Type   string                `json:"type"`
	Run    string                `json:"run"`
	Turn   int                   `json:"turn,omitempty"`
	Budget *budget.ContextBudget `json:"budget,omitempty"`
	// Dispatched is absent for the budget of a request that is about to be sent, true once its exact body has passed the
	// guard, and false for one that was rejected.
	Dispatched *bool `json:"dispatched,omitempty"`
}

// LiveBudget is the type of a Live with a budget. Each main request that fits gives two: as it was measured, and again with the
// output cap that its body declares. A rejected one ends with one that says so.
const LiveBudget = "context_budget"

// Run says which run is executed and what it was asked. It is complete and immutable.
type Run struct {
	Namespace, Name, UID string
	SessionUID           string
	AgentKey             string
	Operation            string
	// Recorded is the number of the last entry that the run's stream is known to have had; 0 for not known. A stream that ends
	// before it has lost its end, and nothing is appended to it.
	Recorded int64
	// Prompt is the user message; images hold their data.
	Prompt  message.Message
	Attempt int
	Worker  string
	// Config is what the run works under; a takeover is handed the stored one by the loop itself.
	Config session.RunConfig
	// Refusal, when set, is why the run's specification cannot be used; Prompt and Config are then incomplete. It fails a
	// run that has not begun. One that has goes on under what it was begun with.
	Refusal *Failure
	// Skills are what the model may load by itself. Config says which they are only once the run has begun.
	Skills []session.Skill
	// StartBy is until when the run may begin, by Deps.Now; zero for no limit. It does not concern a run that has begun.
	StartBy time.Time
	// Queued is when the run was made, by the clock of who keeps it; zero for not known.
	Queued time.Time
	// TraceParent is the trace that the run is part of, as W3C Trace Context has it; empty for one of its own. Nobody has
	// checked it.
	TraceParent string
	// CallerHook may edit the serialized body of a main request or one for a summary before the guard sees it; nil for none.
	CallerHook func([]byte) ([]byte, error)
}

// Stream returns the run's event stream.
func (r Run) Stream() runevent.Stream {
	return runevent.Stream{Class: runevent.ClassRun, Namespace: r.Namespace, Session: r.SessionUID, Key: r.AgentKey}
}

// Scope returns the run's object scope.
func (r Run) Scope() cas.Scope { return cas.Scope{Namespace: r.Namespace, Session: r.SessionUID} }

// Tools connects to a run's tool servers. want is nil at the first start; a takeover passes the tool set that the
// run was started with, and gets a set of exactly those definitions. A failure is a *Failure with a reason.
type Tools interface {
	Connect(ctx context.Context, want *session.ToolSet) (tool.Set, error)
}

// Approvals tells what people have decided about the calls of a run.
type Approvals interface {
	// Decisions returns every decision about the run's calls, in the order in which they were made.
	Decisions(ctx context.Context) ([]Decision, error)
}

// Decision is what a person has decided about one call with certain arguments.
type Decision struct {
	// ID tells the decision from others; it is at most 64 bytes.
	ID     string
	CallID string
	// ArgumentsDigest must be that of the call's arguments: a decision about others is none.
	ArgumentsDigest cas.Digest
	Approve         bool
	// At is when it was made: one that came after the call's time was over does not count.
	At time.Time
	// Approver is who decided. Reason is what they say about it, at most 1 KiB; the model reads it when the call is denied.
	Approver, Reason string
}

// Children makes the runs that a run delegates to.
type Children interface {
	// Ensure makes the child's run, unless there is one, and says what is known of it. The error of one that can never be
	// made is a *Failure, whose message the model reads.
	Ensure(ctx context.Context, child Child) (ChildState, error)
}

// Child is a task that is delegated to a subagent.
type Child struct {
	// Name is the run's, and Key its agent key: both are the same for the same call of the same run.
	Name, Key string
	// Agent is the subagent's name, CallID the call that delegates, in the turn Turn, Task what it asks for.
	Agent, CallID, Task string
	Turn                int
	// MaxTurns and MaxTotalTokens bound the run; 0 for no bound of its own.
	MaxTurns       int
	MaxTotalTokens int64
}

// ChildState is what is known of a child besides its log. Ended is true for one that has ended, for the reason Reason.
type ChildState struct {
	Ended  bool
	Reason string
}

// Host is what a run hands to the tools that the program itself has. Its functions may be called until the run ends, by
// several goroutines at a time.
type Host struct {
	// Known, when not nil, are the definitions that the run was started with: no others may be declared.
	Known []tool.Definition
	// Others are the definitions of the run's other tools.
	Others []tool.Definition
	// Subagents are what the run may delegate to.
	Subagents []session.Subagent
	// Skills are what the model may load.
	Skills []session.LoadableSkill
	// Skill reads one of Skills as it was when the run began. It returns ErrNoSkill for any other id.
	Skill func(ctx context.Context, id string) (session.Skill, error)
	// Result reads all of the text of an earlier result of the session that was cut, by its call's id. It returns
	// ErrNoResult when there is no such result, and ErrNotCut for one that the history has whole.
	Result func(ctx context.Context, callID string) (string, error)
}

// What a Host has not.
var (
	// ErrNoSkill is returned when the run has no such skill.
	ErrNoSkill = errors.New("no such skill")
	// ErrNoResult is returned when the history has no result of the call.
	ErrNoResult = errors.New("no result of that call")
	// ErrNotCut is returned when nothing of a result was left out.
	ErrNotCut = errors.New("the result was not cut")
)

// Deps are the ports and injected sources that the loop uses. None may be nil but Approvals, Children, BuiltIn, Estimator,
// View, Calibrations, Quota, Limits, Observer and Chaos.
type Deps struct {
	Log   runevent.Log
	Store cas.Store
	Model provider.Streamer
	Tools Tools
	// Approvals tells what people decide; nil when nobody can be asked, so that calls which need it are denied.
	Approvals Approvals
	// Children makes the runs of subagents; nil when a run cannot delegate.
	Children Children
	// BuiltIn makes the tools that need no server; nil for none. It does no I/O.
	BuiltIn func(Host) tool.Set
	Now     func() time.Time
	NewID   func() string
	// Sleep waits or returns ctx's error.
	Sleep  func(ctx context.Context, d time.Duration) error
	Live   func(Live)
	Logger *slog.Logger
	// Estimator returns the estimator of a name, nil for one that there is not; nil itself for the heuristic only.
	Estimator func(name string) budget.Estimator
	// View shows the session to the program that executes the run; nil for nobody.
	View *SessionView
	// Calibrations corrects estimates by what earlier responses counted; nil for never.
	Calibrations Calibrations
	// Quota tells what the provider of a model allows, Limits shares it among all workers; nil for no limits.
	Quota  func(ctx context.Context, model provider.Model) (Quota, error)
	Limits Limits
	// Observer is told what the run does; nil for nobody.
	Observer Observer
	// Chaos is called with the name of each point between "accepted" and "committed"; tests stop the process there.
	Chaos func(point string)
}

// Failure is why a run failed: an AgentRun reason, a short sentence free of content, and the evidence.
type Failure struct {
	Reason  string
	Message string
	// Class, HTTPStatus, Retryable and Detail describe a provider's failure.
	Class      provider.Class
	HTTPStatus int
	Retryable  bool
	Detail     []byte
	Err        error
}

// Error returns reason and message.
func (f *Failure) Error() string { return f.Reason + ": " + f.Message }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// The reasons with which the loop itself fails or ends a run; they are the reasons of AgentRun's Succeeded condition.
const (
	ReasonBudgetExceeded    = "ContextBudgetExceeded"
	ReasonOutputCapRejected = "OutputCapRejected"
	ReasonInvalidProjection = "InvalidProjection"
	ReasonMaxTurns          = "MaxTurnsExceeded"
	ReasonTokenLimit        = "TokenLimitExceeded"
	ReasonDeadline          = "DeadlineExceeded"
	ReasonCancelled         = "Cancelled"
	ReasonSessionDeleted    = "SessionDeleted"
	ReasonAuthFailed        = "ProviderAuthFailed"
	ReasonRejected          = "ProviderRejected"
	ReasonUnavailable       = "ProviderUnavailable"
	ReasonRateLimited       = "RateLimited"
	ReasonPersistence       = "PersistenceFailed"
	ReasonWorkerLost        = "WorkerLost"
	ReasonToolServer        = "ToolServerUnavailable"
	ReasonCompactionFailed  = "CompactionFailed"
	ReasonNothingToCompact  = "NothingToCompact"
	ReasonInternal          = "InternalError"
)
