package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/archive"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/kube"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// Options are the controllers' ports and settings.
type Options struct {
	Log      runevent.Log
	Store    cas.Store
	Changes  Changes
	Queue    Queue
	Presence Presence
	Logger   *slog.Logger
	// NamespaceCap is how many runs of a namespace may be queued or running; 0 for no limit. An annotation of the namespace
	// replaces it.
	NamespaceCap int
	// ViewerURL is where the viewer is reached, for status.trajectoryURL; empty for none.
	ViewerURL string
	// HeadsInterval is how long a stream rests between two reads, HealthInterval between two probes of the stores, Resync
	// between two looks at the work item of a run without a live worker.
	HeadsInterval, HealthInterval, Resync time.Duration
	Now                                   func() time.Time
	// IdleConfig is what a run of a session would work under now, and Estimator the estimator of a name: with them idle
	// sessions are measured.
	IdleConfig func(ctx context.Context, owner *api.AgentSession) (session.RunConfig, error)
	Estimator  func(name string) budget.Estimator
	// Listed asks a provider what it tells about its models, every ModelsInterval; nil to ask none.
	Listed         func(ctx context.Context, target *api.ModelProvider) ([]provider.ModelInfo, error)
	ModelsInterval time.Duration
	// Calibrations is what is known of models' real counts; nil for nothing.
	Calibrations agent.Calibrations
	// Fill says how full the run-event log is. Archive archives the ended runs of a session when it is fuller than
	// ArchiveAbove percent, looking every ArchiveInterval; 0 percent for never.
	Fill            Fill
	Archive         func(ctx context.Context, scope cas.Scope) (archive.Result, error)
	ArchiveAbove    int
	ArchiveInterval time.Duration
	// Observer is told what the controllers do; nil for nobody.
	Observer Observer
}

// reconcilers is how many runs, and how many sessions, are reconciled at a time: most of the time each waits for the API
// server to take a write. One object is never reconciled twice at once, and a decision that needs what another one is
// about to write waits until it sees that.
const reconcilers = 8

// channelSize is how many wake-ups may wait; a full channel only makes the sender wait.
const channelSize = 1024

// wiring joins the background parts with the reconcilers.
type wiring struct {
	client.Client
	runs, sessions, providers chan event.GenericEvent

	ctx context.Context //nolint:containedctx // ends with the manager; the callbacks have no context of their own
}

// Setup registers the reconcilers and their background parts with the manager.
func Setup(ctx context.Context, mgr ctrl.Manager, opt Options) error {
	if err := index(ctx, mgr); err != nil {
		return err
	}
	w := &wiring{
		Client: mgr.GetClient(), ctx: ctx, runs: make(chan event.GenericEvent, channelSize), sessions: make(chan event.GenericEvent, channelSize),
		providers: make(chan event.GenericEvent, channelSize),
	}
	heads := &Heads{Log: opt.Log, Store: opt.Store, Changes: opt.Changes, Logger: opt.Logger, Notify: w.streamChanged, MinInterval: opt.HeadsInterval}
	health := &Health{Log: opt.Log, Store: opt.Store, Logger: opt.Logger, Interval: opt.HealthInterval, Timeout: 5 * time.Second, Fill: opt.Fill, Notify: w.allSessions}
	purger := &Purger{Log: opt.Log, Store: opt.Store, Logger: opt.Logger, Retry: 5 * time.Second, Notify: w.sessionChanged}
	estimates := &Estimates{
		Log: opt.Log, Store: opt.Store, Config: opt.IdleConfig, Estimator: opt.Estimator, Calibrations: opt.Calibrations, Logger: opt.Logger, Notify: w.streamChanged, Now: opt.Now,
	}
	archives := &Archives{Archive: opt.Archive, Fill: opt.Fill, Reader: mgr.GetClient(), Logger: opt.Logger, Above: opt.ArchiveAbove, Interval: opt.ArchiveInterval}
	admission := &Admission{Queue: opt.Queue, Presence: opt.Presence, Logger: opt.Logger, Resync: opt.Resync, Cap: w.namespaceCap(opt.NamespaceCap)}
	for _, part := range []interface {
		Start(context.Context) error
	}{heads, health, purger, admission, estimates, archives} {
		if err := mgr.Add(part); err != nil {
			return fmt.Errorf("add %T: %w", part, err)
		}
	}
	refused := func(string) {}
	if opt.Observer != nil {
		refused = opt.Observer.Refused
		opt.Observer.Watch(func() Vitals { return vitals(heads, health) })
	}
	providers := &ModelProviderReconciler{Client: mgr.GetClient(), Direct: mgr.GetAPIReader(), Now: opt.Now}
	if opt.Listed != nil {
		providers.Listings = &Listings{Ask: opt.Listed, Interval: opt.ModelsInterval, Logger: opt.Logger, Notify: w.providerChanged, Now: opt.Now}
		if err := mgr.Add(providers.Listings); err != nil {
			return fmt.Errorf("add the model listings: %w", err)
		}
	}
	approvals := &ToolApprovalReconciler{Client: mgr.GetClient(), Heads: heads, Now: opt.Now}
	if err := w.approvals(mgr, approvals); err != nil {
		return err
	}
	pruning := &Pruning{}
	return w.controllers(mgr, providers, &AgentRunReconciler{
		Client: mgr.GetClient(), Heads: heads, Admission: admission, Health: health, Pruning: pruning, Events: mgr.GetEventRecorder("agentloop"), Refused: refused, Now: opt.Now,
	}, &AgentSessionReconciler{
		Client: mgr.GetClient(), Direct: mgr.GetAPIReader(), Heads: heads, Health: health, Purger: purger, Pruning: pruning, Estimates: estimates, Admission: admission,
		Events: mgr.GetEventRecorder("agentloop"), Logger: opt.Logger, ViewerURL: opt.ViewerURL, Now: opt.Now,
	})
}

func index(ctx context.Context, mgr ctrl.Manager) error {
	fields := mgr.GetFieldIndexer()
	if err := fields.IndexField(ctx, &api.AgentRun{}, indexRunSession, func(o client.Object) []string {
		return []string{o.(*api.AgentRun).Spec.SessionRef.Name} //nolint:forcetypeassert // the indexer hands this kind only
	}); err != nil {
		return fmt.Errorf("index runs: %w", err)
	}
	if err := fields.IndexField(ctx, &api.AgentRun{}, indexRunProvider, usedProvider); err != nil {
		return fmt.Errorf("index runs by provider: %w", err)
	}
	if err := fields.IndexField(ctx, &api.AgentSession{}, indexSessionHistory, func(o client.Object) []string {
		return []string{o.(*api.AgentSession).HistoryUID()} //nolint:forcetypeassert // the indexer hands this kind only
	}); err != nil {
		return fmt.Errorf("index sessions by history: %w", err)
	}
	if err := fields.IndexField(ctx, &api.AgentSession{}, indexSessionTarget, func(o client.Object) []string {
		return providersOf(o.(*api.AgentSession)) //nolint:forcetypeassert // the indexer hands this kind only
	}); err != nil {
		return fmt.Errorf("index sessions by provider: %w", err)
	}
	if err := fields.IndexField(ctx, &api.ToolApproval{}, indexApprovalRun, func(o client.Object) []string {
		return []string{o.(*api.ToolApproval).Spec.RunRef.Name} //nolint:forcetypeassert // the indexer hands this kind only
	}); err != nil {
		return fmt.Errorf("index decisions by run: %w", err)
	}
	return nil
}

// providersOf are the providers that a session's readiness depends on.
func providersOf(owner *api.AgentSession) []string {
	names := []string{owner.Spec.Model.ProviderRef.Name}
	if other := owner.Spec.Compaction.Model; other != nil && other.ProviderRef.Name != names[0] {
		names = append(names, other.ProviderRef.Name)
	}
	return names
}

func (w *wiring) controllers(mgr ctrl.Manager, providers *ModelProviderReconciler, runs *AgentRunReconciler, sessions *AgentSessionReconciler) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("agentrun").For(&api.AgentRun{}).
		Watches(&api.AgentRun{}, handler.EnqueueRequestsFromMapFunc(w.siblings)).
		Watches(&api.AgentSession{}, handler.EnqueueRequestsFromMapFunc(w.runsOf)).
		Watches(&api.ToolApproval{}, handler.EnqueueRequestsFromMapFunc(decidedRun)).
		WatchesRawSource(source.Channel(w.runs, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: reconcilers}).
		Complete(runs)
	if err != nil {
		return fmt.Errorf("set up the run controller: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("agentsession").For(&api.AgentSession{}).
		Watches(&api.AgentRun{}, handler.EnqueueRequestsFromMapFunc(sessionOf)).
		Watches(&api.ModelProvider{}, handler.EnqueueRequestsFromMapFunc(w.usersOf)).
		WatchesRawSource(source.Channel(w.sessions, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: reconcilers}).
		Complete(sessions)
	if err != nil {
		return fmt.Errorf("set up the session controller: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("modelprovider").For(&api.ModelProvider{}).
		Watches(&api.AgentRun{}, handler.EnqueueRequestsFromMapFunc(refusedBy)).
		WatchesRawSource(source.Channel(w.providers, &handler.EnqueueRequestForObject{})).
		Complete(providers)
	if err != nil {
		return fmt.Errorf("set up the provider controller: %w", err)
	}
	return nil
}

// approvals sets the controller of decisions up: what becomes of them, their runs tell.
func (w *wiring) approvals(mgr ctrl.Manager, approvals *ToolApprovalReconciler) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("toolapproval").For(&api.ToolApproval{}).
		Watches(&api.AgentRun{}, handler.EnqueueRequestsFromMapFunc(w.openApprovals)).
		Complete(approvals)
	if err != nil {
		return fmt.Errorf("set up the controller of decisions: %w", err)
	}
	return nil
}

// decidedRun wakes the run about whose call a decision was made.
func decidedRun(_ context.Context, o client.Object) []reconcile.Request {
	approval, ok := o.(*api.ToolApproval)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: approval.Namespace, Name: approval.Spec.RunRef.Name}}}
}

// openApprovals wakes the decisions about a run's calls that were not applied.
func (w *wiring) openApprovals(ctx context.Context, o client.Object) []reconcile.Request {
	all, err := approvalsOf(ctx, w, o.GetNamespace(), o.GetName())
	if err != nil {
		return nil // the cache is stopping; every object is looked at again after a restart
	}
	var out []reconcile.Request
	for i := range all {
		if condition(all[i].Status.Conditions, api.ConditionApplied) != metav1.ConditionTrue {
			out = append(out, requestFor(&all[i]))
		}
	}
	return out
}

func requestFor(o client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}
}

// siblings wakes the runs for which the change of another one matters.
func (w *wiring) siblings(ctx context.Context, o client.Object) []reconcile.Request {
	run, ok := o.(*api.AgentRun)
	if !ok {
		return nil
	}
	return w.next(ctx, run.Namespace, run.Spec.SessionRef.Name)
}

// runsOf wakes the runs for which a change of their session matters: all of them when it is being deleted.
func (w *wiring) runsOf(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetDeletionTimestamp().IsZero() {
		return w.next(ctx, o.GetNamespace(), o.GetName())
	}
	var out []reconcile.Request
	for _, run := range w.unfinished(ctx, o.GetNamespace(), o.GetName()) {
		out = append(out, requestFor(run))
	}
	return out
}

// next are the runs of a session that something else than their own change may move on: of each agent those that may be
// on the work queue and the first of the others, and the first that has no number yet. The runs behind them wait, however
// many they are.
func (w *wiring) next(ctx context.Context, namespace, sessionName string) []reconcile.Request {
	runs := w.unfinished(ctx, namespace, sessionName)
	slices.SortFunc(runs, compareRuns)
	var out []reconcile.Request
	seen, numbered := map[string]bool{}, true
	for _, run := range runs {
		key := kube.AgentKey(run)
		wake := hasFinalizer(run) || !seen[key] || numbered && run.Status.Ordinal == 0
		seen[key] = seen[key] || !hasFinalizer(run)
		numbered = numbered && run.Status.Ordinal != 0
		if wake {
			out = append(out, requestFor(run))
		}
	}
	return out
}

// unfinished lists a session's live runs, as the cache has them: they must not be changed.
func (w *wiring) unfinished(ctx context.Context, namespace, sessionName string) []*api.AgentRun {
	runs := &api.AgentRunList{}
	if err := w.List(ctx, runs, client.InNamespace(namespace), client.MatchingFields{indexRunSession: sessionName}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache is stopping; every object is looked at again after a restart
	}
	var out []*api.AgentRun
	for i := range runs.Items {
		if !runs.Items[i].IsFinished() {
			out = append(out, &runs.Items[i])
		}
	}
	return out
}

func sessionOf(_ context.Context, o client.Object) []reconcile.Request {
	run, ok := o.(*api.AgentRun)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: run.Namespace, Name: run.Spec.SessionRef.Name}}}
}

// refusedBy wakes the provider that refused a run's credential.
func refusedBy(_ context.Context, o client.Object) []reconcile.Request {
	run, ok := o.(*api.AgentRun)
	if !ok || !refusedCredential(run) {
		return nil
	}
	var out []reconcile.Request
	for _, name := range usedProvider(run) {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: run.Namespace, Name: name}})
	}
	return out
}

func (w *wiring) usersOf(ctx context.Context, o client.Object) []reconcile.Request {
	sessions := &api.AgentSessionList{}
	if err := w.List(ctx, sessions, client.InNamespace(o.GetNamespace()), client.MatchingFields{indexSessionTarget: o.GetName()}); err != nil {
		return nil // as above
	}
	var out []reconcile.Request
	for i := range sessions.Items {
		out = append(out, requestFor(&sessions.Items[i]))
	}
	return out
}

func (w *wiring) send(to chan event.GenericEvent, o client.Object) {
	select {
	case to <- event.GenericEvent{Object: o}:
	case <-w.ctx.Done():
	}
}

// providerChanged wakes a provider.
func (w *wiring) providerChanged(key client.ObjectKey) {
	target := &api.ModelProvider{}
	target.Namespace, target.Name = key.Namespace, key.Name
	w.send(w.providers, target)
}

// streamChanged wakes the session of a stream and its unfinished runs.
func (w *wiring) streamChanged(stream runevent.Stream) {
	w.sessionChanged(stream.Namespace, stream.Session)
}

func (w *wiring) sessionChanged(namespace, history string) {
	sessions := &api.AgentSessionList{}
	if err := w.List(w.ctx, sessions, client.InNamespace(namespace), client.MatchingFields{indexSessionHistory: history}); err != nil {
		return // as above
	}
	for i := range sessions.Items {
		w.send(w.sessions, &sessions.Items[i])
		for _, request := range w.next(w.ctx, namespace, sessions.Items[i].Name) {
			run := &api.AgentRun{}
			run.Namespace, run.Name = request.Namespace, request.Name
			w.send(w.runs, run)
		}
	}
}

func (w *wiring) allSessions() {
	sessions := &api.AgentSessionList{}
	if err := w.List(w.ctx, sessions); err != nil {
		return // as above
	}
	for i := range sessions.Items {
		w.send(w.sessions, &sessions.Items[i])
	}
}

// namespaceCap reads the cap of a namespace: its annotation, else the manager's own.
func (w *wiring) namespaceCap(fallback int) func(context.Context, string) int {
	return func(ctx context.Context, name string) int {
		namespace := &corev1.Namespace{}
		if err := w.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
			return fallback
		}
		if n, err := strconv.Atoi(namespace.Annotations[api.AnnotationMaxConcurrentRuns]); err == nil && n > 0 {
			return n
		}
		return fallback
	}
}
