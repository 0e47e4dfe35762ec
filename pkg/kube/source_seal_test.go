package kube

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/worker"
)

// TestLoadToSeal ends a run that has no object any more, or one that shows it as over; a run that can go on is executed,
// whatever the item was put for.
func TestLoadToSeal(t *testing.T) {
	over := func(reason string) func(*cluster) {
		return func(c *cluster) {
			c.run.Status.Conditions = []metav1.Condition{
				{Type: api.ConditionFinished, Status: metav1.ConditionTrue, Reason: reason},
				{Type: api.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: reason},
			}
		}
	}
	cases := map[string]struct {
		change func(*cluster)
		want   string
		err    error
	}{
		"the run is gone":                       {change: func(c *cluster) { c.run = nil }, want: agent.ErrCancelled.Error()},
		"another run has its name":              {change: func(c *cluster) { c.run.UID = "other" }, want: agent.ErrCancelled.Error()},
		"the run was cancelled":                 {change: over(api.RunReasonCancelled), want: agent.ErrCancelled.Error()},
		"the run was overdue":                   {change: over(api.RunReasonQueueDeadlineExceeded), want: "QueueDeadlineExceeded: the run was ended before it was seen to begin"},
		"the run lives":                         {change: func(*cluster) {}, want: "execute"},
		"the run lives and is cancelled":        {change: func(c *cluster) { c.run.Spec.Cancel = true }, want: agent.ErrCancelled.Error()},
		"the session is gone, too":              {change: func(c *cluster) { c.run, c.session = nil, nil }, err: worker.ErrGone},
		"the session continues another history": {change: func(c *cluster) { c.run, c.session.Spec.AdoptUID = nil, "other" }, err: worker.ErrGone},
		"the API server does not answer":        {change: func(c *cluster) { c.getErr = errors.New("away") }, err: errors.New("get first.run: away")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			tc.change(c)
			job, err := c.source().Load(context.Background(), worker.Item{
				Namespace: "ns", RunUID: "run-uid", RunName: "first.run", SessionUID: "session-uid", SessionName: "chat", AgentKey: "main", Kind: worker.KindSeal,
			})
			if tc.err != nil {
				if err == nil || !errors.Is(err, tc.err) && err.Error() != tc.err.Error() {
					t.Errorf("error %v, want %v", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := "execute"
			if job.Ending != nil {
				got = job.Ending.Error()
			}
			if got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			want := agent.Run{Namespace: "ns", Name: "first.run", UID: "run-uid", SessionUID: "session-uid", AgentKey: "main", Operation: "Prompt"}
			if c.run != nil && c.run.UID == "run-uid" {
				want.Queued = created
			}
			if job.Ending != nil {
				if diff := cmp.Diff(want, job.Run); diff != "" {
					t.Errorf("run (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestRecorded tells a worker how much its run's stream is known to have had.
func TestRecorded(t *testing.T) {
	for _, kind := range []worker.Kind{worker.KindRun, worker.KindSeal} {
		for name, tc := range map[string]struct{ session, run, want int64 }{
			"nothing":                {0, 0, 0},
			"the session's status":   {9, 0, 9},
			"that of a run is later": {9, 12, 12},
		} {
			t.Run(name+" for "+string(kind), func(t *testing.T) {
				c := newCluster()
				c.session.Status.LastSequence, c.run.Status.LastSequence = tc.session, tc.run
				job, err := c.source().Load(context.Background(), worker.Item{
					Namespace: "ns", RunUID: "run-uid", RunName: "first.run", SessionUID: "session-uid", SessionName: "chat", AgentKey: "main", Kind: kind,
				})
				if err != nil || job.Run.Recorded != tc.want {
					t.Errorf("recorded %d, want %d (%v)", job.Run.Recorded, tc.want, err)
				}
			})
		}
	}
}
