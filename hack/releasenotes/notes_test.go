package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// repository makes a repository of commits, given as messages; one that begins with "tag " is a tag.
func repository(t *testing.T, steps ...string) string {
	t.Helper()
	folder := t.TempDir()
	run := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", folder}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE=2026-03-14T08:00:00Z",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_COMMITTER_DATE=2026-03-14T08:00:00Z")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	run("init", "-q", "-b", "main")
	for _, step := range steps {
		if name, ok := strings.CutPrefix(step, "tag "); ok {
			run("tag", name)
			continue
		}
		run("commit", "-q", "--allow-empty", "-m", step)
	}
	return folder
}

// hashes are left out of comparisons.
var hashes = regexp.MustCompile(`\([0-9a-f]{7,}\)`)

func TestNotes(t *testing.T) {
	first := []string{"api/v1alpha1: kinds", "pkg/cas: objects", "tag v0.1.0"}
	cases := map[string]struct {
		steps   []string
		request request
		want    string
		fails   string
	}{
		"since the tag before, by area, what breaks first": {
			steps: append(append([]string{}, first...),
				"web: rows are told apart\n\nA body that says why.",
				"api/v1alpha1: a session names its model\n\nWhy.\n\nBreaking: `spec.model` is an object now; move the name to\n  `spec.model.model`.\nReviewed-by: b",
				"pkg/runevent: entries of nested calls\n\nStored-Format: run events have the type tool.nested.",
				"test/chaos: one more story",
				"hack/lint: newer linter",
				"pkg/agent, pkg/worker: runs end once\n\nSecurity: GO-2026-1 does no harm any more.",
				"tag v0.2.0"),
			want: "# v0.2.0\n\n2026-03-14, since v0.1.0. 6 changes.\n" +
				"\n## Breaking\n\n- `spec.model` is an object now; move the name to `spec.model.model`. (#)\n" +
				"\n## Stored formats\n\n- run events have the type tool.nested. (#)\n" +
				"\n## Security\n\n- GO-2026-1 does no harm any more. (#)\n" +
				"\n## Resources\n\n- api/v1alpha1: a session names its model (#)\n" +
				"\n## Agents and their runs\n\n- pkg/agent, pkg/worker: runs end once (#)\n" +
				"\n## Trajectory and viewer\n\n- web: rows are told apart (#)\n" +
				"\n## Stores\n\n- pkg/runevent: entries of nested calls (#)\n" +
				"\nBesides, 2 changes of tests and tools.\n",
		},
		"the first version": {
			steps: first,
			want: "# v0.1.0\n\n2026-03-14. 2 changes.\n\n## Stored formats\n\nNo new format is written: going back to the version before is possible.\n" +
				"\n## Resources\n\n- api/v1alpha1: kinds (#)\n\n## Stores\n\n- pkg/cas: objects (#)\n",
		},
		"what has no tag yet": {
			steps: append(append([]string{}, first...), "cmd/viewer: a flag"),
			want: "# Unreleased\n\n2026-03-14, since v0.1.0. 1 change.\n\n## Stored formats\n\nNo new format is written: going back to the version before is possible.\n" +
				"\n## Trajectory and viewer\n\n- cmd/viewer: a flag (#)\n",
		},
		"between named commits, for a named version": {
			steps:   append(append([]string{}, first...), "docs: words", "tag v0.2.0", "docs: more words"),
			request: request{from: "v0.1.0", to: "v0.2.0", version: "v9"},
			want: "# v9\n\n2026-03-14, since v0.1.0. 1 change.\n\n## Stored formats\n\nNo new format is written: going back to the version before is possible.\n" +
				"\n## Documentation\n\n- docs: words (#)\n",
		},
		"subjects without a package": {
			steps: append(append([]string{}, first...), "fixes", "oops: a"),
			want: "# Unreleased\n\n2026-03-14, since v0.1.0. 2 changes.\n\n## Stored formats\n\nNo new format is written: going back to the version before is possible.\n" +
				"\n## Other\n\n- fixes (#)\n- oops: a (#)\n",
		},
		"nothing new":             {steps: first, request: request{from: "v0.1.0", to: "v0.1.0"}, fails: "no commits in v0.1.0..v0.1.0"},
		"a tag that there is not": {steps: first, request: request{from: "v7"}, fails: "git log"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := c.request
			r.repo = repository(t, c.steps...)
			if r.to == "" {
				r.to = "HEAD"
			}
			got, err := r.notes()
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("error %v, want %q", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, hashes.ReplaceAllString(got, "(#)")); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestAreas holds the folders of the project to an area each.
func TestAreas(t *testing.T) {
	for prefix, want := range map[string]string{
		"api/openapi": "Trajectory and viewer", "pkg/provider/anthropic": "Model providers", "cmd/kubectl-agentloop": "Command line",
		"cmd/viewer": "Trajectory and viewer", "charts/agentloop": "Installation", "pkg/internal/lru": "Other", ".ci/run": inside, "README.md": "Documentation",
	} {
		if got, known := areaOf(prefix); got != want || !known {
			t.Errorf("%s: %q (%v), want %q", prefix, got, known, want)
		}
	}
	if area, known := areaOf("pkgs/x"); known {
		t.Errorf("pkgs/x has the area %q", area)
	}
}
