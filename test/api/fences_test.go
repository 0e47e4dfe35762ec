package api

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const top = "../.."

// fence is a block of code of a document, without its indentation.
type fence struct {
	path, lang, text string
	line             int
}

var (
	fenceLine = regexp.MustCompile("^( *)```([a-z]*)[^`]*$")
	// inlineCode is a span of code in a sentence.
	inlineCode = regexp.MustCompile("`([^`\n]+)`")
)

// documents are the pages of the project by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md")
	cmd.Dir = top
	raw, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, path := range strings.Fields(string(raw)) {
		text, err := os.ReadFile(filepath.Join(top, path))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		out[path] = string(text)
	}
	if len(out) < 40 {
		t.Fatalf("%d documents: this test no longer finds them", len(out))
	}
	return out
}

// fences splits a document into its blocks of code and everything else.
func fences(path, text string) (blocks []fence, prose string) {
	var open *fence
	var indent string
	var rest []string
	for n, line := range strings.Split(text, "\n") {
		mark := fenceLine.FindStringSubmatch(line)
		switch {
		case open == nil && mark != nil:
			open, indent = &fence{path: path, lang: mark[2], line: n + 1}, mark[1]
		case open != nil && mark != nil:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		default:
			rest = append(rest, line)
		}
	}
	return blocks, strings.Join(rest, "\n")
}

func TestFences(t *testing.T) {
	blocks, prose := fences("a.md", "one `x`\n\n  ```yaml\n  a: 1\n    b\n  ```\ntwo\n```\n$ make x\n```\n")
	want := []fence{{"a.md", "yaml", "a: 1\n  b\n", 3}, {"a.md", "", "$ make x\n", 8}}
	if len(blocks) != len(want) || blocks[0] != want[0] || blocks[1] != want[1] {
		t.Errorf("got %+v, want %+v", blocks, want)
	}
	if prose != "one `x`\n\ntwo\n" {
		t.Errorf("prose %q", prose)
	}
}
