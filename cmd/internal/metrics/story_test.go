package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// story is a session whose runs the real engine executes under the metrics.
type story struct {
	t       testing.TB
	metrics *Metrics
	log     runevent.Log
	store   *memstore.Store
	replies []func(provider.Request, func(provider.Delta)) (provider.Response, error)
	tool    func(tool.Call) (tool.Result, error)
	ids     int
}

func newStory(t testing.TB) *story {
	return &story{t: t, metrics: New(), log: memlog.New(), store: memstore.New()}
}

func (s *story) Stream(_ context.Context, request provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
	if err := request.Guard(fmt.Appendf(nil, `{"max_tokens":%d}`, request.MaxTokens)); err != nil {
		return provider.Response{}, &provider.Error{Class: provider.ClassRejected, Err: err}
	}
	next := s.replies[0]
	s.replies = s.replies[1:]
	return next(request, onDelta)
}

func (s *story) Connect(context.Context, *session.ToolSet) (tool.Set, error) { return s, nil }
func (s *story) Close() error                                                { return nil }

func (s *story) Definitions() []tool.Definition {
	return []tool.Definition{{Tool: message.Tool{Name: "srv__add", Parameters: []byte(`{"type":"object"}`)}, Server: "srv"}}
}

func (s *story) Call(_ context.Context, call tool.Call, _ func(string)) (tool.Result, error) {
	return s.tool(call)
}

func count(n int64) *int64 { return &n }

func usage() *message.Usage {
	return &message.Usage{Input: count(700), Output: count(50), CacheRead: count(200), CacheWrite: count(100), Reasoning: count(20)}
}

func says(text string) func(provider.Request, func(provider.Delta)) (provider.Response, error) {
	return func(_ provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
		onDelta(provider.Delta{Kind: provider.DeltaText, Text: text, At: time.Now()})
		return provider.Response{HTTPStatus: 200, Message: message.Message{
			Role: message.RoleAssistant, StopReason: message.StopStop, Usage: usage(), Content: message.Blocks(message.Block{Type: message.BlockText, Text: text}),
		}}, nil
	}
}

func callsTool() func(provider.Request, func(provider.Delta)) (provider.Response, error) {
	return func(provider.Request, func(provider.Delta)) (provider.Response, error) {
		return provider.Response{HTTPStatus: 200, Message: message.Message{
			Role: message.RoleAssistant, StopReason: message.StopToolUse, Usage: usage(),
			Content: message.Blocks(message.Block{Type: message.BlockToolCall, ID: "c1", Name: "srv__add", Arguments: []byte(`{}`)}),
		}}, nil
	}
}

func fails(class provider.Class) func(provider.Request, func(provider.Delta)) (provider.Response, error) {
	return func(provider.Request, func(provider.Delta)) (provider.Response, error) {
		return provider.Response{}, &provider.Error{Class: class, Dispatched: true, Err: errors.New("failed")}
	}
}

func testModel() provider.Model {
	return provider.Model{Provider: "claude", API: provider.APIAnthropicMessages, ID: "sonnet", ContextWindow: 32000, MaxTokens: 4096, Thinking: provider.ThinkingNone}
}

func (s *story) run(name, prompt string) agent.Run {
	return agent.Run{
		Namespace: "team", Name: name, UID: "uid-" + name, SessionUID: "session", AgentKey: runevent.MainAgent, Operation: agent.OperationPrompt, Worker: "w1",
		Queued: time.Now().Add(-20 * time.Second), Prompt: message.Message{Role: message.RoleUser, Content: message.Text(prompt)},
		Config: session.RunConfig{
			V: session.ObjectVersion, Operation: agent.OperationPrompt, Agent: runevent.MainAgent, Model: testModel(),
			Limits: session.Limits{MaxTurns: 10, MaxAttempts: 3, RetryMaxAttempts: 2}, Compaction: session.Compaction{Automatic: true},
		},
	}
}

func (s *story) deps() agent.Deps {
	return agent.Deps{
		Log: s.metrics.Log(s.log), Store: s.metrics.Driver(s.store), Model: s, Tools: s, Now: time.Now, NewID: func() string { s.ids++; return fmt.Sprint("exec-", s.ids) },
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }, Live: func(agent.Live) {}, Logger: slog.New(slog.DiscardHandler),
		Observer: s.metrics,
	}
}

func (s *story) execute(run agent.Run) {
	s.t.Helper()
	if _, err := agent.Execute(context.Background(), s.deps(), run); err != nil {
		s.t.Fatalf("run %s: %v", run.Name, err)
	}
}

// gathered are the values of all series, as Prometheus would show them: of histograms the number of observations.
func gathered(t testing.TB, m *Metrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			out[family.GetName()+"{"+strings.Join(labels, ",")+"}"] = valueOf(family.GetType(), metric)
		}
	}
	return out
}

func valueOf(kind dto.MetricType, metric *dto.Metric) float64 {
	switch kind {
	case dto.MetricType_COUNTER:
		return metric.GetCounter().GetValue()
	case dto.MetricType_GAUGE:
		return metric.GetGauge().GetValue()
	}
	return float64(metric.GetHistogram().GetSampleCount())
}
