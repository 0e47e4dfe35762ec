package modelserver

import "encoding/json"

type anthropicUsage struct {
	Input      *int64                  `json:"input_tokens,omitempty"`
	CacheWrite *int64                  `json:"cache_creation_input_tokens,omitempty"`
	CacheRead  *int64                  `json:"cache_read_input_tokens,omitempty"`
	Output     *int64                  `json:"output_tokens,omitempty"`
	Details    *anthropicOutputDetails `json:"output_tokens_details,omitempty"`
}

type anthropicOutputDetails struct {
	Thinking int64 `json:"thinking_tokens"`
}

type anthropicMessage struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"`
	Role         string          `json:"role"`
	Model        string          `json:"model"`
	Content      []any           `json:"content"`
	StopReason   *string         `json:"stop_reason"`
	StopSequence *string         `json:"stop_sequence"`
	Usage        *anthropicUsage `json:"usage,omitempty"`
}

// The content blocks of an answer. Each has every field in the order of the API.
type (
	anthropicText struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	anthropicThinking struct {
		Type      string `json:"type"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
	}
	anthropicRedacted struct {
		Type string `json:"type"`
		Data string `json:"data"`
	}
	anthropicToolUse struct {
		Type  string          `json:"type"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
)

func anthropicStop(a *answer) *string {
	words := map[string]string{
		stopStop: "end_turn", stopLength: "max_tokens", stopToolUse: "tool_use", stopRefusal: "refusal",
		stopContext: "model_context_window_exceeded", stopPause: "pause_turn",
	}
	word, ok := words[a.stop]
	if !ok {
		word = a.stop
	}
	return &word
}

func (p anthropicAPI) message(c *call, a *answer) anthropicMessage {
	return anthropicMessage{ID: "msg_" + a.id, Type: "message", Role: "assistant", Model: c.model.name, Content: []any{}}
}

func (p anthropicAPI) usage(a *answer) *anthropicUsage {
	if !a.hasUsage {
		return nil
	}
	u := &anthropicUsage{
		Input: a.usage.Input, CacheWrite: a.usage.CacheWrite, CacheRead: a.usage.CacheRead, Output: a.usage.Output,
	}
	if a.usage.Reasoning != nil {
		u.Details = &anthropicOutputDetails{*a.usage.Reasoning}
	}
	return u
}

// blocks are the answer's content blocks. Thinking is sealed with the request's prefix and the blocks before it.
func (p anthropicAPI) blocks(c *call, a *answer) []any {
	sealed := byte(0)
	for _, part := range a.parts {
		if part.kind == partThinking {
			sealed++
		}
	}
	var within chain
	var blocks []any
	for _, part := range a.parts {
		switch part.kind {
		case partThinking:
			text := part.text
			if c.hideThinking || part.redacted {
				text = ""
			}
			kind := "thinking"
			if part.redacted {
				kind = "redacted_thinking"
			}
			token := p.signer.issue(kind, c.model.name, text, seal{a: c.prefix(), b: within.sum, count: sealed})
			within.add(kind, []byte(token))
			if part.redacted {
				blocks = append(blocks, anthropicRedacted{kind, token})
				continue
			}
			blocks = append(blocks, anthropicThinking{kind, text, token})
			continue
		case partToolCall:
			use := anthropicToolUse{"tool_use", part.id, part.name, objectOr(part.text)}
			blocks = append(blocks, use)
			within.add("tool_use", encode(canonical(tree(use))))
			continue
		}
		text := anthropicText{"text", part.text}
		blocks = append(blocks, text)
		if text.Text != "" { // an empty text cannot be sent back, so its absence must not count as a change
			within.add("text", encode(canonical(tree(text))))
		}
	}
	return blocks
}

// tree decodes v's JSON, as a request with v in it would be decoded.
func tree(v any) object {
	o, err := parseObject(encode(v))
	if err != nil {
		panic("modelserver: own value: " + err.Error())
	}
	return o
}

// objectOr returns raw when it is a JSON object, else an empty one: what an API without streaming must give for a call
// that was cut.
func objectOr(raw string) json.RawMessage {
	if _, err := parseObject([]byte(raw)); err != nil {
		return json.RawMessage("{}")
	}
	return json.RawMessage(raw)
}

func (p anthropicAPI) whole(c *call, a *answer) []byte {
	m := p.message(c, a)
	m.Content = append(m.Content, p.blocks(c, a)...)
	m.StopReason, m.Usage = anthropicStop(a), p.usage(a)
	return encode(m)
}

// Events of the stream that carry more than a block.
type (
	anthropicStart struct {
		Type    string           `json:"type"`
		Message anthropicMessage `json:"message"`
	}
	anthropicBlockStart struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Block any    `json:"content_block"`
	}
	anthropicBlockDelta struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Delta any    `json:"delta"`
	}
	anthropicBlockStop struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	anthropicDelta struct {
		Type  string             `json:"type"`
		Delta anthropicStopDelta `json:"delta"`
		Usage *anthropicUsage    `json:"usage,omitempty"`
	}
	anthropicStopDelta struct {
		StopReason   *string `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}
	typeOnly struct {
		Type string `json:"type"`
	}
)

func (p anthropicAPI) stream(c *call, a *answer) stream {
	s := stream{fail: func(e *apiError) []event {
		return []event{{frame: frame("error", e.anthropicBody("")), last: true}}
	}}
	add := func(name string, payload any) {
		s.events = append(s.events, event{frame: frame(name, encode(payload))})
	}

	m := p.message(c, a)
	m.Usage = p.firstUsage(a)
	add("message_start", anthropicStart{"message_start", m})
	add("ping", typeOnly{"ping"})
	for i, block := range p.blocks(c, a) {
		start, deltas := p.deltas(block, a.parts[i], a.chunks)
		add("content_block_start", anthropicBlockStart{"content_block_start", i, start})
		for _, d := range deltas {
			add("content_block_delta", anthropicBlockDelta{"content_block_delta", i, d.payload})
			s.events[len(s.events)-1].chunk = d.chunk
		}
		add("content_block_stop", anthropicBlockStop{"content_block_stop", i})
	}
	ending := len(s.events)
	add("message_delta", anthropicDelta{"message_delta", anthropicStopDelta{StopReason: anthropicStop(a)}, p.usage(a)})
	add("message_stop", typeOnly{"message_stop"})
	s.events[ending].last = true
	return s
}

// firstUsage is what is known when the answer begins: the input, and the first token of the output.
func (p anthropicAPI) firstUsage(a *answer) *anthropicUsage {
	u := p.usage(a)
	if u == nil {
		return nil
	}
	u.Details = nil
	if u.Output != nil {
		first := min(1, *u.Output)
		u.Output = &first
	}
	return u
}

type anthropicBlockEvent struct {
	payload any
	chunk   bool
}

// deltas are how a block is streamed: the empty block it starts with and what is added to it.
func (p anthropicAPI) deltas(block any, from part, chunks int) (start any, deltas []anthropicBlockEvent) {
	add := func(kind, key, text string, chunk bool) {
		deltas = append(deltas, anthropicBlockEvent{orderedPair{kind, key, text}, chunk})
	}
	switch b := block.(type) {
	case anthropicText:
		for _, piece := range cutText(b.Text, chunks) {
			add("text_delta", "text", piece, true)
		}
		return anthropicText{Type: b.Type}, deltas
	case anthropicThinking:
		for _, piece := range cutText(b.Thinking, chunks) {
			add("thinking_delta", "thinking", piece, true)
		}
		add("signature_delta", "signature", b.Signature, false)
		return anthropicThinking{Type: b.Type}, deltas
	case anthropicToolUse:
		add("input_json_delta", "partial_json", "", false)
		for _, piece := range cutText(streamedArguments(from.text), chunks) {
			add("input_json_delta", "partial_json", piece, true)
		}
		b.Input = json.RawMessage("{}")
		return b, deltas
	}
	return block, nil
}

// streamedArguments leaves empty arguments out, as the API does.
func streamedArguments(raw string) string {
	if raw == "{}" {
		return ""
	}
	return raw
}

// orderedPair is {"type": kind, key: value}.
type orderedPair struct{ kind, key, value string }

// MarshalJSON implements json.Marshaler.
func (o orderedPair) MarshalJSON() ([]byte, error) {
	out := append([]byte(`{"type":`), encode(o.kind)...)
	out = append(append(append(out, ','), encode(o.key)...), ':')
	out = append(append(out, encode(o.value)...), '}')
	return out, nil
}
