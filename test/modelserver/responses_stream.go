package modelserver

// responsesEvent has the fields of every event of a streamed response, in the API's order; those that an event does not
// have are nil.
type responsesEvent struct {
	Type         string       `json:"type"`
	Sequence     int          `json:"sequence_number"`
	Response     *response    `json:"response,omitempty"`
	OutputIndex  *int         `json:"output_index,omitempty"`
	Item         any          `json:"item,omitempty"`
	ItemID       string       `json:"item_id,omitempty"`
	ContentIndex *int         `json:"content_index,omitempty"`
	SummaryIndex *int         `json:"summary_index,omitempty"`
	Part         any          `json:"part,omitempty"`
	Delta        *string      `json:"delta,omitempty"`
	Text         *string      `json:"text,omitempty"`
	Refusal      *string      `json:"refusal,omitempty"`
	Arguments    *string      `json:"arguments,omitempty"`
	Logprobs     []any        `json:"logprobs,omitempty"`
	Error        *openAIError `json:"error,omitempty"`
}

// responsesStream builds the events of one response.
type responsesStream struct {
	events []event
	chunks int
}

func (s *responsesStream) add(e responsesEvent) {
	e.Sequence = len(s.events)
	s.events = append(s.events, event{frame: frame(e.Type, encode(e))})
}

// deltas adds one event per piece of text.
func (s *responsesStream) deltas(e responsesEvent, text string) {
	for _, piece := range cutText(text, s.chunks) {
		e.Delta = &piece
		s.add(e)
		s.events[len(s.events)-1].chunk = true
	}
}

func (p responsesAPI) stream(c *call, a *answer) stream {
	s := &responsesStream{chunks: a.chunks}
	base := p.base(c, a)
	s.add(responsesEvent{Type: "response.created", Response: &base})
	s.add(responsesEvent{Type: "response.in_progress", Response: &base})
	items := p.items(c, a)
	for i, item := range items {
		switch item := item.(type) {
		case responsesMessage:
			s.message(item, i)
		case responsesCall:
			s.functionCall(item, i)
		case responsesReasoning:
			s.reasoning(item, i)
		}
	}
	done := p.finished(base, a, items)
	s.add(responsesEvent{Type: "response." + done.Status, Response: &done})
	s.events[len(s.events)-1].last = true
	return stream{events: s.events, fail: func(e *apiError) []event { return responsesFailure(base, e) }}
}

// responsesFailure ends a stream the way the API does: an error event, then the failed response.
func responsesFailure(base response, e *apiError) []event {
	s := &responsesStream{}
	detail := e.openAI()
	s.add(responsesEvent{Type: "error", Error: &detail})
	base.Status = "failed"
	base.Error = &responseError{Code: e.code, Message: e.message}
	if e.code == "" {
		base.Error.Code = "server_error"
	}
	s.add(responsesEvent{Type: "response.failed", Response: &base})
	return s.events
}

func (s *responsesStream) message(m responsesMessage, index int) {
	zero := 0
	begun := m
	begun.Status, begun.Content = responsesInProgress, []any{}
	s.add(responsesEvent{Type: "response.output_item.added", OutputIndex: &index, Item: begun})
	at := responsesEvent{ItemID: m.ID, OutputIndex: &index, ContentIndex: &zero}
	switch part := m.Content[0].(type) {
	case responsesText:
		at.Type, at.Part = "response.content_part.added", responsesText{"output_text", []any{}, []any{}, ""}
		s.add(at)
		at.Type, at.Part = "response.output_text.delta", nil
		s.deltas(at, part.Text)
		at.Type, at.Text = "response.output_text.done", &part.Text
		s.add(at)
	case responsesRefusal:
		at.Type, at.Part = "response.content_part.added", responsesRefusal{"refusal", ""}
		s.add(at)
		at.Type, at.Part = "response.refusal.delta", nil
		s.deltas(at, part.Refusal)
		at.Type, at.Refusal = "response.refusal.done", &part.Refusal
		s.add(at)
	}
	s.add(responsesEvent{Type: "response.content_part.done", ItemID: m.ID, OutputIndex: &index, ContentIndex: &zero,
		Part: m.Content[0]})
	s.add(responsesEvent{Type: "response.output_item.done", OutputIndex: &index, Item: m})
}

func (s *responsesStream) functionCall(f responsesCall, index int) {
	begun := f
	begun.Status, begun.Arguments = responsesInProgress, ""
	s.add(responsesEvent{Type: "response.output_item.added", OutputIndex: &index, Item: begun})
	s.deltas(responsesEvent{Type: "response.function_call_arguments.delta", ItemID: f.ID, OutputIndex: &index}, f.Arguments)
	s.add(responsesEvent{Type: "response.function_call_arguments.done", ItemID: f.ID, OutputIndex: &index,
		Arguments: &f.Arguments})
	s.add(responsesEvent{Type: "response.output_item.done", OutputIndex: &index, Item: f})
}

func (s *responsesStream) reasoning(r responsesReasoning, index int) {
	begun := r
	begun.Summary = []responsesSummary{}
	s.add(responsesEvent{Type: "response.output_item.added", OutputIndex: &index, Item: begun})
	for i, summary := range r.Summary {
		at := responsesEvent{ItemID: r.ID, OutputIndex: &index, SummaryIndex: &i}
		at.Type, at.Part = "response.reasoning_summary_part.added", responsesSummary{summary.Type, ""}
		s.add(at)
		at.Type, at.Part = "response.reasoning_summary_text.delta", nil
		s.deltas(at, summary.Text)
		at.Type, at.Text = "response.reasoning_summary_text.done", &summary.Text
		s.add(at)
		at.Type, at.Text, at.Part = "response.reasoning_summary_part.done", nil, summary
		s.add(at)
	}
	s.add(responsesEvent{Type: "response.output_item.done", OutputIndex: &index, Item: r})
}
