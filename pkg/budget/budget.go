package budget

import (
	"encoding/json"
	"fmt"
	"math/bits"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

// maxSafety is the largest safety margin in tokens; below it the margin is a twentieth of the window.
const maxSafety = 4096

// ContextBudget is the measure of one request against one model. All counts are tokens.
type ContextBudget struct {
	// Provider and Model (the model's id) say for which model the estimate was made.
	Provider string `json:"provider"`
	Model    string `json:"model"`
	// ContextWindow is the model's configured window.
	ContextWindow int64 `json:"contextWindow"`
	// SystemTokens, MessageTokens and ToolTokens are the estimates of the three parts of the input, and
	// EstimatedInputTokens is their sum.
	SystemTokens         int64 `json:"systemTokens"`
	MessageTokens        int64 `json:"messageTokens"`
	ToolTokens           int64 `json:"toolTokens"`
	EstimatedInputTokens int64 `json:"estimatedInputTokens"`
	// ReservedOutputTokens is what the response may take (Policy.Reserve).
	ReservedOutputTokens int64 `json:"reservedOutputTokens"`
	// RequestOutputTokenLimit is the cap that the serialized request was seen to declare; nil before the request was
	// inspected and when it declares none.
	RequestOutputTokenLimit *int64 `json:"requestOutputTokenLimit,omitempty"`
	// SafetyTokens is kept free for what the estimate cannot see.
	SafetyTokens int64 `json:"safetyTokens"`
	// InputLimit is the window without reserve and safety, never below zero.
	InputLimit int64 `json:"inputLimit"`
	// RemainingInputTokens is the window without reserve, safety and estimate; negative by how much the input is over.
	RemainingInputTokens int64 `json:"remainingInputTokens"`
	// Fits says that RemainingInputTokens is zero or more. Without calibration the request may then be sent.
	Fits bool `json:"fits"`

	// Estimator names what made the estimates when it was another than the Heuristic.
	Estimator string `json:"estimator,omitempty"`
	// CalibratedInputTokens is EstimatedInputTokens corrected by what earlier requests really took, and CalibratedFits
	// says whether it is within the limit. Both are nil unless the request was measured with a Calibration; then they
	// decide, and the fields above stay as they were estimated.
	CalibratedInputTokens *int64 `json:"calibratedInputTokens,omitempty"`
	CalibratedFits        *bool  `json:"calibratedFits,omitempty"`
}

// Clone returns a copy that shares no memory with b.
func (b ContextBudget) Clone() ContextBudget { return b.WithRequestLimit(b.RequestOutputTokenLimit) }

// Allowed says whether the request may be sent: the calibrated verdict where there is one, else Fits.
func (b ContextBudget) Allowed() bool {
	if b.CalibratedFits != nil {
		return *b.CalibratedFits
	}
	return b.Fits
}

// InputTokens is the count that decides: the calibrated one where there is one, else the estimate.
func (b ContextBudget) InputTokens() int64 {
	if b.CalibratedInputTokens != nil {
		return *b.CalibratedInputTokens
	}
	return b.EstimatedInputTokens
}

// WithRequestLimit returns a copy of b that records the cap which GuardPayload saw; nil records that there was none.
// Reserve and input limit stay what they were.
func (b ContextBudget) WithRequestLimit(limit *int64) ContextBudget {
	b.RequestOutputTokenLimit = clone(limit)
	b.CalibratedInputTokens, b.CalibratedFits = clone(b.CalibratedInputTokens), clone(b.CalibratedFits)
	return b
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	copied := *p
	return &copied
}

// PressedPercent is the share of the input limit from which a conversation is compacted when nothing else was chosen.
const PressedPercent = 90

// Pressed says that InputTokens has reached nine tenths of the input limit, from where the conversation is compacted
// before the request is sent.
func (b ContextBudget) Pressed() bool { return b.PressedAt(PressedPercent) }

// PressedAt says that InputTokens has reached percent hundredths of the input limit.
func (b ContextBudget) PressedAt(percent int64) bool {
	estimateHigh, estimateLow := bits.Mul64(uint64(max(b.InputTokens(), 0)), 100)
	limitHigh, limitLow := bits.Mul64(uint64(max(b.InputLimit, 0)), uint64(max(percent, 0)))
	return estimateHigh > limitHigh || estimateHigh == limitHigh && estimateLow >= limitLow
}

// MessageRoom is what the input limit leaves for messages beside the system prompt and the tools of this request, in
// estimated tokens.
func (b ContextBudget) MessageRoom() int64 {
	limit := b.InputLimit
	if c := b.CalibratedInputTokens; c != nil && *c > b.EstimatedInputTokens {
		limit = int64(float64(limit) * (float64(b.EstimatedInputTokens) / float64(*c)))
	}
	return max(0, limit-b.SystemTokens-b.ToolTokens)
}

// Err returns nil when the request may be sent and an *ExceededError with a copy of b when it may not.
func (b ContextBudget) Err() error {
	if b.Allowed() {
		return nil
	}
	return &ExceededError{Budget: b.Clone()}
}

// Request is the input that is measured: all of what the provider will be sent, after projection.
type Request struct {
	System   string
	Messages []message.Message
	Tools    []message.Tool
}

// Options are the model and the settings that a request is measured under.
type Options struct {
	Model provider.Model
	// MaxTokens is the caller's output cap in tokens; 0 when none was given.
	MaxTokens int64
	// Reasoning is the effort asked for; empty, "off" or "none" for none.
	Reasoning provider.Level
	// RequestSampling is the request's own sampling object, merged over Model.Sampling; empty for none.
	RequestSampling json.RawMessage
	// Estimator is the estimate to use; nil for the Heuristic.
	Estimator Estimator
	// Calibration is what is known of the model's real counts; nil when the session does not calibrate.
	Calibration *Calibration
}

func (o Options) estimator() Estimator {
	if o.Estimator == nil {
		return Heuristic
	}
	return o.Estimator
}

// Counts are the estimates of the three parts of a request, in tokens.
type Counts struct {
	System, Messages, Tools int64
}

// Measure estimates req and returns its budget under opt. cache may be nil; a Cache that is used for one conversation
// after the other call makes each further call cost only what was added. A request that does not fit is no error here:
// see ContextBudget.Err. An ErrInvalid says that opt or the estimator is wrong.
func Measure(req Request, opt Options, cache *Cache) (ContextBudget, error) {
	policy, err := ReserveFor(opt)
	if err != nil {
		return ContextBudget{}, err
	}
	estimator := opt.estimator()
	b, err := Assess(opt.Model, policy.Reserve, Counts{
		System:   SystemTokensWith(estimator, req.System),
		Messages: cache.messageTokens(estimator, req.Messages),
		Tools:    ToolTokensWith(estimator, req.Tools),
	})
	if err != nil {
		return ContextBudget{}, err
	}
	if name := estimator.Name(); name != Heuristic.Name() {
		b.Estimator = name
	}
	if opt.Calibration != nil {
		b = opt.Calibration.apply(b)
	}
	return b, nil
}

// Assess returns the budget of an input whose parts were counted before. reserve is Policy.Reserve.
func Assess(model provider.Model, reserve int64, counts Counts) (ContextBudget, error) {
	if err := checkModel(model); err != nil {
		return ContextBudget{}, err
	}
	if err := checkReserve(reserve, model.MaxTokens); err != nil {
		return ContextBudget{}, err
	}
	// Safe integers have 53 bits: no sum of three, and no difference of four, leaves int64.
	for _, n := range []int64{counts.System, counts.Messages, counts.Tools} {
		if n < 0 || n > MaxTokenCount {
			return ContextBudget{}, fmt.Errorf("%w: an estimate of %d tokens is not a safe integer", ErrInvalid, n)
		}
	}
	estimate := counts.System + counts.Messages + counts.Tools
	if estimate > MaxTokenCount {
		return ContextBudget{}, fmt.Errorf("%w: an estimate of %d tokens is not a safe integer", ErrInvalid, estimate)
	}
	safety := safetyTokens(model.ContextWindow)
	remaining := model.ContextWindow - reserve - safety - estimate
	return ContextBudget{
		Provider:             model.Provider,
		Model:                model.ID,
		ContextWindow:        model.ContextWindow,
		SystemTokens:         counts.System,
		MessageTokens:        counts.Messages,
		ToolTokens:           counts.Tools,
		EstimatedInputTokens: estimate,
		ReservedOutputTokens: reserve,
		SafetyTokens:         safety,
		InputLimit:           max(0, model.ContextWindow-reserve-safety),
		RemainingInputTokens: remaining,
		Fits:                 remaining >= 0,
	}, nil
}

// safetyTokens is five percent of a positive window, rounded up, at most maxSafety.
func safetyTokens(window int64) int64 { return min(maxSafety, (window-1)/20+1) }

func checkModel(model provider.Model) error {
	if err := checkCount("the context window", model.ContextWindow); err != nil {
		return err
	}
	return checkCount("the model's output ceiling", model.MaxTokens)
}

func checkReserve(reserve, ceiling int64) error {
	if err := checkCount("the output reserve", reserve); err != nil {
		return err
	}
	if reserve > ceiling {
		return fmt.Errorf("%w: the output reserve of %d tokens exceeds the model's ceiling of %d", ErrInvalid, reserve, ceiling)
	}
	return nil
}
