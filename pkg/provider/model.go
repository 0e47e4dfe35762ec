package provider

import "encoding/json"

// API names a wire protocol as messages and vectors record it.
type API string

// The protocols that have an adapter.
const (
	APIAnthropicMessages API = "anthropic-messages"
	APIOpenAIChat        API = "openai-completions"
	APIOpenAIResponses   API = "openai-responses"
)

// OpenAICompatible says whether sampling overrides with output-cap fields apply to the protocol.
func (a API) OpenAICompatible() bool { return a == APIOpenAIChat || a == APIOpenAIResponses }

// Thinking says how a model takes reasoning settings.
type Thinking string

// The thinking modes: none takes no setting, fixed takes a token budget, adaptive takes an effort level.
const (
	ThinkingNone     Thinking = "none"
	ThinkingFixed    Thinking = "fixed"
	ThinkingAdaptive Thinking = "adaptive"
)

// Level is a reasoning effort. The empty level and "off" mean no reasoning.
type Level string

// The reasoning levels, in rising order.
const (
	LevelOff     Level = "off"
	LevelMinimal Level = "minimal"
	LevelLow     Level = "low"
	LevelMedium  Level = "medium"
	LevelHigh    Level = "high"
	LevelXHigh   Level = "xhigh"
	LevelMax     Level = "max"
)

// On says whether the level asks for reasoning.
func (l Level) On() bool { return l != "" && l != LevelOff }

// Model is what is known about one model of one provider. Capacities are in tokens.
type Model struct {
	// Provider is the name of the provider that serves the model; with API and ID it is the model's identity.
	Provider string `json:"provider"`
	API      API    `json:"api"`
	ID       string `json:"id"`
	// ContextWindow and MaxTokens (the ceiling of one response) must be positive safe integers (<= 2^53-1).
	ContextWindow int64    `json:"contextWindow"`
	MaxTokens     int64    `json:"maxTokens"`
	Thinking      Thinking `json:"thinking"`
	// ThinkingBudgets overrides the default token budget of a level for models with fixed thinking.
	ThinkingBudgets map[Level]int64 `json:"thinkingBudgets,omitempty"`
	// Images says whether the model takes image blocks.
	Images bool `json:"images,omitempty"`
	// NoOutputCaps says that the endpoint takes no output cap at all; the whole ceiling is then reserved.
	NoOutputCaps bool `json:"noOutputCaps,omitempty"`
	// Sampling is a JSON object merged into every request of an OpenAI-compatible protocol; empty for none.
	Sampling json.RawMessage `json:"sampling,omitempty"`
}

// Same says whether two models are one and the same for replaying signed content: provider, api and id all equal.
func (m Model) Same(provider, api, id string) bool {
	return m.Provider == provider && string(m.API) == api && m.ID == id
}
