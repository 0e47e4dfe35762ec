package modelserver

import (
	"net/http"
	"slices"
)

type anthropicModel struct {
	Type           string `json:"type"`
	ID             string `json:"id"`
	DisplayName    string `json:"display_name"`
	CreatedAt      string `json:"created_at"`
	MaxInputTokens *int64 `json:"max_input_tokens"`
	MaxTokens      *int64 `json:"max_tokens"`
	Lifecycle      string `json:"lifecycle"`
}

type openAIModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	// MaxModelLen is what vLLM adds to OpenAI's own fields, which tell no limits.
	MaxModelLen *int64 `json:"max_model_len,omitempty"`
}

// limit is a limit of a script; nil for one that it does not set.
func limit(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}

func describeAnthropic(m *model) anthropicModel {
	return anthropicModel{Type: "model", ID: m.name, DisplayName: m.name, CreatedAt: "1970-01-01T00:00:00Z",
		MaxInputTokens: limit(m.script.Window), MaxTokens: limit(m.script.MaxTokens), Lifecycle: "active"}
}

func describeOpenAI(m *model) openAIModel {
	return openAIModel{ID: m.name, Object: "model", OwnedBy: "modelserver", MaxModelLen: limit(m.script.Window)}
}

func (s *Server) loaded() []*model {
	s.mu.RLock()
	defer s.mu.RUnlock()
	models := make([]*model, 0, len(s.order))
	for _, id := range s.order {
		models = append(models, s.models[id])
	}
	return models
}

func (s *Server) listModels(w http.ResponseWriter, r *http.Request) {
	models := s.loaded()
	if !isAnthropicClient(r.Header) {
		list := struct {
			Object string        `json:"object"`
			Data   []openAIModel `json:"data"`
		}{Object: "list", Data: []openAIModel{}}
		for _, m := range models {
			list.Data = append(list.Data, describeOpenAI(m))
		}
		writeJSON(w, http.StatusOK, list)
		return
	}
	list := struct {
		Data    []anthropicModel `json:"data"`
		HasMore bool             `json:"has_more"`
		FirstID *string          `json:"first_id"`
		LastID  *string          `json:"last_id"`
	}{Data: []anthropicModel{}}
	for _, m := range models {
		list.Data = append(list.Data, describeAnthropic(m))
	}
	if len(list.Data) > 0 {
		list.FirstID, list.LastID = &list.Data[0].ID, &list.Data[len(list.Data)-1].ID
	}
	writeJSON(w, http.StatusOK, list)
}

func (s *Server) getModel(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	m := s.lookup(id)
	anthropic := isAnthropicClient(r.Header)
	switch {
	case m == nil && anthropic:
		e := anthropicAPI{}.refusal(refuseModel, id)
		writeBody(w, e.status, e.anthropicBody(""))
	case m == nil:
		e := openAIRefusal(refuseModel, id)
		writeBody(w, e.status, e.openAIBody())
	case anthropic:
		writeJSON(w, http.StatusOK, describeAnthropic(m))
	default:
		writeJSON(w, http.StatusOK, describeOpenAI(m))
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) { writeBody(w, status, encode(v)) }

// writeBody ignores a client that has gone away: there is nobody left to tell.
func writeBody(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(slices.Concat(body, []byte("\n")))
}
