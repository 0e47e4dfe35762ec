package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/tool"
)

func guarded(d *tool.Definition) { d.RequiresApproval = true }

// TestPermissionContext: which calls need approval is runtime context. It is told again only when it changes, counts as what it
// takes, and is never part of the history.
func TestPermissionContext(t *testing.T) {
	const none, one = "<tool-permissions>\nNo tool needs a person's approval.\n</tool-permissions>",
		"<tool-permissions>\nCalls of these tools need a person's approval: write.\n</tool-permissions>"
	const both = "<tool-permissions>\nCalls of these tools need a person's approval: write, read.\n</tool-permissions>"
	open := []tool.Definition{defined("write"), defined("read")}
	steps := []struct {
		name    string
		tools   []tool.Definition
		context string
		// told is the snapshot that the run brings; empty for none.
		told string
	}{
		{"nothing needs approval, and nothing did", open, "", ""},
		{"one tool needs it", []tool.Definition{defined("write", guarded), defined("read")}, "", one},
		{"the same as before", []tool.Definition{defined("write", guarded), defined("read")}, "", ""},
		{"both need it", []tool.Definition{defined("write", guarded), defined("read", guarded)}, "", both},
		{"beside the host's own context", []tool.Definition{defined("write", guarded), defined("read", guarded)}, "cluster: test", "cluster: test\n\n" + both},
		{"none needs it any more", open, "cluster: test", "cluster: test\n\n" + none},
		{"still none", open, "cluster: test", ""},
	}
	w := newWorld(t)
	var want []projection.Snapshot
	for i, step := range steps {
		w.tools.definitions, w.model.requests, w.live = step.tools, nil, nil
		w.model.replies = []reply{says("done")}
		run := w.run(step.name, "go on")
		run.Config.Context = step.context
		if got, err := w.execute(t.Context(), run); err != nil || got != completed {
			t.Fatalf("%s: %+v, %v", step.name, got, err)
		}
		if step.told != "" {
			want = append(want, projection.Snapshot{UserTurn: i, Content: step.told})
		}
		rows := 2*i + 1 + len(want)
		if sent := w.model.requests[0].Messages; len(sent) != rows || step.told != "" && sent[rows-1].PlainText() != step.told {
			t.Errorf("%s: %d messages are sent, want %d, the last one %q", step.name, len(sent), rows, sent[len(sent)-1].PlainText())
		}
		var tokens int64
		for _, m := range w.model.requests[0].Messages {
			tokens += budget.MessageTokens(m)
		}
		if got := w.live[0].Budget.MessageTokens; got != tokens {
			t.Errorf("%s: %d tokens are counted, %d sent", step.name, got, tokens)
		}
	}
	l := w.opened()
	for i := range l.snapshots {
		l.snapshots[i].Timestamp = ""
	}
	if diff := cmp.Diff(want, l.snapshots); diff != "" {
		t.Errorf("snapshots (-want +got):\n%s", diff)
	}
	if n := 2 * len(steps); len(l.history) != n {
		t.Errorf("history has %d messages, want %d", len(l.history), n)
	}
}

// TestCallThatNeedsApproval is denied without being made: nobody can be asked. The model is told, and goes on.
func TestCallThatNeedsApproval(t *testing.T) {
	w := newWorld(t)
	w.tools.definitions = []tool.Definition{defined("write", guarded), defined("read")}
	w.model.replies = []reply{calls("write", "read"), says("done")}
	if got, err := w.execute(t.Context(), w.run("u", "go")); err != nil || got != completed {
		t.Fatalf("%+v, %v", got, err)
	}
	if diff := cmp.Diff([]string{"read-1"}, w.tools.calls); diff != "" {
		t.Errorf("calls that were made (-want +got):\n%s", diff)
	}
	_, history := w.state()
	if denied := history[2]; denied.Role != message.RoleToolResult || !denied.IsError || denied.PlainText() != textNobody {
		t.Errorf("the result %+v", denied)
	}
}
