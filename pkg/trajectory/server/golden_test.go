package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// instance is what differs in every problem: the request's id.
var instance = regexp.MustCompile(`"instance": "[0-9a-f]+"`)

// TestGoldenAnswers holds the answers of every endpoint to what clients were told before. Details, exports and images have tests
// of their own.
func TestGoldenAnswers(t *testing.T) {
	s := newSite(t)
	var first struct {
		Next string `json:"next"`
	}
	s.get(base+"/trajectory?limit=3").decode(t, &first)
	for name, path := range map[string]string{
		"sessions":         "/api/sessions?namespace=team",
		"sessions-page":    "/api/sessions?namespace=team&limit=1",
		"session":          base,
		"session-fresh":    "/api/sessions/team:fresh",
		"messages":         base + "/messages",
		"messages-page":    base + "/messages?limit=2",
		"trajectory-page":  base + "/trajectory?limit=3",
		"trajectory-next":  base + "/trajectory?limit=3&after=" + first.Next,
		"trajectory-fresh": "/api/sessions/team:fresh/trajectory",
		"detail":           base + "/trajectory/detail?id=run.main.6",
		"problem-400":      base + "/trajectory?limit=0",
		"problem-403":      "/api/sessions/other:x",
		"problem-404":      base + "/trajectory/detail?id=run.main.999",
		"problem-410":      base + "/trajectory?after=eyJ2Ijo5fQ",
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			var got bytes.Buffer
			if err := json.Indent(&got, s.get(path).body, "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			stable := instance.ReplaceAll(got.Bytes(), []byte(`"instance": "…"`))
			file := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(file, stable, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(stable)); diff != "" {
				t.Errorf("GET %s (-want +got):\n%s", path, diff)
			}
		})
	}
	s.t = t
	if a := s.do(http.MethodGet, base); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", a.Status)
	}
}
