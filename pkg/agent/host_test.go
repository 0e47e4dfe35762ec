package agent

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// peek is a built-in tool that tells what its host has of one result and one skill.
type peek struct {
	host    Host
	callID  string
	skillID string
	name    string
}

func (p *peek) Definitions() []tool.Definition {
	d := defined(p.name, repeatable)
	d.Server = ""
	return []tool.Definition{d}
}

func (p *peek) Close() error { return nil }

func (p *peek) Call(ctx context.Context, _ tool.Call, _ func(string)) (tool.Result, error) {
	var said []string
	if p.callID != "" {
		whole, err := p.host.Result(ctx, p.callID)
		said = append(said, whole, errorText(err))
	}
	if p.skillID != "" {
		skill, err := p.host.Skill(ctx, p.skillID)
		said = append(said, skill.Instructions, errorText(err))
	}
	return tool.Result{Content: message.Text(strings.Trim(strings.Join(said, "|"), "|"))}, nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// peeking executes a run that has a built-in tool, and returns the host that the tool was made with.
func (w *world) peeking(run Run, p peek) Host {
	w.t.Helper()
	deps := w.deps()
	var given Host
	deps.BuiltIn = func(h Host) tool.Set {
		given, p.host = h, h
		return &p
	}
	if result, err := Execute(context.Background(), deps, run); err != nil || result.Event != runevent.TypeRunFinished {
		w.t.Fatalf("%+v, %v", result, err)
	}
	return given
}

// lastResult is the text of the newest result of a tool in the log.
func (w *world) lastResult(name string) string {
	w.t.Helper()
	text := ""
	for _, e := range w.entries() {
		if e.Event.Type != runevent.TypeToolResult || e.Event.Name != name {
			continue
		}
		m, err := message.Decode(e.Event.Body)
		if err != nil {
			w.t.Fatal(err)
		}
		text = m.Content.Text
	}
	return text
}

// TestCutResultsAreKept stores all of a result that was cut before the entry that names it, and finds it in later turns and
// runs.
func TestCutResultsAreKept(t *testing.T) {
	w := newWorld(t)
	whole := strings.Repeat("é", 10) + "\xff"
	w.tools.definitions = []tool.Definition{defined("read")}
	w.tools.call = func(_ context.Context, call tool.Call) (tool.Result, error) {
		return tool.Result{Content: message.Text("éé [Cut]"), Details: []byte(`{ "truncated": {"bytes": 20} }`), Whole: whole}, nil
	}
	w.model.replies = []reply{calls("read"), calls("peek"), says("done"), calls("peek"), says("done"), calls("peek"), says("done"), calls("peek"), says("done")}
	w.peeking(w.run("r1", "go"), peek{name: "peek", callID: "read-0"})
	want := strings.Repeat("é", 10) + "\uFFFD"
	if got := w.lastResult("peek"); got != want {
		t.Errorf("in the next turn: %q, want %q", got, want)
	}
	for _, e := range w.entries() {
		if e.Event.Type != runevent.TypeToolResult || e.Event.Name != "read" {
			continue
		}
		ref := cas.Ref{Digest: cas.Of([]byte(want)), Size: int64(len(want)), MediaType: cas.MediaBlob}
		if e.Event.Whole == nil || *e.Event.Whole != ref {
			t.Errorf("the entry names %+v, want %+v", e.Event.Whole, ref)
		}
		m, err := message.Decode(e.Event.Body)
		details := `{"truncated":{"bytes":20},"whole":{"digest":"` + ref.Digest.String() + `","size":23,"mediaType":"` + cas.MediaBlob + `"}}`
		if diff := cmp.Diff(details, string(m.Details)); err != nil || diff != "" {
			t.Errorf("%v, details (-want +got):\n%s", err, diff)
		}
	}
	for callID, want := range map[string]string{"read-0": want, "peek-0": ErrNotCut.Error(), "none": ErrNoResult.Error()} {
		w.peeking(w.run("r-"+callID, "again"), peek{name: "peek", callID: callID})
		if got := w.lastResult("peek"); got != want {
			t.Errorf("call %s in a later run: %q, want %q", callID, got, want)
		}
	}
}

// TestDetailsKeepTheirForm adds to a result's details without reading them anew.
func TestDetailsKeepTheirForm(t *testing.T) {
	for details, want := range map[string]string{
		"": `{"a":1}`, "{}": `{"a":1}`, `{"n": 1.50}`: `{"n": 1.50,"a":1}`, " {\"n\":12345678901234567890 }\n": `{"n":12345678901234567890,"a":1}`,
	} {
		got, err := withMember([]byte(details), map[string]int{"a": 1})
		if err != nil || string(got) != want {
			t.Errorf("%q becomes %s, %v, want %s", details, got, err, want)
		}
	}
}

// TestSkillsAreThoseOfTheStart lets another worker go on with a run whose ConfigMaps have changed since.
func TestSkillsAreThoseOfTheStart(t *testing.T) {
	skill := func(text string) []session.Skill {
		return []session.Skill{{V: session.ObjectVersion, ID: "log", Revision: "sha256:" + text, Name: "log", Instructions: text}}
	}
	w := newWorld(t)
	w.tools.definitions = []tool.Definition{defined("write")}
	w.model.replies = []reply{calls("peek"), says("done"), calls("peek"), says("done")}
	run := w.run("r2", "go")
	run.Skills = skill("old")
	died := w.dies("prompt.accepted", 1, func() { w.peeking(run, peek{name: "peek", skillID: "log"}) })
	if !died {
		t.Fatal("the run did not come to its prompt")
	}
	run.Skills = skill("new")
	host := w.peeking(run, peek{name: "peek", skillID: "log"})
	if got := w.lastResult("peek"); got != "old" {
		t.Errorf("after the takeover: %q, want the skill of the run's start", got)
	}
	if len(host.Known) != 2 || len(host.Skills) != 1 || host.Skills[0].Revision != "sha256:old" {
		t.Errorf("the takeover's host has %d known definitions and %+v", len(host.Known), host.Skills)
	}
	run = w.run("r3", "go")
	run.Skills = skill("new")
	host = w.peeking(run, peek{name: "peek", skillID: "log"})
	if got := w.lastResult("peek"); got != "new" || host.Known != nil {
		t.Errorf("in the next run: %q, %d known definitions", got, len(host.Known))
	}
	if _, err := host.Skill(t.Context(), "other"); !errors.Is(err, ErrNoSkill) {
		t.Errorf("another skill: %v", err)
	}
}

// TestBuiltInToolsGoFirst keeps a server's tool from taking the place of a built-in one.
func TestBuiltInToolsGoFirst(t *testing.T) {
	w := newWorld(t)
	w.tools.definitions = []tool.Definition{defined("peek"), defined("write")}
	w.model.replies = []reply{calls("peek"), says("done")}
	host := w.peeking(w.run("r1", "go"), peek{name: "peek", callID: "none"})
	if got := w.lastResult("peek"); got != ErrNoResult.Error() || len(w.tools.calls) != 0 {
		t.Errorf("%q, the server was called %d times", got, len(w.tools.calls))
	}
	if len(host.Others) != 2 {
		t.Errorf("the host has %d other tools", len(host.Others))
	}
	if tools := w.model.requests[0].Tools; len(tools) != 2 || tools[0].Name != "peek" || tools[1].Name != "write" {
		t.Errorf("declared: %+v", tools)
	}
}
