package budget

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/internal/vectors"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

// TestVectors runs testdata/vectors and, when AGENTLOOP_VECTORS names a folder, its budget/*.json besides.
func TestVectors(t *testing.T) {
	vectors.Run(t, "budget", func(t *testing.T, raw json.RawMessage) {
		if err := runVector(raw); err != nil {
			t.Error(err)
		}
	})
}

// runVector returns what is wrong with a case or with the answer to it.
func runVector(raw json.RawMessage) error {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	switch head.Kind {
	case "text", "message", "system", "tools":
		return runEstimate(head.Kind, raw)
	case "reserve", "budget", "guard":
		return runPolicy(head.Kind, raw)
	}
	return fmt.Errorf("unknown kind %q", head.Kind)
}

type title struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// runEstimate runs the four kinds that ask for the estimate of one value.
func runEstimate(kind string, raw json.RawMessage) error {
	var text struct {
		title
		Text *string `json:"text"`
		Want *int64  `json:"want"`
	}
	var one struct {
		title
		Message *message.Message `json:"message"`
		Want    *int64           `json:"want"`
	}
	var system struct {
		title
		System *string `json:"system"`
		Want   *int64  `json:"want"`
	}
	var tools struct {
		title
		Tools []message.Tool `json:"tools"`
		Want  *int64         `json:"want"`
	}
	into := map[string]any{"text": &text, "message": &one, "system": &system, "tools": &tools}[kind]
	if err := vectors.Decode(raw, into); err != nil {
		return err
	}
	var got int64
	var want *int64
	switch {
	case text.Text != nil:
		got, want = TextTokens(*text.Text), text.Want
	case one.Message != nil:
		got, want = MessageTokens(*one.Message), one.Want
	case system.System != nil:
		got, want = SystemTokens(*system.System), system.Want
	case tools.Tools != nil:
		got, want = ToolTokens(tools.Tools), tools.Want
	}
	if want == nil {
		return fmt.Errorf("the case has no %s or no want", kind)
	}
	if got != *want {
		return fmt.Errorf("%d tokens, want %d", got, *want)
	}
	return nil
}

// vectorModel is a model as vectors write it. Capacities are raw, for cases whose point is a bad one.
type vectorModel struct {
	Provider      string            `json:"provider"`
	API           provider.API      `json:"api"`
	ID            string            `json:"id"`
	ContextWindow json.RawMessage   `json:"contextWindow"`
	MaxTokens     json.RawMessage   `json:"maxTokens"`
	Thinking      provider.Thinking `json:"thinking"`
	Images        bool              `json:"images"`
}

// policyCase holds the settings that reserve, budget and guard cases share, and what each of the kinds adds.
type policyCase struct {
	title
	Model           *vectorModel                       `json:"model"`
	MaxTokens       json.RawMessage                    `json:"maxTokens"`
	Reasoning       provider.Level                     `json:"reasoning"`
	ThinkingBudgets map[provider.Level]json.RawMessage `json:"thinkingBudgets"`
	Sampling        json.RawMessage                    `json:"sampling"`
	RequestSampling json.RawMessage                    `json:"requestSampling"`
	OutputCaps      *bool                              `json:"outputCaps"`
	Want            json.RawMessage                    `json:"want"`
	WantError       string                             `json:"wantError"`
}

type vectorRequest struct {
	System   string            `json:"system"`
	Messages []message.Message `json:"messages"`
	Tools    []message.Tool    `json:"tools"`
}

func runPolicy(kind string, raw json.RawMessage) error {
	var reserve struct{ policyCase }
	var measure struct {
		policyCase
		Request *vectorRequest `json:"request"`
	}
	var guard struct {
		policyCase
		Payload json.RawMessage `json:"payload"`
	}
	var got any
	switch kind {
	case "reserve":
		if err := vectors.Decode(raw, &reserve); err != nil {
			return err
		}
		opt, err := reserve.options()
		var policy Policy
		if err == nil {
			policy, err = ReserveFor(opt)
		}
		got = policy.Reserve
		return reserve.compare(got, err)
	case "budget":
		if err := vectors.Decode(raw, &measure); err != nil {
			return err
		}
		if measure.Request == nil {
			return fmt.Errorf("the case has no request")
		}
		opt, err := measure.options()
		if err == nil {
			got, err = Measure(Request(*measure.Request), opt, nil)
		}
		return measure.compare(got, err)
	}
	if err := vectors.Decode(raw, &guard); err != nil {
		return err
	}
	if len(guard.Payload) == 0 {
		return fmt.Errorf("the case has no payload")
	}
	opt, err := guard.options()
	var policy Policy
	if err == nil {
		policy, err = ReserveFor(opt)
	}
	if err == nil {
		var seen struct {
			RequestOutputTokenLimit *int64 `json:"requestOutputTokenLimit,omitempty"`
		}
		seen.RequestOutputTokenLimit, err = GuardPayload(guard.Payload, policy)
		got = seen
	}
	return guard.compareExactly(got, err)
}

// options reads the case's numbers as a request's own JSON would be read.
func (c *policyCase) options() (Options, error) {
	if c.Model == nil {
		return Options{}, fmt.Errorf("the case has no model")
	}
	m := c.Model
	opt := Options{
		Model: provider.Model{Provider: m.Provider, API: m.API, ID: m.ID, Thinking: m.Thinking, Images: m.Images,
			Sampling: c.Sampling, NoOutputCaps: c.OutputCaps != nil && !*c.OutputCaps},
		Reasoning:       c.Reasoning,
		RequestSampling: c.RequestSampling,
	}
	for name, n := range map[string]struct {
		raw  json.RawMessage
		into *int64
	}{
		"contextWindow": {m.ContextWindow, &opt.Model.ContextWindow},
		"maxTokens":     {m.MaxTokens, &opt.Model.MaxTokens},
		"cap":           {c.MaxTokens, &opt.MaxTokens},
	} {
		if n.raw == nil {
			continue // absent: none given, or a capacity of 0 that ReserveFor refuses
		}
		var ok bool
		if *n.into, ok = parseCount(n.raw); !ok {
			return Options{}, fmt.Errorf("%w: %s must be a positive safe integer", ErrInvalid, name)
		}
	}
	for level, raw := range c.ThinkingBudgets {
		n, ok := parseCount(raw)
		if !ok {
			return Options{}, fmt.Errorf("%w: the thinking budget must be a positive safe integer", ErrInvalid)
		}
		if opt.Model.ThinkingBudgets == nil {
			opt.Model.ThinkingBudgets = map[provider.Level]int64{}
		}
		opt.Model.ThinkingBudgets[level] = n
	}
	return opt, nil
}

// compareExactly is compare for results whose keys must all be wanted.
func (c *policyCase) compareExactly(got any, err error) error {
	if err := c.compare(got, err); err != nil || c.WantError != "" {
		return err
	}
	gotKeys, wantKeys := keysOf(got), keysOf(c.Want)
	if !slices.Equal(gotKeys, wantKeys) {
		return fmt.Errorf("answer has the keys %v, want %v", gotKeys, wantKeys)
	}
	return nil
}

// compare holds an answer against want (a number, or the keys of an object that matter) or against wantError.
func (c *policyCase) compare(got any, err error) error {
	if (c.WantError == "") == (c.Want == nil) {
		return fmt.Errorf("the case must have either want or wantError")
	}
	if c.WantError != "" {
		if err == nil || !strings.Contains(err.Error(), c.WantError) {
			return fmt.Errorf("answer %v, error %v, want an error with %q", got, err, c.WantError)
		}
		return nil
	}
	if err != nil {
		return err
	}
	var want map[string]json.RawMessage
	if json.Unmarshal(c.Want, &want) != nil {
		if answer := fmt.Sprint(got); answer != string(c.Want) {
			return fmt.Errorf("%s tokens, want %s", answer, c.Want)
		}
		return nil
	}
	encoded, err := json.Marshal(got)
	if err != nil {
		return err
	}
	var answer map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &answer); err != nil {
		return fmt.Errorf("want is an object but the answer is %s", encoded)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if string(answer[key]) != string(want[key]) {
			return fmt.Errorf("%s is %s, want %s", key, answer[key], want[key])
		}
	}
	return nil
}

func keysOf(value any) []string {
	encoded, _ := json.Marshal(value)
	var object map[string]json.RawMessage
	if json.Unmarshal(encoded, &object) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(object))
}

// TestRunVectorRefusesBadCases keeps a slip in a vector file from passing as a case that holds.
func TestRunVectorRefusesBadCases(t *testing.T) {
	model := `"model":{"provider":"p","api":"openai-completions","id":"m","contextWindow":100,"maxTokens":10,"thinking":"none"}`
	cases := map[string]struct{ raw, want string }{
		"unknown kind":             {`{"name":"x","kind":"texts","text":"a","want":1}`, `unknown kind "texts"`},
		"kind in another case":     {`{"name":"x","Kind":"text","text":"a","want":1}`, "unknown field"},
		"unknown field":            {`{"name":"x","kind":"text","text":"a","want":1,"note":""}`, "unknown field"},
		"field of another kind":    {`{"name":"x","kind":"text","text":"a","want":1,"tools":[]}`, "unknown field"},
		"no want":                  {`{"name":"x","kind":"text","text":"a"}`, "no want"},
		"no text":                  {`{"name":"x","kind":"text","want":0}`, "no text"},
		"wrong answer":             {`{"name":"x","kind":"text","text":"a","want":2}`, "1 tokens, want 2"},
		"unknown key in a message": {`{"name":"x","kind":"message","message":{"role":"user","content":"a","time":1},"want":17}`, "unknown key"},
		"unknown field in a model": {`{"name":"x","kind":"reserve","model":{"window":1},"want":1}`, "unknown field"},
		"no model":                 {`{"name":"x","kind":"reserve","want":1}`, "no model"},
		"neither want nor error":   {`{"name":"x","kind":"reserve",` + model + `}`, "either want or wantError"},
		"both want and error":      {`{"name":"x","kind":"reserve",` + model + `,"want":10,"wantError":"x"}`, "either want or wantError"},
		"wrong reserve":            {`{"name":"x","kind":"reserve",` + model + `,"want":11}`, "10 tokens, want 11"},
		"error that does not come": {`{"name":"x","kind":"reserve",` + model + `,"wantError":"exceeds"}`, "want an error"},
		"unknown field in want":    {`{"name":"x","kind":"budget",` + model + `,"request":{"messages":[]},"want":{"window":100}}`, "window is"},
		"no request":               {`{"name":"x","kind":"budget",` + model + `,"want":{"fits":true}}`, "no request"},
		"no payload":               {`{"name":"x","kind":"guard",` + model + `,"want":{}}`, "no payload"},
		"a limit nobody wanted":    {`{"name":"x","kind":"guard",` + model + `,"payload":{"max_tokens":1},"want":{}}`, "keys"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := runVector(json.RawMessage(tc.raw))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}
