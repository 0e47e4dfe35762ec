package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const begin = `{"config":{"go_version":"go1.26.8"}}
{"SBOM":{"modules":[{"path":"example.com/a"},{"path":"example.com/b"}]}}
{"progress":{"message":"Checking"}}
{"osv":{"id":"GO-1","summary":"a bad thing in a"}}
{"osv":{"id":"GO-2","summary":"a bad thing in Go"}}
`

func found(id, module, below string) string {
	return `{"finding":{"osv":"` + id + `","fixed_version":"v1.2.4","trace":[{"module":"` + module + `","version":"v1.2.3"` + below + `}]}}` + "\n"
}

const (
	inPackage  = `,"package":"example.com/a/p"`
	inFunction = `,"package":"example.com/a/p","function":"F"`
)

func TestReport(t *testing.T) {
	cases := map[string]struct {
		input, allow string
		says         []string
		fails        string
	}{
		"nothing is found": {input: begin, says: []string{"2 modules and go1.26.8, compared with the data"}},
		"a module is called": {
			input: begin + found("GO-1", "example.com/a", "") + found("GO-1", "example.com/a", inFunction) + found("GO-1", "example.com/a", inPackage),
			says:  []string{"GO-1          called   example.com/a v1.2.3: a bad thing in a", "TO DO: go get example.com/a@v1.2.4"}, fails: "to be done: GO-1",
		},
		"a module is only required, and nobody explained it": {
			input: begin + found("GO-1", "example.com/a", ""), says: []string{"GO-1          required"}, fails: "to be done: GO-1",
		},
		"a module is explained": {
			input: begin + found("GO-1", "example.com/a", ""), allow: "# why\nGO-1 required the package p is not imported",
			says: []string{"explained: the package p is not imported"},
		},
		"a module is reached farther than explained": {
			input: begin + found("GO-1", "example.com/a", inPackage), allow: "GO-1 required the package p is not imported",
			says: []string{"TO DO: explained only for required"}, fails: "to be done: GO-1",
		},
		"the standard library is called": {
			input: begin + found("GO-2", "stdlib", inFunction), says: []string{"GO-2          called   stdlib v1.2.3: a bad thing in Go", "note: another Go has it mended"},
		},
		"an explanation is about nothing": {
			input: begin, allow: "GO-7 called nobody reaches it from outside",
			says: []string{"GO-7          is explained and was not found"}, fails: "to be done: GO-7",
		},
		"govulncheck failed":            {input: "", fails: "names no modules"},
		"the output ends in the middle": {input: begin + `{"finding":`, fails: "unexpected EOF"},
		"the output is something else":  {input: "go: command not found", fails: "invalid character"},
		"a module without a mended version": {
			input: begin + `{"finding":{"osv":"GO-1","trace":[{"module":"example.com/a","version":"v1.2.3"}]}}`, says: []string{"no version has it mended"},
			fails: "to be done: GO-1",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			allowed, err := parseAllowed(c.allow)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			s, err := read(strings.NewReader(c.input))
			if err == nil {
				err = s.report(&out, allowed, "the data", time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
			}
			checkError(t, err, c.fails)
			for _, want := range c.says {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, out.String())
				}
			}
		})
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestOldDataIsSaid(t *testing.T) {
	for today, want := range map[string]bool{"2026-12-01": false, "2027-03-01": true} {
		s, err := read(strings.NewReader(begin))
		if err != nil {
			t.Fatal(err)
		}
		day, err := time.Parse(time.DateOnly, today)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := s.report(&out, nil, "golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018", day); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "the data is old"); got != want {
			t.Errorf("on %s: said to be old %v, want %v\n%s", today, got, want, out.String())
		}
	}
}

func TestParseAllowed(t *testing.T) {
	cases := map[string]struct {
		text  string
		want  map[string]explanation
		fails string
	}{
		"comments and blank lines": {text: "\n# nothing\n\n", want: map[string]explanation{}},
		"two lines": {
			text: "GO-1 called the input is ours\n  GO-2  required not in a program\n",
			want: map[string]explanation{"GO-1": {called, "the input is ours"}, "GO-2": {required, "not in a program"}},
		},
		"no reason":  {text: "GO-1 called", fails: "line 1: write an id"},
		"no level":   {text: "GO-1 because it is harmless", fails: `"because" is no level`},
		"told twice": {text: "GO-1 called it is harmless here\nGO-1 called it is harmless here", fails: "line 2: GO-1 stands twice"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseAllowed(c.text)
			checkError(t, err, c.fails)
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(explanation{})); c.fails == "" && diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
