package main

import (
	"fmt"
	"slices"
	"strings"
)

// commit is one change as the notes tell it.
type commit struct {
	hash, area, subject string
	trailers            []trailer
}

type trailer struct{ key, text string }

// heading is what the notes are of.
type heading struct{ version, date, from string }

// areas are the parts of the notes in their order, and the prefixes of subjects that belong to each. The longest prefix wins.
var areas = []struct {
	title    string
	prefixes []string
}{
	{"Resources", []string{"api"}},
	{"Agents and their runs", []string{"pkg/agent", "pkg/worker", "pkg/session", "pkg/kube", "controllers"}},
	{"Context engine", []string{"pkg/budget", "pkg/projection", "pkg/compaction", "pkg/message"}},
	{"Model providers", []string{"pkg/provider"}},
	{"Tools", []string{"pkg/tool"}},
	{"Trajectory and viewer", []string{"pkg/trajectory", "pkg/legacy", "web", "cmd/viewer", "api/openapi"}},
	{"Stores", []string{"pkg/cas", "pkg/runevent", "pkg/archive", "pkg/sweep", "pkg/audit"}},
	{"Command line", []string{"cmd"}},
	{"Installation", []string{"charts", "config", "images"}},
	{"Documentation", []string{"docs", "README", "SECURITY", "ARCHITECTURE", "CONTRIBUTING", "CONVENTIONS"}},
	{other, []string{"pkg", "all", "go.mod", "NOTICE", "LICENSE"}},
	{inside, []string{"test", "hack", ".ci", "Makefile", "policy", "ci"}},
}

// inside are changes that nobody notices who only uses the project: they are counted and not listed.
const inside = ""

// first are the trailers that stand before everything else, with their titles and what their absence means.
var first = []struct{ key, title, none string }{
	{"Breaking", "Breaking", ""},
	{"Stored-Format", "Stored formats", "No new format is written: going back to the version before is possible."},
	{"Security", "Security", ""},
}

// other is where changes stand whose subject names no part of the project.
const other = "Other"

// parse reads what git log printed.
func parse(log string) []commit {
	var out []commit
	for record := range strings.SplitSeq(log, "\x1e") {
		fields := strings.SplitN(strings.TrimSpace(record), "\x1f", 3)
		if len(fields) < 3 {
			continue
		}
		c := commit{hash: fields[0], subject: fields[1], area: other}
		if prefix, _, found := strings.Cut(c.subject, ": "); found {
			if area, known := areaOf(prefix); known {
				c.area = area
			}
		}
		for line := range strings.Lines(fields[2]) {
			if key, text, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
				c.trailers = append(c.trailers, trailer{key, text})
			}
		}
		out = append(out, c)
	}
	return out
}

// areaOf finds the area of a subject's prefix; of several packages the first decides.
func areaOf(prefix string) (string, bool) {
	prefix, _, _ = strings.Cut(prefix, ",")
	best, area := "", ""
	for _, a := range areas {
		for _, p := range a.prefixes {
			if (prefix == p || strings.HasPrefix(prefix, p+"/") || strings.HasPrefix(prefix, p+".")) && len(p) > len(best) {
				best, area = p, a.title
			}
		}
	}
	return area, best != ""
}

func render(h heading, commits []commit) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s", h.version, h.date)
	if h.from != "" {
		fmt.Fprintf(&b, ", since %s", h.from)
	}
	fmt.Fprintf(&b, ". %s.\n", counted(len(commits), "change"))
	for _, f := range first {
		writeFirst(&b, f.key, f.title, f.none, commits)
	}
	for _, a := range areas {
		if a.title == inside {
			continue
		}
		var lines []string
		for _, c := range commits {
			if c.area == a.title {
				lines = append(lines, fmt.Sprintf("- %s (%s)\n", c.subject, c.hash))
			}
		}
		if len(lines) > 0 {
			slices.Sort(lines)
			fmt.Fprintf(&b, "\n## %s\n\n%s", a.title, strings.Join(lines, ""))
		}
	}
	hidden := 0
	for _, c := range commits {
		if c.area == inside {
			hidden++
		}
	}
	if hidden > 0 {
		fmt.Fprintf(&b, "\nBesides, %s of tests and tools.\n", counted(hidden, "change"))
	}
	return b.String()
}

func writeFirst(b *strings.Builder, key, title, none string, commits []commit) {
	var lines []string
	for _, c := range commits {
		for _, t := range c.trailers {
			if strings.EqualFold(t.key, key) {
				lines = append(lines, fmt.Sprintf("- %s (%s)\n", t.text, c.hash))
			}
		}
	}
	switch {
	case len(lines) > 0:
		fmt.Fprintf(b, "\n## %s\n\n%s", title, strings.Join(lines, ""))
	case none != "":
		fmt.Fprintf(b, "\n## %s\n\n%s\n", title, none)
	}
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
