package openairesponses

import (
	"bytes"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

// decoder reads the events of one streamed response. Items are finished by what their last event holds, so that servers
// that stream no increments are read too. Item kinds that a message cannot hold (the provider's own tools) are passed over.
type decoder struct {
	assembly *wire.Assembly
	raw      string
	done     bool
	// cut says that the response is incomplete.
	cut bool
	// finished says that items came with events of their own.
	finished bool
	// summaryPart is the part of each reasoning summary that is being streamed.
	summaryPart map[int64]int64
}

// Event implements wire.Decoder. The type inside the data decides, so that streams without event names are read too.
func (d *decoder) Event(in wire.Event) (bool, error) {
	if bytes.HasPrefix(bytes.TrimSpace(in.Data), []byte("[DONE]")) {
		return true, nil
	}
	var e event
	if err := wire.Decode(in.Data, &e); err != nil {
		return false, err
	}
	kind := e.Type
	if kind == "" {
		kind = in.Name
	}
	switch kind {
	case "error", "response.failed", "response.error":
		d.assembly.SetResponseID(e.Response.ID)
		return false, &wire.StreamError{Raw: bytes.Clone(in.Data)}
	case "response.created", "response.in_progress":
		d.assembly.SetResponseID(e.Response.ID)
	case "response.completed", "response.incomplete":
		d.cut = kind == "response.incomplete" || e.Response.Status == "incomplete"
		d.end(&e.Response)
		return true, nil
	case "":
		if wire.IsError(e.Error) { // the form of other protocols, which gateways send here too
			return false, &wire.StreamError{Raw: bytes.Clone(in.Data)}
		}
	default:
		d.increment(kind, &e)
	}
	return false, nil
}

func (d *decoder) increment(kind string, e *event) {
	key := wire.Key{Output: e.OutputIndex, Part: e.ContentIndex}
	switch kind {
	case "response.output_item.added":
		if e.Item.Type == "function_call" {
			d.assembly.Call(wire.Key{Output: e.OutputIndex}, e.Item.CallID, e.Item.Name)
		}
	case "response.output_item.done":
		d.finished = true
		d.item(e.OutputIndex, &e.Item)
	case "response.output_text.delta", "response.refusal.delta":
		d.assembly.Text(key, e.Delta)
	case "response.output_text.done":
		d.assembly.CompleteText(key, e.Text)
	case "response.refusal.done":
		d.assembly.CompleteText(key, e.Refusal)
	case "response.reasoning_summary_text.delta":
		d.summary(e.OutputIndex, e.SummaryIndex, e.Delta)
	case "response.reasoning_text.delta":
		d.summary(e.OutputIndex, e.ContentIndex, e.Delta)
	case "response.function_call_arguments.delta":
		d.assembly.Arguments(wire.Key{Output: e.OutputIndex}, e.Delta)
	case "response.function_call_arguments.done":
		d.assembly.CompleteArguments(wire.Key{Output: e.OutputIndex}, e.Arguments)
	}
}

// summary appends to a reasoning item's thinking, with a gap where a new part of its summary begins.
func (d *decoder) summary(output, part int64, text string) {
	key := wire.Key{Output: output}
	if text == "" {
		return
	}
	if d.summaryPart == nil {
		d.summaryPart = map[int64]int64{}
	}
	if d.assembly.Has(key) && d.summaryPart[output] != part {
		d.assembly.Thinking(key, summaryGap)
	}
	d.summaryPart[output] = part
	d.assembly.Thinking(key, text)
}

// item takes a finished item.
func (d *decoder) item(output int64, item *item) {
	key := wire.Key{Output: output}
	switch item.Type {
	case "message":
		for i, part := range item.Content {
			place := wire.Key{Output: output, Part: int64(i)}
			d.assembly.CompleteText(place, part.Text+part.Refusal)
			d.assembly.SetTextSignature(place, encode(textSignature{ID: item.ID, Phase: item.Phase}))
		}
	case "reasoning":
		thinking, signature := summarize(item)
		if thinking != "" {
			d.assembly.CompleteThinking(key, thinking)
		}
		if signature != "" {
			d.assembly.SetThinkingSignature(key, signature)
		}
	case "function_call":
		if !d.assembly.Has(key) {
			d.assembly.Call(key, item.CallID, item.Name)
		}
		d.assembly.CompleteArguments(key, item.Arguments)
		d.assembly.SetCallSignature(key, item.ID)
	}
}

// end takes the final response. Its output has every item once more, but some servers leave it empty or number it anew,
// so it is read only when no item came by itself.
func (d *decoder) end(r *response) {
	d.assembly.SetResponseID(r.ID)
	if !d.finished {
		for i := range r.Output {
			d.item(int64(i), &r.Output[i])
		}
	}
	d.done = true
	d.raw = r.Status
	if d.cut && r.IncompleteDetails.Reason != "" {
		d.raw = r.IncompleteDetails.Reason
	}
}

// End implements wire.Decoder.
func (d *decoder) End() wire.End {
	end := wire.End{Complete: d.done, Stop: message.StopStop, Raw: d.raw}
	if d.cut {
		end.Stop = message.StopLength
	}
	switch d.raw {
	case "content_filter":
		end.Class, end.Code = provider.ClassRefused, d.raw
	case "failed", "cancelled":
		end.Class, end.Code = provider.ClassTransient, d.raw
	}
	return end
}
