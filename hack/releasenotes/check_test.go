package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReleaseCheck runs the cheap checks of hack/release-check.sh in a made-up repository with a chart.
func TestReleaseCheck(t *testing.T) {
	const sound = "apiVersion: v2\nname: agentloop\nversion: 0.2.0\nappVersion: \"0.2.0\"\n"
	cases := map[string]struct {
		version, chart, check string
		says                  string
		fails                 bool
	}{
		"a sound release":                      {version: "v0.2.0", chart: sound, check: "versions", says: "1 passed, 0 failed"},
		"no version is named yet":              {chart: sound, check: "versions", says: "release of the next version"},
		"no chart":                             {version: "v0.2.0", check: "versions", says: "there is no chart"},
		"the chart has another version":        {version: "v0.3.0", chart: sound, check: "versions", says: "has version 0.2.0, not 0.3.0", fails: true},
		"chart and programs differ":            {chart: strings.Replace(sound, `"0.2.0"`, `"0.1.9"`, 1), check: "versions", says: "has version 0.2.0 and appVersion 0.1.9", fails: true},
		"the version is older than a tag":      {version: "v0.0.9", chart: sound, check: "versions", says: "is older than the tag v0.1.0", fails: true},
		"the tag is there, of a commit before": {version: "v0.1.0", chart: sound, check: "versions", says: "v0.1.0 is the tag of another commit", fails: true},
		"what is no version":                   {version: "0.2", chart: sound, check: "versions", says: "is no version: write v1.2.3", fails: true},
		"a tree with new files":                {chart: sound, check: "clean", says: "commit or remove these files", fails: true},
		"a check that there is not":            {chart: sound, check: "beauty", says: "there is no check beauty", fails: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			folder := repository(t, "api: one", "tag v0.1.0", "api: two")
			for _, script := range []string{"release-check.sh", "steps.sh"} {
				text, err := os.ReadFile(filepath.Join("..", script))
				if err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(folder, "hack", script), string(text))
			}
			if c.chart != "" {
				write(t, filepath.Join(folder, "charts", "agentloop", "Chart.yaml"), c.chart)
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(folder, "hack", "release-check.sh"), c.check)
			cmd.Env = append(os.Environ(), "VERSION="+c.version, "OUT="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if (err != nil) != c.fails || !strings.Contains(string(out), c.says) {
				t.Errorf("failed %v, want %v and %q\n%s", err, c.fails, c.says, out)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}
