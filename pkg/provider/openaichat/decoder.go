package openaichat

import (
	"bytes"

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
	var c chunk
	err := wire.Decode(data, &c)
	// vLLM says object: "error"; a null error beside a proper chunk is none.
	if event.Name == "error" || err == nil && (wire.IsError(c.Error) || c.Object == "error") {
		return false, &wire.StreamError{Raw: bytes.Clone(data)}
	}
	if err != nil {
		return false, err
	}
	d.assembly.SetResponseID(c.ID)
	for i := range c.Choices {
		if c.Choices[i].Index != 0 {
			continue
		}
		d.choice(&c.Choices[i])
	}
	return false, nil
}

func (d *decoder) place() wire.Key {
	d.next++
	return wire.Key{Output: d.next}
}

func (d *decoder) choice(c *choice) {
	delta := &c.Delta
	if text := d.reasoning(c); text != "" {
		if d.thinking == nil {
			key := d.place()
			d.thinking = &key
			d.assembly.SetThinkingSignature(key, d.reasoningField)
		}
		d.assembly.Thinking(*d.thinking, text)
	}
	if text := delta.Content.text + delta.Refusal; text != "" {
		if d.text == nil {
			key := d.place()
			d.text = &key
		}
		d.assembly.Text(*d.text, text)
	}
	for _, call := range delta.ToolCalls {
		f := fragment{id: call.ID, name: call.Function.Name, arguments: string(call.Function.Arguments)}
		if call.Index != nil {
			f.index, f.indexed = *call.Index, true
		}
		d.toolCall(f)
	}
	if f := delta.FunctionCall; f.Name != "" || f.Arguments != "" {
		d.toolCall(fragment{indexed: true, name: f.Name, arguments: string(f.Arguments)}) // the form before tool_calls
	}
	if c.FinishReason != "" {
		d.finish = c.FinishReason
	}
}

// The names under which servers stream reasoning text as a field of its own.
const (
	fieldReasoningContent = "reasoning_content"
	fieldReasoning        = "reasoning"
	fieldReasoningText    = "reasoning_text"
)

func isReasoningField(name string) bool {
	return name == fieldReasoningContent || name == fieldReasoning || name == fieldReasoningText
}

// reasoning returns a chunk's reasoning text. A server that sends the same text under two names is read under the first
// that it used; one that sends it among the content has no field to send it back in.
func (d *decoder) reasoning(c *choice) string {
	named := []struct{ name, text string }{
		{fieldReasoningContent, c.Delta.ReasoningContent}, {fieldReasoning, c.Delta.Reasoning}, {fieldReasoningText, c.Delta.ReasoningText},
	}
	for _, f := range named {
		if f.text != "" && (d.reasoningField == "" || d.reasoningField == f.name) {
			d.reasoningField = f.name
			return f.text
		}
	}
	return c.Delta.Content.thinking
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
