package modelserver

import (
	"cmp"
	"encoding/base64"
)

func validBase64(s string) bool {
	data, err := base64.StdEncoding.DecodeString(s)
	return err == nil && len(data) > 0
}

type chatUsage struct {
	Prompt            *int64             `json:"prompt_tokens,omitempty"`
	Completion        *int64             `json:"completion_tokens,omitempty"`
	Total             *int64             `json:"total_tokens,omitempty"`
	PromptDetails     *chatPromptDetails `json:"prompt_tokens_details,omitempty"`
	CompletionDetails *chatOutputDetails `json:"completion_tokens_details,omitempty"`
}

type chatPromptDetails struct {
	Cached     *int64 `json:"cached_tokens,omitempty"`
	CacheWrite *int64 `json:"cache_write_tokens,omitempty"`
}

type chatOutputDetails struct {
	Reasoning *int64 `json:"reasoning_tokens,omitempty"`
}

type chatCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage,omitempty"`
}

type chatChoice struct {
	Index   int         `json:"index"`
	Message chatMessage `json:"message"`
	Logprob *string     `json:"logprobs"`
	Finish  string      `json:"finish_reason"`
}

type chatMessage struct {
	Role             string         `json:"role"`
	Content          *string        `json:"content"`
	Refusal          *string        `json:"refusal"`
	ReasoningContent string         `json:"reasoning_content,omitempty"`
	Reasoning        string         `json:"reasoning,omitempty"`
	ToolCalls        []chatToolCall `json:"tool_calls,omitempty"`
}

type chatToolCall struct {
	Index    *int         `json:"index,omitempty"` // in streams
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// chatChunk has its usage always when it is asked for, null in all chunks but the last.
type chatChunk struct {
	ID      string            `json:"id"`
	Object  string            `json:"object"`
	Created int64             `json:"created"`
	Model   string            `json:"model"`
	Choices []chatChunkChoice `json:"choices"`
	Usage   *chatUsage        `json:"usage"`
}

type chatChunkChoice struct {
	Index  int       `json:"index"`
	Delta  chatDelta `json:"delta"`
	Finish *string   `json:"finish_reason"`
}

type chatDelta struct {
	Role             string         `json:"role,omitempty"`
	Content          *string        `json:"content,omitempty"`
	Refusal          *string        `json:"refusal,omitempty"`
	ReasoningContent string         `json:"reasoning_content,omitempty"`
	Reasoning        string         `json:"reasoning,omitempty"`
	ToolCalls        []chatToolCall `json:"tool_calls,omitempty"`
}

func chatFinish(a *answer) string {
	words := map[string]string{
		stopStop: "stop", stopLength: "length", stopToolUse: "tool_calls", stopRefusal: "stop", stopContext: "length",
	}
	if word, ok := words[a.stop]; ok {
		return word
	}
	return a.stop
}

func (chatAPI) usage(a *answer) *chatUsage {
	if !a.hasUsage {
		return nil
	}
	in, out := a.usage, a.usage.Output
	u := &chatUsage{Prompt: in.Input, Completion: out}
	if in.Input != nil {
		u.Prompt = sum(in.Input, in.CacheRead, in.CacheWrite)
	}
	if u.Prompt != nil && out != nil {
		u.Total = sum(u.Prompt, out)
	}
	if in.CacheRead != nil || in.CacheWrite != nil {
		u.PromptDetails = &chatPromptDetails{in.CacheRead, in.CacheWrite}
	}
	if in.Reasoning != nil {
		u.CompletionDetails = &chatOutputDetails{in.Reasoning}
	}
	return u
}

func (p chatAPI) whole(c *call, a *answer) []byte {
	m := chatMessage{Role: "assistant"}
	for _, part := range a.parts {
		switch part.kind {
		case partText:
			m.Content = appendText(m.Content, part.text)
		case partRefusal:
			m.Refusal = appendText(m.Refusal, part.text)
		case partThinking:
			if part.redacted {
				continue
			}
			d := chatThinking(c, part.text)
			m.ReasoningContent += d.ReasoningContent
			m.Reasoning += d.Reasoning
		case partToolCall:
			m.ToolCalls = append(m.ToolCalls, chatToolCall{
				ID: part.id, Type: "function", Function: chatFunction{part.name, part.text}})
		}
	}
	return encode(chatCompletion{
		ID: "chatcmpl-" + a.id, Object: "chat.completion", Created: a.created, Model: c.model.name, Usage: p.usage(a),
		Choices: []chatChoice{{Message: m, Finish: chatFinish(a)}},
	})
}

func appendText(to *string, text string) *string {
	if to != nil {
		text = *to + text
	}
	return &text
}

// chatReasoningField names the field that carries a model's thinking.
func chatReasoningField(m *model) string {
	return cmp.Or(m.script.ChatReasoning, ChatReasoningContent)
}

// chatThinking puts thinking into the field that the script names.
func chatThinking(c *call, text string) chatDelta {
	switch chatReasoningField(c.model) {
	case ChatReasoningNone:
		return chatDelta{}
	case ChatReasoning:
		return chatDelta{Reasoning: text}
	}
	return chatDelta{ReasoningContent: text}
}

func (p chatAPI) stream(c *call, a *answer) stream {
	b := &chatStream{call: c, base: chatChunk{
		ID: "chatcmpl-" + a.id, Object: "chat.completion.chunk", Created: a.created, Model: c.model.name}}
	empty := ""
	b.add(chatDelta{Role: "assistant", Content: &empty}, false)
	calls := 0
	for _, part := range a.parts {
		index := calls
		if part.kind == partToolCall {
			calls++
			b.add(chatDelta{ToolCalls: []chatToolCall{{
				Index: &index, ID: part.id, Type: "function", Function: chatFunction{Name: part.name}}}}, false)
		}
		if part.redacted || part.kind == partThinking && c.model.script.ChatReasoning == ChatReasoningNone {
			continue
		}
		for _, piece := range part.pieces(a.chunks) {
			b.add(chatPiece(c, part.kind, index, piece), true)
		}
	}
	ending := len(b.events)
	finish := chatFinish(a)
	b.chunk(chatChunkChoice{Finish: &finish})
	if c.includeUsage && a.hasUsage {
		last := b.base
		last.Choices, last.Usage = []chatChunkChoice{}, p.usage(a)
		b.events = append(b.events, event{frame: openAIFrame(last)})
	}
	b.events = append(b.events, event{frame: frame("", []byte("[DONE]"))})
	b.events[ending].last = true
	return stream{events: b.events, fail: func(e *apiError) []event {
		return []event{{frame: frame("", e.openAIBody()), last: true}}
	}}
}

func chatPiece(c *call, kind partKind, index int, piece string) chatDelta {
	switch kind {
	case partThinking:
		return chatThinking(c, piece)
	case partRefusal:
		return chatDelta{Refusal: &piece}
	case partToolCall:
		return chatDelta{ToolCalls: []chatToolCall{{Index: &index, Function: chatFunction{Arguments: piece}}}}
	}
	return chatDelta{Content: &piece}
}

// chatStream builds the chunks of one answer.
type chatStream struct {
	call   *call
	base   chatChunk
	events []event
}

func (b *chatStream) add(d chatDelta, content bool) {
	b.chunk(chatChunkChoice{Delta: d})
	b.events[len(b.events)-1].chunk = content
}

func (b *chatStream) chunk(choice chatChunkChoice) {
	chunk := b.base
	chunk.Choices = []chatChunkChoice{choice}
	if b.call.includeUsage {
		b.events = append(b.events, event{frame: openAIFrame(chunk)})
		return
	}
	b.events = append(b.events, event{frame: openAIFrame(struct {
		chatChunk
		Usage *chatUsage `json:"usage,omitempty"` // shadows the one that is null
	}{chatChunk: chunk})})
}
