package trajectory_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/tool"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/viewer/story"
)

func detail(t *testing.T, r *trajectory.Reader, ix *trajectory.Index, id string) trajectory.Detail {
	t.Helper()
	d, err := r.Detail(t.Context(), ix, id, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestIDsOfNoEntry(t *testing.T) {
	r, ix := read(t, sample(t))
	for _, id := range []string{"", "run.main.0", "run.main.9", "run.main.999", "run.other.1", "out.main.1", "run.main.13x", "sha256:" + strings.Repeat("0", 64)} {
		if _, err := r.Detail(t.Context(), ix, id, 0); !errors.Is(err, trajectory.ErrNoEntry) {
			t.Errorf("id %q: %v, want ErrNoEntry", id, err)
		}
	}
}

// TestRawInput compares the raw view with the exact bytes that were fixed.
func TestRawInput(t *testing.T) {
	r, ix := read(t, sample(t))
	for _, id := range []string{"run.main.3", "run.main.13", "run.main.21", "run.main.24"} {
		raw, err := r.Raw(t.Context(), ix, id, 0)
		if err != nil {
			t.Fatal(err)
		}
		d := detail(t, r, ix, id)
		sum := sha256.Sum256(raw)
		if got := hex.EncodeToString(sum[:]); got != d.Input.InputDigest.Hex() || int64(len(raw)) != d.Input.InputSize || !d.Input.Verified {
			t.Errorf("%s: raw has digest %s and %d bytes, fixed were %s and %d", id, got, len(raw), d.Input.InputDigest, d.Input.InputSize)
		}
	}
	for id, want := range map[string]string{"run.main.4": `"requestExecutionId":"exec-1"`, "run.main.5": `"type":"tool.started"`} {
		raw, err := r.Raw(t.Context(), ix, id, 0)
		if err != nil || !json.Valid(raw) || !bytes.Contains(raw, []byte(want)) {
			t.Errorf("raw of %s is %s, %v; want %s in it", id, raw, err, want)
		}
	}
}

func TestLimitOfADetail(t *testing.T) {
	r, ix := read(t, sample(t))
	if _, err := r.Detail(t.Context(), ix, "run.main.13", 100); !errors.Is(err, trajectory.ErrTooLarge) {
		t.Errorf("an input above the limit: %v, want ErrTooLarge", err)
	}
	if _, err := r.Detail(t.Context(), ix, "run.main.13", 1<<20); err != nil {
		t.Errorf("an input below the limit: %v", err)
	}
}

func TestSourcesOfAnInput(t *testing.T) {
	s := story.New()
	skill := projection.SkillSelection{ID: "s", Revision: "1", Name: "Skill", Path: "s/SKILL.md", Content: "Do it well."}
	_, err := s.Do(t.Context(), story.Run{
		Prompt: "hello", Replies: []story.Reply{story.Says("", "hi")},
		Change: func(r *agent.Run) {
			r.Config.Context, r.Config.Skills = "cluster: test", []projection.SkillSelection{skill}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Do(t.Context(), story.Run{
		Prompt: "again", Replies: []story.Reply{story.Says("", "yes")},
		Change: func(r *agent.Run) { r.Config.Context = "cluster: other" },
	})
	if err != nil {
		t.Fatal(err)
	}
	r, ix := read(t, s)
	var inputs []trajectory.Detail
	for _, e := range page(t, ix, "", 100).Entries {
		if e.Type == trajectory.TypeModelInput {
			inputs = append(inputs, detail(t, r, ix, e.ID))
		}
	}
	if len(inputs) != 2 {
		t.Fatalf("%d inputs, want 2", len(inputs))
	}
	first := inputs[0].Input.Messages
	if len(first) != 1 || first[0].SkillExpansion == nil || first[0].SkillExpansion.Skills[0].ID != "s" || inputs[0].Input.System != nil {
		t.Errorf("the first input is %+v, want one user message with an expanded skill and no system prompt", first)
	}
	var sources []string
	for _, m := range inputs[1].Input.Messages {
		sources = append(sources, m.Role+" "+string(m.Source.Type))
	}
	want := []string{"user history", "assistant history", "user history", "user runtime-context"}
	if diff := cmp.Diff(want, sources); diff != "" {
		t.Errorf("sources of the second input (-want +got):\n%s", diff)
	}
	if inputs[1].Assembly.Provenance != trajectory.ProvenanceNone || !inputs[1].Input.Verified {
		t.Errorf("assembly is %+v", inputs[1].Assembly)
	}
}

// TestWhatARefusedRequestLeaves asks for more than the window holds: nothing is sent, and the failed run shows the input.
func TestWhatARefusedRequestLeaves(t *testing.T) {
	s := story.New()
	_, err := s.Do(t.Context(), story.Run{Prompt: strings.Repeat("long words ", 40000), Replies: []story.Reply{story.Says("", "never")}})
	if err != nil {
		t.Fatal(err)
	}
	r, ix := read(t, s)
	for _, e := range page(t, ix, "", 100).Entries {
		if e.Type == trajectory.TypeModelInput || e.Type == trajectory.TypeModelOutput {
			t.Errorf("nothing was sent, but there is %+v", e)
		}
		if e.Event != "run.failed" {
			continue
		}
		d := detail(t, r, ix, e.ID)
		if d.Failure == nil || d.Failure.Reason != agent.ReasonBudgetExceeded || d.Input == nil || d.Assembly.Dispatched || d.Assembly.Budget.Fits {
			t.Errorf("detail of the failed run is %+v", d)
		}
		return
	}
	t.Error("the run did not fail")
}

func TestTextsAndResultsInObjects(t *testing.T) {
	s := story.New()
	long := strings.Repeat("0123456789", 3000)
	_, err := s.Do(t.Context(), story.Run{
		Prompt: long, Tools: []tool.Definition{story.Tool("t", "")}, Results: map[string]tool.Result{"t": story.Result(long, "")},
		Replies: []story.Reply{story.Calls("t", `{"a":"`+long+`"}`), story.Says(long, "done")},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, ix := read(t, s)
	found := 0
	for _, e := range page(t, ix, "", 100).Entries {
		d := detail(t, r, ix, e.ID)
		switch {
		case e.Type == trajectory.TypeReasoning:
			found++
			if d.Text.Text != long || e.Bytes != int64(len(long)) {
				t.Errorf("reasoning has %d characters and %d bytes", len(d.Text.Text), e.Bytes)
			}
		case e.Type == trajectory.TypeTool:
			found++
			if !bytes.Contains(d.Tool.Parameters, []byte(long)) || !bytes.Contains(d.Tool.Result, []byte(long)) || e.Bytes < 60000 {
				t.Errorf("tool has %d bytes of parameters, %d of result, says %d", len(d.Tool.Parameters), len(d.Tool.Result), e.Bytes)
			}
		case e.Event == "message.user":
			found++
			if !bytes.Contains(d.Message, []byte(long)) {
				t.Errorf("the prompt has %d bytes", len(d.Message))
			}
		}
		if len(d.Notices) > 0 {
			t.Errorf("notices of %s: %+v", e.ID, d.Notices)
		}
	}
	if found != 3 {
		t.Errorf("%d of 3 long contents found", found)
	}
	h, err := r.History(t.Context(), ix, "main", -1, 100)
	if err != nil || len(h.Messages) != 4 || len(h.Notices) != 0 {
		t.Fatalf("history: %+v, %v", h, err)
	}
	if !bytes.Contains(h.Messages[2].Message, []byte(long)) || !strings.HasPrefix(h.Messages[2].EntryID, "run.main.") {
		t.Errorf("the long result in the history is %d bytes from entry %q", len(h.Messages[2].Message), h.Messages[2].EntryID)
	}
}

// TestWhatAToolPrints reads the output stream of a call.
func TestWhatAToolPrints(t *testing.T) {
	h := newHand(t)
	h.log.add(t, main, record(runevent.KindContextCaptured, in("r1", "a")))
	h.log.add(t, main, record(runevent.KindModelCompleted, in("r1", "a")))
	h.log.add(t, main, ev(runevent.TypeToolCall, in("r1", "a"), call("1")))
	h.log.add(t, main, ev(runevent.TypeToolCall, in("r1", "a"), call("2")))
	out := runevent.Stream{Class: runevent.ClassOut, Namespace: story.Namespace, Session: story.Session, Key: "call-1-1"}
	agentID := func(e *runevent.Event) { e.Evidence.AgentID, e.Attempt = "main", 1 }
	h.log.add(t, out, ev(runevent.TypeToolOutput, in("r1", "a"), call("1"), agentID, text("one ")))
	h.log.add(t, out, ev(runevent.TypeToolOutput, in("r1", "a"), call("1"), agentID, text("two")))
	ix := h.index()
	d := detail(t, h.r, ix, "run.main.3")
	if d.Tool.Output == nil || d.Tool.Output.Text != "one two" || d.Tool.CallerID != "run.main.2" {
		t.Errorf("tool is %+v, want what it printed and who called it", d.Tool)
	}
	if other := detail(t, h.r, ix, "run.main.4"); other.Tool.Output != nil {
		t.Errorf("another call has the output %+v", other.Tool.Output)
	}
	printed := detail(t, h.r, ix, "out.call-1-1.1")
	if printed.Text == nil || printed.Text.Text != "one two" || !printed.Entry.Hidden || printed.Entry.Agent != "main" || printed.Entry.LastSequence != 2 {
		t.Errorf("the output itself is %+v", printed)
	}
	if agents := ix.Agents; len(agents) != 1 {
		t.Errorf("agents are %+v, want the main one alone", agents)
	}
}

// TestWhatPeopleDecide shows with a call that a person was asked about it and what they said.
func TestWhatPeopleDecide(t *testing.T) {
	until := time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)
	decided := func(callID string, decision runevent.Decision, change func(*runevent.Event)) runevent.Event {
		return record(runevent.KindApproval, in("r1", "a"), call(callID), func(e *runevent.Event) { e.Name, e.Decision = "notes__append", decision }, change)
	}
	h := newHand(t)
	h.log.add(t, main, record(runevent.KindContextCaptured, in("r1", "a")))
	h.log.add(t, main, record(runevent.KindModelCompleted, in("r1", "a")))
	h.log.add(t, main, ev(runevent.TypeToolCall, in("r1", "a"), call("1")))
	h.log.add(t, main, ev(runevent.TypeToolCall, in("r1", "a"), call("2")))
	h.log.add(t, main, decided("1", runevent.DecisionRequested, func(e *runevent.Event) { e.Until = &until }))
	h.log.add(t, main, decided("1", runevent.DecisionDenied, func(e *runevent.Event) { e.Approver, e.Text = "kim", "not on a Friday" }))
	ix := h.index()
	d := detail(t, h.r, ix, "run.main.3")
	got := d.Tool.Approvals
	for i := range got {
		if got[i].At == 0 {
			t.Errorf("%s has no time", got[i].Decision)
		}
		got[i].At = 0
	}
	want := []trajectory.Approval{
		{Decision: "requested", Until: trajectory.Time(until.UnixMicro()), EntryID: "run.main.5"},
		{Decision: "denied", Approver: "kim", Reason: "not on a Friday", EntryID: "run.main.6"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("approvals (-want +got):\n%s", diff)
	}
	if other := detail(t, h.r, ix, "run.main.4"); len(other.Tool.Approvals) != 0 {
		t.Errorf("another call has %+v", other.Tool.Approvals)
	}
}

func TestHistory(t *testing.T) {
	r, ix := read(t, sample(t))
	whole, err := r.History(t.Context(), ix, "main", -1, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range whole.Messages {
		got = append(got, fmt.Sprintf("%d %s %s %s", m.Index, m.Role, m.EntryID, m.Run.Name))
	}
	want := []string{
		"0 user run.main.2 run-1", "1 assistant run.main.4 run-1", "2 toolResult run.main.5 run-1", "3 toolResult run.main.6 run-1",
		"4 assistant run.main.16 run-1", "5 user run.main.20 run-2", "6 assistant run.main.26 run-2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	part, err := r.History(t.Context(), ix, "main", 5, 2)
	if err != nil || part.Total != 7 || cmp.Diff(whole.Messages[3:5], part.Messages) != "" {
		t.Errorf("part is %+v, %v; want messages 3 and 4 of 7", part, err)
	}
	if _, err := r.History(t.Context(), ix, "nobody", -1, 1); !errors.Is(err, trajectory.ErrNoAgent) {
		t.Errorf("history of nobody: %v, want ErrNoAgent", err)
	}
}

// TestHistoryHasAPromptFromItsAcceptanceOn stops the worker before anything is committed.
func TestHistoryHasAPromptFromItsAcceptanceOn(t *testing.T) {
	s := story.New()
	died := errors.New("the worker died")
	func() {
		defer func() { _ = recover() }()
		_, _ = s.Do(t.Context(), story.Run{Prompt: "hello", Replies: []story.Reply{story.Says("", "hi")}, Chaos: func(point string) {
			if point == "context.captured" {
				panic(died)
			}
		}})
	}()
	r, ix := read(t, s)
	h, err := r.History(t.Context(), ix, "main", -1, 10)
	if err != nil || len(h.Messages) != 1 || h.Messages[0].Role != "user" || h.Messages[0].EntryID != "run.main.2" {
		t.Fatalf("history is %+v, %v; want the prompt", h, err)
	}
	if !ix.Agents[0].Live || ix.AllRuns()[0].Status != "running" {
		t.Errorf("the run is %+v, want it running", ix.AllRuns()[0])
	}
	if _, err := s.Resume(t.Context(), story.Run{Prompt: "hello", Replies: []story.Reply{story.Says("", "hi")}}); err != nil {
		t.Fatal(err)
	}
	_, ix = read(t, s)
	var inputs []string
	for _, e := range page(t, ix, "", 100).Entries {
		if e.Type == trajectory.TypeModelInput {
			inputs = append(inputs, fmt.Sprintf("%s turn %d", e.Status, e.Turn))
		}
	}
	if diff := cmp.Diff([]string{"unfinished turn 1", "completed turn 1"}, inputs); diff != "" {
		t.Errorf("inputs after the takeover (-want +got):\n%s", diff)
	}
	if run := ix.AllRuns()[0]; run.Attempts != 2 || run.Requests != 2 || run.RequestsWithoutUsage != 1 {
		t.Errorf("the run is %+v, want two attempts and two requests, one without usage", run)
	}
}

func TestUnknownMessagesKeepTheirJSON(t *testing.T) {
	s := sample(t)
	strange := []byte(`{"role":"robot","beep":[1,2]}`)
	ref, err := s.Store.Put(t.Context(), s.Scope(), "application/json", strange)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), main, ev(runevent.TypeMessageUser, func(e *runevent.Event) { e.Ref = &ref })); err != nil {
		t.Fatal(err)
	}
	r, ix := read(t, s)
	h, err := r.History(t.Context(), ix, "main", -1, 1)
	if err != nil || len(h.Messages) != 1 || h.Messages[0].Role != "unknown" || !bytes.Equal(h.Messages[0].Message, strange) {
		t.Errorf("history is %+v, %v; want the strange message as it is", h, err)
	}
}
