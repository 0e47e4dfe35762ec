package compaction

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/internal/vectors"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
)

// vector is one case of testdata/vectors, planned by the basic rules.
type vector struct {
	Name      string                 `json:"name"`
	Model     *provider.Model        `json:"model"`
	History   []message.Message      `json:"history"`
	Snapshots []vectorSnapshot       `json:"snapshots"`
	Previous  *projection.Checkpoint `json:"previous"`
	Keep      *int64                 `json:"keep"`
	Want      *vectorWant            `json:"want"`
	WantError string                 `json:"wantError"`
}

// vectorSnapshot is a snapshot whose timestamp may have any form, since nothing here looks at it.
type vectorSnapshot struct {
	UserTurn  int                         `json:"userTurn"`
	Content   string                      `json:"content"`
	Timestamp json.RawMessage             `json:"timestamp"`
	Placement string                      `json:"placement"`
	Skills    []projection.SkillSelection `json:"skills"`
}

type vectorWant struct {
	Boundary  *int  `json:"boundary"`
	Summarize []int `json:"summarize"`
}

// TestVectors runs testdata/vectors and, when AGENTLOOP_VECTORS names a folder, its compaction/*.json besides.
func TestVectors(t *testing.T) {
	vectors.Run(t, "compaction", func(t *testing.T, raw json.RawMessage) {
		if err := runVector(raw); err != nil {
			t.Error(err)
		}
	})
}

func TestVectorCount(t *testing.T) {
	count := 0
	for _, f := range vectors.Files(t, "compaction") {
		count += len(f.Cases)
	}
	if count < 40 {
		t.Errorf("%d vectors, want at least 40", count)
	}
}

// runVector returns what is wrong with a case or with the answer to it.
func runVector(raw json.RawMessage) error {
	var v vector
	if err := vectors.Decode(raw, &v); err != nil {
		return err
	}
	if v.Model == nil || v.Keep == nil || (v.Want == nil) == (v.WantError == "") {
		return errors.New("a case has a model, keep, and either want or wantError")
	}
	in := projection.Input{Model: *v.Model, History: v.History, Checkpoint: v.Previous}
	for _, s := range v.Snapshots {
		in.Snapshots = append(in.Snapshots, projection.Snapshot{UserTurn: s.UserTurn, Content: s.Content,
			Timestamp: string(s.Timestamp), Placement: s.Placement, Skills: s.Skills})
	}
	projected, err := projection.Project(in)
	if err != nil {
		return err
	}
	plan, err := Make(Input{Projected: projected, Previous: v.Previous, Keep: *v.Keep})
	if v.WantError != "" {
		if err == nil || !strings.Contains(err.Error(), v.WantError) {
			return fmt.Errorf("boundary %d, error %v, want an error with %q", plan.Boundary, err, v.WantError)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if v.Want.Boundary != nil && plan.Boundary != *v.Want.Boundary {
		return fmt.Errorf("boundary %d, want %d", plan.Boundary, *v.Want.Boundary)
	}
	if v.Want.Summarize != nil {
		if diff := cmp.Diff(v.Want.Summarize, plan.Summarized()); diff != "" {
			return fmt.Errorf("summarize: -want +got:\n%s", diff)
		}
	}
	return nil
}

// TestRunVectorRefusesBadCases keeps a slip in a vector file from passing as a case that holds.
func TestRunVectorRefusesBadCases(t *testing.T) {
	const model = `"model":{"provider":"p","api":"openai-completions","id":"m","contextWindow":100,"maxTokens":10,"thinking":"none"}`
	const two = `"history":[{"role":"user","content":"a"},{"role":"user","content":"b"}]`
	cases := map[string]struct{ raw, want string }{
		"unknown field":            {`{"name":"x",` + model + `,` + two + `,"keep":0,"note":"","want":{"boundary":1}}`, "unknown field"},
		"unknown kind":             {`{"name":"x","kind":"plan",` + model + `,` + two + `,"keep":0,"want":{"boundary":1}}`, "unknown field"},
		"unknown field in want":    {`{"name":"x",` + model + `,` + two + `,"keep":0,"want":{"limit":1}}`, "unknown field"},
		"unknown field in history": {`{"name":"x",` + model + `,"history":[{"role":"user","content":"a","at":1}],"keep":0,"want":{"boundary":1}}`, "unknown key"},
		"no model":                 {`{"name":"x",` + two + `,"keep":0,"want":{"boundary":1}}`, "has a model"},
		"no keep":                  {`{"name":"x",` + model + `,` + two + `,"want":{"boundary":1}}`, "has a model"},
		"neither want nor error":   {`{"name":"x",` + model + `,` + two + `,"keep":0}`, "either want or wantError"},
		"wrong boundary":           {`{"name":"x",` + model + `,` + two + `,"keep":0,"want":{"boundary":0}}`, "boundary 1, want 0"},
		"wrong messages":           {`{"name":"x",` + model + `,` + two + `,"keep":0,"want":{"summarize":[0,1]}}`, "summarize"},
		"error that does not come": {`{"name":"x",` + model + `,` + two + `,"keep":0,"wantError":"nothing"}`, "want an error"},
		"a history that is none":   {`{"name":"x",` + model + `,` + two + `,"previous":{"id":"c","firstKeptMessageIndex":2,"historyMessageCount":2,"summary":"s"},"keep":0,"want":{"boundary":1}}`, "invalid projection"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := runVector(json.RawMessage(tc.raw)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}
