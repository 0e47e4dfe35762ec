package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// stdlib is the module name under which govulncheck reports the standard library.
const stdlib = "stdlib"

// level is how far our programs reach what is vulnerable.
type level int

const (
	required level = iota // the module is in the build list, the package is in no program
	imported              // the package is in a program, no vulnerable function is reached
	called                // a vulnerable function is reached
)

var levelNames = []string{required: "required", imported: "imported", called: "called"}

func (l level) String() string { return levelNames[l] }

// explanation is a line of the file of explanations.
type explanation struct {
	upTo   level
	reason string
}

// parseAllowed reads lines of an id, a level and a reason; blank lines and those that begin with # say nothing.
func parseAllowed(text string) (map[string]explanation, error) {
	out := map[string]explanation{}
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 5 {
			return nil, fmt.Errorf("line %d: write an id, a level and a reason of some words", n+1)
		}
		upTo := slices.Index(levelNames, fields[1])
		if upTo < 0 {
			return nil, fmt.Errorf("line %d: %q is no level: use %s", n+1, fields[1], strings.Join(levelNames, ", "))
		}
		if _, twice := out[fields[0]]; twice {
			return nil, fmt.Errorf("line %d: %s stands twice", n+1, fields[0])
		}
		out[fields[0]] = explanation{upTo: level(upTo), reason: strings.Join(fields[2:], " ")}
	}
	return out, nil
}

// message is one value of govulncheck's stream; exactly one of its members is there.
type message struct {
	Config *struct {
		GoVersion string `json:"go_version"`
	} `json:"config"`
	SBOM *struct {
		Modules []struct {
			Path string `json:"path"`
		} `json:"modules"`
	} `json:"SBOM"`
	OSV *struct {
		ID      string `json:"id"`
		Summary string `json:"summary"`
	} `json:"osv"`
	Finding *struct {
		OSV   string `json:"osv"`
		Fixed string `json:"fixed_version"`
		Trace []struct {
			Module   string `json:"module"`
			Version  string `json:"version"`
			Package  string `json:"package"`
			Function string `json:"function"`
		} `json:"trace"`
	} `json:"finding"`
}

// finding is a vulnerability of a module at the level at which it is reached farthest.
type finding struct {
	id, module, version, fixed, summary string
	level                               level
}

// scan is what one run of govulncheck found.
type scan struct {
	goVersion string
	modules   int
	findings  map[string]*finding
}

func read(in io.Reader) (*scan, error) {
	s := &scan{findings: map[string]*finding{}}
	summaries := map[string]string{}
	decoder := json.NewDecoder(in)
	for {
		var m message
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		switch {
		case m.Config != nil:
			s.goVersion = m.Config.GoVersion
		case m.SBOM != nil:
			s.modules = len(m.SBOM.Modules)
		case m.OSV != nil:
			summaries[m.OSV.ID] = m.OSV.Summary
		case m.Finding != nil && len(m.Finding.Trace) > 0:
			s.add(m)
		}
	}
	if s.goVersion == "" || s.modules == 0 {
		return nil, errors.New("it names no modules: did govulncheck fail?")
	}
	for _, f := range s.findings {
		f.summary = summaries[f.id]
	}
	return s, nil
}

func (s *scan) add(m message) {
	top, reached := m.Finding.Trace[0], required
	switch {
	case top.Function != "":
		reached = called
	case top.Package != "":
		reached = imported
	}
	key := m.Finding.OSV + " " + top.Module
	known, ok := s.findings[key]
	if !ok {
		known = &finding{id: m.Finding.OSV, module: top.Module, version: top.Version, fixed: m.Finding.Fixed}
		s.findings[key] = known
	}
	known.level = max(known.level, reached)
}

// dated is the date in a pseudo-version, as that of the data has it.
var dated = regexp.MustCompile(`-(\d{8})\d{6}-`)

// staleAfter is the age from which on data that nobody refreshed is worth a word.
const staleAfter = 60 * 24 * time.Hour

// report prints every finding and what stands against it, and says whether something is left to do.
func (s *scan) report(out io.Writer, allowed map[string]explanation, data string, today time.Time) error {
	var left []string
	used := map[string]bool{}
	for _, f := range slices.SortedFunc(maps.Values(s.findings), byID) {
		explained, ok := allowed[f.id]
		verdict := "note: another Go has it mended"
		switch {
		case f.module == stdlib:
		case ok && f.level <= explained.upTo:
			used[f.id] = true
			verdict = "explained: " + explained.reason
		case ok:
			used[f.id] = true
			verdict = fmt.Sprintf("TO DO: explained only for %s", explained.upTo)
			left = append(left, f.id)
		default:
			verdict = "TO DO: " + remedy(f)
			left = append(left, f.id)
		}
		fmt.Fprintf(out, "%-13s %-8s %s %s: %s\n              %s\n", f.id, f.level, f.module, f.version, f.summary, verdict)
	}
	fmt.Fprintf(out, "%d modules and %s, compared with %s\n", s.modules, s.goVersion, data)
	if match := dated.FindStringSubmatch(data); match != nil {
		made, err := time.Parse("20060102", match[1])
		if err == nil && today.Sub(made) > staleAfter {
			fmt.Fprintln(out, "the data is old: update golang.org/x/vulndb in hack/vuln, or set VULNDB=newest")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(allowed)) {
		if !used[id] {
			fmt.Fprintf(out, "%-13s is explained and was not found: remove its line\n", id)
			left = append(left, id)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("to be done: %s", strings.Join(left, ", "))
	}
	return nil
}

func remedy(f *finding) string {
	if f.fixed == "" {
		return "no version has it mended: replace the module, or explain in hack/vuln/allow.txt why it does no harm"
	}
	return "go get " + f.module + "@" + f.fixed
}

func byID(a, b *finding) int {
	return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.module, b.module))
}
