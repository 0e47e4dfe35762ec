package main

import (
	"context"
	"math"
	"slices"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/budget/o200k"
	"github.com/agentloop/agentloop/test/bench/corpus"
)

// measureTokens compares the estimators with the counts of the o200k vocabulary, sample by sample.
func measureTokens(ctx context.Context, c config, say func(string, ...any)) ([]Figure, error) {
	samples, err := corpus.Load(ctx, c.load.root)
	if err != nil {
		return nil, err
	}
	say("counting %d samples", len(samples))
	counter := o200k.New()
	kinds := []corpus.Kind{}
	counted := make([]float64, len(samples))
	for i, sample := range samples {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		counted[i] = float64(counter.Text(sample.Text))
		if !slices.Contains(kinds, sample.Kind) {
			kinds = append(kinds, sample.Kind)
		}
	}
	var figures []Figure
	for _, estimator := range []budget.Estimator{budget.Heuristic, budget.Scan} {
		ratios := map[corpus.Kind][]float64{}
		var all []float64
		for i, sample := range samples {
			ratio := math.Round(1000*float64(estimator.Text(sample.Text))/counted[i]) / 1000
			ratios[sample.Kind] = append(ratios[sample.Kind], ratio)
			all = append(all, ratio)
		}
		for _, kind := range kinds {
			figures = append(figures, figure("tokens", estimator.Name()+", "+string(kind), "of o200k", ratios[kind]...))
		}
		low := figure("tokens", estimator.Name()+", all, 5th percentile", "of o200k", percentile(all, 5))
		mid := figure("tokens", estimator.Name()+", all, median", "of o200k", percentile(all, 50))
		high := figure("tokens", estimator.Name()+", all, 95th percentile", "of o200k", percentile(all, 95))
		if estimator == budget.Scan {
			low, mid, high = low.atLeast(0.8), mid.atLeast(0.9), high.atMost(1.3)
		}
		figures = append(figures, low, mid, high)
	}
	return figures, nil
}

// percentile returns the sample below which p of a hundred lie.
func percentile(samples []float64, p int) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}
