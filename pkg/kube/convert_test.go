package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/session"
)

func number(n int64) *int64 { return &n }

// TestModelOf converts each thing that a provider can say about a model.
func TestModelOf(t *testing.T) {
	plain := api.Model{ID: "demo", ContextWindow: 32000, MaxOutputTokens: 4096}
	base := provider.Model{Provider: "models", API: provider.APIAnthropicMessages, ID: "demo", ContextWindow: 32000, MaxTokens: 4096, Thinking: provider.ThinkingNone}
	cases := map[string]struct {
		protocol api.Protocol
		change   func(*api.Model)
		want     func(*provider.Model)
		err      string
	}{
		"a plain model":                {},
		"the chat protocol":            {protocol: api.ProtocolOpenAIChat, want: func(m *provider.Model) { m.API = provider.APIOpenAIChat }},
		"the responses protocol":       {protocol: api.ProtocolOpenAIResponses, want: func(m *provider.Model) { m.API = provider.APIOpenAIResponses }},
		"a model that reads images":    {change: func(m *api.Model) { m.Images = true }, want: func(m *provider.Model) { m.Images = true }},
		"a model that takes an effort": {change: func(m *api.Model) { m.Thinking = api.ThinkingAdaptive }, want: func(m *provider.Model) { m.Thinking = provider.ThinkingAdaptive }},
		"a server that refuses caps":   {change: func(m *api.Model) { m.OutputCaps = api.Disabled }, want: func(m *provider.Model) { m.NoOutputCaps = true }},
		"a model that takes caps":      {change: func(m *api.Model) { m.OutputCaps = api.Enabled }},
		"budgets of some of the efforts": {
			change: func(m *api.Model) {
				m.Thinking, m.ThinkingBudgets = api.ThinkingFixedBudget, &api.ThinkingBudgets{Low: 2048, High: 20000}
			},
			want: func(m *provider.Model) {
				m.Thinking = provider.ThinkingFixed
				m.ThinkingBudgets = map[provider.Level]int64{provider.LevelLow: 2048, provider.LevelHigh: 20000}
			},
		},
		"sampling parameters": {
			change: func(m *api.Model) { m.Sampling = &api.Sampling{Temperature: "0.7", TopK: 40} },
			want:   func(m *provider.Model) { m.Sampling = []byte(`{"temperature":0.7,"top_k":40}`) },
		},
		"a sampling value that is no JSON": {
			change: func(m *api.Model) {
				m.Sampling = &api.Sampling{Extra: []api.SamplingField{{Name: "min_p", Value: "low"}}}
			},
			err: "model demo: sampling field min_p: the value is not JSON",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := &api.ModelProvider{ObjectMeta: metav1.ObjectMeta{Name: "models"}, Spec: api.ModelProviderSpec{Protocol: api.ProtocolAnthropic}}
			if tc.protocol != "" {
				target.Spec.Protocol = tc.protocol
			}
			declared, want := plain, base
			if tc.change != nil {
				tc.change(&declared)
			}
			if tc.want != nil {
				tc.want(&want)
			}
			got, err := ModelOf(target, &declared)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v, model (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestFindModel(t *testing.T) {
	target := &api.ModelProvider{Spec: api.ModelProviderSpec{Models: []api.Model{{ID: "a"}, {ID: "b", ContextWindow: 2}}}}
	if found, ok := FindModel(target, "b"); !ok || found.ContextWindow != 2 {
		t.Errorf("found %+v, %v", found, ok)
	}
	if _, ok := FindModel(target, "c"); ok {
		t.Error("found a model that is not declared")
	}
}

// TestSamplingOf renders parameters in the words of each protocol and refuses those that it does not have.
func TestSamplingOf(t *testing.T) {
	anthropic, chat, responses := provider.APIAnthropicMessages, provider.APIOpenAIChat, provider.APIOpenAIResponses
	cases := map[string]struct {
		sampling *api.Sampling
		protocol provider.API
		want     string
		err      string
	}{
		"none":                 {protocol: anthropic},
		"an empty object":      {sampling: &api.Sampling{}, protocol: anthropic},
		"fractions as written": {sampling: &api.Sampling{Temperature: "0.70", TopP: "1"}, protocol: responses, want: `{"temperature":0.70,"top_p":1}`},
		"stop in Anthropic":    {sampling: &api.Sampling{Stop: []string{"a\"b"}}, protocol: anthropic, want: `{"stop_sequences":["a\"b"]}`},
		"everything of the chat protocol": {
			sampling: &api.Sampling{Temperature: "0", PresencePenalty: "-0.5", FrequencyPenalty: "2", Seed: number(0), Stop: []string{"END"}},
			protocol: chat, want: `{"temperature":0,"presence_penalty":-0.5,"frequency_penalty":2,"seed":0,"stop":["END"]}`,
		},
		"extra fields come last": {
			sampling: &api.Sampling{TopK: 3, Extra: []api.SamplingField{{Name: "min_p", Value: " 0.05 "}, {Name: "effort", Value: `{"level":"low"}`}}},
			protocol: anthropic, want: `{"top_k":3,"min_p":0.05,"effort":{"level":"low"}}`,
		},
		"an extra value that is no JSON": {sampling: &api.Sampling{Extra: []api.SamplingField{{Name: "x", Value: "{"}}}, protocol: chat, err: "sampling field x: the value is not JSON"},
		"topK outside Anthropic":         {sampling: &api.Sampling{TopK: 1}, protocol: chat, err: "topK does not exist in the protocol of the model: remove it"},
		"presencePenalty outside chat":   {sampling: &api.Sampling{PresencePenalty: "1"}, protocol: anthropic, err: "presencePenalty does not exist in the protocol of the model: remove it"},
		"frequencyPenalty outside chat":  {sampling: &api.Sampling{FrequencyPenalty: "1"}, protocol: responses, err: "frequencyPenalty does not exist in the protocol of the model: remove it"},
		"seed outside chat":              {sampling: &api.Sampling{Seed: number(1)}, protocol: anthropic, err: "seed does not exist in the protocol of the model: remove it"},
		"stop in the responses protocol": {sampling: &api.Sampling{Stop: []string{"x"}}, protocol: responses, err: "stop does not exist in the protocol of the model: remove it"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := SamplingOf(tc.sampling, tc.protocol)
			if tc.err != "" || err != nil {
				if err == nil || err.Error() != tc.err {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("sampling (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUsedPercent rounds down, for windows of any size.
func TestUsedPercent(t *testing.T) {
	const safe = 1<<53 - 1
	cases := map[string]struct {
		estimate, window int64
		want             int32
	}{
		"nothing used":                    {0, 32000, 0},
		"a whole per cent":                {320, 32000, 1},
		"almost a per cent":               {319, 32000, 0},
		"a window that 100 does not part": {8191, 8191, 100},
		"almost such a window":            {8190, 8191, 99},
		"a window below 100":              {1, 3, 33},
		"a window of one token":           {1, 1, 100},
		"more than the window":            {40000, 32000, 125},
		"the largest counts":              {safe, safe, 100},
		"almost the largest":              {safe - 1, safe, 99},
		"a share too large to write down": {safe, 1, 1<<31 - 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := BudgetOf(budget.ContextBudget{EstimatedInputTokens: tc.estimate, ContextWindow: tc.window}, nil)
			if got.UsedPercent == nil || *got.UsedPercent != tc.want {
				t.Errorf("%v per cent, want %d", got.UsedPercent, tc.want)
			}
		})
	}
	if got := BudgetOf(budget.ContextBudget{EstimatedInputTokens: 5}, nil); got.UsedPercent != nil {
		t.Errorf("%d per cent of no window", *got.UsedPercent)
	}
}

// TestBudgetOf carries every number over.
func TestBudgetOf(t *testing.T) {
	dispatched, percent, fits := false, int32(0), true
	measured := budget.ContextBudget{
		Provider: "models", Model: "demo", ContextWindow: 32000, SystemTokens: 1, MessageTokens: 2, ToolTokens: 3, EstimatedInputTokens: 6,
		ReservedOutputTokens: 4096, RequestOutputTokenLimit: number(4096), SafetyTokens: 1600, InputLimit: 26304, RemainingInputTokens: 26298, Fits: true,
		Estimator: "scan", CalibratedInputTokens: number(7), CalibratedFits: &fits,
	}
	want := &api.ContextBudget{
		Provider: "models", Model: "demo", ContextWindow: 32000, SystemTokens: 1, MessageTokens: 2, ToolTokens: 3, EstimatedInputTokens: 6,
		ReservedOutputTokens: 4096, RequestOutputTokenLimit: number(4096), SafetyTokens: 1600, InputLimit: 26304, RemainingInputTokens: 26298, Fits: true,
		CalibratedInputTokens: number(7), CalibratedFits: &fits,
		UsedPercent: &percent, Dispatched: &dispatched, Estimator: api.EstimatorScan,
	}
	if diff := cmp.Diff(want, BudgetOf(measured, &dispatched)); diff != "" {
		t.Errorf("budget (-want +got):\n%s", diff)
	}
}

// TestUsageOf keeps a count that was never reported absent, and a usage that nobody reported at all.
func TestUsageOf(t *testing.T) {
	if got := UsageOf(session.Totals{Requests: 3, RequestsWithoutUsage: 3}); got != nil {
		t.Errorf("usage %+v of nothing reported", got)
	}
	want := &api.TokenUsage{Input: number(0), Reasoning: number(2)}
	if diff := cmp.Diff(want, UsageOf(session.Totals{Requests: 1, Input: number(0), Reasoning: number(2)})); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

// TestSourcesOf counts rows, packed ones as many as they stand for.
func TestSourcesOf(t *testing.T) {
	row := func(kind projection.SourceType, n int) session.SourceRun {
		return session.SourceRun{Source: projection.Source{Type: kind}, Count: n}
	}
	record := session.AssemblyRecord{
		HistoryMessageCount: 50,
		Sources: []session.SourceRun{
			row(projection.SourceCompaction, 1), row(projection.SourceHistory, 30), row(projection.SourceToolRepair, 1), row(projection.SourceToolRepair, 1),
			row(projection.SourceHistory, 9), row(projection.SourceRuntimeContext, 1),
		},
		SkillExpansions: make([]projection.SkillExpansion, 2),
	}
	want := &api.InputSources{HistoryMessageCount: 50, History: 39, Compaction: 1, RuntimeContext: 1, ToolRepair: 2, SkillExpansions: 2}
	if diff := cmp.Diff(want, SourcesOf(record)); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}
