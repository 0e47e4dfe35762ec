package provider

import (
	"context"
	"encoding/json"
	"time"

	"github.com/agentloop/agentloop/pkg/message"
)

// Request is one model call, complete. Adapters must not change, reorder or keep any slice of it.
type Request struct {
	Model    Model
	System   string
	Messages []message.Message
	Tools    []message.Tool
	// MaxTokens is the output cap to declare, in tokens; 0 declares none (only where Model.NoOutputCaps).
	MaxTokens int64
	// Reasoning is the effort asked for. ThinkingBudget is its token budget on models with fixed thinking; 0 turns
	// thinking off. Both come from the output policy (pkg/budget), which has already fitted them under MaxTokens.
	Reasoning      Level
	ThinkingBudget int64
	// Sampling is the request's own JSON object, merged after the model's; empty for none.
	Sampling json.RawMessage
	// PromptCache asks for cache breakpoints where the protocol has them. StablePrefix is the number of leading
	// messages that the next request is expected to repeat unchanged.
	PromptCache  bool
	StablePrefix int
	// Guard sees the exact serialized body before it leaves the process. Its error stops the request: nothing reaches
	// the network and Stream returns an error that wraps it. A nil Guard refuses every request.
	Guard func(body []byte) error
	// CallerHook, when set, may replace or edit the serialized body before Guard sees it.
	CallerHook func(body []byte) ([]byte, error)
}

// DeltaKind says what an increment belongs to.
type DeltaKind string

// The kinds of increments.
const (
	DeltaText     DeltaKind = "text"
	DeltaThinking DeltaKind = "thinking"
	DeltaToolCall DeltaKind = "toolCall"
)

// Delta is one streamed increment. Block is the zero-based index of its block in the response; At is the capture time.
// For tool calls Text is a part of the raw arguments and ToolName stands in the first increment.
type Delta struct {
	Kind       DeltaKind
	Block      int
	Text       string
	ToolCallID string
	ToolName   string
	At         time.Time
	ResponseID string
}

// Response is a complete model response.
type Response struct {
	// Message is the assistant message with its blocks verbatim, usage and stop reason.
	Message message.Message
	// ResponseID is the provider's id of the response; empty when it gave none.
	ResponseID string
	// RawStopReason is the provider's own word.
	RawStopReason string
	HTTPStatus    int
}

// Streamer performs one model call. It is implemented by the adapters below this package.
//
// Stream blocks until the response is complete, an error occurs or ctx ends. It calls onDelta (never nil) from one
// goroutine, in order. It makes at most one HTTP request and never retries. A stream that ends without its terminal
// event is an Error of ClassTruncated. On failure it returns an *Error (errors.As), with Partial set to what had
// arrived; context errors stay visible to errors.Is. The response belongs to the caller.
type Streamer interface {
	Stream(ctx context.Context, req Request, onDelta func(Delta)) (Response, error)
}
