package legacy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// ErrUnknown is returned when a line has the outer form of a journal line and a kind that is not known.
var ErrUnknown = errors.New("unknown kind of journal line")

// ErrMalformed is returned when bytes are no line of their file's kind.
var ErrMalformed = errors.New("malformed")

// Record is what one line says.
type Record struct {
	// Sequence is the line's own number in its journal; 0 when it has none.
	Sequence int64
	// Kind is a journal line's kind.
	Kind string
	// Items are what the line stands for: one of a journal line; of a segment its text, when it has one, and its calls.
	Items []Item
	// Payload names the payload that the line refers to and that was not handed in.
	Payload cas.Digest
}

// Item is one thing that happened, as a run event of today. Its evidence has no link.
type Item struct {
	Event runevent.Event
	// Message is, of a model action, the response.
	Message json.RawMessage
	// Model is the model's id, when the line says it.
	Model string
	// Summary is what an old tool event kept of its parameters instead of them.
	Summary string
}

// outer is what journal lines and segments have in common.
type outer struct {
	AgentID            string          `json:"agentId"`
	Owner              string          `json:"owner"`
	AgentRunID         string          `json:"agentRunId"`
	RequestExecutionID string          `json:"requestExecutionId"`
	Turn               int             `json:"turn"`
	RecordedAt         json.RawMessage `json:"recordedAt"`
	ResponseID         string          `json:"responseId"`
}

// evidence translates the outer fields. A time that cannot be read is one that was not recorded.
func (o outer) evidence() runevent.Evidence {
	e := runevent.Evidence{
		AgentID: o.AgentID, AgentRunID: o.AgentRunID, RequestExecutionID: o.RequestExecutionID, Turn: o.Turn, ResponseID: o.ResponseID,
	}
	var text string
	if json.Unmarshal(o.RecordedAt, &text) == nil {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			e.RecordedAt = at
		}
	}
	return e
}

func (o *outer) check() error {
	if o.AgentID == "" {
		o.AgentID = o.Owner
	}
	switch {
	case o.AgentID == "":
		return fmt.Errorf("%w: agentId is missing", ErrMalformed)
	case len(o.AgentID) > 253 || strings.ContainsFunc(o.AgentID, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fmt.Errorf("%w: agentId is not the key of an agent", ErrMalformed)
	case o.Owner != "" && o.Owner != o.AgentID:
		return fmt.Errorf("%w: owner and agentId differ", ErrMalformed)
	case o.Turn < 0:
		return fmt.Errorf("%w: turn is negative", ErrMalformed)
	}
	return nil
}

func decode(raw []byte, into any) error {
	if !utf8.Valid(raw) {
		return fmt.Errorf("%w: not UTF-8", ErrMalformed)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// toolFields are the fields of a call in payloads and segments.
type toolFields struct {
	CallID     string          `json:"callId"`
	ToolName   string          `json:"toolName"`
	Parameters json.RawMessage `json:"parameters"`
	Summary    string          `json:"parameterSummary"`
	Result     json.RawMessage `json:"result"`
	IsError    bool            `json:"isError"`
}

func (t toolFields) check() error {
	if t.CallID == "" || t.ToolName == "" {
		return fmt.Errorf("%w: a tool call without callId or toolName", ErrMalformed)
	}
	return nil
}

// Journal translates a line of a journal. With ErrUnknown it returns a record whose item has the line's evidence. payload is what the line's payloadRef names; nil when it has none, or when
// that is not there: the record then says what is missing.
func Journal(raw, payload []byte) (Record, error) {
	var line struct {
		outer
		Sequence   int64           `json:"sequence"`
		Kind       string          `json:"kind"`
		Payload    json.RawMessage `json:"payload"`
		PayloadRef string          `json:"payloadRef"`
	}
	if err := decode(raw, &line); err != nil {
		return Record{}, err
	}
	if err := line.check(); err != nil {
		return Record{}, err
	}
	record := Record{Sequence: line.Sequence, Kind: line.Kind, Items: []Item{{Event: runevent.Event{Evidence: line.evidence()}}}}
	if line.Kind == "" || line.Sequence < 0 {
		return Record{}, fmt.Errorf("%w: kind is missing, or sequence is negative", ErrMalformed)
	}
	if line.PayloadRef != "" {
		digest, err := cas.ParseDigest(line.PayloadRef)
		if err != nil {
			return Record{}, fmt.Errorf("%w: payloadRef: %w", ErrMalformed, err)
		}
		if payload == nil {
			record.Payload = digest
			return record, nil
		}
		line.Payload = payload
	}
	return record, record.Items[0].fill(line.Kind, line.Payload)
}

// fill takes the payload of a journal line.
func (i *Item) fill(kind string, payload []byte) error {
	event := &i.Event
	switch kind {
	case "reasoning", "body":
		var text struct {
			Text  *string `json:"text"`
			Block int     `json:"block"`
		}
		if err := decode(payload, &text); err != nil {
			return err
		}
		if text.Text == nil {
			return fmt.Errorf("%w: text is missing", ErrMalformed)
		}
		event.Type, event.Text, event.Block = runevent.TypeReasoning, *text.Text, text.Block
		if kind == "body" {
			event.Type = runevent.TypeBody
		}
		return nil
	case "toolCall", "toolResult":
		return i.tool(kind, payload)
	case "modelAction":
		return i.action(payload)
	}
	return fmt.Errorf("%w: %.64q", ErrUnknown, kind)
}

func (i *Item) tool(kind string, payload []byte) error {
	var fields toolFields
	if err := decode(payload, &fields); err != nil {
		return err
	}
	if err := fields.check(); err != nil {
		return err
	}
	event := &i.Event
	event.CallID, event.Name = fields.CallID, fields.ToolName
	if kind == "toolCall" {
		event.Type, event.Arguments, i.Summary = runevent.TypeToolCall, present(fields.Parameters), fields.Summary
		return nil
	}
	event.Type, event.IsError = runevent.TypeToolResult, fields.IsError
	event.Body = resultMessage(fields)
	return nil
}

// present is nil for JSON's null: parameters that are null were not recorded.
func present(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// resultMessage is a result as a message of today: a message stays what it is, a text becomes its content, and any other
// JSON becomes its text.
func resultMessage(fields toolFields) json.RawMessage {
	result := present(fields.Result)
	var known struct {
		Role string `json:"role"`
	}
	if result == nil || json.Unmarshal(result, &known) == nil && known.Role != "" {
		return result
	}
	var text string
	if json.Unmarshal(result, &text) != nil {
		text = string(result)
	}
	return message.Encode(message.Message{
		Role: message.RoleToolResult, ToolCallID: fields.CallID, ToolName: fields.ToolName, Content: message.Text(text), IsError: fields.IsError,
	})
}

// action takes a model action of the old form.
func (i *Item) action(payload []byte) error {
	var fields struct {
		ResponseID string          `json:"responseId"`
		Model      string          `json:"model"`
		StopReason string          `json:"stopReason"`
		Usage      *message.Usage  `json:"usage"`
		Message    json.RawMessage `json:"message"`
	}
	if err := decode(payload, &fields); err != nil {
		return err
	}
	var response struct {
		Role       string         `json:"role"`
		StopReason string         `json:"stopReason"`
		Usage      *message.Usage `json:"usage"`
	}
	if len(fields.Message) == 0 {
		return fmt.Errorf("%w: message is missing", ErrMalformed)
	}
	if err := decode(fields.Message, &response); err != nil {
		return err
	}
	if response.Role != string(message.RoleAssistant) {
		return fmt.Errorf("%w: the message of a model action is the assistant's", ErrMalformed)
	}
	event := &i.Event
	event.Type, event.Kind = runevent.TypeRecord, runevent.KindModelCompleted
	event.Usage, event.StopReason = fields.Usage, fields.StopReason
	if event.Usage == nil {
		event.Usage = response.Usage
	}
	if event.StopReason == "" {
		event.StopReason = response.StopReason
	}
	if event.Evidence.ResponseID == "" {
		event.Evidence.ResponseID = fields.ResponseID
	}
	i.Message, i.Model = fields.Message, fields.Model
	return nil
}

// Segment translates an event segment. With ErrUnknown it returns a record whose item has the segment's evidence.
func Segment(raw []byte) (Record, error) {
	var segment struct {
		outer
		Channel   string       `json:"channel"`
		Text      *string      `json:"text"`
		ToolCalls []toolFields `json:"toolCalls"`
	}
	if err := decode(raw, &segment); err != nil {
		return Record{}, err
	}
	if err := segment.check(); err != nil {
		return Record{}, err
	}
	if segment.Text == nil && len(segment.ToolCalls) == 0 {
		return Record{}, fmt.Errorf("%w: a segment without text and toolCalls", ErrMalformed)
	}
	record := Record{Kind: "segment"}
	if segment.Text != nil {
		event := runevent.Event{Evidence: segment.evidence(), Text: *segment.Text}
		switch segment.Channel {
		case "reasoning":
			event.Type = runevent.TypeReasoning
		case "body":
			event.Type = runevent.TypeBody
		default:
			record.Items = []Item{{Event: runevent.Event{Evidence: event.Evidence}}}
			return record, fmt.Errorf("%w: channel %.64q", ErrUnknown, segment.Channel)
		}
		record.Items = append(record.Items, Item{Event: event})
	}
	for _, call := range segment.ToolCalls {
		if err := call.check(); err != nil {
			return Record{}, err
		}
		record.Items = append(record.Items, Item{Event: runevent.Event{
			Type: runevent.TypeToolCall, CallID: call.CallID, Name: call.ToolName, Arguments: present(call.Parameters), Evidence: segment.evidence(),
		}})
	}
	return record, nil
}

// Parse translates a line of a file of the given kind.
func Parse(kind Kind, raw, payload []byte) (Record, error) {
	switch kind {
	case KindJournal:
		return Journal(raw, payload)
	case KindSegments:
		return Segment(raw)
	}
	if !json.Valid(raw) {
		return Record{}, fmt.Errorf("%w: not JSON", ErrMalformed)
	}
	return Record{Kind: string(kind)}, nil
}
