package projection

import "strings"

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
