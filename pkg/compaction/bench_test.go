package compaction

import (
	"strconv"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

// BenchmarkPlan plans a compaction of 10,000 messages and 10 MB, and makes its first summary request.
func BenchmarkPlan(b *testing.B) {
	var history []message.Message
	for i := range 2500 {
		id := "c" + strconv.Itoa(i)
		text := strings.Repeat("\tif err := s.check(r); err != nil {\n\t\treturn err\n\t}\n", 50)
		history = append(history, user("turn "+id+text[:1000]), calls(id), result(id, text), said("done"+text[:500]))
	}
	projected := project(b, history, nil)
	model := provider.Model{Provider: "p", API: provider.APIOpenAIChat, ID: "m", ContextWindow: 1_000_000, MaxTokens: 64_000}
	b.Run("Make", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Make(Input{Projected: projected, Keep: 20_000, Rules: AllRules()}); err != nil {
				b.Fatal(err)
			}
		}
	})
	plan, err := Make(Input{Projected: projected, Keep: 20_000, Rules: AllRules()})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("first request", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			progress, err := plan.Begin(Settings{Model: model, Rules: AllRules()})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := progress.Next(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
