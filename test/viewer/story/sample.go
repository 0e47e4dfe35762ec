package story

import (
	"context"
	"fmt"

	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/tool"
)

// Sample is a session with two runs: one with reasoning, a tool, an MCP tool whose arguments hold a credential and a
// final answer; and one whose first request fails at the provider and is answered at the second try.
func Sample(ctx context.Context) (*Story, error) {
	s := New()
	sections := []projection.Section{{Name: "role", Text: "You are a careful assistant."}, {Name: "project", Text: "Be brief."}}
	lookup := Result("42", "calculator")
	lookup.Details = []byte(`{"structured":{"sum":42,"api_key":"sk-live-123456"}}`)
	_, err := s.Do(ctx, Run{
		Prompt: "How much is 40 + 2?", Sections: sections,
		Tools:   []tool.Definition{Tool("note", ""), Tool("calculator_add", "calculator")},
		Results: map[string]tool.Result{"note": Result("noted", ""), "calculator_add": lookup},
		Replies: []Reply{
			Calls("note", `{"text":"adding"}`, "calculator_add", `{"a":40,"b":2,"password":"hunter2","url":"https://user:pass@example.com/x"}`),
			Says("The tool says 42.", "It is 42."),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("first run: %w", err)
	}
	_, err = s.Do(ctx, Run{
		Prompt: "Thank you!", Sections: sections,
		Replies: []Reply{Fails(provider.ClassOverloaded, "You are"), Unreported(Says("", "You are welcome."))},
	})
	if err != nil {
		return nil, fmt.Errorf("second run: %w", err)
	}
	return s, nil
}
