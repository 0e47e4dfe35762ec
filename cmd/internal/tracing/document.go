package tracing

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// documentOf is a batch as OTLP has it: what is posted has the same encoding. All spans of a Tracer have one resource and one
// scope.
func documentOf(spans []sdktrace.ReadOnlySpan) *tracepb.TracesData {
	first := spans[0]
	under := first.InstrumentationScope()
	scoped := &tracepb.ScopeSpans{
		Scope: &commonpb.InstrumentationScope{Name: under.Name, Version: under.Version}, SchemaUrl: under.SchemaURL, Spans: make([]*tracepb.Span, len(spans)),
	}
	for i, span := range spans {
		scoped.Spans[i] = spanOf(span)
	}
	described := &tracepb.ResourceSpans{ScopeSpans: []*tracepb.ScopeSpans{scoped}}
	if r := first.Resource(); r != nil {
		described.Resource = &resourcepb.Resource{Attributes: attributesOf(r.Attributes())}
		described.SchemaUrl = r.SchemaURL()
	}
	return &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{described}}
}

var kinds = map[trace.SpanKind]tracepb.Span_SpanKind{
	trace.SpanKindInternal: tracepb.Span_SPAN_KIND_INTERNAL, trace.SpanKindClient: tracepb.Span_SPAN_KIND_CLIENT,
}

// flagRemote says that it is known whether a span's parent is in another process, and that it is.
const (
	flagKnown  = uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	flagRemote = flagKnown | uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
)

func spanOf(s sdktrace.ReadOnlySpan) *tracepb.Span {
	at, parent := s.SpanContext(), s.Parent()
	id, span := at.TraceID(), at.SpanID()
	out := &tracepb.Span{
		TraceId: id[:], SpanId: span[:], TraceState: at.TraceState().String(), Flags: uint32(at.TraceFlags()) | flagKnown, Name: s.Name(), Kind: kinds[s.SpanKind()],
		StartTimeUnixNano: uint64(max(0, s.StartTime().UnixNano())), EndTimeUnixNano: uint64(max(0, s.EndTime().UnixNano())),
		Attributes: attributesOf(s.Attributes()), DroppedAttributesCount: uint32(max(0, s.DroppedAttributes())),
	}
	if parent.SpanID().IsValid() {
		above := parent.SpanID()
		out.ParentSpanId = above[:]
		if parent.IsRemote() {
			out.Flags |= flagRemote
		}
	}
	if status := s.Status(); status.Code == codes.Error {
		out.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: status.Description}
	}
	return out
}

func attributesOf(in []attribute.KeyValue) []*commonpb.KeyValue {
	out := make([]*commonpb.KeyValue, len(in))
	for i, pair := range in {
		out[i] = &commonpb.KeyValue{Key: string(pair.Key), Value: valueOf(pair.Value)}
	}
	return out
}

// valueOf knows the types that spans and resources here have; others are texts.
func valueOf(v attribute.Value) *commonpb.AnyValue {
	switch v.Type() {
	case attribute.BOOL:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v.AsBool()}}
	case attribute.INT64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v.AsInt64()}}
	case attribute.FLOAT64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v.AsFloat64()}}
	case attribute.STRINGSLICE:
		list := &commonpb.ArrayValue{}
		for _, text := range v.AsStringSlice() {
			list.Values = append(list.Values, textOf(text))
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}}
	}
	return textOf(v.String())
}

func textOf(text string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: text}}
}
