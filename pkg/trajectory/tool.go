package trajectory

import (
	"context"
	"encoding/json"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// ToolContent is one tool call with what is known of its executions and its result.
type ToolContent struct {
	CallID string `json:"callId"`
	Name   string `json:"name"`
	Server string `json:"server,omitempty"`
	// Parameters are the call's arguments; absent when they were not recorded.
	Parameters json.RawMessage `json:"parameters,omitempty"`
	// ParameterSummary is what an old event kept of its parameters.
	ParameterSummary string `json:"parameterSummary,omitempty"`
	// Supplemented says that the parameters are an imported segment's, because the call's own events have none.
	Supplemented *Supplement `json:"supplemented,omitempty"`
	// Result is the result message; absent when there is none.
	Result  json.RawMessage `json:"result,omitempty"`
	IsError bool            `json:"isError,omitempty"`
	// Whole names all of the text of a result that was cut; see Reader.WholeText.
	Whole    *cas.Ref          `json:"whole,omitempty"`
	Audit    []json.RawMessage `json:"audit,omitempty"`
	Attempts []ToolAttempt     `json:"attempts"`
	// Nested are the calls that the call's executions made themselves, in the order of their starts.
	Nested []NestedCall `json:"nested,omitempty"`
	Output *TextContent `json:"output,omitempty"`
	// Approvals say that a person was asked whether the call may be made, and what was decided, in that order.
	Approvals []Approval `json:"approvals,omitempty"`
	// CallerID is the model output that declared the call.
	CallerID    string `json:"callerId,omitempty"`
	Unavailable string `json:"unavailable,omitempty"`
}

// Approval is a question to people about a call, or the answer.
type Approval struct {
	// Decision is requested, approved, denied or expired.
	Decision string `json:"decision"`
	At       Time   `json:"at,omitzero"`
	// Until is when the call counts as denied that nobody has decided about; absent for never, and in answers.
	Until Time `json:"until,omitzero"`
	// Approver is who decided, Reason what they said about it.
	Approver string `json:"approver,omitempty"`
	Reason   string `json:"reason,omitempty"`
	EntryID  string `json:"entryId"`
}

// Supplement is the line of an imported file that something was taken from.
type Supplement struct {
	File    string `json:"file"`
	Line    int64  `json:"line"`
	EntryID string `json:"entryId"`
}

// ToolAttempt is one execution of a call.
type ToolAttempt struct {
	Attempt   int  `json:"attempt"`
	StartedAt Time `json:"startedAt,omitzero"`
	// Unknown says that it was interrupted and may have taken effect.
	Unknown bool `json:"unknown,omitempty"`
}

// NestedCall is a call that code made.
type NestedCall struct {
	// Number counts the calls of one execution from 1; Attempt is the execution.
	Number     int             `json:"number"`
	Attempt    int             `json:"attempt"`
	Name       string          `json:"name"`
	Server     string          `json:"server,omitempty"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
	StartedAt  Time            `json:"startedAt,omitzero"`
	// EndedAt and Audit are absent when the end was not recorded: the call may have taken effect.
	EndedAt Time            `json:"endedAt,omitzero"`
	Audit   json.RawMessage `json:"audit,omitempty"`
}

// nested takes a record of a call that the call made itself.
func (d *detail) nested(ctx context.Context, out *ToolContent, event runevent.Event) error {
	attempt, at := max(len(out.Attempts), 1), timeOf(event.Evidence.RecordedAt)
	switch event.Type {
	case runevent.TypeToolStarted:
		parameters, err := d.body(ctx, event.Arguments, event.ArgumentsRef)
		out.Nested = append(out.Nested, NestedCall{
			Number: event.Nested, Attempt: attempt, Name: event.Name, Server: event.Server, Parameters: parameters, StartedAt: at,
		})
		return err
	case runevent.TypeMCPAudit:
		for i := range out.Nested {
			if one := &out.Nested[i]; one.Number == event.Nested && one.Attempt == attempt {
				one.EndedAt, one.Audit = at, event.Audit
			}
		}
	}
	return nil
}

// tool fills in a tool call out of its records.
func (d *detail) tool(ctx context.Context) error {
	out := &ToolContent{CallID: d.node.ToolCallID, Name: d.node.Title, Server: d.node.Server, Attempts: []ToolAttempt{}, CallerID: d.caller()}
	d.Tool = out
	for _, entry := range d.events {
		event := entry.Event
		if event.Nested > 0 {
			if err := d.nested(ctx, out, event); err != nil {
				return err
			}
			continue
		}
		var err error
		switch event.Type {
		case runevent.TypeToolCall:
			out.Parameters, err = d.body(ctx, event.Arguments, event.ArgumentsRef)
		case runevent.TypeToolStarted:
			out.Attempts = append(out.Attempts, ToolAttempt{Attempt: max(event.Attempt, 1), StartedAt: timeOf(event.Evidence.RecordedAt)})
		case runevent.TypeToolUnknown:
			if n := len(out.Attempts); n > 0 {
				out.Attempts[n-1].Unknown = true
			}
		case runevent.TypeMCPAudit:
			if event.Audit != nil {
				out.Audit = append(out.Audit, event.Audit)
			}
		case runevent.TypeToolResult:
			out.IsError, out.Whole = event.IsError, event.Whole
			out.Result, err = d.body(ctx, event.Body, event.Ref)
		}
		if err != nil {
			return err
		}
	}
	if err := d.supplement(ctx); err != nil {
		return err
	}
	if out.Result == nil || out.Parameters == nil {
		for _, notice := range d.Notices {
			if notice.Code != CodeDisagree { // that takes nothing away
				out.Unavailable = notice.Message
			}
		}
	}
	if err := d.approvals(ctx); err != nil {
		return err
	}
	return d.toolOutput(ctx)
}

// approvals adds what people were asked about the call, and what they decided.
func (d *detail) approvals(ctx context.Context) error {
	for _, n := range sameCall(d.index.decided, d.node) {
		events, err := d.recorded(ctx, n)
		if err != nil {
			return err
		}
		for _, entry := range events {
			event := entry.Event
			one := Approval{
				Decision: string(event.Decision), At: timeOf(event.Evidence.RecordedAt), Approver: event.Approver, Reason: event.Text, EntryID: n.ID,
			}
			if event.Until != nil {
				one.Until = timeOf(*event.Until)
			}
			d.Tool.Approvals = append(d.Tool.Approvals, one)
		}
	}
	return nil
}

// recorded are the events of another entry.
func (d *detail) recorded(ctx context.Context, n *node) ([]runevent.Entry, error) {
	var events []runevent.Entry
	for _, at := range n.records {
		record, ok, err := d.window.record(ctx, n.stream, at)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if entry, err := runevent.Decode(record.Raw); err == nil {
			events = append(events, entry)
		}
	}
	return events, nil
}

// caller is the output of the same run and request: the response whose calls these are.
func (d *detail) caller() string {
	input, ok := d.index.find(d.node.InputID)
	if !ok {
		return ""
	}
	return outputOf(d.index, input)
}

func outputOf(ix *Index, input *node) string {
	if answer, ok := ix.find(input.AnswerID); ok && answer.Type == TypeModelOutput {
		return answer.ID
	}
	return ""
}

// toolOutput adds what the tool printed: the output entries of the same call.
func (d *detail) toolOutput(ctx context.Context) error {
	var events []runevent.Entry
	for _, n := range sameCall(d.index.printed, d.node) {
		more, err := d.recorded(ctx, n)
		if err != nil {
			return err
		}
		events = append(events, more...)
	}
	if len(events) == 0 {
		return nil
	}
	text, err := d.text(ctx, events)
	d.Tool.Output = text
	return err
}

// about are the entries that the detail of a call reads besides its own.
func (ix *Index) about(call *node) []*node {
	return append(sameCall(ix.decided, call), sameCall(ix.printed, call)...)
}

// sameCall are those of the entries that belong to a call, in their order.
func sameCall(all []*node, call *node) []*node {
	if call.Run == nil {
		return nil
	}
	var found []*node
	for _, n := range all {
		if n.Agent == call.Agent && n.ToolCallID == call.ToolCallID && n.RequestExecutionID == call.RequestExecutionID && n.Run != nil && n.Run.UID == call.Run.UID {
			found = append(found, n)
		}
	}
	return found
}
