package controllers

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/agentloop/agentloop/api/v1alpha1"
)

func TestPruningIsBoundedAndForgetsNobody(t *testing.T) {
	p, begun := &Pruning{}, time.Unix(1_700_000_000, 0)
	const runs = 10_000
	due := map[types.NamespacedName]time.Time{} // when each is looked at again
	for i := range runs {
		due[types.NamespacedName{Namespace: "ns", Name: fmt.Sprint(i)}] = begun
	}
	perSecond, looks := map[int]int{}, 0
	for now := begun; len(due) > 0; now = now.Add(10 * time.Millisecond) {
		if now.Sub(begun) > (runs/pruneRate+1)*time.Second {
			t.Fatalf("%d runs are left", len(due))
		}
		for run, at := range due {
			if at.After(now) {
				continue
			}
			looks++
			if wait := p.turn(run, now); wait > 0 {
				due[run] = now.Add(wait)
				continue
			}
			delete(due, run)
			perSecond[int(now.Sub(begun).Seconds())]++
		}
	}
	for second, n := range perSecond {
		if most := pruneRate + 1; n > most && (second > 0 || n > most+pruneBurst) {
			t.Errorf("%d were deleted in second %d", n, second)
		}
	}
	if looks > 2*runs {
		t.Errorf("%d looks at %d runs: each needs two at most", looks, runs)
	}
	if len(p.turns) != 0 {
		t.Errorf("%d turns are left", len(p.turns))
	}
	waiting := types.NamespacedName{Namespace: "ns", Name: "gone"}
	for i := 0; p.turn(waiting, begun) == 0; i++ {
		if i > pruneBurst {
			t.Fatal("nobody has to wait")
		}
	}
	p.forget(waiting)
	if len(p.turns) != 0 {
		t.Error("a run that is gone keeps its turn")
	}
}

// endedRun is a run that has ended as it should.
func endedRun(name string, ended time.Time) *api.AgentRun {
	run := newRun(name)
	at := metav1.NewTime(ended)
	run.OwnerReferences = []metav1.OwnerReference{{APIVersion: api.GroupName + "/v1alpha1", Kind: "AgentSession", Name: "chat", UID: "session-uid"}}
	run.Status = api.AgentRunStatus{StartTime: &at, CompletionTime: &at, Conditions: []metav1.Condition{
		{Type: api.ConditionAccepted, Status: metav1.ConditionTrue, Reason: api.RunReasonAccepted, LastTransitionTime: at},
		{Type: api.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: api.RunReasonCompleted, LastTransitionTime: at},
		{Type: api.ConditionFinished, Status: metav1.ConditionTrue, Reason: api.RunReasonCompleted, LastTransitionTime: at},
	}}
	return run
}

// TestManyRunsThatAreDueGoInTurns lowers keepRuns below what is there, while the time of another run ends: no pass deletes more
// than may go at once, and each says when the next ones may.
func TestManyRunsThatAreDueGoInTurns(t *testing.T) {
	const surplus = 3 * pruneBurst
	owner, keep, ttl, ended := newSession(), int32(1), int32(1), time.Now().Add(-time.Hour)
	owner.Spec.History.KeepRuns = &keep
	owner.Finalizers = []string{api.FinalizerSession}
	objects := []client.Object{owner, newProvider()}
	for i := range surplus + 1 {
		objects = append(objects, endedRun(fmt.Sprintf("old-%03d", i), ended))
	}
	late := endedRun("late", ended)
	late.Spec.TTLSecondsAfterFinished = &ttl
	w := newWorld(t, nil, nil, append(objects, late)...)
	now := time.Now()
	w.sessions.Now, w.runs.Now = func() time.Time { return now }, func() time.Time { return now }
	result, err := w.sessions.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(owner)})
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > time.Second {
		t.Errorf("the next pass: %+v, %v", result, err)
	}
	runs := &api.AgentRunList{}
	if err := w.client.List(t.Context(), runs); err != nil {
		t.Fatal(err)
	}
	if gone := surplus + 2 - len(runs.Items); gone != pruneBurst {
		t.Errorf("%d runs were deleted at once, want %d", gone, pruneBurst)
	}
	if result, err = w.runs.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(late)}); err != nil || result.RequeueAfter < time.Second {
		t.Errorf("a run whose time is over, behind %d others: %+v, %v", surplus-pruneBurst, result, err)
	}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(late), late); err != nil {
		t.Errorf("it did not wait for its turn: %v", err)
	}
	now = now.Add(result.RequeueAfter)
	if _, err = w.runs.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(late)}); err != nil {
		t.Error(err)
	}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(late), late); !apierrors.IsNotFound(err) {
		t.Errorf("it is there when its turn has come: %v", err)
	}
}
