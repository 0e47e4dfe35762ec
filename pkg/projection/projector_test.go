package projection

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

// TestProjectorFollowsAnyChange lets one Projector see a random walk over inputs that grow, shrink and change in every
// part; whatever it remembers, it must answer as Project does.
func TestProjectorFollowsAnyChange(t *testing.T) {
	for seed := range 60 {
		r := rand.New(rand.NewPCG(uint64(seed), 11))
		in := randomInput(r)
		var p Projector
		for step := range 40 {
			in = changed(r, in)
			want, wantErr := Project(in)
			got, err := p.Project(in)
			if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Fatalf("seed %d step %d: error %v, want %v", seed, step, err, wantErr)
			}
			if diff := cmp.Diff(encodeResult(t, want), encodeResult(t, got)); diff != "" {
				t.Fatalf("seed %d step %d: -want +got:\n%s", seed, step, diff)
			}
		}
	}
}

// changed returns in with one part changed; history mostly grows.
func changed(r *rand.Rand, in Input) Input {
	in.History, in.Snapshots = slices.Clone(in.History), slices.Clone(in.Snapshots)
	switch r.IntN(12) {
	case 0:
		in.Model = pick(r, testModels...)
	case 1:
		in.System = []Section{{Text: fmt.Sprint("Be ", r.IntN(3))}}
	case 2:
		in.Tools = []message.Tool{{Name: "read", Parameters: json.RawMessage(fmt.Sprintf(`{"maximum":%d}`, r.IntN(3)))}}
	case 3:
		if n := len(in.History); n > 0 {
			in.History[r.IntN(n)] = randomMessage(r, Input{Model: in.Model})
		}
	case 4:
		in.History = in.History[:r.IntN(len(in.History)+1)]
	case 5:
		if n := len(in.History); n > 1 {
			in.Checkpoint = &Checkpoint{ID: "cp", FirstKeptMessageIndex: 1 + r.IntN(n-1), HistoryMessageCount: n, Summary: "S"}
		}
	case 6:
		in.Checkpoint = nil
	case 7:
		in.Snapshots = append(in.Snapshots, randomSnapshot(r, r.IntN(6)))
	case 8:
		in.Snapshots = nil
	default:
		in.History = append(in.History, randomMessage(r, in))
	}
	return in
}

func TestProjectorSharesWhatStayed(t *testing.T) {
	history := []message.Message{userText("go"), reply(testModels[0], message.Block{Type: message.BlockText, Text: "ok"}), userText("more")}
	var p Projector
	first, err := p.Project(Input{Model: testModels[0], History: history[:2]})
	if err != nil {
		t.Fatal(err)
	}
	second, err := p.Project(Input{Model: testModels[0], History: history})
	if err != nil {
		t.Fatal(err)
	}
	if &first.Messages[0] != &second.Messages[0] {
		t.Error("the rows of the earlier projection were built again")
	}
	if &second.Messages[1].Content.Blocks[0] != &history[1].Content.Blocks[0] {
		t.Error("an unaltered message was copied")
	}
	third, err := p.Project(Input{Model: testModels[0], History: append(slices.Clone(history), userText("third"))})
	if err != nil {
		t.Fatal(err)
	}
	_ = append(second.Messages, userText("the caller's own"))
	if got := third.Messages[3].Content.Text; got != "third" {
		t.Errorf("row 3 is %q: appending to an earlier result reached a later one", got)
	}
}

func TestProjectorRecoversFromARefusedInput(t *testing.T) {
	in := Input{Model: testModels[0], History: []message.Message{userText("go")}}
	bad := in
	bad.History = append(slices.Clone(in.History), message.Message{Role: "system", Content: message.Text("x")})
	var p Projector
	if _, err := p.Project(bad); !errors.Is(err, ErrInvalidProjection) {
		t.Fatalf("error %v", err)
	}
	got, err := p.Project(in)
	if err != nil || len(got.Messages) != 1 {
		t.Errorf("%d messages, error %v", len(got.Messages), err)
	}
}

func TestInvalidMessagesAreRefused(t *testing.T) {
	cases := map[string]struct {
		message message.Message
		want    string
	}{
		"unknown role":          {message.Message{Role: "system", Content: message.Text("x")}, "message 1: unknown role"},
		"assistant with a text": {message.Message{Role: message.RoleAssistant, Content: message.Text("x")}, "message 1: an assistant's content"},
		"unknown block": {message.Message{Role: message.RoleUser, Content: message.Blocks(textBlock("a"), message.Block{Type: "video"})},
			"message 1: block 1 has an unknown type"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			checkRefused(t, Input{Model: testModels[0], History: []message.Message{userText("go"), tc.message}}, tc.want)
		})
	}
}

func TestThinkingOff(t *testing.T) {
	model, other := testModels[0], testModels[2]
	thought := func(by provider.Model, prefix string) message.Message {
		m := reply(by, message.Block{Type: message.BlockThinking, Thinking: "plan", ThinkingSignature: "s"},
			message.Block{Type: message.BlockToolCall, ID: "c", Name: "read"})
		m.Prefix = prefix
		return m
	}
	result := message.Message{Role: message.RoleToolResult, ToolCallID: "c", ToolName: "read", Content: message.Text("x")}
	cases := map[string]struct {
		history []message.Message
		want    bool
	}{
		"the unfinished turn lost its thinking to a changed prefix": {[]message.Message{userText("go"), thought(model, "sha256:00"), result}, true},
		"the unfinished turn was begun by another model":            {[]message.Message{userText("go"), thought(other, ""), result}, true},
		"the unfinished turn has its thinking":                      {[]message.Message{userText("go"), thought(model, ""), result}, false},
		"an earlier turn lost its thinking":                         {[]message.Message{userText("go"), thought(model, "sha256:00"), result, userText("on")}, false},
		"the turn had no thinking":                                  {[]message.Message{userText("go"), reply(other, textBlock("x"))}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Project(Input{Model: model, History: tc.history})
			if err != nil || got.ThinkingOff != tc.want {
				t.Errorf("ThinkingOff %v, error %v, want %v", got.ThinkingOff, err, tc.want)
			}
		})
	}
}

// TestCloneIsolates writes to everything that a clone has and looks for it in the input and the original.
func TestCloneIsolates(t *testing.T) {
	n := int64(5)
	m := reply(testModels[0], textBlock("ok"), message.Block{Type: message.BlockToolCall, ID: "c", Name: "read", Arguments: json.RawMessage(`{"a":1}`)})
	m.Usage = &message.Usage{Input: &n}
	in := Input{Model: testModels[0], Tools: []message.Tool{{Name: "read", Parameters: json.RawMessage(`{"type":"object"}`)}},
		History: []message.Message{
			{Role: message.RoleUser, Content: message.Blocks(message.Block{Type: message.BlockImage, Ref: &message.BlobRef{Digest: "d", Size: 1}})},
			m, {Role: message.RoleToolResult, ToolCallID: "c", ToolName: "read", Content: message.Text("x"), Details: json.RawMessage(`{"b":2}`)}},
		Snapshots: []Snapshot{{UserTurn: 0, Content: "C", Skills: []SkillSelection{{ID: "s", Revision: "1"}}}}}
	before := encodeInput(t, in)
	var p Projector
	got, err := p.Project(in)
	if err != nil {
		t.Fatal(err)
	}
	original := encodeResult(t, got)
	c := got.Clone()
	if diff := cmp.Diff(original, encodeResult(t, c)); diff != "" {
		t.Fatalf("the clone differs: -original +clone:\n%s", diff)
	}
	c.Messages[0].Content.Blocks[0].Ref.Digest = "changed"
	c.Messages[2].Content.Blocks[0].Text = "changed"
	c.Messages[2].Content.Blocks[1].Arguments[2] = 'z'
	*c.Messages[2].Usage.Input = 9
	c.Messages[3].Details[2] = 'z'
	c.Tools[0].Parameters[2] = 'z'
	c.Projection.Sources[1].Skills[0].ID = "changed"
	c.Unaltered[0] = !c.Unaltered[0]
	if diff := cmp.Diff(original, encodeResult(t, got)); diff != "" {
		t.Errorf("the original changed: -before +after:\n%s", diff)
	}
	if diff := cmp.Diff(before, encodeInput(t, in)); diff != "" {
		t.Errorf("the input changed: -before +after:\n%s", diff)
	}
}

func TestGrowingHistoryKeepsEarlierRows(t *testing.T) {
	for seed := range 500 {
		in := randomInput(rand.New(rand.NewPCG(uint64(seed), 13)))
		in.Checkpoint = nil
		var earlier Result
		for n := range len(in.History) + 1 {
			got, err := Project(beginning(in, n))
			if err != nil {
				t.Fatal(err)
			}
			repaired := len(earlier.Projection.Sources) > 0 &&
				earlier.Projection.Sources[len(earlier.Projection.Sources)-1].Type == SourceToolRepair
			if rows := lines(got.Messages); !repaired && !slices.Equal(lines(earlier.Messages), rows[:len(earlier.Messages)]) {
				t.Fatalf("seed %d: message %d changed earlier rows, which breaks every prompt cache", seed, n-1)
			}
			earlier = got
		}
	}
}

func userText(s string) message.Message {
	return message.Message{Role: message.RoleUser, Content: message.Text(s)}
}

func reply(by provider.Model, blocks ...message.Block) message.Message {
	return message.Message{Role: message.RoleAssistant, Content: message.Blocks(blocks...), Provider: by.Provider,
		API: string(by.API), Model: by.ID, StopReason: message.StopStop}
}
