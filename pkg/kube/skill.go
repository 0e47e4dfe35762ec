package kube

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/session"
)

// skillFile is the file of a skill that holds its instructions (agentskills.io).
const skillFile = "SKILL.md"

// skills reads the Skills of a run into its configuration: those that it selected, in its order, and the list of those that
// the model may load. What the model may read of them is kept for the run's start: the Automatic ones, and the files of
// selected ones.
func (l *loader) skills(cfg *session.RunConfig, run *api.AgentRun, owner *api.AgentSession) error {
	read := map[string]skillSource{}
	for _, id := range run.Spec.Skills {
		at := slices.IndexFunc(owner.Spec.Skills, func(s api.Skill) bool { return s.ID == id })
		if at < 0 {
			return invalid("spec.skills: the session has no skill %s", id)
		}
		source, err := l.skill(&owner.Spec.Skills[at])
		if err != nil {
			return err
		}
		read[id] = source
		cfg.Skills = append(cfg.Skills, projection.SkillSelection{
			ID: id, Revision: source.Revision, Name: source.Name, Path: source.path, Content: source.Instructions,
		})
	}
	var listed []projection.ListedSkill
	for i := range owner.Spec.Skills {
		declared := &owner.Spec.Skills[i]
		source, selected := read[declared.ID]
		automatic := declared.Load == api.SkillAutomatic
		if automatic && !selected {
			var err error
			if source, err = l.skill(declared); err != nil {
				return err
			}
		}
		if automatic {
			listed = append(listed, projection.ListedSkill{ID: source.ID, Name: source.Name, Description: source.description})
		}
		if automatic || selected && len(source.Files) > 0 {
			l.loadable = append(l.loadable, source.Skill)
		}
	}
	if len(listed) == 0 {
		return nil
	}
	if slices.ContainsFunc(cfg.Sections, func(s projection.Section) bool { return s.Name == projection.SkillsSection }) {
		return invalid("instructions: the name %s is that of the list of skills: choose another", projection.SkillsSection)
	}
	cfg.Sections = append(cfg.Sections, projection.Section{Name: projection.SkillsSection, Text: projection.SkillListing(listed)})
	return nil
}

// skillSource is a skill as a ConfigMap has it.
type skillSource struct {
	session.Skill
	description string
	// path is where its instructions are from: ConfigMap and key.
	path string
}

// skill reads and checks one skill.
func (l *loader) skill(declared *api.Skill) (skillSource, error) {
	name, key, files, err := l.skillFiles(declared)
	if err != nil {
		return skillSource{}, err
	}
	parsed, err := parseSkill(files[key])
	if err != nil {
		return skillSource{}, invalid("skill %s: ConfigMap %s, key %s: %v", declared.ID, name, key, err)
	}
	out := skillSource{description: parsed.description, path: name + "/" + key, Skill: session.Skill{
		V: session.ObjectVersion, ID: declared.ID, Revision: revision(files), Name: parsed.name, Instructions: parsed.instructions,
	}}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if file == key {
			continue
		}
		entry := session.SkillFile{Name: file, Size: int64(len(files[file]))}
		if raw := files[file]; utf8.Valid(raw) && !bytes.ContainsRune(raw, 0) {
			entry.Text = string(raw)
		} else {
			entry.Binary = true
		}
		out.Files = append(out.Files, entry)
	}
	return out, nil
}

// skillFiles reads a skill's files, by their names. A ConfigMap that is not there makes the run wait.
func (l *loader) skillFiles(declared *api.Skill) (name, key string, files map[string][]byte, err error) {
	if ref := declared.ConfigMapKeyRef; ref != nil {
		raw, err := l.sessionKey(*ref)
		return ref.Name, ref.Key, map[string][]byte{ref.Key: raw}, err
	}
	name = declared.ConfigMapRef.Name
	object, err := l.configMap(name)
	if err != nil {
		return name, skillFile, nil, err
	}
	if object == nil {
		return name, skillFile, nil, notReady(api.SessionReasonConfigMapNotFound, "ConfigMap %s does not exist", name)
	}
	files = maps.Clone(object.BinaryData)
	if files == nil {
		files = map[string][]byte{}
	}
	for file, text := range object.Data {
		files[file] = []byte(text)
	}
	if files[skillFile] == nil {
		return name, skillFile, nil, notReady(api.SessionReasonConfigMapNotFound, "ConfigMap %s has no key %s", name, skillFile)
	}
	return name, skillFile, files, nil
}

// revision is the digest of a skill's only file or, of several, of their list as sha256sum writes it, sorted by name.
func revision(files map[string][]byte) string {
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if len(files) == 1 {
			return cas.Of(files[name]).String()
		}
		fmt.Fprintf(&list, "%s  %s\n", strings.TrimPrefix(cas.Of(files[name]).String(), "sha256:"), name)
	}
	return cas.Of([]byte(list.String())).String()
}
