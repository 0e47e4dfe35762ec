package projection

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// SkillsSection is the name of the system section that lists the Skills which the model may load.
const SkillsSection = "available_skills"

// MaxSkillListing bounds the entries of the listing together, in bytes. Ids of Skills that do not fit are named besides.
const MaxSkillListing = 8 << 10

// ListedSkill is a Skill as the system prompt lists it.
type ListedSkill struct{ ID, Name, Description string }

// SkillListing is the text of SkillsSection; empty without Skills. Skills are listed in their order as long as they fit;
// of the first that does not, and of all behind it, only the ids are told.
func SkillListing(skills []ListedSkill) string {
	if len(skills) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString("Skills are instructions for particular tasks. Before you do what one of them is for, load it with load_skill and follow it.\n")
	size, listed := 0, 0
	for ; listed < len(skills); listed++ {
		entry := skills[listed].entry()
		if size += len(entry); size > MaxSkillListing {
			break
		}
		out.WriteString(entry)
	}
	if left := skills[listed:]; len(left) > 0 {
		out.WriteString("Left out for lack of room, and loaded in the same way:")
		for _, skill := range left {
			out.WriteString(" " + skill.ID)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// entry is one line. What it quotes can neither begin another line nor end the section.
func (s ListedSkill) entry() string {
	line := "- " + s.ID
	if s.Name != s.ID {
		line += " (" + oneLine(s.Name) + ")"
	}
	return line + ": " + oneLine(s.Description) + "\n"
}

// oneLine replaces every run of white space and control characters by one space, and angle brackets by their look-alikes.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '<':
			return '‹'
		case r == '>':
			return '›'
		case r == utf8.RuneError, unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}
