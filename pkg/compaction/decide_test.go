package compaction

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/provider"
)

// measured is the budget of an input of so many tokens for a window of 32,000 and a ceiling of 4096: the limit is 26304.
func measured(t *testing.T, tokens int64) budget.ContextBudget {
	t.Helper()
	b, err := budget.Assess(provider.Model{ContextWindow: 32_000, MaxTokens: 4096}, 4096, budget.Counts{Messages: tokens})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestKeepRecent(t *testing.T) {
	cases := map[string]struct{ window, want int64 }{
		"a fifth of the window":      {32_000, 6400},
		"rounded down":               {1_289, 257},
		"never less than 256":        {1_000, 256},
		"exactly the lower bound":    {1_280, 256},
		"exactly the upper bound":    {100_000, 20_000},
		"never more than 20000":      {1_000_000, 20_000},
		"the largest window":         {budget.MaxTokenCount, 20_000},
		"the smallest window":        {1, 256},
		"just below twenty thousand": {99_999, 19_999},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := KeepRecent(tc.window); got != tc.want {
				t.Errorf("keep %d, want %d", got, tc.want)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	cases := map[string]struct {
		tokens  int64
		counter int
		trigger Trigger
		want    Verdict
	}{
		"a request that is not under pressure goes":                 {tokens: 23_673, want: Verdict{Action: Dispatch}},
		"and starts the count anew":                                 {tokens: 23_673, counter: 2, want: Verdict{Action: Dispatch}},
		"the first pass starts at nine tenths of the limit":         {tokens: 23_674, want: Verdict{Action: Compact, Keep: 6400, Counter: 1}},
		"the first pass keeps the newest turns over the limit too":  {tokens: 99_999, want: Verdict{Action: Compact, Keep: 6400, Counter: 1}},
		"after one pass a request that fits goes, under pressure":   {tokens: 26_304, counter: 1, want: Verdict{Action: Dispatch, Counter: 1}},
		"after one pass a request that does not fit gets another":   {tokens: 26_305, counter: 1, want: Verdict{Action: Compact, Pass: 1, Counter: 2}},
		"after two passes a request that fits goes":                 {tokens: 26_304, counter: 2, want: Verdict{Action: Dispatch, Counter: 2}},
		"after two passes a request that does not fit is refused":   {tokens: 26_305, counter: 2, want: Verdict{Action: Refuse, Counter: 2}},
		"no count is ever large enough for a third pass":            {tokens: 26_305, counter: math.MaxInt, want: Verdict{Action: Refuse, Counter: math.MaxInt}},
		"with automatic compaction off a request that fits goes":    {tokens: 26_304, trigger: Trigger{Off: true}, want: Verdict{Action: Dispatch}},
		"with automatic compaction off any other is refused":        {tokens: 26_305, trigger: Trigger{Off: true}, want: Verdict{Action: Refuse}},
		"half the limit as trigger, just below":                     {tokens: 13_151, trigger: Trigger{Percent: 50}, want: Verdict{Action: Dispatch}},
		"half the limit as trigger":                                 {tokens: 13_152, trigger: Trigger{Percent: 50}, want: Verdict{Action: Compact, Keep: 6400, Counter: 1}},
		"the whole limit as trigger lets everything below it pass":  {tokens: 26_303, trigger: Trigger{Percent: 100}, want: Verdict{Action: Dispatch}},
		"a trigger above the limit does not let too much through":   {tokens: 26_305, trigger: Trigger{Percent: 200}, want: Verdict{Action: Compact, Keep: 6400, Counter: 1}},
		"the largest estimate there is does not overflow the check": {tokens: budget.MaxTokenCount, want: Verdict{Action: Compact, Keep: 6400, Counter: 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Decide(measured(t, tc.tokens), tc.counter, tc.trigger)
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreUnexported(Verdict{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestNothing(t *testing.T) {
	cases := map[string]struct {
		verdict Verdict
		want    Verdict
	}{
		"nothing in the first pass and it fits: it goes, and the pass was free": {
			Decide(measured(t, 26_304), 0, Trigger{}), Verdict{Action: Dispatch}},
		"nothing in the first pass and it does not fit: the emergency pass": {
			Decide(measured(t, 26_305), 0, Trigger{}), Verdict{Action: Compact, Pass: 1, Counter: 2}},
		"nothing in the emergency pass: refused": {
			Decide(measured(t, 26_305), 1, Trigger{}), Verdict{Action: Refuse, Counter: 1}},
		"nothing in both passes: refused": {
			Decide(measured(t, 26_305), 0, Trigger{}).Nothing(), Verdict{Action: Refuse}},
		"nothing in a recovery: the emergency pass": {
			Recover(measured(t, 10), false), Verdict{Action: Compact, Pass: 1, Counter: 2}},
		"nothing in a recovery's emergency pass: refused": {
			Recover(measured(t, 10), false).Nothing(), Verdict{Action: Refuse}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.verdict.Nothing(), cmpopts.IgnoreUnexported(Verdict{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestRecover: a provider's own overflow is answered once, however small the request was estimated.
func TestRecover(t *testing.T) {
	first, second := Recover(measured(t, 10), false), Recover(measured(t, 10), true)
	if first.Action != Compact || first.Pass != 0 || first.Keep != 6400 {
		t.Errorf("first: %+v", first)
	}
	if second.Action != Refuse {
		t.Errorf("second: %+v", second)
	}
}

// TestSummariesThatNeverShrinkEnd: a summarizer that returns as much as it was given is asked twice and never again,
// however long the run goes on.
func TestSummariesThatNeverShrinkEnd(t *testing.T) {
	for name, tokens := range map[string]int64{"a request that fits": 26_000, "a request that does not": 30_000} {
		t.Run(name, func(t *testing.T) {
			counter, passes := 0, 0
			for range 100 {
				v := Decide(measured(t, tokens), counter, Trigger{})
				counter = v.Counter
				if v.Action == Compact {
					passes++ // its candidate is not smaller, so the next request has the same size
				}
			}
			if want := map[bool]int{true: 1, false: 2}[tokens < 26_304]; passes != want {
				t.Errorf("%d passes, want %d", passes, want)
			}
		})
	}
}
