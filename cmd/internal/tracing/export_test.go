package tracing

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/pkg/trajectory/otlp"
)

func sections() []projection.Section { return []projection.Section{{Name: "role", Text: system}} }

// receiver is an OTLP/HTTP receiver that reads with the OpenTelemetry Collector's own code.
type receiver struct {
	t  *testing.T
	mu sync.Mutex
	// statuses are answered before spans are taken.
	statuses []int
	taken    []ptrace.Traces
	headers  []http.Header
	tries    int
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	if len(r.statuses) > 0 {
		status := r.statuses[0]
		r.statuses = r.statuses[1:]
		w.WriteHeader(status)
		return
	}
	var body io.Reader = req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(req.Body)
		if err != nil {
			r.t.Errorf("body: %v", err)
			return
		}
		body = unpacked
	}
	raw, err := io.ReadAll(body)
	if err != nil || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/x-protobuf" {
		r.t.Errorf("%s %s: %v", req.URL.Path, req.Header.Get("Content-Type"), err)
	}
	// An export request has the encoding of traces.
	traces, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(raw)
	if err != nil {
		r.t.Errorf("no export request: %v", err)
	}
	r.taken, r.headers = append(r.taken, traces), append(r.headers, req.Header)
}

func exporting(t *testing.T, env map[string]string) (*story, func() error) {
	t.Helper()
	s := newStory(t, false, nil)
	tracer, err := New(t.Context(), Options{
		Getenv: func(name string) string { return env[name] }, Worker: "w1", Version: "test", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.tracer = tracer
	return s, func() error { return tracer.Shutdown(t.Context()) }
}

// TestExport sends the spans of a run to a receiver, whatever it takes.
func TestExport(t *testing.T) {
	for name, c := range map[string]struct {
		env      map[string]string
		statuses []int
		header   string
	}{
		"as it is":   {},
		"compressed": {env: map[string]string{"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}},
		"with a credential": {
			env: map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Basic%20dTpw, x-tenant=a"}, header: "Basic dTpw",
		},
		"the receiver is busy at first": {statuses: []int{http.StatusServiceUnavailable}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &receiver{t: t, statuses: c.statuses}
			server := httptest.NewServer(r)
			defer server.Close()
			env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL}
			for key, value := range c.env {
				env[key] = value
			}
			s, shutdown := exporting(t, env)
			s.replies = append(s.replies, opens, says)
			s.execute(s.run("one"))
			if err := shutdown(); err != nil {
				t.Fatal(err)
			}
			if len(r.taken) != 1 || s.tracer.Dropped() != 0 || r.headers[0].Get("Authorization") != c.header {
				t.Fatalf("%d documents, %d dropped, %v", len(r.taken), s.tracer.Dropped(), r.headers)
			}
			described := r.taken[0].ResourceSpans().At(0)
			service, _ := described.Resource().Attributes().Get("service.name")
			instance, _ := described.Resource().Attributes().Get("service.instance.id")
			spans := described.ScopeSpans().At(0).Spans()
			if service.Str() != "agentloop" || instance.Str() != "w1" || spans.Len() != 4 || described.SchemaUrl() != "https://opentelemetry.io/schemas/1.41.0" {
				t.Fatalf("%s of %s, %d spans, %s", service.Str(), instance.Str(), spans.Len(), described.SchemaUrl())
			}
			run := spans.At(3)
			for i := range 3 {
				span := spans.At(i)
				if span.TraceID() != run.TraceID() || span.ParentSpanID() != run.SpanID() || span.EndTimestamp() < span.StartTimestamp() || span.Kind() != ptrace.SpanKindClient {
					t.Errorf("span %s: %s below %s", span.Name(), span.TraceID(), span.ParentSpanID())
				}
			}
			reasons, _ := spans.At(2).Attributes().Get("gen_ai.response.finish_reasons")
			tokens, _ := spans.At(2).Attributes().Get("gen_ai.usage.input_tokens")
			if run.Name() != "invoke_agent main" || !run.ParentSpanID().IsEmpty() || reasons.Slice().At(0).Str() != "stop" || tokens.Int() != 10 {
				t.Errorf("run %s, reasons %v, tokens %v", run.Name(), reasons, tokens)
			}
		})
	}
}

// TestReceiverIsAway holds a run to the time that it takes without a receiver: spans are dropped, nothing waits.
func TestReceiverIsAway(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(hang)
	s, shutdown := exporting(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_EXPORTER_OTLP_TIMEOUT": "200",
	})
	for i := range 3000 { // more spans than the queue holds
		_, answered := s.tracer.Tool(t.Context(), toolCall(s, i))
		answered(agentToolAnswer())
	}
	s.replies = append(s.replies, says)
	s.execute(s.run("one"))
	begun := time.Now()
	_ = shutdown()
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("the end waited for the receiver: %s", took)
	}
	if s.tracer.Dropped() == 0 {
		t.Error("nothing is said to be dropped")
	}
}

// TestRefusedSpansAreNotSentAgain gives up what would be refused again.
func TestRefusedSpansAreNotSentAgain(t *testing.T) {
	r := &receiver{t: t, statuses: []int{http.StatusBadRequest}}
	server := httptest.NewServer(r)
	defer server.Close()
	s, shutdown := exporting(t, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": server.URL + "/v1/traces"})
	s.replies = append(s.replies, says)
	s.execute(s.run("one"))
	_ = shutdown()
	if r.tries != 1 || s.tracer.Dropped() != 2 {
		t.Errorf("%d tries, %d dropped", r.tries, s.tracer.Dropped())
	}
}

// TestConfig reads the standard variables, and says which of them cannot be used without what it holds.
func TestConfig(t *testing.T) {
	const secret = "Bearer-of-the-secret"
	for name, c := range map[string]struct {
		env  map[string]string
		to   string
		none bool
		says string
	}{
		"nothing":            {none: true},
		"a base":             {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, to: "http://c:4318/v1/traces"},
		"a base with a path": {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c/otlp/"}, to: "https://c/otlp/v1/traces"},
		"that of traces":     {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/in"}, to: "http://c/in"},
		"disabled":           {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}, none: true},
		"another exporter":   {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "zipkin"}, says: "OTEL_TRACES_EXPORTER=zipkin"},
		"no exporter":        {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, none: true},
		"gRPC":               {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, says: "OTEL_EXPORTER_OTLP_PROTOCOL=grpc: use http/protobuf"},
		"no URL":             {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "c:4318"}, says: "OTEL_EXPORTER_OTLP_ENDPOINT is no URL"},
		"no time":            {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, says: "OTEL_EXPORTER_OTLP_TIMEOUT=10s: use milliseconds"},
		"no compression":     {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "zstd"}, says: "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION=zstd"},
		"no headers":         {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_HEADERS": secret}, says: "OTEL_EXPORTER_OTLP_HEADERS is no list"},
		"no certificate":     {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere"}, says: "OTEL_EXPORTER_OTLP_CERTIFICATE"},
		"no client key":      {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "/nowhere"}, says: "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"},
		"no sampler":         {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_SAMPLER": "dice"}, says: "OTEL_TRACES_SAMPLER=dice"},
		"no ratio":           {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"}, says: "OTEL_TRACES_SAMPLER_ARG=2"},
	} {
		t.Run(name, func(t *testing.T) {
			tracer, err := New(t.Context(), Options{Getenv: func(name string) string { return c.env[name] }, Logger: slog.New(slog.DiscardHandler)})
			switch {
			case c.says != "":
				if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), secret) {
					t.Errorf("error %v, want one about %s", err, c.says)
				}
			case err != nil:
				t.Error(err)
			case c.none != (tracer == nil):
				t.Errorf("tracer %v", tracer)
			case tracer != nil && tracer.exporter.endpoint != c.to:
				t.Errorf("endpoint %s, want %s", tracer.exporter.endpoint, c.to)
			}
		})
	}
}

// TestSameIDsAsTheExport joins what is told while a run goes on with what an export of its session tells later.
func TestSameIDsAsTheExport(t *testing.T) {
	s := newStory(t, false, nil)
	s.replies = append(s.replies, says)
	s.execute(s.run("one"))
	reader := trajectory.NewReader(s.log, s.store)
	builder := trajectory.NewBuilder(cas.Scope{Namespace: "team", Session: "session"})
	if err := reader.Refresh(t.Context(), builder); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := otlp.Export(t.Context(), reader.Contents(builder.Index()), otlp.Options{Namespace: "team", UID: "session"}, &out); err != nil {
		t.Fatal(err)
	}
	var document struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct{ TraceID, SpanID, Name string }
			}
		}
	}
	if err := json.Unmarshal(bytes.SplitN(out.Bytes(), []byte("\n"), 2)[0], &document); err != nil {
		t.Fatal(err)
	}
	live := s.spans.GetSpans()[1].SpanContext
	for _, span := range document.ResourceSpans[0].ScopeSpans[0].Spans {
		if span.Name == "invoke_agent main" {
			if span.TraceID != live.TraceID().String() || span.SpanID != live.SpanID().String() {
				t.Errorf("exported as %s in %s, told as %s in %s", span.SpanID, span.TraceID, live.SpanID(), live.TraceID())
			}
			return
		}
	}
	t.Errorf("no run in %s", out.String())
}

func toolCall(s *story, i int) agent.ToolCall {
	run := s.run("many")
	return agent.ToolCall{Run: &run, Turn: i, ID: "c", Definition: s.Definitions()[0]}
}

func agentToolAnswer() agent.ToolAnswer { return agent.ToolAnswer{} }
