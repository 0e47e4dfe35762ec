package wire

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func readAll(r io.Reader) (events []string, err error) {
	reader := NewEvents(r)
	for {
		e, err := reader.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return events, err
		}
		events = append(events, e.Name+"|"+string(e.Data))
	}
}

func TestEvents(t *testing.T) {
	cases := map[string]struct {
		stream string
		want   []string
	}{
		"nothing":                               {"", nil},
		"names, data and the space after colon": {"event: a\ndata: 1\n\nevent:b\ndata:2\n\ndata:  3\n\n", []string{"a|1", "b|2", "| 3"}},
		"several data lines":                    {"data: a\ndata\ndata: b\n\n", []string{"|a\n\nb"}},
		"CRLF and CR":                           {"event: a\r\ndata: 1\r\n\r\nevent: b\rdata: 2\r\rdata: 3\n\n", []string{"a|1", "b|2", "|3"}},
		"comments, ids, retries, unknown":       {": hi\nid: 1\nretry: 5\nfoo: x\ndata: 1\n\n:\n\n", []string{"|1"}},
		"a name without data is forgotten":      {"event: a\n\ndata: 1\n\n", []string{"|1"}},
		"empty data is no event":                {"event: a\ndata:\n\ndata: 1\n\n", []string{"|1"}},
		"a byte order mark":                     {"\ufeffdata: 1\n\n", []string{"|1"}},
		"a whole value without a blank line":    {"data: {\"a\":1}\n", []string{`|{"a":1}`}},
		"[DONE] without a line end":             {"data: 1\n\ndata: [DONE]", []string{"|1", "|[DONE]"}},
		"half a value is dropped":               {"data: 1\n\ndata: {\"a\":", []string{"|1"}},
		"a name alone at the end is dropped":    {"data: 1\n\nevent: x\n", []string{"|1"}},
		"colons in data":                        {"data: a:b: c\n\n", []string{"|a:b: c"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for how, r := range map[string]io.Reader{"whole": strings.NewReader(c.stream), "byte by byte": iotest.OneByteReader(strings.NewReader(c.stream))} {
				got, err := readAll(r)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", how, diff)
				}
			}
		})
	}
}

func TestEventsPassOnErrors(t *testing.T) {
	broken := errors.New("reset")
	got, err := readAll(io.MultiReader(strings.NewReader("data: 1\n\ndata: {\"a\":1}\n"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || len(got) != 1 {
		t.Errorf("events %q, error %v", got, err)
	}
}

func TestEventsAreBounded(t *testing.T) {
	endless := map[string]io.Reader{
		"one line":   io.MultiReader(strings.NewReader("data: "), endlessReader("x")),
		"many lines": endlessReader("data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"),
	}
	for name, r := range endless {
		t.Run(name, func(t *testing.T) {
			if _, err := NewEvents(r).Next(); !errors.Is(err, ErrResponseTooLarge) {
				t.Errorf("error %v", err)
			}
		})
	}
}

type endlessReader string

func (s endlessReader) Read(p []byte) (int, error) {
	n := 0
	for n+len(s) <= len(p) {
		n += copy(p[n:], s)
	}
	return n, nil
}

// FuzzEvents states that no stream breaks the reader and that how its bytes arrive does not matter.
func FuzzEvents(f *testing.F) {
	f.Add("event: a\r\ndata: 1\r\n\r\ndata: [DONE]")
	f.Add("\ufeff: x\ndata\ndata:\r\rdata: {\"a\":1}")
	f.Add("\r\n\n\r\rdata: \xff\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		whole, err := readAll(strings.NewReader(stream))
		if err != nil {
			t.Fatal(err)
		}
		bytewise, err := readAll(iotest.OneByteReader(strings.NewReader(stream)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(whole, bytewise); diff != "" {
			t.Fatalf("arrival matters:\n%s", diff)
		}
		for _, e := range whole {
			if _, data, _ := strings.Cut(e, "|"); strings.Contains(data, "\r") || data == "" && !strings.Contains(e, "|") {
				t.Fatalf("event %q", e)
			}
		}
	})
}
