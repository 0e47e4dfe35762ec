package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
)

func hasSubagents(h agent.Host) bool { return len(h.Subagents) > 0 }

// delegate declares the tool with the subagents that the run has.
func delegate(h agent.Host) tool.Definition {
	var description strings.Builder
	description.WriteString("Gives a task to a subagent, which works on it in a conversation of its own and answers with a text. " +
		"It knows nothing of this conversation: the task says all that it needs. Several calls in one response work side by side. The subagents:")
	names := make([]string, 0, len(h.Subagents))
	for _, s := range h.Subagents {
		names = append(names, s.Name)
		fmt.Fprintf(&description, "\n- %s: %s", s.Name, strings.Join(strings.Fields(s.Description), " "))
	}
	enum, err := json.Marshal(names)
	if err != nil { // strings encode
		panic(err)
	}
	return tool.Definition{Delegates: true, Tool: message.Tool{
		Name: Delegate, Description: description.String(),
		Parameters: fmt.Appendf(nil, `{"type":"object","properties":{"agent":{"type":"string","enum":%s},`+
			`"task":{"type":"string","minLength":1,"description":"what the subagent is to do, and what it has to know"}},`+
			`"required":["agent","task"],"additionalProperties":false}`, enum),
	}}
}

// delegated answers a call that did not come through the engine.
func (s *set) delegated(context.Context, tool.Call) (tool.Result, error) {
	return failed("Tasks are delegated by calling delegate directly."), nil
}
