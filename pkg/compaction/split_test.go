package compaction

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
)

// toolLoop is a turn of a prompt and n replies, each with one call and its result of about the given size.
func toolLoop(prompt string, n, size int) []message.Message {
	history := []message.Message{user(prompt)}
	for i := range n {
		id := string(rune('a' + i))
		history = append(history, calls(id), result(id, xs(size)))
	}
	return history
}

func TestSplitTurn(t *testing.T) {
	old := []message.Message{user("old"), said("done")}
	cases := map[string]struct {
		history  []message.Message
		previous *projection.Checkpoint
		keep     int64
		room     int64
		off      bool
		idle     bool
		want     int // 0 for nothing
		split    bool
	}{
		"a turn alone is cut so that its newest replies fit":          {history: toolLoop("go", 4, 4000), keep: 2500, want: 5, split: true},
		"a turn that is complete is not cut":                          {history: append(toolLoop("go", 4, 4000), said("done")), keep: 2500, idle: true},
		"the rest of a cut turn goes in an idle session too":          {history: append(toolLoop("go", 2, 4000), user("next"), said("done")), previous: &projection.Checkpoint{ID: "c", FirstKeptMessageIndex: 3, HistoryMessageCount: 5, Summary: "s"}, keep: 100, idle: true, want: 5},
		"with the rule off it is nothing to compact":                  {history: toolLoop("go", 4, 4000), keep: 2500, off: true},
		"the newest reply stays with its result, however large":       {history: toolLoop("go", 3, 40_000), keep: 0, want: 5, split: true},
		"a turn that keeps within bounds is not cut":                  {history: toolLoop("go", 3, 40), keep: 20_000},
		"a turn of one reply cannot shrink by more than its prompt":   {history: toolLoop("go", 1, 40_000), keep: 0, want: 1, split: true},
		"a prompt alone cannot be cut":                                {history: []message.Message{user(xs(90_000))}, keep: 0},
		"an older turn goes first, whole":                             {history: append(old, toolLoop("go", 3, 4000)...), keep: 0, room: 99_999, want: 2},
		"a newest turn that is too large by itself is cut at once":    {history: append(old, toolLoop("go", 3, 4000)...), keep: 1500, room: 3000, want: 7, split: true},
		"with the rule off only the older turn goes":                  {history: append(old, toolLoop("go", 3, 4000)...), keep: 1500, room: 3000, off: true, want: 2},
		"no more is kept than there is room for":                      {history: toolLoop("go", 4, 4000), keep: 99_999, room: 2500, want: 5, split: true},
		"the rest of a cut turn can be cut again":                     {history: toolLoop("go", 5, 4000), previous: &projection.Checkpoint{ID: "c", FirstKeptMessageIndex: 3, HistoryMessageCount: 5, Summary: "s"}, keep: 1500, want: 9, split: true},
		"the rest of a cut turn goes whole when another turn follows": {history: append(toolLoop("go", 2, 4000), user("next")), previous: &projection.Checkpoint{ID: "c", FirstKeptMessageIndex: 3, HistoryMessageCount: 5, Summary: "s"}, keep: 100, want: 5},
		"with the rule off that rest belongs to no turn":              {history: append(toolLoop("go", 2, 4000), user("next")), previous: &projection.Checkpoint{ID: "c", FirstKeptMessageIndex: 3, HistoryMessageCount: 5, Summary: "s"}, keep: 100, off: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			projected := project(t, tc.history, tc.previous)
			plan, err := Make(Input{Projected: projected, Previous: tc.previous, Keep: tc.keep, Room: tc.room, Idle: tc.idle, Rules: Rules{SplitTurn: !tc.off}})
			if tc.want == 0 {
				if !errors.Is(err, ErrNothingToCompact) {
					t.Fatalf("boundary %d, error %v, want ErrNothingToCompact", plan.Boundary, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if plan.Boundary != tc.want || plan.Split != tc.split {
				t.Errorf("boundary %d, split %v, want %d, %v", plan.Boundary, plan.Split, tc.want, tc.split)
			}
		})
	}
}

// TestASplitNeverParts keeps calls and results together wherever the boundary falls, parallel calls and repairs included.
func TestASplitNeverPartsCallAndResult(t *testing.T) {
	history := []message.Message{user("go"), calls("a", "b"), result("a", xs(4000)), result("b", xs(4000)),
		calls("c", "d"), result("d", xs(4000)), said("thinking aloud"), calls("e"), result("e", xs(4000))}
	for keep := int64(0); keep < 6000; keep += 100 {
		plan, err := Make(Input{Projected: project(t, history, nil), Keep: keep, Rules: AllRules()})
		if errors.Is(err, ErrNothingToCompact) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if history[plan.Boundary].Role != message.RoleAssistant {
			t.Errorf("keep %d: boundary %d stands before a %s", keep, plan.Boundary, history[plan.Boundary].Role)
		}
		kept := project(t, history, &projection.Checkpoint{ID: "c", FirstKeptMessageIndex: plan.Boundary, HistoryMessageCount: len(history), Summary: "s"})
		want := 0
		for _, m := range history[plan.Boundary:] {
			want += len(m.ToolCalls())
		}
		results := 0
		for _, m := range kept.Messages {
			if m.Role == message.RoleToolResult {
				results++
			}
		}
		if results != want {
			t.Errorf("keep %d, boundary %d: %d results for %d calls", keep, plan.Boundary, results, want)
		}
	}
}

// TestASplitKeepsTheTask: the prompt that is being worked on stays in the summary word for word, with the context that
// was sent with it, also when the turn is cut a second time.
func TestASplitKeepsTheTask(t *testing.T) {
	settings := Settings{Model: claude, Rules: AllRules()}
	snapshots := []projection.Snapshot{{UserTurn: 0, Content: "Allowed: read", Placement: projection.PlacementUser}}
	history := toolLoop("Fix the bug in a.go, and touch nothing else.", 4, 4000)
	var checkpoint *projection.Checkpoint
	for round, want := range []int{7, 11} {
		plan, err := Make(Input{Projected: project(t, history, checkpoint, snapshots...), Previous: checkpoint, Keep: 1500, Rules: settings.Rules})
		if err != nil {
			t.Fatal(err)
		}
		if plan.Boundary != want || !plan.Split {
			t.Fatalf("round %d: boundary %d, split %v, want %d", round, plan.Boundary, plan.Split, want)
		}
		progress, err := plan.Begin(settings)
		if err != nil {
			t.Fatal(err)
		}
		progress = finish(t, progress, "They read files.")
		made, err := progress.Checkpoint("c")
		if err != nil {
			t.Fatal(err)
		}
		wantSummary := "They read files.\n\nThe request in progress, word for word:\n\nAllowed: read\n\nFix the bug in a.go, and touch nothing else."
		if diff := cmp.Diff(wantSummary, made.Summary); diff != "" {
			t.Fatalf("round %d: -want +got:\n%s", round, diff)
		}
		checkpoint = &made
		history = append(history, calls("y"), result("y", xs(4000)), calls("z"), result("z", xs(4000)))
	}
}

// TestASplitKeepsTheContext: context that was sent with an earlier turn, and not again because it did not change, is not lost.
func TestASplitKeepsTheContext(t *testing.T) {
	history := append([]message.Message{user("hello"), said("hi")}, toolLoop("Fix the bug.", 4, 4000)...)
	cases := map[string]struct {
		snapshots []projection.Snapshot
		want      string
	}{
		"it came with an earlier turn":    {[]projection.Snapshot{{UserTurn: 0, Content: "Allowed: read"}}, "Fix the bug.\n\nAllowed: read"},
		"it came with this turn":          {[]projection.Snapshot{{UserTurn: 1, Content: "Allowed: write"}}, "Fix the bug.\n\nAllowed: write"},
		"it came in front of this prompt": {[]projection.Snapshot{{UserTurn: 1, Content: "Allowed: all", Placement: projection.PlacementUser}}, "Allowed: all\n\nFix the bug."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			plan, err := Make(Input{Projected: project(t, history, nil, tc.snapshots...), Keep: 1500, Room: 2000, Context: "Allowed: read", Rules: AllRules()})
			if err != nil || !plan.Split {
				t.Fatalf("split %v, %v", plan.Split, err)
			}
			if diff := cmp.Diff(tc.want, plan.carried); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestASplitTurnGoesOnWithoutThinking: the prefix of its replies is gone, and providers refuse such a turn with thinking.
func TestASplitTurnGoesOnWithoutThinking(t *testing.T) {
	history := []message.Message{user("go")}
	for _, id := range []string{"a", "b", "c"} {
		m := reply(message.Block{Type: message.BlockThinking, Thinking: "plan", ThinkingSignature: "s"}, calls(id).Content.Blocks[0])
		m.Prefix = project(t, history, nil).Prefix
		history = append(history, m, result(id, xs(400)))
	}
	if whole := project(t, history, nil); whole.ThinkingOff {
		t.Fatal("the whole turn has its thinking")
	}
	cut := project(t, history, &projection.Checkpoint{ID: "c", FirstKeptMessageIndex: 5, HistoryMessageCount: 7, Summary: "s"})
	if !cut.ThinkingOff || len(cut.Messages[1].Content.Blocks) != 1 {
		t.Errorf("thinking off %v, blocks %v", cut.ThinkingOff, cut.Messages[1].Content.Blocks)
	}
}

func TestACarriedRequestIsBounded(t *testing.T) {
	history := toolLoop(strings.Repeat("é", 50_000), 3, 400)
	plan, err := Make(Input{Projected: project(t, history, nil), Rules: AllRules()})
	if err != nil {
		t.Fatal(err)
	}
	if n := len([]rune(plan.carried)); n < 8000 || n > 8100 {
		t.Errorf("%d characters are carried", n)
	}
}

// finish answers every request with the same summary.
func finish(t testing.TB, p Progress, summary string) Progress {
	t.Helper()
	for range 1000 {
		if p.Done() {
			return p
		}
		r, err := p.Next()
		if err != nil {
			t.Fatal(err)
		}
		if p, err = p.Accept(r, said(summary)); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the compaction does not come to its end")
	return p
}

// TestOneResultLargerThanTheWindow: a run that ended over such a result leaves a session that can go on.
func TestOneResultLargerThanTheWindow(t *testing.T) {
	history := append(toolLoop("go", 1, 2_000_000), user("go on"))
	before, err := budget.Measure(budget.Request{Messages: project(t, history, nil).Messages}, budget.Options{Model: claude}, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := Decide(before, 0, Trigger{})
	if before.Fits || v.Action != Compact {
		t.Fatalf("verdict %+v", v)
	}
	plan, err := Make(Input{Projected: project(t, history, nil), Keep: v.Keep, Room: before.MessageRoom(), Rules: AllRules()})
	if err != nil {
		t.Fatal(err)
	}
	progress, err := plan.Begin(Settings{Model: claude, Rules: AllRules()})
	if err != nil {
		t.Fatal(err)
	}
	made, err := finish(t, progress, "It read a large file.").Checkpoint("c")
	if err != nil {
		t.Fatal(err)
	}
	after, err := budget.Measure(budget.Request{Messages: project(t, history, &made).Messages}, budget.Options{Model: claude}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Settle(before, after, Candidate{Checkpoint: made}); err != nil || !after.Fits {
		t.Errorf("error %v, budget %+v", err, after)
	}
}
