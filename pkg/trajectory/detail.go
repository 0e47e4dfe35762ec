package trajectory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/internal/jsonwalk"
	"github.com/agentloop/agentloop/pkg/legacy"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// ErrNoEntry is returned when an id names no entry of the session.
var ErrNoEntry = errors.New("no such entry in this session")

// ErrTooLarge is returned when a detail would be larger than the caller's limit.
var ErrTooLarge = errors.New("the entry is too large for one answer")

// Detail is one entry with what was recorded about it.
type Detail struct {
	Entry      Entry           `json:"entry"`
	Events     []RunEvent      `json:"events"`
	Input      *ModelInput     `json:"input,omitempty"`
	Assembly   *Assembly       `json:"assembly,omitempty"`
	Output     *ModelOutput    `json:"output,omitempty"`
	Text       *TextContent    `json:"text,omitempty"`
	Tool       *ToolContent    `json:"tool,omitempty"`
	Message    json.RawMessage `json:"message,omitempty"`
	Failure    *Failure        `json:"failure,omitempty"`
	AgentState *AgentState     `json:"agentState,omitempty"`
	Notices    []Notice        `json:"notices"`
}

// RunEvent is a stored run event with its place.
type RunEvent struct {
	Stream    string          `json:"stream"`
	Sequence  int64           `json:"sequence"`
	CreatedAt Time            `json:"createdAt,omitzero"`
	Event     json.RawMessage `json:"event"`
}

// ModelOutput is the complete response of a request.
type ModelOutput struct {
	ActionRef               *cas.Ref        `json:"actionRef,omitempty"`
	Message                 json.RawMessage `json:"message,omitempty"`
	Usage                   *message.Usage  `json:"usage,omitempty"`
	StopReason              string          `json:"stopReason,omitempty"`
	RawStopReason           string          `json:"rawStopReason,omitempty"`
	ResponseID              string          `json:"responseId,omitempty"`
	RequestOutputTokenLimit *int64          `json:"requestOutputTokenLimit,omitempty"`
	HTTPStatus              int             `json:"httpStatus,omitempty"`
	Unavailable             string          `json:"unavailable,omitempty"`
}

// TextContent is what was recorded of a text while it came in.
type TextContent struct {
	Text  string     `json:"text"`
	Parts []TextPart `json:"parts"`
}

// TextPart is the text of one content block.
type TextPart struct {
	Block     int    `json:"block"`
	Text      string `json:"text"`
	StartedAt Time   `json:"startedAt,omitzero"`
	EndedAt   Time   `json:"endedAt,omitzero"`
}

// Failure says why a request or a run has no response.
type Failure struct {
	Event      string `json:"event"`
	Reason     string `json:"reason,omitempty"`
	Message    string `json:"message,omitempty"`
	Class      string `json:"class,omitempty"`
	HTTPStatus int    `json:"httpStatus,omitempty"`
	Retryable  bool   `json:"retryable,omitempty"`
	Detail     string `json:"detail,omitempty"`
}

// detail is a Detail in the making.
type detail struct {
	Detail
	reader *Reader
	index  *Index
	node   *node
	window *window
	// limit bounds the model input in bytes; 0 for no bound.
	limit int64
	// extent is how much of it is read.
	extent extent
	// events are the decoded records, in order; items what imported ones say besides.
	events []runevent.Entry
	items  []legacy.Item
	// raw is the entry's stored object, when it has one. That of a model input is only made when it is wanted.
	raw    json.RawMessage
	wanted bool
}

// extent is how much of an entry is read.
type extent int

const (
	extentWhole extent = iota
	// extentContent leaves out the agent's state.
	extentContent
	// extentBare leaves out what is stored in objects of its own: texts, messages, tools and states.
	extentBare
	// extentDeclared is bare, but for the tools of a model input.
	extentDeclared
)

// Detail returns one entry of an index. An input of more than limit bytes is ErrTooLarge; 0 is no limit. Everything that
// is missing or damaged is in the notices; an error is the log's or the store's own failure.
func (r *Reader) Detail(ctx context.Context, ix *Index, id string, limit int64) (Detail, error) {
	d := &detail{reader: r, index: ix, limit: limit}
	err := d.open(ctx, id)
	return d.Detail, err
}

// Raw returns the stored object of an entry as JSON: of a model input the fixed input, of a model output the action, of
// any other entry its run events.
func (r *Reader) Raw(ctx context.Context, ix *Index, id string, limit int64) ([]byte, error) {
	d := &detail{reader: r, index: ix, limit: limit, wanted: true}
	if err := d.open(ctx, id); err != nil {
		return nil, err
	}
	if d.raw != nil {
		return d.raw, nil
	}
	events := make([]json.RawMessage, len(d.Events))
	for i, event := range d.Events {
		events[i] = event.Event
	}
	return encode(events)
}

func (d *detail) open(ctx context.Context, id string) error {
	n, ok := d.index.find(id)
	if !ok {
		return ErrNoEntry
	}
	d.node, d.window = n, newWindow(d.reader.log)
	d.window.single(ctx, append(d.index.about(n), n, d.index.failure(n))...)
	return d.fill(ctx)
}

func (d *detail) fill(ctx context.Context) error {
	d.Detail = Detail{Entry: d.node.Entry, Events: []RunEvent{}, Notices: []Notice{}}
	for _, notice := range d.index.Notices {
		if notice.EntryID == d.node.ID {
			d.Notices = append(d.Notices, notice)
		}
	}
	if err := d.readEvents(ctx); err != nil {
		return err
	}
	if len(d.events) > 0 {
		if err := d.content(ctx); err != nil {
			return err
		}
	}
	if d.extent != extentWhole {
		return nil
	}
	return d.state(ctx)
}

// readEvents reads the entry's records once more.
func (d *detail) readEvents(ctx context.Context) error {
	if d.node.file != nil {
		return d.readImported(ctx)
	}
	d.Events = slices.Grow(d.Events, len(d.node.records))
	d.events = make([]runevent.Entry, 0, len(d.node.records))
	for _, at := range d.node.records {
		sequence := at.sequence
		record, ok, err := d.window.record(ctx, d.node.stream, at)
		if err != nil {
			return err
		}
		if !ok {
			d.note(Notice{Code: CodeGap, From: sequence, To: sequence, Message: fmt.Sprintf("Record #%d is no longer there.", sequence)})
			continue
		}
		entry, err := runevent.Decode(record.Raw)
		var event json.RawMessage
		if err == nil || errors.Is(err, runevent.ErrNewerFormat) {
			event = eventOf(record.Raw)
		}
		if event == nil {
			d.note(Notice{Code: CodeDamaged, From: sequence, To: sequence, Message: fmt.Sprintf("Record #%d is damaged.", sequence)})
			continue
		}
		d.Events = append(d.Events, RunEvent{
			Stream: streamName(d.node.stream), Sequence: sequence, CreatedAt: timeOf(entry.CreatedAt), Event: event,
		})
		if err == nil {
			d.events = append(d.events, entry)
		}
	}
	return nil
}

// eventOf is the event of a stored entry as it is written there; nil when it has none. Most entries are written as Encode
// writes them; what else there is encoding/json understands.
func eventOf(raw []byte) json.RawMessage {
	c := jsonwalk.Over(raw)
	c.Object()
	var event []byte
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "event":
			event = c.Value()
		case "createdAt", "sequence":
			c.Value()
		default:
			c.Fail()
		}
	}
	if c.End() {
		return event
	}
	var outer struct {
		Event json.RawMessage `json:"event"`
	}
	if json.Unmarshal(raw, &outer) != nil {
		return nil
	}
	return outer.Event
}

// note adds a notice about the entry, once for each object.
func (d *detail) note(n Notice) {
	if !n.Digest.IsZero() && slices.ContainsFunc(d.Notices, func(o Notice) bool { return o.Code == n.Code && o.Digest == n.Digest }) {
		return
	}
	n.EntryID, n.Agent = d.node.ID, d.node.Agent
	if n.From > 0 {
		n.Stream = d.node.streamName()
	}
	d.Notices = append(d.Notices, n)
}

// content fills in what the entry's type has.
func (d *detail) content(ctx context.Context) error {
	event := &d.events[0].Event
	switch {
	case event.Kind == runevent.KindContextCaptured && event.Evidence.ContextRef != nil:
		if err := d.input(ctx, *event.Evidence.ContextRef); err != nil {
			return err
		}
		return d.answer(ctx)
	case event.Kind == runevent.KindModelCompleted:
		return d.output(ctx, event)
	case d.node.Type == TypeTool || d.node.Type == TypeMCP:
		return d.tool(ctx)
	}
	switch event.Type {
	case runevent.TypeReasoning, runevent.TypeBody, runevent.TypeToolOutput:
		text, err := d.text(ctx, d.events)
		d.Text = text
		return err
	case runevent.TypeMessageUser:
		raw, err := d.body(ctx, event.Body, event.Ref)
		d.Message = raw
		return err
	case runevent.TypeModelFailed, runevent.TypeModelRejected, runevent.TypeRunFailed, runevent.TypeRunCancelled:
		if event.Record != nil {
			if err := d.input(ctx, *event.Record); err != nil {
				return err
			}
		}
		failure, err := d.failure(ctx, event)
		d.Failure = failure
		return err
	}
	return nil
}

// failure is the node that says why an input has no response; nil when it has one, or neither.
func (ix *Index) failure(input *node) *node {
	if n, ok := ix.find(input.AnswerID); ok && n.Type != TypeModelOutput {
		return n
	}
	return nil
}

// answer adds to an unanswered input why it has no response.
func (d *detail) answer(ctx context.Context) error {
	n := d.index.failure(d.node)
	if n == nil {
		return nil
	}
	record, ok, err := d.window.record(ctx, n.stream, n.defining())
	if err != nil || !ok {
		return err
	}
	entry, err := runevent.Decode(record.Raw)
	if err != nil {
		return nil //nolint:nilerr // the failed entry itself has the notice
	}
	d.Failure, err = d.failure(ctx, &entry.Event)
	return err
}

func (d *detail) failure(ctx context.Context, event *runevent.Event) (*Failure, error) {
	failure := &Failure{
		Event: eventName(event), Reason: event.Reason, Message: event.Message, Class: event.Class, HTTPStatus: event.HTTPStatus,
		Retryable: event.Retryable,
	}
	if event.Detail == nil || d.extent >= extentBare {
		return failure, nil
	}
	raw, notice, err := d.reader.bytes(ctx, d.index.Scope, *event.Detail)
	if notice != nil {
		d.note(*notice)
	}
	failure.Detail = string(raw)
	return failure, err
}

// body returns JSON that stands inline or in an object; nil with a notice when the object cannot be read.
func (d *detail) body(ctx context.Context, inline json.RawMessage, ref *cas.Ref) (json.RawMessage, error) {
	if inline != nil || ref == nil || d.extent >= extentBare {
		return inline, nil
	}
	raw, notice, err := d.reader.bytes(ctx, d.index.Scope, *ref)
	switch {
	case err != nil:
		return nil, err
	case notice != nil:
		d.note(*notice)
		return nil, nil
	case !json.Valid(raw):
		d.note(Notice{Code: CodeNewObject, Digest: ref.Digest, Message: "The stored body is not JSON."})
		return nil, nil
	}
	return raw, nil
}

// output fills in a complete response.
func (d *detail) output(ctx context.Context, event *runevent.Event) error {
	if d.node.file != nil {
		d.importedOutput(event)
		return nil
	}
	if event.PayloadRef == nil {
		return nil
	}
	out := &ModelOutput{
		ActionRef: event.PayloadRef, Usage: event.Usage, StopReason: event.StopReason, ResponseID: event.Evidence.ResponseID,
		RequestOutputTokenLimit: event.RequestOutputTokenLimit, HTTPStatus: event.HTTPStatus,
	}
	d.Output = out
	if d.extent >= extentBare {
		return nil
	}
	raw, notice, err := d.reader.bytes(ctx, d.index.Scope, *event.PayloadRef)
	if err != nil {
		return err
	}
	var action session.ModelAction
	if notice == nil {
		if action, err = session.DecodeObject[session.ModelAction](raw); err == nil {
			out.Message, err = session.MessageIn(raw, 0)
		}
		if err != nil {
			notice = &Notice{Code: CodeNewObject, Digest: event.PayloadRef.Digest, Message: "The stored response has a format that this program does not know."}
		}
	}
	if notice != nil {
		d.note(*notice)
		out.Unavailable = notice.Message
		return nil
	}
	d.raw, out.RawStopReason = raw, action.RawStopReason
	evidence := event.Evidence
	if action.RequestExecutionID != evidence.RequestExecutionID || evidence.ContextRef == nil || action.ContextRef.Digest != evidence.ContextRef.Digest {
		d.note(Notice{
			Code: CodeMismatch, Digest: event.PayloadRef.Digest,
			Message: "The stored response names another request or another input than the record that it belongs to.",
		})
	}
	return nil
}

// text joins increments in the order of their blocks.
func (d *detail) text(ctx context.Context, events []runevent.Entry) (*TextContent, error) {
	out := &TextContent{Parts: []TextPart{}}
	at := map[int]int{}
	for _, entry := range events {
		event := entry.Event
		text := event.Text
		if event.TextRef != nil && d.extent < extentBare {
			raw, notice, err := d.reader.bytes(ctx, d.index.Scope, *event.TextRef)
			if err != nil {
				return nil, err
			}
			if notice != nil {
				d.note(*notice)
			}
			text = string(raw)
		}
		began := timeOf(event.Evidence.RecordedAt)
		ended := began
		if event.Evidence.EndedAt != nil {
			ended = timeOf(*event.Evidence.EndedAt)
		}
		i, ok := at[event.Block]
		if !ok {
			i = len(out.Parts)
			at[event.Block] = i
			out.Parts = append(out.Parts, TextPart{Block: event.Block, StartedAt: began})
		}
		out.Parts[i].Text += text
		out.Parts[i].EndedAt = max(out.Parts[i].EndedAt, ended)
	}
	for _, part := range out.Parts {
		out.Text += part.Text
	}
	return out, nil
}
