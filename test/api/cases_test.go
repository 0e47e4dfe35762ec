package api

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// creation is a spec that is laid over the kind's smallest one and sent to the API server.
type creation struct {
	spec string // YAML merge patch
	want string // part of the refusal; empty when the object is accepted
}

func runCreations(t *testing.T, kind, smallest string, cases map[string]creation) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := create(t, object(kind, merge(parse(t, smallest), parse(t, c.spec))))
			checkRefusal(t, err, c.want)
		})
	}
}

// change is an accepted spec and what is then done to it.
type change struct {
	before string // YAML merge patch on the kind's smallest spec
	after  string // YAML merge patch on before
	want   string // part of the refusal; empty when the change is accepted
}

func runChanges(t *testing.T, kind, smallest string, cases map[string]change) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := merge(parse(t, smallest), parse(t, c.before))
			made, err := create(t, object(kind, before))
			if err != nil {
				t.Fatalf("the object to change was refused: %v", err)
			}
			checkRefusal(t, update(t, made, parse(t, c.after)), c.want)
		})
	}
}

func update(t *testing.T, made *unstructured.Unstructured, patch map[string]any) error {
	t.Helper()
	changed := made.DeepCopy()
	spec, _, err := unstructured.NestedMap(made.Object, "spec")
	if err != nil {
		t.Fatal(err)
	}
	changed.Object["spec"] = merge(spec, patch)
	_, err = resource(made.GetKind()).Update(t.Context(), changed, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	return err
}

func checkRefusal(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && err == nil:
		t.Errorf("accepted, want a refusal with %q", want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("refused with %q, want %q in it", err, want)
	}
}
