package openaichat

import (
	"bytes"
	"encoding/json"
	"fmt"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/respjson"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/wire"
)

// decoder reads the chunks of one streamed completion. Only the first choice is read; the ids of the chunks do not
// matter, since servers change them in the middle and leave them out of the usage chunk.
type decoder struct {
	assembly *wire.Assembly
	finish   string
	calls    toolCalls
	// next is the place of the next block: the protocol has no order of blocks but that of their arrival.
	next           int64
	text, thinking *wire.Key
	// reasoningField is the field in which this server streams reasoning text.
	reasoningField string
}

// Event implements wire.Decoder.
func (d *decoder) Event(event wire.Event) (bool, error) {
	data := bytes.TrimSpace(event.Data)
	if bytes.HasPrefix(data, []byte("[DONE]")) {
		return true, nil
	}
	if event.Name == "error" || reportsError(data) {
		return false, &wire.StreamError{Raw: bytes.Clone(data)}
	}
	var chunk sdk.ChatCompletionChunk
	if err := json.Unmarshal(data, &chunk); err != nil {
		return false, fmt.Errorf("%w: %w", wire.ErrMalformedEvent, err)
	}
	d.assembly.SetResponseID(chunk.ID)
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue
		}
		d.delta(choice.Delta)
		if choice.FinishReason != "" {
			d.finish = choice.FinishReason
		}
	}
	return false, nil
}

// reportsError says whether a chunk is an error: {"error":…} with something in it, or vLLM's {"object":"error"}. A null
// error beside a proper chunk is none.
func reportsError(data []byte) bool {
	if !bytes.Contains(data, []byte(`"error"`)) {
		return false
	}
	var head struct {
		Object string          `json:"object"`
		Error  json.RawMessage `json:"error"`
	}
	return json.Unmarshal(data, &head) == nil && (wire.IsError(head.Error) || head.Object == "error")
}

func (d *decoder) place() wire.Key {
	d.next++
	return wire.Key{Output: d.next}
}

func (d *decoder) delta(delta sdk.ChatCompletionChunkChoiceDelta) {
	if text := d.reasoning(delta.JSON.ExtraFields); text != "" {
		if d.thinking == nil {
			key := d.place()
			d.thinking = &key
			d.assembly.SetThinkingSignature(key, d.reasoningField)
		}
		d.assembly.Thinking(*d.thinking, text)
	}
	if text := delta.Content + delta.Refusal; text != "" {
		if d.text == nil {
			key := d.place()
			d.text = &key
		}
		d.assembly.Text(*d.text, text)
	}
	for _, call := range delta.ToolCalls {
		d.toolCall(fragment{
			index: call.Index, indexed: call.JSON.Index.Valid(), id: call.ID,
			name: call.Function.Name, arguments: call.Function.Arguments,
		})
	}
	if f := delta.FunctionCall; f.Name != "" || f.Arguments != "" {
		d.toolCall(fragment{indexed: true, name: f.Name, arguments: f.Arguments}) // the form before tool_calls
	}
}

// reasoningFields are the names under which servers stream reasoning text. A server that sends the same text under two
// of them is read under the first.
var reasoningFields = []string{"reasoning_content", "reasoning", "reasoning_text"}

func isReasoningField(name string) bool {
	for _, field := range reasoningFields {
		if name == field {
			return true
		}
	}
	return false
}

func (d *decoder) reasoning(extra map[string]respjson.Field) string {
	for _, name := range reasoningFields {
		if d.reasoningField != "" && d.reasoningField != name {
			continue
		}
		field, ok := extra[name]
		if !ok {
			continue
		}
		var text string
		if json.Unmarshal([]byte(field.Raw()), &text) == nil && text != "" {
			d.reasoningField = name
			return text
		}
	}
	return ""
}

// End implements wire.Decoder. The finish reason is the sign of completion: [DONE] comes after failures as well, and
// some servers never send it.
func (d *decoder) End() wire.End {
	end := wire.End{Complete: d.finish != "" && !d.calls.unnamed(), Stop: message.StopStop, Raw: d.finish}
	switch d.finish {
	case "length", "max_tokens", "model_length":
		end.Stop = message.StopLength
	case "tool_calls", "function_call":
		end.Stop = message.StopToolUse
	case "content_filter":
		end.Class, end.Code = provider.ClassRefused, d.finish
	case "insufficient_system_resource":
		end.Class, end.Code = provider.ClassOverloaded, d.finish
	case "error", "network_error":
		end.Class, end.Code = provider.ClassTransient, d.finish
	}
	return end
}
