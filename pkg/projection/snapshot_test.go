package projection

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
)

func TestNextSnapshot(t *testing.T) {
	two := []message.Message{userText("a"), reply(testModels[0], textBlock("x")), userText("b")}
	skill := []SkillSelection{{ID: "debug", Revision: "r7", Name: "debug", Path: "/s", Content: "Look twice."}}
	instructions := SkillInstructions(skill)
	stored := func(turn int, content string) []Snapshot { return []Snapshot{{UserTurn: turn, Content: content}} }
	cases := map[string]struct {
		stored     []Snapshot
		history    []message.Message
		checkpoint *Checkpoint
		candidate  Snapshot
		want       *Snapshot // nil when nothing is stored
		wantError  string
	}{
		"the first context is stored at the newest user turn": {history: two, candidate: Snapshot{UserTurn: 7, Content: "A"},
			want: &Snapshot{UserTurn: 1, Content: "A"}},
		"unchanged content is not stored again": {stored: stored(0, "A"), history: two, candidate: Snapshot{Content: "A"}},
		"changed content is stored": {stored: stored(0, "A"), history: two, candidate: Snapshot{Content: "B"},
			want: &Snapshot{UserTurn: 1, Content: "B"}},
		"selected Skills are stored even when nothing changed, in front of the user's text": {stored: stored(0, "A"), history: two,
			candidate: Snapshot{Content: "A", Skills: skill}, want: &Snapshot{UserTurn: 1, Content: "A", Placement: PlacementUser, Skills: skill}},
		"Skills without a text bring their instructions": {history: two, candidate: Snapshot{Skills: skill},
			want: &Snapshot{UserTurn: 1, Content: "<skill name=\"debug\" path=\"/s\">\nLook twice.\n</skill>", Placement: PlacementUser, Skills: skill}},
		"a turn keeps the snapshot that it has": {stored: stored(1, "A"), history: two, candidate: Snapshot{Content: "B", Skills: skill}},
		"blank content is not stored":           {history: two, candidate: Snapshot{Content: " \n"}},
		"context that has become empty is said to be so": {stored: stored(0, "A"), history: two, candidate: Snapshot{},
			want: &Snapshot{UserTurn: 1, Content: ClearedContext}},
		"but once only": {stored: stored(0, ClearedContext), history: two, candidate: Snapshot{}},
		"also in front of selected Skills": {stored: stored(0, "A"), history: two, candidate: Snapshot{Skills: skill},
			want: &Snapshot{UserTurn: 1, Content: ClearedContext + "\n\n" + instructions, Placement: PlacementUser, Skills: skill}},
		"and where Skills came between": {stored: []Snapshot{{UserTurn: 0, Content: "A"}, {UserTurn: 1, Content: instructions, Placement: PlacementUser, Skills: skill}},
			history: append(two, userText("c")), candidate: Snapshot{}, want: &Snapshot{UserTurn: 2, Content: ClearedContext}},
		"context after it was empty is stored": {stored: stored(0, ClearedContext), history: two, candidate: Snapshot{Content: "A"},
			want: &Snapshot{UserTurn: 1, Content: "A"}},
		"context that a summary took the place of is not said to be cleared": {stored: stored(0, "A"), history: two,
			checkpoint: &Checkpoint{ID: "c", FirstKeptMessageIndex: 2, HistoryMessageCount: 3, Summary: "S"}, candidate: Snapshot{}},
		"context that Skills stood behind is not stored again": {
			stored: []Snapshot{{UserTurn: 0, Content: "A\n\n" + instructions, Placement: PlacementUser, Skills: skill}}, history: two, candidate: Snapshot{Content: "A"}},
		"nor is what an empty context followed, when only Skills were there": {
			stored: []Snapshot{{UserTurn: 0, Content: instructions, Placement: PlacementUser, Skills: skill}}, history: two, candidate: Snapshot{}},
		"content that a compaction summarised away is stored again": {stored: stored(0, "A"), history: two,
			checkpoint: &Checkpoint{ID: "c", FirstKeptMessageIndex: 2, HistoryMessageCount: 3, Summary: "S"},
			candidate:  Snapshot{Content: "A"}, want: &Snapshot{UserTurn: 1, Content: "A"}},
		"content that a compaction kept is not stored again": {stored: stored(0, "A"),
			history:    append([]message.Message{reply(testModels[0], textBlock("x"))}, two...),
			checkpoint: &Checkpoint{ID: "c", FirstKeptMessageIndex: 1, HistoryMessageCount: 4, Summary: "S"},
			candidate:  Snapshot{Content: "A"}},
		"a turn whose prompt a compaction summarised away shows none": {stored: stored(0, "A"), history: append(two, reply(testModels[0], textBlock("y"))),
			checkpoint: &Checkpoint{ID: "c", FirstKeptMessageIndex: 3, HistoryMessageCount: 4, Summary: "S"},
			candidate:  Snapshot{Content: "B"}},
		"a history without a user message has no anchor": {candidate: Snapshot{Content: "A"}, wantError: "no user message"},
		"snapshots of another history are refused": {stored: stored(2, "A"), history: two, candidate: Snapshot{Content: "B"},
			wantError: "userTurn 2 is not below the 2 user messages"},
		"snapshots out of order are refused": {stored: append(stored(1, "A"), stored(0, "B")...), history: two,
			candidate: Snapshot{Content: "B"}, wantError: "userTurn 0 does not follow 1"},
		"an unknown placement is refused": {history: two, candidate: Snapshot{Content: "B", Placement: "system"}, wantError: "placement"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, store, err := NextSnapshot(tc.stored, tc.history, tc.checkpoint, tc.candidate)
			if tc.wantError != "" {
				if !errors.Is(err, ErrInvalidProjection) || !strings.Contains(err.Error(), tc.wantError) {
					t.Errorf("error %v, want one with %q", err, tc.wantError)
				}
				return
			}
			if err != nil || store != (tc.want != nil) {
				t.Fatalf("store %v, error %v", store, err)
			}
			if !store {
				return
			}
			if diff := cmp.Diff(*tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			in := Input{Model: testModels[0], History: tc.history, Checkpoint: tc.checkpoint, Snapshots: append(tc.stored, got)}
			if _, err := Project(in); err != nil {
				t.Errorf("the stored snapshots do not project: %v", err)
			}
		})
	}
}

func TestSkillInstructions(t *testing.T) {
	got := SkillInstructions([]SkillSelection{{Name: `a"<b`, Content: "One.\n\n"}, {Name: "c", Path: "/x\ny", Content: "Two."}})
	want := "<skill name=\"a&quot;&lt;b\">\nOne.\n</skill>\n\n<skill name=\"c\" path=\"/x&#10;y\">\nTwo.\n</skill>"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
