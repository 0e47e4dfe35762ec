package main

import (
	"context"
	"flag"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/budget"
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
	allocations := 0.0
	for _, t := range texts {
		var speeds []float64
		for range c.count {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			r := testing.Benchmark(func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if budget.TextTokens(t.text) == 0 {
						b.Fatal("no tokens")
					}
				}
			})
			speeds = append(speeds, float64(len(t.text))*float64(r.N)/r.T.Seconds()/1e6)
			allocations = max(allocations, float64(r.AllocsPerOp()))
		}
		say("%s: %.0f MB/s", t.name, median(speeds))
		f := figure("estimate", t.name, "MB/s", speeds...)
		if t.target > 0 {
			f = f.atLeast(t.target)
		}
		figures = append(figures, f)
	}
	return append(figures, figure("estimate", "allocations", "per text", allocations).atMost(0)), nil
}

// benchtime sets how long testing.Benchmark measures; the flag exists only after testing.Init.
func benchtime(d string) error {
	testing.Init()
	return flag.CommandLine.Set("test.benchtime", d)
}
