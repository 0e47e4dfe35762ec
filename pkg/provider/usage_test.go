package provider_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

func tokens(n int64) *int64 { return &n }

func TestSilentOverflow(t *testing.T) {
	model := provider.Model{ContextWindow: 1000}
	cases := map[string]struct {
		stop  message.StopReason
		usage *message.Usage
		want  bool
	}{
		"cut with no output at the window":     {message.StopLength, &message.Usage{Input: tokens(990), Output: tokens(0)}, true},
		"cached input fills the window too":    {message.StopLength, &message.Usage{Input: tokens(1), CacheRead: tokens(900), CacheWrite: tokens(89), Output: tokens(0)}, true},
		"just below":                           {message.StopLength, &message.Usage{Input: tokens(989), Output: tokens(0)}, false},
		"some output":                          {message.StopLength, &message.Usage{Input: tokens(999), Output: tokens(1)}, false},
		"output not recorded":                  {message.StopLength, &message.Usage{Input: tokens(999)}, false},
		"input not recorded":                   {message.StopLength, &message.Usage{Output: tokens(0)}, false},
		"no usage":                             {message.StopLength, nil, false},
		"an ordinary stop without any output":  {message.StopStop, &message.Usage{Input: tokens(999), Output: tokens(0)}, false},
		"small input and the cap was very low": {message.StopLength, &message.Usage{Input: tokens(10), Output: tokens(0)}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := provider.SilentOverflow(model, c.stop, c.usage); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestContextTokens(t *testing.T) {
	cases := map[string]struct {
		usage *message.Usage
		want  int64
		ok    bool
	}{
		"what was cached and what is newly cached fill the window too": {&message.Usage{Input: tokens(10), CacheRead: tokens(900), CacheWrite: tokens(80), Output: tokens(7)}, 990, true},
		"a provider without a cache":                                   {&message.Usage{Input: tokens(10), Output: tokens(7)}, 10, true},
		"the input was not reported":                                   {&message.Usage{CacheRead: tokens(900), Output: tokens(7)}, 0, false},
		"nothing was reported":                                         {nil, 0, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got, ok := provider.ContextTokens(c.usage); got != c.want || ok != c.ok {
				t.Errorf("%d, %v, want %d, %v", got, ok, c.want, c.ok)
			}
		})
	}
}

func TestMergedSampling(t *testing.T) {
	cases := map[string]struct {
		model, request string
		want           []provider.SamplingField
		wantErr        bool
	}{
		"nothing": {want: []provider.SamplingField{}},
		"the request wins and names are sorted": {
			model: `{"top_p":0.9,"temperature":1}`, request: `{"temperature":0.2,"seed":7}`,
			want: []provider.SamplingField{{"seed", json.RawMessage("7")}, {"temperature", json.RawMessage("0.2")}, {"top_p", json.RawMessage("0.9")}},
		},
		"values are kept as they are written": {
			request: `{"logit_bias":{"50256": -1.50}}`,
			want:    []provider.SamplingField{{"logit_bias", json.RawMessage(`{"50256": -1.50}`)}},
		},
		"an array":                      {model: `[1]`, wantErr: true},
		"broken JSON":                   {request: `{"a":`, wantErr: true},
		"truncation is never sent":      {request: `{"truncation":"auto"}`, wantErr: true},
		"no state at the provider":      {request: `{"previous_response_id":"resp_1"}`, wantErr: true},
		"messages are the engine's":     {model: `{"messages":[]}`, wantErr: true},
		"streaming is not up to anyone": {model: `{"stream":false}`, wantErr: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := provider.Request{Model: provider.Model{Sampling: json.RawMessage(c.model)}, Sampling: json.RawMessage(c.request)}
			got, err := req.MergedSampling()
			if c.wantErr {
				if !errors.Is(err, provider.ErrSampling) {
					t.Fatalf("error %v, want ErrSampling", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzUsageMeter states that no input breaks the meter, that counts are never negative, and that adding the same events
// again changes nothing.
func FuzzUsageMeter(f *testing.F) {
	f.Add([]byte(`{"usage":{"input_tokens":1,"prompt_tokens":"2","prompt_tokens_details":7}}`), []byte(`{"usage":null}`))
	f.Add([]byte(`{"message":{"usage":{"output_tokens":1e300}}}`), []byte(`{"usage":{"completion_tokens":-1}}`))
	f.Add([]byte(`{"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":9007199254740991}}}`), []byte(`{"choices":[{"usage":{}}]}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for _, api := range []provider.API{provider.APIAnthropicMessages, provider.APIOpenAIChat, provider.APIOpenAIResponses} {
			m := provider.UsageMeter{API: api}
			m.Add(a)
			m.Add(b)
			once := m.Usage()
			m.Add(a)
			m.Add(b)
			if diff := cmp.Diff(once, m.Usage()); diff != "" {
				t.Fatalf("counts were added up:\n%s", diff)
			}
			if once == nil {
				continue
			}
			for _, n := range []*int64{once.Input, once.Output, once.CacheRead, once.CacheWrite, once.Reasoning} {
				if n != nil && *n < 0 {
					t.Fatalf("negative count %d", *n)
				}
			}
		}
	})
}
