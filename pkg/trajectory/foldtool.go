package trajectory

import (
	"github.com/agentloop/agentloop/pkg/legacy"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// text merges the increments of one response, or of one execution of a tool. They never merge across responses, runs or
// inputs. Only reasoning is listed: what a response says is shown from its complete form alone.
func (b *Builder) text(s *stream, f fact) {
	event := f.event()
	key := textKey{kind: event.Type, request: f.request(), response: event.Evidence.ResponseID}
	if event.Type == runevent.TypeToolOutput {
		key.call, key.attempt = event.CallID, event.Attempt
	}
	if f.file != nil && (f.file.Kind == legacy.KindSegments || key.response == "" && key.request.request == "") {
		key.line = f.head.Sequence
	}
	size := sizeOf(len(event.Text), event.TextRef)
	ended := f.at.at
	if end := event.Evidence.EndedAt; end != nil {
		ended = max(ended, timeOf(*end))
	}
	if at, ok := s.texts[key]; ok {
		n := b.join(at, f)
		n.Bytes += size
		n.EndedAt = max(n.EndedAt, ended)
		return
	}
	n := b.node(s, f, TypeReasoning)
	n.Status, n.Bytes = StatusRunning, size
	if ended > n.StartedAt {
		n.EndedAt = ended
	}
	switch event.Type {
	case runevent.TypeBody:
		n.Type, n.Hidden = TypeLifecycle, true
	case runevent.TypeToolOutput:
		n.Type, n.Hidden, n.Status = TypeLifecycle, true, ""
		n.ToolCallID, n.Title = event.CallID, event.Name
	default:
		n.model(b.runs[f.run()])
	}
	if input, ok := s.inputs[key.request]; ok {
		n.InputID = b.nodes[input].ID
	}
	at := b.place(n)
	s.texts[key] = at
	if n.Status == StatusRunning {
		b.opened(f, at)
	}
}

// tool merges the records of one call: its declaration, its executions, the evidence of the exchange and its result.
func (b *Builder) tool(s *stream, f fact) {
	event, key := f.event(), f.tool()
	at, known := s.tools.find(key)
	if !known {
		at = b.newTool(s, f)
		s.tools.add(key, at)
		b.opened(f, at)
	} else {
		b.join(at, f)
	}
	n := b.edit(at, f.head)
	if event.Nested > 0 { // it belongs to the call, and says nothing of the call itself
		return
	}
	if event.Server != "" {
		n.Type, n.Server = TypeMCP, event.Server
	}
	switch event.Type {
	case runevent.TypeToolCall:
		n.Bytes += sizeOf(len(event.Arguments), event.ArgumentsRef)
		if b.runs[f.run()] != nil {
			b.editRun(f.run(), f.head).ToolCalls++
		}
	case runevent.TypeToolStarted:
		n.toolStarted(f)
	case runevent.TypeToolUnknown:
		n.Status, n.EndedAt = StatusUnknown, f.at.at
	case runevent.TypeToolResult:
		n.Bytes += sizeOf(len(event.Body), event.Ref)
		n.EndedAt = f.at.at
		if event.Ref != nil {
			s.objects.add(event.Ref.Digest, at)
		}
		switch {
		case n.Status == StatusUnknown:
		case event.IsError:
			n.Status = StatusError
		default:
			n.Status = StatusCompleted
		}
	}
}

func (b *Builder) newTool(s *stream, f fact) int {
	event := f.event()
	n := b.node(s, f, TypeTool)
	n.Title, n.ToolCallID, n.Status, n.ResponseID = event.Name, event.CallID, StatusDeclared, ""
	if input, ok := s.inputs[f.request()]; ok {
		n.InputID = b.nodes[input].ID
	}
	return b.place(n)
}

// toolStarted moves the beginning of a tool's bar to its first execution.
func (n *node) toolStarted(f fact) {
	attempt := max(f.event().Attempt, 1)
	if attempt == 1 && f.at.at != 0 {
		n.StartedAt = f.at.at
	}
	if attempt > 1 {
		n.Attempts = attempt
	}
	n.Status = StatusRunning
}
