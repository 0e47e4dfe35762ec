package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentloop/agentloop/pkg/agent"
)

// scope is the instrumentation scope of the spans.
const scope = "github.com/agentloop/agentloop/cmd/internal/tracing"

// Options say what is traced and where to.
type Options struct {
	// Getenv reads the environment.
	Getenv func(name string) string
	// Worker names this process; Namespace is that of its Pod, empty when that is not known.
	Worker, Version string
	// Content puts contents into spans.
	Content bool
	Logger  *slog.Logger
	// Processor takes spans instead of what the environment names.
	Processor sdktrace.SpanProcessor
}

// Tracer is an agent.Observer that makes spans. Safe for concurrent use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	sampler  sdktrace.Sampler
	content  bool
	exporter *exporter
}

var _ agent.Observer = (*Tracer)(nil)

// New makes a tracer, or none (nil) when the environment names no receiver. It does no I/O.
func New(ctx context.Context, opts Options) (*Tracer, error) {
	t := &Tracer{content: opts.Content}
	processor := opts.Processor
	if processor == nil {
		cfg, err := configOf(opts.Getenv)
		if err != nil || cfg == nil {
			return nil, err
		}
		t.exporter = newExporter(*cfg, opts.Logger)
		processor = sdktrace.NewBatchSpanProcessor(t.exporter)
	}
	var err error
	if t.sampler, err = samplerOf(opts.Getenv); err != nil {
		return nil, err
	}
	described, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("agentloop"), semconv.ServiceInstanceID(opts.Worker), semconv.ServiceVersion(opts.Version)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	// The SDK describes itself by a later version, of which these attributes mean the same; spans and resource have one.
	described = resource.NewWithAttributes(semconv.SchemaURL, described.Attributes()...)
	otel.SetErrorHandler(quiet(opts.Logger))
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(processor), sdktrace.WithResource(described), sdktrace.WithSampler(t.sampler), sdktrace.WithIDGenerator(ids{}),
	)
	t.tracer = t.provider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))
	return t, nil
}

// errorsEvery is how long the log rests between two lines about a receiver that takes no spans.
const errorsEvery = time.Minute

// quiet logs what goes wrong now and then: a receiver that is away would be told of with every batch.
func quiet(logger *slog.Logger) otel.ErrorHandlerFunc {
	var last atomic.Int64
	return func(err error) {
		now := time.Now().UnixNano()
		before := last.Load()
		if now-before < int64(errorsEvery) || !last.CompareAndSwap(before, now) {
			return
		}
		logger.Warn("spans not exported", "error", err)
	}
}

// Shutdown sends what is left until ctx ends.
func (t *Tracer) Shutdown(ctx context.Context) error {
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("export the last spans: %w", err)
	}
	return nil
}

// Dropped is how many spans the receiver has not taken.
func (t *Tracer) Dropped() int64 {
	if t.exporter == nil {
		return 0
	}
	return t.exporter.dropped.Load()
}

// TraceParent is the traceparent of what ctx is part of; empty for nothing.
func (t *Tracer) TraceParent(ctx context.Context) string {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return ""
	}
	return fmt.Sprintf("00-%s-%s-%s", sc.TraceID(), sc.SpanID(), sc.TraceFlags()&trace.FlagsSampled)
}

// Fields are the fields of W3C Trace Context that tell others what ctx is part of; nil for nothing.
func (t *Tracer) Fields(ctx context.Context) map[string]string {
	parent := t.TraceParent(ctx)
	if parent == "" {
		return nil
	}
	return map[string]string{"traceparent": parent}
}

// sampled says whether the spans of a run are recorded: the same on every worker, since ids and settings are.
func (t *Tracer) sampled(at place) bool {
	ctx := context.Background()
	if at.parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, at.parent)
	}
	verdict := t.sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: ctx, TraceID: at.trace, Name: opInvoke, Kind: trace.SpanKindInternal})
	return verdict.Decision == sdktrace.RecordAndSample
}

// given are attributes that are left out when they are empty.
func given(pairs ...attribute.KeyValue) []attribute.KeyValue {
	out := pairs[:0]
	for _, pair := range pairs {
		if pair.Value.Type() != attribute.STRING || pair.Value.AsString() != "" {
			out = append(out, pair)
		}
	}
	return out
}
