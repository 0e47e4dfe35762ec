package metrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentloop/agentloop/controllers"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// expect compares the values of some series.
func expect(t *testing.T, m *Metrics, want map[string]float64) {
	t.Helper()
	all := gathered(t, m)
	got := map[string]float64{}
	for series := range want {
		if value, ok := all[series]; ok {
			got[series] = value
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s\nall of them: %v", diff, all)
	}
}

// TestMetricsOfAStory lets the engine execute runs that end in all ways, and compares what was counted.
func TestMetricsOfAStory(t *testing.T) {
	s := newStory(t)
	s.tool = func(tool.Call) (tool.Result, error) {
		return tool.Result{Content: message.Text("3"), Audit: tool.Audit{Server: "srv", Outcome: "ok"}}, nil
	}
	s.replies = append(s.replies, callsTool(), fails(provider.ClassOverloaded), says("done"))
	s.execute(s.run("good", "add"))
	s.replies = append(s.replies, fails(provider.ClassAuth))
	s.execute(s.run("unauthorised", "go"))
	large := s.run("large", strings.Repeat("word ", 40000))
	large.Config.Compaction.Automatic = false
	s.execute(large)
	expect(t, s.metrics, map[string]float64{
		`agentloop_runs_started_total{operation=Prompt}`:                                           3,
		`agentloop_runs_ended_total{operation=Prompt,outcome=finished,reason=Completed}`:           1,
		`agentloop_runs_ended_total{operation=Prompt,outcome=failed,reason=ProviderAuthFailed}`:    1,
		`agentloop_runs_ended_total{operation=Prompt,outcome=failed,reason=ContextBudgetExceeded}`: 1,
		`agentloop_run_queue_wait_seconds{}`:                                                       3,
		`agentloop_run_duration_seconds{operation=Prompt,outcome=finished}`:                        1,
		`agentloop_worker_runs{}`: 0,
		`agentloop_budget_rejections_total{reason=ContextBudgetExceeded}`:                              1,
		`agentloop_model_requests_total{model=sonnet,outcome=ok,provider=claude,purpose=main}`:         2,
		`agentloop_model_requests_total{model=sonnet,outcome=overloaded,provider=claude,purpose=main}`: 1,
		`agentloop_model_requests_total{model=sonnet,outcome=auth,provider=claude,purpose=main}`:       1,
		`agentloop_model_requests_in_flight{}`:                                                         0,
		`agentloop_model_request_duration_seconds{model=sonnet,provider=claude}`:                       2,
		`agentloop_model_time_to_first_token_seconds{model=sonnet,provider=claude}`:                    1,
		`agentloop_model_tokens_total{kind=input,model=sonnet,provider=claude}`:                        1400,
		`agentloop_model_tokens_total{kind=output,model=sonnet,provider=claude}`:                       100,
		`agentloop_model_tokens_total{kind=cache_read,model=sonnet,provider=claude}`:                   400,
		`agentloop_model_tokens_total{kind=cache_write,model=sonnet,provider=claude}`:                  200,
		`agentloop_model_tokens_total{kind=reasoning,model=sonnet,provider=claude}`:                    40,
		`agentloop_input_estimate_ratio{model=sonnet,provider=claude}`:                                 2,
		`agentloop_tool_calls_total{kind=mcp,outcome=ok}`:                                              1,
		`agentloop_tool_call_duration_seconds{kind=mcp}`:                                               1,
		`agentloop_log_fenced_appends_total{}`:                                                         0,
	})
	all := gathered(t, s.metrics)
	if appended := all[`agentloop_log_append_duration_seconds{outcome=ok}`]; appended < 15 {
		t.Errorf("%v appends", appended)
	}
	if put := all[`agentloop_store_operation_duration_seconds{operation=put,outcome=ok}`]; put < 10 || all[`agentloop_store_bytes_total{operation=put}`] < 1000 {
		t.Errorf("%v puts", put)
	}
}

// TestMetricsOfCompaction counts a summary and what it saves.
func TestMetricsOfCompaction(t *testing.T) {
	s := newStory(t)
	for i := range 2 {
		s.replies = append(s.replies, says("fine"))
		s.execute(s.run(fmt.Sprint("old", i), strings.Repeat("word ", 6400)))
	}
	s.replies = append(s.replies, says("in short"), says("done"))
	s.execute(s.run("next", strings.Repeat("word ", 7200)))
	expect(t, s.metrics, map[string]float64{
		`agentloop_compactions_total{}`: 1,
		`agentloop_model_requests_total{model=sonnet,outcome=ok,provider=claude,purpose=summary}`: 1,
	})
	if saved := gathered(t, s.metrics)[`agentloop_compaction_saved_tokens_total{}`]; saved < 5000 {
		t.Errorf("%v tokens saved", saved)
	}
}

// TestMetricsOfTakeovers tells a lost worker from one that gave its run back.
func TestMetricsOfTakeovers(t *testing.T) {
	s := newStory(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	s.replies = append(s.replies, func(provider.Request, func(provider.Delta)) (provider.Response, error) {
		cancel(agent.ErrHandBack)
		return provider.Response{}, &provider.Error{Class: provider.ClassCancelled, Dispatched: true, Err: context.Canceled}
	})
	run := s.run("given-back", "go")
	if _, err := agent.Execute(ctx, s.deps(), run); !errors.Is(err, agent.ErrHandBack) {
		t.Fatal(err)
	}
	// The next worker is lost: another one writes first, and its next entry is refused.
	s.replies = append(s.replies, func(_ provider.Request, _ func(provider.Delta)) (provider.Response, error) {
		s.replies = append(s.replies, says("by another"))
		other := run
		other.Worker = "w3"
		s.execute(other)
		return says("too late")(provider.Request{}, func(provider.Delta) {})
	})
	if _, err := agent.Execute(t.Context(), s.deps(), run); !errors.Is(err, agent.ErrLost) {
		t.Fatal(err)
	}
	expect(t, s.metrics, map[string]float64{
		`agentloop_runs_started_total{operation=Prompt}`:                                 1,
		`agentloop_run_handbacks_total{reason=WorkerStopping}`:                           1,
		`agentloop_run_takeovers_total{}`:                                                1,
		`agentloop_log_fenced_appends_total{}`:                                           1,
		`agentloop_log_append_duration_seconds{outcome=fenced}`:                          1,
		`agentloop_runs_ended_total{operation=Prompt,outcome=finished,reason=Completed}`: 1,
		`agentloop_worker_runs{}`:                                                        0,
	})
}

// TestMetricsOfEntries counts what is told by single entries only.
func TestMetricsOfEntries(t *testing.T) {
	m := New()
	run := &agent.Run{UID: "u", Operation: agent.OperationPrompt}
	before := &session.RunProgress{UID: "u"}
	for _, event := range []runevent.Event{
		{Type: runevent.TypeRecord, Kind: runevent.KindContextRecovery},
		{Type: runevent.TypeRecord, Kind: runevent.KindRequestWaiting},
		{Type: runevent.TypeRecord, Kind: runevent.KindApproval, Decision: runevent.DecisionDenied},
		{Type: runevent.TypeModelRejected, Reason: agent.ReasonOutputCapRejected},
		{Type: runevent.TypeModelRejected, Reason: agent.ReasonCancelled},
		{Type: runevent.TypeRunHandedBack, Reason: "AwaitingApproval"},
		{Type: runevent.TypeRunFailed, Reason: "SomethingNew"},
		{Type: runevent.TypeMCPAudit, Nested: 1, Audit: []byte(`{"outcome":"timeout","durationNanos":2000000000}`)},
		{Type: runevent.TypeMCPAudit, Audit: []byte(`{"outcome":"ok"}`)},
	} {
		m.Recorded(run, runevent.Entry{Event: event}, before)
	}
	m.Refused("QueueDeadlineExceeded")
	m.StatusWritten("AgentRun", "ok", .02)
	m.SetCapacity(32)
	expect(t, m, map[string]float64{
		`agentloop_context_recoveries_total{}`:                                     1,
		`agentloop_model_request_waits_total{}`:                                    1,
		`agentloop_approvals_total{decision=denied}`:                               1,
		`agentloop_budget_rejections_total{reason=OutputCapRejected}`:              1,
		`agentloop_run_handbacks_total{reason=AwaitingApproval}`:                   1,
		`agentloop_runs_ended_total{operation=Prompt,outcome=failed,reason=other}`: 1,
		`agentloop_tool_calls_total{kind=nested,outcome=timeout}`:                  1,
		`agentloop_tool_call_duration_seconds{kind=nested}`:                        1,
		`agentloop_runs_refused_total{reason=QueueDeadlineExceeded}`:               1,
		`agentloop_status_write_duration_seconds{kind=AgentRun,outcome=ok}`:        1,
		`agentloop_worker_capacity_runs{}`:                                         32,
	})
}

// TestMetricsOfTheLeader are there where the process leads, and nowhere else.
func TestMetricsOfTheLeader(t *testing.T) {
	m := New()
	leads := false
	m.Watch(func() controllers.Vitals {
		return controllers.Vitals{Unread: 3, Oldest: 1500 * time.Millisecond, StreamDown: true}
	})
	m.Count(func(context.Context) (Counts, bool) {
		return Counts{Runs: map[string]int{"Queued": 4, "ModelCall": 2, "Dreaming": 1}, Sessions: map[string]int{"Ready": 9, "HistoryCorrupt": 1}}, leads
	})
	m.SetBacklog(&Backlog{Waiting: 5, Held: 2, Used: 1000, Limit: 4000})
	for series := range gathered(t, m) {
		if strings.HasPrefix(series, "agentloop_runs{") || strings.HasPrefix(series, "agentloop_store_available") || strings.HasPrefix(series, "agentloop_log_size") {
			t.Errorf("told by a process that does not lead: %s", series)
		}
	}
	leads = true
	expect(t, m, map[string]float64{
		`agentloop_runs{state=Queued}`: 4, `agentloop_runs{state=ModelCall}`: 2, `agentloop_runs{state=ToolCall}`: 0, `agentloop_runs{state=other}`: 1,
		`agentloop_sessions{reason=Ready}`: 9, `agentloop_sessions{reason=HistoryCorrupt}`: 1, `agentloop_sessions{reason=Suspended}`: 0,
		`agentloop_log_unread_streams{}`: 3, `agentloop_log_unread_oldest_seconds{}`: 1.5,
		`agentloop_store_available{store=objects}`: 1, `agentloop_store_available{store=events}`: 0,
		`agentloop_work_queue_items{state=waiting}`: 5, `agentloop_work_queue_items{state=held}`: 2,
		`agentloop_log_size_bytes{}`: 1000, `agentloop_log_size_limit_bytes{}`: 4000,
	})
	m.SetBacklog(nil)
	if _, told := gathered(t, m)[`agentloop_log_size_bytes{}`]; told {
		t.Error("what NATS told before it went away is told on")
	}
}

// TestStoreOutcomes keeps an object that is not there from counting as a fault of the store.
func TestStoreOutcomes(t *testing.T) {
	s := newStory(t)
	store := s.metrics.Driver(s.store)
	scope := cas.Scope{Namespace: "team", Session: "session"}
	ref, err := store.Put(t.Context(), scope, cas.MediaBlob, []byte("body"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), scope, ref); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), scope, cas.Ref{Digest: cas.Of([]byte("absent"))}); !errors.Is(err, cas.ErrNotFound) {
		t.Fatal(err)
	}
	expect(t, s.metrics, map[string]float64{
		`agentloop_store_operation_duration_seconds{operation=put,outcome=ok}`: 1, `agentloop_store_operation_duration_seconds{operation=get,outcome=ok}`: 1,
		`agentloop_store_operation_duration_seconds{operation=get,outcome=not_found}`: 1, `agentloop_store_bytes_total{operation=get}`: 4,
	})
}

// TestLabelsAreBounded meets a thousand sessions with a thousand models, whose names are of all kinds, and reasons and words
// that nobody knows.
func TestLabelsAreBounded(t *testing.T) {
	m := New()
	for i := range 1000 {
		run := &agent.Run{Namespace: fmt.Sprint("ns", i), Name: fmt.Sprint("run", i), UID: fmt.Sprint("uid", i), SessionUID: fmt.Sprint("session", i), Operation: fmt.Sprint("op", i)}
		odd := []string{"", "x\ny", strings.Repeat("x", 500), "\xff", fmt.Sprint("model", i), fmt.Sprint("模型-", i)}[i%6]
		request := provider.Request{Model: provider.Model{Provider: fmt.Sprint("provider", i), ID: odd}}
		_, answered := m.Request(t.Context(), agent.ModelRequest{Run: run, Purpose: runevent.Purpose(fmt.Sprint("purpose", i)), Estimate: 5, Request: &request})
		answered(agent.ModelAnswer{Response: provider.Response{Message: message.Message{Usage: usage()}}, First: time.Now()})
		_, answered = m.Request(t.Context(), agent.ModelRequest{Run: run, Purpose: runevent.PurposeMain, Estimate: 5, Request: &request})
		answered(agent.ModelAnswer{Err: &provider.Error{Class: provider.Class(fmt.Sprint("class", i))}})
		_, gave := m.Tool(t.Context(), agent.ToolCall{Run: run, Definition: tool.Definition{Tool: message.Tool{Name: fmt.Sprint("tool", i)}, Server: fmt.Sprint("server", i)}})
		gave(agent.ToolAnswer{Result: tool.Result{Audit: tool.Audit{Outcome: fmt.Sprint("outcome", i)}}})
		m.Recorded(run, runevent.Entry{Event: runevent.Event{Type: runevent.TypeRunStarted}}, nil)
		m.Recorded(run, runevent.Entry{Event: runevent.Event{Type: runevent.TypeRunFailed, Reason: fmt.Sprint("reason", i)}}, &session.RunProgress{UID: run.UID})
		m.Recorded(run, runevent.Entry{Event: runevent.Event{Type: runevent.TypeRunHandedBack, Reason: fmt.Sprint("wait", i)}}, nil)
		m.Recorded(run, runevent.Entry{Event: runevent.Event{Type: runevent.TypeRecord, Kind: runevent.KindApproval, Decision: runevent.Decision(fmt.Sprint("d", i))}}, nil)
		m.Refused(fmt.Sprint("refusal", i))
		m.StatusWritten(fmt.Sprint("Kind", i), "ok", .1)
	}
	all := gathered(t, m)
	if len(all) > 600 {
		t.Errorf("%d series", len(all))
	}
	for series := range all {
		for i := range 1000 {
			for _, word := range []string{"ns", "run", "uid", "session", "server", "tool", "op", "reason", "refusal", "wait", "class", "Kind", "purpose", "outcome"} {
				if strings.Contains(series, fmt.Sprintf("=%s%d,", word, i)) || strings.Contains(series, fmt.Sprintf("=%s%d}", word, i)) {
					t.Fatalf("a label is a name of somebody: %s", series)
				}
			}
		}
	}
	if all[`agentloop_model_requests_total{model=other,outcome=ok,provider=other,purpose=other}`] == 0 {
		t.Error("what is beyond the bound is not counted")
	}
}

// TestNamesFollowTheConventions asks Prometheus's own linter.
func TestNamesFollowTheConventions(t *testing.T) {
	s := newStory(t)
	s.replies = append(s.replies, says("done"))
	s.execute(s.run("one", "go"))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.metrics)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
