package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/session"
)

var protocols = map[api.Protocol]provider.API{
	api.ProtocolAnthropic:       provider.APIAnthropicMessages,
	api.ProtocolOpenAIChat:      provider.APIOpenAIChat,
	api.ProtocolOpenAIResponses: provider.APIOpenAIResponses,
}

var thinkings = map[api.Thinking]provider.Thinking{
	api.ThinkingNone: provider.ThinkingNone, api.ThinkingAdaptive: provider.ThinkingAdaptive, api.ThinkingFixedBudget: provider.ThinkingFixed,
	"": provider.ThinkingNone,
}

// estimators are the names under which records have them; the heuristic has none.
var estimators = map[api.Estimator]string{api.EstimatorScan: "scan", api.EstimatorO200k: "o200k"}

// FindModel returns the declared model of that id.
func FindModel(p *api.ModelProvider, id string) (*api.Model, bool) {
	for i := range p.Spec.Models {
		if p.Spec.Models[i].ID == id {
			return &p.Spec.Models[i], true
		}
	}
	return nil, false
}

// ModelOf converts a declared model to the engine's metadata. It fails when sampling values are not JSON.
func ModelOf(p *api.ModelProvider, m *api.Model) (provider.Model, error) {
	sampling, err := SamplingOf(m.Sampling, protocols[p.Spec.Protocol])
	if err != nil {
		return provider.Model{}, fmt.Errorf("model %s: %w", m.ID, err)
	}
	out := provider.Model{
		Provider: p.Name, API: protocols[p.Spec.Protocol], ID: m.ID, ContextWindow: m.ContextWindow, MaxTokens: m.MaxOutputTokens,
		Thinking: thinkings[m.Thinking], Images: m.Images, NoOutputCaps: m.OutputCaps == api.Disabled, Sampling: sampling,
	}
	if b := m.ThinkingBudgets; b != nil {
		out.ThinkingBudgets = map[provider.Level]int64{}
		for level, tokens := range map[provider.Level]int64{
			provider.LevelMinimal: b.Minimal, provider.LevelLow: b.Low, provider.LevelMedium: b.Medium, provider.LevelHigh: b.High,
		} {
			if tokens > 0 {
				out.ThinkingBudgets[level] = tokens
			}
		}
	}
	return out, nil
}

// field is one top-level field of a request with its JSON value.
type field struct {
	name string
	raw  []byte
}

// SamplingOf renders sampling parameters as the JSON object that goes into requests; nil when there are none. A
// parameter that the protocol does not have, or a value that is not JSON, is an error.
func SamplingOf(s *api.Sampling, protocol provider.API) (json.RawMessage, error) {
	if s == nil {
		return nil, nil
	}
	if name := foreignSampling(s, protocol); name != "" {
		return nil, fmt.Errorf("%s does not exist in the protocol of the model: remove it", name)
	}
	stop := "stop"
	if protocol == provider.APIAnthropicMessages {
		stop = "stop_sequences"
	}
	var fields []field
	decimal := func(name, value string) {
		if value != "" {
			fields = append(fields, field{name, []byte(value)})
		}
	}
	decimal("temperature", s.Temperature)
	decimal("top_p", s.TopP)
	if s.TopK > 0 {
		fields = append(fields, field{"top_k", fmt.Append(nil, s.TopK)})
	}
	decimal("presence_penalty", s.PresencePenalty)
	decimal("frequency_penalty", s.FrequencyPenalty)
	if s.Seed != nil {
		fields = append(fields, field{"seed", fmt.Append(nil, *s.Seed)})
	}
	if len(s.Stop) > 0 {
		raw, err := json.Marshal(s.Stop)
		if err != nil {
			return nil, fmt.Errorf("sampling.stop: %w", err)
		}
		fields = append(fields, field{stop, raw})
	}
	for _, extra := range s.Extra {
		fields = append(fields, field{extra.Name, []byte(extra.Value)})
	}
	return object(fields)
}

// foreignSampling names a parameter that the protocol does not have; empty when there is none.
func foreignSampling(s *api.Sampling, protocol provider.API) string {
	chat := protocol == provider.APIOpenAIChat
	switch {
	case s.TopK > 0 && protocol != provider.APIAnthropicMessages:
		return "topK"
	case s.PresencePenalty != "" && !chat:
		return "presencePenalty"
	case s.FrequencyPenalty != "" && !chat:
		return "frequencyPenalty"
	case s.Seed != nil && !chat:
		return "seed"
	case len(s.Stop) > 0 && protocol == provider.APIOpenAIResponses:
		return "stop"
	}
	return ""
}

func object(fields []field) (json.RawMessage, error) {
	if len(fields) == 0 {
		return nil, nil
	}
	var buf bytes.Buffer
	buf.WriteByte('{')
	for i, f := range fields {
		if !json.Valid(f.raw) {
			return nil, fmt.Errorf("sampling field %s: the value is not JSON", f.name)
		}
		if i > 0 {
			buf.WriteByte(',')
		}
		name, err := json.Marshal(f.name)
		if err != nil {
			return nil, err
		}
		buf.Write(name)
		buf.WriteByte(':')
		buf.Write(bytes.TrimSpace(f.raw))
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}

// BudgetOf converts a measured budget. dispatched is nil for an estimate that belongs to no request.
func BudgetOf(b budget.ContextBudget, dispatched *bool) *api.ContextBudget {
	out := &api.ContextBudget{
		Provider: b.Provider, Model: b.Model, ContextWindow: b.ContextWindow, SystemTokens: b.SystemTokens, MessageTokens: b.MessageTokens,
		ToolTokens: b.ToolTokens, EstimatedInputTokens: b.EstimatedInputTokens, ReservedOutputTokens: b.ReservedOutputTokens,
		RequestOutputTokenLimit: b.RequestOutputTokenLimit, SafetyTokens: b.SafetyTokens, InputLimit: b.InputLimit,
		CalibratedInputTokens: b.CalibratedInputTokens, CalibratedFits: b.CalibratedFits,
		RemainingInputTokens: b.RemainingInputTokens, Fits: b.Fits, Dispatched: dispatched, Estimator: api.EstimatorHeuristic,
	}
	for kind, name := range estimators {
		if name == b.Estimator {
			out.Estimator = kind
		}
	}
	if b.ContextWindow > 0 && b.EstimatedInputTokens >= 0 {
		percent := usedPercent(b.EstimatedInputTokens, b.ContextWindow)
		out.UsedPercent = &percent
	}
	return out
}

// usedPercent is the estimate in per cent of the window, rounded down. Both are at most 2^53 - 1, so a hundredfold of
// either is an int64.
func usedPercent(estimate, window int64) int32 {
	return int32(min(estimate*100/window, math.MaxInt32))
}

// UsageOf converts summed usage; nil when no provider reported anything.
func UsageOf(t session.Totals) *api.TokenUsage {
	if t.Input == nil && t.Output == nil && t.CacheRead == nil && t.CacheWrite == nil && t.Reasoning == nil {
		return nil
	}
	return &api.TokenUsage{Input: t.Input, Output: t.Output, CacheRead: t.CacheRead, CacheWrite: t.CacheWrite, Reasoning: t.Reasoning}
}

// SourcesOf counts the rows of an assembly record by where they came from.
func SourcesOf(record session.AssemblyRecord) *api.InputSources {
	out := &api.InputSources{HistoryMessageCount: int32(record.HistoryMessageCount), SkillExpansions: int32(len(record.SkillExpansions))}
	for _, run := range record.Sources {
		n := int32(run.Count)
		switch run.Type {
		case projection.SourceHistory:
			out.History += n
		case projection.SourceCompaction:
			out.Compaction += n
		case projection.SourceRuntimeContext:
			out.RuntimeContext += n
		case projection.SourceToolRepair:
			out.ToolRepair += n
		}
	}
	return out
}
