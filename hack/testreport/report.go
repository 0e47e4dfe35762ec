package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"
	"time"
)

// event is one line of "go test -json".
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

// module is left out of package names.
const module = "github.com/agentloop/agentloop"

// count is what ran. Tests are leaves: a test with subtests is counted by them.
type count struct {
	passed, failed, skipped int
	packages, broken        int
	seconds                 float64
}

// report follows the packages of one go test call.
type report struct {
	out   io.Writer
	begun time.Time

	mu       sync.Mutex
	packages map[string]*packageState
	builds   map[string][]string // compiler output by import path
	skips    []string
	total    count
}

type packageState struct {
	tests map[string]*testState
	// loose is what the package printed outside of tests.
	loose []string
	begun time.Time
}

type testState struct {
	output []string
	result string
	parent bool
}

func newReport(out io.Writer) *report {
	return &report{out: out, begun: time.Now(), packages: map[string]*packageState{}, builds: map[string][]string{}}
}

// read takes the whole input. Lines that are no events, such as errors of the go command, are passed on.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Action == "" {
			fmt.Fprintln(r.out, lines.Text())
			continue
		}
		r.take(e)
	}
	return lines.Err()
}

func (r *report) take(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Action {
	case "build-output":
		r.builds[e.ImportPath] = append(r.builds[e.ImportPath], e.Output)
		return
	case "build-fail":
		r.print(r.builds[e.ImportPath])
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &packageState{tests: map[string]*testState{}, begun: time.Now()}
		r.packages[e.Package] = p
	}
	if e.Test == "" {
		r.takePackage(p, e)
		return
	}
	t := p.test(e.Test)
	switch e.Action {
	case "output":
		t.output = append(t.output, e.Output)
	case "pass", "fail", "skip":
		t.result = e.Action
	}
}

// test returns a test's state, and marks those above it as parents.
func (p *packageState) test(name string) *testState {
	for at := strings.LastIndex(name, "/"); at > 0; at = strings.LastIndex(name[:at], "/") {
		if above := p.tests[name[:at]]; above != nil {
			above.parent = true
		}
	}
	t := p.tests[name]
	if t == nil {
		t = &testState{}
		p.tests[name] = t
	}
	return t
}

func (r *report) takePackage(p *packageState, e event) {
	switch e.Action {
	case "output":
		p.loose = append(p.loose, e.Output)
		if live(e.Output) {
			fmt.Fprint(r.out, e.Output)
		}
	case "pass", "fail", "skip":
		delete(r.packages, e.Package)
		r.finish(p, e)
	}
}

// live says whether a line that a package printed outside of its tests is worth showing at once: the progress of what it
// starts, and not the go command's own lines.
func live(line string) bool {
	for _, own := range []string{"PASS\n", "FAIL\n", "ok  \t", "FAIL\t", "?   \t", "testing: ", "coverage: ", "exit status "} {
		if strings.HasPrefix(line, own) {
			return false
		}
	}
	return strings.TrimSpace(line) != ""
}

// finish prints a package's line, and before it what its failed tests printed.
func (r *report) finish(p *packageState, e event) {
	name := strings.TrimPrefix(strings.TrimPrefix(e.Package, module), "/")
	if name == "" {
		name = "."
	}
	tests := 0
	for _, test := range p.names() {
		t := p.tests[test]
		if t.result == "" && e.Action == "fail" {
			t.result = "fail" // it ran when the process ended
		}
		if t.result == "fail" {
			fmt.Fprintf(r.out, "--- FAIL %s %s\n", name, test)
			r.print(t.output)
		}
		if t.parent {
			continue
		}
		tests++
		switch t.result {
		case "pass":
			r.total.passed++
		case "skip":
			r.total.skipped++
			r.skips = append(r.skips, fmt.Sprintf("%s %s: %s", name, test, reason(t.output)))
		default:
			r.total.failed++
		}
	}
	switch {
	case e.Action == "fail":
		r.total.packages++
		r.total.broken++
		fmt.Fprintf(r.out, "FAIL\t%s\t%.1fs\n", name, e.Elapsed)
	case tests > 0:
		r.total.packages++
		fmt.Fprintf(r.out, "ok\t%s\t%.1fs\t%d tests%s\n", name, e.Elapsed, tests, cached(p.loose))
	}
}

func (p *packageState) names() []string {
	names := make([]string, 0, len(p.tests))
	for name := range p.tests {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func cached(lines []string) string {
	for _, line := range lines {
		if strings.HasSuffix(line, "\t(cached)\n") {
			return " (cached)"
		}
	}
	return ""
}

// reason is what a skipped test said.
func reason(output []string) string {
	for _, line := range output {
		if !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(strings.TrimSpace(line), "--- ") {
			return strings.TrimSpace(line)
		}
	}
	return "no reason given"
}

func (r *report) print(lines []string) {
	for _, line := range lines {
		fmt.Fprint(r.out, line)
	}
}

// running names the tests that have not ended, the one that runs longest first.
func (r *report) running(now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name, p := range r.packages {
		for test, t := range p.tests {
			if t.result == "" && !t.parent {
				names = append(names, strings.TrimPrefix(name, module+"/")+" "+test)
			}
		}
	}
	sort.Strings(names)
	if len(names) == 0 {
		return fmt.Sprintf("... compiling or starting, %.0f s", now.Sub(r.begun).Seconds())
	}
	if more := len(names) - 5; more > 0 {
		names = append(names[:5], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("... running for %.0f s: %s", now.Sub(r.begun).Seconds(), strings.Join(names, ", "))
}

// close counts packages that never ended as failed and prints the closing line.
func (r *report) close(part string) count {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, p := range r.packages {
		fmt.Fprintf(r.out, "%s did not end\n", name)
		r.finish(p, event{Action: "fail", Package: name})
	}
	for _, skip := range r.skips {
		fmt.Fprintf(r.out, "skipped, which counts as a failure: %s\n", skip)
	}
	r.total.seconds = time.Since(r.begun).Seconds()
	fmt.Fprintf(r.out, "%s: %s in %d packages, %.0f s\n", part, r.total.results(), r.total.packages, r.total.seconds)
	return r.total
}

func (c count) results() string {
	out := fmt.Sprintf("%d passed, %d failed", c.passed, c.failed)
	if c.skipped > 0 {
		out += fmt.Sprintf(", %d skipped", c.skipped)
	}
	return out
}

// verdict is nil when something ran and all of it passed.
func (c count) verdict() error {
	switch {
	case c.failed > 0 || c.broken > 0:
		return fmt.Errorf("%d tests and %d packages failed", c.failed, c.broken)
	case c.skipped > 0:
		return fmt.Errorf("%d tests were skipped: a test that cannot run must fail", c.skipped)
	case c.passed == 0:
		return errors.New("no test ran")
	}
	return nil
}
