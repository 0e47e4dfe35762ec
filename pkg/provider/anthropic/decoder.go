package anthropic

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

// decoder reads the events of one streamed message. Block kinds that a message cannot hold (the provider's own tools,
// citations) are passed over, as the protocol asks of clients for kinds that they do not know.
type decoder struct {
	assembly *wire.Assembly
	stop     sdk.StopReason
	done     bool
	// start holds the input that a tool call began with; it stands when no increment follows.
	start map[int64]string
}

// Event implements wire.Decoder. The type inside the data decides, so that streams without event names are read too.
func (d *decoder) Event(event wire.Event) (bool, error) {
	var e sdk.MessageStreamEventUnion
	if err := json.Unmarshal(event.Data, &e); err != nil {
		return false, fmt.Errorf("%w: %w", wire.ErrMalformedEvent, err)
	}
	kind := e.Type
	if kind == "" {
		kind = event.Name
	}
	switch kind {
	case "error":
		return false, &wire.StreamError{Raw: append([]byte(nil), event.Data...)}
	case "message_start":
		d.assembly.SetResponseID(e.Message.ID)
	case "content_block_start":
		d.begin(e.Index, e.ContentBlock)
	case "content_block_delta":
		d.delta(e.Index, e.Delta)
	case "message_delta":
		if e.Delta.StopReason != "" {
			d.stop = e.Delta.StopReason
		}
	case "message_stop":
		d.endCalls()
		d.done = true
	}
	return d.done, nil
}

func (d *decoder) begin(index int64, b sdk.ContentBlockStartEventContentBlockUnion) {
	key := wire.Key{Output: index}
	switch b.Type {
	case "text":
		d.assembly.Text(key, b.Text)
	case "thinking":
		d.assembly.Thinking(key, b.Thinking)
		d.assembly.SignThinking(key, b.Signature)
	case "redacted_thinking":
		d.assembly.Redacted(key, b.Data)
	case "tool_use":
		d.assembly.Call(key, b.ID, b.Name)
		if raw := b.JSON.Input.Raw(); raw != "" && raw != "{}" && raw != "null" {
			if d.start == nil {
				d.start = map[int64]string{}
			}
			d.start[index] = raw
		}
	}
}

func (d *decoder) delta(index int64, delta sdk.MessageStreamEventUnionDelta) {
	key := wire.Key{Output: index}
	switch delta.Type {
	case "text_delta":
		d.assembly.Text(key, delta.Text)
	case "thinking_delta":
		d.assembly.Thinking(key, delta.Thinking)
	case "signature_delta":
		d.assembly.SignThinking(key, delta.Signature)
	case "input_json_delta":
		if delta.PartialJSON != "" {
			delete(d.start, index)
			d.assembly.Arguments(key, delta.PartialJSON)
		}
	}
}

// endCalls gives the calls that came whole in their start event their input.
func (d *decoder) endCalls() {
	for _, index := range slices.Sorted(maps.Keys(d.start)) {
		d.assembly.Arguments(wire.Key{Output: index}, d.start[index])
	}
	d.start = nil
}

// End implements wire.Decoder.
func (d *decoder) End() wire.End {
	end := wire.End{Complete: d.done, Stop: message.StopStop, Raw: string(d.stop)}
	switch d.stop {
	case sdk.StopReasonMaxTokens:
		end.Stop = message.StopLength
	case sdk.StopReasonToolUse:
		end.Stop = message.StopToolUse
	case sdk.StopReasonRefusal:
		end.Class, end.Code = provider.ClassRefused, "refusal"
	case sdk.StopReasonModelContextWindowExceeded:
		end.Class, end.Code = provider.ClassOverflow, "model_context_window_exceeded"
	}
	return end
}
