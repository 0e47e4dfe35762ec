package budget

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

// TestAppendingNeverMakesAnEstimateSmaller: for every estimator, with and without a cache.
func TestAppendingNeverMakesAnEstimateSmaller(t *testing.T) {
	for _, estimator := range []Estimator{Heuristic, Scan} {
		t.Run(estimator.Name(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(21, 22))
			for range 200 {
				checkGrowth(t, r, estimator)
			}
		})
	}
}

func checkGrowth(t *testing.T, r *rand.Rand, estimator Estimator) {
	t.Helper()
	opt := Options{Model: bigModel().Model, Estimator: estimator}
	request := Request{System: randomText(r)}
	cache := new(Cache)
	last := int64(-1)
	for range 8 {
		before, err := Measure(request, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		cached, err := Measure(request, opt, cache)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, cached); diff != "" {
			t.Fatalf("with a cache: -without +with:\n%s", diff)
		}
		if before.EstimatedInputTokens < last+MessageOverhead && last >= 0 {
			t.Fatalf("%d tokens after %d, the envelope alone has %d", before.EstimatedInputTokens, last, MessageOverhead)
		}
		last = before.EstimatedInputTokens
		request.Messages = append(slices.Clone(request.Messages), randomMessage(r))
	}
}

// extreme draws counts around every edge there is.
func extreme(r *rand.Rand) int64 {
	edges := []int64{-1 << 63, -1, 0, 1, 2, 16, 1023, 1024, 4096, 81_919, 81_920, 81_921, 1 << 31, MaxTokenCount - 1, MaxTokenCount, MaxTokenCount + 1, 1<<63 - 1}
	n := edges[r.IntN(len(edges))]
	if d := r.Int64N(3) - 1; n > 1-1<<62 && n < 1<<62 {
		n += d
	}
	return n
}

// TestAssessIsExact holds every budget against arithmetic without bounds.
func TestAssessIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for range 20_000 {
		checkAssess(t, extreme(r), extreme(r), extreme(r), Counts{System: extreme(r), Messages: extreme(r), Tools: extreme(r)})
	}
}

func FuzzAssess(f *testing.F) {
	f.Add(int64(32_000), int64(4096), int64(4096), int64(0), int64(26_304), int64(0))
	f.Add(int64(MaxTokenCount), int64(MaxTokenCount), int64(1), int64(MaxTokenCount), int64(MaxTokenCount), int64(MaxTokenCount))
	f.Fuzz(func(t *testing.T, window, ceiling, reserve, system, messages, tools int64) {
		checkAssess(t, window, ceiling, reserve, Counts{System: system, Messages: messages, Tools: tools})
	})
}

func checkAssess(t *testing.T, window, ceiling, reserve int64, counts Counts) {
	t.Helper()
	safe := func(low int64, values ...int64) bool {
		return !slices.ContainsFunc(values, func(n int64) bool { return n < low || n > MaxTokenCount })
	}
	sum := new(big.Int)
	for _, n := range []int64{counts.System, counts.Messages, counts.Tools} {
		sum.Add(sum, big.NewInt(n))
	}
	good := safe(1, window, ceiling, reserve) && reserve <= ceiling && safe(0, counts.System, counts.Messages, counts.Tools) &&
		sum.Cmp(big.NewInt(MaxTokenCount)) <= 0
	b, err := Assess(provider.Model{ContextWindow: window, MaxTokens: ceiling}, reserve, counts)
	if (err == nil) != good {
		t.Fatalf("window %d, ceiling %d, reserve %d, %+v: error %v", window, ceiling, reserve, counts, err)
	}
	if err != nil {
		return
	}
	safety := new(big.Int).Div(new(big.Int).Add(big.NewInt(window), big.NewInt(19)), big.NewInt(20))
	if safety.Cmp(big.NewInt(4096)) > 0 {
		safety.SetInt64(4096)
	}
	limit := new(big.Int).Sub(new(big.Int).Sub(big.NewInt(window), big.NewInt(reserve)), safety)
	remaining := new(big.Int).Sub(limit, sum)
	pressed := new(big.Int).Mul(sum, big.NewInt(10))
	if limit.Sign() < 0 {
		limit.SetInt64(0)
	}
	nine := new(big.Int).Mul(limit, big.NewInt(9))
	want := ContextBudget{ContextWindow: window, SystemTokens: counts.System, MessageTokens: counts.Messages, ToolTokens: counts.Tools,
		EstimatedInputTokens: sum.Int64(), ReservedOutputTokens: reserve, SafetyTokens: safety.Int64(), InputLimit: limit.Int64(),
		RemainingInputTokens: remaining.Int64(), Fits: remaining.Sign() >= 0}
	if diff := cmp.Diff(want, b); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	if got := b.Pressed(); got != (pressed.Cmp(nine) >= 0) {
		t.Fatalf("pressed %v for %d of %d", got, b.EstimatedInputTokens, b.InputLimit)
	}
}

// TestACandidateIsMeasuredWithTheSameCache: a summary in the place of the beginning gives what measuring anew gives.
func TestACandidateIsMeasuredWithTheSameCache(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	for range 200 {
		var messages []message.Message
		for range 1 + r.IntN(12) {
			messages = append(messages, randomMessage(r))
		}
		cache := new(Cache)
		opt := Options{Model: bigModel().Model}
		if _, err := Measure(Request{Messages: messages}, opt, cache); err != nil {
			t.Fatal(err)
		}
		summary := message.Message{Role: message.RoleUser, Content: message.Text("summary " + randomText(r))}
		compacted := Request{Messages: append([]message.Message{summary}, messages[r.IntN(len(messages)):]...)}
		with, err := Measure(compacted, opt, cache)
		if err != nil {
			t.Fatal(err)
		}
		without, err := Measure(compacted, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(without, with); diff != "" {
			t.Fatalf("-without +with:\n%s", diff)
		}
	}
}
