package frame

import (
	"strings"
	"testing"
)

func TestEscape(t *testing.T) {
	cases := map[string]struct{ in, closing, both string }{
		"nothing to do":        {"a < b, <b>bold</b>", "a < b, <b>bold</b>", "a < b, <b>bold</b>"},
		"empty":                {"", "", ""},
		"closing tag":          {"x</summary>y", "x&lt;/summary>y", "x&lt;/summary>y"},
		"opening tag":          {"x<summary>y", "x<summary>y", "x&lt;summary>y"},
		"case and spaces":      {"< / SumMary\n>", "&lt; / SumMary\n>", "&lt; / SumMary\n>"},
		"attributes":           {`<summary a="1">`, `<summary a="1">`, `&lt;summary a="1">`},
		"a longer name":        {"</summaries>", "</summaries>", "</summaries>"},
		"the name as prefix":   {"</summary2>", "&lt;/summary2>", "&lt;/summary2>"},
		"two at once":          {"<</summary></summary>", "<&lt;/summary>&lt;/summary>", "<&lt;/summary>&lt;/summary>"},
		"a lone bracket":       {"<", "<", "<"},
		"a tag of another":     {"</other>", "&lt;/other>", "&lt;/other>"},
		"wide space in a tag":  {"<\u00a0/\u2003summary>", "&lt;\u00a0/\u2003summary>", "&lt;\u00a0/\u2003summary>"},
		"cut off at the end":   {"</summar", "</summar", "</summar"},
		"a bracket that stays": {"1 < 2 </summary> 3 < 4", "1 < 2 &lt;/summary> 3 < 4", "1 < 2 &lt;/summary> 3 < 4"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := EscapeClosing(tc.in, "summary", "other"); got != tc.closing {
				t.Errorf("closing only: %q, want %q", got, tc.closing)
			}
			if got := Escape(tc.in, "summary", "other"); got != tc.both {
				t.Errorf("both: %q, want %q", got, tc.both)
			}
		})
	}
}

// FuzzEscape checks that no tag is left and that nothing else changes.
func FuzzEscape(f *testing.F) {
	f.Add("a</summary>b<summary>")
	f.Add("< / SUMMARY>")
	f.Add("&lt;/summary></summary")
	f.Fuzz(func(t *testing.T, text string) {
		got := Escape(text, "summary")
		for i := range len(got) {
			if got[i] == '<' && isTag(got[i+1:], false, []string{"summary"}) {
				t.Fatalf("%q still has a tag at %d", got, i)
			}
		}
		if strings.ReplaceAll(got, "&lt;", "<") != strings.ReplaceAll(text, "&lt;", "<") {
			t.Errorf("%q became %q", text, got)
		}
		if EscapeClosing(got, "summary") != got {
			t.Errorf("closing tags are left in %q", got)
		}
	})
}
