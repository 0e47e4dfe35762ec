package session

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/projection"
)

func history(index int) projection.Source {
	return projection.Source{Type: projection.SourceHistory, MessageIndex: index}
}

// TestPackSources joins neighbours of the history only.
func TestPackSources(t *testing.T) {
	repair := projection.Source{Type: projection.SourceToolRepair, MessageIndex: 1, ToolCallID: "c"}
	cases := map[string]struct {
		sources []projection.Source
		want    string
	}{
		"nothing":       {want: `null`},
		"one row":       {sources: []projection.Source{history(0)}, want: `[{"type":"history","messageIndex":0}]`},
		"a whole story": {sources: []projection.Source{history(0), history(1), history(2)}, want: `[{"type":"history","messageIndex":0,"count":3}]`},
		"a gap parts rows": {
			sources: []projection.Source{history(0), history(2), history(3)},
			want:    `[{"type":"history","messageIndex":0},{"type":"history","messageIndex":2,"count":2}]`,
		},
		"a row of another type parts rows": {
			sources: []projection.Source{history(0), history(1), repair, history(2)},
			want:    `[{"type":"history","messageIndex":0,"count":2},{"type":"tool-repair","messageIndex":1,"toolCallId":"c"},{"type":"history","messageIndex":2}]`,
		},
		"rows of other types are never joined": {
			sources: []projection.Source{repair, repair},
			want:    `[{"type":"tool-repair","messageIndex":1,"toolCallId":"c"},{"type":"tool-repair","messageIndex":1,"toolCallId":"c"}]`,
		},
		"the same row twice is not joined": {
			sources: []projection.Source{history(4), history(4)},
			want:    `[{"type":"history","messageIndex":4},{"type":"history","messageIndex":4}]`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(PackSources(tc.sources))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(raw)); diff != "" {
				t.Errorf("packed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSourcesRoundTrip draws maps of all kinds: packing loses nothing, in memory and in JSON.
func TestSourcesRoundTrip(t *testing.T) {
	for seed := range uint64(500) {
		sources := drawSources(rand.New(rand.NewPCG(seed, 1)))
		packed := PackSources(sources)
		if diff := cmp.Diff(sources, UnpackSources(packed), same); diff != "" {
			t.Fatalf("seed %d: unpacked (-want +got):\n%s", seed, diff)
		}
		raw, err := json.Marshal(packed)
		if err != nil {
			t.Fatal(err)
		}
		var read []SourceRun
		if err := json.Unmarshal(raw, &read); err != nil {
			t.Fatalf("seed %d: %v in %s", seed, err, raw)
		}
		if diff := cmp.Diff(sources, UnpackSources(read), same); diff != "" {
			t.Fatalf("seed %d: read back (-want +got):\n%s", seed, diff)
		}
		for i := 1; i < len(packed); i++ {
			a, b := packed[i-1], packed[i]
			if a.Type == projection.SourceHistory && b.Type == projection.SourceHistory && a.MessageIndex+a.Count == b.MessageIndex {
				t.Fatalf("seed %d: rows %d and %d could have been joined", seed, i-1, i)
			}
		}
	}
}

func drawSources(r *rand.Rand) []projection.Source {
	var sources []projection.Source
	at := 0
	for range r.IntN(40) {
		switch r.IntN(8) {
		case 0:
			sources = append(sources, projection.Source{Type: projection.SourceCompaction, MessageIndex: at, CheckpointID: `c"1`, SummarizedBefore: at})
		case 1:
			source := projection.Source{Type: projection.SourceRuntimeContext, MessageIndex: at, SnapshotIndex: r.IntN(3), UserTurn: r.IntN(at + 1)}
			for range r.IntN(3) {
				source.Skills = append(source.Skills, projection.SkillRef{ID: "s", Revision: "r"})
			}
			sources = append(sources, source)
		case 2:
			sources = append(sources, projection.Source{Type: projection.SourceToolRepair, MessageIndex: at, ToolCallID: "<id>"})
		case 3:
			at += 1 + r.IntN(3)
		default:
			sources = append(sources, history(at))
			at++
		}
	}
	return sources
}

// TestSourceRunRefuses keeps a damaged map from being read as another one.
func TestSourceRunRefuses(t *testing.T) {
	cases := map[string]string{
		"no rows":                   `{"type":"history","messageIndex":0,"count":0}`,
		"a negative number of rows": `{"type":"history","messageIndex":0,"count":-1}`,
		"half a row":                `{"type":"history","messageIndex":0,"count":1.5}`,
		"rows of another type":      `{"type":"tool-repair","messageIndex":0,"toolCallId":"c","count":2}`,
		"an unknown field":          `{"type":"history","messageIndex":0,"rows":2}`,
		"no object":                 `[]`,
		"an unknown type":           `{"type":"other","messageIndex":0}`,
	}
	for name, raw := range cases {
		t.Run(name, func(t *testing.T) {
			var run SourceRun
			if err := json.Unmarshal([]byte(raw), &run); err == nil {
				t.Errorf("read as %+v", run)
			}
		})
	}
}

// FuzzSourceRun states that what is read is written the same way again.
func FuzzSourceRun(f *testing.F) {
	f.Add(`{"type":"history","messageIndex":0,"count":3}`)
	f.Add(`{"type":"compaction","checkpointId":"c","messageIndex":2,"summarizedBefore":2}`)
	f.Add(`{"type":"runtime-context","snapshotIndex":0,"userTurn":0,"messageIndex":2,"skills":[{"id":"a","revision":"b"}]}`)
	f.Fuzz(func(t *testing.T, raw string) {
		var run SourceRun
		if json.Unmarshal([]byte(raw), &run) != nil {
			return
		}
		once, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		var again SourceRun
		if err := json.Unmarshal(once, &again); err != nil {
			t.Fatalf("%v in %s, read from %s", err, once, raw)
		}
		if diff := cmp.Diff(run, again, same); diff != "" {
			t.Errorf("read %s (-first +again):\n%s", strings.TrimSpace(raw), diff)
		}
	})
}
