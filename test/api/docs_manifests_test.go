package api

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// fileOf is the first line of a block that shows a file of the repository.
var fileOf = regexp.MustCompile(`^# ((?:config|charts|test|hack)/[A-Za-z0-9_./-]+\.yaml)\n`)

// otherGroups are served by an API server with more CRDs than ours; of their objects only the YAML is checked.
var otherGroups = regexp.MustCompile(`^(monitoring\.coreos\.com|gateway\.networking\.k8s\.io|cert-manager\.io|kustomize\.config\.k8s\.io)/`)

// handedIn is a text that a command of a block reads.
var handedIn = regexp.MustCompile(`(?s)-f - <<EOF\n(.*?)\nEOF\n`)

// TestDocManifests reads every block of YAML in the documents, and what commands there read, and has the API server admit each object in it, as kubectl
// would create it: unknown fields, wrong types and broken rules fail. A block that begins with the path of a file is that file.
func TestDocManifests(t *testing.T) {
	objects, files := 0, 0
	for path, text := range documents(t) {
		blocks, _ := fences(path, text)
		for _, block := range blocks {
			if block.lang == "sh" {
				for _, match := range handedIn.FindAllStringSubmatch(block.text, -1) {
					if checkManifest(t, block, match[1]) {
						objects++
					}
				}
			}
			if block.lang != "yaml" {
				continue
			}
			if match := fileOf.FindStringSubmatch(block.text); match != nil {
				files++
				sameAsFile(t, block, match[1])
			}
			for _, document := range strings.Split("\n"+block.text, "\n---\n") {
				if checkManifest(t, block, document) {
					objects++
				}
			}
		}
	}
	if objects < 10 || files < 5 {
		t.Errorf("%d objects and %d files: this test no longer finds them", objects, files)
	}
}

func sameAsFile(t *testing.T, block fence, file string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join(top, file))
	if err != nil {
		t.Errorf("%s:%d: %v", block.path, block.line, err)
		return
	}
	if shown := strings.TrimPrefix(block.text, "# "+file+"\n"); shown != string(want) {
		t.Errorf("%s:%d shows %s as it is not: copy the file into the block", block.path, block.line, file)
	}
}

// checkManifest says whether the document was an object that the API server was asked about.
func checkManifest(t *testing.T, block fence, document string) bool {
	t.Helper()
	var u struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal([]byte(document), &u); err != nil {
		// A fragment may be a list, which has no kind.
		var any any
		if err := yaml.UnmarshalStrict([]byte(document), &any); err != nil {
			t.Errorf("%s:%d is no YAML: %v", block.path, block.line, err)
		}
		return false
	}
	if u.APIVersion == "" || u.Kind == "" || otherGroups.MatchString(u.APIVersion) {
		return false
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), "--kubeconfig", world.kubeconfig,
		"create", "--dry-run=server", "--validate=strict", "--namespace", namespace, "-o", "name", "-f", "-")
	cmd.Stdin = strings.NewReader(document)
	// What another test has created was admitted all the same: its name is looked at last.
	if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "(AlreadyExists)") {
		t.Errorf("%s:%d: the API server refuses this %s: %s", block.path, block.line, u.Kind, out)
	}
	return true
}
