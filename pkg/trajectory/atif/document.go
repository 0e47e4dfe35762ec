package atif

import "encoding/json"

// SchemaVersion is the version of the format that is written.
const SchemaVersion = "ATIF-v1.7"

// The types of a document. A pointer or an omitted member is one that may be absent.

// Trajectory is one document: the history of one run.
type Trajectory struct {
	SchemaVersion string         `json:"schema_version"`
	SessionID     string         `json:"session_id,omitempty"`
	TrajectoryID  string         `json:"trajectory_id,omitempty"`
	Agent         *Agent         `json:"agent"`
	Steps         []Step         `json:"steps"`
	Subagents     []*Trajectory  `json:"subagent_trajectories,omitempty"`
	FinalMetrics  *FinalMetrics  `json:"final_metrics,omitempty"`
	Notes         string         `json:"notes,omitempty"`
	Continued     string         `json:"continued_trajectory_ref,omitempty"`
	Extra         map[string]any `json:"extra,omitempty"`
}

// Agent says which agent it was.
type Agent struct {
	Name            string            `json:"name"`
	Version         string            `json:"version"`
	ModelName       string            `json:"model_name,omitempty"`
	ToolDefinitions []json.RawMessage `json:"tool_definitions,omitempty"`
	Extra           map[string]any    `json:"extra,omitempty"`
}

// Source says who a step is from.
type Source string

// The sources.
const (
	SourceSystem Source = "system"
	SourceUser   Source = "user"
	SourceAgent  Source = "agent"
)

// Step is one message of a user, one response of a model with its tool calls, or one thing that the system did.
type Step struct {
	StepID           int             `json:"step_id"`
	Timestamp        string          `json:"timestamp,omitempty"`
	Source           Source          `json:"source"`
	ModelName        string          `json:"model_name,omitempty"`
	ReasoningEffort  json.RawMessage `json:"reasoning_effort,omitempty"`
	Message          Content         `json:"message"`
	ReasoningContent string          `json:"reasoning_content,omitempty"`
	ToolCalls        []ToolCall      `json:"tool_calls,omitempty"`
	Observation      *Observation    `json:"observation,omitempty"`
	Metrics          *Metrics        `json:"metrics,omitempty"`
	CopiedContext    *bool           `json:"is_copied_context,omitempty"`
	LLMCallCount     *int            `json:"llm_call_count,omitempty"`
	Extra            map[string]any  `json:"extra,omitempty"`
}

// ToolCall is a call that a model declared.
type ToolCall struct {
	ID        string          `json:"tool_call_id"`
	Name      string          `json:"function_name"`
	Arguments json.RawMessage `json:"arguments"`
	Extra     map[string]any  `json:"extra,omitempty"`
}

// Observation is what came back.
type Observation struct {
	Results []Result `json:"results"`
}

// Result is what one call returned.
type Result struct {
	SourceCallID string         `json:"source_call_id,omitempty"`
	Content      *Content       `json:"content,omitempty"`
	Subagents    []SubagentRef  `json:"subagent_trajectory_ref,omitempty"`
	Extra        map[string]any `json:"extra,omitempty"`
}

// SubagentRef names the document of a run that was delegated.
type SubagentRef struct {
	TrajectoryID   string         `json:"trajectory_id,omitempty"`
	TrajectoryPath string         `json:"trajectory_path,omitempty"`
	SessionID      string         `json:"session_id,omitempty"`
	Extra          map[string]any `json:"extra,omitempty"`
}

// Metrics are the counts of one response.
type Metrics struct {
	PromptTokens     *int64         `json:"prompt_tokens,omitempty"`
	CompletionTokens *int64         `json:"completion_tokens,omitempty"`
	CachedTokens     *int64         `json:"cached_tokens,omitempty"`
	CostUSD          json.Number    `json:"cost_usd,omitempty"`
	PromptIDs        []int64        `json:"prompt_token_ids,omitempty"`
	CompletionIDs    []int64        `json:"completion_token_ids,omitempty"`
	Logprobs         []float64      `json:"logprobs,omitempty"`
	Extra            map[string]any `json:"extra,omitempty"`
}

// FinalMetrics are the counts of a whole run, as far as they were recorded.
type FinalMetrics struct {
	PromptTokens     *int64         `json:"total_prompt_tokens,omitempty"`
	CompletionTokens *int64         `json:"total_completion_tokens,omitempty"`
	CachedTokens     *int64         `json:"total_cached_tokens,omitempty"`
	CostUSD          json.Number    `json:"total_cost_usd,omitempty"`
	Steps            *int           `json:"total_steps,omitempty"`
	Extra            map[string]any `json:"extra,omitempty"`
}

// Content is a text, or parts when there is more than text.
type Content struct {
	Text  string
	Parts []Part
}

// Part is a text or an image.
type Part struct {
	Type   string       `json:"type"`
	Text   *string      `json:"text,omitempty"`
	Source *ImageSource `json:"source,omitempty"`
}

// ImageSource says where an image is.
type ImageSource struct {
	MediaType string `json:"media_type"`
	Path      string `json:"path"`
}

// MarshalJSON writes the text, or the parts.
func (c Content) MarshalJSON() ([]byte, error) {
	if c.Parts != nil {
		return encode(c.Parts)
	}
	return encode(c.Text)
}

// UnmarshalJSON reads a text or parts, and nothing else.
func (c *Content) UnmarshalJSON(raw []byte) error {
	*c = Content{}
	if len(raw) > 0 && raw[0] == '[' {
		c.Parts = []Part{}
		return strict(raw, &c.Parts)
	}
	return strict(raw, &c.Text)
}
