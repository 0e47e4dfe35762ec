package tools

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/tool"
	"github.com/agentloop/agentloop/pkg/tool/mcp"
)

// step is one call and what its result has.
type step struct {
	tool, arguments string
	isError         bool
	want            []string
}

func (s step) check(t *testing.T, set *mcp.Set) tool.Result {
	t.Helper()
	got := call(t, set, s.tool, s.arguments)
	if got.IsError != s.isError {
		t.Errorf("%s %s: isError %t: %.500s", s.tool, s.arguments, got.IsError, flat(got))
	}
	for _, want := range s.want {
		if !strings.Contains(flat(got), want) {
			t.Errorf("%s %s: %.500s lacks %q", s.tool, s.arguments, flat(got), want)
		}
	}
	return got
}

// quoted is a JSON string.
func quoted(s string) string {
	raw, _ := json.Marshal(s) // a string always marshals
	return string(raw)
}

// TestFilesystemServer works with files through the file server: the calls change what they should, their marks are those
// that recovery relies on, and what is outside its folder stays outside.
func TestFilesystemServer(t *testing.T) {
	folder, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	long := strings.Repeat("0123456789abcde\n", 16<<10)
	for path, content := range map[string]string{secret: "hidden", filepath.Join(folder, "long.txt"): long, filepath.Join(folder, "note.txt"): "grüße\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(secret, filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	url := bridge(t, nil, "server-filesystem/dist/index.js", folder)
	set := connect(t, mcp.ServerConfig{URL: url, Allow: []string{mcp.All}, RetrySafe: []string{mcp.All}})
	var reads, repeats []string
	for _, d := range set.Definitions() {
		if d.ReadOnly {
			reads = append(reads, d.RemoteName)
		} else if d.Repeatable() {
			repeats = append(repeats, d.RemoteName)
		}
	}
	for _, name := range []string{"read_text_file", "list_directory", "directory_tree"} {
		if !slices.Contains(reads, name) {
			t.Errorf("%s is not marked as one that reads: %q", name, reads)
		}
	}
	if slices.Contains(reads, "write_file") || slices.Contains(repeats, "edit_file") || slices.Contains(repeats, "move_file") {
		t.Errorf("marks: %q read, %q may be repeated", reads, repeats)
	}
	at := func(name string) string { return quoted(filepath.Join(folder, name)) }
	for _, s := range []step{
		{"read_text_file", `{"path":` + at("note.txt") + `}`, false, []string{"grüße"}},
		{"write_file", `{"path":` + at("new.txt") + `,"content":"a\nb\n"}`, false, []string{"Successfully wrote"}},
		{"edit_file", `{"path":` + at("new.txt") + `,"edits":[{"oldText":"b","newText":"c"}]}`, false, []string{"+c"}},
		{"list_directory", `{"path":` + quoted(folder) + `}`, false, []string{"[FILE] new.txt", "[FILE] note.txt"}},
		{"read_text_file", `{"path":` + quoted(secret) + `}`, true, []string{"Access denied"}},
		{"read_text_file", `{"path":` + at("../../etc/passwd") + `}`, true, []string{"Access denied"}},
		{"read_text_file", `{"path":` + at("link") + `}`, true, []string{"Access denied"}},
		{"read_text_file", `{"path":` + at("missing") + `}`, true, []string{"ENOENT"}},
		{"read_text_file", `{"path":17}`, true, []string{"do not fit", "/path"}},
	} {
		s.check(t, set)
	}
	if content, err := os.ReadFile(filepath.Join(folder, "new.txt")); err != nil || string(content) != "a\nc\n" {
		t.Errorf("the file holds %q, %v", content, err)
	}
	cut := step{"read_text_file", `{"path":` + at("long.txt") + `}`, false, []string{fmt.Sprintf("of %d bytes are shown", len(long))}}.check(t, set)
	if cut.Whole != long || !cut.Audit.Truncated || cut.Audit.Bytes != int64(len(long)) || len(flat(cut)) > 80<<10 {
		t.Errorf("whole has %d bytes, want %d; %+v", len(cut.Whole), len(long), cut.Audit)
	}
}

// TestMemoryServer builds a graph, whose results are structured, and reads it back with another set.
func TestMemoryServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.jsonl")
	url := bridge(t, []string{"MEMORY_FILE_PATH=" + file}, "server-memory/dist/index.js")
	set := connect(t, mcp.ServerConfig{URL: url, Allow: []string{mcp.All}})
	for _, s := range []step{
		{"create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["likes numbers"]},{"name":"Engine","entityType":"machine","observations":[]}]}`, false, []string{"Ada"}},
		{"create_relations", `{"relations":[{"from":"Ada","to":"Engine","relationType":"programs"}]}`, false, []string{"programs"}},
		{"add_observations", `{"observations":[{"entityName":"Nobody","contents":["x"]}]}`, true, []string{"Nobody"}},
		{"create_entities", `{"entities":[{"name":"Ada"}]}`, true, []string{"do not fit", "entityType"}},
	} {
		s.check(t, set)
	}
	again := connect(t, mcp.ServerConfig{URL: url, Allow: []string{"read_graph", "search_nodes"}})
	graph := step{"read_graph", `{}`, false, []string{"likes numbers", "programs"}}.check(t, again)
	var details struct {
		StructuredContent struct {
			Entities  []struct{ Name, EntityType string }
			Relations []struct{ From, To, RelationType string }
		}
	}
	if err := json.Unmarshal(graph.Details, &details); err != nil || len(details.StructuredContent.Entities) != 2 || len(details.StructuredContent.Relations) != 1 {
		t.Errorf("structured content %s, %v", graph.Details, err)
	}
	step{"search_nodes", `{"query":"machine"}`, false, []string{"Engine"}}.check(t, again)
	if got := call(t, again, "create_entities", `{"entities":[]}`); !got.IsError || !strings.Contains(flat(got), "There is no tool named") {
		t.Errorf("a tool that is not allowed: %s", flat(got))
	}
}
