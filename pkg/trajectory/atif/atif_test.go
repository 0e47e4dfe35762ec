package atif_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/pkg/trajectory/atif"
	"github.com/agentloop/agentloop/test/viewer/story"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var options = atif.Options{Namespace: story.Namespace, Session: "sample", UID: story.Session, ExportedAt: 1773478800000000}

func contents(t *testing.T, s *story.Story, store cas.Store) *trajectory.Contents {
	t.Helper()
	r := trajectory.NewReader(s.Log, store)
	b := trajectory.NewBuilder(s.Scope())
	if err := r.Refresh(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return r.Contents(b.Index())
}

func tell(t *testing.T, tale func(context.Context) (*story.Story, error)) *story.Story {
	t.Helper()
	s, err := tale(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func export(t *testing.T, from *trajectory.Contents) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := atif.Export(t.Context(), from, options, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// documents reads an export, each line by the rules of the format.
func documents(t *testing.T, raw []byte) []atif.Trajectory {
	t.Helper()
	var all []atif.Trajectory
	for line := range bytes.Lines(raw) {
		if err := atif.Validate(line); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		var d atif.Trajectory
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

func TestGolden(t *testing.T) {
	for name, tale := range map[string]func(context.Context) (*story.Story, error){"sample.jsonl": story.Sample, "delegated.jsonl": story.Delegated} {
		t.Run(name, func(t *testing.T) {
			s := tell(t, tale)
			got := export(t, contents(t, s, s.Store))
			documents(t, got)
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
				t.Errorf("export (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADelegatedRunIsInsideOfTheOneThatBeganIt(t *testing.T) {
	s := tell(t, story.Delegated)
	all := documents(t, export(t, contents(t, s, s.Store)))
	if len(all) != 1 || len(all[0].Subagents) != 1 {
		t.Fatalf("%d documents, want one with one inside", len(all))
	}
	root, inner := all[0], all[0].Subagents[0]
	refs := root.Steps[1].Observation.Results[0].Subagents
	if len(refs) != 1 || refs[0].TrajectoryID != inner.TrajectoryID || inner.Agent.Name != "weather" || inner.SessionID != root.SessionID {
		t.Errorf("the call refers to %+v, inside is %s of %s", refs, inner.TrajectoryID, inner.Agent.Name)
	}
	final := root.FinalMetrics
	if *final.PromptTokens != 2450 || *final.CompletionTokens != 50 || *final.CachedTokens != 2200 || final.CostUSD != "0.021" || *final.Steps != 3 {
		t.Errorf("totals %+v, want those of the run's own responses and the cost of all", final)
	}
	if got := root.Steps[1].Metrics; *got.PromptTokens != 1150 || *got.CachedTokens != 1000 || got.CostUSD != "0.0125" || got.Extra["cache_creation_input_tokens"] != 50.0 {
		t.Errorf("counts of a response: %+v", got)
	}
	if !strings.Contains(inner.Notes, "1 model requests without a response") || len(inner.Steps) != 2 {
		t.Errorf("a failed request makes no step and is in the notes: %q, %d steps", inner.Notes, len(inner.Steps))
	}
}

func TestWhatAStepHas(t *testing.T) {
	s := tell(t, story.Sample)
	raw := export(t, contents(t, s, s.Store))
	all := documents(t, raw)
	if len(all) != 2 || len(all[0].Steps) != 3 || len(all[1].Steps) != 2 {
		t.Fatalf("%d documents", len(all))
	}
	user, calls, says := all[0].Steps[0], all[0].Steps[1], all[0].Steps[2]
	if user.Source != atif.SourceUser || user.Message.Text != "How much is 40 + 2?" || user.Timestamp != "2026-03-14T09:00:00.020000Z" {
		t.Errorf("the prompt: %+v", user)
	}
	if calls.Source != atif.SourceAgent || len(calls.ToolCalls) != 2 || len(calls.Observation.Results) != 2 || calls.Observation.Results[1].Content.Text != "42" {
		t.Errorf("the calls: %+v", calls)
	}
	if says.ReasoningContent != "The tool says 42." || says.Message.Text != "It is 42." || *says.LLMCallCount != 1 {
		t.Errorf("the answer: %+v", says)
	}
	if all[1].Steps[1].Metrics.PromptTokens != nil || all[1].FinalMetrics.PromptTokens != nil {
		t.Error("counts that nobody reported are there")
	}
	if len(all[0].Agent.ToolDefinitions) != 2 || all[0].Agent.ModelName != "story-1" || !strings.HasPrefix(all[0].Agent.Version, "sha256:") {
		t.Errorf("the agent: %+v", all[0].Agent)
	}
	for _, secret := range []string{"hunter2", "sk-live-123456", "user:pass"} {
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("%q was not redacted", secret)
		}
	}
}

// nothing is a store without objects.
type nothing struct{ cas.Store }

func (nothing) Get(context.Context, cas.Scope, cas.Ref) ([]byte, error) { return nil, cas.ErrNotFound }

// TestMissingObjectsMakeNoText leaves texts empty that are not there, and keeps what the records say themselves.
func TestMissingObjectsMakeNoText(t *testing.T) {
	s := tell(t, story.Sample)
	all := documents(t, export(t, contents(t, s, nothing{s.Store})))
	step := all[0].Steps[1]
	if step.Message.Text != "" || len(step.ToolCalls) != 2 || step.ToolCalls[0].Name != "note" || !strings.Contains(all[0].Notes, "missing or damaged") {
		t.Errorf("step %+v, notes %q", step, all[0].Notes)
	}
}

// TestARunWithoutSteps says that it has none.
func TestARunWithoutSteps(t *testing.T) {
	s := story.New()
	_, err := s.Append(t.Context(), story.Stream("main"), runevent.Event{
		Type: runevent.TypeRunStarted, RunName: "r", Attempt: 1, Evidence: runevent.Evidence{AgentID: "main", AgentRunID: "00000000-0000-4000-8000-000000000001"},
	})
	if err != nil {
		t.Fatal(err)
	}
	all := documents(t, export(t, contents(t, s, s.Store)))
	if len(all) != 1 || all[0].Steps[0].Source != atif.SourceSystem || !strings.Contains(all[0].Notes, "Nothing of this run") {
		t.Errorf("documents %+v", all)
	}
}

var errFull = errors.New("broken pipe")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestACutExport is seen: no beginning of it is as many documents as each of them says.
func TestACutExport(t *testing.T) {
	s := tell(t, story.Sample)
	from := contents(t, s, s.Store)
	if _, err := atif.Export(t.Context(), from, options, full{}); !errors.Is(err, errFull) {
		t.Errorf("error %v", err)
	}
	raw := export(t, from)
	for n := range len(raw) - 1 {
		complete, said := 0, 0.0
		for line := range bytes.Lines(raw[:n]) {
			var d atif.Trajectory
			if json.Unmarshal(line, &d) != nil {
				continue
			}
			complete++
			said = d.Extra["agentloop"].(map[string]any)["export"].(map[string]any)["documents"].(float64)
		}
		if complete > 0 && float64(complete) >= said {
			t.Fatalf("the first %d of %d bytes look complete", n, len(raw))
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	const agent = `"schema_version":"ATIF-v1.7","agent":{"name":"a","version":"1"}`
	cases := map[string]string{
		"no JSON":                           `{`,
		"two documents":                     `{` + agent + `,"steps":[{"step_id":1,"source":"user","message":""}]} {}`,
		"another version":                   `{"schema_version":"ATIF-v1.6","agent":{"name":"a","version":"1"},"steps":[{"step_id":1,"source":"user","message":""}]}`,
		"no agent":                          `{"schema_version":"ATIF-v1.7","steps":[{"step_id":1,"source":"user","message":""}]}`,
		"no steps":                          `{` + agent + `,"steps":[]}`,
		"an unknown member":                 `{` + agent + `,"steps":[{"step_id":1,"source":"user","message":""}],"x":1}`,
		"an unknown member of a step":       `{` + agent + `,"steps":[{"step_id":1,"source":"user","message":"","x":1}]}`,
		"an unknown member of a part":       `{` + agent + `,"steps":[{"step_id":1,"source":"user","message":[{"type":"text","text":"","x":1}]}]}`,
		"steps from 0":                      `{` + agent + `,"steps":[{"step_id":0,"source":"user","message":""}]}`,
		"a gap":                             `{` + agent + `,"steps":[{"step_id":1,"source":"user","message":""},{"step_id":3,"source":"user","message":""}]}`,
		"an unknown source":                 `{` + agent + `,"steps":[{"step_id":1,"source":"tool","message":""}]}`,
		"a time that is none":               `{` + agent + `,"steps":[{"step_id":1,"source":"user","message":"","timestamp":"yesterday"}]}`,
		"a user with a model":               `{` + agent + `,"steps":[{"step_id":1,"source":"user","message":"","model_name":"m"}]}`,
		"a system step with counts":         `{` + agent + `,"steps":[{"step_id":1,"source":"system","message":"","metrics":{}}]}`,
		"arguments that are no object":      `{` + agent + `,"steps":[{"step_id":1,"source":"agent","message":"","tool_calls":[{"tool_call_id":"c","function_name":"f","arguments":"x"}]}]}`,
		"a result of no call":               `{` + agent + `,"steps":[{"step_id":1,"source":"agent","message":"","observation":{"results":[{"source_call_id":"c"}]}}]}`,
		"a part of both kinds":              `{` + agent + `,"steps":[{"step_id":1,"source":"user","message":[{"type":"image","text":"x"}]}]}`,
		"an image of another type":          `{` + agent + `,"steps":[{"step_id":1,"source":"user","message":[{"type":"image","source":{"media_type":"image/tiff","path":"p"}}]}]}`,
		"a document inside without an id":   `{` + agent + `,"steps":[{"step_id":1,"source":"user","message":""}],"subagent_trajectories":[{` + agent + `,"steps":[{"step_id":1,"source":"user","message":""}]}]}`,
		"a reference to nothing":            `{` + agent + `,"steps":[{"step_id":1,"source":"agent","message":"","observation":{"results":[{"subagent_trajectory_ref":[{"session_id":"s"}]}]}}]}`,
		"a negative count of calls":         `{` + agent + `,"steps":[{"step_id":1,"source":"agent","message":"","llm_call_count":-1}]}`,
		"an invalid document inside":        `{` + agent + `,"steps":[{"step_id":1,"source":"user","message":""}],"subagent_trajectories":[{"trajectory_id":"t",` + agent + `,"steps":[]}]}`,
		"a definition that is no object":    `{"schema_version":"ATIF-v1.7","agent":{"name":"a","version":"1","tool_definitions":["x"]},"steps":[{"step_id":1,"source":"user","message":""}]}`,
		"a message that is neither of both": `{` + agent + `,"steps":[{"step_id":1,"source":"user","message":{}}]}`,
	}
	for name, document := range cases {
		t.Run(name, func(t *testing.T) {
			if err := atif.Validate([]byte(document)); !errors.Is(err, atif.ErrInvalid) {
				t.Errorf("error %v", err)
			}
		})
	}
	if err := atif.Validate([]byte(`{` + agent + `,"steps":[{"step_id":1,"source":"user","message":[{"type":"text","text":"x"}]}]}`)); err != nil {
		t.Errorf("a good document: %v", err)
	}
}
