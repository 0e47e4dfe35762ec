package budget

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func small() provider.Model {
	return provider.Model{Provider: "prov", API: provider.APIOpenAIChat, ID: "model-1", ContextWindow: 32_000, MaxTokens: 4096}
}

// exactly returns a request whose estimate is n tokens.
func exactly(n int) Request {
	return Request{Messages: []message.Message{{Role: message.RoleUser, Content: message.Text(strings.Repeat("x", 4*(n-MessageOverhead)))}}}
}

// TestBudgetJSON pins the form in which budgets are stored and shown.
func TestBudgetJSON(t *testing.T) {
	measured, err := Measure(exactly(26_305), Options{Model: small()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	limit := int64(4096)
	var got []byte
	for _, b := range []ContextBudget{measured, measured.WithRequestLimit(&limit)} {
		raw, err := json.MarshalIndent(b, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(append(got, raw...), '\n')
	}
	path := filepath.Join("testdata", "budget.golden")
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPressed(t *testing.T) {
	cases := map[string]struct {
		estimate, limit int64
		want            bool
	}{
		"below nine tenths of 26304":              {23_673, 26_304, false},
		"above nine tenths of 26304":              {23_674, 26_304, true},
		"exactly nine tenths":                     {90, 100, true},
		"one below nine tenths":                   {89, 100, false},
		"no room at all":                          {0, 0, true},
		"over the limit":                          {200, 100, true},
		"an empty request":                        {0, 100, false},
		"the largest safe integers":               {MaxTokenCount, MaxTokenCount, true},
		"products beyond 64 bits, pressed":        {math.MaxInt64, math.MaxInt64, true},
		"products beyond 64 bits, not pressed":    {math.MaxInt64/10*9 - 10, math.MaxInt64, false},
		"a negative estimate counts as none":      {-5, 100, false},
		"a negative limit counts as no room left": {1, -100, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := (ContextBudget{EstimatedInputTokens: tc.estimate, InputLimit: tc.limit}).Pressed(); got != tc.want {
				t.Errorf("pressed %v, want %v", got, tc.want)
			}
		})
	}
}

func TestExceededErrorHoldsItsOwnCopyAndOnlyNumbers(t *testing.T) {
	request := exactly(26_305)
	request.System = "sk-secret"
	measured, err := Measure(request, Options{Model: small()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	limit := int64(77)
	measured = measured.WithRequestLimit(&limit)
	wrapped := fmt.Errorf("run: %w", measured.Err())
	*measured.RequestOutputTokenLimit = 1

	var exceeded *ExceededError
	if !errors.As(wrapped, &exceeded) {
		t.Fatalf("%v is no ExceededError", wrapped)
	}
	if *exceeded.Budget.RequestOutputTokenLimit != 77 {
		t.Errorf("the error's budget changed with the caller's: limit %d", *exceeded.Budget.RequestOutputTokenLimit)
	}
	want := "context budget exceeded: the input is estimated at 26324 tokens and the limit is 26304 " +
		"(window 32000, output reserve 4096, safety 1600); compact the session or use a larger model; nothing was sent and the history is kept"
	if diff := cmp.Diff(want, exceeded.Error()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestErrIsNilForABudgetThatFits(t *testing.T) {
	measured, err := Measure(exactly(26_304), Options{Model: small()}, nil)
	if err != nil || measured.Err() != nil {
		t.Errorf("errors %v, %v", err, measured.Err())
	}
}

func TestCloneSharesNothing(t *testing.T) {
	limit := int64(5)
	original := ContextBudget{RequestOutputTokenLimit: &limit}
	clone := original.Clone()
	seen := original.WithRequestLimit(&limit)
	limit = 6
	if *clone.RequestOutputTokenLimit != 5 || *seen.RequestOutputTokenLimit != 5 {
		t.Errorf("copies changed: %d, %d", *clone.RequestOutputTokenLimit, *seen.RequestOutputTokenLimit)
	}
	if original.WithRequestLimit(nil).RequestOutputTokenLimit != nil {
		t.Error("a body without a cap left a limit")
	}
}

func TestMeasureUsesTheEstimatorGiven(t *testing.T) {
	texts := 0
	request := Request{System: "s", Messages: exactly(20).Messages,
		Tools: []message.Tool{{Name: "a", Parameters: json.RawMessage(`{}`)}}}
	if _, err := Measure(request, Options{Model: small(), Estimator: counting{"c", &texts}}, nil); err != nil {
		t.Fatal(err)
	}
	if texts != 3 {
		t.Errorf("%d texts estimated, want the system prompt, the message and the tools", texts)
	}
}

// broken is an estimator that answers nonsense.
type broken int64

func (broken) Name() string        { return "broken" }
func (b broken) Text(string) int64 { return int64(b) }

func TestMeasureRefusesEstimatesOutOfRange(t *testing.T) {
	request := Request{System: "s", Messages: make([]message.Message, 3), Tools: []message.Tool{{Name: "a"}}}
	for i := range request.Messages {
		request.Messages[i] = message.Message{Role: message.RoleUser, Content: message.Text("x")}
	}
	for name, answer := range map[string]broken{"the largest int64": math.MaxInt64, "2^53": 1 << 53, "negative": -100,
		"a sum beyond 2^53": 1 << 51} {
		t.Run(name, func(t *testing.T) {
			if b, err := Measure(request, Options{Model: small(), Estimator: answer}, new(Cache)); !errors.Is(err, ErrInvalid) {
				t.Errorf("budget %+v, error %v, want ErrInvalid", b, err)
			}
		})
	}
}

func TestAssessErrors(t *testing.T) {
	cases := map[string]struct {
		model   provider.Model
		reserve int64
		counts  Counts
	}{
		"no window":                  {provider.Model{MaxTokens: 10}, 10, Counts{}},
		"no ceiling":                 {provider.Model{ContextWindow: 10}, 10, Counts{}},
		"no reserve":                 {small(), 0, Counts{}},
		"reserve above the ceiling":  {small(), 4097, Counts{}},
		"negative count":             {small(), 10, Counts{System: -1}},
		"count beyond safe integers": {small(), 10, Counts{Tools: MaxTokenCount + 1}},
		"sum beyond safe integers":   {small(), 10, Counts{Messages: MaxTokenCount, Tools: 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if b, err := Assess(tc.model, tc.reserve, tc.counts); !errors.Is(err, ErrInvalid) || b != (ContextBudget{}) {
				t.Errorf("budget %+v, error %v, want ErrInvalid", b, err)
			}
		})
	}
}

func TestMeasureLeavesTheRequestAlone(t *testing.T) {
	request := Request{System: "s", Messages: []message.Message{{Role: message.RoleAssistant, Content: message.Blocks(
		message.Block{Type: message.BlockToolCall, ID: "c", Name: "n", Arguments: json.RawMessage(` { "a" : 1 } `)})}},
		Tools: []message.Tool{{Name: "n", Parameters: json.RawMessage(` { } `)}}}
	before := fmt.Sprintf("%#v", request)
	cache := new(Cache)
	for range 2 {
		if _, err := Measure(request, Options{Model: small()}, cache); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, fmt.Sprintf("%#v", request)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
