package projection

import (
	"slices"
	"strings"
)

// Section is one part of the system prompt. An empty Name makes it the preamble, which is written without tags.
type Section struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// maxSectionName is far above any name in use and keeps a name from carrying text of its own.
const maxSectionName = 64

// RenderSystem writes the sections in order, a blank line between them: the preamble as it is, any other between tags
// that bear its name. Blank sections are left out.
func RenderSystem(sections []Section) string {
	var out strings.Builder
	for _, s := range sections {
		if blank(s.Text) {
			continue
		}
		if out.Len() > 0 {
			out.WriteString("\n\n")
		}
		if s.Name == "" {
			out.WriteString(s.Text)
			continue
		}
		out.WriteString("<" + s.Name + ">\n" + s.Text)
		if !strings.HasSuffix(s.Text, "\n") {
			out.WriteByte('\n')
		}
		out.WriteString("</" + s.Name + ">")
	}
	return out.String()
}

// checkSections refuses names that occur twice or could not stand in a tag.
func checkSections(sections []Section) error {
	seen := make(map[string]bool, len(sections))
	for i, s := range sections {
		if seen[s.Name] {
			return invalid("section %d: name given twice", i)
		}
		seen[s.Name] = true
		if s.Name != "" && !sectionName(s.Name) {
			return invalid("section %d: a name has at most %d letters, digits, '-', '_' and '.' and starts with a letter",
				i, maxSectionName)
		}
	}
	return nil
}

func sectionName(name string) bool {
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '-' && c != '_' && c != '.') {
			return false
		}
	}
	return len(name) <= maxSectionName
}

// SectionChange is one entry of a system section checkpoint. A nil Text means that the section was removed.
type SectionChange struct {
	Name string  `json:"name"`
	Text *string `json:"text"`
	// At is the section's position afterwards; meaningless for a removed one.
	At int `json:"at,omitempty"`
}

// SectionChanges returns what leads from prev to next: sections that are new, changed or moved in front of others, and
// removed ones. It is empty when nothing changed. Names must be distinct in each list.
func SectionChanges(prev, next []Section) []SectionChange {
	var changes []SectionChange
	for _, p := range prev {
		if !slices.ContainsFunc(next, func(n Section) bool { return n.Name == p.Name }) {
			changes = append(changes, SectionChange{Name: p.Name})
		}
	}
	kept := keptSections(prev, next)
	for at, n := range next {
		if !kept[at] {
			text := n.Text
			changes = append(changes, SectionChange{Name: n.Name, Text: &text, At: at})
		}
	}
	return changes
}

// keptSections marks the positions of next that belong to the longest common subsequence of both lists: what stays put.
func keptSections(prev, next []Section) []bool {
	longest := make([][]int, len(prev)+1)
	longest[len(prev)] = make([]int, len(next)+1)
	for i := len(prev) - 1; i >= 0; i-- {
		longest[i] = make([]int, len(next)+1)
		for j := len(next) - 1; j >= 0; j-- {
			longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			if prev[i] == next[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			}
		}
	}
	kept := make([]bool, len(next))
	for i, j := 0, 0; i < len(prev) && j < len(next); {
		switch {
		case prev[i] == next[j]:
			kept[j] = true
			i, j = i+1, j+1
		case longest[i+1][j] >= longest[i][j+1]:
			i++
		default:
			j++
		}
	}
	return kept
}

// ApplySections returns the sections that changes lead to from prev; prev is not changed. It fails when a change does
// not fit, which means that an earlier checkpoint is missing.
func ApplySections(prev []Section, changes []SectionChange) ([]Section, error) {
	touched := make(map[string]bool, len(changes))
	for i, c := range changes {
		if touched[c.Name] {
			return nil, invalid("section change %d: name given twice", i)
		}
		touched[c.Name] = true
		if c.Text == nil && !slices.ContainsFunc(prev, func(p Section) bool { return p.Name == c.Name }) {
			return nil, invalid("section change %d: removes a section that is not there", i)
		}
	}
	next := make([]Section, 0, len(prev)+len(changes))
	for _, p := range prev {
		if !touched[p.Name] {
			next = append(next, p)
		}
	}
	for i, c := range changes {
		if c.Text == nil {
			continue
		}
		if c.At < 0 || c.At > len(next) {
			return nil, invalid("section change %d: position %d of %d", i, c.At, len(next))
		}
		next = slices.Insert(next, c.At, Section{Name: c.Name, Text: *c.Text})
	}
	return next, nil
}
