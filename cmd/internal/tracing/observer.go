package tracing

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// The operations of the conventions.
const (
	opInvoke = "invoke_agent"
	opChat   = "chat"
	opTool   = "execute_tool"
)

// Our own attributes have the names that they have in exports of sessions.
const (
	ownRunUID     = attribute.Key("agentloop.run.uid")
	ownRunName    = attribute.Key("agentloop.run.name")
	ownRunStatus  = attribute.Key("agentloop.run.status")
	ownRunReason  = attribute.Key("agentloop.run.reason")
	ownOperation  = attribute.Key("agentloop.run.operation")
	ownAttempts   = attribute.Key("agentloop.run.attempts")
	ownTurns      = attribute.Key("agentloop.run.turns")
	ownRequests   = attribute.Key("agentloop.run.requests")
	ownToolCalls  = attribute.Key("agentloop.run.tool_calls")
	ownTurn       = attribute.Key("agentloop.turn")
	ownPurpose    = attribute.Key("agentloop.request.purpose")
	ownExecution  = attribute.Key("agentloop.request.execution_id")
	ownContext    = attribute.Key("agentloop.context.digest")
	ownEstimate   = attribute.Key("agentloop.budget.estimated_input_tokens")
	ownProvider   = attribute.Key("agentloop.provider")
	ownHTTPStatus = attribute.Key("agentloop.http_status")
	ownServer     = attribute.Key("agentloop.tool.server")
	ownTries      = attribute.Key("agentloop.tool.attempts")
	ownOmitted    = attribute.Key("agentloop.content.omitted_bytes")
)

// Run implements agent.Observer. The run's own span is made when it has ended, by the worker that ended it; what is below it
// names it before it is there.
func (t *Tracer) Run(ctx context.Context, run *agent.Run) (context.Context, func(agent.Result, error)) {
	at := placeOf(run)
	var flags trace.TraceFlags
	if t.sampled(at) {
		flags = trace.FlagsSampled
	}
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: at.trace, SpanID: at.span, TraceFlags: flags, Remote: true})
	return trace.ContextWithRemoteSpanContext(ctx, span), func(agent.Result, error) {}
}

// Recorded implements agent.Observer: the end of a run makes its span.
func (t *Tracer) Recorded(run *agent.Run, entry runevent.Entry, before *session.RunProgress) {
	event := &entry.Event
	switch event.Type {
	case runevent.TypeRunFinished, runevent.TypeRunFailed, runevent.TypeRunCancelled:
	default:
		return
	}
	if before == nil || before.UID != run.UID {
		return
	}
	at := placeOf(run)
	ctx := context.WithValue(context.Background(), wantedKey{}, at)
	if at.parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, at.parent)
	}
	_, span := t.tracer.Start(ctx, opInvoke+" "+run.AgentKey, trace.WithTimestamp(before.StartedAt), trace.WithSpanKind(trace.SpanKindInternal))
	if span.IsRecording() {
		span.SetAttributes(common(opInvoke, run)...)
		span.SetAttributes(given(semconv.GenAIAgentID(run.SessionUID+"/"+run.AgentKey), ownRunStatus.String(statuses[event.Type]), ownRunReason.String(event.Reason),
			ownOperation.String(run.Operation))...)
		span.SetAttributes(modelOf(run.Config.Model)...)
		span.SetAttributes(ownAttempts.Int(before.Attempt), ownTurns.Int(before.Committed), ownRequests.Int(before.Requests), ownToolCalls.Int(before.ToolCalls))
		switch event.Type {
		case runevent.TypeRunFailed:
			fail(span, or(event.Reason, "failed"), event.Message)
		case runevent.TypeRunCancelled:
			fail(span, "cancelled", event.Message)
		}
	}
	span.End(trace.WithTimestamp(event.Evidence.RecordedAt))
}

var statuses = map[runevent.Type]string{runevent.TypeRunFinished: "finished", runevent.TypeRunFailed: "failed", runevent.TypeRunCancelled: "cancelled"}

// Compacted implements agent.Observer. The requests for summaries have spans of their own.
func (t *Tracer) Compacted(*agent.Run, budget.ContextBudget, budget.ContextBudget) {}

// Request implements agent.Observer.
func (t *Tracer) Request(ctx context.Context, request agent.ModelRequest) (context.Context, func(agent.ModelAnswer)) {
	sent := request.Request
	begun := time.Now()
	ctx, span := t.tracer.Start(ctx, opChat+" "+sent.Model.ID, trace.WithTimestamp(begun), trace.WithSpanKind(trace.SpanKindClient))
	if !span.IsRecording() {
		return ctx, func(agent.ModelAnswer) { span.End() }
	}
	span.SetAttributes(common(opChat, request.Run)...)
	span.SetAttributes(modelOf(sent.Model)...)
	span.SetAttributes(given(ownPurpose.String(string(request.Purpose)), ownExecution.String(request.ExecutionID), ownContext.String(request.Context))...)
	span.SetAttributes(ownTurn.Int(request.Turn), ownEstimate.Int64(request.Estimate), semconv.GenAIRequestStream(true))
	if sent.MaxTokens > 0 {
		span.SetAttributes(semconv.GenAIRequestMaxTokens(int(sent.MaxTokens)))
	}
	if t.content {
		span.SetAttributes(inputContent(sent)...)
	}
	return ctx, func(answer agent.ModelAnswer) {
		t.answered(span, begun, answer)
		span.End()
	}
}

func (t *Tracer) answered(span trace.Span, begun time.Time, answer agent.ModelAnswer) {
	if !answer.First.IsZero() {
		span.SetAttributes(semconv.GenAIResponseTimeToFirstChunk(max(0, answer.First.Sub(begun).Seconds())))
	}
	var failed *provider.Error
	switch {
	case answer.Err == nil:
		response := answer.Response
		span.SetAttributes(given(semconv.GenAIResponseID(response.ResponseID))...)
		if reason := response.Message.StopReason; reason != "" {
			span.SetAttributes(semconv.GenAIResponseFinishReasons(finishReason(reason)))
		}
		span.SetAttributes(usageOf(response.Message.Usage)...)
		status(span, response.HTTPStatus)
		if t.content {
			span.SetAttributes(outputContent(response.Message)...)
		}
	case errors.As(answer.Err, &failed):
		span.SetAttributes(usageOf(failed.Usage)...)
		status(span, failed.HTTPStatus)
		fail(span, string(failed.Class), failed.Error())
	default:
		fail(span, "_OTHER", "the request was not finished")
	}
}

func status(span trace.Span, code int) {
	if code > 0 {
		span.SetAttributes(ownHTTPStatus.Int(code))
	}
}

// Tool implements agent.Observer.
func (t *Tracer) Tool(ctx context.Context, call agent.ToolCall) (context.Context, func(agent.ToolAnswer)) {
	kind := trace.SpanKindInternal
	if call.Definition.Server != "" {
		kind = trace.SpanKindClient
	}
	ctx, span := t.tracer.Start(ctx, opTool+" "+call.Definition.Name, trace.WithSpanKind(kind))
	if !span.IsRecording() {
		return ctx, func(agent.ToolAnswer) { span.End() }
	}
	span.SetAttributes(common(opTool, call.Run)...)
	span.SetAttributes(semconv.GenAIToolName(call.Definition.Name), semconv.GenAIToolCallID(call.ID), semconv.GenAIToolType("function"), ownTurn.Int(call.Turn), ownTries.Int(call.Attempt))
	if call.Definition.Server != "" {
		span.SetAttributes(attribute.String("mcp.method.name", "tools/call"), ownServer.String(call.Definition.Server))
	}
	if t.content {
		span.SetAttributes(captured(semconv.GenAIToolCallArgumentsKey, call.Arguments)...)
	}
	return ctx, func(answer agent.ToolAnswer) {
		switch {
		case answer.Err != nil:
			fail(span, "interrupted", "")
		case answer.Result.IsError:
			fail(span, "tool_error", "")
		}
		if t.content && answer.Err == nil {
			span.SetAttributes(resultContent(answer.Result.Content)...)
		}
		span.End()
	}
}

// common are the attributes that every span has.
func common(operation string, run *agent.Run) []attribute.KeyValue {
	return given(semconv.GenAIOperationNameKey.String(operation), semconv.GenAIConversationID(run.SessionUID), semconv.GenAIAgentName(run.AgentKey),
		semconv.K8SNamespaceName(run.Namespace), ownRunUID.String(run.UID), ownRunName.String(run.Name))
}

// modelOf names a model. The conventions' provider is whose API it speaks.
func modelOf(m provider.Model) []attribute.KeyValue {
	name := m.Provider
	switch m.API {
	case provider.APIAnthropicMessages:
		name = "anthropic"
	case provider.APIOpenAIChat, provider.APIOpenAIResponses:
		name = "openai"
	}
	return given(semconv.GenAIProviderNameKey.String(name), semconv.GenAIRequestModel(m.ID), ownProvider.String(m.Provider))
}

// usageOf is what the provider reported. The conventions count cached tokens as input; here they are recorded beside it.
func usageOf(u *message.Usage) []attribute.KeyValue {
	if u == nil {
		return nil
	}
	var out []attribute.KeyValue
	if u.Input != nil {
		total := *u.Input
		for _, cached := range []*int64{u.CacheRead, u.CacheWrite} {
			if cached != nil {
				total += *cached
			}
		}
		out = append(out, semconv.GenAIUsageInputTokensKey.Int64(total))
	}
	for key, count := range map[attribute.Key]*int64{
		semconv.GenAIUsageOutputTokensKey: u.Output, semconv.GenAIUsageCacheReadInputTokensKey: u.CacheRead,
		semconv.GenAIUsageCacheCreationInputTokensKey: u.CacheWrite, semconv.GenAIUsageReasoningOutputTokensKey: u.Reasoning,
	} {
		if count != nil {
			out = append(out, key.Int64(*count))
		}
	}
	return out
}

// finishReason is the conventions' word for a stop reason.
func finishReason(reason message.StopReason) string {
	if reason == message.StopToolUse {
		return "tool_call"
	}
	return string(reason)
}

// fail marks a span as one of something that failed.
func fail(span trace.Span, kind, text string) {
	span.SetAttributes(semconv.ErrorTypeKey.String(kind))
	span.SetStatus(codes.Error, text)
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
