package trajectory_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/viewer/story"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares with a file of testdata, or rewrites it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func indented(t *testing.T, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		t.Fatalf("not JSON: %v: %s", err, raw)
	}
	return append(out.Bytes(), '\n')
}

func sample(t *testing.T) *story.Story {
	t.Helper()
	s, err := story.Sample(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read makes a fresh index of a story.
func read(t *testing.T, s *story.Story) (*trajectory.Reader, *trajectory.Index) {
	t.Helper()
	r := trajectory.NewReader(s.Log, s.Store)
	b := trajectory.NewBuilder(s.Scope())
	if err := r.Refresh(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	return r, b.Index()
}

func page(t *testing.T, ix *trajectory.Index, after string, limit int) trajectory.Page {
	t.Helper()
	p, err := ix.Page(after, limit)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestGoldenIndex(t *testing.T) {
	_, ix := read(t, sample(t))
	p := page(t, ix, "", 1000)
	raw, err := trajectory.Encode(map[string]any{
		"agents": p.Agents, "runs": p.Runs, "entries": p.Entries, "untimed": p.Untimed, "notices": ix.Notices, "counts": ix.Counts,
		"realTime": ix.RealTime, "head": ix.Head,
	})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "index.json", indented(t, raw))
}

func TestGoldenDetails(t *testing.T) {
	r, ix := read(t, sample(t))
	for name, id := range map[string]string{
		"input": "run.main.13", "output": "run.main.4", "tool": "run.main.5", "mcp": "run.main.6", "reasoning": "run.main.14",
		"prompt": "run.main.2", "failed-input": "run.main.21",
	} {
		t.Run(name, func(t *testing.T) {
			d, err := r.Detail(context.Background(), ix, id, 0)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := trajectory.Encode(d)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "detail-"+name+".json", indented(t, raw))
		})
	}
}

func TestGoldenExport(t *testing.T) {
	r, ix := read(t, sample(t))
	var out bytes.Buffer
	records, err := r.Export(context.Background(), ix, trajectory.Header{Session: map[string]any{"id": "team:sample"}, ExportedAt: 1773478800000000}, trajectory.OneByOne, &out)
	if err != nil {
		t.Fatal(err)
	}
	if records != ix.Counts.Entries {
		t.Errorf("exported %d records, the index has %d", records, ix.Counts.Entries)
	}
	golden(t, "export.ndjson", out.Bytes())
}
