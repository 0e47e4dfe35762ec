package modelserver

import (
	"fmt"
	"strings"
)

type responsesUsage struct {
	Input         *int64                  `json:"input_tokens,omitempty"`
	InputDetails  *responsesInputDetails  `json:"input_tokens_details,omitempty"`
	Output        *int64                  `json:"output_tokens,omitempty"`
	OutputDetails *responsesOutputDetails `json:"output_tokens_details,omitempty"`
	Total         *int64                  `json:"total_tokens,omitempty"`
}

type responsesInputDetails struct {
	Cached     *int64 `json:"cached_tokens,omitempty"`
	CacheWrite *int64 `json:"cache_write_tokens,omitempty"`
}

type responsesOutputDetails struct {
	Reasoning *int64 `json:"reasoning_tokens,omitempty"`
}

// response is the response object of answers and events.
type response struct {
	ID                string                      `json:"id"`
	Object            string                      `json:"object"`
	CreatedAt         int64                       `json:"created_at"`
	Status            string                      `json:"status"`
	Error             *responseError              `json:"error"`
	IncompleteDetails *responsesIncompleteDetails `json:"incomplete_details"`
	Instructions      any                         `json:"instructions"`
	MaxOutputTokens   any                         `json:"max_output_tokens"`
	Metadata          any                         `json:"metadata"`
	Model             string                      `json:"model"`
	Output            []any                       `json:"output"`
	ParallelToolCalls bool                        `json:"parallel_tool_calls"`
	Reasoning         any                         `json:"reasoning"`
	Store             any                         `json:"store"`
	Temperature       any                         `json:"temperature"`
	ToolChoice        any                         `json:"tool_choice"`
	Tools             any                         `json:"tools"`
	TopP              any                         `json:"top_p"`
	Truncation        any                         `json:"truncation"`
	Usage             *responsesUsage             `json:"usage"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type responsesIncompleteDetails struct {
	Reason string `json:"reason"`
}

// The output items.
type (
	responsesMessage struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Status  string `json:"status"`
		Role    string `json:"role"`
		Content []any  `json:"content"`
	}
	responsesText struct {
		Type        string `json:"type"`
		Annotations []any  `json:"annotations"`
		Logprobs    []any  `json:"logprobs"`
		Text        string `json:"text"`
	}
	responsesRefusal struct {
		Type    string `json:"type"`
		Refusal string `json:"refusal"`
	}
	responsesCall struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Status    string `json:"status"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	responsesReasoning struct {
		ID        string             `json:"id"`
		Type      string             `json:"type"`
		Summary   []responsesSummary `json:"summary"`
		Encrypted *string            `json:"encrypted_content,omitempty"`
	}
	responsesSummary struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
)

const (
	responsesInProgress = "in_progress"
	responsesCompleted  = "completed"
	responsesIncomplete = "incomplete"
)

func (p responsesAPI) usage(a *answer) *responsesUsage {
	if !a.hasUsage {
		return nil
	}
	in := a.usage
	u := &responsesUsage{Input: in.Input, Output: in.Output}
	if in.Input != nil {
		u.Input = sum(in.Input, in.CacheRead, in.CacheWrite)
	}
	if u.Input != nil && u.Output != nil {
		u.Total = sum(u.Input, u.Output)
	}
	if in.CacheRead != nil || in.CacheWrite != nil {
		u.InputDetails = &responsesInputDetails{in.CacheRead, in.CacheWrite}
	}
	if in.Reasoning != nil {
		u.OutputDetails = &responsesOutputDetails{in.Reasoning}
	}
	return u
}

// base is the response as it is when it begins.
func (p responsesAPI) base(c *call, a *answer) response {
	pick := func(key string, otherwise any) any {
		if v := c.echoed[key]; v != nil {
			return v
		}
		return otherwise
	}
	return response{
		ID: "resp_" + a.id, Object: "response", CreatedAt: a.created, Status: responsesInProgress, Model: c.model.name,
		Instructions: pick("instructions", nil), MaxOutputTokens: pick("max_output_tokens", nil),
		Metadata: pick("metadata", object{}), Output: []any{}, ParallelToolCalls: pick("parallel_tool_calls", true) == true,
		Reasoning: pick("reasoning", object{"effort": nil, "summary": nil}), Store: pick("store", true),
		Temperature: pick("temperature", 1), ToolChoice: pick("tool_choice", "auto"), Tools: pick("tools", []any{}),
		TopP: pick("top_p", 1), Truncation: pick("truncation", "disabled"),
	}
}

// finished completes the response with its output and how it ended.
func (p responsesAPI) finished(r response, a *answer, output []any) response {
	r.Output, r.Usage = append(r.Output, output...), p.usage(a)
	r.Status = responsesStatus(a)
	if r.Status != responsesIncomplete {
		return r
	}
	reason := "max_output_tokens"
	if a.stop != stopLength && a.stop != stopContext {
		reason = a.stop
	}
	r.IncompleteDetails = &responsesIncompleteDetails{reason}
	return r
}

// responsesStatus is how the response ends: words of other protocols for a natural end count as completed.
func responsesStatus(a *answer) string {
	switch a.stop {
	case stopStop, stopToolUse, stopRefusal, stopPause:
		return responsesCompleted
	}
	return responsesIncomplete
}

// items are the answer's output items. Reasoning is sealed with its id and the item it leads to.
func (p responsesAPI) items(c *call, a *answer) []any {
	var items []any
	reasoning := ""
	for i, part := range a.parts {
		switch part.kind {
		case partThinking:
			reasoning = fmt.Sprintf("rs_%s%02d", a.id, i)
			items = append(items, p.reasoningItem(c, a, i, reasoning))
		case partToolCall:
			items = append(items, responsesCall{ID: itemID("fc", a.id, i, reasoning), Type: "function_call",
				Status: itemStatus(a, i), CallID: part.id, Name: part.name, Arguments: part.text})
		case partRefusal:
			items = append(items, responsesMessage{ID: itemID("msg", a.id, i, reasoning), Type: "message",
				Status: itemStatus(a, i), Role: "assistant", Content: []any{responsesRefusal{"refusal", part.text}}})
		default:
			items = append(items, responsesMessage{ID: itemID("msg", a.id, i, reasoning), Type: "message",
				Status: itemStatus(a, i), Role: "assistant", Content: []any{responsesText{"output_text", []any{}, []any{}, part.text}}})
		}
	}
	return items
}

// itemStatus is incomplete for the last item of a response that was cut.
func itemStatus(a *answer, i int) string {
	if i == len(a.parts)-1 {
		return responsesStatus(a)
	}
	return responsesCompleted
}

func (p responsesAPI) reasoningItem(c *call, a *answer, i int, id string) responsesReasoning {
	item := responsesReasoning{ID: id, Type: "reasoning", Summary: []responsesSummary{}}
	if c.wantSummary && !a.parts[i].redacted && a.parts[i].text != "" {
		item.Summary = append(item.Summary, responsesSummary{"summary_text", a.parts[i].text})
	}
	if !c.wantEncrypted {
		return item
	}
	var follow digest
	for _, next := range a.parts[i+1:] {
		if next.kind == partThinking {
			continue
		}
		follow = followDigest(object{"type": "message", "role": "assistant"})
		if next.kind == partToolCall {
			follow = followDigest(object{"type": "function_call", "call_id": next.id})
		}
		break
	}
	token := p.signer.issue("reasoning", c.model.name, "", seal{a: digestOf(id), b: follow})
	item.Encrypted = &token
	return item
}

// itemID names an item. The id of one that reasoning led to holds the reasoning's id, so that a later request which
// names the one without the other is recognised.
func itemID(kind, answer string, index int, reasoning string) string {
	if reasoning == "" {
		return fmt.Sprintf("%s_%s%02d", kind, answer, index)
	}
	return fmt.Sprintf("%s_%02dr%s", kind, index, strings.TrimPrefix(reasoning, "rs_"))
}

// reasoningOf is the inverse of itemID: the id of the reasoning that led to the item, or nothing.
func reasoningOf(id string) string {
	_, rest, ok := strings.Cut(id, "_")
	if !ok || len(rest) != 3+26 || rest[2] != 'r' {
		return ""
	}
	return "rs_" + rest[3:]
}

func (p responsesAPI) whole(c *call, a *answer) []byte {
	r := p.finished(p.base(c, a), a, p.items(c, a))
	return encode(r)
}
