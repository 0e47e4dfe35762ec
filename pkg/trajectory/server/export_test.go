package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/agentloop/agentloop/pkg/trajectory/atif"
)

// completeness says of each format whether what was received is a whole export.
var completeness = map[string]func(t *testing.T, body []byte) bool{
	"ndjson": func(_ *testing.T, body []byte) bool { return bytes.Contains(body, []byte(`{"type":"complete"`)) },
	"otlp-json": func(t *testing.T, body []byte) bool {
		spans, said := otlpSpans(t, body)
		return said >= 0 && spans >= said
	},
	"atif": func(t *testing.T, body []byte) bool {
		complete, said := 0, -1
		for line := range bytes.Lines(body) {
			if atif.Validate(line) != nil {
				continue
			}
			var d struct {
				Extra struct {
					Agentloop struct {
						Export struct {
							Documents int `json:"documents"`
						} `json:"export"`
					} `json:"agentloop"`
				} `json:"extra"`
			}
			if err := json.Unmarshal(line, &d); err != nil {
				t.Fatal(err)
			}
			complete, said = complete+1, d.Extra.Agentloop.Export.Documents
		}
		return said >= 0 && complete >= said
	},
}

// otlpSpans counts the spans of the complete lines, and returns how many there should be; below 0 without any line.
func otlpSpans(t *testing.T, body []byte) (spans, said int) {
	t.Helper()
	said = -1
	for line := range bytes.Lines(body) {
		var request struct {
			ResourceSpans []struct {
				Resource struct {
					Attributes []struct {
						Key   string `json:"key"`
						Value struct {
							Int int `json:"intValue,string"`
						} `json:"value"`
					} `json:"attributes"`
				} `json:"resource"`
				ScopeSpans []struct {
					Spans []json.RawMessage `json:"spans"`
				} `json:"scopeSpans"`
			} `json:"resourceSpans"`
		}
		if json.Unmarshal(line, &request) != nil {
			continue
		}
		for _, resource := range request.ResourceSpans {
			for _, attribute := range resource.Resource.Attributes {
				if attribute.Key == "agentloop.export.spans" {
					said = attribute.Value.Int
				}
			}
			for _, scope := range resource.ScopeSpans {
				spans += len(scope.Spans)
			}
		}
	}
	return spans, said
}

// TestFormats downloads each format.
func TestFormats(t *testing.T) {
	s := newSite(t)
	for name, c := range map[string]struct{ query, format, file string }{
		"the default":        {"", "ndjson", "team_sample.trajectory.ndjson"},
		"NDJSON":             {"?format=ndjson", "ndjson", "team_sample.trajectory.ndjson"},
		"OTLP":               {"?format=otlp-json", "otlp-json", "team_sample.otlp.jsonl"},
		"OTLP with contents": {"?format=otlp-json&content=true", "otlp-json", "team_sample.otlp.jsonl"},
		"ATIF":               {"?format=atif", "atif", "team_sample.atif.jsonl"},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			path := base + "/trajectory/export" + c.query
			a := s.get(path)
			if got := a.Header.Get("Content-Disposition"); a.StatusCode != http.StatusOK || got != `attachment; filename="`+c.file+`"` ||
				a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Content-Type") != "application/x-ndjson" {
				t.Errorf("%s, headers %v", a.Status, a.Header)
			}
			if !completeness[c.format](t, a.body) {
				t.Errorf("the export is not complete: %.300s", a.body)
			}
			head := s.do(http.MethodHead, path, "Authorization", "Bearer token-of-alice")
			if head.StatusCode != http.StatusOK || len(head.body) > 0 || head.Header.Get("Content-Disposition") != a.Header.Get("Content-Disposition") {
				t.Errorf("HEAD: %s %v", head.Status, head.Header)
			}
			if bob := s.do(http.MethodGet, path, "Authorization", "Bearer token-of-bob"); bob.StatusCode != http.StatusForbidden {
				t.Errorf("without the permission: %s", bob.Status)
			}
		})
	}
}

// TestACutFormatIsNeverComplete lets the store go away ever later, until the export gets through.
func TestACutFormatIsNeverComplete(t *testing.T) {
	for format, complete := range completeness {
		t.Run(format, func(t *testing.T) {
			broken := 0
			for left := 1; left < 200; left++ {
				store := &brokenStore{left: left}
				s := newSite(t, func(o *Options) { store.Store = o.Store; o.Store = store })
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+base+"/trajectory/export?format="+format, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Authorization", "Bearer token-of-alice")
				response, err := http.DefaultClient.Do(request)
				if err != nil { // broken off before anything was sent
					broken++
					continue
				}
				body, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				switch {
				case response.StatusCode == http.StatusServiceUnavailable:
					if response.Header.Get("Content-Disposition") != "" || bytes.Contains(body, []byte("secret-endpoint")) {
						t.Errorf("a failure before the first byte: %v %s", response.Header, body)
					}
				case err == nil:
					if !complete(t, body) {
						t.Errorf("a transfer that ends well is not complete: %.300s", body)
					}
					if broken == 0 {
						t.Error("no export was broken off")
					}
					return
				case complete(t, body):
					t.Errorf("broken off after %d objects, but complete: %.300s", left, body)
				}
				broken++
			}
			t.Error("no export got through")
		})
	}
}
