package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// Names of the cache's indexes.
const (
	indexRunSession     = "spec.sessionRef.name"
	indexSessionHistory = "history"
	indexSessionTarget  = "spec.model.providerRef.name"
)

// progressInterval is the least time between two status writes that only tell progress.
const progressInterval = 15 * time.Second

// AgentRunReconciler queues runs in order and reports what the log says about them.
type AgentRunReconciler struct {
	client.Client
	Heads     *Heads
	Admission *Admission
	Events    events.EventRecorder
	Now       func() time.Time

	mu       sync.Mutex
	reported map[types.UID]time.Time
}

// Reconcile implements reconcile.Reconciler.
func (r *AgentRunReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	run := &api.AgentRun{}
	if err := r.Get(ctx, req.NamespacedName, run); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	facts, err := r.observe(ctx, run)
	if err != nil {
		return resultOf(err)
	}
	decision := decideRun(facts)
	requeue, err := r.report(ctx, run, facts, decision)
	if err != nil {
		return resultOf(err)
	}
	if err := r.act(ctx, run, facts, decision); err != nil {
		return resultOf(err)
	}
	return ctrl.Result{RequeueAfter: requeue}, nil
}

// observe does all the reading.
func (r *AgentRunReconciler) observe(ctx context.Context, run *api.AgentRun) (runFacts, error) {
	facts := runFacts{run: run, now: r.Now()}
	owner := &api.AgentSession{}
	err := r.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: run.Spec.SessionRef.Name}, owner)
	switch {
	case apierrors.IsNotFound(err):
		return facts, nil
	case err != nil:
		return facts, fmt.Errorf("get session: %w", err)
	}
	if uid := ownedBy(run); uid != "" && uid != string(owner.UID) {
		return facts, nil // another session of the same name: the run's own one is gone
	}
	facts.session = owner
	list := &api.AgentRunList{}
	if err := r.List(ctx, list, client.InNamespace(run.Namespace), client.MatchingFields{indexRunSession: owner.Name}); err != nil {
		return facts, fmt.Errorf("list the session's runs: %w", err)
	}
	facts.siblings = list.Items
	if !run.IsFinished() {
		facts.log = r.Heads.Get(mainStream(owner))
	}
	return facts, nil
}

func mainStream(s *api.AgentSession) runevent.Stream {
	return runevent.Stream{Class: runevent.ClassRun, Namespace: s.Namespace, Session: s.HistoryUID(), Key: runevent.MainAgent}
}

// act puts the decision into effect, but for the status.
func (r *AgentRunReconciler) act(ctx context.Context, run *api.AgentRun, facts runFacts, d runDecision) error {
	if d.done {
		r.Admission.Done(string(run.UID))
	}
	if d.item != nil {
		worker := ""
		if facts.logged() {
			worker = facts.log.State.Run.Worker
		}
		r.Admission.Want(*d.item, worker)
	}
	if d.remove {
		return client.IgnoreNotFound(r.Delete(ctx, run, client.Preconditions{UID: &run.UID}))
	}
	if !d.adopt && !d.release {
		return nil
	}
	changed := run.DeepCopy()
	if d.release {
		controllerutil.RemoveFinalizer(changed, api.FinalizerRun)
	}
	if d.adopt {
		controllerutil.AddFinalizer(changed, api.FinalizerRun)
		if err := controllerutil.SetOwnerReference(facts.session, changed, r.Scheme()); err != nil {
			return fmt.Errorf("set the owner: %w", err)
		}
	}
	return client.IgnoreNotFound(r.Patch(ctx, changed, client.MergeFromWithOptions(run, client.MergeFromWithOptimisticLock{})))
}

// report writes the status once, if it changed, and an Event once the run has ended. Mere progress waits its turn.
func (r *AgentRunReconciler) report(ctx context.Context, run *api.AgentRun, facts runFacts, d runDecision) (time.Duration, error) {
	if d.status == nil {
		return d.requeue, nil
	}
	d.status.Bound()
	if equality.Semantic.DeepEqual(run.Status, *d.status) {
		return d.requeue, nil
	}
	if left := r.rest(run, d.status, facts.now); left > 0 {
		return left, nil
	}
	changed := run.DeepCopy()
	changed.Status = *d.status
	if err := r.Status().Patch(ctx, changed, client.MergeFrom(run)); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	run.ResourceVersion = changed.ResourceVersion
	r.mu.Lock()
	if r.reported == nil {
		r.reported = map[types.UID]time.Time{}
	}
	r.reported[run.UID] = facts.now
	if d.status.IsFinished() {
		delete(r.reported, run.UID)
	}
	r.mu.Unlock()
	if d.status.IsFinished() && !run.IsFinished() {
		r.announce(changed)
	}
	return d.requeue, nil
}

// rest is how long a status that only tells progress has to wait.
func (r *AgentRunReconciler) rest(run *api.AgentRun, next *api.AgentRunStatus, now time.Time) time.Duration {
	before := &run.Status
	lifecycle := next.IsFinished() || len(before.Conditions) == 0 || (before.StartTime == nil) != (next.StartTime == nil) ||
		before.Ordinal != next.Ordinal || reason(before, api.ConditionAccepted) != reason(next, api.ConditionAccepted) ||
		reason(next, api.ConditionSucceeded) == api.RunReasonCancelling && reason(before, api.ConditionSucceeded) != api.RunReasonCancelling
	if lifecycle {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reported[run.UID].Add(progressInterval).Sub(now)
}

func reason(s *api.AgentRunStatus, kind string) string {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c.Reason
		}
	}
	return ""
}

// announce records one Event for a run that has ended. It names the reason only.
func (r *AgentRunReconciler) announce(run *api.AgentRun) {
	why := reason(&run.Status, api.ConditionSucceeded)
	if why == api.RunReasonCompleted {
		r.Events.Eventf(run, nil, corev1.EventTypeNormal, why, "Run", "run completed in %d turns", run.Status.Turn)
		return
	}
	r.Events.Eventf(run, nil, corev1.EventTypeWarning, why, "Run", "run ended: %s", why)
}
