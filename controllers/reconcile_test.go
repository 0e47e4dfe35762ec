package controllers

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
)

// TestReconcileNeverWaits takes no time over a log, a store and a queue that hang, whatever is to be done; and goes on
// once they answer.
func TestReconcileNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store := &faultyLog{Log: memlog.New()}, &faultyStore{Store: memstore.New()}
		purged := newSession()
		purged.Name, purged.UID, purged.Spec.History.OnDelete = "purged", "purged-uid", api.DeletePolicyDelete
		purged.Finalizers = []string{api.FinalizerSession}
		cancelled := newRun("cancelled")
		cancelled.Finalizers, cancelled.Spec.Cancel = []string{api.FinalizerRun}, true
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
		w := newWorld(t, log, store, namespace, newProvider(), newSession(), purged, newRun("first"), cancelled)
		if err := w.client.Delete(w.ctx, purged); err != nil {
			t.Fatal(err)
		}
		log.set(nil, true)
		store.set(nil, true)
		w.queue.set(func() { w.queue.hang = true })
		for range 10 {
			began := time.Now()
			w.reconcile()
			if took := time.Since(began); took != 0 {
				t.Fatalf("reconciling took %s", took)
			}
			pass(7 * time.Second)
		}
		conditions := w.session("chat").Status.Conditions
		if got := conditions[0]; got.Reason != api.SessionReasonStorageUnavailable || got.Status != metav1.ConditionFalse {
			t.Errorf("the session says %s %s", got.Status, got.Reason)
		}
		if got := state(w.run("first")); got != "Unknown Queued" {
			t.Errorf("a run waits as %s", got)
		}
		if got := state(w.run("cancelled")); got != "Unknown Cancelling" {
			t.Errorf("a cancelled run that may have begun is %s", got)
		}
		log.set(nil, false)
		store.set(nil, false)
		w.queue.set(func() { w.queue.hang = false })
		pass(5 * time.Minute)
		w.settle()
		pass(time.Minute)
		w.settle()
		if got := state(w.run("cancelled")); got != "False Cancelled, finished" {
			t.Errorf("afterwards the cancelled run is %s", got)
		}
		if diff := cmp.Diff([]string{"first run"}, w.queue.names()[1:]); diff != "" {
			t.Errorf("afterwards the queue holds, behind the cancelled run's item (-want +got):\n%s", diff)
		}
		if err := w.client.Get(w.ctx, client.ObjectKeyFromObject(purged), purged); !apierrors.IsNotFound(err) {
			t.Errorf("afterwards the purged session is still there: %v", err)
		}
	})
}

// TestWritesThatFail leave a conflict to the object's next event, try anything else again, and do no harm when the
// object has gone.
func TestWritesThatFail(t *testing.T) {
	resource := schema.GroupResource{Group: api.GroupName, Resource: "x"}
	cases := map[string]struct {
		err   error
		fails bool
	}{
		"a conflict":       {err: apierrors.NewConflict(resource, "x", errors.New("the cache is behind"))},
		"a server's fault": {err: errors.New("away"), fails: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run, owner := newRun("first"), newSession()
			c := newClient(t, failing(tc.err), owner, run)
			heads := &Heads{}
			admission := &Admission{}
			runs := &AgentRunReconciler{Client: c, Heads: heads, Admission: admission, Health: &Health{}, Events: events.NewFakeRecorder(10), Now: time.Now}
			sessions := &AgentSessionReconciler{
				Client: c, Direct: c, Heads: heads, Health: &Health{}, Purger: &Purger{}, Admission: admission, Events: events.NewFakeRecorder(10), Now: time.Now,
			}
			for kind, reconcile := range map[string]func() (ctrl.Result, error){
				"run":     func() (ctrl.Result, error) { return runs.Reconcile(t.Context(), requestFor(run)) },
				"session": func() (ctrl.Result, error) { return sessions.Reconcile(t.Context(), requestFor(owner)) },
			} {
				result, err := reconcile()
				if (err != nil) != tc.fails || result != (ctrl.Result{}) {
					t.Errorf("%s: result %+v, error %v", kind, result, err)
				}
			}
			if got := len(admission.wanted); got != 0 {
				t.Errorf("%d runs were put on the queue, although their finalizers could not be written", got)
			}
		})
	}
}

// TestFinalizerConflicts puts no run on the queue before its finalizer is there, and lets no session go before it is off,
// however often somebody else was faster.
func TestFinalizerConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil, newProvider(), newSession())
		w.settle()
		w.create(newRun("first"))
		w.conflicts.Store(3)
		for range 10 {
			held := hasFinalizer(w.run("first"))
			w.reconcile()
			pass(time.Second)
			if names := w.queue.names(); len(names) > 0 && !held {
				t.Fatalf("queue %v before the finalizer was there", names)
			}
		}
		if diff := cmp.Diff([]string{"first run"}, w.queue.names()); diff != "" {
			t.Errorf("queue (-want +got):\n%s", diff)
		}
		w.work("first", says("hello"), nil)
		w.conflicts.Store(3)
		w.settle()
		w.settle()
		if run := w.run("first"); len(run.Finalizers) != 0 || !run.IsFinished() {
			t.Errorf("at the end: finalizers %v, %s", run.Finalizers, state(run))
		}
		owner := w.session("chat")
		if err := w.client.Delete(w.ctx, owner); err != nil {
			t.Fatal(err)
		}
		w.conflicts.Store(2)
		w.reconcile()
		if len(w.sessions.histories) == 0 {
			t.Error("the session was forgotten although its finalizer is still there")
		}
		w.settle()
		w.settle()
		if err := w.client.Get(w.ctx, client.ObjectKeyFromObject(owner), owner); !apierrors.IsNotFound(err) {
			t.Errorf("the session is still there: %v", err)
		}
		if len(w.sessions.histories) != 0 {
			t.Error("the session is not forgotten")
		}
	})
}

// TestDeletedSession tells the story of a session that is deleted while one run is live and another waits.
func TestDeletedSession(t *testing.T) {
	for _, policy := range []api.DeletePolicy{api.DeletePolicyRetain, api.DeletePolicyDelete} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				owner := newSession()
				owner.Spec.History.OnDelete = policy
				namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
				w := newWorld(t, nil, nil, namespace, newProvider(), owner)
				w.settle()
				w.create(newRun("first"))
				w.create(newRun("second"))
				w.settle()
				if err := w.client.Delete(w.ctx, w.session("chat")); err != nil {
					t.Fatal(err)
				}
				w.settle()
				if got := state(w.run("second")); !strings.HasPrefix(got, "False SessionDeleted") {
					t.Errorf("the waiting run: %s", got)
				}
				if got := state(w.run("first")); got != "Unknown Cancelling" {
					t.Errorf("the queued run: %s", got)
				}
				if c := w.session("chat").Status.Conditions[0]; c.Reason != api.SessionReasonTerminating || c.Message != "waiting for 1 run to end" {
					t.Errorf("the session: %+v", c)
				}
				w.work("first", nil, agent.ErrSessionDeleted)
				w.settle()
				pass(10 * time.Second)
				w.settle()
				if err := w.client.Get(w.ctx, client.ObjectKeyFromObject(owner), owner); !apierrors.IsNotFound(err) {
					t.Errorf("the session is still there: %v", err)
				}
				last, err := w.log.Last(t.Context(), streamOf("session-uid"))
				if err != nil || (last.Head.Sequence > 0) != (policy == api.DeletePolicyRetain) {
					t.Errorf("the history ends at #%d (%v)", last.Head.Sequence, err)
				}
			})
		})
	}
}

// TestNamespaceEndsDuringAnOutage lets everything in a namespace go in a bounded time although log and store are away.
func TestNamespaceEndsDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store := &faultyLog{Log: memlog.New()}, &faultyStore{Store: memstore.New()}
		owner := newSession()
		owner.Spec.History.OnDelete = api.DeletePolicyDelete
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Finalizers: []string{"kubernetes"}}}
		w := newWorld(t, log, store, namespace, newProvider(), owner)
		w.create(newRun("first"))
		w.create(newRun("second"))
		w.settle()
		log.set(errors.New("away"), false)
		store.set(errors.New("away"), false)
		for _, o := range []client.Object{namespace, w.session("chat"), w.run("first"), w.run("second")} {
			if err := w.client.Delete(w.ctx, o); err != nil {
				t.Fatal(err)
			}
		}
		for range 5 * 60 {
			w.reconcile()
			pass(time.Second)
		}
		runs, sessions := &api.AgentRunList{}, &api.AgentSessionList{}
		for _, list := range []client.ObjectList{runs, sessions} {
			if err := w.client.List(w.ctx, list); err != nil {
				t.Fatal(err)
			}
		}
		if len(runs.Items)+len(sessions.Items) != 0 {
			t.Errorf("after five minutes %d runs and %d sessions are left", len(runs.Items), len(sessions.Items))
		}
		lost := false
		for len(w.events.Events) > 0 {
			lost = lost || strings.HasPrefix(<-w.events.Events, "Warning HistoryNotPurged")
		}
		if !lost {
			t.Error("nobody was told that the history stays")
		}
	})
}
