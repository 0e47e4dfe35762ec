package o200k

import (
	"strings"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/provider"
)

func TestText(t *testing.T) {
	cases := map[string]struct {
		text string
		want int64
	}{
		"nothing":                     {"", 0},
		"a greeting":                  {"hello world", 2},
		"digits go in threes":         {"1234567", 3},
		"source code":                 {"\tif err != nil {\n\t\treturn err\n\t}\n", 11},
		"Chinese":                     {"配置文件", 2},
		"an invalid byte is U+FFFD":   {"a\xffb", 3},
		"a marker is plain text":      {"<|endoftext|>", 7},
		"no marker spares its reader": {"<|endofprompt|>", 7},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := New().Text(tc.text); got != tc.want {
				t.Errorf("%d tokens, want %d", got, tc.want)
			}
		})
	}
}

// TestLongRuns: a run without a break must not take time that grows with its square.
func TestLongRuns(t *testing.T) {
	for name, text := range map[string]string{
		"letters":     strings.Repeat("a", 100_000),
		"spaces":      strings.Repeat(" ", 100_000),
		"digits":      strings.Repeat("7", 100_000),
		"punctuation": strings.Repeat("=-", 50_000),
		"Chinese":     strings.Repeat("配", 30_000),
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			n := New().Text(text)
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
			if n < 1 || n > int64(len(text)) {
				t.Errorf("%d tokens for %d bytes", n, len(text))
			}
		})
	}
}

func TestMeasureWithIt(t *testing.T) {
	model := provider.Model{Provider: "p", API: provider.APIOpenAIResponses, ID: "m", ContextWindow: 32_000, MaxTokens: 4096}
	got, err := budget.Measure(budget.Request{System: "hello world"}, budget.Options{Model: model, Estimator: New()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Estimator != Name || got.SystemTokens != 2+budget.GroupOverhead {
		t.Errorf("%+v", got)
	}
}

func BenchmarkText(b *testing.B) {
	text := strings.Repeat("func (s *server) handle(w http.ResponseWriter) error {\n\treturn s.check(w)\n}\n", 2000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if New().Text(text) == 0 {
			b.Fatal("no tokens")
		}
	}
}
