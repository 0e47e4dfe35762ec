package trajectory

import (
	"cmp"
	"slices"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// fact is one record that is being folded.
type fact struct {
	entry runevent.Entry
	head  runevent.Head
	at    moment
	// agent is whose record it is: of an event stream its key, of a tool's output the agent that called it.
	agent string
	// file, span and part are, of an imported record, where it stands.
	file *legacyFile
	span cas.Range
	part int
}

func (f fact) event() *runevent.Event { return &f.entry.Event }

// run is the run that the record belongs to. Imported records move no run: they may be a part of it only.
func (f fact) run() runKey {
	if f.file != nil {
		return runKey{}
	}
	return runKey{agent: f.agent, uid: f.entry.Event.Evidence.AgentRunID}
}

// request is the dispatch that the record belongs to.
func (f fact) request() requestKey {
	e := f.entry.Event.Evidence
	key := requestKey{run: e.AgentRunID, request: e.RequestExecutionID}
	if e.ContextRef != nil {
		key.context = e.ContextRef.Digest
	}
	return key
}

func (f fact) tool() toolKey {
	e := f.entry.Event.Evidence
	return toolKey{run: e.AgentRunID, request: e.RequestExecutionID, call: f.entry.Event.CallID}
}

// fold takes one readable record.
func (b *Builder) fold(s *stream, f fact) {
	if ref := f.event().Evidence.StateRef; ref != nil {
		s.stateRef = ref
	}
	if s.began == 0 {
		s.began = f.at.at
	}
	b.ensureRun(s, f)
	switch event := f.event(); event.Type {
	case runevent.TypeRunStarted:
		b.runStarted(s, f)
	case runevent.TypeRunFinished, runevent.TypeRunFailed, runevent.TypeRunCancelled:
		b.runEnded(s, f)
	case runevent.TypeMessageUser:
		b.userMessage(s, f)
	case runevent.TypeReasoning, runevent.TypeBody, runevent.TypeToolOutput:
		b.text(s, f)
	case runevent.TypeToolCall, runevent.TypeToolStarted, runevent.TypeToolResult, runevent.TypeToolUnknown, runevent.TypeMCPAudit:
		b.tool(s, f)
	case runevent.TypeModelRejected, runevent.TypeModelFailed:
		b.modelFailed(s, f)
	case runevent.TypeSubagentStarted:
		b.parents[event.Agent] = s.name.Key
		b.lifecycle(s, f)
	case runevent.TypeRecord:
		b.record(s, f)
	default:
		b.lifecycle(s, f)
	}
}

func (b *Builder) record(s *stream, f fact) {
	switch f.event().Kind {
	case runevent.KindContextCaptured:
		b.captured(s, f)
	case runevent.KindModelCompleted:
		b.completed(s, f)
	case runevent.KindStateCommitted:
		at := b.lifecycle(s, f)
		if ref := f.event().Evidence.StateRef; ref != nil {
			s.objects.add(ref.Digest, at)
		}
	default:
		b.lifecycle(s, f)
	}
}

// node makes the entry that a record defines.
func (b *Builder) node(s *stream, f fact, kind Type) node {
	event := f.event()
	n := node{stream: s.name, first: f.head.Sequence, records: []recordAt{{f.head.Sequence, f.head.Position}}, changed: b.changedAt(f.head), stateRef: s.stateRef}
	n.Entry = Entry{
		ID: entryID(s.name, f.head.Sequence), Agent: f.agent, Type: kind, Event: eventName(event), Sequence: f.head.Sequence,
		Turn: event.Evidence.Turn, RequestExecutionID: event.Evidence.RequestExecutionID, ResponseID: event.Evidence.ResponseID,
		Purpose: string(event.Purpose), CapturedAt: f.at.at, StartedAt: f.at.at, ClockAdjusted: f.at.adjusted, Title: eventName(event),
	}
	if uid := event.Evidence.AgentRunID; uid != "" {
		n.Run = &RunName{UID: uid}
		if r := b.runs[f.run()]; r != nil {
			n.Run.Name = r.Name
		}
	}
	if f.file != nil {
		n.file, n.part, n.spans, n.ImportedFrom = f.file, f.part, []cas.Range{f.span}, f.file.Path
	}
	s.entries++
	return n
}

func eventName(event *runevent.Event) string {
	if event.Type == runevent.TypeRecord {
		return string(event.Kind)
	}
	return string(event.Type)
}

// lifecycle lists a record that the viewer hides and the export has.
func (b *Builder) lifecycle(s *stream, f fact) int {
	n := b.node(s, f, TypeLifecycle)
	n.Hidden = true
	n.ToolCallID = f.event().CallID
	switch event := f.event(); {
	case event.Kind == runevent.KindApproval && event.Type == runevent.TypeRecord:
		n.Title, n.Server = approvalTitle(event), event.Server
	case event.Type == runevent.TypeRunHandedBack && event.Reason != "":
		n.Title += ": " + event.Reason
	case event.Type == runevent.TypeSubagentStarted && event.Agent != "":
		n.Title += ": " + event.Agent
	case event.Type == runevent.TypeSubagentFinished && event.Agent != "":
		n.Title += ": " + event.Agent + ", " + cmp.Or(event.Reason, "ended")
	}
	return b.place(n)
}

// approvalTitle says what was decided about a call of which tool, and by whom; of the call's arguments it says nothing.
func approvalTitle(event *runevent.Event) string {
	title := "approval"
	switch event.Decision {
	case runevent.DecisionRequested:
		title = "approval requested"
	case runevent.DecisionApproved:
		title = "approved"
	case runevent.DecisionDenied:
		title = "denied"
	case runevent.DecisionExpired:
		title = "approval expired"
	}
	if event.Approver != "" {
		title += " by " + event.Approver
	}
	if event.Name != "" {
		title += ": " + event.Name
	}
	return title
}

// unknown lists a record of a newer format.
func (b *Builder) unknown(s *stream, entry runevent.Entry, head runevent.Head) {
	n := b.node(s, b.fact(s, entry, head), TypeUnknown)
	b.place(n)
	b.notice(Notice{
		Code: CodeUnknown, Stream: streamName(s.name), From: head.Sequence, To: head.Sequence, EntryID: n.ID,
		Message: "A record has a format that this program does not know. It is listed and not interpreted.",
	})
}

// ensureRun makes a run known by its first record, whichever that is.
func (b *Builder) ensureRun(s *stream, f fact) {
	key := f.run()
	if key.uid == "" || b.runs[key] != nil || s.name.Class != runevent.ClassRun {
		return
	}
	b.runs[key] = &run{
		Run:     Run{UID: key.uid, Agent: key.agent, Status: "running", StartedAt: f.at.at, Name: f.event().RunName},
		started: -1, changed: b.changedAt(f.head), epoch: b.epoch,
	}
	b.order = append(b.order, key)
}

func (b *Builder) runStarted(s *stream, f fact) {
	event := f.event()
	at := b.lifecycle(s, f)
	if b.runs[f.run()] == nil {
		return
	}
	b.settleOpen(f, StatusUnfinished)
	r := b.editRun(f.run(), f.head)
	r.Name, r.Operation = event.RunName, event.Operation
	r.Attempts = max(r.Attempts, event.Attempt)
	if r.started < 0 {
		r.started = at
	}
	if event.Config != nil && r.config == nil {
		r.config = event.Config
		r.Model = b.configs[event.Config.Digest]
	}
	b.edit(at, f.head).Run.Name = event.RunName
}

func (b *Builder) runEnded(s *stream, f fact) {
	event := f.event()
	status, run := StatusCompleted, "succeeded"
	open := StatusUnfinished
	switch event.Type {
	case runevent.TypeRunFailed:
		status, run = StatusFailed, "failed"
	case runevent.TypeRunCancelled:
		status, run, open = StatusCancelled, "cancelled", StatusCancelled
	}
	at := b.lifecycle(s, f)
	b.edit(at, f.head).Status = status
	if b.runs[f.run()] == nil {
		return
	}
	b.settleOpen(f, open)
	r := b.editRun(f.run(), f.head)
	r.Status, r.Reason, r.Message, r.EndedAt = run, event.Reason, event.Message, f.at.at
}

// settleOpen ends what is still open in a run. Tools are left alone when another worker takes over: it may go on. The
// request for a title is left alone when the run sends its next one: it is answered beside the run.
func (b *Builder) settleOpen(f fact, status Status) {
	takeover, captured := f.event().Type == runevent.TypeRunStarted, f.event().Kind == runevent.KindContextCaptured
	var left []int
	for _, at := range b.runs[f.run()].open {
		n := b.nodes[at]
		switch {
		case captured && n.Purpose == string(runevent.PurposeTitle):
			left = append(left, at)
		case n.Type == TypeModelInput && n.Status == StatusPending:
			b.settleInput(at, f, status, nil)
		case n.Type == TypeModelInput:
		case takeover && (n.Type == TypeTool || n.Type == TypeMCP):
			left = append(left, at)
		case n.Status == StatusRunning || n.Status == StatusDeclared:
			b.edit(at, f.head).Status = StatusUnfinished
		}
	}
	b.editRun(f.run(), f.head).open = left
}

func (b *Builder) opened(f fact, at int) {
	if b.runs[f.run()] != nil {
		r := b.editRun(f.run(), f.head)
		r.open = append(slices.Clip(r.open), at)
	}
}

func (b *Builder) userMessage(s *stream, f fact) {
	n := b.node(s, f, TypeLifecycle)
	n.Hidden = true
	n.Bytes = sizeOf(len(f.event().Body), f.event().Ref)
	at := b.place(n)
	if ref := f.event().Ref; ref != nil {
		s.prompts = append(s.prompts, prompt{digest: ref.Digest, node: at, at: f.head.Sequence})
	}
}

// captured lists a model input. One that is still open was never answered, unless this one is asked beside it.
func (b *Builder) captured(s *stream, f fact) {
	if b.runs[f.run()] != nil {
		if f.event().Purpose != runevent.PurposeTitle {
			b.settleOpen(f, StatusUnfinished)
		}
		r := b.editRun(f.run(), f.head)
		r.Turns = max(r.Turns, f.event().Evidence.Turn)
	}
	n := b.node(s, f, TypeModelInput)
	n.Status = StatusPending
	n.model(b.runs[f.run()])
	at := b.place(n)
	s.inputs[f.request()] = at
	b.opened(f, at)
}

// model names the model of what belongs to a main request: the one that its run works with. Increments do not say what
// their request was for, but only those of main requests are recorded.
func (n *node) model(r *run) {
	if r == nil || r.Model == nil {
		return
	}
	switch {
	case n.Type == TypeReasoning:
		n.Model = r.Model.ID
	case n.Purpose == string(runevent.PurposeMain) && (n.Type == TypeModelInput || n.Type == TypeModelOutput):
		n.Model, n.Title = r.Model.ID, r.Model.ID
	}
}

// completed lists a response. Its place on the axis begins with the first text that came in for it.
func (b *Builder) completed(s *stream, f fact) {
	event, key := f.event(), f.request()
	n := b.node(s, f, TypeModelOutput)
	n.Status, n.Usage, n.StopReason = StatusCompleted, event.Usage, event.StopReason
	n.EndedAt = f.at.at
	n.Bytes = sizeOf(0, event.PayloadRef)
	n.model(b.runs[f.run()])
	if at, ok := s.texts[textKey{kind: runevent.TypeBody, request: key, response: event.Evidence.ResponseID}]; ok {
		text := b.nodes[at]
		n.first, n.CapturedAt, n.StartedAt, n.ClockAdjusted = text.first, text.CapturedAt, text.StartedAt, text.ClockAdjusted
	}
	b.settleTexts(f, StatusCompleted)
	input, known := s.inputs[key]
	if known {
		n.InputID = b.nodes[input].ID
	}
	at := b.place(n)
	s.answers[key] = at
	if event.PayloadRef != nil {
		s.objects.add(event.PayloadRef.Digest, at)
	}
	if known {
		b.settleInput(input, f, StatusCompleted, event.Usage)
		b.edit(input, f.head).AnswerID = n.ID
	}
}

// modelFailed lists a request without a response and says so at its input.
func (b *Builder) modelFailed(s *stream, f fact) {
	n := b.node(s, f, TypeLifecycle)
	n.Hidden, n.Status, n.Usage = true, StatusFailed, f.event().Usage
	if f.event().Type == runevent.TypeModelRejected {
		n.Status = StatusRejected
	}
	input, known := s.inputs[f.request()]
	if known {
		n.InputID = b.nodes[input].ID
	}
	b.place(n)
	if known {
		b.settleInput(input, f, n.Status, n.Usage)
		b.edit(input, f.head).AnswerID = n.ID
	}
	b.settleTexts(f, StatusUnfinished)
}

// settleTexts ends the increments of the dispatch that the record answers.
func (b *Builder) settleTexts(f fact, status Status) {
	evidence := f.event().Evidence
	r := b.runs[f.run()]
	if r == nil || evidence.RequestExecutionID == "" {
		return
	}
	for _, at := range r.open {
		n := b.nodes[at]
		text := n.Type == TypeReasoning || n.Type == TypeLifecycle
		if text && n.Status == StatusRunning && n.RequestExecutionID == evidence.RequestExecutionID {
			b.edit(at, f.head).Status = status
		}
	}
}

// settleInput gives a pending input its end and counts its request. One that was refused before dispatch is no request.
func (b *Builder) settleInput(at int, f fact, status Status, usage *message.Usage) {
	if b.nodes[at].Status != StatusPending {
		return
	}
	n := b.edit(at, f.head)
	n.Status = status
	if n.Run == nil || status == StatusRejected || n.Purpose != string(runevent.PurposeMain) || b.runs[f.run()] == nil {
		return
	}
	r := b.editRun(f.run(), f.head)
	r.Requests++
	if usage == nil || (usage.Input == nil && usage.Output == nil) {
		r.RequestsWithoutUsage++
	}
	r.Usage = addUsage(r.Usage, usage)
}

// addUsage sums counts; one that nobody reported stays absent. The cost of several responses is not summed here.
func addUsage(total, one *message.Usage) *message.Usage {
	if one == nil {
		return total
	}
	if total == nil {
		total = &message.Usage{}
	}
	return &message.Usage{
		Input: addCount(total.Input, one.Input), Output: addCount(total.Output, one.Output),
		CacheRead: addCount(total.CacheRead, one.CacheRead), CacheWrite: addCount(total.CacheWrite, one.CacheWrite),
		Reasoning: addCount(total.Reasoning, one.Reasoning),
	}
}

func addCount(a, b *int64) *int64 {
	if b == nil {
		return a
	}
	sum := *b
	if a != nil {
		sum += *a
	}
	return &sum
}

// sizeOf is the size of a content that stands inline or in an object.
func sizeOf(inline int, ref *cas.Ref) int64 {
	if inline > 0 || ref == nil {
		return int64(inline)
	}
	return ref.Size
}
