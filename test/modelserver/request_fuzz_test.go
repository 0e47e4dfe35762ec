package modelserver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Whatever a client sends is answered or refused in the protocol's shape; and what is accepted once is accepted again.
func FuzzRequests(f *testing.F) {
	for _, table := range []map[string]refused{
		anthropicPairs, anthropicFieldCases, anthropicThinkingCases, chatMessageCases, chatFieldCases, responsesItemCases,
		responsesFieldCases,
	} {
		for _, tc := range table {
			if len(tc.body) < 1<<12 {
				f.Add(tc.body)
			}
		}
	}
	for _, ask := range asked {
		f.Add(ask.whole)
		f.Add(ask.streamed)
	}
	s := New(Options{MaxRecordedBytes: 1 << 20})
	if _, err := s.LoadYAML([]byte("model: m\nwindow: 1000\nreplies: [{echo: true, repeat: true}]"), ""); err != nil {
		f.Fatal(err)
	}
	send := func(path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Anthropic-Version", "2023-06-01")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions", "/v1/responses"} {
			w := send(path, body)
			switch {
			case w.Code == http.StatusOK && w.Header().Get("Content-Type") == "text/event-stream":
				if !strings.HasSuffix(w.Body.String(), "\n\n") {
					t.Errorf("%s: a stream ends within an event: %q", path, w.Body)
				}
			case !json.Valid(w.Body.Bytes()) || w.Code != http.StatusOK && (w.Code < 400 || w.Code > 499):
				t.Errorf("%s: %d %q", path, w.Code, w.Body)
			}
			if again := send(path, body); again.Code != w.Code {
				t.Errorf("%s: %d, then %d", path, w.Code, again.Code)
			}
		}
	})
}
