package metrics

import (
	"context"
	"encoding/json"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/tool"
)

// toolMetrics are what is told of tool calls. Neither tools nor their servers have labels: whoever makes sessions chooses
// their names.
type toolMetrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newTools(m *Metrics) toolMetrics {
	return toolMetrics{
		calls:    counters(m, "agentloop_tool_calls_total", "Executions of tools: built-in ones, those of tool servers, code, and calls that code made.", "kind", "outcome"),
		duration: histograms(m, "agentloop_tool_call_duration_seconds", "Time that executions of tools took.", callTimes, "kind"),
	}
}

// Tool implements agent.Observer.
func (m *Metrics) Tool(ctx context.Context, call agent.ToolCall) (context.Context, func(agent.ToolAnswer)) {
	begun, kind := m.now(), kindOf(call.Definition)
	return ctx, func(answer agent.ToolAnswer) {
		m.tools.calls.WithLabelValues(kind, toolOutcome(answer)).Inc()
		m.tools.duration.WithLabelValues(kind).Observe(m.now().Sub(begun).Seconds())
	}
}

func kindOf(definition tool.Definition) string {
	switch {
	case len(definition.Nested) > 0:
		return kindCode
	case definition.Server == "":
		return kindBuiltIn
	}
	return kindServer
}

func toolOutcome(answer agent.ToolAnswer) string {
	switch {
	case answer.Err != nil:
		return outcomeCancelled
	case answer.Result.Audit.Outcome != "":
		return among(toolOutcomes, answer.Result.Audit.Outcome)
	case answer.Result.IsError:
		return "toolError"
	}
	return outcomeOK
}

// nested counts a call that code made.
func (m *Metrics) nested(event *runevent.Event) {
	var audit tool.Audit
	if event.Nested == 0 || json.Unmarshal(event.Audit, &audit) != nil {
		return
	}
	m.tools.calls.WithLabelValues(kindNested, among(toolOutcomes, audit.Outcome)).Inc()
	m.tools.duration.WithLabelValues(kindNested).Observe(audit.Duration.Seconds())
}
