package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPageFigures reads what the measuring script prints, and nothing else.
func TestPageFigures(t *testing.T) {
	figures, err := pageFigures([]byte(`{"figures":[{"name":"step","unit":"ms CPU","samples":[3,9,4],"atMost":5},{"name":"still","unit":"ms CPU","samples":[2]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Figure{figure("page", "step", "ms CPU", 3, 9, 4).atMost(5), figure("page", "still", "ms CPU", 2)}
	if diff := cmp.Diff(want, figures); diff != "" {
		t.Errorf("figures (-want +have):\n%s", diff)
	}
	for name, out := range map[string]string{
		"no JSON": "Error: no browser", "no figures": `{"figures":[]}`, "a figure without samples": `{"figures":[{"name":"step","unit":"ms"}]}`,
	} {
		if _, err := pageFigures([]byte(out)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
