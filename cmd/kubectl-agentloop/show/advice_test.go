package show

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// TestEveryReasonIsExplained reads the reasons out of the API's source.
func TestEveryReasonIsExplained(t *testing.T) {
	for file, table := range map[string]map[string]advice{"agentrun_conditions.go": runAdvice, "agentsession_conditions.go": sessionAdvice} {
		parsed, err := parser.ParseFile(token.NewFileSet(), "../../../api/v1alpha1/"+file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.Contains(spec.Names[0].Name, "Reason") {
				return true
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				return true
			}
			reason, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			found++
			if table[reason].means == "" {
				t.Errorf("%s: reason %s is not explained", file, reason)
			}
			return true
		})
		if found == 0 || found != len(table) {
			t.Errorf("%s has %d reasons, %d are explained", file, found, len(table))
		}
	}
}
