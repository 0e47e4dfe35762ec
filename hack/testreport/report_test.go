package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lines makes the input of a report from events without their times.
func lines(events ...string) string { return strings.Join(events, "\n") + "\n" }

const pkg = `"Package":"github.com/agentloop/agentloop/pkg/x"`

func TestReport(t *testing.T) {
	cases := map[string]struct {
		in   string
		want []string // lines of the output, the closing one without its time
		err  string
	}{
		"all pass, tests with subtests are counted by those": {
			in: lines(
				`{"Action":"run",`+pkg+`,"Test":"TestA"}`, `{"Action":"run",`+pkg+`,"Test":"TestA/one"}`, `{"Action":"run",`+pkg+`,"Test":"TestA/two"}`,
				`{"Action":"pass",`+pkg+`,"Test":"TestA/one"}`, `{"Action":"pass",`+pkg+`,"Test":"TestA/two"}`, `{"Action":"pass",`+pkg+`,"Test":"TestA"}`,
				`{"Action":"run",`+pkg+`,"Test":"TestB"}`, `{"Action":"pass",`+pkg+`,"Test":"TestB"}`,
				`{"Action":"output",`+pkg+`,"Output":"PASS\n"}`, `{"Action":"pass",`+pkg+`,"Elapsed":1.25}`,
			),
			want: []string{"ok\tpkg/x\t1.2s\t3 tests", "unit: 3 passed, 0 failed in 1 packages"},
		},
		"the output of a failed test is shown whole": {
			in: lines(
				`{"Action":"run",`+pkg+`,"Test":"TestA"}`, `{"Action":"output",`+pkg+`,"Test":"TestA","Output":"    a_test.go:3: got 1\n"}`,
				`{"Action":"fail",`+pkg+`,"Test":"TestA"}`, `{"Action":"fail",`+pkg+`,"Elapsed":2}`,
			),
			want: []string{"--- FAIL pkg/x TestA", "    a_test.go:3: got 1", "FAIL\tpkg/x\t2.0s", "unit: 0 passed, 1 failed in 1 packages"},
			err:  "1 tests and 1 packages failed",
		},
		"a process that ends in the middle of a test fails that test": {
			in: lines(
				`{"Action":"run",`+pkg+`,"Test":"TestA"}`, `{"Action":"output",`+pkg+`,"Test":"TestA","Output":"panic: no\n"}`, `{"Action":"fail",`+pkg+`}`,
			),
			want: []string{"--- FAIL pkg/x TestA", "panic: no", "FAIL\tpkg/x\t0.0s", "unit: 0 passed, 1 failed in 1 packages"},
			err:  "1 tests and 1 packages failed",
		},
		"what a package says while it sets up is shown, and fails it when no test ran": {
			in: lines(
				`{"Action":"output",`+pkg+`,"Output":"NATS does not start\n"}`, `{"Action":"output",`+pkg+`,"Output":"FAIL\t`+module+`/pkg/x\t0.1s\n"}`,
				`{"Action":"fail",`+pkg+`,"Elapsed":0.1}`,
			),
			want: []string{"NATS does not start", "FAIL\tpkg/x\t0.1s", "unit: 0 passed, 0 failed in 1 packages"},
			err:  "0 tests and 1 packages failed",
		},
		"a package that does not compile shows why": {
			in: lines(
				`{"ImportPath":"x [x.test]","Action":"build-output","Output":"a.go:1: undefined: y\n"}`, `{"ImportPath":"x [x.test]","Action":"build-fail"}`,
				`{"Action":"fail",`+pkg+`,"FailedBuild":"x [x.test]"}`,
			),
			want: []string{"a.go:1: undefined: y", "FAIL\tpkg/x\t0.0s", "unit: 0 passed, 0 failed in 1 packages"},
			err:  "0 tests and 1 packages failed",
		},
		"a skipped test fails": {
			in: lines(
				`{"Action":"run",`+pkg+`,"Test":"TestA"}`, `{"Action":"output",`+pkg+`,"Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"output",`+pkg+`,"Test":"TestA","Output":"    a_test.go:3: no server\n"}`, `{"Action":"skip",`+pkg+`,"Test":"TestA"}`, `{"Action":"pass",`+pkg+`}`,
			),
			want: []string{
				"ok\tpkg/x\t0.0s\t1 tests", "skipped, which counts as a failure: pkg/x TestA: a_test.go:3: no server",
				"unit: 0 passed, 0 failed, 1 skipped in 1 packages",
			},
			err: "1 tests were skipped",
		},
		"nothing ran": {
			in:   lines(`{"Action":"skip",` + pkg + `}`),
			want: []string{"unit: 0 passed, 0 failed in 0 packages"},
			err:  "no test ran",
		},
		"input that ends early": {
			in:   lines(`{"Action":"run",` + pkg + `,"Test":"TestA"}`),
			want: []string{module + "/pkg/x did not end", "--- FAIL pkg/x TestA", "FAIL\tpkg/x\t0.0s", "unit: 0 passed, 1 failed in 1 packages"},
			err:  "1 tests and 1 packages failed",
		},
		"what is no event is passed on": {
			in:   lines("go: errors parsing go.mod"),
			want: []string{"go: errors parsing go.mod", "unit: 0 passed, 0 failed in 0 packages"},
			err:  "no test ran",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&out)
			if err := r.read(strings.NewReader(tc.in)); err != nil {
				t.Fatal(err)
			}
			err := r.close("unit").verdict()
			got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			last := len(got) - 1
			got[last], _, _ = strings.Cut(got[last], " packages,")
			got[last] += " packages"
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("verdict %v, want %q", err, tc.err)
			}
		})
	}
}

func TestTotals(t *testing.T) {
	var out strings.Builder
	file := count{passed: 10, packages: 2, seconds: 3}.line("unit") + "\n" + count{passed: 5, failed: 1, packages: 1, broken: 1, seconds: 60}.line("scenarios") + "\n"
	if err := printTotals(&out, file); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"       part  packages  passed  failed  skipped  seconds\n" +
		"       unit         2      10       0        0        3\n" +
		"  scenarios         1       5       1        0       60\n" +
		"15 passed, 1 failed\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := printTotals(&out, "garbage\n"); err == nil {
		t.Error("a line that is no total was taken")
	}
}
