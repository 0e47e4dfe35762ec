package trajectory

import (
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// Time is a capture time in microseconds since the Unix epoch. Zero means that none was recorded.
type Time int64

// timeOf converts a recorded time. Times before 2000 are those of clocks that were never set.
func timeOf(t time.Time) Time {
	if t.Year() < 2000 {
		return 0
	}
	return Time(t.UnixMicro())
}

// Type says what an entry is.
type Type string

// The entry types. Entries of TypeUnknown are of a newer format: they are listed and not interpreted.
const (
	TypeModelInput  Type = "modelInput"
	TypeReasoning   Type = "reasoning"
	TypeModelOutput Type = "modelOutput"
	TypeTool        Type = "tool"
	TypeMCP         Type = "mcp"
	TypeLifecycle   Type = "lifecycle"
	TypeUnknown     Type = "unknown"
)

// Status says how far the thing that an entry stands for came.
type Status string

// The statuses. docs/spec/trajectory.md says which type has which.
const (
	StatusPending    Status = "pending"
	StatusDeclared   Status = "declared"
	StatusRunning    Status = "running"
	StatusCompleted  Status = "completed"
	StatusFailed     Status = "failed"
	StatusRejected   Status = "rejected"
	StatusError      Status = "error"
	StatusCancelled  Status = "cancelled"
	StatusUnknown    Status = "unknown"
	StatusUnfinished Status = "unfinished"
)

// RunName names a run.
type RunName struct {
	UID  string `json:"uid"`
	Name string `json:"name,omitempty"`
}

// ModelName names a model.
type ModelName struct {
	Provider string `json:"provider"`
	API      string `json:"api,omitempty"`
	ID       string `json:"id"`
}

// Entry is one node of a trajectory as the index lists it. It holds no content.
type Entry struct {
	ID     string `json:"id"`
	Agent  string `json:"agent"`
	Type   Type   `json:"type"`
	Event  string `json:"event"`
	Hidden bool   `json:"hidden"`
	// Sequence is the number ("#") of the run event that defines the entry, LastSequence that of the last one in it.
	Sequence           int64    `json:"sequence"`
	LastSequence       int64    `json:"lastSequence,omitempty"`
	Run                *RunName `json:"run,omitempty"`
	Turn               int      `json:"turn,omitempty"`
	RequestExecutionID string   `json:"requestExecutionId,omitempty"`
	ResponseID         string   `json:"responseId,omitempty"`
	Purpose            string   `json:"purpose,omitempty"`
	// CapturedAt is the capture time of the first record and never changes; entries are ordered by it.
	CapturedAt    Time           `json:"capturedAt,omitzero"`
	StartedAt     Time           `json:"startedAt,omitzero"`
	EndedAt       Time           `json:"endedAt,omitzero"`
	ClockAdjusted bool           `json:"clockAdjusted,omitempty"`
	Title         string         `json:"title"`
	Status        Status         `json:"status,omitempty"`
	ToolCallID    string         `json:"toolCallId,omitempty"`
	Server        string         `json:"server,omitempty"`
	Attempts      int            `json:"attempts,omitempty"`
	StopReason    string         `json:"stopReason,omitempty"`
	Usage         *message.Usage `json:"usage,omitempty"`
	Model         string         `json:"model,omitempty"`
	// InputID is the model input with the same context object and request execution.
	InputID string `json:"inputId,omitempty"`
	// AnswerID is, of a model input, the entry of its response or failure.
	AnswerID string `json:"answerId,omitempty"`
	// Bytes is the size of the content as far as the records tell.
	Bytes int64 `json:"bytes,omitempty"`
	// ImportedFrom is the imported file that the entry's records stand in; empty for run events.
	ImportedFrom string `json:"importedFrom,omitempty"`
	// DuplicateOf is, of an imported entry that is hidden, the entry that says the same.
	DuplicateOf string `json:"duplicateOf,omitempty"`
}

// Run is one execution of an agent.
type Run struct {
	UID       string `json:"uid"`
	Name      string `json:"name,omitempty"`
	Agent     string `json:"agent"`
	Operation string `json:"operation,omitempty"`
	// Status is running, succeeded, failed or cancelled.
	Status               string         `json:"status"`
	Reason               string         `json:"reason,omitempty"`
	Message              string         `json:"message,omitempty"`
	Attempts             int            `json:"attempts"`
	Turns                int            `json:"turns"`
	StartedAt            Time           `json:"startedAt,omitzero"`
	EndedAt              Time           `json:"endedAt,omitzero"`
	Model                *ModelName     `json:"model,omitempty"`
	Requests             int            `json:"requests"`
	RequestsWithoutUsage int            `json:"requestsWithoutUsage"`
	ToolCalls            int            `json:"toolCalls"`
	Usage                *message.Usage `json:"usage,omitempty"`
}

// Agent is one agent of the session.
type Agent struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
	// Parent is the agent that delegated to it, when an event says so.
	Parent       string `json:"parent,omitempty"`
	StartedAt    Time   `json:"startedAt,omitzero"`
	EndedAt      Time   `json:"endedAt,omitzero"`
	Entries      int    `json:"entries"`
	Runs         int    `json:"runs"`
	Live         bool   `json:"live"`
	LastSequence int64  `json:"lastSequence,omitempty"`
}

// Code names what a notice is about.
type Code string

// The codes of notices.
const (
	CodeGap         Code = "sequenceGap"
	CodeLink        Code = "brokenLink"
	CodeDamaged     Code = "damagedRecord"
	CodeUnknown     Code = "unknownRecord"
	CodeTruncated   Code = "truncatedStream"
	CodeMissing     Code = "objectMissing"
	CodeCorrupt     Code = "objectCorrupt"
	CodeNewObject   Code = "objectUnknown"
	CodeMismatch    Code = "objectMismatch"
	CodeUnavailable Code = "sourceUnavailable"
	// CodeTail, CodeDisagree and CodeImported are about imported files only.
	CodeTail     Code = "incompleteTail"
	CodeDisagree Code = "parametersDisagree"
	CodeImported Code = "importedRecords"
	// CodeMore says how many notices are not listed.
	CodeMore Code = "moreNotices"
)

// Notice says what is wrong with a record or an object, and where.
type Notice struct {
	Code    Code       `json:"code"`
	Message string     `json:"message"`
	Agent   string     `json:"agent,omitempty"`
	Stream  string     `json:"stream,omitempty"`
	From    int64      `json:"from,omitempty"`
	To      int64      `json:"to,omitempty"`
	EntryID string     `json:"entryId,omitempty"`
	Digest  cas.Digest `json:"digest,omitzero"`
}

// RealTime says what the time axis can be trusted for.
type RealTime struct {
	Message string `json:"message"`
	// Untimed entries have no time; Adjusted ones were moved forward, so that times follow the order of their stream.
	Untimed  int `json:"untimed"`
	Adjusted int `json:"adjusted"`
}

// realTimeMessage says in words what the order of entries means.
const realTimeMessage = "Times are capture times of the machines that ran the agents. Within an agent the order is that of its run events; between agents it is only as exact as the machines' clocks."

// Counts are of the whole trajectory.
type Counts struct {
	Entries int `json:"entries"`
	Hidden  int `json:"hidden"`
	Untimed int `json:"untimed"`
}

// StreamHead is the end of an agent's event stream.
type StreamHead struct {
	Agent    string     `json:"agent"`
	Sequence int64      `json:"sequence"`
	Digest   cas.Digest `json:"digest,omitzero"`
}

// streamName is how a stream is named to people: its class and key.
func streamName(s runevent.Stream) string { return string(s.Class) + "/" + s.Key }
