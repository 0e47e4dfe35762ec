package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/agentloop/agentloop/cmd/internal/metrics"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// discarding is an exporter that takes everything and keeps nothing.
type discarding struct{}

func (discarding) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discarding) Shutdown(context.Context) error                             { return nil }

// turn tells an observer what one turn of a run tells: a request and its answer, a tool call and its result, and seven entries.
// What it costs is what observing adds to a turn.
func turn(ctx context.Context, o agent.Observer, run *agent.Run, request *provider.Request, entries []runevent.Entry, before *session.RunProgress) {
	_, answered := o.Request(ctx, agent.ModelRequest{Run: run, Purpose: runevent.PurposeMain, Turn: 1, ExecutionID: "exec-1", Context: "sha256:00", Estimate: 900, Request: request})
	answered(agent.ModelAnswer{First: time.Now(), Response: provider.Response{HTTPStatus: 200, ResponseID: "r", Message: message.Message{
		Role: message.RoleAssistant, StopReason: message.StopToolUse, Usage: &message.Usage{Input: count(700), Output: count(50), CacheRead: count(200)},
	}}})
	_, gave := o.Tool(ctx, agent.ToolCall{Run: run, Turn: 1, ID: "c1", Attempt: 1, Definition: tool.Definition{Tool: message.Tool{Name: "srv__add"}, Server: "srv"}})
	gave(agent.ToolAnswer{Result: tool.Result{Audit: tool.Audit{Server: "srv", Outcome: "ok"}}})
	for _, entry := range entries {
		o.Recorded(run, entry, before)
	}
}

func BenchmarkObservedTurn(b *testing.B) {
	tracer := func(content bool, sampler string) *Tracer {
		t, err := New(context.Background(), Options{
			Getenv: func(name string) string { return map[string]string{"OTEL_TRACES_SAMPLER": sampler}[name] }, Logger: slog.New(slog.DiscardHandler),
			Content: content, Processor: sdktrace.NewBatchSpanProcessor(discarding{}),
		})
		if err != nil {
			b.Fatal(err)
		}
		return t
	}
	request := &provider.Request{Model: provider.Model{Provider: "claude", API: provider.APIAnthropicMessages, ID: "sonnet"}, MaxTokens: 4096}
	for i := range 40 {
		request.Messages = append(request.Messages, message.Message{Role: message.RoleUser, Content: message.Text(fmt.Sprintf("message %d of the history, which has some length", i))})
	}
	run := &agent.Run{Namespace: "team", Name: "run", UID: "uid", SessionUID: "session", AgentKey: runevent.MainAgent, Operation: agent.OperationPrompt}
	var entries []runevent.Entry
	for _, event := range []runevent.Event{
		{Type: runevent.TypeRecord, Kind: runevent.KindContextCaptured}, {Type: runevent.TypeBody}, {Type: runevent.TypeRecord, Kind: runevent.KindModelCompleted},
		{Type: runevent.TypeToolCall}, {Type: runevent.TypeToolStarted}, {Type: runevent.TypeToolResult}, {Type: runevent.TypeRecord, Kind: runevent.KindStateCommitted},
	} {
		entries = append(entries, runevent.Entry{Event: event})
	}
	for name, o := range map[string]agent.Observer{
		"metrics": metrics.New(), "traces": tracer(false, ""), "traces that are not recorded": tracer(false, "always_off"), "traces with contents": tracer(true, ""),
	} {
		b.Run(name, func(b *testing.B) {
			ctx, left := o.Run(b.Context(), run)
			defer left(agent.Result{}, nil)
			before := &session.RunProgress{UID: run.UID}
			b.ReportAllocs()
			for b.Loop() {
				turn(ctx, o, run, request, entries, before)
			}
		})
	}
}
