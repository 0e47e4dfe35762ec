package corpus

import (
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// TestLoad: every kind is there with enough text, valid, and the same at every call.
func TestLoad(t *testing.T) {
	samples, err := Load(t.Context(), "../../..")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[Kind]int{}
	for i, s := range samples {
		counts[s.Kind]++
		if !utf8.ValidString(s.Text) || len(s.Text) < Size/8 || len(s.Text) > 2*Size {
			t.Errorf("sample %d, %s: %d bytes, valid %v", i, s.Kind, len(s.Text), utf8.ValidString(s.Text))
		}
	}
	if len(counts) != 18 {
		t.Errorf("kinds %v", counts)
	}
	for kind, n := range counts {
		if n < perKind/4 {
			t.Errorf("%d samples of %s", n, kind)
		}
	}
	again, err := Load(t.Context(), "../../..")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(samples, again); diff != "" {
		t.Errorf("a second call gives other samples:\n%s", diff)
	}
}

func TestSpread(t *testing.T) {
	long := make([]byte, 10*Size)
	for i := range long {
		long[i] = 'x'
		if i%100 == 99 {
			long[i] = '\n'
		}
	}
	if got := spread([]string{string(long), "short"}, 4); len(got) != 4 || got[0][len(got[0])-1] != '\n' {
		t.Errorf("%d samples", len(got))
	}
	if got := spread([]string{"short"}, 4); len(got) != 0 {
		t.Errorf("%d samples of a short text", len(got))
	}
}
