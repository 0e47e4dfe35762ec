package controllers

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/agentloop/agentloop/api/v1alpha1"
)

// wholeRun is a run with all that a run may have, ended or not.
func wholeRun(name string, ended bool) *api.AgentRun {
	at, ttl := metav1.NewTime(time.Unix(1_700_000_000, 0)), int32(60)
	run := &api.AgentRun{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7", Generation: 1, CreationTimestamp: at,
			Labels: map[string]string{"app": "x"}, Finalizers: []string{api.FinalizerRun},
			Annotations:     map[string]string{corev1.LastAppliedConfigAnnotation: strings.Repeat("{}", 500), "note": "n"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "agentloop.dev/v1alpha1", Kind: "AgentSession", Name: "chat", UID: "session-uid"}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec: api.AgentRunSpec{
			SessionRef: api.SessionRef{Name: "chat"}, Agent: api.AgentMain, Input: &api.RunInput{Text: strings.Repeat("word ", 2000)}, Skills: []string{"s"},
			Sampling: &api.Sampling{}, TTLSecondsAfterFinished: &ttl,
		},
		Status: api.AgentRunStatus{
			ObservedGeneration: 1, Ordinal: 3, StartTime: &at, LastSequence: 12, Turn: 2, Head: "sha256:abc", Context: "sha256:def", Worker: &api.RunWorker{Identity: "w"},
			ContextBudget: &api.ContextBudget{Provider: "models", Model: "m"}, Usage: &api.TokenUsage{Input: new(int64(5))}, ResultPreview: "It is",
			Conditions: []metav1.Condition{
				{Type: api.ConditionAccepted, Status: metav1.ConditionTrue, Reason: api.RunReasonAccepted},
				{Type: api.ConditionSucceeded, Status: metav1.ConditionUnknown, Reason: api.RunReasonModelCall, Message: "m"},
				{Type: api.ConditionFinished, Status: metav1.ConditionFalse, Reason: api.RunReasonInProgress},
			},
		},
	}
	if ended {
		run.Status.CompletionTime = &at
		run.Status.Conditions[1] = metav1.Condition{Type: api.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: api.RunReasonCompleted, Message: "m"}
		run.Status.Conditions[2] = metav1.Condition{Type: api.ConditionFinished, Status: metav1.ConditionTrue, Reason: api.RunReasonCompleted}
	}
	return run
}

func TestCachedKeepsWhatDecisionsNeed(t *testing.T) {
	cases := map[string]struct {
		ended bool
		want  func(run *api.AgentRun)
	}{
		"a live run is whole but for its prompt": {want: func(run *api.AgentRun) {
			run.Annotations = map[string]string{"note": "n"}
		}},
		"of one that has ended there is how and when": {ended: true, want: func(run *api.AgentRun) {
			run.Labels, run.Annotations, run.Spec.Skills = nil, nil, nil
			run.Status = api.AgentRunStatus{
				ObservedGeneration: 1, Ordinal: 3, StartTime: run.Status.StartTime, CompletionTime: run.Status.CompletionTime, LastSequence: 12,
				ContextBudget: &api.ContextBudget{Provider: "models"}, Usage: &api.TokenUsage{},
				Conditions: []metav1.Condition{
					{Type: api.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: api.RunReasonCompleted},
					{Type: api.ConditionFinished, Status: metav1.ConditionTrue, Reason: api.RunReasonCompleted},
				},
			}
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			whole, want := wholeRun("r", tc.ended), wholeRun("r", tc.ended)
			want.ManagedFields, want.Spec.Input, want.Spec.Sampling = nil, nil, nil
			tc.want(want)
			for range 2 { // a cache may do it again
				got, err := Cached(whole)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("kept (-want +got):\n%s", diff)
				}
			}
			before, after := decideFinishedOf(wholeRun("r", tc.ended)), decideFinishedOf(whole)
			if diff := cmp.Diff(before, after); tc.ended && diff != "" {
				t.Errorf("decided about what is kept (-of the whole +of what is kept):\n%s", diff)
			}
			if diff := cmp.Diff(usedProvider(wholeRun("r", tc.ended)), usedProvider(whole)); diff != "" {
				t.Errorf("provider (-of the whole +of what is kept):\n%s", diff)
			}
		})
	}
}

func decideFinishedOf(run *api.AgentRun) string {
	d := decideRun(runFacts{run: run, now: time.Unix(1_700_000_030, 0)})
	return fmt.Sprint(d.done, d.release, d.remove, d.requeue, run.IsFinished())
}

// TestEndedRunsAreSmall bounds what a cache takes for each run that has ended: there may be many thousand.
func TestEndedRunsAreSmall(t *testing.T) {
	const runs, most = 2000, 2048
	var before, after runtime.MemStats
	kept := make([]any, runs)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range kept {
		run, err := Cached(wholeRun(fmt.Sprintf("run-%d", i), true))
		if err != nil {
			t.Fatal(err)
		}
		kept[i] = run
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / runs; each > most {
		t.Errorf("a run that has ended takes %d bytes, want at most %d", each, most)
	}
	runtime.KeepAlive(kept)
}
