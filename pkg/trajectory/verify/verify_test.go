package verify_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/trajectory/verify"
)

// sample is a complete export.
func sample(t testing.TB) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "testdata", "export.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// sealed gives lines a last line that fits them.
func sealed(lines ...string) string {
	body := strings.Join(lines, "\n") + "\n"
	sum := sha256.Sum256([]byte(body))
	return body + fmt.Sprintf(`{"type":"complete","records":%d,"sha256":"%s"}`+"\n", len(lines)-1, hex.EncodeToString(sum[:]))
}

func split(raw []byte) []string { return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n") }

func TestACompleteExport(t *testing.T) {
	raw := sample(t)
	got, err := verify.Export(bytes.NewReader(raw), nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := split(raw)
	want := verify.Report{
		Complete: true, Session: "team:sample", Version: 1, ExportedAt: 1773478800000000, Indexed: len(lines) - 2, Entries: len(lines) - 2,
		Lines: len(lines), Bytes: int64(len(raw)), Problems: []verify.Problem{}, SHA256: got.SHA256,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if !strings.Contains(lines[len(lines)-1], got.SHA256) {
		t.Errorf("the last line does not have the checksum %s", got.SHA256)
	}
	if slow, err := verify.Export(iotest.OneByteReader(bytes.NewReader(raw)), nil); err != nil || !cmp.Equal(slow, got) {
		t.Errorf("read byte by byte: %+v, %v", slow, err)
	}
}

const (
	head = `{"type":"trajectory","version":1,"session":{"id":"a:b"},"exportedAt":5,"notices":[{"entryId":"e1"}],"counts":{"entries":3,"untimed":1},` +
		`"entries":[{"id":"e1","answerId":"e2"},{"id":"e2","inputId":"e1"}],"untimed":[{"id":"e3"}],"historicalEntries":[{"id":"e3"}]}`
	one   = `{"type":"entry","entry":{"id":"e1","answerId":"e2"},"notices":[{"entryId":"e1"}]}`
	two   = `{"type":"entry","entry":{"id":"e2","inputId":"e1"},"tool":{"callerId":"e1"},"notices":[]}`
	three = `{"type":"entry","entry":{"id":"e3"},"":0,"notices":[]}`
)

func TestWhatIsWrong(t *testing.T) {
	whole := sealed(head, one, two, three)
	cases := map[string]struct {
		export string
		// want are line:code of the problems.
		want []string
	}{
		"nothing":                        {whole, nil},
		"no byte":                        {"", []string{"0:empty"}},
		"another file":                   {"hello\n", []string{"1:notJSON"}},
		"another JSON file":              {"{}\n{}\n", []string{"1:otherFormat"}},
		"a list":                         {"[]\n", []string{"1:wrongType"}},
		"OTLP":                           {`{"resourceSpans":[]}` + "\n", []string{"1:otherFormat"}},
		"ATIF":                           {`{"schema_version":"ATIF-v1.7"}` + "\n", []string{"1:otherFormat"}},
		"the first line is gone":         {sealed(one, two), []string{"1:otherFormat"}},
		"cut in the first line":          {head[:80], []string{"1:cutLine", "0:noEnd"}},
		"cut after the first line":       {head + "\n", []string{"0:missingEntries", "0:noEnd"}},
		"cut within an entry":            {strings.Join([]string{head, one, two[:30]}, "\n"), []string{"3:cutLine", "0:missingEntries", "0:noEnd"}},
		"cut between entries":            {strings.Join([]string{head, one, two, ""}, "\n"), []string{"0:missingEntries", "0:noEnd"}},
		"cut before the last line":       {strings.Join([]string{head, one, two, three, ""}, "\n"), []string{"0:noEnd"}},
		"cut in the last line":           {whole[:len(whole)-20], []string{"5:cutLine"}},
		"cut before the last line's end": {whole[:len(whole)-1], []string{"5:cutLine"}},
		"a newer version":                {sealed(strings.Replace(head, `"version":1`, `"version":2`, 1), one, two, three), []string{"1:otherVersion"}},
		"a line is gone":                 {strings.Replace(whole, two+"\n", "", 1), []string{"4:wrongCount", "4:wrongChecksum", "0:missingEntries"}},
		"a line is gone, sealed again":   {sealed(head, one, three), []string{"0:missingEntries"}},
		"a line twice":                   {sealed(head, one, two, two, three), []string{"4:duplicateEntry"}},
		"lines changed places":           {sealed(head, two, one, three), []string{"3:wrongOrder"}},
		"a line of another export":       {sealed(head, one, two, three, `{"type":"entry","entry":{"id":"e9"},"notices":[]}`), []string{"5:unlistedEntry"}},
		"an entry was edited":            {sealed(head, one, strings.Replace(two, `"inputId":"e1"`, `"inputId":"e3"`, 1), three), []string{"3:entryDiffers"}},
		"a reference to nowhere":         {sealed(head, one, strings.Replace(two, `"callerId":"e1"`, `"callerId":"e7"`, 1), three), []string{"3:unknownReference"}},
		"a notice about nothing":         {sealed(strings.Replace(head, `"entryId":"e1"`, `"entryId":"e7"`, 1), one, two, three), []string{"1:unknownReference"}},
		"a byte changed":                 {strings.Replace(whole, `"":0`, `"":1`, 1), []string{"5:wrongChecksum"}},
		"a line is no JSON":              {sealed(head, one, two+"}", three), []string{"3:notJSON", "0:missingEntries"}},
		"a line is two values":           {sealed(head, one, two+" {}", three), []string{"3:notJSON", "0:missingEntries"}},
		"an empty line":                  {sealed(head, one, "", two, three), []string{"3:notJSON", "6:wrongCount"}},
		"a line without a type":          {sealed(head, one, two, three, `{"entry":{}}`), []string{"5:wrongType", "6:wrongCount"}},
		"a line of an unknown type":      {sealed(head, one, two, three, `{"type":"note"}`), []string{"5:wrongType", "6:wrongCount"}},
		"two exports":                    {whole + whole, []string{"6:afterTheEnd"}},
		"something after the end":        {whole + "\n", []string{"6:afterTheEnd"}},
		"the counts are others":          {sealed(strings.Replace(head, `"entries":3`, `"entries":4`, 1), one, two, three), []string{"1:contradictoryIndex"}},
		"the older name differs":         {sealed(strings.Replace(head, `"historicalEntries":[{"id":"e3"}]`, `"historicalEntries":[]`, 1), one, two, three), []string{"1:contradictoryIndex"}},
		"the index is no list":           {sealed(strings.Replace(head, `"entries":[`, `"entries":[[],`, 1), one), []string{"1:wrongType"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			report, err := verify.Export(strings.NewReader(c.export), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range report.Problems {
				got = append(got, fmt.Sprintf("%d:%s", p.Line, p.Code))
				if p.Message == "" || p.Advice == "" {
					t.Errorf("a problem says too little: %+v", p)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if report.Complete != (len(c.want) == 0) {
				t.Errorf("complete: %v", report.Complete)
			}
		})
	}
}

// TestEveryCutIsSeen takes every beginning of an export for what it is.
func TestEveryCutIsSeen(t *testing.T) {
	whole := sealed(head, one, two, three)
	for n := range len(whole) {
		if report, err := verify.Export(strings.NewReader(whole[:n]), nil); err != nil || report.Complete {
			t.Errorf("the first %d of %d bytes: complete %v, %v", n, len(whole), report.Complete, err)
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	lines := []string{head}
	for range 100 {
		lines = append(lines, `{"type":"entry","entry":{"id":"x"}}`)
	}
	report, err := verify.Export(strings.NewReader(sealed(lines...)), nil)
	if err != nil || len(report.Problems) != 20 || report.MoreProblems < 80 {
		t.Errorf("%d problems and %d more, %v", len(report.Problems), report.MoreProblems, err)
	}
}

// TestAFailedReadIsNoProblemOfTheExport distinguishes a broken disk from a broken file.
func TestAFailedReadIsNoProblemOfTheExport(t *testing.T) {
	broken := errors.New("input/output error")
	for _, n := range []int{0, 10, len(head) + 1, len(head) + 20} {
		whole := sealed(head, one, two, three)
		_, err := verify.Export(io.MultiReader(strings.NewReader(whole[:n]), iotest.ErrReader(broken)), nil)
		if !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

func TestProgress(t *testing.T) {
	var told []int64
	filler := `{"type":"entry","text":"` + strings.Repeat("x", 1<<20) + `"}` + "\n"
	var parts []io.Reader
	parts = append(parts, strings.NewReader(head+"\n"))
	for range 130 {
		parts = append(parts, strings.NewReader(filler))
	}
	if _, err := verify.Export(io.MultiReader(parts...), func(n int64) { told = append(told, n) }); err != nil || len(told) != 2 {
		t.Errorf("told %v, %v; want twice in 130 MiB", told, err)
	}
}

func FuzzExport(f *testing.F) {
	f.Add(string(sample(f)))
	f.Add(sealed(head, one, two, three))
	f.Add(head + "\n" + one)
	f.Fuzz(func(t *testing.T, export string) {
		report, err := verify.Export(strings.NewReader(export), nil)
		if err != nil {
			t.Fatal(err)
		}
		if report.Bytes > int64(len(export)) || report.Complete != (len(report.Problems) == 0) {
			t.Fatalf("%+v", report)
		}
		if report.Complete && !strings.HasSuffix(export, "\n") {
			t.Fatal("complete without an end")
		}
	})
}
