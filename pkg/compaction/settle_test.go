package compaction

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
)

func TestJudge(t *testing.T) {
	answer := func(stop message.StopReason, blocks ...message.Block) message.Message {
		return message.Message{Role: message.RoleAssistant, StopReason: stop, Content: message.Blocks(blocks...)}
	}
	text := func(s string) message.Block { return message.Block{Type: message.BlockText, Text: s} }
	thinking := message.Block{Type: message.BlockThinking, Thinking: "hm"}
	call := message.Block{Type: message.BlockToolCall, ID: "c", Name: "read"}
	cases := map[string]struct {
		answer message.Message
		want   string
		fault  Fault
	}{
		"a complete text":                   {answer(message.StopStop, text(" \nSummary.\n")), "Summary.", ""},
		"texts are joined":                  {answer(message.StopStop, text("One. "), text("Two.")), "One. Two.", ""},
		"thinking is not part of it":        {answer(message.StopStop, thinking, text("S")), "S", ""},
		"no block":                          {answer(message.StopStop), "", FaultEmpty},
		"blank text":                        {answer(message.StopStop, text(" \n\t")), "", FaultEmpty},
		"nothing but thinking":              {answer(message.StopStop, thinking), "", FaultEmpty},
		"cut at the cap":                    {answer(message.StopLength, text("Half a")), "", FaultTruncated},
		"ended for a reason nobody knows":   {answer("pause", text("S")), "", FaultTruncated},
		"no stop reason":                    {answer("", text("S")), "", FaultTruncated},
		"failed":                            {answer(message.StopError, text("S")), "", FaultFailed},
		"aborted":                           {answer(message.StopAborted, text("S")), "", FaultFailed},
		"a call":                            {answer(message.StopToolUse, text("S"), call), "", FaultToolCall},
		"a call in what claims to be whole": {answer(message.StopStop, text("S"), call), "", FaultToolCall},
		"stopped for a tool without a call": {answer(message.StopToolUse, text("S")), "", FaultToolCall},
		"cut inside a call":                 {answer(message.StopLength, text("S"), call), "", FaultToolCall},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Judge(tc.answer)
			var refused *SummaryError
			if tc.fault != "" {
				if !errors.As(err, &refused) || refused.Fault != tc.fault || !errors.Is(err, ErrNoSummary) {
					t.Fatalf("summary %q, error %v, want fault %s", got, err, tc.fault)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("summary %q, want %q", got, tc.want)
			}
		})
	}
}

// TestARefusedAnswerLeavesNothing: without a summary of everything there is no checkpoint to save.
func TestARefusedAnswerLeavesNothing(t *testing.T) {
	progress := begin(t, []message.Message{user("a"), user("b")}, nil, Settings{Model: claude})
	r, err := progress.Next()
	if err != nil {
		t.Fatal(err)
	}
	after, err := progress.Accept(r, said(" "))
	if !errors.Is(err, ErrNoSummary) {
		t.Fatalf("error %v", err)
	}
	for name, p := range map[string]Progress{"before": progress, "after": after} {
		if made, err := p.Checkpoint("c"); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: checkpoint %+v, error %v", name, made, err)
		}
	}
	done, err := progress.Accept(r, said("S")) // the value before is still good
	if err != nil {
		t.Fatal(err)
	}
	if _, err := done.Checkpoint(""); !errors.Is(err, ErrInvalid) {
		t.Errorf("a checkpoint without id: error %v", err)
	}
	if _, err := done.Next(); !errors.Is(err, ErrInvalid) {
		t.Errorf("a request after the last one: error %v", err)
	}
	want := projection.Checkpoint{ID: "c", FirstKeptMessageIndex: 1, HistoryMessageCount: 2, Summary: "S"}
	if got, err := done.Checkpoint("c"); err != nil || got != want {
		t.Errorf("checkpoint %+v, error %v", got, err)
	}
}

func TestSettle(t *testing.T) {
	candidate := Candidate{
		Checkpoint: projection.Checkpoint{ID: "c", FirstKeptMessageIndex: 1, HistoryMessageCount: 2, Summary: "S"},
		Snapshots:  []projection.Snapshot{{UserTurn: 1, Content: "ctx", Skills: []projection.SkillSelection{{ID: "k"}}}},
	}
	cases := map[string]struct {
		before, after int64
		wantErr       error
	}{
		"one token less is smaller":                    {1000, 999, nil},
		"the same size is not":                         {1000, 1000, ErrNotSmaller},
		"a summary longer than what it stands for not": {661, 1752, ErrNotSmaller},
		"smaller and still too large is taken":         {99_999, 50_000, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Settle(measured(t, tc.before), measured(t, tc.after), candidate)
			if !errors.Is(err, tc.wantErr) {
				t.Fatalf("error %v, want %v", err, tc.wantErr)
			}
			if tc.wantErr != nil {
				if diff := cmp.Diff(Candidate{}, got); diff != "" {
					t.Errorf("something to save beside the error:\n%s", diff)
				}
				return
			}
			if diff := cmp.Diff(candidate, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	got, err := Settle(measured(t, 2), measured(t, 1), candidate)
	if err != nil {
		t.Fatal(err)
	}
	got.Snapshots[0].Skills[0].ID = strings.ToUpper(got.Snapshots[0].Skills[0].ID)
	if candidate.Snapshots[0].Skills[0].ID != "k" {
		t.Error("the commit shares its snapshots with the candidate")
	}
}
