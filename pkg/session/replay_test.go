package session_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// The points at which a worker can die, as the loop names them.
var points = []string{
	"run.before-start", "run.started", "prompt.stored", "prompt.accepted", "context.stored", "context.captured", "guard.passed", "model.answered",
	"model.failed", "action.stored", "model.completed", "tool.before-start", "tool.started", "tool.returned", "tool.result", "state.stored",
	"state.committed", "run.before-end", "run.ended",
}

// host executes runs of one session on in-memory twins, with a model that follows the prompts and tools that answer.
type host struct {
	t     *testing.T
	log   *memlog.Log
	store *memstore.Store
	now   time.Time
	ids   int
	// chaos is called at every point of the loop.
	chaos func(string)
	// failures is how many requests fail before the model answers.
	failures int
}

func newHost(t *testing.T) *host {
	t.Helper()
	return &host{t: t, log: memlog.New(), store: memstore.New(), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), chaos: func(string) {}}
}

var stream = runevent.Stream{Class: runevent.ClassRun, Namespace: "ns", Session: "sess", Key: runevent.MainAgent}

func number(n int64) *int64 { return &n }

// Stream answers the newest prompt: "tools" calls two tools once, "cap" declares too large a cap, anything else is
// answered with a text.
func (h *host) Stream(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
	asked := newest(req.Messages)
	body := fmt.Appendf(nil, `{"max_tokens":%d}`, req.MaxTokens)
	if strings.Contains(asked, "cap") {
		body = []byte(`{"max_tokens":9000}`)
	}
	if err := req.Guard(body); err != nil {
		return provider.Response{}, &provider.Error{Class: provider.ClassRejected, Err: err}
	}
	if h.failures > 0 {
		h.failures--
		return provider.Response{}, &provider.Error{Class: provider.ClassOverloaded, HTTPStatus: 529, Detail: []byte("busy"), Usage: &message.Usage{Input: number(1)}, Err: errors.New("busy")}
	}
	answer := message.Message{Role: message.RoleAssistant, StopReason: message.StopStop, Usage: &message.Usage{Input: number(10), Output: number(5)}}
	if strings.Contains(asked, "tools") {
		answer.StopReason = message.StopToolUse
		answer.Content = message.Blocks(
			message.Block{Type: message.BlockToolCall, ID: "a", Name: "short", Arguments: []byte(`{}`)},
			message.Block{Type: message.BlockToolCall, ID: "b", Name: "long", Arguments: []byte(`{}`)},
		)
		return provider.Response{ResponseID: "r", HTTPStatus: 200, Message: answer}, nil
	}
	onDelta(provider.Delta{Kind: provider.DeltaText, Text: "done", At: h.now, ResponseID: "r"})
	answer.Content = message.Blocks(message.Block{Type: message.BlockText, Text: "done"})
	return provider.Response{ResponseID: "r", HTTPStatus: 200, Message: answer}, nil
}

// newest is the prompt that waits for an answer; empty once something was answered. The runtime context beside it is
// passed over.
func newest(messages []message.Message) string {
	for i := len(messages) - 1; i >= 0 && messages[i].Role == message.RoleUser; i-- {
		if text := messages[i].PlainText(); !strings.Contains(text, "context of") {
			return text
		}
	}
	return ""
}

// Connect implements agent.Tools.
func (h *host) Connect(context.Context, *session.ToolSet) (tool.Set, error) { return h, nil }

// Definitions implements tool.Set.
func (h *host) Definitions() []tool.Definition {
	define := func(name string, repeatable bool) tool.Definition {
		return tool.Definition{Tool: message.Tool{Name: name, Parameters: []byte(`{"type":"object"}`)}, Server: "srv", Idempotent: repeatable, RetrySafe: repeatable}
	}
	return []tool.Definition{define("short", true), define("long", false)}
}

// Call implements tool.Set; one result is too long to stand in an entry.
func (h *host) Call(_ context.Context, call tool.Call, _ func(string)) (tool.Result, error) {
	text := "3"
	if call.Name == "long" {
		text = strings.Repeat("x", runevent.MaxInline+1)
	}
	return tool.Result{Content: message.Text(text), Audit: tool.Audit{Server: "srv", Outcome: "ok"}}, nil
}

// Close implements tool.Set.
func (h *host) Close() error { return nil }

func (h *host) deps() agent.Deps {
	return agent.Deps{
		Log: h.log, Store: h.store, Model: h, Tools: h, Logger: slog.New(slog.DiscardHandler), Chaos: func(point string) { h.chaos(point) },
		Now:   func() time.Time { h.now = h.now.Add(time.Millisecond); return h.now },
		NewID: func() string { h.ids++; return fmt.Sprintf("exec-%d", h.ids) },
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		Live:  func(agent.Live) {},
	}
}

func (h *host) run(uid, prompt string) agent.Run {
	return agent.Run{
		Namespace: stream.Namespace, SessionUID: stream.Session, AgentKey: stream.Key, Name: "run-" + uid, UID: uid, Operation: "Prompt", Worker: "w1",
		Prompt: message.Message{Role: message.RoleUser, Content: message.Text(prompt)},
		Config: session.RunConfig{
			V: session.ObjectVersion, Operation: "Prompt", Agent: stream.Key,
			Model:    provider.Model{Provider: "p", API: provider.APIAnthropicMessages, ID: "m", ContextWindow: 64000, MaxTokens: 4096, Thinking: provider.ThinkingNone},
			Sections: []projection.Section{{Name: "project", Text: "Be brief."}}, Context: "context of " + uid,
			Limits: session.Limits{MaxTurns: 10, MaxAttempts: 5, RetryMaxAttempts: 3, RetryMaxDelaySeconds: 60},
		},
	}
}

func (h *host) execute(ctx context.Context, uid, prompt, reason string) {
	h.t.Helper()
	got, err := agent.Execute(ctx, h.deps(), h.run(uid, prompt))
	if err != nil || got.Reason != reason {
		h.t.Fatalf("run %s: %+v, %v; want reason %s", uid, got, err, reason)
	}
}

type death struct{}

// dies executes a run until it reaches a point for the nth time, where it stops as a killed process would.
func (h *host) dies(uid, prompt, point string, nth int) (died bool) {
	h.t.Helper()
	defer func() {
		h.chaos = func(string) {}
		if r := recover(); r != nil {
			if aside, ok := r.(*agent.Panic); ok {
				r = aside.Reason
			}
			if _, ok := r.(death); !ok {
				panic(r)
			}
			died = true
		}
	}()
	h.chaos = func(reached string) {
		if reached != point {
			return
		}
		if nth--; nth == 0 {
			panic(death{})
		}
	}
	h.execute(context.Background(), uid, prompt, "Completed")
	return false
}

var sameState = cmp.Options{
	cmp.Comparer(func(a, b cas.Digest) bool { return a == b }),
	cmpopts.EquateEmpty(),
}

// check folds the log of the session in every way: at each prefix the state that is opened from scratch, the one that
// is advanced entry by entry, and the one that is advanced in one go are the same, and each commit stores what was
// folded up to it.
func (h *host) check() {
	h.t.Helper()
	ctx := context.Background()
	var records []runevent.Record
	if err := h.log.Read(ctx, stream, 0, func(r runevent.Record) error { records = append(records, r); return nil }); err != nil {
		h.t.Fatal(err)
	}
	prefix, stepwise := memlog.New(), session.Empty(stream.Key)
	for i, record := range records {
		previous := runevent.Head{}
		if i > 0 {
			previous = records[i-1].Head
		}
		if _, err := prefix.Append(ctx, stream, previous, record.Raw); err != nil {
			h.t.Fatal(err)
		}
		h.checkCommit(ctx, record, &stepwise)
		if err := agent.Advance(ctx, prefix, h.store, stream, &stepwise); err != nil {
			h.t.Fatalf("advance to #%d: %v", record.Head.Sequence, err)
		}
		scratch, err := agent.LoadState(ctx, prefix, h.store, stream)
		if err != nil {
			h.t.Fatalf("load at #%d: %v", record.Head.Sequence, err)
		}
		if diff := cmp.Diff(scratch, stepwise, sameState); diff != "" {
			h.t.Fatalf("state at #%d of %s (-from scratch +entry by entry):\n%s", record.Head.Sequence, h.names(records), diff)
		}
	}
	once := session.Empty(stream.Key)
	if err := agent.Advance(ctx, h.log, h.store, stream, &once); err != nil {
		h.t.Fatal(err)
	}
	if diff := cmp.Diff(stepwise, once, sameState); diff != "" {
		h.t.Fatalf("state at the end (-entry by entry +in one go):\n%s", diff)
	}
}

// checkCommit compares what the loop stored in a commit, its own state, with what the entries before it fold to.
func (h *host) checkCommit(ctx context.Context, record runevent.Record, folded *session.State) {
	h.t.Helper()
	entry, err := runevent.Decode(record.Raw)
	if err != nil {
		h.t.Fatal(err)
	}
	if entry.Event.Kind != runevent.KindStateCommitted {
		return
	}
	scope := cas.Scope{Namespace: stream.Namespace, Session: stream.Session}
	raw, err := h.store.Get(ctx, scope, *entry.Event.Evidence.StateRef)
	if err != nil {
		h.t.Fatal(err)
	}
	stored, err := session.DecodeObject[session.AgentState](raw)
	if err != nil {
		h.t.Fatal(err)
	}
	history, err := cas.ReadList(ctx, h.store, scope, stored.History)
	if err != nil {
		h.t.Fatal(err)
	}
	type facts struct {
		LastSequence    int64
		Run             session.RunCounters
		History         []cas.MessageRef
		Recent          []string
		Snapshots       []cas.Ref
		Sections        *cas.Ref
		Earlier         session.Totals
		RunUID, RunName string
	}
	want := facts{folded.Head.Sequence, folded.Counters(), folded.History, folded.Recent, folded.Snapshots, folded.Sections, folded.Earlier, folded.Run.UID, folded.Run.Name}
	got := facts{stored.LastSequence, stored.Run, history, stored.Recent, stored.Snapshots, stored.Sections, stored.Earlier, stored.RunUID, stored.RunName}
	if diff := cmp.Diff(want, got, sameState); diff != "" {
		h.t.Fatalf("the commit at #%d (-folded +stored):\n%s", entry.Sequence, diff)
	}
}

func (h *host) names(records []runevent.Record) string {
	var names []string
	for _, record := range records {
		entry, err := runevent.Decode(record.Raw)
		if err != nil {
			h.t.Fatal(err)
		}
		name := string(entry.Event.Type)
		if entry.Event.Kind != "" {
			name = string(entry.Event.Kind)
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// TestReplay folds the logs of undisturbed runs, of every way to end, and of sessions with several runs.
func TestReplay(t *testing.T) {
	cases := map[string]func(h *host){
		"one answer": func(h *host) { h.execute(context.Background(), "u1", "hi", "Completed") },
		"tools, then another": func(h *host) {
			h.execute(context.Background(), "u1", "tools", "Completed")
			h.execute(context.Background(), "u2", "hi", "Completed")
		},
		"a failed attempt": func(h *host) { h.failures = 1; h.execute(context.Background(), "u1", "hi", "Completed") },
		"a model that stays away, then another run": func(h *host) {
			h.failures = 3
			h.execute(context.Background(), "u1", "hi", "ProviderUnavailable")
			h.execute(context.Background(), "u2", "hi", "Completed")
		},
		"a refused body, then another run": func(h *host) {
			h.execute(context.Background(), "u1", "cap", "OutputCapRejected")
			h.execute(context.Background(), "u2", "hi", "Completed")
		},
		"a refused body behind an answered one": func(h *host) {
			h.execute(context.Background(), "u1", "hi", "Completed")
			h.execute(context.Background(), "u2", "cap", "OutputCapRejected")
		},
		"over budget": func(h *host) {
			h.execute(context.Background(), "u1", strings.Repeat("x", 300000), "ContextBudgetExceeded")
		},
		"cancelled while the model is asked, then another run": func(h *host) {
			ctx, cancel := context.WithCancelCause(context.Background())
			h.chaos = func(point string) {
				if point == "guard.passed" {
					cancel(agent.ErrCancelled)
				}
			}
			h.failures = 1
			h.execute(ctx, "u1", "hi", "Cancelled")
			h.chaos = func(string) {}
			h.execute(context.Background(), "u2", "tools", "Completed")
		},
		"sealed before it began, then another run": func(h *host) {
			if _, err := agent.Seal(context.Background(), h.deps(), h.run("u1", "hi"), agent.ErrCancelled); err != nil {
				h.t.Fatal(err)
			}
			h.execute(context.Background(), "u2", "hi", "Completed")
		},
		"more messages than a segment holds": func(h *host) {
			for i := range 9 {
				h.execute(context.Background(), fmt.Sprintf("u%d", i), "tools", "Completed")
			}
		},
	}
	for name, story := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			story(h)
			h.check()
		})
	}
}

// TestReplayAfterDeath kills a worker at every point, twice in a row, and folds what is there after each death and at
// the end.
func TestReplayAfterDeath(t *testing.T) {
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			h := newHost(t)
			h.failures = 1
			if !h.dies("u1", "tools", point, 1) {
				t.Fatalf("the run never comes to %s", point)
			}
			h.check()
			h.dies("u1", "tools", point, 2)
			h.check()
			if point != "run.ended" {
				h.execute(context.Background(), "u1", "tools", "Completed")
			}
			h.execute(context.Background(), "u2", "hi", "Completed")
			h.check()
		})
	}
}

// TestReplayAfterSeal kills a worker at every point and seals the run then, as a cancel does.
func TestReplayAfterSeal(t *testing.T) {
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			h := newHost(t)
			if point == "model.failed" {
				h.failures = 1
			}
			h.dies("u1", "tools", point, 1)
			if _, err := agent.Seal(context.Background(), h.deps(), h.run("u1", "tools"), agent.ErrCancelled); err != nil {
				t.Fatal(err)
			}
			h.execute(context.Background(), "u2", "tools", "Completed")
			h.check()
		})
	}
}
