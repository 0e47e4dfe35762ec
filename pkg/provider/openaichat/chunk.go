package openaichat

import (
	"bytes"
	"encoding/json"
	"strings"
)

// chunk is what is read of a stream chunk. The SDK's type takes several times as long to decode, treats a null error as
// the end of the stream, and knows no reasoning text.
type chunk struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Error   json.RawMessage `json:"error"`
	Choices []choice        `json:"choices"`
}

type choice struct {
	Index        int64  `json:"index"`
	FinishReason string `json:"finish_reason"`
	Delta        struct {
		Content          content        `json:"content"`
		Refusal          string         `json:"refusal"`
		ReasoningContent string         `json:"reasoning_content"`
		Reasoning        string         `json:"reasoning"`
		ReasoningText    string         `json:"reasoning_text"`
		ToolCalls        []callFragment `json:"tool_calls"`
		FunctionCall     callFunction   `json:"function_call"`
	} `json:"delta"`
}

type callFragment struct {
	Index    *int64       `json:"index"`
	ID       string       `json:"id"`
	Function callFunction `json:"function"`
}

type callFunction struct {
	Name      string    `json:"name"`
	Arguments arguments `json:"arguments"`
}

// content is a string, or the parts that Mistral's reasoning models stream.
type content struct{ text, thinking string }

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, &c.text)
	}
	if raw[0] != '[' {
		return nil // null
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Thinking []struct {
			Text string `json:"text"`
		} `json:"thinking"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	var text, thinking strings.Builder
	for _, p := range parts {
		text.WriteString(p.Text)
		for _, t := range p.Thinking {
			thinking.WriteString(t.Text)
		}
	}
	c.text, c.thinking = text.String(), thinking.String()
	return nil
}

// arguments is a string of JSON, or that JSON itself, as some servers have it.
type arguments string

// UnmarshalJSON implements json.Unmarshaler.
func (a *arguments) UnmarshalJSON(raw []byte) error {
	switch {
	case raw[0] == '"':
		return json.Unmarshal(raw, (*string)(a))
	case !bytes.Equal(raw, []byte("null")):
		*a = arguments(raw)
	}
	return nil
}
