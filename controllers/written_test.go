package controllers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
)

func TestWritten(t *testing.T) {
	at := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	run := func(name, version string) *api.AgentRun {
		return &api.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, ResourceVersion: version}}
	}
	for name, tc := range map[string]struct {
		seen  *api.AgentRun
		after time.Duration
		gone  bool
		want  bool
	}{
		"the version before":                 {seen: run("a", "9"), want: true},
		"the version that was written":       {seen: run("a", "10")},
		"a later one, of somebody else":      {seen: run("a", "11")},
		"an object that nobody wrote":        {seen: run("b", "9")},
		"a version that is no number":        {seen: run("a", "x")},
		"an object of a restored backup":     {seen: run("a", "9"), after: writtenFor},
		"an object that was gone in between": {seen: run("a", "9"), gone: true},
		"the version before, a little later": {seen: run("a", "9"), after: writtenFor - 1, want: true},
		"a longer number is a later version": {seen: run("a", "100")},
		"a shorter number is an earlier one": {seen: run("a", "2"), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var w written
			w.note(run("a", "10"), at)
			if tc.gone {
				w.forget(client.ObjectKeyFromObject(tc.seen))
			}
			for range 2 { // the answer stays the same
				if got := w.behind(tc.seen, at.Add(tc.after)); got != tc.want {
					t.Errorf("behind is %v, want %v", got, tc.want)
				}
			}
		})
	}
}
