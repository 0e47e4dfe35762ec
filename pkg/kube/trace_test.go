package kube

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
)

// TestTraceOfRuns hands on the trace that a run is part of, and the one that a subagent's run is to be part of.
func TestTraceOfRuns(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w := newCluster()
	w.run.Annotations = map[string]string{api.AnnotationTraceParent: parent}
	job, err := w.load()
	if err != nil || job.Run.TraceParent != parent || !job.Run.Queued.Equal(created) {
		t.Errorf("trace %q, queued %s, %v", job.Run.TraceParent, job.Run.Queued, err)
	}
	for name, c := range map[string]struct {
		trace func(context.Context) string
		want  string
	}{
		"nobody traces":       {},
		"not part of a trace": {trace: func(context.Context) string { return "" }},
		"part of one":         {trace: func(context.Context) string { return parent }, want: parent},
	} {
		t.Run(name, func(t *testing.T) {
			server := newCluster().reader()
			source := &Source{Reader: server, Creator: server, TraceParent: c.trace}
			child := agent.Child{Name: "first.run-writer-0a", Agent: "writer", CallID: "call_1", Task: "write", Turn: 3}
			if _, err := (&children{source: source, parent: w.run}).Ensure(t.Context(), child); err != nil {
				t.Fatal(err)
			}
			made := &api.AgentRun{}
			if err := server.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: child.Name}, made); err != nil {
				t.Fatal(err)
			}
			if got := made.Annotations[api.AnnotationTraceParent]; got != c.want {
				t.Errorf("annotation %q, want %q", got, c.want)
			}
		})
	}
}

// TestTraceID is the run's own, or the one that it was told to be part of.
func TestTraceID(t *testing.T) {
	const id, own = "0af7651916cd43dd8448eb211c80319c", "6b5e9ead812f088a2a0cdc4e83997287"
	for name, c := range map[string]struct {
		parent string
		child  bool
		want   string
	}{
		"none":                      {want: own},
		"a trace":                   {parent: "00-" + id + "-b7ad6b7169203331-00", want: id},
		"a trace of a later form":   {parent: "cc-" + id + "-b7ad6b7169203331-01-more", want: id},
		"no trace":                  {parent: "00-00000000000000000000000000000000-b7ad6b7169203331-01", want: own},
		"another text":              {parent: "x" + id, want: own},
		"a subagent's":              {child: true},
		"a subagent's with a trace": {child: true, parent: "00-" + id + "-b7ad6b7169203331-01", want: id},
	} {
		t.Run(name, func(t *testing.T) {
			run := &api.AgentRun{}
			run.UID, run.Annotations = "run-uid", map[string]string{api.AnnotationTraceParent: c.parent}
			if c.child {
				run.Spec.Parent = &api.ParentCall{}
			}
			if got := TraceID(run); got != c.want {
				t.Errorf("trace %q, want %q", got, c.want)
			}
		})
	}
}
