package agentloop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// moving are versions that are another one tomorrow.
var moving = []struct {
	what string
	find *regexp.Regexp
}{
	{"a version that moves", regexp.MustCompile(`@(latest|upgrade|patch|main|master|HEAD|next)\b`)},
	{"an image without a version", regexp.MustCompile(`(?m)^\s*-?\s*(?:image|FROM)[: ]\s*\S+:latest\b`)},
	{"npx without --no-install, which fetches what the registry has that day", regexp.MustCompile(`\bnpx (?:-y|--yes|[a-z@])`)},
	{"npm install, which does not hold to the lock file: use npm ci", regexp.MustCompile(`\bnpm (?:install|i|update)\b`)},
	{"a script from the net that is run unseen", regexp.MustCompile(`(?:curl|wget)[^\n]*\|\s*(?:ba)?sh\b`)},
}

// newestOnPurpose are lines that ask for the newest of something, and why.
var newestOnPurpose = map[string]string{
	`folder=$(go -C "$scratch" mod download -json golang.org/x/vulndb@latest`: "VULNDB=newest asks for the newest data, and only for data",
}

// programFiles are the tracked files that run something: scripts, the Makefile, workflows, images.
func programFiles(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"*.sh", ".ci/*", "Makefile", "*.mk", "*Dockerfile*", ".github/*", "config/*.yaml", "charts/*.yaml", "*.mjs"} {
		for _, path := range tracked(t, pattern) {
			if !strings.Contains(path, "/testdata/") && !slices.Contains(out, path) {
				out = append(out, path)
			}
		}
	}
	return out
}

// TestNothingMoves finds programs, images and packages that are fetched in whatever version there is that day.
func TestNothingMoves(t *testing.T) {
	files := programFiles(t)
	if len(files) < 20 {
		t.Fatalf("%d files: this test no longer finds them", len(files))
	}
	for _, path := range files {
		for line := range strings.Lines(read(t, path)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "#") || onPurpose(line) {
				continue
			}
			for _, m := range moving {
				if m.find.MatchString(line) {
					t.Errorf("%s has %s: %s", path, m.what, line)
				}
			}
		}
	}
}

func onPurpose(line string) bool {
	for known := range newestOnPurpose {
		if strings.HasPrefix(line, known) {
			return true
		}
	}
	return false
}

// TestToolsArePinned wants every program that is run from a module to be a tool of a go.mod, whose version go.sum seals.
func TestToolsArePinned(t *testing.T) {
	tools := 0
	for _, path := range tracked(t, "*go.mod") {
		if !strings.HasSuffix(path, "go.mod") || strings.Contains(path, "testdata") {
			continue
		}
		raw, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", path).Output()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		var file struct {
			Tool    []struct{ Path string }
			Require []struct{ Path, Version string }
			Replace []struct {
				Old, New struct{ Path, Version string }
			}
		}
		if err := json.Unmarshal(raw, &file); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "go.sum")); err != nil {
			t.Errorf("%s has no go.sum beside it", path)
		}
		for _, replaced := range file.Replace {
			if replaced.New.Version == "" {
				t.Errorf("%s takes %s from a folder", path, replaced.Old.Path)
			}
		}
		for _, tool := range file.Tool {
			tools++
			if !slices.ContainsFunc(file.Require, func(r struct{ Path, Version string }) bool { return strings.HasPrefix(tool.Path+"/", r.Path+"/") }) {
				t.Errorf("%s names the tool %s without a version of its module", path, tool.Path)
			}
		}
	}
	if tools < 4 {
		t.Errorf("%d tools: this test no longer finds them", tools)
	}
}

// exact is one version and no range.
var exact = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)

// TestPackagesArePinned wants one version for each npm package, and a lock file that has one for all that they bring along,
// with its digest.
func TestPackagesArePinned(t *testing.T) {
	files := tracked(t, "*package.json")
	if len(files) < 4 {
		t.Fatalf("%d package.json: this test no longer finds them", len(files))
	}
	for _, path := range files {
		var named struct{ Dependencies, DevDependencies, OptionalDependencies map[string]string }
		if err := json.Unmarshal([]byte(read(t, path)), &named); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, list := range []map[string]string{named.Dependencies, named.DevDependencies, named.OptionalDependencies} {
			for name, version := range list {
				if !exact.MatchString(version) {
					t.Errorf("%s wants %s %s: name one version", path, name, version)
				}
			}
		}
		var lock struct {
			Packages map[string]struct{ Version, Integrity string }
		}
		beside := filepath.Join(filepath.Dir(path), "package-lock.json")
		if err := json.Unmarshal([]byte(read(t, beside)), &lock); err != nil {
			t.Fatalf("%s: %v", beside, err)
		}
		for name, p := range lock.Packages {
			if name != "" && (!exact.MatchString(p.Version) || p.Integrity == "") {
				t.Errorf("%s has %s in version %q with the digest %q: make the lock file anew, without node_modules beside it", beside, name, p.Version, p.Integrity)
			}
		}
	}
}

// TestRenovate holds renovate.json to what this project is: it is JSON whose rules are about files and managers that there are. The published
// schema of the file is not part of this repository (its licence is the AGPL); it was compared by hand with that of renovate 44.121.2.
func TestRenovate(t *testing.T) {
	var config struct {
		Extends      []string
		PackageRules []struct {
			Description                                       any
			MatchManagers, MatchFileNames, MatchPackageNames  []string
			GroupName, CommitMessagePrefix, MinimumReleaseAge string
			Automerge                                         bool
		}
	}
	raw := read(t, "renovate.json")
	if err := json.Unmarshal([]byte(raw), &config); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(config.Extends, "config:recommended") || len(config.PackageRules) < 5 {
		t.Errorf("renovate.json extends %q with %d rules", config.Extends, len(config.PackageRules))
	}
	modules := ""
	for _, path := range tracked(t, "*go.mod") {
		modules += read(t, path)
	}
	for _, rule := range config.PackageRules {
		if rule.Description == nil || rule.CommitMessagePrefix == "" {
			t.Errorf("a rule about %q%q says not what it is for, or how its commits begin", rule.MatchPackageNames, rule.MatchFileNames)
		}
		for _, pattern := range rule.MatchFileNames {
			if len(tracked(t, strings.ReplaceAll(pattern, "**/", "*"))) == 0 {
				t.Errorf("a rule is about files %s, of which there are none", pattern)
			}
		}
		for _, name := range rule.MatchPackageNames {
			if !strings.Contains(modules, strings.TrimSuffix(name, "**")) {
				t.Errorf("a rule is about the modules %s, of which there are none", name)
			}
		}
	}
}
