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

// TestDocLinks wants links between documents to lead somewhere, to the section that they name.
func TestDocLinks(t *testing.T) {
	for _, path := range tracked(t, "*.md") {
		for _, match := range docLink.FindAllStringSubmatch(prose(read(t, path)), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file := path
			if target != "" {
				file = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, match[1])
				continue
			}
			if anchor != "" && strings.HasSuffix(file, ".md") && !anchors(read(t, file))[anchor] {
				t.Errorf("%s links to %s, and %s has no such section", path, match[1], file)
			}
		}
	}
}

// fenced is a block of code, whose lines are neither links nor headings.
var fenced = regexp.MustCompile("(?ms)^[ ]*```.*?^[ ]*```$")

func prose(text string) string { return fenced.ReplaceAllString(text, "") }

// heading is a heading of a document; slugless are the characters that hosting sites leave out of its anchor.
var (
	heading  = regexp.MustCompile(`(?m)^#{1,6} +(.*?) *$`)
	slugless = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	linked   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// anchors are the names under which the sections of a document can be linked to, as hosting sites make them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(prose(text), -1) {
		name := slugless.ReplaceAllString(strings.ToLower(linked.ReplaceAllString(match[1], "$1")), "")
		name = strings.ReplaceAll(name, " ", "-")
		unique := name
		for n := 1; out[unique]; n++ {
			unique = fmt.Sprintf("%s-%d", name, n)
		}
		out[unique] = true
	}
	return out
}

// TestAnchors holds the names of sections to those that hosting sites give.
func TestAnchors(t *testing.T) {
	text := "# A page, with [a link](x.md)\n\n```sh\n# no heading\n```\n\n## `code` & more\n\n## spec.models[].sampling\n\n## Twice\n\n## Twice\n"
	for _, want := range []string{"a-page-with-a-link", "code--more", "specmodelssampling", "twice", "twice-1"} {
		if !anchors(text)[want] {
			t.Errorf("no anchor %q in %v", want, anchors(text))
		}
	}
	if len(anchors(text)) != 5 {
		t.Errorf("anchors %v", anchors(text))
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
var makeTarget = regexp.MustCompile("(?m)(?:`|^)(?:[A-Z_]+=\\S+ )*make ([a-z][a-z0-9-]*)")

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
