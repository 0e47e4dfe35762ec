// Package agentloop holds the tests of the project's own rules: who may import whom, how large things may become, and
// that documents name what is there.
package agentloop

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
)

const module = "github.com/agentloop/agentloop/"

// The limits of CONVENTIONS.md.
const (
	maxFileLines     = 500
	maxTestFileLines = 800
	maxFuncLines     = 100
	maxMethods       = 5
	maxReconcile     = 60
)

// words are the vocabulary packages: they import nothing of the project but each other, downwards.
// Each list names the direct imports that a package may have inside the project. "/..." stands for all below.
var allowed = map[string][]string{
	"pkg/message":                  {"pkg/internal/jsonwalk"},
	"pkg/cas":                      {"pkg/internal/lru"},
	"pkg/internal/jsonwalk":        {},
	"pkg/internal/lru":             {},
	"pkg/internal/vectors":         {},
	"pkg/internal/frame":           {},
	"pkg/runevent":                 {"pkg/cas", "pkg/message", "pkg/internal/jsonwalk"},
	"pkg/provider":                 {"pkg/message", "pkg/internal/jsonwalk"},
	"pkg/tool":                     {"pkg/message"},
	"pkg/budget":                   {"pkg/message", "pkg/provider", "pkg/internal/jsonwalk"},
	"pkg/projection":               {"pkg/message", "pkg/provider", "pkg/internal/jsonwalk", "pkg/internal/frame"},
	"pkg/compaction":               {"pkg/message", "pkg/provider", "pkg/budget", "pkg/projection", "pkg/internal/frame"},
	"pkg/session":                  {"pkg/message", "pkg/provider", "pkg/cas", "pkg/runevent", "pkg/tool", "pkg/budget", "pkg/projection", "pkg/internal/jsonwalk"},
	"pkg/legacy":                   {"pkg/message", "pkg/cas", "pkg/runevent"},
	"pkg/trajectory":               {"pkg/message", "pkg/cas", "pkg/legacy", "pkg/runevent", "pkg/budget", "pkg/projection", "pkg/session", "pkg/provider", "pkg/tool", "pkg/internal/lru", "pkg/internal/jsonwalk"},
	"pkg/agent":                    {"pkg/message", "pkg/provider", "pkg/cas", "pkg/runevent", "pkg/tool", "pkg/budget", "pkg/projection", "pkg/compaction", "pkg/session"},
	"pkg/worker":                   {"pkg/agent"},
	"pkg/budget/o200k":             {"pkg/budget"},
	"pkg/cas/codec":                {"pkg/cas"},
	"pkg/cas/known":                {"pkg/cas"},
	"pkg/cas/recent":               {"pkg/cas"},
	"pkg/cas/memstore":             {"pkg/cas", "pkg/cas/codec"},
	"pkg/cas/fsstore":              {"pkg/cas", "pkg/cas/codec"},
	"pkg/cas/s3store":              {"pkg/cas", "pkg/cas/codec"},
	"pkg/cas/castest":              {"pkg/cas"},
	"pkg/runevent/memlog":          {"pkg/runevent"},
	"pkg/runevent/natslog":         {"pkg/runevent", "pkg/cas"},
	"pkg/runevent/logtest":         {"pkg/runevent", "pkg/cas"},
	"pkg/agent/natscalibration":    {"pkg/agent", "pkg/budget", "pkg/message"},
	"pkg/agent/natslimits":         {"pkg/agent"},
	"pkg/worker/natsqueue":         {"pkg/worker"},
	"pkg/provider/wire":            {"pkg/provider", "pkg/message", "pkg/internal/jsonwalk"},
	"pkg/provider/providertest":    {"pkg/provider", "pkg/message", "pkg/provider/wire"},
	"pkg/provider/anthropic":       {"pkg/provider", "pkg/message", "pkg/provider/wire", "pkg/internal/jsonwalk"},
	"pkg/provider/openaichat":      {"pkg/provider", "pkg/message", "pkg/provider/wire", "pkg/internal/jsonwalk"},
	"pkg/provider/openairesponses": {"pkg/provider", "pkg/message", "pkg/provider/wire", "pkg/internal/jsonwalk"},
	"pkg/tool/mcp":                 {"pkg/tool", "pkg/message"},
	"pkg/tool/builtin":             {"pkg/agent", "pkg/session", "pkg/tool", "pkg/message"},
	"pkg/tool/codemode":            {"pkg/tool", "pkg/message"},
	"pkg/kube": {"api/v1alpha1", "pkg/agent", "pkg/worker", "pkg/message", "pkg/provider", "pkg/session", "pkg/projection", "pkg/budget",
		"pkg/runevent", "pkg/cas"},
	"pkg/archive":                    {"pkg/cas", "pkg/runevent", "pkg/session", "pkg/internal/lru"},
	"pkg/sweep":                      {"pkg/cas", "pkg/runevent"},
	"pkg/audit":                      {"pkg/archive", "pkg/cas", "pkg/legacy", "pkg/message", "pkg/projection", "pkg/runevent", "pkg/session", "pkg/internal/lru"},
	"pkg/trajectory/verify":          {},
	"pkg/trajectory/otlp":            {"pkg/trajectory", "pkg/message", "pkg/projection", "pkg/provider"},
	"pkg/trajectory/atif":            {"pkg/trajectory", "pkg/message", "pkg/projection", "pkg/provider"},
	"pkg/trajectory/server":          {"pkg/trajectory", "pkg/trajectory/otlp", "pkg/trajectory/atif", "pkg/runevent", "pkg/cas", "pkg/cas/recent", "pkg/message", "pkg/session"},
	"pkg/trajectory/server/kubeauth": {"api/v1alpha1", "pkg/trajectory/server", "pkg/trajectory"},
	"api/v1alpha1":                   {},
	"api/openapi":                    {},
	"config/crd":                     {},
	"controllers":                    {"api/v1alpha1", "pkg/archive", "pkg/kube", "pkg/agent", "pkg/worker", "pkg/session", "pkg/runevent", "pkg/cas", "pkg/budget", "pkg/message", "pkg/provider"},
	"web":                            {},
	"cmd/...":                        {"..."},
	"test/...":                       {"..."},
	".":                              {},
}

// sdkOwners says which package alone may import an SDK.
var sdkOwners = map[string][]string{
	"github.com/anthropics/anthropic-sdk-go": {"pkg/provider/anthropic"},
	"github.com/openai/openai-go":            {"pkg/provider/openaichat", "pkg/provider/openairesponses"},
	"github.com/modelcontextprotocol/go-sdk": {"pkg/tool/mcp"},
	"modernc.org/quickjs":                    {"pkg/tool/codemode"},
	"charm.land/catwalk":                     {"cmd/internal/catalogue"},
	"github.com/minio/minio-go":              {"pkg/cas/s3store"},
	"github.com/tiktoken-go/tokenizer":       {"pkg/budget/o200k"},
	"github.com/prometheus/client_golang":    {"cmd/internal/metrics", "cmd/viewer", "pkg/trajectory/server"},
	"go.opentelemetry.io/otel":               {"cmd/internal/tracing"},
	"github.com/nats-io/nats.go":             {"pkg/runevent/natslog", "pkg/agent/natscalibration", "pkg/agent/natslimits", "pkg/worker/natsqueue", "cmd/manager", "cmd/viewer", "cmd/internal/options", "cmd/kubectl-agentloop/local"},
	"github.com/nats-io/nats-server":         {"cmd/kubectl-agentloop/local"},
	"github.com/spf13/cobra":                 {"cmd/kubectl-agentloop/command"},
	"sigs.k8s.io/controller-runtime": {"controllers", "pkg/kube", "cmd/manager", "cmd/viewer", "pkg/trajectory/server/kubeauth",
		"cmd/kubectl-agentloop/cluster", "cmd/kubectl-agentloop/viewer", "cmd/kubectl-agentloop/command", "cmd/kubectl-agentloop/local"},
	"k8s.io/client-go": {"controllers", "pkg/kube", "cmd/manager", "cmd/viewer", "pkg/trajectory/server/kubeauth",
		"cmd/kubectl-agentloop/cluster", "cmd/kubectl-agentloop/viewer"},
}

// pure packages decide: they do no I/O, start no goroutine, and read no clock or environment.
var pure = []string{"pkg/message", "pkg/budget", "pkg/projection", "pkg/compaction", "pkg/session", "pkg/legacy", "pkg/trajectory", "pkg/trajectory/otlp", "pkg/trajectory/atif",
	"pkg/trajectory/verify"}

var impure = []string{"os", "net", "net/http", "log", "log/slog", "os/exec", "io/fs", "syscall"}

type source struct {
	path, pkg string
	test      bool
	lines     int
	file      *ast.File
	set       *token.FileSet
}

func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	for _, path := range tracked(t, "*.go") {
		if strings.HasPrefix(path, "hack/") {
			continue
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, raw, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, source{
			path: path, pkg: filepath.ToSlash(filepath.Dir(path)), test: strings.HasSuffix(path, "_test.go"),
			lines: strings.Count(string(raw), "\n"), file: file, set: set,
		})
	}
	return out
}

// tracked lists the project's files of a pattern: those in version control and new ones that are not ignored.
func tracked(t *testing.T, pattern string) []string {
	t.Helper()
	raw, err := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", pattern).Output()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, path := range strings.Fields(string(raw)) {
		if _, err := os.Stat(path); err == nil {
			out = append(out, path)
		}
	}
	return out
}

func rule(pkg string) ([]string, bool) {
	if imports, ok := allowed[pkg]; ok {
		return imports, true
	}
	for pattern, imports := range allowed {
		if prefix, ok := strings.CutSuffix(pattern, "/..."); ok && strings.HasPrefix(pkg, prefix+"/") {
			return imports, true
		}
	}
	return nil, false
}

func contains(list []string, want string) bool {
	for _, have := range list {
		if have == want || have == "..." {
			return true
		}
	}
	return false
}

// TestImports holds every package to its row of the table. Tests may import what they need.
func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		imports, known := rule(s.pkg)
		if !known {
			t.Errorf("%s: package %s is not in the table of layers: add it with the imports that it may have", s.path, s.pkg)
			continue
		}
		if s.test {
			continue
		}
		for _, spec := range s.file.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if inner, ok := strings.CutPrefix(path, module); ok && !contains(imports, inner) {
				t.Errorf("%s imports %s, which its layer does not allow", s.path, inner)
			}
			for sdk, owners := range sdkOwners {
				if strings.HasPrefix(path, sdk) && !contains(owners, s.pkg) && !strings.HasPrefix(s.pkg, "test/") {
					t.Errorf("%s imports %s, which only %s may", s.path, path, strings.Join(owners, ", "))
				}
			}
			if contains(pure, s.pkg) && contains(impure, path) {
				t.Errorf("%s imports %s: the package decides and does no I/O", s.path, path)
			}
		}
	}
}

// TestPure finds goroutines and clocks in packages that only decide.
func TestPure(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !contains(pure, s.pkg) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch node := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", s.set.Position(node.Pos()))
			case *ast.SelectorExpr:
				if x, ok := node.X.(*ast.Ident); ok && x.Name == "time" && (node.Sel.Name == "Now" || node.Sel.Name == "Since") {
					t.Errorf("%s reads the clock", s.set.Position(node.Pos()))
				}
			}
			return true
		})
	}
}

// TestSizes holds files, functions and interfaces to their limits.
func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		limit := maxFileLines
		if s.test {
			limit = maxTestFileLines
		}
		if s.lines > limit && !strings.Contains(s.path, "zz_generated") {
			t.Errorf("%s has %d lines, at most %d", s.path, s.lines, limit)
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch node := n.(type) {
			case *ast.FuncDecl:
				checkFunc(t, s, node)
			case *ast.InterfaceType:
				if len(node.Methods.List) > maxMethods {
					t.Errorf("%s has %d methods, at most %d", s.set.Position(node.Pos()), len(node.Methods.List), maxMethods)
				}
			}
			return true
		})
	}
}

func checkFunc(t *testing.T, s source, f *ast.FuncDecl) {
	t.Helper()
	limit := maxFuncLines
	if f.Name.Name == "Reconcile" {
		limit = maxReconcile
	}
	// Test functions are mostly tables of cases; their file is bounded instead.
	if s.test || strings.Contains(s.path, "zz_generated") {
		return
	}
	if lines := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1; lines > limit {
		t.Errorf("%s: %s has %d lines, at most %d", s.set.Position(f.Pos()), f.Name.Name, lines, limit)
	}
}

// TestPackageComments wants exactly one comment for each package.
func TestPackageComments(t *testing.T) {
	comments := map[string][]string{}
	packages := map[string]bool{}
	for _, s := range sources(t) {
		if strings.HasSuffix(s.file.Name.Name, "_test") {
			continue
		}
		packages[s.pkg] = true
		if s.file.Doc != nil {
			comments[s.pkg] = append(comments[s.pkg], s.path)
		}
	}
	names := make([]string, 0, len(packages))
	for name := range packages {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if n := len(comments[name]); n != 1 {
			t.Errorf("package %s has %d package comments, want one: %v", name, n, comments[name])
		}
	}
}

// docPath is a path of this project inside backquotes.
var docPath = regexp.MustCompile("`((?:api|charts|cmd|config|controllers|docs|hack|pkg|test|web)/[A-Za-z0-9_./-]*)`")

// TestDocPaths wants the paths that documents name to exist.
func TestDocPaths(t *testing.T) {
	for _, path := range tracked(t, "*.md") {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range docPath.FindAllStringSubmatch(string(raw), -1) {
			name := strings.TrimSuffix(match[1], "/")
			if strings.ContainsAny(name, "*<{") || strings.HasPrefix(name, "web/node_modules") {
				continue
			}
			if _, err := os.Stat(name); err != nil {
				t.Errorf("%s names %s, which does not exist", path, match[1])
			}
		}
	}
}
