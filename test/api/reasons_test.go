package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestEveryConditionIsDocumented reads the constants of api/v1alpha1 and looks for each type and reason on its kind's page.
func TestEveryConditionIsDocumented(t *testing.T) {
	pages := map[string]string{
		"ProviderReason": "modelprovider.md", "SessionReason": "agentsession.md", "RunReason": "agentrun.md",
		"ApprovalReason": "toolapproval.md",
	}
	found := map[string]int{}
	for name, value := range stringConstants(t, "../../api/v1alpha1") {
		for prefix, page := range pages {
			if strings.HasPrefix(name, prefix) {
				found[prefix]++
				if !strings.Contains(readPage(t, page), "`"+value+"`") {
					t.Errorf("%s does not name the reason `%s`", page, value)
				}
			}
		}
		if strings.HasPrefix(name, "Condition") {
			found["Condition"]++
			all := readPage(t, "modelprovider.md") + readPage(t, "agentsession.md") + readPage(t, "agentrun.md") + readPage(t, "toolapproval.md")
			if !strings.Contains(all, "**"+value+"** is present") {
				t.Errorf("no page says when the condition %s is present", value)
			}
		}
	}
	for _, kind := range []string{"ProviderReason", "SessionReason", "RunReason", "ApprovalReason", "Condition"} {
		if found[kind] < 5 {
			t.Errorf("%d constants start with %s: this test no longer finds them", found[kind], kind)
		}
	}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../docs/spec/v1alpha1", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// stringConstants are the string constants of a package, by name.
func stringConstants(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != len(spec.Names) {
				return true
			}
			for i, name := range spec.Names {
				literal, ok := spec.Values[i].(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					continue
				}
				value, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				out[name.Name] = value
			}
			return true
		})
	}
	return out
}
