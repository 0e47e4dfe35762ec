package anthropic

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

// event is what is read of a stream event. The SDK's type has every field of every block kind and takes eight times as
// long to decode, which is most of what a stream costs.
type event struct {
	Type    string `json:"type"`
	Index   int64  `json:"index"`
	Message struct {
		ID string `json:"id"`
	} `json:"message"`
	Block struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		Data      string          `json:"data"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
	} `json:"content_block"`
	Delta struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Thinking    string `json:"thinking"`
		Signature   string `json:"signature"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
}

// decoder reads the events of one streamed message. Block kinds that a message cannot hold (the provider's own tools,
// citations) are passed over, as the protocol asks of clients for kinds that they do not know.
type decoder struct {
	assembly *wire.Assembly
	stop     string
	done     bool
	// start holds the input that a tool call began with; it stands when no increment follows.
	start map[int64]string
}

// Event implements wire.Decoder. The type inside the data decides, so that streams without event names are read too.
func (d *decoder) Event(in wire.Event) (bool, error) {
	var e event
	if err := wire.Decode(in.Data, &e); err != nil {
		return false, err
	}
	kind := e.Type
	if kind == "" {
		kind = in.Name
	}
	switch kind {
	case "error":
		return false, &wire.StreamError{Raw: bytes.Clone(in.Data)}
	case "message_start":
		d.assembly.SetResponseID(e.Message.ID)
	case "content_block_start":
		d.begin(&e)
	case "content_block_delta":
		d.delta(&e)
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

func (d *decoder) begin(e *event) {
	key, b := wire.Key{Output: e.Index}, &e.Block
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
		if raw := string(bytes.TrimSpace(b.Input)); raw != "" && raw != "{}" && raw != "null" {
			if d.start == nil {
				d.start = map[int64]string{}
			}
			d.start[e.Index] = raw
		}
	}
}

func (d *decoder) delta(e *event) {
	key, delta := wire.Key{Output: e.Index}, &e.Delta
	switch delta.Type {
	case "text_delta":
		d.assembly.Text(key, delta.Text)
	case "thinking_delta":
		d.assembly.Thinking(key, delta.Thinking)
	case "signature_delta":
		d.assembly.SignThinking(key, delta.Signature)
	case "input_json_delta":
		if delta.PartialJSON != "" {
			delete(d.start, e.Index)
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
	end := wire.End{Complete: d.done, Stop: message.StopStop, Raw: d.stop}
	switch d.stop {
	case "max_tokens":
		end.Stop = message.StopLength
	case "tool_use":
		end.Stop = message.StopToolUse
	case "refusal":
		end.Class, end.Code = provider.ClassRefused, d.stop
	case "model_context_window_exceeded":
		end.Class, end.Code = provider.ClassOverflow, d.stop
	}
	return end
}
