package message

import "testing"

func TestBeginning(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"all of it":                 {"abc", 3, "abc"},
		"cut":                       {"abc", 2, "ab"},
		"between two characters":    {"aé", 2, "a"},
		"nothing of a long one":     {"😀", 3, ""},
		"nothing":                   {"abc", 0, ""},
		"less than nothing":         {"abc", -1, ""},
		"an empty text":             {"", 0, ""},
		"bytes that begin no rune":  {"\x80\x80\x80", 2, ""},
		"after a whole long one":    {"😀😀", 7, "😀"},
		"exactly at the end of one": {"😀😀", 4, "😀"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Beginning(c.text, c.limit); got != c.want {
				t.Errorf("%q", got)
			}
		})
	}
}
