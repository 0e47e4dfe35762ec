package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// maxListed bounds the names that one text lists.
const maxListed = 100

// skillFile is the file that holds a skill's instructions.
const skillFile = "SKILL.md"

// loaded are the details of a result of load_skill.
type loaded struct {
	ID       string `json:"id"`
	Revision string `json:"revision"`
	Name     string `json:"name"`
	File     string `json:"file,omitempty"`
}

// loadSkill returns a skill's instructions or one of its files.
func (s *set) loadSkill(ctx context.Context, call tool.Call) (tool.Result, error) {
	var args struct{ ID, File string }
	if complaint := arguments(call, &args); complaint != "" {
		return failed("%s", complaint), nil
	}
	skill, err := s.host.Skill(ctx, args.ID)
	if errors.Is(err, agent.ErrNoSkill) {
		return failed("There is no skill %.64q. There are: %s.", args.ID, s.skillIDs()), nil
	}
	if err != nil {
		return unread(ctx, "The skill")
	}
	about := loaded{ID: skill.ID, Revision: skill.Revision, Name: skill.Name}
	if args.File == "" || args.File == skillFile {
		return s.whole(call, instructions(skill), about)
	}
	file, complaint := findFile(skill, args.File)
	if complaint != "" {
		return failed("%s", complaint), nil
	}
	about.File = file.Name
	return s.whole(call, file.Text, about)
}

// skillIDs lists what can be loaded.
func (s *set) skillIDs() string {
	var ids []string
	for _, skill := range s.host.Skills[:min(maxListed, len(s.host.Skills))] {
		ids = append(ids, skill.ID)
	}
	return strings.Join(ids, ", ")
}

// instructions are what a skill says, and the files that it has besides.
func instructions(skill session.Skill) string {
	text := skill.Instructions
	if strings.TrimSpace(text) == "" {
		text = "(The skill has no instructions.)"
	}
	if len(skill.Files) == 0 {
		return text
	}
	return fmt.Sprintf("%s\n\nFiles of this skill, which %s returns by their name:\n%s", text, LoadSkill, fileNames(skill))
}

func fileNames(skill session.Skill) string {
	var out strings.Builder
	for i, file := range skill.Files {
		if i == maxListed {
			fmt.Fprintf(&out, "and %d more\n", len(skill.Files)-i)
			break
		}
		fmt.Fprintf(&out, "- %s (%d bytes", file.Name, file.Size)
		if file.Binary {
			out.WriteString(", not text: it cannot be read")
		}
		out.WriteString(")\n")
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// findFile finds a file by the path that a skill's text may give it. Skills are kept without folders, so the last part
// of a path decides; one that leads out of the skill is refused all the same.
func findFile(skill session.Skill, name string) (session.SkillFile, string) {
	clean := path.Clean(strings.ReplaceAll(name, `\`, "/"))
	if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
		return session.SkillFile{}, fmt.Sprintf("%.64q is outside of the skill. Name one of its files.", name)
	}
	for _, file := range skill.Files {
		if file.Name != path.Base(clean) {
			continue
		}
		if file.Binary {
			return file, fmt.Sprintf("The file %s is not text (%d bytes) and cannot be read.", file.Name, file.Size)
		}
		return file, ""
	}
	if len(skill.Files) == 0 {
		return session.SkillFile{}, fmt.Sprintf("The skill %s has no file %.64q, and no other file than its instructions.", skill.ID, name)
	}
	return session.SkillFile{}, fmt.Sprintf("The skill %s has no file %.64q. It has:\n%s", skill.ID, name, fileNames(skill))
}

// whole is text as a result, cut at MaxResult with a mark that says how to read on.
func (s *set) whole(call tool.Call, text string, about loaded) (tool.Result, error) {
	details, err := json.Marshal(map[string]loaded{"skill": about})
	if err != nil {
		return tool.Result{}, err
	}
	out := tool.Result{Content: message.Text(text), Details: details}
	switch {
	case strings.TrimSpace(text) == "":
		out.Content = message.Text("(The file is empty.)")
	case len(text) > MaxResult:
		mark := func(kept int) string {
			return fmt.Sprintf("\n\n[Cut: the first %d of %d bytes are shown.%s]", kept, len(text), tool.ReadOn(ReadResult, call.ID, kept))
		}
		head := message.Beginning(text, MaxResult-len(mark(len(text))))
		out.Content, out.Whole = message.Text(head+mark(len(head))), text
	}
	return out, nil
}
