package provider

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"

	"github.com/agentloop/agentloop/pkg/message"
)

// UsageMeter collects the token counts of one response from its stream events, from a final response or from an error
// answer. Counts are cumulative on every protocol, so the last number given for a count stands and nothing is ever added
// up; a count that is null, missing or no number leaves what was there. The zero value with an API is ready for use.
type UsageMeter struct {
	API API

	// The counts as the provider states them; nil until stated.
	input, output, cacheRead, cacheWrite, reasoning *int64
}

// Add reads one event, response or error body. Anything that is not JSON or has no usage is passed over.
func (m *UsageMeter) Add(event []byte) {
	if !bytes.Contains(event, []byte(`"usage"`)) {
		return
	}
	var doc struct {
		Usage   json.RawMessage `json:"usage"`
		Message json.RawMessage `json:"message"`
		// Response is the object of the Responses events.
		Response json.RawMessage   `json:"response"`
		Choices  []json.RawMessage `json:"choices"`
		Error    json.RawMessage   `json:"error"`
	}
	_ = json.Unmarshal(event, &doc) // a field of another type leaves the others read
	for _, holder := range append([]json.RawMessage{doc.Message, doc.Response, doc.Error}, doc.Choices...) {
		var inner struct {
			Usage json.RawMessage `json:"usage"`
		}
		if json.Unmarshal(holder, &inner) == nil {
			m.AddUsage(inner.Usage)
		}
	}
	m.AddUsage(doc.Usage)
}

// wireUsage has the fields of all three protocols; their names do not collide.
type wireUsage struct {
	InputTokens              count `json:"input_tokens"`
	OutputTokens             count `json:"output_tokens"`
	CacheReadInputTokens     count `json:"cache_read_input_tokens"`
	CacheCreationInputTokens count `json:"cache_creation_input_tokens"`
	CacheCreation            struct {
		FiveMinutes count `json:"ephemeral_5m_input_tokens"`
		OneHour     count `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`

	PromptTokens     count `json:"prompt_tokens"`
	CompletionTokens count `json:"completion_tokens"`
	// DeepSeek states cache hits beside the details.
	PromptCacheHitTokens count `json:"prompt_cache_hit_tokens"`

	PromptTokensDetails     inputDetails  `json:"prompt_tokens_details"`
	InputTokensDetails      inputDetails  `json:"input_tokens_details"`
	CompletionTokensDetails outputDetails `json:"completion_tokens_details"`
	OutputTokensDetails     outputDetails `json:"output_tokens_details"`
}

type inputDetails struct {
	CachedTokens     count `json:"cached_tokens"`
	CacheWriteTokens count `json:"cache_write_tokens"`
}

type outputDetails struct {
	ReasoningTokens count `json:"reasoning_tokens"`
	ThinkingTokens  count `json:"thinking_tokens"`
}

// count is a number of tokens, nil when it is not given. Any JSON is accepted: what is no whole number from 0 to 2^53-1
// counts as not given.
type count struct{ n *int64 }

// UnmarshalJSON implements json.Unmarshaler and never fails.
func (c *count) UnmarshalJSON(raw []byte) error {
	var f float64
	text := strings.Trim(string(raw), `"`)
	if json.Unmarshal([]byte(text), &f) != nil || f < 0 || f > 1<<53-1 || f != math.Trunc(f) || text == "null" {
		return nil //nolint:nilerr // what is no count counts as not given
	}
	n := int64(f)
	c.n = &n
	return nil
}

// AddUsage reads one usage object; null and empty are passed over.
func (m *UsageMeter) AddUsage(raw json.RawMessage) {
	var u wireUsage
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	_ = json.Unmarshal(raw, &u) // details of another type (null, a number) leave the counts readable
	last(&m.output, u.OutputTokens, u.CompletionTokens)
	last(&m.input, u.InputTokens, u.PromptTokens)
	last(&m.reasoning, u.OutputTokensDetails.ThinkingTokens, u.OutputTokensDetails.ReasoningTokens,
		u.CompletionTokensDetails.ReasoningTokens)
	if m.API.OpenAICompatible() {
		last(&m.cacheRead, u.PromptTokensDetails.CachedTokens, u.InputTokensDetails.CachedTokens, u.PromptCacheHitTokens)
		last(&m.cacheWrite, u.PromptTokensDetails.CacheWriteTokens, u.InputTokensDetails.CacheWriteTokens)
		return
	}
	last(&m.cacheRead, u.CacheReadInputTokens)
	last(&m.cacheWrite, u.CacheCreationInputTokens, sum(u.CacheCreation.FiveMinutes, u.CacheCreation.OneHour))
}

// last replaces what stands by the first given of several spellings of the same count.
func last(into **int64, spellings ...count) {
	for _, c := range spellings {
		if c.n != nil {
			*into = c.n
			return
		}
	}
}

func sum(counts ...count) count {
	var total int64
	given := false
	for _, c := range counts {
		if c.n != nil {
			total += *c.n
			given = true
		}
	}
	if !given {
		return count{}
	}
	return count{&total}
}

// Usage returns the counts in the form of messages: input without cached tokens, output with reasoning. It is nil when
// nothing was reported. OpenAI counts cached tokens as input, so they are taken out; Anthropic does not.
func (m *UsageMeter) Usage() *message.Usage {
	u := message.Usage{Output: m.output, CacheRead: m.cacheRead, CacheWrite: m.cacheWrite, Reasoning: m.reasoning}
	if m.input != nil {
		input := *m.input
		if m.API.OpenAICompatible() {
			input = max(0, input-value(m.cacheRead)-value(m.cacheWrite))
		}
		u.Input = &input
	}
	if u == (message.Usage{}) {
		return nil
	}
	return &u
}

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// ContextTokens is what a response's input took of the window: uncached, cached and newly cached tokens together. It is
// false when the provider did not report the input.
func ContextTokens(u *message.Usage) (int64, bool) {
	if u == nil || u.Input == nil {
		return 0, false
	}
	return *u.Input + value(u.CacheRead) + value(u.CacheWrite), true
}

// SilentOverflow says whether a response that ended at its length limit did so because the input filled the window: some
// servers cut instead of refusing. Such a response has no output and an input of at least 0.99 of the window.
func SilentOverflow(m Model, stop message.StopReason, u *message.Usage) bool {
	input, ok := ContextTokens(u)
	if !ok || stop != message.StopLength || u.Output == nil || *u.Output != 0 || m.ContextWindow <= 0 {
		return false
	}
	return input >= m.ContextWindow-m.ContextWindow/100
}
