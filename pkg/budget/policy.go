package budget

import (
	"encoding/json"
	"fmt"

	"github.com/agentloop/agentloop/pkg/provider"
)

const (
	// minThinkingBudget is the smallest thinking budget that the Anthropic protocol takes; less means no thinking.
	minThinkingBudget = 1024
	// minAnswer is what a thinking budget that does not fit leaves of the cap for the answer itself.
	minAnswer = 1024
	// minResponsesCap is the smallest cap that the OpenAI Responses protocol takes.
	minResponsesCap = 16
	// levelNone is what the OpenAI protocols call the level "off".
	levelNone provider.Level = "none"
)

// defaultThinking is the token budget of each reasoning level on models with fixed thinking. The levels above high have
// no larger one.
var defaultThinking = map[provider.Level]int64{
	provider.LevelMinimal: 1024,
	provider.LevelLow:     2048,
	provider.LevelMedium:  8192,
	provider.LevelHigh:    16384,
}

// Policy is what a request may take for its output, in tokens.
type Policy struct {
	// Requested is the caller's cap under the model's ceiling, or that ceiling when the caller gave none.
	Requested int64
	// Reserve is what is kept free in the window for the response, thinking included. It bounds every declared cap.
	Reserve int64
	// Ceiling is the model's own limit for one response, never below Reserve.
	Ceiling int64
	// SendMaxTokens is the cap that the adapter declares; 0 when the endpoint takes none. It is the caller's cap rather
	// than a reserve that thinking enlarged, so that thinking is not added twice.
	SendMaxTokens int64
	// ThinkingBudget is the budget of fixed thinking that fits under SendMaxTokens; 0 turns thinking off.
	ThinkingBudget int64
}

// ReserveFor returns the output policy for opt. Errors are ErrInvalid: a capacity or cap that is not a positive safe
// integer, a sampling cap or a floor of the protocol that exceeds the model's ceiling, an unknown reasoning level.
func ReserveFor(opt Options) (Policy, error) {
	if err := checkOptions(opt); err != nil {
		return Policy{}, err
	}
	ceiling := opt.Model.MaxTokens
	policy := Policy{Requested: ceiling, Ceiling: ceiling}
	if opt.MaxTokens != 0 {
		policy.Requested = min(opt.MaxTokens, ceiling)
	}
	thinking, err := thinkingBudget(opt)
	if err != nil {
		return Policy{}, err
	}
	policy.Reserve = baseReserve(opt, policy.Requested, thinking)
	if opt.Model.API.OpenAICompatible() {
		declared, err := samplingCap(opt.Model.Sampling, opt.RequestSampling, ceiling)
		if err != nil {
			return Policy{}, err
		}
		policy.Reserve = max(policy.Reserve, declared)
	}
	if err := checkReserve(policy.Reserve, ceiling); err != nil {
		return Policy{}, err
	}
	policy.SendMaxTokens = sendCap(opt, policy.Reserve)
	policy.ThinkingBudget = fitThinking(thinking, policy.SendMaxTokens)
	return policy, nil
}

func checkOptions(opt Options) error {
	if err := checkModel(opt.Model); err != nil {
		return err
	}
	if opt.MaxTokens != 0 {
		if err := checkCount("the caller's output cap", opt.MaxTokens); err != nil {
			return err
		}
	}
	switch opt.Model.Thinking {
	case "", provider.ThinkingNone, provider.ThinkingFixed, provider.ThinkingAdaptive:
		return nil
	}
	return fmt.Errorf("%w: unknown thinking mode %q", ErrInvalid, opt.Model.Thinking)
}

// takesNoCap says that requests of the model carry no output cap. The Anthropic protocol has no request without one.
func takesNoCap(model provider.Model) bool {
	return model.NoOutputCaps && model.API != provider.APIAnthropicMessages
}

// baseReserve is the reserve before sampling overrides.
func baseReserve(opt Options, requested, thinking int64) int64 {
	ceiling := opt.Model.MaxTokens
	if takesNoCap(opt.Model) {
		return ceiling
	}
	switch opt.Model.API {
	case provider.APIAnthropicMessages:
		return min(requested+thinking, ceiling)
	case provider.APIOpenAIChat:
		return requested
	case provider.APIOpenAIResponses:
		return max(minResponsesCap, requested)
	}
	return ceiling // nothing is known of how the protocol caps its output
}

// sendCap is the cap to declare.
func sendCap(opt Options, reserve int64) int64 {
	if takesNoCap(opt.Model) {
		return 0
	}
	send := reserve
	if opt.MaxTokens != 0 {
		send = min(opt.MaxTokens, reserve)
	}
	if opt.Model.API == provider.APIOpenAIResponses {
		send = max(minResponsesCap, send)
	}
	return send
}

// thinkingBudget is the token budget of the level asked for, 0 where the model or the protocol takes none.
func thinkingBudget(opt Options) (int64, error) {
	model := opt.Model
	level := opt.Reasoning
	if model.API != provider.APIAnthropicMessages || model.Thinking != provider.ThinkingFixed || !level.On() || level == levelNone {
		return 0, nil
	}
	if n, ok := model.ThinkingBudgets[level]; ok {
		return n, checkCount("the thinking budget of level "+string(level), n)
	}
	if level == provider.LevelXHigh || level == provider.LevelMax {
		level = provider.LevelHigh
	}
	if n, ok := model.ThinkingBudgets[level]; ok {
		return n, checkCount("the thinking budget of level "+string(level), n)
	}
	n, ok := defaultThinking[level]
	if !ok {
		return 0, fmt.Errorf("%w: unknown reasoning level %q", ErrInvalid, opt.Reasoning)
	}
	return n, nil
}

// fitThinking makes a thinking budget fit under the cap: thinking and answer share it.
func fitThinking(budget, limit int64) int64 {
	if limit <= budget {
		budget = max(0, limit-minAnswer)
	}
	if budget < minThinkingBudget {
		return 0
	}
	return budget
}

// samplingCap returns the largest output cap in the model's sampling object with the request's merged over it, 0 when
// there is none.
func samplingCap(model, request json.RawMessage, ceiling int64) (int64, error) {
	var merged [len(capFields)][][]byte // the values of each field; more than one when an object gives it twice
	for _, sampling := range []json.RawMessage{model, request} {
		if len(sampling) == 0 || string(sampling) == "null" {
			continue
		}
		var own [len(capFields)][][]byte
		if !declaredCaps(sampling, func(field int, value []byte) { own[field] = append(own[field], value) }) {
			return 0, fmt.Errorf("%w: sampling is not a JSON object", ErrInvalid)
		}
		for field := range own {
			if own[field] != nil {
				merged[field] = own[field]
			}
		}
	}
	var largest int64
	for field, values := range merged {
		for _, value := range values {
			n, ok := parseCount(value)
			if !ok {
				return 0, fmt.Errorf("%w: sampling %s must be a positive safe integer", ErrInvalid, capFields[field])
			}
			if n > ceiling {
				return 0, fmt.Errorf("%w: sampling %s of %d tokens exceeds the model's ceiling of %d",
					ErrInvalid, capFields[field], n, ceiling)
			}
			largest = max(largest, n)
		}
	}
	return largest, nil
}
