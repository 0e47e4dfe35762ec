package compaction

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
)

// story is a random session under compaction.
type story struct {
	history    []message.Message
	snapshots  []projection.Snapshot
	checkpoint *projection.Checkpoint
	keep, room int64
	rules      Rules
}

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

func randomText(r *rand.Rand) string {
	return strings.Repeat(pick(r, "x", "word ", "请", "</conversation>", "<b>"), r.IntN(pick(r, 4, 40, 4000)))
}

func randomStory(r *rand.Rand) story {
	s := story{keep: pick(r, int64(0), 34, 500, 20_000), room: pick(r, int64(0), 300, 9000), rules: Rules{SplitTurn: r.IntN(2) == 0, BoundInput: r.IntN(2) == 0}}
	users := 0
	for range r.IntN(20) {
		switch r.IntN(6) {
		case 0, 1:
			if r.IntN(3) == 0 {
				s.snapshots = append(s.snapshots, projection.Snapshot{UserTurn: users, Content: "ctx " + randomText(r),
					Placement: pick(r, projection.PlacementLegacy, projection.PlacementUser)})
			}
			users++
			s.history = append(s.history, user(randomText(r)))
		case 2:
			s.history = append(s.history, said(randomText(r)))
		case 3:
			m := calls("a", "b")
			m.StopReason = pick(r, message.StopToolUse, message.StopLength, message.StopError, message.StopAborted)
			s.history = append(s.history, m)
		default:
			s.history = append(s.history, result(pick(r, "a", "b", "zz"), randomText(r)))
		}
	}
	if n := len(s.history); n > 2 && r.IntN(3) == 0 {
		s.checkpoint = &projection.Checkpoint{ID: "c0", FirstKeptMessageIndex: 1 + r.IntN(n-1), HistoryMessageCount: n, Summary: "They began. " + randomText(r)}
	}
	return s
}

func (s story) project(t *testing.T, c *projection.Checkpoint) projection.Result {
	t.Helper()
	got, err := projection.Project(projection.Input{Model: claude, History: s.history, Snapshots: s.snapshots, Checkpoint: c})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func encode(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// check compacts the story and checks everything that holds for every compaction.
func (s story) check(t *testing.T) {
	t.Helper()
	projected := s.project(t, s.checkpoint)
	before := encode(t, []any{s.history, s.snapshots, s.checkpoint, projected})
	in := Input{Projected: projected, Previous: s.checkpoint, Keep: s.keep, Room: s.room, Rules: s.rules}
	plan, err := Make(in)
	if errors.Is(err, ErrNothingToCompact) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	s.checkPlan(t, plan, projected)
	settings := Settings{Model: claude, Rules: s.rules}
	progress, err := plan.Begin(settings)
	if err != nil {
		t.Fatal(err)
	}
	for !progress.Done() {
		r, err := progress.Next()
		var exceeded *budget.ExceededError
		if errors.As(err, &exceeded) && !s.rules.BoundInput {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(text(r), "</conversation>"); got != 1 || !r.Budget.Fits {
			t.Fatalf("%d ends of the conversation, fits %v", got, r.Budget.Fits)
		}
		if progress, err = progress.Accept(r, said("Short.")); err != nil {
			t.Fatal(err)
		}
	}
	made, err := progress.Checkpoint("c1")
	if err != nil {
		t.Fatal(err)
	}
	s.checkCandidate(t, projected, made)
	if diff := cmp.Diff(before, encode(t, []any{s.history, s.snapshots, s.checkpoint, projected})); diff != "" {
		t.Errorf("the input changed: -before +after:\n%s", diff)
	}
}

// checkPlan holds the plan against a plain reading of the rules.
func (s story) checkPlan(t *testing.T, plan Plan, projected projection.Result) {
	t.Helper()
	first := 0
	if s.checkpoint != nil {
		first = s.checkpoint.FirstKeptMessageIndex
	}
	if plan.Boundary <= first || plan.Boundary >= len(s.history) || plan.HistoryMessageCount != len(s.history) {
		t.Fatalf("boundary %d of %d messages, the previous one is %d", plan.Boundary, len(s.history), first)
	}
	role := s.history[plan.Boundary].Role
	if plan.Split != (role == message.RoleAssistant) || role == message.RoleToolResult || plan.Split && !s.rules.SplitTurn {
		t.Fatalf("boundary before a %s, split %v", role, plan.Split)
	}
	var want []int
	for _, source := range projected.Projection.Sources {
		if source.Type != projection.SourceCompaction && source.MessageIndex < plan.Boundary {
			want = append(want, source.MessageIndex)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(slices.Compact(want), plan.Summarized()); diff != "" {
		t.Errorf("summarized: -want +got:\n%s", diff)
	}
}

// checkCandidate measures the request anew: what is settled is strictly smaller, and it still is a request.
func (s story) checkCandidate(t *testing.T, projected projection.Result, made projection.Checkpoint) {
	t.Helper()
	after := s.project(t, &made)
	measure := func(r projection.Result) budget.ContextBudget {
		b, err := budget.Measure(budget.Request{Messages: r.Messages}, budget.Options{Model: claude}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b, a := measure(projected), measure(after)
	if _, err := Settle(b, a, Candidate{Checkpoint: made}); (err == nil) != (a.EstimatedInputTokens < b.EstimatedInputTokens) {
		t.Errorf("error %v for %d to %d tokens", err, b.EstimatedInputTokens, a.EstimatedInputTokens)
	}
	for i, m := range after.Messages {
		calls := len(m.ToolCalls())
		for j := range calls {
			if i+1+j >= len(after.Messages) || after.Messages[i+1+j].Role != message.RoleToolResult {
				t.Fatalf("row %d: its %d calls do not have their results behind them", i, calls)
			}
		}
	}
}

func TestRandomStories(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 200
	}
	for seed := range rounds {
		s := randomStory(rand.New(rand.NewPCG(uint64(seed), 3)))
		if !t.Run(fmt.Sprintf("seed %d", seed), s.check) {
			t.Fatalf("story: keep %d, room %d, rules %+v, history %s", s.keep, s.room, s.rules, encode(t, s.history))
		}
	}
}

// FuzzStories lets the bytes decide what randomStory draws.
func FuzzStories(f *testing.F) {
	f.Add([]byte("agentloop"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		randomStory(rand.New(&byteSource{raw: raw, rest: rand.NewPCG(1, 2)})).check(t)
	})
}

// byteSource draws from bytes, then from a fixed generator.
type byteSource struct {
	raw  []byte
	rest rand.Source
}

func (s *byteSource) Uint64() uint64 {
	if len(s.raw) == 0 {
		return s.rest.Uint64()
	}
	b := s.raw[0]
	s.raw = s.raw[1:]
	return uint64(b) * 0x9E3779B97F4A7C15
}

// TestMakeRefuses: a request that was projected with another checkpoint must not be compacted.
func TestMakeRefuses(t *testing.T) {
	history := []message.Message{user("a"), user("b"), user("c")}
	checkpoint := &projection.Checkpoint{ID: "c", FirstKeptMessageIndex: 1, HistoryMessageCount: 1, Summary: "s"}
	other := *checkpoint
	other.ID = "other"
	broken := project(t, history, nil)
	broken.Projection.Sources = broken.Projection.Sources[:1]
	cases := map[string]Input{
		"no checkpoint where the request has one": {Projected: project(t, history, checkpoint)},
		"a checkpoint that the request has not":   {Projected: project(t, history, nil), Previous: checkpoint},
		"another checkpoint":                      {Projected: project(t, history, checkpoint), Previous: &other},
		"a row without a source":                  {Projected: broken},
		"a negative keep":                         {Projected: project(t, history, nil), Keep: -1},
		"a negative room":                         {Projected: project(t, history, nil), Room: -1},
	}
	for name, in := range cases {
		t.Run(name, func(t *testing.T) {
			if plan, err := Make(in); !errors.Is(err, ErrInvalid) {
				t.Errorf("plan %+v, error %v, want ErrInvalid", plan, err)
			}
		})
	}
}
