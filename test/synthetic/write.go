package synthetic

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// Session is a session that was made up.
type Session struct {
	Log    *Log
	Scope  cas.Scope
	Inputs int

	shape   Shape
	put     cas.PutFunc
	config  cas.Ref
	tools   []message.Tool
	toolSet cas.Ref
	prompt  []projection.Section
	system  cas.Ref
	summary cas.MessageRef
	rawSum  []byte
	agents  []*writer
}

var model = provider.Model{
	Provider: "anthropic", API: provider.APIAnthropicMessages, ID: "claude-opus-4-5", ContextWindow: 200_000, MaxTokens: 64_000,
}

// New makes a session up. Its objects are put into the store, its events into a log of its own.
func New(ctx context.Context, store cas.Store, scope cas.Scope, shape Shape) (*Session, error) {
	if err := shape.validate(); err != nil {
		return nil, err
	}
	s := &Session{Log: newLog(), Scope: scope, shape: shape, put: cas.Into(store, scope)}
	if err := s.common(ctx); err != nil {
		return nil, err
	}
	for n := range shape.Agents {
		s.agents = append(s.agents, newWriter(s, n))
	}
	for run := range shape.Runs {
		for _, w := range s.agents {
			if err := w.run(ctx, run, shape.Turns); err != nil {
				return nil, fmt.Errorf("agent %s, run %d: %w", w.stream.Key, run, err)
			}
		}
	}
	return s, nil
}

// Extend adds a run of about that many events to the main agent, behind all that is there.
func (s *Session) Extend(ctx context.Context, events int) error {
	w := s.agents[0]
	return w.run(ctx, w.runs, max(events/s.shape.perTurn(), 1))
}

// common stores what all inputs share.
func (s *Session) common(ctx context.Context) error {
	s.prompt = []projection.Section{{Name: "role", Text: "You watch over services. Be brief, and say how sure you are."}, {Name: "project", Text: "Namespaces: shop, payments, search."}}
	definitions := make([]tool.Definition, 12)
	for i := range definitions {
		definitions[i] = tool.Definition{
			Tool: message.Tool{
				Name: toolName(i), Description: "Query a time series database and give the series as rows.",
				Parameters: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"A PromQL expression"},"limit":{"type":"integer"}},"required":["query"]}`),
			},
			Server: "observability", RemoteName: toolName(i), ReadOnly: true, RetrySafe: true,
		}
		s.tools = append(s.tools, definitions[i].Tool)
	}
	var err error
	if s.toolSet, err = s.object(ctx, cas.MediaToolSet, session.ToolSet{V: session.ObjectVersion, Tools: definitions}); err != nil {
		return err
	}
	if s.system, err = s.object(ctx, cas.MediaSections, session.Sections{V: session.ObjectVersion, Sections: s.prompt}); err != nil {
		return err
	}
	s.config, err = s.object(ctx, cas.MediaRunConfig, session.RunConfig{
		V: session.ObjectVersion, Operation: "Prompt", Agent: runevent.MainAgent, Model: model, MaxOutputTokens: 4096, Sections: s.prompt, ToolSet: &s.toolSet,
		Limits: session.Limits{MaxTurns: s.shape.Turns, MaxAttempts: 3},
	})
	if err != nil {
		return err
	}
	s.rawSum = message.Encode(message.Message{Role: message.RoleUser, Content: message.Text("Summary of what came before: all services were well.")})
	ref, err := s.put(ctx, cas.MediaMessage, s.rawSum)
	s.summary = cas.MessageRef{Digest: ref.Digest}
	return err
}

func (s *Session) object(ctx context.Context, mediaType string, object any) (cas.Ref, error) {
	raw, err := session.EncodeObject(object)
	if err != nil {
		return cas.Ref{}, err
	}
	return s.put(ctx, mediaType, raw)
}

func toolName(i int) string { return fmt.Sprintf("query_%02d", i%12) }

// writer writes the stream of one agent.
type writer struct {
	*Session
	number int
	stream runevent.Stream
	random *rand.Rand
	runs   int
	events int
	list   cas.MessageList
	refs   []cas.MessageRef
	// recent are the bytes of the last messages of refs.
	recent [][]byte
	state  *cas.Ref
}

func newWriter(s *Session, number int) *writer {
	key := runevent.MainAgent
	if number > 0 {
		key = fmt.Sprintf("worker-%02d", number)
	}
	return &writer{
		Session: s, number: number, random: rand.New(rand.NewPCG(uint64(number), 7)),
		stream: runevent.Stream{Class: runevent.ClassRun, Namespace: s.Scope.Namespace, Session: s.Scope.Session, Key: key},
	}
}

// turn is one request of a run that is being written.
type turn struct {
	run, number int
	uid, name   string
	last        bool
	context     cas.Ref
	action      cas.Ref
	calls       []string
}

// run writes the next run.
func (w *writer) run(ctx context.Context, run, turns int) error {
	w.runs++
	t := turn{run: run, uid: fmt.Sprintf("%08d-0000-4000-8000-%012d", w.number, run), name: fmt.Sprintf("sweep-%s-%d", w.stream.Key, run)}
	raw := message.Encode(message.Message{Role: message.RoleUser, Content: message.Text("Look at every shard and say what is slow.")})
	ref, err := w.put(ctx, cas.MediaMessage, raw)
	if err != nil {
		return err
	}
	if err := w.add(t, 0, runevent.Event{Type: runevent.TypeRunStarted, RunName: t.name, Operation: "Prompt", Attempt: 1, Worker: "worker-0", Config: &w.config}); err != nil {
		return err
	}
	if err := w.add(t, 0, runevent.Event{Type: runevent.TypeMessageUser, Body: raw, Ref: &ref}); err != nil {
		return err
	}
	w.remember(cas.MessageRef{Digest: ref.Digest}, raw)
	for t.number = 1; t.number <= turns; t.number++ {
		t.last = t.number == turns
		if err := w.turn(ctx, t); err != nil {
			return fmt.Errorf("turn %d: %w", t.number, err)
		}
	}
	t.number--
	return w.add(t, 1, runevent.Event{Type: runevent.TypeRunFinished, Reason: "Completed", Turns: turns})
}

// turn writes one request with its response, its calls and its committed state.
func (w *writer) turn(ctx context.Context, t turn) error {
	var err error
	if t.context, err = w.capture(ctx, t); err != nil {
		return err
	}
	w.Inputs++
	if err := w.add(t, 0.05, runevent.Event{Type: runevent.TypeRecord, Kind: runevent.KindContextCaptured, Purpose: runevent.PurposeMain}); err != nil {
		return err
	}
	raw, err := w.answer(ctx, &t)
	if err != nil {
		return err
	}
	step := session.Step{Turn: t.number, RequestExecutionID: t.request(), ContextRef: &t.context, Action: &t.action}
	first := session.InContainer(t.action.Digest, 0)
	step.Messages = append(step.Messages, session.StepMessage{Ref: &first})
	raws := [][]byte{raw}
	for i, call := range t.calls {
		result, err := w.call(t, i, call)
		if err != nil {
			return err
		}
		step.Messages = append(step.Messages, session.StepMessage{Inline: result})
		raws = append(raws, result)
	}
	return w.commit(ctx, t, step, raws)
}

func (t turn) request() string { return fmt.Sprintf("request-%s-%d", t.uid, t.number) }

// capture stores the fixed input: a summary, and as many of the last messages as the wanted size takes.
func (w *writer) capture(ctx context.Context, t turn) (cas.Ref, error) {
	from, size := len(w.recent), 0
	for from > 0 && size < w.shape.Input {
		from--
		size += len(w.recent[from])
	}
	w.recent = w.recent[from:]
	first := len(w.refs) - len(w.recent)
	sources := []projection.Source{}
	refs := w.refs[first:]
	raws := w.recent
	if first > 0 {
		sources = append(sources, projection.Source{Type: projection.SourceCompaction, CheckpointID: "cp-1", MessageIndex: first, SummarizedBefore: first})
		refs = append([]cas.MessageRef{w.summary}, refs...)
		raws = append([][]byte{w.rawSum}, raws...)
	}
	for i := first; i < len(w.refs); i++ {
		sources = append(sources, projection.Source{Type: projection.SourceHistory, MessageIndex: i})
	}
	list, err := cas.BuildListAt(ctx, w.put, max(first-1, 0)%cas.SegmentLength, refs, &w.list)
	if err != nil {
		return cas.Ref{}, err
	}
	input := session.AppendInput(nil, projection.RenderSystem(w.prompt), raws, w.tools)
	snapshot := session.ContextSnapshot{
		V: session.ObjectVersion, Purpose: runevent.PurposeMain, Model: session.ModelIdentity{Provider: model.Provider, API: model.API, ID: model.ID},
		System: &w.system, Tools: &w.toolSet, Messages: list, Parameters: session.Parameters{MaxTokens: 4096},
		InputDigest: cas.Of(input), InputSize: int64(len(input)),
		Assembly: session.AssemblyRecord{
			HistoryMessageCount: len(w.refs), Sources: session.PackSources(sources), Budget: w.budget(int64(len(input) / 4)), Estimator: "heuristic", State: w.state, Dispatched: true,
		},
	}
	for _, section := range w.prompt {
		snapshot.Assembly.Admitted.Sections = append(snapshot.Assembly.Admitted.Sections, session.AdmittedSection{ID: section.Name, Digest: cas.Of([]byte(section.Text))})
		snapshot.Assembly.Rendered.SectionIDs = append(snapshot.Assembly.Rendered.SectionIDs, section.Name)
	}
	return w.object(ctx, cas.MediaContext, snapshot)
}

func (w *writer) budget(tokens int64) budget.ContextBudget {
	limit := int64(4096)
	return budget.ContextBudget{
		Provider: model.Provider, Model: model.ID, ContextWindow: model.ContextWindow, MessageTokens: tokens, EstimatedInputTokens: tokens, ReservedOutputTokens: limit,
		RequestOutputTokenLimit: &limit, SafetyTokens: 4096, InputLimit: 191_808, RemainingInputTokens: 191_808 - tokens, Fits: tokens <= 191_808,
	}
}

// answer writes the response: increments of reasoning and text, and the complete one.
func (w *writer) answer(ctx context.Context, t *turn) ([]byte, error) {
	text, thought := w.prose(w.shape.Text), w.prose(w.shape.Text/2)
	input, output := int64(w.shape.Input/4), int64(len(text)/4)
	answer := message.Message{
		Role: message.RoleAssistant, StopReason: message.StopStop, Usage: &message.Usage{Input: &input, Output: &output},
		Content: message.Blocks(message.Block{Type: message.BlockThinking, Text: thought}, message.Block{Type: message.BlockText, Text: text}),
	}
	if !t.last {
		answer.StopReason = message.StopToolUse
		for i := range w.shape.Tools {
			id := fmt.Sprintf("toolu_%02d_%05d_%03d_%02d", w.number, t.run, t.number, i)
			t.calls = append(t.calls, id)
			answer.Content.Blocks = append(answer.Content.Blocks, message.Block{Type: message.BlockToolCall, ID: id, Name: toolName(i), Arguments: arguments(i)})
		}
	}
	response := fmt.Sprintf("msg_%02d_%05d_%03d", w.number, t.run, t.number)
	for i, kind := range []runevent.Type{runevent.TypeReasoning, runevent.TypeBody} {
		whole := []string{thought, text}[i]
		for part := range w.shape.Increments {
			piece := whole[part*len(whole)/w.shape.Increments : (part+1)*len(whole)/w.shape.Increments]
			moment := 0.1 + 0.15*float64(i) + 0.15*float64(part)/float64(w.shape.Increments)
			if err := w.add(*t, moment, runevent.Event{Type: kind, Block: i, Text: piece, Evidence: runevent.Evidence{ResponseID: response}}); err != nil {
				return nil, err
			}
		}
	}
	var err error
	t.action, err = w.object(ctx, cas.MediaModelAction, session.ModelAction{
		V: session.ObjectVersion, RequestExecutionID: t.request(), Turn: t.number, ContextRef: t.context, ResponseID: response, RawStopReason: "end_turn", Message: answer,
	})
	if err != nil {
		return nil, err
	}
	limit := int64(4096)
	err = w.add(*t, 0.45, runevent.Event{
		Type: runevent.TypeRecord, Kind: runevent.KindModelCompleted, Purpose: runevent.PurposeMain, PayloadRef: &t.action, Usage: answer.Usage,
		StopReason: string(answer.StopReason), RequestOutputTokenLimit: &limit, HTTPStatus: 200, Evidence: runevent.Evidence{ResponseID: response},
	})
	return message.Encode(answer), err
}

func arguments(i int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"query":"shard_lag{shard=\"%d\"}","limit":%d}`, i, i))
}

// call writes one tool call and returns its result message.
func (w *writer) call(t turn, i int, id string) ([]byte, error) {
	failed := w.random.IntN(40) == 0
	result := message.Encode(message.Message{Role: message.RoleToolResult, ToolCallID: id, ToolName: toolName(i), IsError: failed, Content: message.Text(w.prose(w.shape.Text))})
	from := 0.5 + 0.45*float64(i)/float64(len(t.calls))
	length := 0.4 / float64(len(t.calls))
	for part, event := range []runevent.Event{
		{Type: runevent.TypeToolCall, Arguments: arguments(i)},
		{Type: runevent.TypeToolStarted, Attempt: 1},
		{Type: runevent.TypeMCPAudit, Audit: json.RawMessage(`{"server":"observability","method":"tools/call","outcome":"ok"}`)},
		{Type: runevent.TypeToolResult, IsError: failed, Body: result},
	} {
		event.CallID, event.Name, event.Server = id, toolName(i), "observability"
		if event.Type == runevent.TypeToolResult {
			event.Server = ""
		}
		if err := w.add(t, from+length*float64(part)/3, event); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// commit stores the state behind a step and writes its entry.
func (w *writer) commit(ctx context.Context, t turn, step session.Step, raws [][]byte) error {
	list, err := cas.BuildList(ctx, w.put, w.refs, &w.list)
	if err != nil {
		return err
	}
	w.list = list
	ref, err := w.object(ctx, cas.MediaState, session.AgentState{
		V: session.ObjectVersion, Agent: w.stream.Key, RunUID: t.uid, RunName: t.name, History: list, Step: step, LastSequence: int64(w.events),
		Run:   session.RunCounters{Attempt: 1, Config: &w.config, StartedAt: w.shape.Begin, Accepted: true, Turn: t.number, Requests: t.number},
		Model: session.ModelIdentity{Provider: model.Provider, API: model.API, ID: model.ID},
	})
	if err != nil {
		return err
	}
	w.state = &ref
	for i, message := range step.StepRefs(ref.Digest) {
		w.remember(message, raws[i])
	}
	return w.add(t, 0.98, runevent.Event{Type: runevent.TypeRecord, Kind: runevent.KindStateCommitted})
}

func (w *writer) remember(ref cas.MessageRef, raw []byte) {
	w.refs = append(w.refs, ref)
	w.recent = append(w.recent, raw)
}

// add writes an event at a moment of its turn, from 0 to 1.
func (w *writer) add(t turn, moment float64, event runevent.Event) error {
	turns := float64(w.shape.Runs * w.shape.Turns)
	whole := (float64(t.run*w.shape.Turns+max(t.number-1, 0)) + moment) / turns
	at := w.shape.at(whole).Add(-time.Duration(w.number) * w.shape.Skew)
	if w.number == 0 && t.run < w.shape.Untimed {
		at = time.Unix(int64(w.events), 0).UTC()
	}
	evidence := &event.Evidence
	evidence.AgentID, evidence.AgentRunID, evidence.RecordedAt, evidence.StateRef = w.stream.Key, t.uid, at, w.state
	if t.number > 0 && event.Type != runevent.TypeRunFinished {
		evidence.RequestExecutionID, evidence.Turn = t.request(), t.number
		if !t.context.IsZero() {
			evidence.ContextRef = &t.context
		}
	}
	w.events++
	lose := w.number > 0 && w.shape.LoseEvery > 0 && w.events%w.shape.LoseEvery == 0
	return w.Log.add(w.stream, runevent.Entry{CreatedAt: at.Add(time.Millisecond), Event: event}, lose)
}

// prose is made-up text of about so many bytes.
func (w *writer) prose(size int) string {
	var text strings.Builder
	for text.Len() < size {
		text.WriteString(words[w.random.IntN(len(words))])
		text.WriteByte(' ')
	}
	return text.String()
}

var words = strings.Fields(`the shard lags behind its leader because the queue of writes grew faster than it was drained and
	latency of payments rose to 41 ms at 08:02 while cart stayed at 3 ms error budget 99.95 pool 8/8 waiting 131 replica primary`)
