package controllers

import (
	"context"
	"fmt"
	"slices"
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
	"github.com/agentloop/agentloop/pkg/kube"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// Names of the cache's indexes.
const (
	indexRunSession     = "spec.sessionRef.name"
	indexRunProvider    = "provider"
	indexSessionHistory = "history"
	indexSessionTarget  = "spec.model.providerRef.name"
	indexApprovalRun    = kube.FieldApprovalRun
)

// progressInterval is the least time between two status writes that only tell progress.
const progressInterval = 15 * time.Second

// AgentRunReconciler queues runs in order and reports what the log says about them.
type AgentRunReconciler struct {
	client.Client
	Heads     *Heads
	Admission *Admission
	Health    *Health
	Pruning   *Pruning
	Events    events.EventRecorder
	// Refused is told of each run that ended without having begun.
	Refused func(reason string)
	Now     func() time.Time

	written written

	mu    sync.Mutex
	notes map[types.NamespacedName]note
}

// note is what is remembered of a run between two decisions. Losing it with the process only makes the controllers write
// once more, or wait a little longer.
type note struct {
	// reported is when the status was written last, leaving since when the run is to end without having begun.
	reported, leaving time.Time
	// limited says that an Event has told that the run met its provider's limits.
	limited bool
	// uid tells the run from a later one of its name.
	uid types.UID
}

// Reconcile implements reconcile.Reconciler.
func (r *AgentRunReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	run := &api.AgentRun{}
	if err := r.Get(ctx, req.NamespacedName, run); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.written.behind(run, r.Now()) {
		return ctrl.Result{}, nil
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
	if decision.remove {
		requeue = r.Pruning.turn(req.NamespacedName, facts.now)
		decision.remove = requeue == 0
	}
	if err := r.act(ctx, run, facts, decision); err != nil {
		return resultOf(err)
	}
	return ctrl.Result{RequeueAfter: max(requeue, 0)}, nil
}

// observe does all the reading.
func (r *AgentRunReconciler) observe(ctx context.Context, run *api.AgentRun) (runFacts, error) {
	facts := runFacts{run: run, now: r.Now(), leaving: r.noteOf(run).leaving}
	owner := &api.AgentSession{}
	err := r.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: run.Spec.SessionRef.Name}, owner)
	switch {
	case apierrors.IsNotFound(err):
		return facts, nil
	case err != nil:
		return facts, fmt.Errorf("get session: %w", err)
	}
	if !ownedByOrFree(run, owner) {
		return facts, nil // another session of the same name: the run's own one is gone
	}
	facts.session = owner
	if facts.siblings, err = runsOf(ctx, r.Client, owner); err != nil {
		return facts, err
	}
	if run.IsFinished() {
		return facts, nil
	}
	r.observeLog(&facts)
	if err := r.observeParent(ctx, &facts); err != nil {
		return facts, err
	}
	if facts.logged() && facts.log.State.Run.Waiting != "" {
		if facts.approvals, err = approvalsOf(ctx, r.Client, run.Namespace, run.Name); err != nil {
			return facts, err
		}
	}
	if !run.DeletionTimestamp.IsZero() {
		facts.namespaceEnding, err = namespaceEnding(ctx, r.Client, run.Namespace)
	}
	return facts, err
}

func namespaceEnding(ctx context.Context, reader client.Reader, name string) (bool, error) {
	namespace := &corev1.Namespace{}
	err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get namespace: %w", err)
	}
	return err == nil && !namespace.DeletionTimestamp.IsZero(), nil
}

// observeLog takes what is known of the run's stream, and asks for what the decision lacks.
func (r *AgentRunReconciler) observeLog(facts *runFacts) {
	storage, log := r.Health.Down()
	facts.unsaved = storage || log
	stream := runStream(facts.run, facts.session)
	facts.log = r.Heads.Get(stream, contentOf(facts.session))
	if facts.passed() {
		facts.past = r.Heads.Past(stream, string(facts.run.UID))
	}
	if !facts.leaving.IsZero() && !facts.now.Before(facts.leaving.Add(endGrace)) && facts.stale() {
		r.Heads.Renew(stream)
	}
}

// runsOf lists a session's runs, as the cache has them: they must not be changed. Runs of an earlier session of the same
// name are left out.
func runsOf(ctx context.Context, reader client.Reader, owner *api.AgentSession) ([]api.AgentRun, error) {
	list := &api.AgentRunList{}
	err := reader.List(ctx, list, client.InNamespace(owner.Namespace), client.MatchingFields{indexRunSession: owner.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the session's runs: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(run api.AgentRun) bool { return !ownedByOrFree(&run, owner) }), nil
}

// approvalsOf lists the decisions about calls of runs of that name, as the cache has them: they must not be changed.
func approvalsOf(ctx context.Context, reader client.Reader, namespace, run string) ([]api.ToolApproval, error) {
	list := &api.ToolApprovalList{}
	err := reader.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{indexApprovalRun: run}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the decisions about the run's calls: %w", err)
	}
	return list.Items, nil
}

// ownedByOrFree says whether a run that names the session belongs to it, or to none yet.
func ownedByOrFree(run *api.AgentRun, owner *api.AgentSession) bool {
	uid := ownedBy(run)
	return uid == "" || uid == string(owner.UID)
}

func mainStream(s *api.AgentSession) runevent.Stream {
	return runevent.Stream{Class: runevent.ClassRun, Namespace: s.Namespace, Session: s.HistoryUID(), Key: runevent.MainAgent}
}

// runStream is the stream of the agent that the run is of.
func runStream(run *api.AgentRun, s *api.AgentSession) runevent.Stream {
	stream := mainStream(s)
	stream.Key = kube.AgentKey(run)
	return stream
}

// observeParent looks for the run that delegated to a subagent's.
func (r *AgentRunReconciler) observeParent(ctx context.Context, facts *runFacts) error {
	call := facts.run.Spec.Parent
	if call == nil {
		return nil
	}
	parent := &api.AgentRun{}
	err := r.Get(ctx, client.ObjectKey{Namespace: facts.run.Namespace, Name: call.RunRef.Name}, parent)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("get the parent: %w", err)
	case string(parent.UID) == call.RunRef.UID:
		facts.parent = parent
	}
	return nil
}

// act puts the decision into effect, but for the status.
func (r *AgentRunReconciler) act(ctx context.Context, run *api.AgentRun, facts runFacts, d runDecision) error {
	if d.done {
		r.Admission.Done(client.ObjectKeyFromObject(run))
		if facts.past.Known {
			r.Heads.DropPast(runStream(run, facts.session), string(run.UID))
		}
	}
	if d.rests {
		r.Admission.Done(client.ObjectKeyFromObject(run))
	}
	if d.item != nil {
		worker := ""
		if facts.logged() {
			worker = facts.log.holder()
		}
		r.Admission.Want(*d.item, worker)
	}
	if d.remove {
		return client.IgnoreNotFound(r.Delete(ctx, run, client.Preconditions{UID: &run.UID}))
	}
	if d.done && facts.session != nil && run.Spec.Parent != nil {
		r.Heads.Drop(runStream(run, facts.session)) // it had this run only
	}
	if !d.own && !d.hold && !d.release && !d.cancel {
		return nil
	}
	changed := run.DeepCopy()
	changed.Spec.Cancel = run.Spec.Cancel || d.cancel
	if d.release {
		controllerutil.RemoveFinalizer(changed, api.FinalizerRun)
	}
	if d.hold {
		controllerutil.AddFinalizer(changed, api.FinalizerRun)
	}
	if d.own {
		if err := controllerutil.SetOwnerReference(facts.session, changed, r.Scheme()); err != nil {
			return fmt.Errorf("set the owner: %w", err)
		}
	}
	if err := r.Patch(ctx, changed, client.MergeFromWithOptions(run, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.written.note(changed, r.Now())
	return nil
}

// report writes the status once, if it changed, and Events about what changed. Mere progress waits its turn. It
// returns when to look again.
func (r *AgentRunReconciler) report(ctx context.Context, run *api.AgentRun, facts runFacts, d runDecision) (time.Duration, error) {
	known := r.noteOf(run)
	if !d.leaving {
		known.leaving = time.Time{}
	} else if known.leaving.IsZero() {
		known.leaving = facts.now
	}
	defer func() { r.remember(run, known) }()
	if d.status == nil {
		return d.requeue, nil
	}
	d.status.Bound()
	if equality.Semantic.DeepEqual(run.Status, *d.status) {
		return d.requeue, nil
	}
	if left := known.reported.Add(progressInterval).Sub(facts.now); left > 0 && onlyProgress(&run.Status, d.status) {
		if d.requeue > 0 {
			left = min(left, d.requeue)
		}
		return left, nil
	}
	changed := run.DeepCopy()
	changed.Status = *d.status
	// The lock keeps a look at an old copy from undoing what was written since.
	if err := r.Status().Patch(ctx, changed, client.MergeFromWithOptions(run, client.MergeFromWithOptimisticLock{})); err != nil {
		return 0, fmt.Errorf("report: %w", err)
	}
	r.written.note(changed, r.Now())
	known.reported = facts.now
	run.ResourceVersion = changed.ResourceVersion
	r.tell(changed, &run.Status, &known)
	return d.requeue, nil
}

func (r *AgentRunReconciler) noteOf(run *api.AgentRun) note {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.notes[client.ObjectKeyFromObject(run)]; n.uid == run.UID {
		return n
	}
	return note{uid: run.UID}
}

func (r *AgentRunReconciler) remember(run *api.AgentRun, n note) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.notes == nil {
		r.notes = map[types.NamespacedName]note{}
	}
	if n == (note{uid: run.UID}) || run.IsFinished() {
		delete(r.notes, client.ObjectKeyFromObject(run))
		return
	}
	r.notes[client.ObjectKeyFromObject(run)] = n
}

// forget drops what is known of a run that is gone.
func (r *AgentRunReconciler) forget(name types.NamespacedName) {
	r.Admission.Done(name)
	r.Pruning.forget(name)
	r.written.forget(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.notes, name)
}

// onlyProgress says whether a new status tells no more than how far a run has come.
func onlyProgress(before, next *api.AgentRunStatus) bool {
	switch {
	case next.IsFinished(), len(before.Conditions) == 0, (before.StartTime == nil) != (next.StartTime == nil), before.Ordinal != next.Ordinal,
		reason(before, api.ConditionAccepted) != reason(next, api.ConditionAccepted),
		awaits(before) != awaits(next), before.PendingApprovalsTotal != next.PendingApprovalsTotal: // somebody waits for it
		return false
	}
	cancelling := reason(next, api.ConditionSucceeded) == api.RunReasonCancelling
	return !cancelling || reason(before, api.ConditionSucceeded) == api.RunReasonCancelling
}

func reason(s *api.AgentRunStatus, kind string) string {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c.Reason
		}
	}
	return ""
}

// awaits says whether the run waits for a person.
func awaits(s *api.AgentRunStatus) bool {
	return reason(s, api.ConditionSucceeded) == api.RunReasonAwaitingApproval
}
