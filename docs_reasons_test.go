package agentloop

import (
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// reasonName is the name of a constant that is a reason of a condition, or of a tool server's problem.
var reasonName = regexp.MustCompile(`^(?:[A-Z][a-z]+)?Reason[A-Z]`)

// reasonLine is a line of the page: a reason, what it means, what to do.
var reasonLine = regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\| ([^|]+) \\| ([^|]+) \\|$")

// prefixOf says under which heading of the page the reasons of a kind stand.
var prefixOf = map[string]string{
	"ProviderReason": "## ModelProvider", "SessionReason": "## AgentSession", "RunReason": "## AgentRun", "ApprovalReason": "## ToolApproval",
	"Reason": "## Tool servers",
}

// TestTroubleshooting wants a line for each reason under the heading of its kind, and no line for a reason that there is not.
func TestTroubleshooting(t *testing.T) {
	told := map[string]map[string]bool{}
	for _, section := range strings.Split("\n"+read(t, "docs/operations/troubleshooting.md"), "\n## ") {
		heading, _, _ := strings.Cut(section, "\n")
		kind, _, _ := strings.Cut("## "+heading, ":")
		kind = strings.TrimSuffix(kind, " by reason")
		if told[kind] == nil {
			told[kind] = map[string]bool{}
		}
		for _, line := range reasonLine.FindAllStringSubmatch(section, -1) {
			told[kind][line[1]] = true
		}
	}
	want := map[string]map[string]bool{"## Events": eventReasons(t)}
	for name, value := range reasonConstants(t) {
		prefix := name[:strings.Index(name, "Reason")+len("Reason")]
		kind, known := prefixOf[prefix]
		if !known {
			t.Errorf("constant %s belongs to no kind that this test knows", name)
			continue
		}
		if want[kind] == nil {
			want[kind] = map[string]bool{}
		}
		want[kind][value] = true
	}
	for kind, reasons := range want {
		if len(reasons) < 2 {
			t.Errorf("%s has %d reasons: this test no longer finds them", kind, len(reasons))
		}
		for _, reason := range slices.Sorted(maps.Keys(reasons)) {
			if !told[kind][reason] {
				t.Errorf("docs/operations/troubleshooting.md has no line for `%s` under %q: say what it means and what to do", reason, kind)
			}
		}
		for _, reason := range slices.Sorted(maps.Keys(told[kind])) {
			if !reasons[reason] {
				t.Errorf("docs/operations/troubleshooting.md explains `%s` under %q, which is no such reason", reason, kind)
			}
		}
	}
}

// reasonConstants are the reasons of conditions in api/v1alpha1 and those of tool servers in pkg/tool/mcp, by their name.
func reasonConstants(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, s := range sources(t) {
		if s.test || (s.pkg != "api/v1alpha1" && s.pkg != "pkg/tool/mcp") {
			continue
		}
		for name, value := range constants(s.file) {
			if reasonName.MatchString(name) {
				out[name] = value
			}
		}
	}
	return out
}

// constants are the constants of a file whose values are written as strings.
func constants(file *ast.File) map[string]string {
	out := map[string]string{}
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			for i, name := range value.Names {
				if i >= len(value.Values) {
					continue
				}
				if text, ok := literal(value.Values[i]); ok {
					out[name.Name] = text
				}
			}
		}
	}
	return out
}

func literal(e ast.Expr) (string, bool) {
	basic, ok := e.(*ast.BasicLit)
	if !ok || basic.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(basic.Value)
	return text, err == nil
}

// eventReasons are the reasons of Kubernetes Events that are written out in the controllers, or are constants there. Those that
// are reasons of conditions are told with them.
func eventReasons(t *testing.T) map[string]bool {
	t.Helper()
	const reasonArgument = 3 // of EventRecorder.Eventf
	out := map[string]bool{}
	for _, s := range sources(t) {
		if s.test || s.pkg != "controllers" {
			continue
		}
		own := constants(s.file)
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) <= reasonArgument {
				return true
			}
			if method, ok := call.Fun.(*ast.SelectorExpr); !ok || method.Sel.Name != "Eventf" {
				return true
			}
			if text, ok := literal(call.Args[reasonArgument]); ok {
				out[text] = true
			} else if name, ok := call.Args[reasonArgument].(*ast.Ident); ok && own[name.Name] != "" {
				out[own[name.Name]] = true
			}
			return true
		})
	}
	return out
}
