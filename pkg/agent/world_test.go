package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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

// world is one session on in-memory twins with a scripted model and scripted tools.
type world struct {
	t     *testing.T
	log   runevent.Log
	store cas.Store
	model *scriptedModel
	tools *scriptedTools
	clock *fakeClock
	live  []Live
	ids   int
	// calibrations is what is learnt of models; nil for nothing.
	calibrations Calibrations
	// limits are what providers allow; nil for no limits.
	limits *fakeLimits
	// approvals tell what people decide; nil when nobody can be asked.
	approvals Approvals
	// children makes the runs of subagents; nil when a run cannot delegate.
	children Children
	// chaos, when set, is called at every point of the loop.
	chaos func(string)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{
		t: t, log: memlog.New(), store: memstore.New(), model: &scriptedModel{}, tools: &scriptedTools{},
		clock: &fakeClock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
	}
}

type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	slept  []time.Duration
	onWait func(time.Duration)
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Millisecond)
	return c.now
}

func (c *fakeClock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	c.slept = append(c.slept, d)
	c.now = c.now.Add(d)
	wait := c.onWait
	c.mu.Unlock()
	if wait != nil {
		wait(d)
	}
	return ctx.Err()
}

// reply is one scripted answer: a message, an error, or a function that decides.
type reply func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error)

// scriptedModel answers each request with the next reply, after the guard has seen a body.
type scriptedModel struct {
	replies  []reply
	requests []provider.Request
	body     func(provider.Request) []byte
}

func (m *scriptedModel) Stream(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
	body := fmt.Appendf(nil, `{"max_tokens":%d}`, req.MaxTokens)
	if m.body != nil {
		body = m.body(req)
	}
	if err := req.Guard(body); err != nil {
		return provider.Response{}, &provider.Error{Class: provider.ClassRejected, Err: err}
	}
	m.requests = append(m.requests, req)
	if len(m.replies) == 0 {
		return provider.Response{}, &provider.Error{Class: provider.ClassInvalidRequest, Err: errors.New("script exhausted")}
	}
	next := m.replies[0]
	m.replies = m.replies[1:]
	return next(ctx, req, onDelta)
}

func count(n int64) *int64 { return &n }

func says(text string) reply {
	return func(_ context.Context, _ provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
		onDelta(provider.Delta{Kind: provider.DeltaText, Text: text, At: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC), ResponseID: "r"})
		return provider.Response{ResponseID: "r", HTTPStatus: 200, Message: message.Message{
			Role: message.RoleAssistant, StopReason: message.StopStop, Usage: &message.Usage{Input: count(10), Output: count(5)},
			Content: message.Blocks(message.Block{Type: message.BlockText, Text: text}),
		}}, nil
	}
}

func calls(names ...string) reply {
	return func(context.Context, provider.Request, func(provider.Delta)) (provider.Response, error) {
		var blocks []message.Block
		for i, name := range names {
			blocks = append(blocks, message.Block{Type: message.BlockToolCall, ID: fmt.Sprintf("%s-%d", name, i), Name: name, Arguments: []byte(`{"n":1}`)})
		}
		return provider.Response{ResponseID: "r", HTTPStatus: 200, Message: message.Message{
			Role: message.RoleAssistant, StopReason: message.StopToolUse, Usage: &message.Usage{Input: count(10), Output: count(5)},
			Content: message.Blocks(blocks...),
		}}, nil
	}
}

func fails(class provider.Class) reply {
	return func(context.Context, provider.Request, func(provider.Delta)) (provider.Response, error) {
		return provider.Response{}, &provider.Error{Class: class, HTTPStatus: 500, Detail: []byte("body of the error"), Err: errors.New("failed")}
	}
}

// scriptedTools is both the Tools port and the set it connects to.
type scriptedTools struct {
	definitions []tool.Definition
	call        func(ctx context.Context, call tool.Call) (tool.Result, error)
	// printing, when set, is called first with what takes a tool's output.
	printing   func(call tool.Call, say func(text string))
	connectErr error
	// onConnect, when set, is called first; its error is what connecting ends with.
	onConnect func(ctx context.Context) error
	mu        sync.Mutex
	calls     []string
}

func (s *scriptedTools) Connect(ctx context.Context, want *session.ToolSet) (tool.Set, error) {
	if s.onConnect != nil {
		if err := s.onConnect(ctx); err != nil {
			return nil, err
		}
	}
	if s.connectErr != nil {
		return nil, s.connectErr
	}
	if want == nil {
		return s, nil
	}
	served := slices.DeleteFunc(slices.Clone(want.Tools), func(d tool.Definition) bool { return d.Server == "" && len(d.Nested) == 0 }) // the others are built in
	if diff := cmp.Diff(s.definitions, served, cmpopts.EquateEmpty()); diff != "" {
		return nil, fmt.Errorf("a takeover asks for other tools than the run was started with:\n%s", diff)
	}
	return s, nil
}

func (s *scriptedTools) Definitions() []tool.Definition { return s.definitions }
func (s *scriptedTools) Close() error                   { return nil }

func (s *scriptedTools) Call(ctx context.Context, call tool.Call, onProgress func(string)) (tool.Result, error) {
	s.mu.Lock()
	s.calls = append(s.calls, call.ID)
	s.mu.Unlock()
	if s.printing != nil {
		s.printing(call, onProgress)
	}
	if s.call != nil {
		return s.call(ctx, call)
	}
	return tool.Result{Content: message.Text("result of " + call.ID), Audit: tool.Audit{Server: "srv", Outcome: "ok"}}, nil
}

func defined(name string, change ...func(*tool.Definition)) tool.Definition {
	d := tool.Definition{Tool: message.Tool{Name: name, Description: name, Parameters: []byte(`{"type":"object"}`)}, Server: "srv"}
	for _, c := range change {
		c(&d)
	}
	return d
}

func repeatable(d *tool.Definition) { d.ReadOnly, d.RetrySafe = true, true }

// answers is the usage of n requests that the scripted model answered.
func answers(n int64) session.Totals {
	return session.Totals{Requests: n, Input: count(10 * n), Output: count(5 * n)}
}

// unanswered is t with n more requests that no usage is known of.
func unanswered(t session.Totals, n int64) session.Totals {
	t.Requests += n
	t.RequestsWithoutUsage += n
	return t
}

func testModel() provider.Model {
	return provider.Model{Provider: "p", API: provider.APIAnthropicMessages, ID: "m", ContextWindow: 32000, MaxTokens: 4096, Thinking: provider.ThinkingNone}
}

func (w *world) run(uid, prompt string) Run {
	return Run{
		Namespace: "ns", Name: "run-" + uid, UID: uid, SessionUID: "sess", AgentKey: runevent.MainAgent, Operation: "Prompt", Worker: "w1",
		Prompt: message.Message{Role: message.RoleUser, Content: message.Text(prompt)},
		Config: session.RunConfig{
			V: session.ObjectVersion, Operation: "Prompt", Agent: runevent.MainAgent, Model: testModel(),
			Sections: []projection.Section{{Name: "project", Text: "Be brief."}}, Context: "cluster: test",
			Limits: session.Limits{MaxTurns: 10, MaxAttempts: 3, RetryMaxAttempts: 3, RetryMaxDelaySeconds: 60},
		},
	}
}

func (w *world) deps() Deps {
	deps := Deps{
		Log: w.log, Store: w.store, Model: w.model, Tools: w.tools, Now: w.clock.Now, Sleep: w.clock.Sleep,
		NewID: func() string { w.ids++; return fmt.Sprintf("exec-%d", w.ids) },
		Live:  func(l Live) { w.live = append(w.live, l) }, Logger: slog.New(slog.DiscardHandler), Chaos: w.chaos, Calibrations: w.calibrations, Approvals: w.approvals, Children: w.children,
	}
	if w.limits != nil {
		deps.Limits, deps.Quota = w.limits, w.limits.allowed
	}
	return deps
}

func (w *world) execute(ctx context.Context, run Run) (Result, error) {
	w.t.Helper()
	return Execute(ctx, w.deps(), run)
}

// events are the stream's entries in short: type or kind.
func (w *world) events() []string {
	w.t.Helper()
	var out []string
	for _, e := range w.entries() {
		out = append(out, short(e))
	}
	return out
}

// short is what an entry is: its kind if it has one, else its type.
func short(e runevent.Entry) string {
	if e.Event.Kind != "" {
		return string(e.Event.Kind)
	}
	return string(e.Event.Type)
}

func (w *world) entries() []runevent.Entry {
	w.t.Helper()
	var out []runevent.Entry
	prev := runevent.Head{}
	err := w.log.Read(context.Background(), w.run("x", "").Stream(), 0, func(r runevent.Record) error {
		if err := runevent.Verify(prev, r); err != nil {
			return err
		}
		prev = r.Head
		e, err := runevent.Decode(r.Raw)
		out = append(out, e)
		return err
	})
	if err != nil {
		w.t.Fatalf("read the log: %v", err)
	}
	return out
}

// state opens the session anew, as the next worker would.
func (w *world) state() (session.State, []message.Message) {
	w.t.Helper()
	l := w.opened()
	return l.state, l.history
}

func (w *world) opened() *loop {
	w.t.Helper()
	ctx := context.Background()
	state, err := LoadState(ctx, w.log, w.store, w.run("x", "").Stream())
	if err != nil {
		w.t.Fatalf("load the state: %v", err)
	}
	l := &loop{deps: w.deps(), run: w.run("x", ""), state: state}
	if err := l.load(ctx); err != nil {
		w.t.Fatalf("load the history: %v", err)
	}
	return l
}

// completed is how a run ends whose model has nothing more to do.
var completed = Result{runevent.TypeRunFinished, "Completed"}

// checkTrace compares what the session holds after some runs: the entries in short, the roles of the history, and the
// session's usage.
func (w *world) checkTrace(t *testing.T, events, history []string, usage session.Totals) {
	t.Helper()
	if diff := cmp.Diff(events, w.events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	state, got := w.state()
	if diff := cmp.Diff(history, roles(got)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(usage, state.Usage()); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

// pass lets time go by in a bubble, whose clock jumps ahead when nobody there has anything left to do.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // called in bubbles only: no real time
}
