package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"regexp"

	"go.opentelemetry.io/otel/trace"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// place is where a run stands: in its trace, its own span, and the span that it is below, which is not valid for a run that
// begins a trace.
type place struct {
	trace  trace.TraceID
	span   trace.SpanID
	parent trace.SpanContext
}

func placeOf(run *agent.Run) place {
	p := place{span: runevent.SpanID(run.AgentKey, run.UID)}
	if p.parent = parse(run.TraceParent); p.parent.IsValid() {
		p.trace = p.parent.TraceID()
		return p
	}
	p.trace = runevent.TraceID(run.AgentKey, run.UID)
	return p
}

// parentForm is the traceparent of W3C Trace Context; later versions may have more behind a dash.
var parentForm = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[ -~]*)?$`)

// maxParent bounds what is looked at.
const maxParent = 256

// parse reads a traceparent; what is none gives an invalid context.
func parse(header string) trace.SpanContext {
	if len(header) > maxParent {
		return trace.SpanContext{}
	}
	found := parentForm.FindStringSubmatch(header)
	if found == nil || found[1] == "ff" || found[1] == "00" && found[5] != "" {
		return trace.SpanContext{}
	}
	id, err := trace.TraceIDFromHex(found[2])
	if err != nil {
		return trace.SpanContext{}
	}
	span, err := trace.SpanIDFromHex(found[3])
	if err != nil {
		return trace.SpanContext{}
	}
	flags := trace.FlagsSampled
	if last := found[4][1]; (last-'0')%2 == 0 && last <= '9' || last == 'a' || last == 'c' || last == 'e' {
		flags = 0
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: flags, Remote: true})
}

// ids gives a span the ids that its context asks for, and any other one random ones.
type ids struct{}

type wantedKey struct{}

// NewIDs implements sdktrace.IDGenerator.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if want, ok := ctx.Value(wantedKey{}).(place); ok {
		return want.trace, want.span
	}
	var id trace.TraceID
	for !id.IsValid() {
		binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
		binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if want, ok := ctx.Value(wantedKey{}).(place); ok {
		return want.span
	}
	var id trace.SpanID
	for !id.IsValid() {
		binary.LittleEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
