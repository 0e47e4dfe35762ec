package command

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/term"
)

func environment(out, errs *bytes.Buffer) Environment {
	return Environment{Streams: &term.Streams{In: strings.NewReader(""), Out: out, Err: errs}, Getenv: func(string) string { return "" }}
}

// TestHelp wants a text with an example for every command, and each in the page of operations.
func TestHelp(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations/kubectl.md")
	if err != nil {
		t.Fatal(err)
	}
	root := New(environment(&bytes.Buffer{}, &bytes.Buffer{}))
	for _, c := range root.Commands() {
		if c.Short == "" || c.Example == "" || c.Args == nil {
			t.Errorf("%s: short text %q, example %q, arguments checked %v", c.Name(), c.Short, c.Example, c.Args != nil)
		}
		if !strings.Contains(string(page), "`"+c.Name()) {
			t.Errorf("docs/operations/kubectl.md does not have %s", c.Name())
		}
		for _, line := range strings.Split(c.Example, "\n") {
			tries(t, root, c, line)
		}
	}
}

// tries parses the flags of an example.
func tries(t *testing.T, root *cobra.Command, c *cobra.Command, line string) {
	t.Helper()
	_, line, _ = strings.Cut(line, "kubectl agentloop ")
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, " | ")
	line, _, _ = strings.Cut(line, " > ")
	args := regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(strings.TrimSpace(line), -1)
	if len(args) == 0 {
		t.Errorf("%s has an example without a command: %s", c.Name(), line)
		return
	}
	found, rest, err := root.Find(args)
	if err != nil || found != c {
		t.Errorf("example %q is of another command (%v)", line, err)
		return
	}
	if err := c.ParseFlags(rest); err != nil {
		t.Errorf("example %q: %v", line, err)
		return
	}
	if err := c.Args(c, c.Flags().Args()); err != nil {
		t.Errorf("example %q: %v", line, err)
	}
}

// TestUsageErrors are told before anything is done, with a code of their own.
func TestUsageErrors(t *testing.T) {
	for _, line := range []string{
		"run chat", "run", "chat", "runs a b", "cancel", "cancel a --session=b", "export", "export chat --format=xml", "runs -o wide", "run chat hello --nonsense",
		"nonsense", "local --serve -f x", "local -f x --approve=maybe", "local -f x --secret=a=b", "local", "describe widget/x --kubeconfig=" + kubeconfig(t),
	} {
		var out, errs bytes.Buffer
		root := New(environment(&out, &errs))
		root.SetArgs(strings.Fields(line))
		err := root.ExecuteContext(t.Context())
		if Code(err) != ExitUsage || out.Len() > 0 {
			t.Errorf("%s: code %d, error %v, output %q", line, Code(err), err, out.String())
		}
	}
}

// kubeconfig is a file that names a cluster which does not answer.
func kubeconfig(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/config"
	const config = `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOutcomes gives every reason of a failed run a code that the page has.
func TestOutcomes(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations/kubectl.md")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), "../../../api/v1alpha1/agentrun_conditions.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok {
			if reason, err := strconv.Unquote(literal.Value); err == nil {
				reasons[reason] = true
			}
		}
		return true
	})
	for reason, code := range outcomes {
		if !reasons[reason] {
			t.Errorf("%s is no reason of a run", reason)
		}
		row := regexp.MustCompile(`(?m)^\| ` + strconv.Itoa(code) + ` \|.*` + "`" + reason + "`")
		if !row.Match(page) {
			t.Errorf("docs/operations/kubectl.md does not have reason %s in the row of exit code %d", reason, code)
		}
	}
	run := &api.AgentRun{}
	for _, tc := range []struct {
		status metav1.ConditionStatus
		reason string
		want   int
	}{{metav1.ConditionTrue, api.RunReasonCompleted, 0}, {metav1.ConditionFalse, api.RunReasonWorkerLost, ExitRun}, {metav1.ConditionFalse, api.RunReasonCancelled, ExitCancel}} {
		run.Status.Conditions = []metav1.Condition{{Type: api.ConditionSucceeded, Status: tc.status, Reason: tc.reason}}
		if got := outcome(run); got != tc.want {
			t.Errorf("%s %s: %d, want %d", tc.status, tc.reason, got, tc.want)
		}
	}
}

func TestCode(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want int
	}{{nil, 0}, {errors.New("x"), ExitFailed}, {&ExitError{Code: ExitLimit}, ExitLimit}, {ErrInterrupted, ExitStopped}, {errors.Join(&ExitError{Code: ExitCancel}, errors.New("x")), ExitCancel}} {
		if got := Code(tc.err); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.err, got, tc.want)
		}
	}
}
