package trajectory_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory"
)

// TestNestedCallsStandUnderTheirCall shows what code called as part of the call that ran it, for each execution by itself,
// and nowhere else: the call stays one entry that no tool server answered.
func TestNestedCallsStandUnderTheirCall(t *testing.T) {
	nested := func(typ runevent.Type, n int, change ...func(*runevent.Event)) runevent.Event {
		e := ev(typ, in("r1", "a"), call("1"))
		e.Nested, e.Name, e.Server = n, "math__add", "math"
		for _, c := range change {
			c(&e)
		}
		return e
	}
	began := func(e *runevent.Event) { e.Arguments = json.RawMessage(`{"a":1,"apiKey":"k-123456"}`) }
	ended := func(e *runevent.Event) { e.Audit = json.RawMessage(`{"outcome":"ok"}`) }
	h := newHand(t)
	for _, e := range []runevent.Event{
		ev(runevent.TypeRunStarted), record(runevent.KindContextCaptured, in("r1", "a")), record(runevent.KindModelCompleted, in("r1", "a")),
		ev(runevent.TypeToolCall, in("r1", "a"), call("1"), func(e *runevent.Event) { e.Name = "codemode" }),
		ev(runevent.TypeToolStarted, in("r1", "a"), call("1")),
		nested(runevent.TypeToolStarted, 1, began),
		ev(runevent.TypeToolStarted, in("r1", "a"), call("1"), func(e *runevent.Event) { e.Attempt = 2 }),
		nested(runevent.TypeToolStarted, 1, began), nested(runevent.TypeToolStarted, 2), nested(runevent.TypeMCPAudit, 1, ended),
		ev(runevent.TypeToolResult, in("r1", "a"), call("1")),
	} {
		h.log.add(t, main, e)
	}
	ix := h.index()
	var tools []trajectory.Entry
	timed, _ := ix.All()
	for _, e := range timed {
		if e.ToolCallID != "" {
			tools = append(tools, e)
		}
	}
	if len(tools) != 1 || tools[0].Type != trajectory.TypeTool || tools[0].Server != "" || tools[0].Title != "codemode" || tools[0].Attempts != 2 {
		t.Fatalf("entries %+v, want one tool call in two attempts", tools)
	}
	whole := detail(t, h.r, ix, tools[0].ID)
	if raw, err := trajectory.Encode(whole); err != nil || bytes.Contains(raw, []byte("k-123456")) || !bytes.Contains(raw, []byte(`{"a":1,"apiKey":"[redacted]"}`)) {
		t.Errorf("%v: %s", err, raw)
	}
	got := whole.Tool
	type short struct {
		Number, Attempt  int
		Name, Parameters string
		Audit            string
		Ended            bool
	}
	var list []short
	for _, n := range got.Nested {
		list = append(list, short{n.Number, n.Attempt, n.Server + " " + n.Name, string(n.Parameters), string(n.Audit), n.EndedAt != 0})
	}
	want := []short{
		{1, 1, "math math__add", `{"a":1,"apiKey":"k-123456"}`, "", false},
		{1, 2, "math math__add", `{"a":1,"apiKey":"k-123456"}`, `{"outcome":"ok"}`, true},
		{2, 2, "math math__add", "", "", false},
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("nested (-want +got):\n%s", diff)
	}
	if len(got.Audit) != 0 || len(got.Attempts) != 2 {
		t.Errorf("audit %s, attempts %+v", got.Audit, got.Attempts)
	}
}
