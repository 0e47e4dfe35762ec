package trajectory_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// TestExecutionsSayWhoDelegated follows a run from the call that began it.
func TestExecutionsSayWhoDelegated(t *testing.T) {
	s, err := story.Delegated(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, ix := read(t, s)
	runs, err := r.Contents(ix).Executions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 2 || runs[0].Parent != nil || len(runs[0].Children) != 1 || runs[0].Children[0] != runs[1] || runs[1].Parent != runs[0] {
		t.Fatalf("the second run is not the child of the first: %+v", runs)
	}
	if call, err := r.Detail(t.Context(), ix, runs[1].CallerID, 0); err != nil || call.Tool == nil || call.Tool.Name != "delegate" {
		t.Errorf("it was begun by %q: %+v, %v", runs[1].CallerID, call.Tool, err)
	}
	entries := 0
	for _, run := range runs {
		for entry := range run.Entries() {
			entries++
			if entry.Run == nil || entry.Run.UID != run.UID || entry.Agent != run.Agent {
				t.Errorf("%s is listed under run %s", entry.ID, run.UID)
			}
		}
	}
	if entries != ix.Counts.Entries {
		t.Errorf("%d of %d entries belong to runs", entries, ix.Counts.Entries)
	}
}

// TestContentsAreRedacted reads every entry in both ways: what is planted in arguments comes through neither.
func TestContentsAreRedacted(t *testing.T) {
	s, err := story.Delegated(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, ix := read(t, s)
	contents := r.Contents(ix)
	for _, entry := range page(t, ix, "", 1000).Entries {
		for name, reading := range map[string]func(context.Context, string) (trajectory.Detail, error){"content": contents.Content, "outline": contents.Outline} {
			d, err := reading(t.Context(), entry.ID)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Events) > 0 || d.AgentState != nil {
				t.Errorf("%s of %s has more than its content", name, entry.ID)
			}
			if d.Tool != nil {
				raw = append(raw, d.Tool.Parameters...)
			}
			if strings.Contains(string(raw), "planted-in-arguments") {
				t.Errorf("%s of %s has a credential: %s", name, entry.ID, raw)
			}
			if name == "outline" && d.Input != nil && (len(d.Input.Messages) > 0 || d.Input.System != nil || d.Assembly == nil) {
				t.Errorf("the outline of %s has contents, or no assembly", entry.ID)
			}
		}
	}
}
