package viewer

import (
	"encoding/json"
	"strings"
	"time"

	api "github.com/agentloop/agentloop/api/v1alpha1"
)

// Time is a time in microseconds since 1970; 0 for one that was not recorded.
type Time int64

// Go is the time as Go has it.
func (t Time) Go() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(t))
}

// RunName names a run.
type RunName struct {
	UID  string `json:"uid"`
	Name string `json:"name,omitempty"`
}

// Usage is what a provider reported; a count that it did not report is nil.
type Usage struct {
	Input      *int64 `json:"input,omitempty"`
	Output     *int64 `json:"output,omitempty"`
	CacheRead  *int64 `json:"cacheRead,omitempty"`
	CacheWrite *int64 `json:"cacheWrite,omitempty"`
	Reasoning  *int64 `json:"reasoning,omitempty"`
}

// The entries' types, events and states that the plugin acts on.
const (
	TypeInput     = "modelInput"
	TypeOutput    = "modelOutput"
	TypeTool      = "tool"
	TypeMCP       = "mcp"
	TypeReasoning = "reasoning"
	TypeLifecycle = "lifecycle"

	EventBody = "body"

	PurposeMain = "main"

	StatusPending = "pending"
)

// Entry is one node of a trajectory, as the API's document describes it.
type Entry struct {
	ID         string   `json:"id"`
	Agent      string   `json:"agent"`
	Type       string   `json:"type"`
	Event      string   `json:"event"`
	Hidden     bool     `json:"hidden"`
	Sequence   int64    `json:"sequence"`
	Run        *RunName `json:"run"`
	Turn       int      `json:"turn"`
	Request    string   `json:"requestExecutionId"`
	Purpose    string   `json:"purpose"`
	CapturedAt Time     `json:"capturedAt"`
	StartedAt  Time     `json:"startedAt"`
	EndedAt    Time     `json:"endedAt"`
	Title      string   `json:"title"`
	Status     string   `json:"status"`
	ToolCallID string   `json:"toolCallId"`
	Server     string   `json:"server"`
	StopReason string   `json:"stopReason"`
	Usage      *Usage   `json:"usage"`
	Model      string   `json:"model"`
	InputID    string   `json:"inputId"`
	AnswerID   string   `json:"answerId"`
	Bytes      int64    `json:"bytes"`

	// Raw is the entry as the viewer sent it.
	Raw json.RawMessage `json:"-"`
}

// UnmarshalJSON keeps the entry's own bytes as well.
func (e *Entry) UnmarshalJSON(raw []byte) error {
	type plain Entry
	if err := json.Unmarshal(raw, (*plain)(e)); err != nil {
		return err
	}
	e.Raw = append(json.RawMessage(nil), raw...)
	return nil
}

// Of says whether the entry belongs to a run.
func (e *Entry) Of(uid string) bool { return e.Run != nil && e.Run.UID == uid }

// Notice says what is wrong with the records.
type Notice struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Page is one page of a trajectory.
type Page struct {
	Entries []Entry  `json:"entries"`
	Untimed []Entry  `json:"untimed"`
	Notices []Notice `json:"notices"`
	Next    string   `json:"next"`
	Cursor  string   `json:"cursor"`
}

// Block is a part of a message.
type Block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Redacted  bool            `json:"redacted"`
	MediaType string          `json:"mediaType"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Content is a message's content: a text, or blocks.
type Content []Block

// UnmarshalJSON reads both forms.
func (c *Content) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*c = Content{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(raw, (*[]Block)(c))
}

// Message is a message of a conversation.
type Message struct {
	Role         string  `json:"role"`
	Content      Content `json:"content"`
	ToolCallID   string  `json:"toolCallId"`
	ToolName     string  `json:"toolName"`
	IsError      bool    `json:"isError"`
	StopReason   string  `json:"stopReason"`
	ErrorMessage string  `json:"errorMessage"`
}

// Text is the message's text without thinking and calls.
func (m *Message) Text() string {
	if m == nil {
		return ""
	}
	var text strings.Builder
	for _, block := range m.Content {
		if block.Type == "text" {
			text.WriteString(block.Text)
		}
	}
	return text.String()
}

// Calls says whether the message calls tools.
func (m *Message) Calls() bool {
	for _, block := range m.Content {
		if block.Type == "toolCall" {
			return true
		}
	}
	return false
}

// HistoryMessage is a message with its place in the history.
type HistoryMessage struct {
	Index       int      `json:"index"`
	Role        string   `json:"role"`
	Message     *Message `json:"message"`
	Run         *RunName `json:"run"`
	RecordedAt  Time     `json:"recordedAt"`
	Unavailable string   `json:"unavailable"`

	Raw json.RawMessage `json:"-"`
}

// UnmarshalJSON keeps the message's own bytes as well.
func (m *HistoryMessage) UnmarshalJSON(raw []byte) error {
	type plain HistoryMessage
	if err := json.Unmarshal(raw, (*plain)(m)); err != nil {
		return err
	}
	m.Raw = append(json.RawMessage(nil), raw...)
	return nil
}

// Messages is a page of a conversation.
type Messages struct {
	Total    int              `json:"total"`
	Messages []HistoryMessage `json:"messages"`
	Previous string           `json:"previous"`
	Notices  []Notice         `json:"notices"`
}

// Source is where a message of a model input came from.
type Source struct {
	Type             string `json:"type"`
	MessageIndex     int    `json:"messageIndex"`
	CheckpointID     string `json:"checkpointId"`
	SummarizedBefore int    `json:"summarizedBefore"`
	SnapshotIndex    int    `json:"snapshotIndex"`
	ToolCallID       string `json:"toolCallId"`
}

// InputMessage is a message of a model input.
type InputMessage struct {
	Index          int      `json:"index"`
	Role           string   `json:"role"`
	Message        *Message `json:"message"`
	Source         *Source  `json:"source"`
	SkillExpansion *struct {
		Skills []struct {
			ID string `json:"id"`
		} `json:"skills"`
	} `json:"skillExpansion"`
	Unavailable string `json:"unavailable"`
}

// Budget is the measured size of a request, in tokens.
type Budget struct {
	Provider              string `json:"provider"`
	Model                 string `json:"model"`
	ContextWindow         int64  `json:"contextWindow"`
	SystemTokens          int64  `json:"systemTokens"`
	MessageTokens         int64  `json:"messageTokens"`
	ToolTokens            int64  `json:"toolTokens"`
	EstimatedInputTokens  int64  `json:"estimatedInputTokens"`
	ReservedOutputTokens  int64  `json:"reservedOutputTokens"`
	SafetyTokens          int64  `json:"safetyTokens"`
	InputLimit            int64  `json:"inputLimit"`
	RemainingInputTokens  int64  `json:"remainingInputTokens"`
	Fits                  bool   `json:"fits"`
	UsedPercent           *int32 `json:"usedPercent"`
	CalibratedInputTokens *int64 `json:"calibratedInputTokens"`
}

// Detail is everything about one entry, as far as the plugin shows it.
type Detail struct {
	Entry Entry `json:"entry"`
	Input *struct {
		Purpose  string `json:"purpose"`
		Verified bool   `json:"verified"`
		Model    struct {
			Provider string `json:"provider"`
			ID       string `json:"id"`
		} `json:"model"`
		Parameters struct {
			MaxTokens int64  `json:"maxTokens"`
			Reasoning string `json:"reasoning"`
		} `json:"parameters"`
		System *struct {
			Text     string `json:"text"`
			Sections []struct {
				ID   string `json:"id"`
				Text string `json:"text"`
			} `json:"sections"`
			Provenance string `json:"provenance"`
		} `json:"system"`
		Messages []InputMessage `json:"messages"`
		Tools    []struct {
			Name        string `json:"name"`
			Description string `json:"description"`
		} `json:"tools"`
	} `json:"input"`
	Assembly *struct {
		HistoryMessageCount int     `json:"historyMessageCount"`
		Budget              *Budget `json:"budget"`
		Compaction          string  `json:"compaction"`
		Dispatched          bool    `json:"dispatched"`
	} `json:"assembly"`
	Output *struct {
		Message *Message `json:"message"`
	} `json:"output"`
	Text *struct {
		Text string `json:"text"`
	} `json:"text"`
	Tool *struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"tool"`
	Failure *struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
		Detail  string `json:"detail"`
	} `json:"failure"`

	// Raw is the detail as the viewer sent it.
	Raw json.RawMessage `json:"-"`
}

// API is the budget in the words of a status.
func (b *Budget) API() *api.ContextBudget {
	return &api.ContextBudget{
		Provider: b.Provider, Model: b.Model, ContextWindow: b.ContextWindow, SystemTokens: b.SystemTokens, MessageTokens: b.MessageTokens,
		ToolTokens: b.ToolTokens, EstimatedInputTokens: b.EstimatedInputTokens, ReservedOutputTokens: b.ReservedOutputTokens,
		SafetyTokens: b.SafetyTokens, InputLimit: b.InputLimit, RemainingInputTokens: b.RemainingInputTokens, Fits: b.Fits,
		UsedPercent: b.UsedPercent, CalibratedInputTokens: b.CalibratedInputTokens,
	}
}
