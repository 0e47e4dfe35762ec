package modelserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Thinking modes a script may declare for its model. An empty mode accepts every thinking configuration.
const (
	ThinkingNone     = "none"
	ThinkingFixed    = "fixed"
	ThinkingAdaptive = "adaptive"
)

// Fields of a streamed Chat Completions delta that can carry thinking text.
const (
	ChatReasoningContent = "reasoning_content"
	ChatReasoning        = "reasoning"
	ChatReasoningNone    = "none"
)

// TokenizerO200k is the value of Script.Tokenizer that counts with OpenAI's o200k vocabulary.
const TokenizerO200k = "o200k"

// AuthKey is the value of Script.Auth that makes requests without an API key fail.
const AuthKey = "key"

// Script says how one model behaves. The YAML form is docs/format/modelscript.md.
type Script struct {
	// Model is the id that requests name.
	Model string `json:"model"`
	// Tokenizer is empty for the server's own counter (CountTokens) or TokenizerO200k. It counts windows and usage.
	Tokenizer string `json:"tokenizer,omitempty"`
	// Window is the context window in counted tokens; 0 means no limit.
	Window int64 `json:"window,omitempty"`
	// WindowIncludesOutput refuses also requests whose input and output cap together exceed Window.
	WindowIncludesOutput bool `json:"windowIncludesOutput,omitempty"`
	// MaxTokens is the highest output cap that a request may ask for; 0 means no limit.
	MaxTokens int64 `json:"maxTokens,omitempty"`
	// Auth is empty or AuthKey.
	Auth string `json:"auth,omitempty"`
	// APIKey, when set, is the only key that is accepted.
	APIKey string `json:"apiKey,omitempty"`
	// Thinking is empty or one of the Thinking constants.
	Thinking string `json:"thinking,omitempty"`
	// Images is false for a model that takes text only.
	Images *bool `json:"images,omitempty"`
	// ChatReasoning names the Chat Completions delta field for thinking; empty means ChatReasoningContent.
	ChatReasoning string `json:"chatReasoning,omitempty"`
	// AllowFields are top-level request fields that are accepted besides the provider's own.
	AllowFields []string `json:"allowFields,omitempty"`
	// Record is false for a model whose requests are not kept.
	Record *bool `json:"record,omitempty"`
	// Replies are used in order; see Reply.
	Replies []Reply `json:"replies"`
}

// Reply is one answer. It is used once, unless Repeat is set; the first unused reply whose Match holds is taken.
type Reply struct {
	Match  *Match `json:"match,omitempty"`
	Repeat bool   `json:"repeat,omitempty"`

	// Content, Echo, Error (without AfterChunks), Hang (without AfterChunks) and Raw exclude each other. With none of
	// them the reply is a short text.
	Content []Part `json:"content,omitempty"`
	// Echo answers with the text of the last user message.
	Echo bool `json:"echo,omitempty"`
	// StopReason is stop, length, toolUse, refusal, contextWindow, pause or a word that is put on the wire as it is.
	StopReason string `json:"stopReason,omitempty"`
	// Usage nil means counted by the server; an empty Usage means that the answer carries none.
	Usage *Usage `json:"usage,omitempty"`
	// Chunks is how many deltas a stream cuts each text, thinking or argument string into.
	Chunks int   `json:"chunks,omitempty"`
	Delay  Delay `json:"delay,omitzero"`
	// Latency is a short form of Delay.First.
	Latency Duration          `json:"latency,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`

	Error    *Fault `json:"error,omitempty"`
	Drop     *Cut   `json:"drop,omitempty"`
	Truncate *Cut   `json:"truncate,omitempty"`
	Hang     *Hang  `json:"hang,omitempty"`
	Raw      *Raw   `json:"raw,omitempty"`
}

// Match narrows a reply to requests for which every condition that is set holds.
type Match struct {
	// LastUser is a substring of the text of the last user message that has text.
	LastUser *string `json:"lastUser,omitempty"`
	// HasToolResult says whether the request ends with tool results.
	HasToolResult *bool `json:"hasToolResult,omitempty"`
	// System is a substring of the system prompt.
	System *string `json:"system,omitempty"`
	// Turn is one more than the number of assistant messages in the request.
	Turn *int `json:"turn,omitempty"`
	// Step is one more than the number of assistant messages after the last user message that has text.
	Step *int `json:"step,omitempty"`
}

// Part is one block of a reply: exactly one of Thinking, Text, ToolCall and Refusal is set.
type Part struct {
	Thinking *Text `json:"thinking,omitempty"`
	// Redacted hides the thinking text where the protocol has redacted blocks.
	Redacted bool      `json:"redacted,omitempty"`
	Text     *Text     `json:"text,omitempty"`
	ToolCall *ToolCall `json:"toolCall,omitempty"`
	Refusal  *Text     `json:"refusal,omitempty"`
}

// ToolCall is a call that the model makes.
type ToolCall struct {
	// ID is chosen by the server when it is empty.
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	// Arguments is a JSON object. RawArguments replaces it and may be any text, broken JSON included.
	Arguments    json.RawMessage `json:"arguments,omitempty"`
	RawArguments *Text           `json:"rawArguments,omitempty"`
}

// Usage holds the token counts of an answer; a nil count is not sent. Input excludes cached tokens, Output includes
// Reasoning.
type Usage struct {
	Input      *int64 `json:"input,omitempty"`
	Output     *int64 `json:"output,omitempty"`
	CacheRead  *int64 `json:"cacheRead,omitempty"`
	CacheWrite *int64 `json:"cacheWrite,omitempty"`
	Reasoning  *int64 `json:"reasoning,omitempty"`
}

// Delay paces an answer: First before its first byte, PerChunk before each later delta.
type Delay struct {
	First    Duration `json:"first,omitempty"`
	PerChunk Duration `json:"perChunk,omitempty"`
}

// Fault is an error answer, or an error event inside a stream when AfterChunks is set.
type Fault struct {
	Status  int    `json:"status,omitempty"`
	Type    string `json:"type,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// RetryAfter is sent as the Retry-After header, in seconds.
	RetryAfter  *float64 `json:"retryAfter,omitempty"`
	AfterChunks *int     `json:"afterChunks,omitempty"`
}

// Cut is a place in a stream: after so many deltas.
type Cut struct {
	AfterChunks int `json:"afterChunks"`
}

// Raw is an answer that is sent as it is, whatever the protocol.
type Raw struct {
	Status      int    `json:"status,omitempty"`
	ContentType string `json:"contentType,omitempty"`
	Body        Text   `json:"body"`
}

// Hang answers nothing, or nothing more after some deltas, until the client goes away. In YAML: true, or
// {afterChunks: n}.
type Hang struct {
	AfterChunks *int
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Hang) UnmarshalJSON(raw []byte) error {
	var on bool
	if err := json.Unmarshal(raw, &on); err == nil {
		if !on {
			return errors.New("hang: false says nothing; leave it out")
		}
		*h = Hang{}
		return nil
	}
	var cut Cut
	if err := strictJSON(raw, &cut); err != nil {
		return fmt.Errorf("hang must be true or {afterChunks: n}: %w", err)
	}
	h.AfterChunks = &cut.AfterChunks
	return nil
}

// Duration is a time span; in YAML a string such as 50ms.
type Duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("a duration must be a string such as 50ms, not %s", raw)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return err
	}
	if v < 0 {
		return fmt.Errorf("a duration must not be negative: %s", s)
	}
	*d = Duration(v)
	return nil
}

// Text is a string; in YAML also {repeat: s, times: n}.
type Text string

// maxText bounds a repeated string.
const maxText = 64 << 20

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(raw []byte) error {
	var s string
	if err := json.Unmarshal(raw, &s); err == nil {
		*t = Text(s)
		return nil
	}
	var long struct {
		Repeat string `json:"repeat"`
		Times  int    `json:"times"`
	}
	if err := strictJSON(raw, &long); err != nil {
		return fmt.Errorf("a text must be a string or {repeat: s, times: n}: %w", err)
	}
	if long.Times < 0 || (long.Repeat != "" && long.Times > maxText/len(long.Repeat)) {
		return fmt.Errorf("a repeated text must have between 0 and %d bytes", maxText)
	}
	*t = Text(strings.Repeat(long.Repeat, long.Times))
	return nil
}
