package projection

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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

func TestSectionChanges(t *testing.T) {
	text := func(s string) *string { return &s }
	cases := map[string]struct {
		prev, next []Section
		want       []SectionChange
	}{
		"nothing changed": {[]Section{{Text: "p"}, {Name: "a", Text: "A"}}, []Section{{Text: "p"}, {Name: "a", Text: "A"}}, nil},
		"only the changed one is listed": {[]Section{{Text: "p"}, {Name: "a", Text: "A"}, {Name: "b", Text: "B"}},
			[]Section{{Text: "p"}, {Name: "a", Text: "A2"}, {Name: "b", Text: "B"}}, []SectionChange{{Name: "a", Text: text("A2"), At: 1}}},
		"removed": {[]Section{{Name: "a", Text: "A"}, {Name: "b", Text: "B"}}, []Section{{Name: "b", Text: "B"}}, []SectionChange{{Name: "a"}}},
		"added in front": {[]Section{{Name: "b", Text: "B"}}, []Section{{Name: "a", Text: "A"}, {Name: "b", Text: "B"}},
			[]SectionChange{{Name: "a", Text: text("A"), At: 0}}},
		"moved": {[]Section{{Name: "a", Text: "A"}, {Name: "b", Text: "B"}, {Name: "c", Text: "C"}},
			[]Section{{Name: "b", Text: "B"}, {Name: "c", Text: "C"}, {Name: "a", Text: "A"}}, []SectionChange{{Name: "a", Text: text("A"), At: 2}}},
		"the first ones ever": {nil, []Section{{Text: "p"}, {Name: "a", Text: ""}}, []SectionChange{{Text: text("p")}, {Name: "a", Text: text(""), At: 1}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, SectionChanges(tc.prev, tc.next)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestSectionChangesLeadToTheNextSections(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func() []Section {
		var out []Section
		for _, i := range r.Perm(6)[:r.IntN(7)] {
			out = append(out, Section{Name: []string{"", "a", "b", "c", "d", "e"}[i], Text: fmt.Sprint(r.IntN(2))})
		}
		return out
	}
	for range 5000 {
		prev, next := draw(), draw()
		before := fmt.Sprint(prev)
		changes := SectionChanges(prev, next)
		raw, err := json.Marshal(changes)
		if err != nil {
			t.Fatal(err)
		}
		var stored []SectionChange
		if err := json.Unmarshal(raw, &stored); err != nil {
			t.Fatal(err)
		}
		got, err := ApplySections(prev, stored)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(next, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("from %v by %s: -want +got:\n%s", prev, raw, diff)
		}
		if before != fmt.Sprint(prev) {
			t.Fatal("the earlier sections changed")
		}
	}
}

func TestSectionChangeJSON(t *testing.T) {
	text := "A"
	raw, err := json.Marshal([]SectionChange{{Name: "gone"}, {Name: "a", Text: &text, At: 2}})
	if want := `[{"name":"gone","text":null},{"name":"a","text":"A","at":2}]`; err != nil || string(raw) != want {
		t.Errorf("%s, error %v, want %s", raw, err, want)
	}
}

func TestApplySectionsRefuses(t *testing.T) {
	text := "A"
	cases := map[string]struct {
		changes []SectionChange
		want    string
	}{
		"removing what is not there": {[]SectionChange{{Name: "x"}}, "section change 0: removes"},
		"a position beyond the end":  {[]SectionChange{{Name: "x", Text: &text, At: 2}}, "section change 0: position 2 of 1"},
		"a negative position":        {[]SectionChange{{Name: "x", Text: &text, At: -1}}, "section change 0: position -1"},
		"two changes of one section": {[]SectionChange{{Name: "x", Text: &text}, {Name: "x"}}, "section change 1: name given twice"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ApplySections([]Section{{Name: "a", Text: "A"}}, tc.changes)
			if !errors.Is(err, ErrInvalidProjection) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}
