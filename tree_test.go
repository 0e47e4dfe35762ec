package agentloop

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxTrackedFile is the size in bytes from which a file does not belong into version control.
const maxTrackedFile = 1 << 20

// TestTrackedFiles keeps large files and built programs out.
func TestTrackedFiles(t *testing.T) {
	for _, path := range tracked(t, ".") {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > maxTrackedFile {
			t.Errorf("%s has %d bytes, at most %d: build or fetch it instead", path, info.Size(), maxTrackedFile)
		}
	}
}

// publicHosts are the registries that everybody has.
var publicHosts = map[string]bool{"proxy.golang.org": true, "registry.npmjs.org": true}

// TestNoMachine finds what only the machine of whoever wrote it has: their folders, and the hosts of their registries.
func TestNoMachine(t *testing.T) {
	var own []string
	if folder, err := os.Getwd(); err == nil && strings.Count(folder, "/") > 1 {
		own = append(own, folder+"/")
	}
	if home, err := os.UserHomeDir(); err == nil && len(home) > 1 {
		own = append(own, home+"/")
	}
	proxies, err := exec.CommandContext(t.Context(), "go", "env", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, proxy := range strings.FieldsFunc(string(proxies), func(r rune) bool { return strings.ContainsRune(",|\n", r) }) {
		if address, err := url.Parse(proxy); err == nil && address.Host != "" && !publicHosts[address.Hostname()] {
			own = append(own, address.Hostname())
		}
	}
	for _, path := range tracked(t, ".") {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		for _, name := range own {
			if at := strings.Index(text, name); at >= 0 && !inWord(text, at) {
				t.Errorf("%s names %q, which only this machine has", path, name)
			}
		}
		if filepath.Base(path) == "package-lock.json" && strings.Contains(text, `"resolved": "http`) {
			t.Errorf("%s names the registry that it was made with: put omit-lockfile-registry-resolved=true into .npmrc and make it again", path)
		}
	}
}

// inWord says whether what stands at that place is the end of a longer path or name.
func inWord(text string, at int) bool {
	return at > 0 && (text[at-1] == '/' || text[at-1] == '.' || text[at-1] == '-' || text[at-1] == '_' || text[at-1] == '}' || text[at-1] == ')' ||
		text[at-1] >= '0' && text[at-1] <= '9' || text[at-1] >= 'A' && text[at-1] <= 'Z' || text[at-1] >= 'a' && text[at-1] <= 'z')
}
