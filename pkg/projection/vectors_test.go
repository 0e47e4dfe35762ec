package projection

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentloop/agentloop/pkg/internal/vectors"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

// vector is one case of testdata/vectors. Fields that are absent from want are not compared.
type vector struct {
	Name       string            `json:"name"`
	Model      *provider.Model   `json:"model"`
	History    []message.Message `json:"history"`
	Snapshots  []vectorSnapshot  `json:"snapshots"`
	Checkpoint *Checkpoint       `json:"checkpoint"`
	System     string            `json:"system"`
	Tools      []message.Tool    `json:"tools"`
	Want       *vectorWant       `json:"want"`
	WantError  string            `json:"wantError"`
}

// vectorSnapshot is a snapshot whose timestamp may have any form, since the projection does not look at it.
type vectorSnapshot struct {
	UserTurn  int              `json:"userTurn"`
	Content   string           `json:"content"`
	Timestamp json.RawMessage  `json:"timestamp"`
	Placement string           `json:"placement"`
	Skills    []SkillSelection `json:"skills"`
}

type vectorWant struct {
	HistoryMessageCount *int              `json:"historyMessageCount"`
	Sources             []Source          `json:"sources"`
	SkillExpansions     json.RawMessage   `json:"skillExpansions"`
	Messages            []message.Message `json:"messages"`
}

func (v *vector) input() Input {
	in := Input{Model: *v.Model, History: v.History, Checkpoint: v.Checkpoint, Tools: v.Tools}
	if v.System != "" {
		in.System = []Section{{Text: v.System}}
	}
	for _, s := range v.Snapshots {
		in.Snapshots = append(in.Snapshots, Snapshot{UserTurn: s.UserTurn, Content: s.Content,
			Timestamp: string(s.Timestamp), Placement: s.Placement, Skills: s.Skills})
	}
	return in
}

func TestVectors(t *testing.T) {
	vectors.Run(t, "projection", func(t *testing.T, raw json.RawMessage) {
		var v vector
		if err := vectors.Decode(raw, &v); err != nil {
			t.Fatal(err)
		}
		if v.Model == nil || (v.Want == nil) == (v.WantError == "") {
			t.Fatal("a case has a model and either want or wantError")
		}
		in := v.input()
		if v.WantError != "" {
			checkRefused(t, in, v.WantError)
			return
		}
		got := checkProjection(t, in)
		compareWant(t, v.Want, got)
	})
}

func TestVectorCount(t *testing.T) {
	count := 0
	for _, f := range vectors.Files(t, "projection") {
		count += len(f.Cases)
	}
	if count < 60 {
		t.Errorf("%d vectors, want at least 60", count)
	}
}

func checkRefused(t *testing.T, in Input, want string) {
	t.Helper()
	_, err := Project(in)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("error %v, want one with %q", err, want)
	}
	if !errors.Is(err, ErrInvalidProjection) {
		t.Errorf("error %v does not wrap ErrInvalidProjection", err)
	}
}

func compareWant(t *testing.T, want *vectorWant, got Result) {
	t.Helper()
	p := got.Projection
	if n := want.HistoryMessageCount; n != nil && *n != p.HistoryMessageCount {
		t.Errorf("historyMessageCount %d, want %d", p.HistoryMessageCount, *n)
	}
	if want.Sources != nil {
		if diff := cmp.Diff(want.Sources, p.Sources, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("sources: -want +got:\n%s", diff)
		}
	}
	if want.SkillExpansions != nil {
		var wrapped struct {
			List []SkillExpansion `json:"list"`
		}
		raw := append(append([]byte(`{"list":`), want.SkillExpansions...), '}')
		if err := vectors.Decode(raw, &wrapped); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wrapped.List, p.SkillExpansions, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("skillExpansions: -want +got:\n%s", diff)
		}
	}
	if want.Messages != nil {
		if diff := cmp.Diff(lines(want.Messages), lines(got.Messages)); diff != "" {
			t.Errorf("messages: -want +got:\n%s", diff)
		}
	}
}

// lines are the canonical JSON of messages.
func lines(messages []message.Message) []string {
	out := make([]string, len(messages))
	for i, m := range messages {
		out[i] = string(message.Encode(m))
	}
	return out
}
