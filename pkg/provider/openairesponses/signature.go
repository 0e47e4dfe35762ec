package openairesponses

import (
	"encoding/json"
	"strings"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/agentloop/agentloop/pkg/message"
)

// summaryGap stands between the parts of a reasoning summary in a block's thinking.
const summaryGap = "\n\n"

// reasoningSignature is what a thinking block's signature holds: all of the reasoning item that its thinking does not.
type reasoningSignature struct {
	ID        string `json:"id,omitempty"`
	Encrypted string `json:"encrypted_content,omitempty"`
	// Summary has the length in bytes of each part of the summary within the thinking. It is left out when the thinking
	// is one part, and empty but present when the thinking is no summary (reasoning text of an open model).
	Summary *[]int `json:"summary,omitempty"`
}

// textSignature is what a text block's signature holds of its message item.
type textSignature struct {
	ID    string `json:"id,omitempty"`
	Phase string `json:"phase,omitempty"`
}

func readTextSignature(raw string) textSignature {
	var s textSignature
	if json.Unmarshal([]byte(raw), &s) != nil {
		return textSignature{}
	}
	return s
}

// encode returns a signature's JSON; empty when it holds nothing. Both kinds hold strings and integers only.
func encode(signature any) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(signature) != nil {
		return ""
	}
	if text := strings.TrimSpace(out.String()); text != "{}" {
		return text
	}
	return ""
}

// summarize returns a reasoning item's text and signature.
func summarize(item *item) (thinking, signature string) {
	s := reasoningSignature{ID: item.ID, Encrypted: item.EncryptedContent}
	var parts []string
	lengths := []int{}
	for _, p := range item.Summary {
		parts = append(parts, p.Text)
		lengths = append(lengths, len(p.Text))
	}
	if len(parts) == 0 {
		for _, p := range item.Content {
			parts = append(parts, p.Text)
		}
	}
	thinking = strings.Join(parts, summaryGap)
	if len(lengths) > 1 || len(lengths) == 0 && thinking != "" {
		s.Summary = &lengths
	}
	return thinking, encode(s)
}

// replay returns the reasoning item of a thinking block; false when it has no encrypted content, without which the
// provider cannot take it back.
func replay(b message.Block) (responses.ResponseInputItemUnionParam, bool) {
	var s reasoningSignature
	if json.Unmarshal([]byte(b.ThinkingSignature), &s) != nil || s.Encrypted == "" {
		return responses.ResponseInputItemUnionParam{}, false
	}
	item := responses.ResponseReasoningItemParam{
		ID: s.ID, EncryptedContent: param.NewOpt(s.Encrypted), Summary: []responses.ResponseReasoningItemSummaryParam{},
	}
	for _, text := range s.parts(b.Thinking) {
		item.Summary = append(item.Summary, responses.ResponseReasoningItemSummaryParam{Text: text})
	}
	if s.ID == "" {
		item.SetExtraFields(map[string]any{"id": param.Omit})
	}
	return responses.ResponseInputItemUnionParam{OfReasoning: &item}, true
}

// parts splits the thinking as the summary came. Thinking that does not fit its signature is one part.
func (s reasoningSignature) parts(thinking string) []string {
	whole := []string{thinking}
	if thinking == "" {
		whole = nil
	}
	if s.Summary == nil {
		return whole
	}
	var parts []string
	rest := thinking
	for i, n := range *s.Summary {
		if i > 0 {
			after, ok := strings.CutPrefix(rest, summaryGap)
			if !ok {
				return whole
			}
			rest = after
		}
		if n < 0 || n > len(rest) {
			return whole
		}
		parts = append(parts, rest[:n])
		rest = rest[n:]
	}
	if rest != "" && len(parts) > 0 {
		return whole
	}
	return parts
}
