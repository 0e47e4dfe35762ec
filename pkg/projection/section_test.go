package projection

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRenderSystem(t *testing.T) {
	cases := map[string]struct {
		sections []Section
		want     string
	}{
		"nothing":                         {nil, ""},
		"a preamble alone is kept exact":  {[]Section{{Text: "Be brief. \n"}}, "Be brief. \n"},
		"sections stand in their order":   {[]Section{{Text: "Hello."}, {Name: "b", Text: "B"}, {Name: "a", Text: "A\n"}}, "Hello.\n\n<b>\nB\n</b>\n\n<a>\nA\n</a>"},
		"a preamble may come later":       {[]Section{{Name: "a", Text: "A"}, {Text: "End."}}, "<a>\nA\n</a>\n\nEnd."},
		"blank sections are left out":     {[]Section{{Text: " "}, {Name: "a"}, {Name: "b", Text: "B"}}, "<b>\nB\n</b>"},
		"tags inside a text are not read": {[]Section{{Name: "a", Text: "<b>\nx\n</b>"}}, "<a>\n<b>\nx\n</b>\n</a>"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, RenderSystem(tc.sections)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestSectionNamesAreChecked(t *testing.T) {
	cases := map[string]struct {
		sections []Section
		want     string
	}{
		"a name twice":       {[]Section{{Name: "a"}, {Name: "a"}}, "section 1: name given twice"},
		"two preambles":      {[]Section{{Text: "a"}, {Text: "b"}}, "section 1: name given twice"},
		"a tag in a name":    {[]Section{{Name: "a>b"}}, "section 0: a name has"},
		"a leading digit":    {[]Section{{Name: "1a"}}, "section 0: a name has"},
		"a name too long":    {[]Section{{Name: strings.Repeat("a", 65)}}, "section 0: a name has"},
		"a letter not Latin": {[]Section{{Name: "é"}}, "section 0: a name has"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { checkRefused(t, Input{System: tc.sections}, tc.want) })
	}
	ok := []Section{{Name: strings.Repeat("a", 64)}, {Name: "A-b_c.9"}, {Text: "x"}}
	if _, err := Project(Input{System: ok}); err != nil {
		t.Error(err)
	}
}
