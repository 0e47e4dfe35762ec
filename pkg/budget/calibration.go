package budget

import (
	"math"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

// The bounds of a ratio: beyond them something else than tokenization is wrong.
const (
	minRatio = 0.5
	maxRatio = 4
)

// How far one observation moves the average. It rises faster than it falls: an estimate that is too low costs a refused
// request, one that is too high an early compaction.
const (
	riseWeight = 0.5
	fallWeight = 0.125
)

// Calibration is what is known of how one model's real input counts relate to the estimates of one estimator. It is a
// value: observing returns the next one. The zero value knows nothing. Keep one for each provider and model.
type Calibration struct {
	// Ratio is the moving average of counted over estimated input tokens, from 0.5 to 4; 0 before the first observation.
	Ratio float64 `json:"ratio"`
	// Observations is how many responses it was learnt from.
	Observations int64 `json:"observations"`
	// Estimator names what made the estimates; another one starts anew.
	Estimator string `json:"estimator"`
}

// Observe returns c with one more response taken into account. b is the budget that the request was sent under, u what
// its provider reported: input, cache reads and cache writes together are what the estimate was for. A response whose
// provider did not report its input, or reported none, changes nothing.
func (c Calibration) Observe(b ContextBudget, u *message.Usage) Calibration {
	counted, ok := provider.ContextTokens(u)
	if !ok || counted <= 0 || b.EstimatedInputTokens <= 0 {
		return c
	}
	seen := clampRatio(float64(counted) / float64(b.EstimatedInputTokens))
	if estimator := estimatorOf(b); c.Observations <= 0 || c.Estimator != estimator {
		return Calibration{Ratio: seen, Observations: 1, Estimator: estimator}
	}
	weight := riseWeight
	if seen < c.Ratio {
		weight = fallWeight
	}
	last := clampRatio(c.Ratio)
	c.Ratio = clampRatio(last + weight*(seen-last))
	c.Observations++
	return c
}

func estimatorOf(b ContextBudget) string {
	if b.Estimator == "" {
		return Heuristic.Name()
	}
	return b.Estimator
}

// clampRatio keeps a ratio in its bounds; what is no number counts as 1.
func clampRatio(ratio float64) float64 {
	if math.IsNaN(ratio) {
		return 1
	}
	return min(maxRatio, max(minRatio, ratio))
}

// Factor is what estimates of the named estimator are multiplied with: the ratio, but never less than 1, since an
// estimate that was too high so far may still be right for the next request.
func (c Calibration) Factor(estimator string) float64 {
	if c.Observations <= 0 || c.Estimator != estimator {
		return 1
	}
	return max(1, clampRatio(c.Ratio))
}

// apply returns b with the calibrated count and verdict beside the estimated ones.
func (c Calibration) apply(b ContextBudget) ContextBudget {
	tokens := b.EstimatedInputTokens
	if factor := c.Factor(estimatorOf(b)); factor > 1 {
		tokens = int64(min(MaxTokenCount, math.Ceil(float64(tokens)*factor)))
	}
	fits := b.ContextWindow-b.ReservedOutputTokens-b.SafetyTokens-tokens >= 0
	b.CalibratedInputTokens, b.CalibratedFits = &tokens, &fits
	return b
}
