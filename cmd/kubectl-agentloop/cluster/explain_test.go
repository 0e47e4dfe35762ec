package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestNear(t *testing.T) {
	names := []string{"analyst", "chat", "reviewer", "trip", "trip-notes"}
	cases := map[string]struct {
		given string
		want  []string
	}{
		"two letters swapped":  {"trpi", []string{"trip"}},
		"a letter too many":    {"chatt", []string{"chat"}},
		"the beginning":        {"review", []string{"reviewer"}},
		"the longer one later": {"trips", []string{"trip"}},
		"something else":       {"weather", nil},
		"one letter":           {"x", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Near(tc.given, names)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestExplain tells a missing object from a missing installation.
func TestExplain(t *testing.T) {
	c := &Cluster{Namespace: "team"}
	notInstalled := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: 404,
		Details: &metav1.StatusDetails{Group: "agentloop.dev", Kind: "agentruns", Name: "first", Causes: []metav1.StatusCause{{Type: metav1.CauseTypeUnexpectedServerResponse}}},
	}}
	err := c.explain(t.Context(), notInstalled, access{verb: "get", resource: "agentruns", name: "first"})
	if !strings.Contains(err.Error(), "not installed") || errors.Is(err, ErrNotFound) {
		t.Errorf("no kinds: %v", err)
	}
	policy := apierrors.NewForbidden(schema.GroupResource{Group: "agentloop.dev", Resource: "toolapprovals"}, "x", errors.New("write that name there"))
	err = c.explain(t.Context(), policy, access{verb: "create", resource: "toolapprovals"})
	if !strings.Contains(err.Error(), "write that name there") {
		t.Errorf("an admission policy's sentence is lost: %v", err)
	}
	err = c.explain(t.Context(), apierrors.NewUnauthorized("no"), access{verb: "get", resource: "agentruns"})
	if !strings.Contains(err.Error(), "log in again") {
		t.Errorf("bad credentials: %v", err)
	}
}
