package kubeauth

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/trajectory/server"
)

// fakeAPI lists and gets sessions, by namespace, as the API server does: in pages. Every other namespace is forbidden.
func fakeAPI(t *testing.T, sessions map[string][]string) *rest.Config {
	t.Helper()
	const prefix = "/apis/agentloop.dev/v1alpha1/namespaces/"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		namespace, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, prefix), "/")
		names, known := sessions[namespace]
		if !strings.HasPrefix(r.URL.Path, prefix) || !known {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if _, name, one := strings.Cut(rest, "/"); one {
			_ = json.NewEncoder(w).Encode(named(namespace, name))
			return
		}
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		list := api.AgentSessionList{TypeMeta: metav1.TypeMeta{APIVersion: "agentloop.dev/v1alpha1", Kind: "AgentSessionList"}}
		for at := from; at < len(names); at++ {
			if at-from == limit {
				list.Continue = strconv.Itoa(at)
				break
			}
			list.Items = append(list.Items, *named(namespace, names[at]))
		}
		_ = json.NewEncoder(w).Encode(list)
	}))
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}
}

func named(namespace, name string) *api.AgentSession {
	return &api.AgentSession{
		TypeMeta:   metav1.TypeMeta{APIVersion: "agentloop.dev/v1alpha1", Kind: "AgentSession"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}
}

// TestDirectoryOfSomeNamespaces lists sessions in turn with an account that may read these namespaces only.
func TestDirectoryOfSomeNamespaces(t *testing.T) {
	config := fakeAPI(t, map[string][]string{"a": {"1", "2", "3"}, "empty": nil, "b": {"4"}, "last": nil})
	d, err := NewDirectory(config, "a", "empty", "b", "last")
	if err != nil {
		t.Fatal(err)
	}
	var pages [][]string
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := d.Sessions(t.Context(), "", 2, cursor)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, s := range page {
			ids = append(ids, s.Summary.ID)
		}
		pages, cursor = append(pages, ids), next
	}
	// The last page is empty: that "last" has nothing is known only when it was asked.
	if diff := cmp.Diff([][]string{{"a:1", "a:2"}, {"a:3"}, {"b:4"}, nil}, pages); diff != "" {
		t.Errorf("pages: -want +got\n%s", diff)
	}
	if err := d.Ready(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
	if _, err := d.Session(t.Context(), "b", "4"); err != nil {
		t.Errorf("a session of a namespace that is looked at: %v", err)
	}
	if _, _, err := d.Sessions(t.Context(), "", 2, "gone/1"); !errors.Is(err, server.ErrListExpired) {
		t.Errorf("a cursor of a namespace that is no longer looked at: %v", err)
	}
}

// TestDirectoryAsksNothingElse wants other namespaces to be without sessions, although the account may not read them.
func TestDirectoryAsksNothingElse(t *testing.T) {
	d, err := NewDirectory(fakeAPI(t, map[string][]string{"a": {"1"}}), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Session(t.Context(), "other", "1"); !errors.Is(err, server.ErrNotFound) {
		t.Errorf("a session of another namespace: %v", err)
	}
	if page, next, err := d.Sessions(t.Context(), "other", 2, ""); err != nil || len(page) != 0 || next != "" {
		t.Errorf("sessions of another namespace: %d, %q, %v", len(page), next, err)
	}
	if runs, err := d.EndedRuns(t.Context(), "other", "1"); err != nil || len(runs) != 0 {
		t.Errorf("runs of another namespace: %d, %v", len(runs), err)
	}
}

// TestDirectoryOfAllNamespaces wants an account without the right to be told so.
func TestDirectoryOfAllNamespaces(t *testing.T) {
	d, err := NewDirectory(fakeAPI(t, map[string][]string{"a": {"1"}}))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Sessions(t.Context(), "", 2, ""); err == nil {
		t.Error("sessions of all namespaces were listed by an account that may read one")
	}
	if d.Ready(t.Context()) == nil {
		t.Error("ready without the right to list")
	}
}
