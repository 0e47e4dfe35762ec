package story

import (
	"context"
	"fmt"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/tool"
)

// Delegated is a session whose first run delegates a task to another agent in a tool call, which that agent answers in a run
// of its own; usage has cached tokens and a price.
func Delegated(ctx context.Context) (*Story, error) {
	s := New()
	sections := []projection.Section{{Name: "role", Text: "You plan the work."}}
	_, err := s.Do(ctx, Run{
		Prompt: "What is the weather like?", Sections: sections,
		Tools: []tool.Definition{Tool("delegate", "")}, Results: map[string]tool.Result{"delegate": Result("Sunny.", "")},
		Replies: []Reply{
			Priced(Calls("delegate", `{"task":"look outside","token":"planted-in-arguments"}`), 1000, 50, "0.0125"), Priced(Says("So it is.", "It is sunny."), 1200, 0, "0.0075"),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("first run: %w", err)
	}
	evidence := runevent.Evidence{AgentID: runevent.MainAgent, AgentRunID: "00000000-0000-4000-8000-000000000001", RequestExecutionID: "exec-1"}
	_, err = s.Append(ctx, Stream(runevent.MainAgent), runevent.Event{
		Type: runevent.TypeSubagentStarted, Agent: "weather", CallID: "resp-2-call-0", RunName: "run-2", Evidence: evidence,
	})
	if err != nil {
		return nil, fmt.Errorf("delegation: %w", err)
	}
	_, err = s.Do(ctx, Run{Agent: "weather", Prompt: "look outside", Sections: sections, Replies: []Reply{Fails(provider.ClassOverloaded, "Su"), Priced(Says("", "Sunny."), 10, 0, "0.001")}})
	if err != nil {
		return nil, fmt.Errorf("second run: %w", err)
	}
	return s, nil
}

// Priced is a reply whose provider reports cached tokens and whose model has a price.
func Priced(reply Reply, cacheRead, cacheWrite int64, cost string) Reply {
	return func(s *Story, deltas func(provider.Delta)) (provider.Response, error) {
		response, err := reply(s, deltas)
		if u := response.Message.Usage; u != nil {
			priced := message.Usage{Input: u.Input, Output: u.Output, CacheRead: &cacheRead, Cost: cost}
			if cacheWrite > 0 {
				priced.CacheWrite = &cacheWrite
			}
			response.Message.Usage = &priced
		}
		return response, err
	}
}
