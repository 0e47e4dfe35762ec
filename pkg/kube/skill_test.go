package kube

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/session"
)

func TestParseSkill(t *testing.T) {
	cases := map[string]struct {
		file string
		want parsedSkill
		err  string
	}{
		"the least":                     {"---\nname: a\ndescription: b\n---\nDo it.\n", parsedSkill{"a", "b", "Do it."}, ""},
		"other fields":                  {"---\nname: a-1\ndescription: b\nlicense: MIT\nmetadata: {version: 1.5}\nallowed-tools: Read\n---\n", parsedSkill{"a-1", "b", ""}, ""},
		"a file without a body":         {"---\nname: a\ndescription: b\n---", parsedSkill{"a", "b", ""}, ""},
		"another system's line ends":    {"\ufeff---\r\nname: a\r\ndescription: >-\r\n  two\r\n  lines\r\n---\r\nOne.\r\nTwo.", parsedSkill{"a", "two lines", "One.\nTwo."}, ""},
		"a rule in the body":            {"---\nname: a\ndescription: b\n---\nOne.\n---\nTwo.", parsedSkill{"a", "b", "One.\n---\nTwo."}, ""},
		"no front matter":               {"Do it.", parsedSkill{}, "it must begin with front matter: name and description between two lines of ---"},
		"nothing":                       {"", parsedSkill{}, "it must begin with front matter: name and description between two lines of ---"},
		"front matter that is empty":    {"---\n---\n", parsedSkill{}, "the front matter has no name"},
		"front matter without an end":   {"---\nname: a\n", parsedSkill{}, "the front matter has no line of --- at its end"},
		"no YAML":                       {"---\n{\n---\n", parsedSkill{}, "the front matter is not a YAML mapping"},
		"a list":                        {"---\n[name]\n---\n", parsedSkill{}, "the front matter is not a YAML mapping"},
		"a field twice":                 {"---\nname: a\nname: b\ndescription: c\n---\n", parsedSkill{}, "the front matter is not a YAML mapping"},
		"no name":                       {"---\ndescription: b\n---\n", parsedSkill{}, "the front matter has no name"},
		"a name that is a number":       {"---\nname: 1\ndescription: b\n---\n", parsedSkill{}, "name must be text: put it in quotes"},
		"a name in capitals":            {"---\nname: Log\ndescription: b\n---\n", parsedSkill{}, "name may hold only lower-case letters, digits, and single hyphens between them"},
		"two hyphens":                   {"---\nname: a--b\ndescription: b\n---\n", parsedSkill{}, "name may hold only lower-case letters, digits, and single hyphens between them"},
		"a hyphen at the end":           {"---\nname: a-\ndescription: b\n---\n", parsedSkill{}, "name may hold only lower-case letters, digits, and single hyphens between them"},
		"a long name":                   {"---\nname: " + strings.Repeat("a", 65) + "\ndescription: b\n---\n", parsedSkill{}, "name has more than 64 characters"},
		"no description":                {"---\nname: a\ndescription:\n---\n", parsedSkill{}, "the front matter has no description"},
		"a blank description":           {"---\nname: a\ndescription: ' '\n---\n", parsedSkill{}, "description is empty"},
		"the longest description":       {"---\nname: a\ndescription: " + strings.Repeat("é", 1024) + "\n---\n", parsedSkill{"a", strings.Repeat("é", 1024), ""}, ""},
		"one character more":            {"---\nname: a\ndescription: " + strings.Repeat("é", 1025) + "\n---\n", parsedSkill{}, "description has more than 1024 characters"},
		"a long compatibility":          {"---\nname: a\ndescription: b\ncompatibility: " + strings.Repeat("c", 501) + "\n---\n", parsedSkill{}, "compatibility has more than 500 characters"},
		"a front matter without bounds": {"---\nname: a\ndescription: b\nx: " + strings.Repeat("c", 17<<10) + "\n---\n", parsedSkill{}, "the front matter has more than 16384 bytes"},
		"bytes that are no text":        {"---\nname: a\xff\n---\n", parsedSkill{}, "it is not UTF-8 text"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseSkill([]byte(tc.file))
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("error %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("%+v, %v, want %+v", got, err, tc.want)
			}
		})
	}
}

// FuzzParseSkill states that what is taken keeps the rules, and that instructions are never made up.
func FuzzParseSkill(f *testing.F) {
	f.Add([]byte("---\nname: a\ndescription: b\n---\nDo it."))
	f.Add([]byte("---\na: &a [x, x]\nb: [*a, *a]\n---\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := parseSkill(raw)
		if err != nil {
			return
		}
		if !skillName.MatchString(got.name) || len(got.name) > maxSkillName || strings.TrimSpace(got.description) == "" || !strings.Contains(strings.ReplaceAll(string(raw), "\r\n", "\n"), got.instructions) {
			t.Errorf("parseSkill(%q) = %+v", raw, got)
		}
	})
}

// skillText is a SKILL.md.
func skillText(name, body string) string {
	return "---\nname: " + name + "\ndescription: What " + name + " is for.\n---\n" + body
}

// TestLoadOfSkills keeps what the run selected, what the model is told of, and what it may read.
func TestLoadOfSkills(t *testing.T) {
	c := newCluster()
	log, notes := skillText("changelog", "List changes."), "Be plain.\n"
	c.maps["log"] = &corev1.ConfigMap{
		ObjectMeta: meta("log"), Data: map[string]string{"SKILL.md": log, "words.md": notes}, BinaryData: map[string][]byte{"logo.png": {0x89, 0, 0xff}},
	}
	c.configMap("one", "one.md", skillText("one", "Do one thing."))
	c.configMap("plain", "SKILL.md", skillText("plain", "Plainly."))
	c.session.Spec.Skills = []api.Skill{
		{ID: "unread", ConfigMapRef: &api.ConfigMapRef{Name: "not-there"}, Load: api.SkillManual},
		{ID: "one", ConfigMapKeyRef: &api.ConfigMapKeyRef{Name: "one", Key: "one.md"}, Load: api.SkillAutomatic},
		{ID: "log", ConfigMapRef: &api.ConfigMapRef{Name: "log"}, Load: api.SkillManual},
		{ID: "plain", ConfigMapRef: &api.ConfigMapRef{Name: "plain"}, Load: api.SkillManual},
	}
	c.run.Spec.Skills = []string{"plain", "log"}
	job, err := c.load()
	if err != nil || job.Run.Refusal != nil {
		t.Fatalf("%v, refusal %v", err, job.Run.Refusal)
	}
	hex := func(s string) string { return strings.TrimPrefix(cas.Of([]byte(s)).String(), "sha256:") }
	logRevision := cas.Of([]byte(hex(log) + "  SKILL.md\n" + hex("\x89\x00\xff") + "  logo.png\n" + hex(notes) + "  words.md\n")).String()
	selected := []projection.SkillSelection{
		{ID: "plain", Revision: cas.Of([]byte(skillText("plain", "Plainly."))).String(), Name: "plain", Path: "plain/SKILL.md", Content: "Plainly."},
		{ID: "log", Revision: logRevision, Name: "changelog", Path: "log/SKILL.md", Content: "List changes."},
	}
	if diff := cmp.Diff(selected, job.Run.Config.Skills); diff != "" {
		t.Errorf("selected (-want +got):\n%s", diff)
	}
	sections := []projection.Section{
		{Name: "project", Text: "Be brief."},
		{Name: "available_skills", Text: projection.SkillListing([]projection.ListedSkill{{ID: "one", Name: "one", Description: "What one is for."}})},
	}
	if diff := cmp.Diff(sections, job.Run.Config.Sections); diff != "" {
		t.Errorf("sections (-want +got):\n%s", diff)
	}
	loadable := []session.Skill{
		{V: 1, ID: "one", Revision: cas.Of([]byte(skillText("one", "Do one thing."))).String(), Name: "one", Instructions: "Do one thing."},
		{V: 1, ID: "log", Revision: logRevision, Name: "changelog", Instructions: "List changes.", Files: []session.SkillFile{
			{Name: "logo.png", Size: 3, Binary: true}, {Name: "words.md", Size: int64(len(notes)), Text: notes},
		}},
	}
	if diff := cmp.Diff(loadable, job.Run.Skills); diff != "" {
		t.Errorf("loadable (-want +got):\n%s", diff)
	}
	if job.Run.Config.Loadable != nil {
		t.Errorf("the configuration names objects that nobody has stored: %+v", job.Run.Config.Loadable)
	}

	idle, err := c.source().IdleConfig(t.Context(), c.session)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sections, idle.Sections); diff != "" {
		t.Errorf("sections of the idle estimate (-want +got):\n%s", diff)
	}
}
