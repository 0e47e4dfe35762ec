package agentloop

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// docLink is the target of a link in a document.
var docLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestDocLinks wants links between documents to lead somewhere.
func TestDocLinks(t *testing.T) {
	for _, path := range tracked(t, "*.md") {
		for _, match := range docLink.FindAllStringSubmatch(read(t, path), -1) {
			target, _, _ := strings.Cut(match[1], "#")
			if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, match[1])
			}
		}
	}
}

// TestDocIndex wants every page to be listed for its readers.
func TestDocIndex(t *testing.T) {
	index := read(t, "docs/README.md")
	for _, path := range tracked(t, "docs/*.md") {
		name := strings.TrimPrefix(path, "docs/")
		if strings.HasSuffix(name, "README.md") || strings.HasPrefix(name, "adr/") {
			continue
		}
		if !strings.Contains(index, "("+name+")") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

// docTest is a test, a fuzz test or a scenario that a document names.
var docTest = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*|[a-z0-9-]+\\.txtar)`")

// testNames lists the tests and scenarios that there are.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		for _, declaration := range s.file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
	}
	for _, path := range tracked(t, "test/scenarios/testdata/*.txtar") {
		names[filepath.Base(path)] = true
	}
	return names
}

// TestDocTests wants the tests that documents name to exist.
func TestDocTests(t *testing.T) {
	names := testNames(t)
	for _, path := range tracked(t, "*.md") {
		for _, match := range docTest.FindAllStringSubmatch(read(t, path), -1) {
			if !names[match[1]] {
				t.Errorf("%s names the test %s, which does not exist", path, match[1])
			}
		}
	}
}

// TestInvariants wants each invariant of the architecture to name tests that show it.
func TestInvariants(t *testing.T) {
	const count = 9
	_, rest, found := strings.Cut(read(t, "ARCHITECTURE.md"), "\n## Invariants\n")
	if !found {
		t.Fatal("ARCHITECTURE.md has no section Invariants")
	}
	section, _, _ := strings.Cut(rest, "\n## ")
	for n := 1; n <= count; n++ {
		_, text, found := strings.Cut(section, fmt.Sprintf("\n%d. **", n))
		if !found {
			t.Fatalf("invariant %d is missing", n)
		}
		text, _, _ = strings.Cut(text, fmt.Sprintf("\n%d. **", n+1))
		if !docTest.MatchString(text) {
			t.Errorf("invariant %d names no test", n)
		}
	}
}

// makeTarget is a call of make inside backquotes or at the start of a line of code.
var makeTarget = regexp.MustCompile("(?m)(?:`|^)(?:[A-Z_]+=\\S+ )*make ([a-z][a-z-]*)")

// TestDocTargets wants the make targets that documents name to exist, and to be explained.
func TestDocTargets(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, path := range tracked(t, "*.md") {
		for _, match := range makeTarget.FindAllStringSubmatch(read(t, path), -1) {
			if !regexp.MustCompile(`(?m)^` + match[1] + `:.*## `).MatchString(makefile) {
				t.Errorf("%s names make %s, which is no explained target of the Makefile", path, match[1])
			}
		}
	}
}

// TestDecisions holds the decisions to their form: numbered without gaps, in the index, with the template's sections.
func TestDecisions(t *testing.T) {
	index := read(t, "docs/adr/README.md")
	paths := tracked(t, "docs/adr/[0-9]*.md")
	if len(paths) == 0 {
		t.Fatal("there are no decisions")
	}
	for i, path := range paths {
		name, text := filepath.Base(path), read(t, path)
		number := fmt.Sprintf("%04d", i+1)
		if !strings.HasPrefix(name, number+"-") {
			t.Errorf("%s stands where number %s is expected", path, number)
		}
		if !strings.HasPrefix(text, "# "+number+". ") {
			t.Errorf("%s does not begin with its number", path)
		}
		if !strings.Contains(index, "["+number+"]("+name+")") {
			t.Errorf("docs/adr/README.md does not list %s", name)
		}
		for _, part := range []string{"\nStatus: ", "\n## Question\n", "\n## Decision\n", "\n## Instead of\n", "\n## Follows\n"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s lacks %q", path, strings.TrimSpace(part))
			}
		}
	}
}
