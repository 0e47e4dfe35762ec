package projection

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSourceJSON(t *testing.T) {
	cases := map[string]struct {
		source Source
		want   string
	}{
		"history":    {Source{Type: SourceHistory, MessageIndex: 3, UserTurn: 9}, `{"type":"history","messageIndex":3}`},
		"compaction": {Source{Type: SourceCompaction, CheckpointID: "cp", MessageIndex: 4, SummarizedBefore: 4}, `{"type":"compaction","checkpointId":"cp","messageIndex":4,"summarizedBefore":4}`},
		"runtime context": {Source{Type: SourceRuntimeContext, SnapshotIndex: 1, UserTurn: 2, MessageIndex: 5, Skills: []SkillRef{{ID: "a", Revision: "r\"1"}, {ID: "b"}}},
			`{"type":"runtime-context","snapshotIndex":1,"userTurn":2,"messageIndex":5,"skills":[{"id":"a","revision":"r\"1"},{"id":"b","revision":""}]}`},
		"runtime context without Skills": {Source{Type: SourceRuntimeContext, Skills: []SkillRef{}},
			`{"type":"runtime-context","snapshotIndex":0,"userTurn":0,"messageIndex":0,"skills":[]}`},
		"tool repair": {Source{Type: SourceToolRepair, MessageIndex: 3, ToolCallID: "call_x"}, `{"type":"tool-repair","messageIndex":3,"toolCallId":"call_x"}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(tc.source)
			if err != nil || string(raw) != tc.want {
				t.Fatalf("%s, error %v, want %s", raw, err, tc.want)
			}
			var back Source
			if err := json.Unmarshal(raw, &back); err != nil {
				t.Fatal(err)
			}
			want := tc.source
			if want.Type == SourceHistory {
				want.UserTurn = 0 // not a field of its type
			}
			if diff := cmp.Diff(want, back); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestSourceJSONRefuses(t *testing.T) {
	cases := map[string]string{
		"an unknown type":              `{"type":"other","messageIndex":1}`,
		"no type":                      `{"messageIndex":1}`,
		"no index":                     `{"type":"history"}`,
		"an unknown field":             `{"type":"history","messageIndex":1,"x":1}`,
		"a field of another type":      `{"type":"history","messageIndex":1,"toolCallId":"c"}`,
		"Skills in a history row":      `{"type":"history","messageIndex":1,"skills":[]}`,
		"a repair without its call":    `{"type":"tool-repair","messageIndex":1}`,
		"a snapshot without its index": `{"type":"runtime-context","userTurn":1,"messageIndex":1,"skills":[]}`,
		"a summary without its id":     `{"type":"compaction","messageIndex":1,"summarizedBefore":1}`,
		"a fraction":                   `{"type":"history","messageIndex":1.5}`,
	}
	for name, raw := range cases {
		t.Run(name, func(t *testing.T) {
			var s Source
			if err := json.Unmarshal([]byte(raw), &s); err == nil {
				t.Errorf("accepted as %+v", s)
			}
		})
	}
}

func TestProjectionJSON(t *testing.T) {
	p := ModelInputProjection{HistoryMessageCount: 2, Sources: []Source{{Type: SourceHistory, MessageIndex: 0}}}
	raw, err := json.Marshal(p)
	if want := `{"historyMessageCount":2,"sources":[{"type":"history","messageIndex":0}]}`; err != nil || string(raw) != want {
		t.Errorf("%s, error %v, want %s", raw, err, want)
	}
	p.SkillExpansions = []SkillExpansion{{MessageIndex: 0, SnapshotIndex: 1, Skills: []SkillRef{{ID: "s", Revision: "r"}}}}
	raw, err = json.Marshal(p)
	if want := `"skillExpansions":[{"messageIndex":0,"snapshotIndex":1,"skills":[{"id":"s","revision":"r"}]}]}`; err != nil || !strings.HasSuffix(string(raw), want) {
		t.Errorf("%s, error %v, want the end %s", raw, err, want)
	}
}

func TestEmptyProjectionHasAList(t *testing.T) {
	got, err := Project(Input{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(got.Projection)
	if want := `{"historyMessageCount":0,"sources":[]}`; err != nil || string(raw) != want {
		t.Errorf("%s, error %v, want %s", raw, err, want)
	}
}

func TestProjectionClone(t *testing.T) {
	p := ModelInputProjection{HistoryMessageCount: 1,
		Sources:         []Source{{Type: SourceRuntimeContext, Skills: []SkillRef{{ID: "a"}}}},
		SkillExpansions: []SkillExpansion{{Skills: []SkillRef{{ID: "b"}}}}}
	c := p.Clone()
	c.Sources[0].Skills[0].ID, c.SkillExpansions[0].Skills[0].ID = "x", "x"
	c.Sources[0].MessageIndex, c.SkillExpansions[0].SnapshotIndex = 7, 7
	if p.Sources[0].Skills[0].ID != "a" || p.SkillExpansions[0].Skills[0].ID != "b" ||
		p.Sources[0].MessageIndex != 0 || p.SkillExpansions[0].SnapshotIndex != 0 {
		t.Errorf("the original changed: %+v", p)
	}
}

func TestValidate(t *testing.T) {
	history := func(at ...int) []Source {
		var out []Source
		for _, i := range at {
			out = append(out, Source{Type: SourceHistory, MessageIndex: i})
		}
		return out
	}
	cases := map[string]struct {
		p        ModelInputProjection
		messages int
		want     string
	}{
		"everything fits":              {ModelInputProjection{HistoryMessageCount: 3, Sources: history(0, 2)}, 2, ""},
		"fewer sources than messages":  {ModelInputProjection{HistoryMessageCount: 3, Sources: history(0)}, 2, "1 sources for 2 messages"},
		"another history":              {ModelInputProjection{HistoryMessageCount: 4, Sources: history(0)}, 1, "historyMessageCount 4"},
		"an index at the end":          {ModelInputProjection{HistoryMessageCount: 3, Sources: history(3)}, 1, "source 0: messageIndex 3"},
		"a negative index":             {ModelInputProjection{HistoryMessageCount: 3, Sources: history(-1)}, 1, "source 0: messageIndex -1"},
		"an entry twice":               {ModelInputProjection{HistoryMessageCount: 3, Sources: history(1, 1)}, 2, "source 1: messageIndex 1 does not follow 1"},
		"an unknown type":              {ModelInputProjection{HistoryMessageCount: 3, Sources: []Source{{Type: "x"}}}, 1, "source 0: unknown type"},
		"a summary that is not first":  {ModelInputProjection{HistoryMessageCount: 3, Sources: append(history(0), Source{Type: SourceCompaction, CheckpointID: "c", MessageIndex: 1, SummarizedBefore: 1})}, 2, "source 1: compaction"},
		"a summary of other messages":  {ModelInputProjection{HistoryMessageCount: 3, Sources: []Source{{Type: SourceCompaction, CheckpointID: "c", MessageIndex: 1, SummarizedBefore: 2}}}, 1, "source 0: compaction"},
		"a turn after its own message": {ModelInputProjection{HistoryMessageCount: 3, Sources: []Source{{Type: SourceRuntimeContext, UserTurn: 2, MessageIndex: 1}}}, 1, "source 0: snapshotIndex or userTurn"},
		"an expansion outside history": {ModelInputProjection{HistoryMessageCount: 3, Sources: history(0), SkillExpansions: []SkillExpansion{{MessageIndex: 3}}}, 1, "skillExpansion 0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := Validate(tc.p, tc.messages, 3)
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, ErrInvalidProjection) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}
