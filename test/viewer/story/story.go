// Package story makes sessions for tests of what reads them: the real agent loop writes to a log and a store in memory,
// with a scripted model, scripted tools and a clock of its own.
//
// Guarantees: the same story gives the same bytes; a story's log and store hold only what the loop itself wrote, apart
// from what a test adds by Append.
package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

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

// The session that a story is about.
const (
	Namespace = "team"
	Session   = "0d6f2a54-7f0c-4c52-9d0e-6a3b1c8e5f27"
)

// Story is one session in the making.
type Story struct {
	Log   *memlog.Log
	Store cas.Store

	clock *clock
	ids   int
	runs  int
}

// New returns an empty session.
func New() *Story {
	return &Story{Log: memlog.New(), Store: memstore.New(), clock: &clock{now: time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)}}
}

// Scope is the session's place in the store.
func (s *Story) Scope() cas.Scope { return cas.Scope{Namespace: Namespace, Session: Session} }

// Now is the story's clock, which moves on with every look at it.
func (s *Story) Now() time.Time { return s.clock.Now() }

// Stream is an agent's event stream.
func Stream(key string) runevent.Stream {
	return runevent.Stream{Class: runevent.ClassRun, Namespace: Namespace, Session: Session, Key: key}
}

// clock moves on by 10 ms with every look at it.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time { return c.advance(10 * time.Millisecond) }

func (c *clock) advance(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}

// Run is one run of the story.
type Run struct {
	// Agent is the agent's key; main when empty.
	Agent  string
	Prompt string
	// Replies answer the run's model requests in turn.
	Replies []Reply
	// Tools are declared, and answer with Results by tool name.
	Tools   []tool.Definition
	Results map[string]tool.Result
	// Sections are the system prompt.
	Sections []projection.Section
	// Change may change the run before it is executed.
	Change func(*agent.Run)
	// Chaos is called at every point of the loop.
	Chaos func(point string)
}

// Reply is one scripted answer of the model.
type Reply func(s *Story, deltas func(provider.Delta)) (provider.Response, error)

// Do executes a run to its end and returns what ended it.
func (s *Story) Do(ctx context.Context, run Run) (agent.Result, error) {
	s.runs++
	return s.Resume(ctx, run)
}

// Resume goes on with the latest run, as another worker would.
func (s *Story) Resume(ctx context.Context, run Run) (agent.Result, error) {
	key := run.Agent
	if key == "" {
		key = runevent.MainAgent
	}
	executed := agent.Run{
		Namespace: Namespace, Name: fmt.Sprintf("run-%d", s.runs), UID: fmt.Sprintf("00000000-0000-4000-8000-%012d", s.runs), SessionUID: Session,
		AgentKey: key, Operation: "Prompt", Worker: "worker-1",
		Prompt: message.Message{Role: message.RoleUser, Content: message.Text(run.Prompt)},
		Config: session.RunConfig{
			V: session.ObjectVersion, Operation: "Prompt", Agent: key, Model: Model(), Sections: run.Sections,
			Limits: session.Limits{MaxTurns: 20, MaxAttempts: 3, RetryMaxAttempts: 2, RetryMaxDelaySeconds: 60},
		},
	}
	if run.Change != nil {
		run.Change(&executed)
	}
	tools := &toolset{definitions: run.Tools, results: run.Results, clock: s.clock}
	return agent.Execute(ctx, agent.Deps{
		Log: s.Log, Store: s.Store, Model: &model{story: s, replies: run.Replies}, Tools: tools, Now: s.clock.Now,
		Sleep: func(ctx context.Context, d time.Duration) error { s.clock.advance(d); return ctx.Err() },
		NewID: func() string { s.ids++; return fmt.Sprintf("exec-%d", s.ids) },
		Live:  func(agent.Live) {}, Logger: slog.New(slog.DiscardHandler), Chaos: run.Chaos,
	}, executed)
}

// Append adds an event to a stream, as a writer of its own.
func (s *Story) Append(ctx context.Context, stream runevent.Stream, event runevent.Event) (runevent.Record, error) {
	w, _, err := runevent.OpenWriter(ctx, s.Log, runevent.WriterConfig{Stream: stream, Now: s.clock.Now, Put: s.put})
	if err != nil {
		return runevent.Record{}, err
	}
	_, record, err := w.Append(ctx, event)
	return record, err
}

// Put stores an object of the session.
func (s *Story) put(ctx context.Context, mediaType string, data []byte) (cas.Ref, error) {
	return s.Store.Put(ctx, s.Scope(), mediaType, data)
}

// Model is the model that runs work with.
func Model() provider.Model {
	return provider.Model{
		Provider: "scripted", API: provider.APIAnthropicMessages, ID: "story-1", ContextWindow: 32000, MaxTokens: 4096, Thinking: provider.ThinkingNone,
	}
}

// model answers requests with the replies in turn.
type model struct {
	story   *Story
	replies []Reply
}

// Stream implements provider.Streamer.
func (m *model) Stream(_ context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
	if err := req.Guard(fmt.Appendf(nil, `{"max_tokens":%d}`, req.MaxTokens)); err != nil {
		return provider.Response{}, &provider.Error{Class: provider.ClassRejected, Err: err}
	}
	if len(m.replies) == 0 {
		return provider.Response{}, &provider.Error{Class: provider.ClassInvalidRequest, Err: errors.New("the story has no more replies")}
	}
	next := m.replies[0]
	m.replies = m.replies[1:]
	return next(m.story, onDelta)
}

// Says answers with a text, after reasoning when there is some.
func Says(thinking, text string) Reply {
	return func(s *Story, deltas func(provider.Delta)) (provider.Response, error) {
		id := s.responseID()
		m := message.Message{Role: message.RoleAssistant, StopReason: message.StopStop, Usage: usage(100, 20)}
		var increments []provider.Delta
		if thinking != "" {
			increments = halves(provider.DeltaThinking, len(m.Content.Blocks), thinking)
			m.Content.Blocks = append(m.Content.Blocks, message.Block{Type: message.BlockThinking, Thinking: thinking})
		}
		increments = append(increments, halves(provider.DeltaText, len(m.Content.Blocks), text)...)
		m.Content.Blocks = append(m.Content.Blocks, message.Block{Type: message.BlockText, Text: text})
		s.stream(id, increments, deltas)
		return provider.Response{ResponseID: id, HTTPStatus: 200, RawStopReason: "end_turn", Message: m}, nil
	}
}

// Calls answers with tool calls: names and their arguments in turn.
func Calls(namesAndArguments ...string) Reply {
	return func(s *Story, _ func(provider.Delta)) (provider.Response, error) {
		id := s.responseID()
		m := message.Message{Role: message.RoleAssistant, StopReason: message.StopToolUse, Usage: usage(100, 30)}
		for i := 0; i+1 < len(namesAndArguments); i += 2 {
			m.Content.Blocks = append(m.Content.Blocks, message.Block{
				Type: message.BlockToolCall, ID: fmt.Sprintf("%s-call-%d", id, i/2), Name: namesAndArguments[i], Arguments: json.RawMessage(namesAndArguments[i+1]),
			})
		}
		return provider.Response{ResponseID: id, HTTPStatus: 200, RawStopReason: "tool_use", Message: m}, nil
	}
}

// Unreported is a reply whose provider reports no usage.
func Unreported(reply Reply) Reply {
	return func(s *Story, deltas func(provider.Delta)) (provider.Response, error) {
		response, err := reply(s, deltas)
		response.Message.Usage = nil
		return response, err
	}
}

// Fails streams a part of a text and then fails.
func Fails(class provider.Class, partial string) Reply {
	return func(s *Story, deltas func(provider.Delta)) (provider.Response, error) {
		id := s.responseID()
		s.stream(id, halves(provider.DeltaText, 0, partial), deltas)
		return provider.Response{}, &provider.Error{
			Class: class, HTTPStatus: 529, ResponseID: id, RetryAfter: 2 * time.Second, Detail: []byte("overloaded"), Err: errors.New("the provider is overloaded"),
		}
	}
}

// halves is a text in two increments; none for no text.
func halves(kind provider.DeltaKind, block int, text string) []provider.Delta {
	if text == "" {
		return nil
	}
	half := len(text) / 2
	return []provider.Delta{{Kind: kind, Block: block, Text: text[:half]}, {Kind: kind, Block: block, Text: text[half:]}}
}

// stream sends increments, half a second between them. The clock stands at the end of the response before the first is
// sent: increments are stored while others are read, and a clock that moved meanwhile would tell every time something else.
func (s *Story) stream(id string, increments []provider.Delta, deltas func(provider.Delta)) {
	const pace = 500 * time.Millisecond
	begun := s.clock.advance(time.Duration(len(increments)) * pace).Add(-time.Duration(len(increments)) * pace)
	for i, d := range increments {
		d.At, d.ResponseID = begun.Add(time.Duration(i+1)*pace), id
		deltas(d)
	}
}

func (s *Story) responseID() string {
	s.ids++
	return fmt.Sprintf("resp-%d", s.ids)
}

func usage(input, output int64) *message.Usage { return &message.Usage{Input: &input, Output: &output} }

// toolset is the tools of a run.
type toolset struct {
	definitions []tool.Definition
	results     map[string]tool.Result
	clock       *clock
}

// Connect implements agent.Tools.
func (t *toolset) Connect(context.Context, *session.ToolSet) (tool.Set, error) { return t, nil }

// Definitions implements tool.Set.
func (t *toolset) Definitions() []tool.Definition { return t.definitions }

// Close implements tool.Set.
func (t *toolset) Close() error { return nil }

// Call implements tool.Set.
func (t *toolset) Call(_ context.Context, call tool.Call, _ func(string)) (tool.Result, error) {
	t.clock.advance(time.Second)
	result, ok := t.results[call.Name]
	if !ok {
		return tool.Result{Content: message.Text("no result for " + call.Name), IsError: true}, nil
	}
	return result, nil
}

// Tool declares a tool of a server, or a built-in one when server is empty.
func Tool(name, server string) tool.Definition {
	return tool.Definition{
		Tool:   message.Tool{Name: name, Description: "Does " + name + ".", Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
		Server: server,
	}
}

// Result is a text result; of a server's tool with its audit.
func Result(text, server string) tool.Result {
	result := tool.Result{Content: message.Text(text)}
	if server != "" {
		result.Audit = tool.Audit{Server: server, Method: "tools/call", Outcome: "ok", Duration: time.Second, Bytes: int64(len(text))}
	}
	return result
}
