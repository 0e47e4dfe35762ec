package budget

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

func usage(input, cacheRead, cacheWrite int64) *message.Usage {
	return &message.Usage{Input: &input, CacheRead: &cacheRead, CacheWrite: &cacheWrite}
}

func TestObserve(t *testing.T) {
	estimated := func(n int64) ContextBudget { return ContextBudget{EstimatedInputTokens: n} }
	known := Calibration{Ratio: 1.5, Observations: 4, Estimator: "heuristic"}
	scanned := estimated(1000)
	scanned.Estimator = "scan"
	only := func(n int64) *message.Usage { return &message.Usage{Output: &n, CacheRead: &n} }
	input := int64(1250)
	cases := map[string]struct {
		before Calibration
		budget ContextBudget
		usage  *message.Usage
		want   Calibration
	}{
		"the first observation is the ratio":         {Calibration{}, estimated(1000), usage(1200, 0, 0), Calibration{1.2, 1, "heuristic"}},
		"cached and newly cached tokens count":       {Calibration{}, estimated(1000), usage(200, 800, 400), Calibration{1.4, 1, "heuristic"}},
		"a provider without a cache reports enough":  {Calibration{}, estimated(1000), &message.Usage{Input: &input}, Calibration{1.25, 1, "heuristic"}},
		"a higher ratio counts half":                 {known, estimated(1000), usage(2000, 0, 0), Calibration{1.75, 5, "heuristic"}},
		"a lower ratio counts an eighth":             {known, estimated(1000), usage(700, 0, 0), Calibration{1.4, 5, "heuristic"}},
		"no usage changes nothing":                   {known, estimated(1000), nil, known},
		"usage without the input changes nothing":    {known, estimated(1000), only(900), known},
		"an input of zero changes nothing":           {known, estimated(1000), usage(0, 0, 0), known},
		"an estimate of zero changes nothing":        {known, estimated(0), usage(900, 0, 0), known},
		"a ratio is at most 4":                       {Calibration{}, estimated(10), usage(9000, 0, 0), Calibration{4, 1, "heuristic"}},
		"a ratio is at least a half":                 {Calibration{}, estimated(9000), usage(10, 0, 0), Calibration{0.5, 1, "heuristic"}},
		"another estimator starts anew":              {known, scanned, usage(1100, 0, 0), Calibration{1.1, 1, "scan"}},
		"a stored ratio that is none counts as 1":    {Calibration{math.NaN(), 3, "heuristic"}, estimated(1000), usage(2000, 0, 0), Calibration{1.5, 4, "heuristic"}},
		"a stored ratio out of bounds is brought in": {Calibration{99, 3, "heuristic"}, estimated(1000), usage(4000, 0, 0), Calibration{4, 4, "heuristic"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := tc.before.Observe(tc.budget, tc.usage)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestCalibratedBudget: the calibrated count decides and the estimated fields stay as they were.
func TestCalibratedBudget(t *testing.T) {
	raw, err := Measure(exactly(20_000), Options{Model: small()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		calibration *Calibration
		tokens      int64
		set         bool
		allowed     bool
		pressed     bool
		room        int64
	}{
		"without calibration nothing is added":         {nil, 20_000, false, true, false, 26_304},
		"nothing learnt yet":                           {&Calibration{}, 20_000, true, true, false, 26_304},
		"a ratio of 1.2 brings pressure":               {&Calibration{1.2, 9, "heuristic"}, 24_000, true, true, true, 21_920},
		"a ratio of 1.4 forbids the request":           {&Calibration{1.4, 9, "heuristic"}, 28_000, true, false, true, 18_788},
		"a ratio below 1 allows no more than before":   {&Calibration{0.5, 9, "heuristic"}, 20_000, true, true, false, 26_304},
		"the ratio of another estimator is not used":   {&Calibration{2, 9, "scan"}, 20_000, true, true, false, 26_304},
		"a ratio out of bounds is brought into bounds": {&Calibration{1e9, 9, "heuristic"}, 80_000, true, false, true, 6576},
		"the count is rounded up":                      {&Calibration{1.00001, 9, "heuristic"}, 20_001, true, true, false, 26_302},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Measure(exactly(20_000), Options{Model: small(), Calibration: tc.calibration}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got.InputTokens() != tc.tokens || (got.CalibratedFits != nil) != tc.set || got.Allowed() != tc.allowed ||
				got.Pressed() != tc.pressed || got.MessageRoom() != tc.room || (got.Err() == nil) != tc.allowed {
				t.Errorf("tokens %d, allowed %v, pressed %v, room %d, error %v", got.InputTokens(), got.Allowed(), got.Pressed(), got.MessageRoom(), got.Err())
			}
			got.CalibratedFits, got.CalibratedInputTokens = nil, nil
			if diff := cmp.Diff(raw, got); diff != "" {
				t.Errorf("estimated fields changed: -raw +calibrated:\n%s", diff)
			}
		})
	}
}

func TestCalibratedFieldsAreCopiedAndNamed(t *testing.T) {
	b, err := Measure(exactly(100), Options{Model: small(), Estimator: Scan, Calibration: &Calibration{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b.Estimator != "scan" {
		t.Errorf("estimator %q", b.Estimator)
	}
	copied := b.Clone()
	*copied.CalibratedFits, *copied.CalibratedInputTokens = false, 9
	if !*b.CalibratedFits || *b.CalibratedInputTokens != b.EstimatedInputTokens {
		t.Error("the clone shares its calibrated fields")
	}
	raw, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"estimator", "calibratedInputTokens", "calibratedFits"} {
		if _, ok := fields[key]; !ok {
			t.Errorf("no %s in %s", key, raw)
		}
	}
}

// TestCalibrationCannotOverflow: the largest counts there are stay safe integers.
func TestCalibrationCannotOverflow(t *testing.T) {
	for _, estimate := range []int64{1, MaxTokenCount / 4, MaxTokenCount / 2, MaxTokenCount} {
		model := provider.Model{ContextWindow: MaxTokenCount, MaxTokens: MaxTokenCount}
		b, err := Assess(model, MaxTokenCount, Counts{Messages: estimate})
		if err != nil {
			t.Fatal(err)
		}
		got := Calibration{4, 1, "heuristic"}.apply(b)
		if n := got.InputTokens(); n < estimate || n > MaxTokenCount || got.MessageRoom() < 0 {
			t.Errorf("estimate %d: %d calibrated tokens, room %d", estimate, n, got.MessageRoom())
		}
	}
}

// TestCalibratedVerdictsHold: a model whose real counts are a steady multiple of the estimate, with some noise, never
// takes a request for too long that was allowed after five observations.
func TestCalibratedVerdictsHold(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	model := small()
	for _, truth := range []float64{0.6, 0.9, 1.3, 1.8, 2.7} {
		calibration := Calibration{}
		for request := range 600 {
			estimate := 1000 + r.Int64N(30_000)
			b, err := Assess(model, 4096, Counts{Messages: estimate})
			if err != nil {
				t.Fatal(err)
			}
			b = calibration.apply(b)
			real := int64(float64(estimate) * truth * (0.97 + 0.06*r.Float64()))
			if request >= 5 && b.Allowed() && real > model.ContextWindow-4096 {
				t.Fatalf("truth %.1f, request %d: allowed with %d estimated tokens, really %d", truth, request, estimate, real)
			}
			if b.Allowed() {
				calibration = calibration.Observe(b, usage(real/2, real-real/2, 0))
			}
		}
		if got := calibration.Factor("heuristic"); math.Abs(got-max(1, truth)) > 0.1 {
			t.Errorf("truth %.1f, factor %.2f", truth, got)
		}
	}
}

func TestExceededErrorNamesThePartThatIsTooLarge(t *testing.T) {
	cases := map[string]struct {
		counts Counts
		want   string
	}{
		"the conversation":            {Counts{System: 10, Messages: 90_000}, "; nothing was sent"},
		"the system prompt":           {Counts{System: 26_305, Messages: 17}, "; the system prompt alone takes 26305; nothing was sent"},
		"the tools":                   {Counts{Tools: 26_305, Messages: 17}, "; the tool definitions alone take 26305; nothing was sent"},
		"both together":               {Counts{System: 20_000, Tools: 20_000, Messages: 17}, "; the system prompt and the tool definitions alone take 40000; nothing was sent"},
		"a part that is at the limit": {Counts{System: 26_304, Messages: 17}, "safety 1600); compact the session or use a larger model; nothing was sent"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b, err := Assess(small(), 4096, tc.counts)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Err(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
