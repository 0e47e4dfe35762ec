package kube

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// The bounds of a SKILL.md (agentskills.io), in characters.
const (
	maxSkillName          = 64
	maxSkillDescription   = 1024
	maxSkillCompatibility = 500
)

// maxFrontMatter bounds what is parsed as YAML, in bytes. Four times all the text that the fields may have is far more than
// any skill needs.
const maxFrontMatter = 16 << 10

// skillName has single hyphens between lower-case letters and digits.
var skillName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// parsedSkill is what a SKILL.md says.
type parsedSkill struct{ name, description, instructions string }

// parseSkill checks a SKILL.md by the rules of agentskills.io and takes it apart. Fields of the front matter that are not
// used here are not looked at. The error names the rule and quotes nothing.
func parseSkill(raw []byte) (parsedSkill, error) {
	if !utf8.Valid(raw) {
		return parsedSkill{}, errors.New("it is not UTF-8 text")
	}
	front, body, err := splitFrontMatter(string(raw))
	if err != nil {
		return parsedSkill{}, err
	}
	var fields map[string]any
	if err := yaml.UnmarshalStrict([]byte(front), &fields); err != nil {
		return parsedSkill{}, errors.New("the front matter is not a YAML mapping")
	}
	out := parsedSkill{instructions: strings.TrimSpace(body)}
	if out.name, err = textField(fields, "name", maxSkillName); err != nil {
		return out, err
	}
	if !skillName.MatchString(out.name) {
		return out, errors.New("name may hold only lower-case letters, digits, and single hyphens between them")
	}
	if out.description, err = textField(fields, "description", maxSkillDescription); err != nil {
		return out, err
	}
	if _, there := fields["compatibility"]; there {
		_, err = textField(fields, "compatibility", maxSkillCompatibility)
	}
	return out, err
}

// splitFrontMatter separates what stands between the two lines of "---" from what follows.
func splitFrontMatter(file string) (front, body string, err error) {
	file = strings.ReplaceAll(strings.TrimPrefix(file, "\ufeff"), "\r\n", "\n")
	rest, found := strings.CutPrefix(file, "---\n")
	if !found {
		return "", "", errors.New("it must begin with front matter: name and description between two lines of ---")
	}
	front, body, found = strings.Cut("\n"+rest, "\n---\n")
	if !found {
		if front, found = strings.CutSuffix("\n"+rest, "\n---"); !found {
			return "", "", errors.New("the front matter has no line of --- at its end")
		}
	}
	if len(front) > maxFrontMatter {
		return "", "", fmt.Errorf("the front matter has more than %d bytes", maxFrontMatter)
	}
	return front, body, nil
}

// textField is a required text of at most limit characters.
func textField(fields map[string]any, name string, limit int) (string, error) {
	value, there := fields[name]
	if !there || value == nil {
		return "", fmt.Errorf("the front matter has no %s", name)
	}
	text, ok := value.(string)
	switch {
	case !ok:
		return "", fmt.Errorf("%s must be text: put it in quotes", name)
	case strings.TrimSpace(text) == "":
		return "", fmt.Errorf("%s is empty", name)
	case utf8.RuneCountInString(text) > limit:
		return "", fmt.Errorf("%s has more than %d characters", name, limit)
	}
	return text, nil
}
