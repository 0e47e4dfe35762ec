package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// Contents and credentials of the story, none of which may be in a span unless contents are asked for; credentials never.
const (
	prompt   = "the launch code of the cathedral"
	answer   = "the answer of the oracle"
	system   = "you are the keeper of the seal"
	argument = "argument-of-the-call"
	result   = "result-of-the-call"
	password = "hunter2-very-secret"
)

// story is a session whose runs the real engine executes under a tracer.
type story struct {
	t       *testing.T
	tracer  *Tracer
	spans   *tracetest.InMemoryExporter
	log     runevent.Log
	store   *memstore.Store
	replies []func(context.Context) (provider.Response, error)
	// seen are the traceparents that models and tools were called under.
	seen []string
	ids  int
}

func newStory(t *testing.T, content bool, env map[string]string) *story {
	t.Helper()
	s := &story{t: t, log: memlog.New(), store: memstore.New(), spans: tracetest.NewInMemoryExporter()}
	var err error
	s.tracer, err = New(t.Context(), Options{
		Getenv: func(name string) string { return env[name] }, Worker: "w1", Version: "test", Content: content, Logger: slog.New(slog.DiscardHandler),
		Processor: sdktrace.NewSimpleSpanProcessor(s.spans),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *story) Stream(ctx context.Context, request provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
	if err := request.Guard(fmt.Appendf(nil, `{"max_tokens":%d}`, request.MaxTokens)); err != nil {
		return provider.Response{}, &provider.Error{Class: provider.ClassRejected, Err: err}
	}
	s.seen = append(s.seen, s.tracer.TraceParent(ctx))
	onDelta(provider.Delta{Kind: provider.DeltaText, Text: "…", At: time.Now()})
	next := s.replies[0]
	s.replies = s.replies[1:]
	return next(ctx)
}

func (s *story) Connect(context.Context, *session.ToolSet) (tool.Set, error) { return s, nil }
func (s *story) Close() error                                                { return nil }

func (s *story) Definitions() []tool.Definition {
	return []tool.Definition{{Tool: message.Tool{Name: "srv__open", Parameters: []byte(`{"type":"object"}`)}, Server: "srv"}}
}

func (s *story) Call(ctx context.Context, _ tool.Call, _ func(string)) (tool.Result, error) {
	s.seen = append(s.seen, s.tracer.TraceParent(ctx))
	return tool.Result{Content: message.Text(result), Audit: tool.Audit{Server: "srv", Outcome: "ok"}}, nil
}

func count(n int64) *int64 { return &n }

func says(context.Context) (provider.Response, error) {
	return provider.Response{HTTPStatus: 200, ResponseID: "resp", Message: message.Message{
		Role: message.RoleAssistant, StopReason: message.StopStop, Usage: &message.Usage{Input: count(7), Output: count(5), CacheRead: count(3)},
		Content: message.Blocks(message.Block{Type: message.BlockText, Text: answer}),
	}}, nil
}

func opens(context.Context) (provider.Response, error) {
	return provider.Response{HTTPStatus: 200, ResponseID: "resp", Message: message.Message{
		Role: message.RoleAssistant, StopReason: message.StopToolUse, Usage: &message.Usage{Input: count(7), Output: count(5)},
		Content: message.Blocks(message.Block{Type: message.BlockToolCall, ID: "c1", Name: "srv__open", Arguments: []byte(`{"door":"` + argument + `","password":"` + password + `"}`)}),
	}}, nil
}

func fails(class provider.Class) func(context.Context) (provider.Response, error) {
	return func(context.Context) (provider.Response, error) {
		return provider.Response{}, &provider.Error{Class: class, Dispatched: true, HTTPStatus: 401, Detail: []byte(prompt), Err: errors.New(prompt)}
	}
}

func (s *story) run(name string) agent.Run {
	model := provider.Model{Provider: "claude", API: provider.APIAnthropicMessages, ID: "sonnet", ContextWindow: 32000, MaxTokens: 4096, Thinking: provider.ThinkingNone}
	cfg := session.RunConfig{V: session.ObjectVersion, Operation: agent.OperationPrompt, Agent: runevent.MainAgent, Model: model}
	cfg.Limits = session.Limits{MaxTurns: 10, MaxAttempts: 3, RetryMaxAttempts: 2}
	cfg.Sections = sections()
	return agent.Run{
		Namespace: "team", Name: name, UID: "uid-" + name, SessionUID: "session", AgentKey: runevent.MainAgent, Operation: agent.OperationPrompt, Worker: "w1",
		Prompt: message.Message{Role: message.RoleUser, Content: message.Text(prompt)}, Config: cfg,
	}
}

func (s *story) deps() agent.Deps {
	return agent.Deps{
		Log: s.log, Store: s.store, Model: s, Tools: s, Now: time.Now, NewID: func() string { s.ids++; return fmt.Sprint("exec-", s.ids) },
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }, Live: func(agent.Live) {}, Logger: slog.New(slog.DiscardHandler),
		Observer: s.tracer,
	}
}

func (s *story) execute(run agent.Run) {
	s.t.Helper()
	if _, err := agent.Execute(s.t.Context(), s.deps(), run); err != nil {
		s.t.Fatalf("run %s: %v", run.Name, err)
	}
}

// lines are the spans in short: name, kind, what failed, and the name of the span above.
func (s *story) lines() []string {
	spans := s.spans.GetSpans()
	names := map[trace.SpanID]string{}
	for _, span := range spans {
		names[span.SpanContext.SpanID()] = span.Name
	}
	var out []string
	for _, span := range spans {
		above := "-"
		if span.Parent.SpanID().IsValid() {
			above = or(names[span.Parent.SpanID()], "elsewhere")
		}
		out = append(out, fmt.Sprintf("%s %s %q below %s", span.Name, span.SpanKind, span.Status.Description, above))
	}
	return out
}

// values are all texts of a span.
func values(span *tracetest.SpanStub) map[string]string {
	out := map[string]string{}
	for _, a := range span.Attributes {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

func (s *story) everything() string {
	var out strings.Builder
	for _, span := range s.spans.GetSpans() {
		fmt.Fprintln(&out, span.Name, span.Status.Description, span.Attributes, span.Events, span.Resource.Attributes())
	}
	return out.String()
}

// TestSpansOfARun makes one trace of a run, with a span for each request and tool call, in the words of the conventions.
func TestSpansOfARun(t *testing.T) {
	s := newStory(t, false, nil)
	s.replies = append(s.replies, opens, says)
	s.execute(s.run("one"))
	want := []string{
		`chat sonnet client "" below invoke_agent main`, `execute_tool srv__open client "" below invoke_agent main`,
		`chat sonnet client "" below invoke_agent main`, `invoke_agent main internal "" below -`,
	}
	if diff := cmp.Diff(want, s.lines()); diff != "" {
		t.Fatalf("spans (-want +got):\n%s", diff)
	}
	spans := s.spans.GetSpans()
	for _, span := range spans {
		if span.SpanContext.TraceID() != spans[0].SpanContext.TraceID() || span.EndTime.Before(span.StartTime) {
			t.Errorf("span %s: trace %s, from %s to %s", span.Name, span.SpanContext.TraceID(), span.StartTime, span.EndTime)
		}
	}
	common := map[string]string{
		"gen_ai.conversation.id": "session", "gen_ai.agent.name": "main", "k8s.namespace.name": "team", "agentloop.run.uid": "uid-one", "agentloop.run.name": "one",
	}
	model := map[string]string{"gen_ai.provider.name": "anthropic", "gen_ai.request.model": "sonnet", "agentloop.provider": "claude"}
	for i, c := range map[int][]map[string]string{
		1: {common, {
			"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "srv__open", "gen_ai.tool.call.id": "c1", "gen_ai.tool.type": "function",
			"mcp.method.name": "tools/call", "agentloop.tool.server": "srv", "agentloop.turn": "1", "agentloop.tool.attempts": "1",
		}},
		2: {common, model, {
			"gen_ai.operation.name": "chat", "gen_ai.request.stream": "true", "gen_ai.request.max_tokens": "4096", "gen_ai.response.id": "resp",
			"gen_ai.response.finish_reasons": `["stop"]`, "gen_ai.usage.input_tokens": "10", "gen_ai.usage.output_tokens": "5",
			"gen_ai.usage.cache_read.input_tokens": "3", "agentloop.request.purpose": "main", "agentloop.turn": "2", "agentloop.http_status": "200",
			"agentloop.request.execution_id": "exec-2", "agentloop.context.digest": "", "agentloop.budget.estimated_input_tokens": "", "gen_ai.response.time_to_first_chunk": "",
		}},
		3: {common, model, {
			"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.id": "session/main", "agentloop.run.status": "finished", "agentloop.run.reason": "Completed",
			"agentloop.run.operation": "Prompt", "agentloop.run.attempts": "1", "agentloop.run.turns": "2", "agentloop.run.requests": "2", "agentloop.run.tool_calls": "1",
		}},
	} {
		want := map[string]string{}
		for _, part := range c {
			for key, value := range part {
				want[key] = value
			}
		}
		got := values(&spans[i])
		for key, value := range want {
			if value == "" && got[key] != "" {
				want[key] = got[key] // not the same in every run
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", spans[i].Name, diff)
		}
	}
	// What is called is called under its own span.
	for i, parent := range s.seen {
		want := fmt.Sprintf("00-%s-%s-01", spans[i].SpanContext.TraceID(), spans[i].SpanContext.SpanID())
		if parent != want {
			t.Errorf("call %d: traceparent %s, want %s", i, parent, want)
		}
	}
}

// TestNothingSecretInSpans wants no contents in spans unless they were asked for, and no credentials even then.
func TestNothingSecretInSpans(t *testing.T) {
	for _, content := range []bool{false, true} {
		t.Run(fmt.Sprintf("content %v", content), func(t *testing.T) {
			s := newStory(t, content, nil)
			s.replies = append(s.replies, opens, says)
			s.execute(s.run("one"))
			s.replies = append(s.replies, fails(provider.ClassAuth))
			s.execute(s.run("two"))
			all := s.everything()
			for _, text := range []string{prompt, answer, system, argument, result} {
				if strings.Contains(all, text) != content {
					t.Errorf("%q is in the spans: %v, want %v", text, !content, content)
				}
			}
			if strings.Contains(all, password) {
				t.Error("a credential is in the spans")
			}
		})
	}
}

// TestContentOfSpans is in the form that the conventions give it.
func TestContentOfSpans(t *testing.T) {
	s := newStory(t, true, nil)
	s.replies = append(s.replies, opens, says)
	s.execute(s.run("one"))
	spans := s.spans.GetSpans()
	got := map[string]string{}
	for i, key := range map[int][]string{
		1: {"gen_ai.tool.call.arguments", "gen_ai.tool.call.result"}, 2: {"gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"},
	} {
		for _, k := range key {
			got[k] = values(&spans[i])[k]
		}
	}
	want := map[string]string{
		"gen_ai.tool.call.arguments": `{"door":"` + argument + `","password":"[redacted]"}`,
		"gen_ai.tool.call.result":    `"` + result + `"`,
		"gen_ai.system_instructions": `[{"type":"text","content":"<role>\n` + system + `\n</role>"}]`,
		"gen_ai.input.messages": `[{"role":"user","parts":[{"type":"text","content":"` + prompt + `"}]},` +
			`{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"srv__open","arguments":{"door":"` + argument + `","password":"[redacted]"}}]},` +
			`{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"` + result + `"}]}]`,
		"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text","content":"` + answer + `"}],"finish_reason":"stop"}]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}

// TestLargeContentIsLeftOut says how much of it there was.
func TestLargeContentIsLeftOut(t *testing.T) {
	got := resultContent(message.Text(strings.Repeat("x", maxContent)))
	if len(got) != 1 || got[0].Key != ownOmitted || got[0].Value.AsInt64() != maxContent+2 {
		t.Errorf("attributes %v", got)
	}
	images := outputContent(message.Message{Role: message.RoleUser, Content: message.Blocks(message.Block{Type: message.BlockImage, MediaType: "image/png", Data: "QUJD"})})
	if text := images[0].Value.AsString(); strings.Contains(text, "QUJD") || !strings.Contains(text, `"modality":"image"`) {
		t.Errorf("an image: %s", text)
	}
}

// TestFailedSpans say what failed in words that are no contents.
func TestFailedSpans(t *testing.T) {
	s := newStory(t, false, nil)
	s.replies = append(s.replies, fails(provider.ClassAuth))
	s.execute(s.run("one"))
	want := []string{
		`chat sonnet client "model request failed: auth (HTTP 401)" below invoke_agent main`,
		`invoke_agent main internal "the provider refused the credential; check the provider's Secret (auth)" below -`,
	}
	if diff := cmp.Diff(want, s.lines()); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if got := values(&s.spans.GetSpans()[0]); got["error.type"] != "auth" || got["agentloop.http_status"] != "401" {
		t.Errorf("request %v", got)
	}
	if got := values(&s.spans.GetSpans()[1]); got["error.type"] != "ProviderAuthFailed" {
		t.Errorf("run %v", got)
	}
}

// TestOneTraceAcrossWorkers lets one worker hand a run back and another one, with a tracer of its own, go on with it.
func TestOneTraceAcrossWorkers(t *testing.T) {
	s := newStory(t, false, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	s.replies = append(s.replies, func(context.Context) (provider.Response, error) {
		cancel(agent.ErrHandBack)
		return provider.Response{}, &provider.Error{Class: provider.ClassCancelled, Dispatched: true, Err: context.Canceled}
	})
	run := s.run("one")
	if _, err := agent.Execute(ctx, s.deps(), run); !errors.Is(err, agent.ErrHandBack) {
		t.Fatal(err)
	}
	next := newStory(t, false, nil)
	next.log, next.store, next.replies, next.ids = s.log, s.store, append(next.replies, says), 10
	run.Worker = "w2"
	next.execute(run)
	first, second := s.spans.GetSpans(), next.spans.GetSpans()
	if len(first) != 1 || len(second) != 2 {
		t.Fatalf("%d and %d spans", len(first), len(second))
	}
	of := second[1]
	if of.Name != "invoke_agent main" || first[0].Parent.SpanID() != of.SpanContext.SpanID() || first[0].SpanContext.TraceID() != of.SpanContext.TraceID() ||
		second[0].Parent.SpanID() != of.SpanContext.SpanID() || of.StartTime.After(first[0].StartTime) {
		t.Errorf("the first worker's request is below %s in %s, the run is %s in %s, from %s", first[0].Parent.SpanID(), first[0].SpanContext.TraceID(),
			of.SpanContext.SpanID(), of.SpanContext.TraceID(), of.StartTime)
	}
}

// TestTraceOfTheCaller makes the spans of a run part of the trace that its object names, if that is one.
func TestTraceOfTheCaller(t *testing.T) {
	const id, above = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for name, c := range map[string]struct {
		parent string
		want   bool
		spans  int
	}{
		"one that is recorded":     {"00-" + id + "-" + above + "-01", true, 2},
		"one that is not recorded": {"00-" + id + "-" + above + "-00", true, 0},
		"a later version":          {"cc-" + id + "-" + above + "-01-what-comes", true, 2},
		"nothing":                  {"", false, 2},
		"no trace":                 {"00-00000000000000000000000000000000-" + above + "-01", false, 2},
		"upper case":               {"00-" + strings.ToUpper(id) + "-" + above + "-01", false, 2},
		"too much":                 {"00-" + id + "-" + above + "-01-more", false, 2},
		"no version":               {"ff-" + id + "-" + above + "-01", false, 2},
		"text":                     {strings.Repeat("00-", 1000), false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t, false, nil)
			s.replies = append(s.replies, says)
			run := s.run("one")
			run.TraceParent = c.parent
			s.execute(run)
			spans := s.spans.GetSpans()
			if len(spans) != c.spans {
				t.Fatalf("%d spans, want %d", len(spans), c.spans)
			}
			// Also what is not recorded here is told to those who are called.
			if part := strings.HasPrefix(s.seen[0], "00-"+id+"-"); part != c.want {
				t.Errorf("the model is called under %s", s.seen[0])
			}
			if c.spans == 0 {
				return
			}
			if of := spans[1]; (of.SpanContext.TraceID().String() == id) != c.want || (of.Parent.SpanID().String() == above) != c.want {
				t.Errorf("the run is in %s below %s", of.SpanContext.TraceID(), of.Parent.SpanID())
			}
		})
	}
}

// TestSampling records all spans of a run or none of them.
func TestSampling(t *testing.T) {
	for sampler, c := range map[string]struct {
		argument string
		all      bool
		none     bool
	}{
		"": {"", true, false}, "always_on": {"", true, false}, "always_off": {"", false, true}, "parentbased_always_off": {"", false, true},
		"parentbased_traceidratio": {"0.5", false, false}, "traceidratio": {"0.5", false, false},
	} {
		t.Run(or(sampler, "none"), func(t *testing.T) {
			s := newStory(t, false, map[string]string{"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": c.argument})
			kept := 0
			for i := range 40 {
				s.spans.Reset()
				s.replies = append(s.replies, says)
				s.execute(s.run(fmt.Sprint("run-", i)))
				switch n := len(s.spans.GetSpans()); n {
				case 0:
				case 2:
					kept++
				default:
					t.Fatalf("%d spans of a run", n)
				}
			}
			if c.all && kept != 40 || c.none && kept != 0 || !c.all && !c.none && (kept == 0 || kept == 40) {
				t.Errorf("%d of 40 runs are recorded", kept)
			}
		})
	}
}

// TestSealedRunHasASpan also a run that is only brought to its end.
func TestSealedRunHasASpan(t *testing.T) {
	s := newStory(t, false, nil)
	if _, err := agent.Seal(t.Context(), s.deps(), s.run("one"), agent.ErrCancelled); err != nil {
		t.Fatal(err)
	}
	if got := s.lines(); !slices.Equal(got, []string{`invoke_agent main internal "cancelled on request" below -`}) {
		t.Errorf("spans %q", got)
	}
}
