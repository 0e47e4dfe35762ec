package kube

import (
	"errors"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/projection"
)

// skillFile is the file of a skill that holds its instructions (agentskills.io).
const skillFile = "SKILL.md"

// skills reads the Skills that the run selected, in the run's order. A Skill's revision is the digest of its file.
func (l *loader) skills(run *api.AgentRun, owner *api.AgentSession) ([]projection.SkillSelection, error) {
	var out []projection.SkillSelection
	for _, id := range run.Spec.Skills {
		at := slices.IndexFunc(owner.Spec.Skills, func(s api.Skill) bool { return s.ID == id })
		if at < 0 {
			return nil, invalid("spec.skills: the session has no skill %s", id)
		}
		ref := api.ConfigMapKeyRef{Key: skillFile}
		if whole := owner.Spec.Skills[at].ConfigMapRef; whole != nil {
			ref.Name = whole.Name
		} else {
			ref = *owner.Spec.Skills[at].ConfigMapKeyRef
		}
		raw, err := l.sessionKey(ref)
		if err != nil {
			return nil, err
		}
		name, body, err := parseSkill(string(raw))
		if err != nil {
			return nil, invalid("skill %s: %v", id, err)
		}
		if name == "" {
			name = id
		}
		out = append(out, projection.SkillSelection{ID: id, Revision: cas.Of(raw).String(), Name: name, Path: ref.Name + "/" + ref.Key, Content: body})
	}
	return out, nil
}

// parseSkill splits a SKILL.md into the name in its front matter and the instructions after it.
func parseSkill(file string) (name, body string, err error) {
	file = strings.ReplaceAll(file, "\r\n", "\n")
	rest, found := strings.CutPrefix(file, "---\n")
	if !found {
		return "", strings.TrimSpace(file), nil
	}
	front, body, found := strings.Cut(rest, "\n---\n")
	if !found {
		return "", "", errFrontMatter
	}
	var fields struct {
		Name string `json:"name"`
	}
	if err := yaml.Unmarshal([]byte(front), &fields); err != nil {
		return "", "", errFrontMatter
	}
	return fields.Name, strings.TrimSpace(body), nil
}

var errFrontMatter = errors.New("the front matter is not YAML between two lines of ---")
