package otlp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/pkg/trajectory/otlp"
	"github.com/agentloop/agentloop/test/viewer/story"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func contents(t *testing.T, make func(context.Context) (*story.Story, error)) *trajectory.Contents {
	t.Helper()
	s, err := make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := trajectory.NewReader(s.Log, s.Store)
	b := trajectory.NewBuilder(s.Scope())
	if err := r.Refresh(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return r.Contents(b.Index())
}

var options = otlp.Options{Namespace: story.Namespace, Session: "sample", UID: story.Session, ExportedAt: 1773478800000000}

func export(t *testing.T, from *trajectory.Contents, content bool) []byte {
	t.Helper()
	opts := options
	opts.Content = content
	var out bytes.Buffer
	if _, err := otlp.Export(t.Context(), from, opts, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// spans reads an export with the reader of the OpenTelemetry Collector.
func spans(t *testing.T, raw []byte) []ptrace.Span {
	t.Helper()
	var all []ptrace.Span
	for line := range bytes.Lines(raw) {
		traces, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		if err != nil {
			t.Fatalf("%v: %.500s", err, line)
		}
		for _, rs := range traces.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					all = append(all, span)
				}
			}
		}
	}
	return all
}

// strict reads an export with the published protobuf types, refusing members that they do not have.
func strict(t *testing.T, raw []byte) {
	t.Helper()
	for line := range bytes.Lines(raw) {
		if err := (protojson.UnmarshalOptions{DiscardUnknown: false}).Unmarshal(line, &tracepb.TracesData{}); err != nil {
			t.Fatalf("%v: %.500s", err, line)
		}
	}
}

func TestGolden(t *testing.T) {
	for name, c := range map[string]struct {
		make    func(context.Context) (*story.Story, error)
		content bool
	}{
		"sample.jsonl": {story.Sample, false}, "sample-content.jsonl": {story.Sample, true}, "delegated.jsonl": {story.Delegated, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := export(t, contents(t, c.make), c.content)
			strict(t, got)
			if again := export(t, contents(t, c.make), c.content); !bytes.Equal(again, got) {
				t.Error("the same history gives other bytes the second time")
			}
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, got, 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("export (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSpansMakeTrees checks what every reader of traces relies on.
func TestSpansMakeTrees(t *testing.T) {
	for name, make := range map[string]func(context.Context) (*story.Story, error){"sample": story.Sample, "delegated": story.Delegated} {
		t.Run(name, func(t *testing.T) {
			all := spans(t, export(t, contents(t, make), true))
			byID := map[pcommon.SpanID]ptrace.Span{}
			for _, s := range all {
				if s.SpanID().IsEmpty() || s.TraceID().IsEmpty() || s.Name() == "" || s.StartTimestamp() == 0 || s.EndTimestamp() < s.StartTimestamp() {
					t.Errorf("span %q has no ids, no name or no time", s.Name())
				}
				if _, twice := byID[s.SpanID()]; twice {
					t.Errorf("span id %s is there twice", s.SpanID())
				}
				byID[s.SpanID()] = s
			}
			roots := map[pcommon.TraceID]int{}
			for _, s := range all {
				if s.ParentSpanID().IsEmpty() {
					roots[s.TraceID()]++
					continue
				}
				if parent, ok := byID[s.ParentSpanID()]; !ok || parent.TraceID() != s.TraceID() {
					t.Errorf("span %q has no parent in its trace", s.Name())
				}
			}
			for trace, n := range roots {
				if n != 1 {
					t.Errorf("trace %s has %d roots", trace, n)
				}
			}
			total, ok := resourceOf(t, export(t, contents(t, make), true)).Get("agentloop.export.spans")
			if !ok || total.Int() != int64(len(all)) {
				t.Errorf("the export says that it has %v spans, it has %d", total.AsRaw(), len(all))
			}
		})
	}
}

func resourceOf(t *testing.T, raw []byte) pcommon.Map {
	t.Helper()
	line, _, _ := bytes.Cut(raw, []byte("\n"))
	traces, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
	if err != nil {
		t.Fatal(err)
	}
	if got := traces.ResourceSpans().At(0).SchemaUrl(); got != semconv.SchemaURL || otlp.SchemaURL != semconv.SchemaURL {
		t.Errorf("schema %s, the conventions have %s", got, semconv.SchemaURL)
	}
	return traces.ResourceSpans().At(0).Resource().Attributes()
}

// conventional are the names that the published conventions have, by the constants of their Go package.
var conventional = []string{
	string(semconv.ServiceNameKey), string(semconv.K8SNamespaceNameKey), string(semconv.ErrorTypeKey), string(semconv.McpMethodNameKey),
	string(semconv.GenAIOperationNameKey), string(semconv.GenAIProviderNameKey), string(semconv.GenAIConversationIDKey), string(semconv.GenAIAgentIDKey),
	string(semconv.GenAIAgentNameKey), string(semconv.GenAIRequestModelKey), string(semconv.GenAIRequestMaxTokensKey), string(semconv.GenAIRequestStreamKey),
	string(semconv.GenAIResponseIDKey), string(semconv.GenAIResponseFinishReasonsKey), string(semconv.GenAIResponseTimeToFirstChunkKey),
	string(semconv.GenAIUsageInputTokensKey), string(semconv.GenAIUsageOutputTokensKey), string(semconv.GenAIUsageCacheReadInputTokensKey),
	string(semconv.GenAIUsageCacheCreationInputTokensKey), string(semconv.GenAIUsageReasoningOutputTokensKey), string(semconv.GenAISystemInstructionsKey),
	string(semconv.GenAIInputMessagesKey), string(semconv.GenAIOutputMessagesKey), string(semconv.GenAIToolDefinitionsKey), string(semconv.GenAIToolNameKey),
	string(semconv.GenAIToolTypeKey), string(semconv.GenAIToolCallIDKey), string(semconv.GenAIToolCallArgumentsKey), string(semconv.GenAIToolCallResultKey),
}

// operations are the conventions' own values.
var operations = []string{
	semconv.GenAIOperationNameChat.Value.AsString(), semconv.GenAIOperationNameExecuteTool.Value.AsString(), semconv.GenAIOperationNameInvokeAgent.Value.AsString(),
}

func TestNamesAreThoseOfTheConventions(t *testing.T) {
	raw := export(t, contents(t, story.Delegated), true)
	raw = append(raw, export(t, contents(t, story.Sample), true)...)
	used := map[string]bool{}
	check := func(where string, attributes pcommon.Map) {
		for name := range attributes.All() {
			used[name] = true
			if !slices.Contains(conventional, name) && !regexp.MustCompile(`^agentloop\.[a-z_0-9.-]+$`).MatchString(name) {
				t.Errorf("%s: %q is neither of the conventions nor our own", where, name)
			}
		}
	}
	check("resource", resourceOf(t, raw))
	for _, s := range spans(t, raw) {
		check(s.Name(), s.Attributes())
		operation, _ := s.Attributes().Get("gen_ai.operation.name")
		if !slices.Contains(operations, operation.AsString()) || !strings.HasPrefix(s.Name(), operation.AsString()+" ") {
			t.Errorf("span %q of operation %q", s.Name(), operation.AsString())
		}
	}
	for _, name := range conventional {
		if !used[name] && name != "gen_ai.usage.reasoning.output_tokens" {
			t.Errorf("no span has %s", name)
		}
	}
}

// TestContentIsAskedFor keeps prompts, answers, arguments and results out of what was not asked for.
func TestContentIsAskedFor(t *testing.T) {
	words := []string{"How much is", "It is 42", "The tool says", "careful assistant", "adding", "noted"}
	bare, whole := export(t, contents(t, story.Sample), false), export(t, contents(t, story.Sample), true)
	for _, word := range words {
		if bytes.Contains(bare, []byte(word)) {
			t.Errorf("%q is in an export without contents", word)
		}
		if !bytes.Contains(whole, []byte(word)) {
			t.Errorf("%q is not in an export with contents", word)
		}
	}
	for _, secret := range []string{"hunter2", "sk-live-123456", "user:pass"} {
		if bytes.Contains(whole, []byte(secret)) {
			t.Errorf("%q was not redacted", secret)
		}
	}
}

// TestContentHasTheConventionsForm checks the messages against the rules of the conventions' JSON schemas.
func TestContentHasTheConventionsForm(t *testing.T) {
	required := map[string][]string{
		"text": {"content"}, "reasoning": {"content"}, "tool_call": {"name"}, "tool_call_response": {"response"}, "uri": {"modality", "uri"}, "blob": {"modality", "content"},
	}
	seen := map[string]bool{}
	parts := func(where string, list []map[string]any) {
		for _, part := range list {
			kind, _ := part["type"].(string)
			seen[kind] = true
			if kind == "" {
				t.Errorf("%s: a part has no type", where)
			}
			for _, name := range required[kind] {
				if _, ok := part[name]; !ok {
					t.Errorf("%s: a %s part has no %s", where, kind, name)
				}
			}
		}
	}
	for _, s := range spans(t, export(t, contents(t, story.Sample), true)) {
		for _, name := range []string{"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.definitions"} {
			attribute, ok := s.Attributes().Get(name)
			if !ok {
				continue
			}
			var list []map[string]any
			if err := json.Unmarshal([]byte(attribute.Str()), &list); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch name {
			case "gen_ai.system_instructions":
				parts(name, list)
			case "gen_ai.tool.definitions":
				for _, tool := range list {
					if tool["type"] != "function" || tool["name"] == "" || tool["parameters"] == nil {
						t.Errorf("tool %v", tool)
					}
				}
			default:
				for _, m := range list {
					if !slices.Contains([]any{"user", "assistant", "tool"}, m["role"]) || name == "gen_ai.output.messages" && m["finish_reason"] == nil {
						t.Errorf("%s: message %v", name, m)
					}
					raw, err := json.Marshal(m["parts"])
					if err != nil {
						t.Fatal(err)
					}
					var inner []map[string]any
					if err := json.Unmarshal(raw, &inner); err != nil {
						t.Fatal(err)
					}
					parts(name, inner)
				}
			}
		}
	}
	for _, kind := range []string{"text", "reasoning", "tool_call", "tool_call_response"} {
		if !seen[kind] {
			t.Errorf("no part is a %s", kind)
		}
	}
}

// full breaks after some bytes, as a connection does.
type full struct{ left int }

var errFull = errors.New("broken pipe")

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestAFailedExportFails says so, and what it wrote has fewer spans than it says.
func TestAFailedExportFails(t *testing.T) {
	from := contents(t, story.Sample)
	if _, err := otlp.Export(t.Context(), from, options, &full{}); !errors.Is(err, errFull) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := story.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := trajectory.NewReader(&away{s.Log}, s.Store)
	var out bytes.Buffer
	if _, err := otlp.Export(ctx, r.Contents(from.Index()), options, &out); err == nil || len(spans(t, out.Bytes())) > 0 {
		t.Errorf("error %v, after %s", err, out.String())
	}
}

// away is a log whose streams cannot be read any more.
type away struct{ trajectory.Log }

func (a *away) Read(context.Context, runevent.Stream, int64, func(runevent.Record) error) error {
	return runevent.ErrUnavailable
}

// TestAnEmptySession is a line without spans: a file without a line says nothing.
func TestAnEmptySession(t *testing.T) {
	raw := export(t, contents(t, func(context.Context) (*story.Story, error) { return story.New(), nil }), false)
	strict(t, raw)
	if total, ok := resourceOf(t, raw).Get("agentloop.export.spans"); !ok || total.Int() != 0 || len(spans(t, raw)) > 0 {
		t.Errorf("an empty session: %s", raw)
	}
}
