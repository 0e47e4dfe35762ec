package local

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/show"
	"github.com/agentloop/agentloop/test/mcpserver"
	"github.com/agentloop/agentloop/test/modelserver"
)

const script = `
model: demo
replies:
  - content: [{toolCall: {id: c1, name: tools__append_note, arguments: {text: "a note"}}}]
  - content: [{text: "Done."}]
  - content: [{text: "Once more."}]
`

const manifests = `
apiVersion: agentloop.dev/v1alpha1
kind: ModelProvider
metadata: {name: models}
spec:
  protocol: Anthropic
  baseURL: MODELS
  models:
  - {id: demo, contextWindow: 32000, maxOutputTokens: 4096}
---
apiVersion: agentloop.dev/v1alpha1
kind: AgentSession
metadata: {name: chat}
spec:
  model: {providerRef: {name: models}, model: demo}
  toolServers:
  - {name: tools, url: TOOLS, allow: ["*"], requireApproval: ["append_note"], declaration: Direct}
---
apiVersion: agentloop.dev/v1alpha1
kind: AgentRun
metadata: {name: first}
spec: {sessionRef: {name: chat}, input: {text: "Write a note."}}
`

// TestLocal executes a run with a call that is asked about, and goes on with the folder in a second process's place.
func TestLocal(t *testing.T) {
	models := modelserver.New(modelserver.Options{})
	if _, err := models.LoadYAML([]byte(script), ""); err != nil {
		t.Fatal(err)
	}
	modelServer := httptest.NewServer(models)
	t.Cleanup(modelServer.Close)
	tools := mcpserver.New(mcpserver.Options{})
	toolServer := httptest.NewServer(tools)
	t.Cleanup(toolServer.Close)
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "agents.yaml")
	text := strings.NewReplacer("MODELS", modelServer.URL, "TOOLS", toolServer.URL+mcpserver.Path).Replace(manifests)
	var asked []Call
	execute := func(text string) []string {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(t.Context(), Options{
			Files: []string{file}, Namespace: "default", Dir: dir, Logger: slog.New(slog.DiscardHandler),
			Decide: func(_ context.Context, _ string, call Call) (bool, string, string, error) {
				asked = append(asked, call)
				return true, "kim", "fine", nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}()
		var answers []string
		for _, run := range l.Runs() {
			ended, err := l.Run(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, show.State(ended.Run)+": "+ended.Answer)
		}
		return answers
	}
	if got := execute(text); strings.Join(got, "|") != "Completed: Done." {
		t.Errorf("first: %q", got)
	}
	if len(asked) != 1 || asked[0].Tool != "tools__append_note" || asked[0].Arguments != `{"text":"a note"}` {
		t.Errorf("asked about %+v", asked)
	}
	more := text + "---\napiVersion: agentloop.dev/v1alpha1\nkind: AgentRun\nmetadata: {name: second}\nspec: {sessionRef: {name: chat}, input: {text: Again.}}\n"
	if got := execute(more); strings.Join(got, "|") != "Completed: Done.|Completed: Once more." {
		t.Errorf("second: %q", got)
	}
	if n := len(models.Requests("demo")); n != 3 || len(asked) != 1 {
		t.Errorf("%d requests, %d questions: something ran twice", n, len(asked))
	}
}

// TestManifests are refused for what an API server would refuse them for, and filled with its defaults.
func TestManifests(t *testing.T) {
	read := func(text string) (*objects, error) {
		o, err := newObjects("default", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return o, o.read([]string{"-"}, strings.NewReader(text))
	}
	cases := map[string]struct{ text, want string }{
		"an unknown field":   {"apiVersion: agentloop.dev/v1alpha1\nkind: AgentRun\nmetadata: {name: a}\nspec: {sessionRef: {name: b}, promt: x}", "promt"},
		"a missing field":    {"apiVersion: agentloop.dev/v1alpha1\nkind: AgentRun\nmetadata: {name: a}\nspec: {}", "sessionRef"},
		"another version":    {"apiVersion: agentloop.dev/v2\nkind: AgentRun\nmetadata: {name: a}\nspec: {sessionRef: {name: b}}", "agentloop.dev/v1alpha1"},
		"another kind":       {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}", `kind "Pod"`},
		"a value out of all": {"apiVersion: agentloop.dev/v1alpha1\nkind: AgentRun\nmetadata: {name: a}\nspec: {sessionRef: {name: b}, operation: Dance}", "operation"},
		"no YAML":            {"a: [", "document 1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := read(tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
	o, err := read("# a comment\n---\napiVersion: agentloop.dev/v1alpha1\nkind: AgentRun\nmetadata: {name: a, labels: {team: blue}}\nspec: {sessionRef: {name: b}, input: {text: hello}}\n---\n")
	if err != nil {
		t.Fatal(err)
	}
	run := o.runs[0]
	if run.Spec.Limits.MaxTurns != 100 || run.Spec.Operation != "Prompt" || run.Spec.Agent != "main" || run.Labels["team"] != "blue" {
		t.Errorf("defaults: %+v", run.Spec)
	}
}
