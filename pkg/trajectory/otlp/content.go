package otlp

import (
	"encoding/json"
	"fmt"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/trajectory"
)

// chatMessage is a message in the conventions' form. Output has a finish reason.
type chatMessage struct {
	Role         string `json:"role"`
	Parts        []part `json:"parts"`
	FinishReason string `json:"finish_reason,omitempty"`
}

// part is a part of a message. Which members are there depends on Type.
type part struct {
	Type      string          `json:"type"`
	Content   *string         `json:"content,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  any             `json:"response,omitempty"`
	Modality  string          `json:"modality,omitempty"`
	MimeType  string          `json:"mime_type,omitempty"`
	URI       string          `json:"uri,omitempty"`
	Reason    string          `json:"reason,omitempty"`
}

type definition struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// json adds a value as JSON in a string, which is what readers of spans understand.
func (a *attributes) json(key string, v any) error {
	raw, err := encode(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	a.text(key, string(raw))
	return nil
}

func textPart(kind, text string) part { return part{Type: kind, Content: &text} }

// inputContent adds the fixed input: system prompt, messages and tools.
func (a *attributes) inputContent(in *trajectory.ModelInput) error {
	if in == nil {
		return nil
	}
	if in.System != nil {
		if err := a.json(attrSystem, []part{textPart("text", in.System.Text)}); err != nil {
			return err
		}
	}
	messages := make([]chatMessage, len(in.Messages))
	for i, m := range in.Messages {
		messages[i] = chat(m.Role, m.Message, m.Unavailable)
	}
	if err := a.json(attrInputMessages, messages); err != nil || len(in.Tools) == 0 {
		return err
	}
	tools := make([]definition, len(in.Tools))
	for i, tool := range in.Tools {
		tools[i] = definition{Type: toolFunction, Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters}
	}
	return a.json(attrDefinitions, tools)
}

// outputContent adds the response.
func (a *attributes) outputContent(out *trajectory.ModelOutput) error {
	m := chat(string(message.RoleAssistant), out.Message, out.Unavailable)
	m.FinishReason = or(finishReason(out.StopReason), "unknown")
	return a.json(attrOutputMessages, []chatMessage{m})
}

// toolContent adds arguments and result of a call.
func (a *attributes) toolContent(t *trajectory.ToolContent) {
	a.text(attrArguments, string(t.Parameters))
	if t.Result == nil {
		return
	}
	decoded, err := message.Decode(t.Result)
	if err != nil {
		a.text(attrToolResult, string(t.Result))
		return
	}
	raw, err := encode(responseOf(decoded))
	if err == nil {
		a.text(attrToolResult, string(raw))
	}
}

// roles are the conventions' words for who speaks.
var roles = map[message.Role]string{message.RoleUser: "user", message.RoleAssistant: "assistant", message.RoleToolResult: "tool"}

// Parts of our own: what could not be read, and what is no message of today's format.
const (
	partUnavailable = own + "unavailable"
	partStored      = own + "stored"
)

// chat is a stored message in the conventions' form. One that is not there says why; one that is not understood is handed on as it is.
func chat(role string, raw json.RawMessage, unavailable string) chatMessage {
	if raw == nil {
		return chatMessage{Role: orRole(role), Parts: []part{{Type: partUnavailable, Reason: unavailable}}}
	}
	m, err := message.Decode(raw)
	if err != nil {
		return chatMessage{Role: orRole(role), Parts: []part{{Type: partStored, Response: raw}}}
	}
	out := chatMessage{Role: roles[m.Role], Parts: []part{}}
	switch {
	case m.Role == message.RoleToolResult:
		out.Parts = append(out.Parts, part{Type: "tool_call_response", ID: m.ToolCallID, Response: responseOf(m)})
	case m.Content.IsText:
		out.Parts = append(out.Parts, textPart("text", m.Content.Text))
	default:
		for _, block := range m.Content.Blocks {
			out.Parts = append(out.Parts, partOf(block))
		}
	}
	return out
}

func orRole(role string) string { return or(roles[message.Role(role)], "unknown") }

// responseOf is what a tool returned: its text, or the parts of it when there is more than text.
func responseOf(m message.Message) any {
	if m.Content.IsText {
		return m.Content.Text
	}
	parts := make([]part, 0, len(m.Content.Blocks))
	for _, block := range m.Content.Blocks {
		parts = append(parts, partOf(block))
	}
	return parts
}

func partOf(block message.Block) part {
	switch block.Type {
	case message.BlockThinking:
		return textPart("reasoning", block.Thinking)
	case message.BlockToolCall:
		return part{Type: "tool_call", ID: block.ID, Name: block.Name, Arguments: block.Arguments}
	case message.BlockImage:
		if block.Ref == nil {
			return part{Type: "blob", Modality: "image", MimeType: block.MediaType, Content: &block.Data}
		}
		return part{Type: "uri", Modality: "image", MimeType: block.MediaType, URI: "agentloop-object:" + block.Ref.Digest}
	}
	return textPart("text", block.Text)
}
