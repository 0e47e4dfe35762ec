package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDescribe(t *testing.T) {
	cases := map[string]struct {
		values string
		want   []row
		fails  string
	}{
		"values of all kinds": {
			values: "# -- One\n# line more\na: 1\nb:\n  # -- Two\n  c: {x: [y]}\n# -- Three\nd: \"\"\n",
			want:   []row{{"a", "1", "One line more"}, {"b.c", `{"x":["y"]}`, "Two"}, {"d", `""`, "Three"}},
		},
		"a value without a description": {values: "a:\n  b: 1\n", fails: "a.b has no description"},
		"an empty mapping without one":  {values: "a: {}\n", fails: "a has no description"},
		"no mapping":                    {values: "[a]", fails: "no mapping"},
		"no YAML":                       {values: "a: [", fails: "yaml"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := describe([]byte(tc.values))
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Fatalf("error %v, want something about %q", err, tc.fails)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(row{})); err != nil || diff != "" {
				t.Errorf("%v, -want +got\n%s", err, diff)
			}
		})
	}
}

func TestWrite(t *testing.T) {
	var out strings.Builder
	err := write(&out, []byte("name: n\ndescription: d\nkubeVersion: \">=1.32.0-0\"\n"), []row{{"a", `"|"`, "x | y"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# n\n\nd. Kubernetes >=1.32.0.\n", "| `a` | `\"\\|\"` | x \\| y |\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
