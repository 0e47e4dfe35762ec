package runevent

import (
	"encoding/json"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
)

// Version is the format version that this code writes and the highest that it folds.
const Version = 1

// MaxInline is the largest body in bytes that an entry holds itself; longer ones are objects that the entry names.
const MaxInline = 8 << 10

// Entry is one entry of a run-event stream. Sequence is the entry's number ("#") in its stream, from 1.
type Entry struct {
	CreatedAt time.Time `json:"createdAt"`
	Sequence  int64     `json:"sequence"`
	Event     Event     `json:"event"`
}

// Type names what happened.
type Type string

// The event types. docs/format/run-events.md defines the fields of each.
const (
	TypeRunStarted       Type = "run.started"
	TypeRunFinished      Type = "run.finished"
	TypeRunFailed        Type = "run.failed"
	TypeRunCancelled     Type = "run.cancelled"
	TypeRunHandedBack    Type = "run.handedback"
	TypeMessageUser      Type = "message.user"
	TypeReasoning        Type = "reasoning"
	TypeBody             Type = "body"
	TypeToolCall         Type = "tool.call"
	TypeToolStarted      Type = "tool.started"
	TypeToolResult       Type = "tool.result"
	TypeToolUnknown      Type = "tool.unknown"
	TypeModelRejected    Type = "model.rejected"
	TypeModelFailed      Type = "model.failed"
	TypeMCPAudit         Type = "mcp.audit"
	TypeSubagentStarted  Type = "subagent.started"
	TypeSubagentFinished Type = "subagent.finished"
	// TypeToolOutput stands only in tool-output streams.
	TypeToolOutput Type = "tool.output"
	// TypeRecord is evidence without a counterpart in the conversation; Kind says which.
	TypeRecord Type = "agent.record"
)

// Progress says that an entry of the type only moves a live run on: it neither begins nor ends one, nor gives it back.
func (t Type) Progress() bool {
	switch t {
	case TypeRunStarted, TypeRunFinished, TypeRunFailed, TypeRunCancelled, TypeRunHandedBack:
		return false
	}
	return true
}

// Kind names the evidence of an agent.record event.
type Kind string

// The record kinds.
const (
	KindContextCaptured     Kind = "context.captured"
	KindModelCompleted      Kind = "model.completed"
	KindStateCommitted      Kind = "state.committed"
	KindContextRecovery     Kind = "context_recovery"
	KindCompactionCommitted Kind = "compaction.committed"
	KindApproval            Kind = "approval"
	KindRequestWaiting      Kind = "request.waiting"
)

// Decision is what an approval record says about a tool call.
type Decision string

// The decisions. A requested call waits for one of the others.
const (
	DecisionRequested Decision = "requested"
	DecisionApproved  Decision = "approved"
	DecisionDenied    Decision = "denied"
	DecisionExpired   Decision = "expired"
)

// Purpose says what a captured context was for. Only main requests move the map, the budget and the counts.
type Purpose string

// The purposes of a model request.
const (
	PurposeMain    Purpose = "main"
	PurposeSummary Purpose = "summary"
	PurposeTitle   Purpose = "title"
)

// Event is the payload of an entry: one flat object, of which each type uses some fields.
type Event struct {
	V    int  `json:"v"`
	Type Type `json:"type"`
	Kind Kind `json:"kind,omitempty"`

	// Run events.
	RunName   string   `json:"runName,omitempty"`
	Operation string   `json:"operation,omitempty"`
	Attempt   int      `json:"attempt,omitempty"`
	Worker    string   `json:"worker,omitempty"`
	Config    *cas.Ref `json:"config,omitempty"`
	// Reason is the AgentRun reason of a failed or cancelled run, or of a rejected model request.
	Reason string `json:"reason,omitempty"`
	// Message is a short, content-free sentence for people.
	Message    string   `json:"message,omitempty"`
	Class      string   `json:"class,omitempty"`
	HTTPStatus int      `json:"httpStatus,omitempty"`
	Retryable  bool     `json:"retryable,omitempty"`
	Detail     *cas.Ref `json:"detail,omitempty"`
	// Record names the context snapshot of a rejected request.
	Record *cas.Ref `json:"record,omitempty"`
	// Result names the final assistant message of a finished run.
	Result *cas.MessageRef `json:"result,omitempty"`
	Turns  int             `json:"turns,omitempty"`

	// Conversation. Body is the inline message in its canonical JSON; Ref names it when it is longer than MaxInline.
	Body json.RawMessage `json:"body,omitempty"`
	Ref  *cas.Ref        `json:"ref,omitempty"`
	// Text is a coalesced increment of reasoning, body or tool output; TextRef names it when it is long.
	Text    string   `json:"text,omitempty"`
	TextRef *cas.Ref `json:"textRef,omitempty"`
	Block   int      `json:"block,omitempty"`

	// Tools.
	CallID       string          `json:"callId,omitempty"`
	Name         string          `json:"name,omitempty"`
	Arguments    json.RawMessage `json:"arguments,omitempty"`
	ArgumentsRef *cas.Ref        `json:"argumentsRef,omitempty"`
	IsError      bool            `json:"isError,omitempty"`
	Server       string          `json:"server,omitempty"`
	Audit        json.RawMessage `json:"audit,omitempty"`
	// Whole names all of the text of a result that was cut.
	Whole *cas.Ref `json:"whole,omitempty"`
	// Nested, from 1, says that the event is about a call that the execution of call CallID made itself; 0 is the call.
	Nested int `json:"nested,omitempty"`

	// Records.
	Purpose    Purpose        `json:"purpose,omitempty"`
	PayloadRef *cas.Ref       `json:"payloadRef,omitempty"`
	Usage      *message.Usage `json:"usage,omitempty"`
	StopReason string         `json:"stopReason,omitempty"`
	// RequestOutputTokenLimit is the output cap that the guard saw in the sent body, in tokens.
	RequestOutputTokenLimit *int64   `json:"requestOutputTokenLimit,omitempty"`
	Checkpoint              *cas.Ref `json:"checkpoint,omitempty"`
	// SnapshotRefs and SectionsRef name the runtime-context snapshots and the section checkpoint that become part of the
	// session with this entry.
	SnapshotRefs []cas.Ref `json:"snapshotRefs,omitempty"`
	SectionsRef  *cas.Ref  `json:"sectionsRef,omitempty"`

	// Approvals. ArgumentsDigest is of the call's arguments as its tool.call has them; Until is when an undecided call
	// counts as denied. Approver and Approval are who decided and the UID of the object that says so.
	Decision        Decision   `json:"decision,omitempty"`
	ArgumentsDigest cas.Digest `json:"argumentsDigest,omitzero"`
	Until           *time.Time `json:"until,omitempty"`
	Approver        string     `json:"approver,omitempty"`
	Approval        string     `json:"approval,omitempty"`

	// Subagents.
	Agent string `json:"agent,omitempty"`

	Evidence Evidence `json:"evidence"`
}

// Evidence says whose entry it is, when it was captured, and what it belongs to.
type Evidence struct {
	AgentID            string    `json:"agentId"`
	AgentRunID         string    `json:"agentRunId"`
	RequestExecutionID string    `json:"requestExecutionId,omitempty"`
	Turn               int       `json:"turn,omitempty"`
	RecordedAt         time.Time `json:"recordedAt"`
	// EndedAt is the capture time of the last increment that was merged into the entry.
	EndedAt    *time.Time `json:"endedAt,omitempty"`
	ResponseID string     `json:"responseId,omitempty"`
	ContextRef *cas.Ref   `json:"contextRef,omitempty"`
	// StateRef names the latest committed state; mandatory after the first commit.
	StateRef *cas.Ref `json:"stateRef,omitempty"`
	// Prev is the digest of the exact bytes of the stream's previous entry; zero for the first.
	Prev cas.Digest `json:"prev,omitzero"`
}
