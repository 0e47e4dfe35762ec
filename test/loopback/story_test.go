package loopback

import (
	"context"
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
	"github.com/agentloop/agentloop/test/modelserver"
)

// summarised is a model that writes short summaries and short answers.
const summarised = `
replies:
- match: {system: "working memory of an agent"}
  content: [{text: They talk of files.}]
  repeat: true
- content: [{text: fine}]
  repeat: true
`

// finish executes a prompt and wants it to finish.
func finish(t *testing.T, e *Engine, uid string, model provider.Model, prompt string) {
	t.Helper()
	run := Run("s-"+string(model.API), uid, model, prompt)
	run.Config.OverflowRecovery = true
	if got, err := e.Execute(t.Context(), run); err != nil || got.Event != runevent.TypeRunFinished {
		t.Fatalf("%s, %s: %+v, %v", model.API, uid, got, err)
	}
}

// outcomes are the answers that a model's requests got, and whether each was for a summary.
func outcomes(e *Engine, model string) []string {
	var out []string
	for _, request := range e.Models.Requests(model) {
		what := "main"
		if strings.Contains(request.Raw, "working memory of an agent") {
			what = "summary"
		}
		if request.Outcome != modelserver.OutcomeComplete {
			what += " " + request.Outcome
		}
		out = append(out, what)
	}
	return out
}

// TestUnderestimatedBase64IsRecoveredFrom: the default estimate takes base64 for a third of what it is. The provider refuses
// the request, which is compacted and sent again, in each protocol.
func TestUnderestimatedBase64IsRecoveredFrom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	base64Text := func(size int) string {
		raw := make([]byte, size)
		for i := range raw {
			raw[i] = byte(random.Uint32())
		}
		return base64.StdEncoding.EncodeToString(raw)
	}
	e := start(t)
	models := load(t, e, "model: $MODEL\ntokenizer: o200k\nwindow: 32000\nwindowIncludesOutput: true"+summarised)
	for _, api := range APIs {
		finish(t, e, "one-"+string(api), models[api], base64Text(18_000))
		finish(t, e, "two-"+string(api), models[api], base64Text(18_000))
		want := []string{"main", "main refused", "summary", "main"}
		if got := outcomes(e, string(api)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", api, got, want)
		}
	}
}

// TestHugePrefixIsSummarisedInParts: a conversation of two million characters, made with a larger model, goes on with one whose
// window is a quarter of it: its summary is written in several requests, none of which is too long.
func TestHugePrefixIsSummarisedInParts(t *testing.T) {
	e := start(t)
	large := load(t, e, "model: $MODEL"+summarised)
	for _, api := range APIs {
		model := large[api]
		model.ContextWindow = 2_000_000
		for _, uid := range []string{"one-", "two-"} {
			finish(t, e, uid+string(api), model, strings.Repeat("word ", 200_000))
		}
		e.Models.Unload(string(api))
	}
	small := load(t, e, "model: $MODEL\nwindow: 128000\nwindowIncludesOutput: true"+summarised)
	for _, api := range APIs {
		model := small[api]
		model.ContextWindow = 128_000
		finish(t, e, "small-"+string(api), model, "and now?")
		got := outcomes(e, string(api))
		if n := len(got); n < 4 || got[n-1] != "main" || slices.ContainsFunc(got[:n-1], func(s string) bool { return s != "summary" }) {
			t.Errorf("%s: %v, want some summaries and the answer", api, got)
		}
	}
}

// TestInstructionsSurviveCompaction: the request behind a new summary has the system prompt of its own run, also when that
// has just changed, and none of an earlier one.
func TestInstructionsSurviveCompaction(t *testing.T) {
	e := start(t)
	models := load(t, e, "model: $MODEL"+summarised)
	for _, api := range APIs {
		for _, uid := range []string{"one-", "two-"} {
			finish(t, e, uid+string(api), models[api], strings.Repeat("word ", 6400))
		}
		run := Run("s-"+string(api), "three-"+string(api), models[api], strings.Repeat("word ", 7200))
		run.Config.Sections = []projection.Section{{Name: "project", Text: "Never touch the production database."}}
		if got, err := e.Execute(t.Context(), run); err != nil || got.Event != runevent.TypeRunFinished {
			t.Fatalf("%s: %+v, %v", api, got, err)
		}
		want := []string{"main", "main", "summary", "main"}
		if got := outcomes(e, string(api)); !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", api, got, want)
		}
		last := e.Models.Requests(string(api))[3].Raw
		for text, there := range map[string]bool{
			"Never touch the production database.": true, "They talk of files.": true, "Answer briefly.": false,
		} {
			if strings.Contains(last, text) != there {
				t.Errorf("%s: %q is in the request: %v", api, text, !there)
			}
		}
	}
}

// TestShortenedAnswerIsRecoveredFromOnce: an answer that ends at its limit well below the cap says that the input left no more room.
// The request is compacted and sent again, once: what comes then is the answer.
func TestShortenedAnswerIsRecoveredFromOnce(t *testing.T) {
	e := start(t)
	models := load(t, e, `model: $MODEL
replies:
- match: {system: "working memory of an agent"}
  content: [{text: They talk of files.}]
- content: [{text: fine}]
- content: [{text: half an ans}]
  stopReason: length
  usage: {input: 31000, output: 90}
- content: [{text: half an answ}]
  stopReason: length
  usage: {input: 31000, output: 91}
- content: [{text: a third time}]
`)
	for _, api := range APIs {
		finish(t, e, "one-"+string(api), models[api], strings.Repeat("word ", 6400))
		finish(t, e, "two-"+string(api), models[api], "and now?")
		want := []string{"main", "main", "summary", "main"}
		if got := outcomes(e, string(api)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", api, got, want)
		}
	}
}

// noting is a set with one tool, whose results have details that stay local.
type noting struct{ NoTools }

// Connect implements agent.Tools.
func (n noting) Connect(context.Context, *session.ToolSet) (tool.Set, error) { return n, nil }

// Definitions implements tool.Set.
func (noting) Definitions() []tool.Definition {
	return []tool.Definition{{Tool: message.Tool{Name: "note", Description: "Takes a note.", Parameters: []byte(`{"type":"object"}`)}, Server: "local-server"}}
}

// Call implements tool.Set.
func (noting) Call(context.Context, tool.Call, func(string)) (tool.Result, error) {
	return tool.Result{
		Content: message.Text("noted"), Details: []byte(`{"local":"only here"}`), Audit: tool.Audit{Server: "local-server", Outcome: "ok"},
	}, nil
}

// TestOnlyTheConversationIsSent: of what the engine knows besides (origins, snapshots' numbers, revisions of Skills, usage, digests,
// details of results, names of servers) nothing is in the requests that a provider gets.
func TestOnlyTheConversationIsSent(t *testing.T) {
	e, err := New(noting{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	models := load(t, e, `model: $MODEL
replies:
- match: {step: 1}
  content: [{toolCall: {name: note}}]
  usage: {input: 987654, output: 4321}
  repeat: true
- content: [{text: fine}]
  repeat: true
`)
	for _, api := range APIs {
		for _, uid := range []string{"one-", "two-"} {
			run := Run("s-"+string(api), uid+string(api), models[api], "Take a note.")
			run.Config.Context = "branch: " + uid
			run.Config.Skills = []projection.SkillSelection{{ID: "skill-id", Revision: "revision-7", Name: "notes", Path: "skills/notes/SKILL.md", Content: "Be neat."}}
			if got, err := e.Execute(t.Context(), run); err != nil || got.Event != runevent.TypeRunFinished {
				t.Fatalf("%s: %+v, %v", api, got, err)
			}
		}
		requests := e.Models.Requests(string(api))
		if len(requests) != 4 || !strings.Contains(requests[3].Raw, "branch: one-") || !strings.Contains(requests[3].Raw, "Be neat.") {
			t.Fatalf("%s: %d requests, the last one %s", api, len(requests), requests[len(requests)-1].Raw)
		}
		for _, request := range requests {
			for _, inner := range []string{
				"messageIndex", "historyMessageCount", "sources", "snapshotIndex", "userTurn", "skillExpansions", "runtime-context", "revision-7",
				"placement", "stopReason", "toolName", "toolCallId", "errorMessage", "prefix", "sha256", "987654", "4321", "only here", "local-server",
				"s-" + string(api), "loopback", models[api].Provider,
			} {
				if strings.Contains(request.Raw, inner) {
					t.Errorf("%s: %q is in a request: %s", api, inner, request.Raw)
				}
			}
		}
	}
}
