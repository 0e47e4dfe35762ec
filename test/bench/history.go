package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
)

const (
	historyMessages = 10_001 // ten thousand and the prompt
	historyBytes    = 10 << 20
	continuations   = 100
)

// benchModel is the model of the conversation; its window holds all of it.
var benchModel = provider.Model{
	Provider: "bench", API: provider.APIAnthropicMessages, ID: "bench", ContextWindow: 20_000_000, MaxTokens: 64_000, Thinking: provider.ThinkingNone,
}

// conversation makes n messages of about size bytes together: prompts, replies that call a tool, results, replies. Its
// texts do not repeat, so that no comparison ends early and nothing is equal by chance.
func conversation(n, size int) []message.Message {
	random := rand.New(rand.NewPCG(1, 2))
	each := size / n
	history := make([]message.Message, 0, n)
	assistant := func(blocks ...message.Block) message.Message {
		return message.Message{
			Role: message.RoleAssistant, Content: message.Blocks(blocks...), Provider: benchModel.Provider, API: string(benchModel.API),
			Model: benchModel.ID, StopReason: message.StopStop, Usage: &message.Usage{Input: count(int64(n)), Output: count(100)},
		}
	}
	for i := range n {
		id := fmt.Sprintf("toolu_%08d", i/4)
		switch i % 4 {
		case 0:
			history = append(history, message.Message{Role: message.RoleUser, Content: message.Text(prose(random, each))})
		case 1:
			arguments, err := json.Marshal(map[string]string{"path": "docs/page.md", "content": prose(random, each-100)})
			if err != nil {
				panic(err) // a map of strings always has a JSON form
			}
			m := assistant(message.Block{Type: message.BlockText, Text: "I will look."},
				message.Block{Type: message.BlockToolCall, ID: id, Name: "write", Arguments: arguments})
			m.StopReason = message.StopToolUse
			history = append(history, m)
		case 2:
			history = append(history, message.Message{Role: message.RoleToolResult, ToolCallID: id, ToolName: "write", Content: message.Text(prose(random, each))})
		case 3:
			history = append(history, assistant(message.Block{Type: message.BlockText, Text: prose(random, each)}))
		}
	}
	return history
}

func count(n int64) *int64 { return &n }

// requestOf projects a history and measures the request, as the agent loop does for every model call.
func requestOf(p *projection.Projector, tokens *budget.Cache, history []message.Message) error {
	result, err := p.Project(projection.Input{
		Model: benchModel, History: history, System: []projection.Section{{Name: "project", Text: "Be brief."}},
	})
	if err != nil {
		return err
	}
	measured, err := budget.Measure(budget.Request{System: result.System, Messages: result.Messages, Tools: result.Tools},
		budget.Options{Model: benchModel}, tokens)
	if err != nil {
		return err
	}
	if len(result.Messages) != len(history) || measured.MessageTokens == 0 {
		return fmt.Errorf("projected %d of %d messages, %d tokens", len(result.Messages), len(history), measured.MessageTokens)
	}
	return nil
}

// measureHistory measures a run's first request over a long history, and the requests that follow it.
func measureHistory(ctx context.Context, c config, say func(string, ...any)) ([]Figure, error) {
	all := conversation(historyMessages+2*continuations, historyBytes+2*continuations*historyBytes/historyMessages)
	var anew, added []float64
	for range 3 * c.count {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, tokens := new(projection.Projector), new(budget.Cache)
		runtime.GC() // what earlier samples left is not this one's to collect
		first, err := elapsed(func() error { return requestOf(p, tokens, all[:historyMessages]) })
		if err != nil {
			return nil, err
		}
		anew = append(anew, first)
		var each []float64
		for i := range continuations {
			next, err := elapsed(func() error { return requestOf(p, tokens, all[:historyMessages+2*(i+1)]) })
			if err != nil {
				return nil, err
			}
			each = append(each, next)
		}
		added = append(added, median(each))
	}
	say("anew %.1f ms, continued %.2f ms", median(anew), median(added))
	return []Figure{
		figure("history", "project and measure 10,000 messages of 10 MB", "ms", anew...).atMost(60),
		figure("history", "the same with 2 messages added", "ms", added...).atMost(2),
	}, nil
}

// elapsed returns how many milliseconds work took.
func elapsed(work func() error) (float64, error) {
	begun := time.Now()
	err := work()
	return float64(time.Since(begun).Microseconds()) / 1000, err
}
