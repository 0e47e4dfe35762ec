package tracing

import (
	"bytes"
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/trajectory"
)

// maxContent bounds the contents of one attribute, in bytes: a larger document is left out whole, for half of one is none.
const maxContent = 256 << 10

// chatMessage is a message in the form that the conventions give it. Output has a finish reason.
type chatMessage struct {
	Role         string `json:"role"`
	Parts        []part `json:"parts"`
	FinishReason string `json:"finish_reason,omitempty"`
}

// part is a part of a message. Which members are there depends on Type.
type part struct {
	Type      string          `json:"type"`
	Content   string          `json:"content,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  any             `json:"response,omitempty"`
	Modality  string          `json:"modality,omitempty"`
	MimeType  string          `json:"mime_type,omitempty"`
}

// inputContent is the system prompt and the messages of a request.
func inputContent(request *provider.Request) []attribute.KeyValue {
	var out []attribute.KeyValue
	if request.System != "" {
		out = encoded(semconv.GenAISystemInstructionsKey, []part{{Type: "text", Content: request.System}})
	}
	messages := make([]chatMessage, len(request.Messages))
	for i := range request.Messages {
		messages[i] = chat(request.Messages[i])
	}
	return append(out, encoded(semconv.GenAIInputMessagesKey, messages)...)
}

// outputContent is a response.
func outputContent(answer message.Message) []attribute.KeyValue {
	m := chat(answer)
	m.FinishReason = finishReason(answer.StopReason)
	return encoded(semconv.GenAIOutputMessagesKey, []chatMessage{m})
}

// resultContent is what a tool gave.
func resultContent(content message.Content) []attribute.KeyValue {
	return encoded(semconv.GenAIToolCallResultKey, responseOf(content))
}

var roles = map[message.Role]string{message.RoleUser: "user", message.RoleAssistant: "assistant", message.RoleToolResult: "tool"}

func chat(m message.Message) chatMessage {
	out := chatMessage{Role: roles[m.Role]}
	switch {
	case m.Role == message.RoleToolResult:
		out.Parts = []part{{Type: "tool_call_response", ID: m.ToolCallID, Response: responseOf(m.Content)}}
	case m.Content.IsText:
		out.Parts = []part{{Type: "text", Content: m.Content.Text}}
	default:
		out.Parts = partsOf(m.Content.Blocks)
	}
	return out
}

// responseOf is a text, or the parts of what has more than a text.
func responseOf(content message.Content) any {
	if content.IsText {
		return content.Text
	}
	return partsOf(content.Blocks)
}

// partsOf leaves the data of images out.
func partsOf(blocks []message.Block) []part {
	out := make([]part, len(blocks))
	for i, block := range blocks {
		switch block.Type {
		case message.BlockThinking:
			out[i] = part{Type: "reasoning", Content: block.Thinking}
		case message.BlockToolCall:
			out[i] = part{Type: "tool_call", ID: block.ID, Name: block.Name, Arguments: block.Arguments}
		case message.BlockImage:
			out[i] = part{Type: "blob", Modality: "image", MimeType: block.MediaType}
		default:
			out[i] = part{Type: "text", Content: block.Text}
		}
	}
	return out
}

// encoded is a value as JSON in a string, which is what readers of spans understand.
func encoded(key attribute.Key, v any) []attribute.KeyValue {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil { // arguments that are no JSON
		return nil
	}
	return captured(key, bytes.TrimSpace(buf.Bytes()))
}

// captured is a JSON document without its credentials.
func captured(key attribute.Key, document []byte) []attribute.KeyValue {
	if len(document) > maxContent {
		return []attribute.KeyValue{ownOmitted.Int(len(document))}
	}
	clean, err := trajectory.Redact(document)
	if err != nil {
		return nil
	}
	return []attribute.KeyValue{key.String(string(clean))}
}
