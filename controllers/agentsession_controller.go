package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"strings"
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
)

// referenceInterval is how often a session looks again for Secrets and ConfigMaps that were missing: they are not
// watched.
const referenceInterval = 10 * time.Second

// estimateInterval is how often an idle session looks again whether the ConfigMaps that it names have changed, which changes
// what its next request would take.
const estimateInterval = 10 * time.Minute

// AgentSessionReconciler says whether runs can start, counts, and lets a deleted session go when its history is settled.
type AgentSessionReconciler struct {
	client.Client
	// Direct reads Secrets and ConfigMaps past the cache.
	Direct client.Reader
	Heads  *Heads
	Health *Health
	Purger *Purger
	// Pruning spreads the deletions of ended runs.
	Pruning *Pruning
	// Estimates measures idle sessions.
	Estimates *Estimates
	Events    events.EventRecorder
	Logger    *slog.Logger
	// Admission ends the runs that are live in the log although their objects are gone.
	Admission *Admission
	// ViewerURL is the base of status.trajectoryURL; empty for none.
	ViewerURL string
	Now       func() time.Time

	written written

	mu sync.Mutex
	// histories are those of the sessions that were looked at, to be forgotten with them.
	histories map[types.NamespacedName]string
}

// Reconcile implements reconcile.Reconciler.
func (r *AgentSessionReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	owner := &api.AgentSession{}
	if err := r.Get(ctx, req.NamespacedName, owner); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName, "")
			r.written.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.forget(req.NamespacedName, owner.HistoryUID())
	if r.written.behind(owner, r.Now()) {
		return ctrl.Result{}, nil
	}
	facts, err := r.observe(ctx, owner)
	if err != nil {
		return resultOf(err)
	}
	decision := decideSession(facts)
	r.prune(&decision, facts.now)
	// The finalizer is there before the status says that runs can start.
	if err := r.act(ctx, owner, facts, decision); err != nil {
		return resultOf(err)
	}
	if err := r.report(ctx, owner, decision); err != nil {
		return resultOf(err)
	}
	return ctrl.Result{RequeueAfter: decision.requeue}, nil
}

func (r *AgentSessionReconciler) observe(ctx context.Context, owner *api.AgentSession) (sessionFacts, error) {
	facts := sessionFacts{session: owner, now: r.Now(), viewerURL: r.ViewerURL}
	facts.storageDown, facts.streamDown = r.Health.Down()
	facts.streamFilling = r.Health.Filling()
	var err error
	if facts.runs, err = runsOf(ctx, r.Client, owner); err != nil {
		return facts, err
	}
	facts.log = r.Heads.Get(mainStream(owner), contentOf(owner))
	if facts.orphaned, err = r.orphaned(ctx, facts); err != nil {
		return facts, err
	}
	if !owner.DeletionTimestamp.IsZero() {
		return facts, r.observeDeletion(ctx, owner, &facts)
	}
	if facts.provider, err = r.provider(ctx, owner, owner.Spec.Model.ProviderRef.Name); err != nil {
		return facts, err
	}
	if other := owner.Spec.Compaction.Model; other != nil {
		if facts.summaries, err = r.provider(ctx, owner, other.ProviderRef.Name); err != nil {
			return facts, err
		}
	}
	var configMaps string
	if facts.missing, configMaps, err = r.missing(ctx, owner); err != nil {
		return facts, err
	}
	facts.estimate = r.Estimates.Get(mainStream(owner), owner, facts.provider, configMaps, facts.log)
	return facts, nil
}

// prune leaves of the runs that are to be deleted those whose turn it is.
func (r *AgentSessionReconciler) prune(d *sessionDecision, now time.Time) {
	d.expired = slices.DeleteFunc(d.expired, func(run *api.AgentRun) bool {
		wait := r.Pruning.turn(client.ObjectKeyFromObject(run), now)
		if wait > 0 && (d.requeue <= 0 || wait < d.requeue) {
			d.requeue = wait
		}
		return wait > 0
	})
}

// provider reads a provider that the session names; nil when there is none.
func (r *AgentSessionReconciler) provider(ctx context.Context, owner *api.AgentSession, name string) (*api.ModelProvider, error) {
	target := &api.ModelProvider{}
	err := r.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: name}, target)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // that it does not exist is no error
	case err != nil:
		return nil, fmt.Errorf("get provider: %w", err)
	}
	return target, nil
}

// orphaned says whether the run that is live in the log has no object any more, by a look past the cache, which may be
// behind; or one that was ended without the log.
func (r *AgentSessionReconciler) orphaned(ctx context.Context, f sessionFacts) (bool, error) {
	run, live := f.live()
	if !live || run != nil {
		return live && run.IsFinished(), nil
	}
	run = &api.AgentRun{}
	err := r.Direct.Get(ctx, client.ObjectKey{Namespace: f.session.Namespace, Name: f.log.State.Run.Name}, run)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("get the live run: %w", err)
	}
	return string(run.UID) != f.log.State.Run.UID, nil
}

// forget notes which history a session has, and drops what is known of one that it had before, or of a session that is
// gone without having been let go.
func (r *AgentSessionReconciler) forget(name types.NamespacedName, history string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.histories[name]
	switch {
	case before == history:
		return
	case history == "":
		delete(r.histories, name)
	default:
		if r.histories == nil {
			r.histories = map[types.NamespacedName]string{}
		}
		r.histories[name] = history
	}
	for other, same := range r.histories {
		if same == before && other.Namespace == name.Namespace {
			return // another session goes on with it
		}
	}
	if before != "" {
		r.Heads.Forget(name.Namespace, before)
		r.Purger.Forget(name.Namespace, before)
		r.Estimates.Forget(name.Namespace, before)
		r.Admission.Sealed(name.Namespace, before)
	}
}

// contentOf is what the session lets its status hold of its content.
func contentOf(owner *api.AgentSession) Content {
	return Content{Preview: owner.Spec.ResultPreview == api.PreviewOn, Title: owner.Spec.Title == api.TitleAuto}
}

// observeDeletion reads what decides when a session that is being deleted may go.
func (r *AgentSessionReconciler) observeDeletion(ctx context.Context, owner *api.AgentSession, facts *sessionFacts) error {
	facts.purge = r.Purger.Of(owner.Namespace, owner.HistoryUID())
	others := &api.AgentSessionList{}
	if err := r.List(ctx, others, client.InNamespace(owner.Namespace), client.MatchingFields{indexSessionHistory: owner.HistoryUID()}); err != nil {
		return fmt.Errorf("list the sessions of the same history: %w", err)
	}
	for i := range others.Items {
		other := &others.Items[i]
		purges := !other.DeletionTimestamp.IsZero() && other.Spec.History.OnDelete == api.DeletePolicyDelete
		facts.shared = facts.shared || other.UID != owner.UID && !purges
	}
	var err error
	facts.namespaceEnding, err = namespaceEnding(ctx, r.Client, owner.Namespace)
	return err
}

// missing finds the first reference that cannot be used. It reads the objects that the session names, one by one, and keeps
// no value. versions tells the ConfigMaps from changed ones; it is empty when the session names none or something is missing.
func (r *AgentSessionReconciler) missing(ctx context.Context, owner *api.AgentSession) (problem *verdict, versions string, err error) {
	for _, ref := range sessionSecrets(owner) {
		object := &corev1.Secret{}
		err := r.Direct.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: ref.Name}, object)
		if apierrors.IsNotFound(err) {
			return &verdict{api.SessionReasonSecretNotFound, fmt.Sprintf("Secret %s does not exist: create it", ref.Name)}, "", nil
		}
		if err != nil {
			return nil, "", fmt.Errorf("get Secret %s: %w", ref.Name, err)
		}
		if _, problem := kube.SecretValue(object, ref.Key); problem != nil {
			return &verdict{api.SessionReasonSecretNotFound, problem.Message}, "", nil //nolint:nilerr // the problem is the answer
		}
	}
	var seen strings.Builder
	for _, ref := range sessionConfigMaps(owner) {
		object := &corev1.ConfigMap{}
		err := r.Direct.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: ref.Name}, object)
		if apierrors.IsNotFound(err) {
			return &verdict{api.SessionReasonConfigMapNotFound, fmt.Sprintf("ConfigMap %s does not exist: create it", ref.Name)}, "", nil
		}
		if err != nil {
			return nil, "", fmt.Errorf("get ConfigMap %s: %w", ref.Name, err)
		}
		_, text := object.Data[ref.Key]
		_, binary := object.BinaryData[ref.Key]
		if !text && !binary {
			return &verdict{api.SessionReasonConfigMapNotFound, fmt.Sprintf("ConfigMap %s has no key %s: add it", ref.Name, ref.Key)}, "", nil
		}
		fmt.Fprintf(&seen, "%s/%s ", object.UID, object.ResourceVersion)
	}
	return nil, seen.String(), nil
}

func (r *AgentSessionReconciler) report(ctx context.Context, owner *api.AgentSession, d sessionDecision) error {
	if d.status == nil {
		return nil
	}
	d.status.Bound()
	if equality.Semantic.DeepEqual(owner.Status, *d.status) {
		return nil
	}
	changed := owner.DeepCopy()
	changed.Status = *d.status
	// The lock keeps a look at an old copy from undoing what was written since.
	if err := r.Status().Patch(ctx, changed, client.MergeFromWithOptions(owner, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	r.written.note(changed, r.Now())
	r.tell(changed, &owner.Status)
	return nil
}

func (r *AgentSessionReconciler) act(ctx context.Context, owner *api.AgentSession, facts sessionFacts, d sessionDecision) error {
	for _, run := range d.expired {
		if err := r.Delete(ctx, run, client.Preconditions{UID: &run.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete an old run: %w", err)
		}
	}
	if d.purge {
		r.Purger.Want(owner.Namespace, owner.HistoryUID())
	}
	if d.seal == nil {
		r.Admission.Sealed(owner.Namespace, owner.HistoryUID())
	} else if r.Admission.Want(*d.seal, facts.log.holder()) {
		r.Events.Eventf(owner, nil, corev1.EventTypeWarning, "OrphanedRun", "Seal", "run %s is live in the run events, but its object is gone or over: a worker ends it", d.seal.RunName)
	}
	if !d.hold && !d.letGo {
		return nil
	}
	changed := owner.DeepCopy()
	if d.hold {
		controllerutil.AddFinalizer(changed, api.FinalizerSession)
	} else {
		controllerutil.RemoveFinalizer(changed, api.FinalizerSession)
	}
	if err := r.Patch(ctx, changed, client.MergeFromWithOptions(owner, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("change the finalizer: %w", err)
	}
	r.written.note(changed, r.Now())
	owner.ResourceVersion = changed.ResourceVersion
	if d.lost != "" {
		// A namespace that is being deleted takes no Event any more.
		r.Logger.Warn("history stays in the stores", "namespace", owner.Namespace, "session", owner.Name, "history", owner.HistoryUID(), "reason", d.lost)
		r.Events.Eventf(owner, nil, corev1.EventTypeWarning, "HistoryNotPurged", "Delete", "history %s stays in the stores: %s", owner.HistoryUID(), d.lost)
	}
	if d.letGo {
		r.forget(client.ObjectKeyFromObject(owner), "")
	}
	return nil
}

func sessionSecrets(s *api.AgentSession) []api.SecretKeyRef {
	var refs []api.SecretKeyRef
	for _, server := range s.Spec.ToolServers {
		if server.BearerTokenSecretRef != nil {
			refs = append(refs, *server.BearerTokenSecretRef)
		}
		for _, header := range server.Headers {
			if header.SecretKeyRef != nil {
				refs = append(refs, *header.SecretKeyRef)
			}
		}
	}
	return refs
}

func sessionConfigMaps(s *api.AgentSession) []api.ConfigMapKeyRef {
	var refs []api.ConfigMapKeyRef
	for _, section := range append(append([]api.PromptSection(nil), s.Spec.Instructions...), s.Spec.Context...) {
		if section.ConfigMapKeyRef != nil {
			refs = append(refs, *section.ConfigMapKeyRef)
		}
	}
	for _, skill := range s.Spec.Skills {
		if skill.ConfigMapKeyRef != nil {
			refs = append(refs, *skill.ConfigMapKeyRef)
		}
		if skill.ConfigMapRef != nil {
			refs = append(refs, api.ConfigMapKeyRef{Name: skill.ConfigMapRef.Name, Key: "SKILL.md"})
		}
	}
	for _, server := range s.Spec.ToolServers {
		if server.CABundle != nil {
			refs = append(refs, *server.CABundle)
		}
	}
	return refs
}

// oldest sorts finished runs by their end, oldest first.
func oldest(runs []*api.AgentRun) {
	sort.Slice(runs, func(i, j int) bool {
		a, b := runs[i].Status.CompletionTime, runs[j].Status.CompletionTime
		switch {
		case a == nil || b == nil:
			return a == nil && b != nil
		case a.Equal(b):
			return compareRuns(runs[i], runs[j]) < 0
		}
		return a.Before(b)
	})
}
