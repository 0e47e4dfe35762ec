package atif

import (
	"context"
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/trajectory"
)

// document is a run that is being written.
type document struct {
	x   *export
	run *trajectory.Execution
	// calls are the calls by the response that has them; delegated are the runs by the call that began them.
	calls     map[string][]*trajectory.Entry
	delegated map[string][]*trajectory.Execution
	count     int
	totals    totals
	tally
	empty bool
}

// tally says what of a run, or of one entry, has no step, or less than it should.
type tally struct {
	// unfinished are the requests without a response.
	unfinished                           []map[string]any
	titles, lifecycle, unreadable, stray int
}

func (t *tally) add(o tally) {
	t.unfinished = append(t.unfinished, o.unfinished...)
	t.titles, t.lifecycle, t.unreadable, t.stray = t.titles+o.titles, t.lifecycle+o.lifecycle, t.unreadable+o.unreadable, t.stray+o.stray
}

func newDocument(x *export, run *trajectory.Execution) *document {
	d := &document{x: x, run: run, calls: map[string][]*trajectory.Entry{}, delegated: map[string][]*trajectory.Execution{}}
	byInput := map[string][]*trajectory.Entry{}
	for entry := range run.Entries() {
		if entry.Type == trajectory.TypeTool || entry.Type == trajectory.TypeMCP {
			byInput[entry.InputID] = append(byInput[entry.InputID], entry)
		}
	}
	for entry := range run.Entries() {
		if entry.Type == trajectory.TypeModelOutput && entry.Purpose == purposeMain && entry.InputID != "" {
			d.calls[entry.ID] = byInput[entry.InputID]
			delete(byInput, entry.InputID)
		}
	}
	for _, left := range byInput {
		d.stray += len(left)
	}
	for _, child := range run.Children {
		if child.CallerID != "" {
			d.delegated[child.CallerID] = append(d.delegated[child.CallerID], child)
		}
	}
	return d
}

// purposeMain is the purpose of the requests of the conversation.
const purposeMain = "main"

// unrecorded stands for the agent's version when the run's configuration is not known.
const unrecorded = "unrecorded"

// agent describes the agent by its configuration and by the tools of its first request.
func (d *document) agent(ctx context.Context) (Agent, error) {
	agent := Agent{Name: d.run.Agent, Version: unrecorded}
	if d.run.Config != nil {
		agent.Version = d.run.Config.Digest.String()
	}
	if d.run.Model != nil {
		agent.ModelName = d.run.Model.ID
		agent.Extra = map[string]any{"agentloop": map[string]any{"provider": d.run.Model.Provider, "api": d.run.Model.API}}
	}
	for entry := range d.run.Entries() {
		if entry.Type != trajectory.TypeModelInput || entry.Purpose != purposeMain {
			continue
		}
		detail, err := d.x.contents.Declared(ctx, entry.ID)
		if err != nil || detail.Input == nil {
			return agent, err
		}
		for _, tool := range detail.Input.Tools {
			definition, err := encode(map[string]any{"type": "function", "function": tool})
			if err != nil {
				return agent, err
			}
			agent.ToolDefinitions = append(agent.ToolDefinitions, definition)
		}
		return agent, nil
	}
	return agent, nil
}

// steps writes the run's steps.
func (d *document) steps(ctx context.Context) error {
	entries := slices.Collect(d.run.Entries())
	made := make([]maker, len(entries))
	next := 0
	err := d.x.opts.Each(ctx, len(entries), func(ctx context.Context, i int) ([]byte, error) {
		made[i] = maker{d: d}
		step, err := made[i].step(ctx, entries[i])
		if step == nil || err != nil {
			return nil, err
		}
		if at := entries[i].CapturedAt; at != 0 {
			step.Timestamp = time.UnixMicro(int64(at)).UTC().Format("2006-01-02T15:04:05.000000Z")
		}
		return encode(step)
	}, func(step []byte) error {
		d.add(made[next].tally)
		if made[next].answered {
			d.totals.add(entries[next].Usage)
		}
		next++
		if step != nil {
			d.put(step)
		}
		return d.x.err
	})
	if err != nil {
		return err
	}
	if d.count == 0 {
		d.empty = true
		step, err := encode(Step{Source: SourceSystem, Message: Content{Text: "No step of this run was recorded."}})
		if err != nil {
			return err
		}
		d.put(step)
	}
	return d.x.err
}

// unnumbered is what an encoded step begins with that has no number yet.
const unnumbered = `{"step_id":0`

// put numbers and writes a step.
func (d *document) put(step []byte) {
	if d.count > 0 {
		d.x.raw(",")
	}
	d.count++
	d.x.raw(strings.TrimSuffix(unnumbered, "0") + strconv.Itoa(d.count))
	d.x.raw(string(step[len(unnumbered):]))
}

// maker makes the step of one entry, beside others.
type maker struct {
	d *document
	tally
	// answered says that the step is a response of the conversation.
	answered bool
}

// step is the step that an entry makes; nil when it makes none.
func (m *maker) step(ctx context.Context, entry *trajectory.Entry) (*Step, error) {
	switch {
	case entry.Event == "message.user":
		return m.prompt(ctx, entry)
	case entry.Type == trajectory.TypeModelOutput && entry.Purpose == "title":
		m.titles++
	case entry.Type == trajectory.TypeModelOutput:
		return m.response(ctx, entry)
	case entry.Type == trajectory.TypeModelInput && entry.Status != trajectory.StatusCompleted:
		m.unfinished = append(m.unfinished, map[string]any{
			"entry": entry.ID, "sequence": entry.Sequence, "turn": entry.Turn, "request": entry.RequestExecutionID, "status": entry.Status, "purpose": entry.Purpose,
		})
	case entry.Type == trajectory.TypeLifecycle && entry.Event != "body" && entry.Event != "tool.output":
		m.lifecycle++
	}
	return nil, nil //nolint:nilnil // the entry is no step of its own
}

// own is what a step says in addition.
func (m *maker) own(entry *trajectory.Entry, notices []trajectory.Notice) map[string]any {
	own := map[string]any{"entry": entry.ID, "sequence": entry.Sequence}
	if entry.Turn > 0 {
		own["turn"] = entry.Turn
	}
	if len(notices) > 0 {
		own["notices"] = notices
		m.unreadable++
	}
	return own
}

func (m *maker) prompt(ctx context.Context, entry *trajectory.Entry) (*Step, error) {
	detail, err := m.d.x.contents.Content(ctx, entry.ID)
	if err != nil {
		return nil, err
	}
	step := &Step{Source: SourceUser, Extra: map[string]any{"agentloop": m.own(entry, detail.Notices)}}
	if said, err := message.Decode(detail.Message); err == nil {
		step.Message = contentOf(said.Content)
	}
	return step, nil
}

// response is the step of a complete response, with its calls and what they returned.
func (m *maker) response(ctx context.Context, entry *trajectory.Entry) (*Step, error) {
	detail, err := m.d.x.contents.Content(ctx, entry.ID)
	if err != nil {
		return nil, err
	}
	own := m.own(entry, detail.Notices)
	once := 1
	step := &Step{Source: SourceAgent, LLMCallCount: &once, Extra: map[string]any{"agentloop": own}}
	var said message.Message
	if detail.Output != nil {
		if answer, err := message.Decode(detail.Output.Message); err == nil {
			said = answer
		}
	}
	step.Message = Content{Text: said.PlainText()}
	for key, value := range map[string]string{"request": entry.RequestExecutionID, "response": entry.ResponseID, "stopReason": entry.StopReason} {
		if value != "" {
			own[key] = value
		}
	}
	budget, err := m.input(ctx, entry, step, own)
	if err != nil {
		return nil, err
	}
	if entry.Purpose != purposeMain {
		step.Source, step.ModelName, step.ReasoningEffort = SourceSystem, "", nil
		own["purpose"] = entry.Purpose
		if entry.Usage != nil {
			own["usage"] = entry.Usage
		}
		return step, nil
	}
	step.ReasoningContent = reasoning(said)
	step.Metrics = metrics(entry.Usage, budget)
	m.answered = true
	return step, m.calls(ctx, entry, said, step)
}

// input adds to a step what its request was, and returns the request's budget.
func (m *maker) input(ctx context.Context, entry *trajectory.Entry, step *Step, own map[string]any) (any, error) {
	if entry.InputID == "" {
		return nil, nil //nolint:nilnil // no budget is known
	}
	detail, err := m.d.x.contents.Outline(ctx, entry.InputID)
	if err != nil {
		return nil, err
	}
	own["input"] = entry.InputID
	if in := detail.Input; in != nil {
		own["context"], own["inputDigest"], own["inputBytes"] = in.ContextRef.Digest, in.InputDigest, in.InputSize
		step.ModelName = in.Model.ID
		if in.Parameters.Reasoning != "" && in.Parameters.Reasoning != provider.LevelOff {
			effort, err := encode(in.Parameters.Reasoning)
			if err != nil {
				return nil, err
			}
			step.ReasoningEffort = effort
		}
	}
	if detail.Assembly == nil {
		return nil, nil //nolint:nilnil // no budget was recorded
	}
	sources := map[projection.SourceType]int{}
	for _, source := range detail.Assembly.Sources {
		sources[source.Type]++
	}
	own["sources"] = sources
	if detail.Assembly.Compaction != "" {
		own["compaction"] = detail.Assembly.Compaction
	}
	return detail.Assembly.Budget, nil
}

// reasoning joins a response's thinking, as far as it is readable.
func reasoning(m message.Message) string {
	text := ""
	for _, block := range m.Content.Blocks {
		if block.Type != message.BlockThinking || block.Thinking == "" {
			continue
		}
		if text != "" {
			text += "\n\n"
		}
		text += block.Thinking
	}
	return text
}

func metrics(u *message.Usage, budget any) *Metrics {
	m := &Metrics{Extra: map[string]any{}}
	if budget != nil {
		m.Extra["agentloop"] = map[string]any{"budget": budget}
	}
	if u != nil {
		m.PromptTokens, m.CompletionTokens, m.CachedTokens = promptTokens(u), u.Output, u.CacheRead
		if u.CacheWrite != nil {
			m.Extra["cache_creation_input_tokens"] = *u.CacheWrite
		}
		if u.Reasoning != nil {
			m.Extra["reasoning_tokens"] = *u.Reasoning
		}
		if cost, ok := new(big.Rat).SetString(u.Cost); ok {
			m.CostUSD = json.Number(decimal(cost))
		}
	}
	if u == nil && len(m.Extra) == 0 {
		return nil
	}
	return m
}

// calls adds the calls of a response and their results: those that it declares, and those that were recorded for it.
func (m *maker) calls(ctx context.Context, entry *trajectory.Entry, said message.Message, step *Step) error {
	at := map[string]int{}
	declare := func(id, name string, arguments json.RawMessage) {
		if _, known := at[id]; id == "" || known {
			return
		}
		at[id] = len(step.ToolCalls)
		step.ToolCalls = append(step.ToolCalls, ToolCall{ID: id, Name: named(name), Arguments: object(arguments)})
	}
	for _, block := range said.ToolCalls() {
		declare(block.ID, block.Name, block.Arguments)
	}
	for _, tool := range m.d.calls[entry.ID] {
		detail, err := m.d.x.contents.Content(ctx, tool.ID)
		if err != nil {
			return err
		}
		if detail.Tool == nil || tool.ToolCallID == "" {
			m.stray++
			continue
		}
		declare(tool.ToolCallID, tool.Title, detail.Tool.Parameters)
		own := m.own(tool, detail.Notices)
		own["status"] = tool.Status
		if tool.Attempts > 1 {
			own["attempts"] = tool.Attempts
		}
		if tool.Type == trajectory.TypeMCP {
			own["server"], own["audit"] = tool.Server, detail.Tool.Audit
		}
		step.ToolCalls[at[tool.ToolCallID]].Extra = map[string]any{"agentloop": own}
		m.result(tool, detail.Tool, step)
	}
	return nil
}

// result adds what a call returned. A call without a result has none.
func (m *maker) result(tool *trajectory.Entry, content *trajectory.ToolContent, step *Step) {
	result := Result{SourceCallID: tool.ToolCallID}
	if answer, err := message.Decode(content.Result); err == nil {
		c := contentOf(answer.Content)
		result.Content = &c
		result.Extra = map[string]any{"agentloop": map[string]any{"isError": answer.IsError}}
	}
	for _, child := range m.d.delegated[tool.ID] {
		result.Subagents = append(result.Subagents, SubagentRef{TrajectoryID: child.UID, SessionID: m.d.x.opts.UID})
	}
	if result.Content == nil && result.Subagents == nil {
		return
	}
	if step.Observation == nil {
		step.Observation = &Observation{Results: []Result{}}
	}
	step.Observation.Results = append(step.Observation.Results, result)
}

func named(name string) string {
	if name == "" {
		return unrecorded
	}
	return name
}

// object are a call's arguments; those that are no object stand in one.
func object(raw json.RawMessage) json.RawMessage {
	switch {
	case isObject(raw):
		return raw
	case len(raw) == 0:
		return json.RawMessage(`{}`)
	}
	return append(append(json.RawMessage(`{"_raw":`), raw...), '}')
}

// contentOf is a message's content: its text, or parts when there is an image.
func contentOf(c message.Content) Content {
	if c.IsText {
		return Content{Text: c.Text}
	}
	parts, images := []Part{}, false
	text := ""
	for _, block := range c.Blocks {
		switch block.Type {
		case message.BlockText:
			parts = append(parts, textPart(block.Text))
			text += block.Text
		case message.BlockImage:
			images = true
			parts = append(parts, imagePart(block))
		}
	}
	if !images {
		return Content{Text: text}
	}
	return Content{Parts: parts}
}

func textPart(text string) Part { return Part{Type: "text", Text: &text} }

// imagePart names an image by its stored object. What the format has no word for is said as a text.
func imagePart(block message.Block) Part {
	path := "data:" + block.MediaType + ";base64," + block.Data
	if block.Ref != nil {
		path = "agentloop-object:" + block.Ref.Digest
	}
	for _, known := range imageTypes {
		if block.MediaType == known {
			return Part{Type: "image", Source: &ImageSource{MediaType: known, Path: path}}
		}
	}
	return textPart("[" + block.MediaType + " " + path + "]")
}
