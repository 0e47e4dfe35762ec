package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// approvalInterval is how long it takes until the log is read again for a decision that no worker has taken.
const approvalInterval = 2 * time.Second

// ToolApprovalReconciler says what became of people's decisions. It takes none itself: workers do, and tell it in the log.
type ToolApprovalReconciler struct {
	client.Client
	Heads *Heads
	Now   func() time.Time

	written written

	mu   sync.Mutex
	seen map[types.NamespacedName]sighting
}

// sighting is when a decision of which nothing can be told yet was seen first.
type sighting struct {
	uid types.UID
	at  time.Time
}

// Reconcile implements reconcile.Reconciler.
func (r *ToolApprovalReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	approval := &api.ToolApproval{}
	if err := r.Get(ctx, req.NamespacedName, approval); err != nil {
		if apierrors.IsNotFound(err) {
			r.written.forget(req.NamespacedName)
			r.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !approval.DeletionTimestamp.IsZero() || r.written.behind(approval, r.Now()) {
		return ctrl.Result{}, nil
	}
	facts, err := r.observe(ctx, approval)
	if err != nil {
		return resultOf(err)
	}
	decision := decideApproval(facts)
	if err := r.adopt(ctx, facts, decision); err != nil {
		return resultOf(err)
	}
	if err := r.report(ctx, approval, decision.check); err != nil {
		return resultOf(err)
	}
	if !decision.again {
		r.forget(req.NamespacedName)
		r.leave(facts)
		return ctrl.Result{}, nil
	}
	if facts.stream.Session != "" {
		r.Heads.Renew(facts.stream)
	}
	return ctrl.Result{RequeueAfter: approvalInterval}, nil
}

// observe does all the reading.
func (r *ToolApprovalReconciler) observe(ctx context.Context, approval *api.ToolApproval) (approvalFacts, error) {
	facts := approvalFacts{approval: approval, seen: r.firstSeen(approval)}
	run := &api.AgentRun{}
	err := r.Get(ctx, client.ObjectKey{Namespace: approval.Namespace, Name: approval.Spec.RunRef.Name}, run)
	switch {
	case apierrors.IsNotFound(err):
		return facts, nil
	case err != nil:
		return facts, fmt.Errorf("get run: %w", err)
	case string(run.UID) != approval.Spec.RunRef.UID:
		return facts, nil
	}
	facts.run = run
	if told := meta.FindStatusCondition(approval.Status.Conditions, api.ConditionApplied); told != nil && settled(told, run) {
		return facts, nil
	}
	owner := &api.AgentSession{}
	err = r.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: run.Spec.SessionRef.Name}, owner)
	switch {
	case apierrors.IsNotFound(err):
		return facts, nil
	case err != nil:
		return facts, fmt.Errorf("get session: %w", err)
	case !ownedByOrFree(run, owner):
		return facts, nil
	}
	facts.stream = runStream(run, owner)
	facts.log = r.Heads.Get(facts.stream, contentOf(owner))
	if facts.progress() == nil && facts.log.Known && facts.log.State.Ended(string(run.UID)) {
		facts.past, facts.log = true, r.Heads.Past(facts.stream, string(run.UID))
	}
	facts.unread = !facts.log.Known
	return facts, nil
}

// leave drops what was read for one decision only.
func (r *ToolApprovalReconciler) leave(facts approvalFacts) {
	if facts.past {
		r.Heads.DropPast(facts.stream, string(facts.run.UID))
	}
	if facts.run != nil && facts.run.IsFinished() && facts.stream.Session != "" && facts.stream.Key != runevent.MainAgent {
		r.Heads.Drop(facts.stream)
	}
}

func (r *ToolApprovalReconciler) firstSeen(approval *api.ToolApproval) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[types.NamespacedName]sighting{}
	}
	name := client.ObjectKeyFromObject(approval)
	if r.seen[name].uid != approval.UID {
		r.seen[name] = sighting{approval.UID, r.Now()}
	}
	return r.seen[name].at
}

func (r *ToolApprovalReconciler) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, name)
}

// report writes the status if it changed.
func (r *ToolApprovalReconciler) report(ctx context.Context, approval *api.ToolApproval, applied check) error {
	changed := approval.DeepCopy()
	changed.Status.ObservedGeneration = approval.Generation
	meta.SetStatusCondition(&changed.Status.Conditions, metav1.Condition{
		Type: api.ConditionApplied, Status: applied.status, Reason: applied.reason, Message: applied.message,
		ObservedGeneration: approval.Generation, LastTransitionTime: seconds(r.Now()),
	})
	changed.Status.Bound()
	if equality.Semantic.DeepEqual(approval.Status, changed.Status) {
		return nil
	}
	// The lock keeps a look at an old copy from undoing what was written since.
	err := r.Status().Patch(ctx, changed, client.MergeFromWithOptions(approval, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	r.written.note(changed, r.Now())
	return nil
}

// adopt lets the decision go with its run.
func (r *ToolApprovalReconciler) adopt(ctx context.Context, facts approvalFacts, d approvalDecision) error {
	if !d.own {
		return nil
	}
	changed := facts.approval.DeepCopy()
	if err := controllerutil.SetOwnerReference(facts.run, changed, r.Scheme()); err != nil {
		return fmt.Errorf("set the owner: %w", err)
	}
	if err := r.Patch(ctx, changed, client.MergeFromWithOptions(facts.approval, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.written.note(changed, r.Now())
	facts.approval.ResourceVersion = changed.ResourceVersion
	return nil
}
