package tools

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/tool/mcp"
)

// recipe reads the tool servers of a sample's session.
func recipe(t *testing.T, name string) []v1alpha1.ToolServer {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../../config/samples/tools", name))
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq("\n"+string(raw), "\n---\n") {
		var session v1alpha1.AgentSession
		if err := yaml.Unmarshal([]byte(document), &session); err != nil {
			t.Fatal(err)
		}
		if session.Kind == v1alpha1.KindAgentSession {
			return session.Spec.ToolServers
		}
	}
	t.Fatalf("%s has no session", name)
	return nil
}

// TestRecipesAllowWhatServersOffer compares the tools that the samples allow with those of the servers themselves.
func TestRecipesAllowWhatServersOffer(t *testing.T) {
	for name, script := range map[string][]string{
		"bridge.yaml": {"server-filesystem/dist/index.js", t.TempDir()},
		"memory.yaml": {"server-memory/dist/index.js"},
	} {
		t.Run(name, func(t *testing.T) {
			url := bridge(t, []string{"MEMORY_FILE_PATH=" + filepath.Join(t.TempDir(), "memory.jsonl")}, script[0], script[1:]...)
			checkRecipe(t, recipe(t, name)[0], url)
		})
	}
	t.Run("everything.yaml", func(t *testing.T) {
		checkRecipe(t, recipe(t, "everything.yaml")[0], start(t))
	})
}

func checkRecipe(t *testing.T, server v1alpha1.ToolServer, url string) {
	t.Helper()
	set := connect(t, mcp.ServerConfig{URL: url, Allow: []string{mcp.All}})
	var offered []string
	for _, d := range set.Definitions() {
		offered = append(offered, d.RemoteName)
	}
	for _, tool := range server.Allow {
		if !slices.Contains(offered, tool) {
			t.Errorf("%s allows %s, which the server does not offer: %q", server.Name, tool, offered)
		}
	}
	if len(server.Allow) < 3 {
		t.Errorf("%s allows %q: this test no longer reads it", server.Name, server.Allow)
	}
}
