package otlp

import (
	"context"
	"fmt"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/trajectory"
)

// maxEvents is how many events a run's span has at most.
const maxEvents = 1000

func nanos(t trajectory.Time) uint64 { return uint64(max(t, 0)) * 1000 }

// run writes a run's own span and those of its requests and tools.
func (x *export) run(ctx context.Context, run *trajectory.Execution) error {
	if run.StartedAt == 0 {
		return nil
	}
	chunks := map[string]trajectory.Time{}
	last := run.EndedAt
	own := x.invocation(run)
	for entry := range run.Entries() {
		last = max(last, entry.CapturedAt, entry.EndedAt)
		switch {
		case entry.Type == trajectory.TypeReasoning, entry.Event == "body":
			if first, ok := chunks[entry.InputID]; entry.InputID != "" && (!ok || entry.CapturedAt < first) {
				chunks[entry.InputID] = entry.CapturedAt
			}
		case entry.Hidden && eventful[entry.Event] && entry.CapturedAt != 0:
			own.note(entry)
		}
	}
	own.End = nanos(last)
	raw, err := encode(own)
	if err != nil {
		return fmt.Errorf("encode a span: %w", err)
	}
	if err := x.put(raw); err != nil {
		return err
	}
	var entries []*trajectory.Entry
	for entry := range run.Entries() {
		if spanned(entry) && entry.CapturedAt != 0 {
			entries = append(entries, entry)
		}
	}
	return x.opts.Each(ctx, len(entries), func(ctx context.Context, i int) ([]byte, error) {
		spanOf := x.tool
		if entries[i].Type == trajectory.TypeModelInput {
			spanOf = x.chat
		}
		s, err := spanOf(ctx, run, entries[i], chunks[entries[i].ID])
		if err != nil {
			return nil, err
		}
		raw, err := encode(s)
		if err != nil {
			return nil, fmt.Errorf("encode a span: %w", err)
		}
		return raw, nil
	}, x.put)
}

// eventful are the records that a run's span has as events.
var eventful = map[string]bool{
	"run.started": true, "run.handedback": true, "state.committed": true, "compaction.committed": true, "context_recovery": true, "approval": true,
	"subagent.started": true, "subagent.finished": true, "request.waiting": true,
}

// note adds an event to a span, or counts it when there are too many.
func (s *span) note(entry *trajectory.Entry) {
	if len(s.Events) >= maxEvents {
		s.DroppedEvents++
		return
	}
	var a attributes
	a.text(ownEntry, entry.ID)
	a.number(ownSequence, entry.Sequence)
	a.positive(ownTurn, int64(entry.Turn))
	a.text(attrToolCall, entry.ToolCallID)
	if entry.Title != entry.Event {
		a.text(ownTitle, entry.Title)
	}
	s.Events = append(s.Events, event{Time: nanos(entry.CapturedAt), Name: own + entry.Event, Attributes: a})
}

// invocation is the span of a run.
func (x *export) invocation(run *trajectory.Execution) span {
	s := span{
		TraceID: traceID(run), SpanID: runSpan(run), Name: opInvokeAgent + " " + run.Agent, Kind: kindInternal, Start: nanos(run.StartedAt),
	}
	if run.Parent != nil {
		s.ParentSpanID = runSpan(run.Parent)
		if run.CallerID != "" {
			s.ParentSpanID = x.entrySpan(run.CallerID)
		}
	}
	a := x.common(opInvokeAgent, run)
	a.text(attrAgentID, x.opts.UID+"/"+run.Agent)
	if run.Model != nil {
		a.model(*run.Model)
	}
	a.text(ownRunStatus, run.Status)
	a.text(ownRunReason, run.Reason)
	a.text(ownOperation, run.Operation)
	a.number(ownAttempts, int64(run.Attempts))
	a.number(ownTurns, int64(run.Turns))
	a.number(ownRequests, int64(run.Requests))
	a.number(ownUnused, int64(run.RequestsWithoutUsage))
	a.number(ownToolCalls, int64(run.ToolCalls))
	if run.Config != nil {
		a.text(ownConfig, run.Config.Digest.String())
	}
	switch run.Status {
	case "failed":
		s.fail(&a, or(run.Reason, "failed"), run.Message)
	case "cancelled":
		s.fail(&a, "cancelled", run.Message)
	}
	s.Attributes = a
	return s
}

// common are the attributes that every span has.
func (x *export) common(operation string, run *trajectory.Execution) attributes {
	var a attributes
	a.text(attrOperation, operation)
	a.text(attrConversation, x.opts.UID)
	a.text(attrAgentName, run.Agent)
	a.text(ownRunUID, run.UID)
	a.text(ownRunName, run.Name)
	return a
}

// entry are the attributes of a span that stands for an entry.
func (x *export) entry(operation string, run *trajectory.Execution, entry *trajectory.Entry) attributes {
	a := x.common(operation, run)
	a.text(ownEntry, entry.ID)
	a.number(ownSequence, entry.Sequence)
	a.text(ownStatus, string(entry.Status))
	a.positive(ownTurn, int64(entry.Turn))
	a.text(ownExecution, entry.RequestExecutionID)
	if entry.ClockAdjusted {
		a.truth(ownAdjusted, true)
	}
	return a
}

// fail marks a span as one of something that failed.
func (s *span) fail(a *attributes, kind, text string) {
	a.text(attrErrorType, kind)
	s.Status = &status{Code: codeError, Message: text}
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// model names a model. The conventions' provider is whose API it speaks.
func (a *attributes) model(m trajectory.ModelName) {
	name := m.Provider
	switch provider.API(m.API) {
	case provider.APIAnthropicMessages:
		name = providerClaud
	case provider.APIOpenAIChat, provider.APIOpenAIResponses:
		name = providerOpen
	}
	a.text(attrProvider, name)
	a.text(attrRequestModel, m.ID)
	a.text(ownProvider, m.Provider)
}

// chat is the span of one request: its fixed input and what came of it.
func (x *export) chat(ctx context.Context, run *trajectory.Execution, entry *trajectory.Entry, chunk trajectory.Time) (span, error) {
	s := span{TraceID: traceID(run), SpanID: x.entrySpan(entry.ID), ParentSpanID: runSpan(run), Kind: kindClient, Name: opChat}
	s.Start, s.End = nanos(entry.CapturedAt), nanos(entry.CapturedAt)
	a := x.entry(opChat, run, entry)
	a.text(ownPurpose, entry.Purpose)
	input, err := x.read(ctx, entry.ID)
	if err != nil {
		return s, err
	}
	a.positive(ownMissing, int64(len(input.Notices)))
	if in := input.Input; in != nil {
		s.Name += " " + in.Model.ID
		a.input(in, x.opts.Content)
	}
	if input.Assembly != nil {
		a.assembly(input.Assembly)
	}
	if chunk > entry.CapturedAt {
		a.truth(attrStream, true)
		a.seconds(attrFirstChunk, float64(chunk-entry.CapturedAt)/1e6)
	}
	limit, err := x.answer(ctx, entry, &s, &a)
	if err != nil {
		return s, err
	}
	if limit == nil && input.Input != nil && input.Input.Parameters.MaxTokens > 0 {
		limit = &input.Input.Parameters.MaxTokens
	}
	a.count(attrMaxTokens, limit)
	if failure := input.Failure; failure != nil {
		s.fail(&a, or(failure.Class, or(failure.Reason, string(entry.Status))), failure.Message)
		a.positive(ownHTTPStatus, int64(failure.HTTPStatus))
	} else if entry.Status != trajectory.StatusCompleted && entry.Status != trajectory.StatusPending {
		s.fail(&a, string(entry.Status), "")
	}
	if x.opts.Content {
		if err := a.inputContent(input.Input); err != nil {
			return s, err
		}
	}
	s.Attributes = a
	return s, nil
}

// read reads an entry as far as it is written.
func (x *export) read(ctx context.Context, id string) (trajectory.Detail, error) {
	if x.opts.Content {
		return x.contents.Content(ctx, id)
	}
	return x.contents.Outline(ctx, id)
}

// answer adds what came of a request and returns the limit of its output that was seen in what was sent.
func (x *export) answer(ctx context.Context, entry *trajectory.Entry, s *span, a *attributes) (*int64, error) {
	if entry.AnswerID == "" {
		return nil, nil //nolint:nilnil // nothing answered it
	}
	answer, err := x.read(ctx, entry.AnswerID)
	if err != nil {
		return nil, err
	}
	s.End = max(s.End, nanos(answer.Entry.CapturedAt), nanos(answer.Entry.EndedAt))
	a.text(attrResponseID, answer.Entry.ResponseID)
	if answer.Entry.StopReason != "" {
		a.texts(attrFinishReasons, finishReason(answer.Entry.StopReason))
	}
	a.usage(answer.Entry.Usage)
	if answer.Output == nil {
		return nil, nil //nolint:nilnil // no limit was recorded
	}
	a.positive(ownHTTPStatus, int64(answer.Output.HTTPStatus))
	if !x.opts.Content {
		return answer.Output.RequestOutputTokenLimit, nil
	}
	return answer.Output.RequestOutputTokenLimit, a.outputContent(answer.Output)
}

// finishReason is the conventions' word for a stop reason.
func finishReason(reason string) string {
	if message.StopReason(reason) == message.StopToolUse {
		return "tool_call"
	}
	return reason
}

// usage adds what the provider reported. The conventions count cached tokens as input; here they are recorded beside it.
func (a *attributes) usage(u *message.Usage) {
	if u == nil {
		return
	}
	if u.Input != nil {
		total := *u.Input
		for _, cached := range []*int64{u.CacheRead, u.CacheWrite} {
			if cached != nil {
				total += *cached
			}
		}
		a.number(attrInputTokens, total)
	}
	a.count(attrOutputTokens, u.Output)
	a.count(attrCacheRead, u.CacheRead)
	a.count(attrCacheCreation, u.CacheWrite)
	a.count(attrReasoningTokens, u.Reasoning)
	a.text(ownCost, u.Cost)
}

// input names the fixed input.
func (a *attributes) input(in *trajectory.ModelInput, whole bool) {
	a.model(in.Model)
	a.text(ownContext, in.ContextRef.Digest.String())
	a.text(ownInputSum, in.InputDigest.String())
	a.number(ownInputSize, in.InputSize)
	if whole {
		a.truth(ownVerified, in.Verified)
	}
}

// assembly says how the input came about: counts of the rows of its source map, and its budget.
func (a *attributes) assembly(record *trajectory.Assembly) {
	rows := map[projection.SourceType]int64{}
	for _, source := range record.Sources {
		rows[source.Type]++
	}
	for _, kind := range []projection.SourceType{projection.SourceHistory, projection.SourceCompaction, projection.SourceRuntimeContext, projection.SourceToolRepair} {
		a.positive(ownSources+string(kind), rows[kind])
	}
	b := record.Budget
	a.number(ownBudget+"context_window", b.ContextWindow)
	a.number(ownBudget+"estimated_input_tokens", b.EstimatedInputTokens)
	a.number(ownBudget+"reserved_output_tokens", b.ReservedOutputTokens)
	a.number(ownBudget+"safety_tokens", b.SafetyTokens)
	a.number(ownBudget+"input_limit", b.InputLimit)
	a.truth(ownBudget+"fits", b.Fits)
	a.text(ownEstimator, record.Estimator)
	a.text(ownCompaction, record.Compaction)
	if record.State != nil {
		a.text(ownState, record.State.Digest.String())
	}
}

// tool is the span of one tool call.
func (x *export) tool(ctx context.Context, run *trajectory.Execution, entry *trajectory.Entry, _ trajectory.Time) (span, error) {
	s := span{
		TraceID: traceID(run), SpanID: x.entrySpan(entry.ID), ParentSpanID: runSpan(run), Kind: kindInternal, Name: opExecuteTool + " " + entry.Title,
	}
	begun := entry.CapturedAt
	if entry.StartedAt != 0 {
		begun = entry.StartedAt
	}
	s.Start, s.End = nanos(begun), nanos(max(begun, entry.EndedAt))
	a := x.entry(opExecuteTool, run, entry)
	a.text(attrToolName, entry.Title)
	a.text(attrToolCall, entry.ToolCallID)
	a.text(attrToolType, toolFunction)
	a.text(ownInput, entry.InputID)
	a.positive(ownToolTries, int64(entry.Attempts))
	if entry.Type == trajectory.TypeMCP {
		s.Kind = kindClient
		a.text(attrMCPMethod, methodCall)
		a.text(ownToolServer, entry.Server)
	}
	switch entry.Status {
	case trajectory.StatusError:
		s.fail(&a, "tool_error", "")
	case trajectory.StatusUnknown:
		s.fail(&a, "interrupted", "")
	case trajectory.StatusUnfinished, trajectory.StatusCancelled:
		s.fail(&a, string(entry.Status), "")
	}
	if x.opts.Content {
		detail, err := x.contents.Content(ctx, entry.ID)
		if err != nil {
			return s, err
		}
		a.positive(ownMissing, int64(len(detail.Notices)))
		if detail.Tool != nil {
			a.toolContent(detail.Tool)
		}
	}
	s.Attributes = a
	return s, nil
}
