package main

import (
	"context"
	"flag"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/budget/o200k"
)

// measureEstimate measures how fast text is estimated, and what that allocates.
func measureEstimate(ctx context.Context, c config, say func(string, ...any)) ([]Figure, error) {
	const size = 1 << 20
	fill := func(s string) string { return strings.Repeat(s, size/len(s)+1)[:size] }
	texts := []struct {
		name, text string
		target     float64
	}{
		{"ASCII", fill("The quick brown fox jumps over the lazy dog. "), 500},
		{"source code", fill("\tif err := s.check(r); err != nil {\n\t\thttp.Error(w, \"not allowed: \"+err.Error(), 403)\n\t}\n"), 500},
		{"mixed", strings.ToValidUTF8(fill("Größe naïve — 价格是 42 € und 😀 plus some plain English words, "), ""), 200},
		{"Chinese", strings.ToValidUTF8(fill("请阅读配置文件并解释项目结构，然后运行测试。"), ""), 0},
	}
	if err := benchtime("200ms"); err != nil {
		return nil, err
	}
	var figures []Figure
	for _, e := range []struct {
		estimator budget.Estimator
		target    float64 // for all texts but Chinese; 0 for the texts' own
	}{{budget.Heuristic, 0}, {budget.Scan, 300}, {o200k.New(), -1}} {
		allocations := 0.0
		for _, t := range texts {
			target := t.target
			if e.target != 0 && target > 0 {
				target = e.target
			}
			f, allocated, err := measureText(ctx, c.count, e.estimator, t.text)
			if err != nil {
				return nil, err
			}
			f.Name = e.estimator.Name() + ", " + t.name
			say("%s: %.0f MB/s", f.Name, f.Value)
			if target > 0 {
				f = f.atLeast(target)
			}
			figures, allocations = append(figures, f), max(allocations, allocated)
		}
		f := figure("estimate", e.estimator.Name()+", allocations", "per text", allocations)
		if e.target >= 0 {
			f = f.atMost(0)
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// measureText returns the speed of an estimator on a text, and its allocations.
func measureText(ctx context.Context, count int, estimator budget.Estimator, text string) (Figure, float64, error) {
	var speeds []float64
	allocations := 0.0
	for range count {
		if err := ctx.Err(); err != nil {
			return Figure{}, 0, err
		}
		r := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if estimator.Text(text) == 0 {
					b.Fatal("no tokens")
				}
			}
		})
		speeds = append(speeds, float64(len(text))*float64(r.N)/r.T.Seconds()/1e6)
		allocations = max(allocations, float64(r.AllocsPerOp()))
	}
	return figure("estimate", "", "MB/s", speeds...), allocations, nil
}

// benchtime sets how long testing.Benchmark measures; the flag exists only after testing.Init.
func benchtime(d string) error {
	testing.Init()
	return flag.CommandLine.Set("test.benchtime", d)
}
