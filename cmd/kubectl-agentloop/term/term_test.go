package term

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestClean(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"plain text stays":                    {"a\tb\nc ü 漢", "a\tb\nc ü 漢"},
		"a title sequence is shown":           {"\x1b]0;owned\a", "␛]0;owned␇"},
		"a colour of somebody else is shown":  {"\x1b[31mred", "␛[31mred"},
		"a carriage return cannot hide":       {"good\rbad", "good␍bad"},
		"the C1 form of escape is taken away": {"\u009b31m", "\ufffd31m"},
		"writing is not turned around":        {"a\u202eb", "a\ufffdb"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Clean(tc.text); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	table := Table{Headers: []string{"NAME", "WHAT", "AGE"}}
	table.Add("a", "two\nlines", "1s")
	table.AddCells(Cell{Text: "漢字"}, Cell{Text: "\x1b[2J", Colour: Bad}, Cell{Text: ""})
	want := "NAME   WHAT        AGE\na      two lines   1s\n漢字   ␛[2J\n"
	if diff := cmp.Diff(want, table.String(Paint{})); diff != "" {
		t.Error(diff)
	}
	coloured := "\x1b[1mNAME\x1b[0m   \x1b[1mWHAT\x1b[0m        \x1b[1mAGE\x1b[0m\na      two lines   1s\n漢字   \x1b[31m␛[2J\x1b[0m\n"
	if diff := cmp.Diff(coloured, table.String(Paint{on: true})); diff != "" {
		t.Error(diff)
	}
}

// TestColoursOnTerminalsOnly writes to something that is no terminal, to one, and to one that wants no colours.
func TestColoursOnTerminalsOnly(t *testing.T) {
	cases := map[string]struct {
		streams Streams
		want    string
	}{
		"a pipe":                   {Streams{Colour: true}, "done \x1b[5m\n"},
		"a terminal":               {Streams{Colour: true, OutTerminal: true, ErrTerminal: true}, "\x1b[32mdone\x1b[0m ␛[5m\n"},
		"a terminal with NO_COLOR": {Streams{OutTerminal: true, ErrTerminal: true}, "done ␛[5m\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			tc.streams.Err = &out
			tc.streams.Note("%s %s", tc.streams.ErrPaint().As(Good, "done"), "\x1b[5m")
			if out.String() != tc.want {
				t.Errorf("%q, want %q", out.String(), tc.want)
			}
			if shown := tc.streams.Shown(tc.streams.Paint().As(Good, "done")+" \x1b[5m") + "\n"; shown != tc.want {
				t.Errorf("%q, want %q", shown, tc.want)
			}
		})
	}
}

func TestCut(t *testing.T) {
	if got := Cut(" a long\nprompt ", 8); got != "a long…" {
		t.Errorf("%q", got)
	}
	if got := Cut("short", 8); got != "short" {
		t.Errorf("%q", got)
	}
}
