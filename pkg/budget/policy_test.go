package budget

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/provider"
)

func model(api provider.API, thinking provider.Thinking) provider.Model {
	return provider.Model{Provider: "p", API: api, ID: "m", ContextWindow: 200_000, MaxTokens: 128_000, Thinking: thinking}
}

// TestReserveFor states whole policies; the vectors state many more reserves.
func TestReserveFor(t *testing.T) {
	fixed := model(provider.APIAnthropicMessages, provider.ThinkingFixed)
	adaptive := model(provider.APIAnthropicMessages, provider.ThinkingAdaptive)
	chat := model(provider.APIOpenAIChat, provider.ThinkingNone)
	responses := model(provider.APIOpenAIResponses, provider.ThinkingAdaptive)
	noCaps := responses
	noCaps.NoOutputCaps = true
	overridden := fixed
	overridden.ThinkingBudgets = map[provider.Level]int64{provider.LevelLow: 500}

	cases := map[string]struct {
		opt  Options
		want Policy
	}{
		"no cap and no reasoning": {
			Options{Model: fixed},
			Policy{Requested: 128_000, Reserve: 128_000, Ceiling: 128_000, SendMaxTokens: 128_000}},
		"fixed thinking enlarges the reserve, not the cap that is sent": {
			Options{Model: fixed, MaxTokens: 16_000, Reasoning: provider.LevelMedium},
			Policy{Requested: 16_000, Reserve: 24_192, Ceiling: 128_000, SendMaxTokens: 16_000, ThinkingBudget: 8192}},
		"fixed thinking without a cap": {
			Options{Model: fixed, Reasoning: provider.LevelHigh},
			Policy{Requested: 128_000, Reserve: 128_000, Ceiling: 128_000, SendMaxTokens: 128_000, ThinkingBudget: 16_384}},
		"a thinking budget that does not fit leaves 1024 for the answer": {
			Options{Model: fixed, MaxTokens: 4096, Reasoning: provider.LevelMedium},
			Policy{Requested: 4096, Reserve: 12_288, Ceiling: 128_000, SendMaxTokens: 4096, ThinkingBudget: 3072}},
		"a cap equal to the thinking budget": {
			Options{Model: fixed, MaxTokens: 8192, Reasoning: provider.LevelMedium},
			Policy{Requested: 8192, Reserve: 16_384, Ceiling: 128_000, SendMaxTokens: 8192, ThinkingBudget: 7168}},
		"a cap one above the thinking budget": {
			Options{Model: fixed, MaxTokens: 8193, Reasoning: provider.LevelMedium},
			Policy{Requested: 8193, Reserve: 16_385, Ceiling: 128_000, SendMaxTokens: 8193, ThinkingBudget: 8192}},
		"a cap that leaves exactly the smallest thinking budget": {
			Options{Model: fixed, MaxTokens: 2048, Reasoning: provider.LevelMedium},
			Policy{Requested: 2048, Reserve: 10_240, Ceiling: 128_000, SendMaxTokens: 2048, ThinkingBudget: 1024}},
		"a cap too small for any thinking turns it off": {
			Options{Model: fixed, MaxTokens: 2047, Reasoning: provider.LevelMedium},
			Policy{Requested: 2047, Reserve: 10_239, Ceiling: 128_000, SendMaxTokens: 2047}},
		"a cap of 1024 turns thinking off": {
			Options{Model: fixed, MaxTokens: 1024, Reasoning: provider.LevelMinimal},
			Policy{Requested: 1024, Reserve: 2048, Ceiling: 128_000, SendMaxTokens: 1024}},
		"an override below what the protocol takes turns thinking off": {
			Options{Model: overridden, MaxTokens: 16_000, Reasoning: provider.LevelLow},
			Policy{Requested: 16_000, Reserve: 16_500, Ceiling: 128_000, SendMaxTokens: 16_000}},
		"adaptive thinking has no budget": {
			Options{Model: adaptive, MaxTokens: 16_000, Reasoning: provider.LevelHigh},
			Policy{Requested: 16_000, Reserve: 16_000, Ceiling: 128_000, SendMaxTokens: 16_000}},
		"the responses floor is also what is sent": {
			Options{Model: responses, MaxTokens: 1},
			Policy{Requested: 1, Reserve: 16, Ceiling: 128_000, SendMaxTokens: 16}},
		"an endpoint without caps is sent none": {
			Options{Model: noCaps, MaxTokens: 16_000},
			Policy{Requested: 16_000, Reserve: 128_000, Ceiling: 128_000}},
		"an unknown protocol is sent the caller's cap, on which nothing relies": {
			Options{Model: model("other", provider.ThinkingNone), MaxTokens: 16_000},
			Policy{Requested: 16_000, Reserve: 128_000, Ceiling: 128_000, SendMaxTokens: 16_000}},
		"sampling enlarges the reserve, not the cap that is sent": {
			Options{Model: chat, MaxTokens: 16_000, RequestSampling: json.RawMessage(`{"max_tokens":24000}`)},
			Policy{Requested: 16_000, Reserve: 24_000, Ceiling: 128_000, SendMaxTokens: 16_000}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ReserveFor(tc.opt)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestReserveForErrors(t *testing.T) {
	fixed := model(provider.APIAnthropicMessages, provider.ThinkingFixed)
	chat := model(provider.APIOpenAIChat, provider.ThinkingNone)
	cases := map[string]struct {
		opt  Options
		want string
	}{
		"unknown reasoning level":   {Options{Model: fixed, Reasoning: "extreme"}, `unknown reasoning level "extreme"`},
		"unknown thinking mode":     {Options{Model: model(provider.APIOpenAIChat, "sometimes")}, `unknown thinking mode "sometimes"`},
		"sampling that is no JSON":  {Options{Model: chat, RequestSampling: json.RawMessage(`{"max_tokens":`)}, "not a JSON object"},
		"sampling that is an array": {Options{Model: chat, RequestSampling: json.RawMessage(`[]`)}, "not a JSON object"},
		"negative caller cap":       {Options{Model: chat, MaxTokens: -1}, "positive safe integer"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			policy, err := ReserveFor(tc.opt)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want ErrInvalid with %q", err, tc.want)
			}
			if diff := cmp.Diff(Policy{}, policy); diff != "" {
				t.Errorf("policy beside the error:\n%s", diff)
			}
		})
	}
}

// TestEveryPolicyHolds walks a grid of settings: whatever is sent passes the guard that the same policy sets up.
func TestEveryPolicyHolds(t *testing.T) {
	numbers := []int64{1, 15, 16, 17, 1023, 1024, 1025, 2047, 2048, 8192, 16_384, 128_000, MaxTokenCount - 1, MaxTokenCount}
	levels := []provider.Level{"", provider.LevelOff, provider.LevelMinimal, provider.LevelMedium, provider.LevelMax}
	for _, api := range []provider.API{provider.APIAnthropicMessages, provider.APIOpenAIChat, provider.APIOpenAIResponses, "x"} {
		for _, thinking := range []provider.Thinking{provider.ThinkingNone, provider.ThinkingFixed, provider.ThinkingAdaptive} {
			for _, ceiling := range numbers {
				for _, limit := range append([]int64{0}, numbers...) {
					for _, level := range levels {
						m := model(api, thinking)
						m.MaxTokens = ceiling
						checkPolicy(t, Options{Model: m, MaxTokens: limit, Reasoning: level})
					}
				}
			}
		}
	}
}

func checkPolicy(t *testing.T, opt Options) {
	t.Helper()
	p, err := ReserveFor(opt)
	if err != nil {
		if opt.Model.API != provider.APIOpenAIResponses || opt.Model.MaxTokens >= minResponsesCap {
			t.Fatalf("%+v: %v", opt, err)
		}
		return
	}
	if p.Reserve < 1 || p.Reserve > p.Ceiling || p.SendMaxTokens < 1 || p.SendMaxTokens > p.Reserve {
		t.Fatalf("%+v: %+v", opt, p)
	}
	if p.ThinkingBudget != 0 && (p.ThinkingBudget < minThinkingBudget || p.ThinkingBudget >= p.SendMaxTokens) {
		t.Fatalf("%+v: thinking does not fit: %+v", opt, p)
	}
	body, err := json.Marshal(map[string]int64{"max_tokens": p.SendMaxTokens})
	if err != nil {
		t.Fatal(err)
	}
	if limit, err := GuardPayload(body, p); err != nil || *limit != p.SendMaxTokens {
		t.Fatalf("%+v: the guard refuses what the policy sends: %v", opt, err)
	}
}
