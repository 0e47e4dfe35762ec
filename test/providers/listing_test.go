package providers

import (
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/provider/wire"
	"github.com/agentloop/agentloop/test/modelserver"
)

// TestStrictListing asks the scripted model server for models with limits, without, and not there.
func TestStrictListing(t *testing.T) {
	const scripts = "model: org/limited\nwindow: 32000\nmaxTokens: 4096\nreplies: [{}]\n---\nmodel: free\nreplies: [{}]\n"
	n := func(v int64) *int64 { return &v }
	for _, p := range protocols {
		t.Run(string(p.api), func(t *testing.T) {
			m := modelserver.New(modelserver.Options{})
			if _, err := m.LoadYAML([]byte(scripts), ""); err != nil {
				t.Fatal(err)
			}
			h := httptest.NewServer(m)
			t.Cleanup(func() { m.Close(); h.Close() })
			got, err := describe(t, p, h.URL+"/v1", "free", "org/limited", "gone/model")
			if err != nil {
				t.Fatal(err)
			}
			limited := provider.ModelInfo{ID: "org/limited", Listed: true, ContextWindow: n(32000)}
			if p.api == provider.APIAnthropicMessages {
				limited.MaxTokens = n(4096) // the others have no word for it
			}
			want := []provider.ModelInfo{{ID: "free", Listed: true}, limited, {ID: "gone/model"}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("models (-want +got):\n%s", diff)
			}
			if _, err := describe(t, p, h.URL+"/elsewhere", "free"); !errors.Is(err, provider.ErrNoListing) {
				t.Errorf("without a listing: %v", err)
			}
		})
	}
}

func describe(t *testing.T, p protocol, url string, ids ...string) ([]provider.ModelInfo, error) {
	t.Helper()
	s, err := p.new(wire.Config{BaseURL: url, APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	d, ok := s.(provider.Describer)
	if !ok {
		t.Fatalf("%T does not describe models", s)
	}
	return d.Describe(t.Context(), ids)
}
