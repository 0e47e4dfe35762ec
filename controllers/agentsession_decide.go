package controllers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/kube"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/worker"
)

// sessionFacts is all that is known when a decision about a session is made.
type sessionFacts struct {
	session *api.AgentSession
	// provider is nil when it does not exist; summaries is the one that spec.compaction.model names.
	provider, summaries *api.ModelProvider
	// missing is the first Secret or ConfigMap that cannot be used; nil when all can.
	missing *verdict
	runs    []api.AgentRun
	log     Facts
	// estimate is what the next request would take.
	estimate Estimate
	// orphaned says that the run which is live in the log is none of runs any more, or one that was ended without it.
	orphaned bool
	// storageDown and streamDown say that the object store or the run-event stream does not answer.
	storageDown, streamDown bool
	// streamFilling says that the run-event stream is nearly full.
	streamFilling bool
	// purge is how far the removal of a deleted session's history is; shared says that another session continues it.
	purge  Purge
	shared bool
	// namespaceEnding says that the session's namespace is being deleted.
	namespaceEnding bool
	viewerURL       string
	now             time.Time
}

// sessionDecision is what is to be done about a session.
type sessionDecision struct {
	// hold adds the finalizer, letGo takes it off, purge removes the history.
	hold, letGo, purge bool
	expired            []*api.AgentRun
	status             *api.AgentSessionStatus
	requeue            time.Duration
	// lost is why the session goes although its history could not be purged; empty otherwise.
	lost string
	// seal is the work item that ends an orphaned run; nil when there is none.
	seal *worker.Item
}

// namespacePurges is how many tries to purge a history hold up the deletion of a whole namespace.
const namespacePurges = 3

// decideSession is pure.
func decideSession(f sessionFacts) sessionDecision {
	d := sessionDecision{status: f.status(), seal: f.seal()}
	held := slices.Contains(f.session.Finalizers, api.FinalizerSession)
	if f.session.DeletionTimestamp.IsZero() {
		d.hold = !held
		d.expired = f.expired()
		d.requeue = f.estimate.Again
		if f.estimate.Budget != nil && len(sessionConfigMaps(f.session)) > 0 {
			d.requeue = estimateInterval
		}
		if f.missing != nil {
			d.requeue = referenceInterval
		}
		if f.estimate.Pending && f.head() != f.session.Status.Head {
			d.status, d.requeue = nil, estimatePatience // one report instead of two
		} else if left := f.passing(d.status); left > 0 {
			d.status, d.requeue = nil, left
		}
		return d
	}
	if !held {
		return sessionDecision{}
	}
	forced := f.session.Annotations[api.AnnotationForceDelete] == api.ValueTrue
	purges := f.session.Spec.History.OnDelete == api.DeletePolicyDelete && !f.shared && !f.purge.Done
	switch {
	case forced:
		d.letGo = true
		if purges {
			d.lost = "the annotation " + api.AnnotationForceDelete + " lets the session go"
		}
	case f.unsettled() > 0:
	case !purges:
		d.letGo = true
	case f.namespaceEnding && f.purge.Failed >= namespacePurges:
		d.letGo, d.lost = true, "the namespace is being deleted and the stores do not answer"
	default:
		d.purge = true
	}
	if d.letGo {
		d.status = nil
	}
	return d
}

// queueGrace is how long a run must wait before the session's status counts it: most are begun by then.
const queueGrace = 2 * time.Second

// passing is for how long a report is not worth a write, because it only counts a run that was just made.
func (f sessionFacts) passing(next *api.AgentSessionStatus) time.Duration {
	before := f.session.Status
	same := *next
	same.QueuedRuns, same.RunsTotal = before.QueuedRuns, before.RunsTotal
	if !equality.Semantic.DeepEqual(before, same) {
		return 0
	}
	var made time.Time
	for i := range f.runs {
		if run := &f.runs[i]; !run.IsFinished() && run.CreationTimestamp.After(made) {
			made = run.CreationTimestamp.Time
		}
	}
	return made.Add(queueGrace).Sub(f.now)
}

// seal is the work item that ends an orphaned run: nobody else would, and no other run could begin before it has ended. A
// log that has lost its end is not gone on with, not even for that.
func (f sessionFacts) seal() *worker.Item {
	if !f.orphaned || f.shortened() {
		return nil
	}
	run := f.log.State.Run
	return &worker.Item{
		Namespace: f.session.Namespace, RunUID: run.UID, RunName: run.Name, SessionUID: f.session.HistoryUID(), SessionName: f.session.Name,
		AgentKey: runevent.MainAgent, Kind: worker.KindSeal,
	}
}

// live says whether the log has a run that has not ended, and which of the session's runs that is; nil for none of them.
func (f sessionFacts) live() (run *api.AgentRun, live bool) {
	if !f.log.Known || f.log.Corrupt || !f.log.State.Live() {
		return nil, false
	}
	for i := range f.runs {
		if string(f.runs[i].UID) == f.log.State.Run.UID {
			return &f.runs[i], true
		}
	}
	return nil, true
}

// unsettled counts runs that have not ended or are still held.
func (f sessionFacts) unsettled() int {
	n := 0
	if down := f.storageDown || f.streamDown; f.orphaned && !f.shortened() && (!f.namespaceEnding || !down) {
		n++
	}
	for i := range f.runs {
		if !f.runs[i].IsFinished() || hasFinalizer(&f.runs[i]) {
			n++
		}
	}
	return n
}

// expired are finished runs beyond the number that is kept, those with a time to live of their own left out. The run of a
// subagent is kept as long as the one that delegated to it, and does not count.
func (f sessionFacts) expired() []*api.AgentRun {
	var finished, gone []*api.AgentRun
	for i := range f.runs {
		run := &f.runs[i]
		switch {
		case !run.IsFinished() || !run.DeletionTimestamp.IsZero():
		case run.Spec.Parent != nil && !f.has(run.Spec.Parent.RunRef.UID):
			gone = append(gone, run)
		case run.Spec.Parent == nil && run.Spec.TTLSecondsAfterFinished == nil:
			finished = append(finished, run)
		}
	}
	if f.session.Spec.History.KeepRuns == nil {
		return gone
	}
	oldest(finished)
	surplus := len(finished) - int(*f.session.Spec.History.KeepRuns)
	return append(gone, finished[:max(0, surplus)]...)
}

func (f sessionFacts) has(runUID string) bool {
	return slices.ContainsFunc(f.runs, func(run api.AgentRun) bool { return string(run.UID) == runUID })
}

func (f sessionFacts) status() *api.AgentSessionStatus {
	status := f.session.Status.DeepCopy()
	status.ObservedGeneration, status.StorageUID = f.session.Generation, f.session.HistoryUID()
	status.QueuedRuns, status.ActiveRun = 0, nil
	for i := range f.runs {
		run := &f.runs[i]
		status.RunsTotal = max(status.RunsTotal, run.Status.Ordinal)
		switch {
		case run.IsFinished(), f.log.State.Ended(string(run.UID)): // the run's own status follows
		case run.Status.StartTime != nil:
			if run.Spec.Agent == api.AgentMain {
				status.ActiveRun = &api.ActiveRun{Name: run.Name, UID: string(run.UID)}
			}
		case condition(run.Status.Conditions, api.ConditionAccepted) == metav1.ConditionTrue:
			status.QueuedRuns++
		}
	}
	if f.viewerURL != "" {
		status.TrajectoryURL = fmt.Sprintf("%s/projects/%s/sessions/%s/trajectory", strings.TrimSuffix(f.viewerURL, "/"), f.session.Namespace, f.session.Name)
	}
	f.logged(status)
	f.conditions(status)
	return status
}

// logged fills in what the log says. While a run is live only its end is worth a write, so the numbers move with commits
// that the run's own status writes have brought here.
func (f sessionFacts) logged(status *api.AgentSessionStatus) {
	state := f.log.State
	if status.ActiveRun != nil { // the run's own status has the budget of its requests
		status.ContextBudget = nil
	}
	if !f.log.Known || f.log.Corrupt || state.Head.Sequence == 0 || state.Live() || f.shortened() {
		return
	}
	status.LastSequence, status.HistoryMessageCount = state.Head.Sequence, int64(f.log.Messages)
	switch {
	case status.ActiveRun != nil:
	case f.estimate.Known:
		status.ContextBudget = nil
		if f.estimate.Budget != nil {
			status.ContextBudget = kube.BudgetOf(*f.estimate.Budget, nil)
		}
	case status.Head != f.head():
		status.ContextBudget = nil
	}
	status.Head = f.head()
	status.Usage = kube.UsageOf(state.Usage())
	status.Checkpoint, status.Title = nil, ""
	if c := f.log.Checkpoint; c != nil {
		status.Checkpoint = &api.Checkpoint{ID: c.ID, Boundary: int64(c.Boundary)}
	}
	if f.session.Spec.Title == api.TitleAuto {
		status.Title = f.log.Title
	}
	if state.Run != nil && !state.Run.EndedAt.IsZero() {
		last := seconds(state.Run.EndedAt)
		status.LastActivityTime = &last
	}
}

// head is the digest of the latest saved state; empty before the first.
func (f sessionFacts) head() string {
	if f.log.State.StateRef == nil {
		return ""
	}
	return f.log.State.StateRef.Digest.String()
}

func (f sessionFacts) conditions(status *api.AgentSessionStatus) {
	set := func(kind string, value metav1.ConditionStatus, why, message string) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: why, Message: message, ObservedGeneration: f.session.Generation, LastTransitionTime: seconds(f.now),
		})
	}
	if blocked := f.blocked(); blocked != nil {
		set(api.ConditionReady, metav1.ConditionFalse, blocked.reason, blocked.message)
	} else {
		set(api.ConditionReady, metav1.ConditionTrue, api.SessionReasonReady, "")
	}
	if status.ActiveRun != nil {
		set(api.ConditionActive, metav1.ConditionTrue, api.SessionReasonRunning, "")
	} else {
		set(api.ConditionActive, metav1.ConditionFalse, api.SessionReasonIdle, "")
	}
	down := f.storageDown || f.streamDown
	switch {
	case down && status.ActiveRun != nil:
		set(api.ConditionHistoryDurable, metav1.ConditionFalse, api.SessionReasonPendingSave, "a save is being tried again; the run waits for it")
	case !down && f.streamFilling && status.LastSequence > 0:
		set(api.ConditionHistoryDurable, metav1.ConditionTrue, api.SessionReasonStreamFilling, "the run-event stream is nearly full: a full one takes no more events, and runs wait")
	case !down && status.LastSequence > 0:
		set(api.ConditionHistoryDurable, metav1.ConditionTrue, api.SessionReasonSaved, "")
	}
}

// blocked is why no run can start; nil when one can.
func (f sessionFacts) blocked() *verdict {
	if !f.session.DeletionTimestamp.IsZero() {
		return &verdict{api.SessionReasonTerminating, f.terminating()}
	}
	if problem := f.stores(); problem != nil {
		return problem
	}
	if problem := f.model(); problem != nil {
		return problem
	}
	if f.missing != nil {
		return f.missing
	}
	if f.session.Spec.Suspend {
		return &verdict{api.SessionReasonSuspended, "spec.suspend is true: queued runs wait"}
	}
	usage := f.log.State.Usage()
	if limit := f.session.Spec.MaxTotalTokens; limit > 0 && usage.Total() >= limit {
		return &verdict{api.SessionReasonTokenLimitReached, fmt.Sprintf("%d tokens are used, spec.maxTotalTokens is %d: raise it to go on", usage.Total(), limit)}
	}
	return nil
}

func (f sessionFacts) terminating() string {
	switch n := f.unsettled(); {
	case n > 0:
		return fmt.Sprintf("waiting for %s to end", counted(n, "run"))
	case f.purge.Failed > 0:
		return fmt.Sprintf("the history could not be purged yet; the annotation %s: \"true\" lets the session go without that", api.AnnotationForceDelete)
	}
	return "purging the history"
}

func (f sessionFacts) stores() *verdict {
	switch {
	case f.storageDown:
		return &verdict{api.SessionReasonStorageUnavailable, "the object store does not answer the manager, or stores nothing: runs wait, and go on when it does"}
	case f.streamDown:
		return &verdict{api.SessionReasonStreamUnavailable, "the run-event stream does not answer the manager, or stores nothing: runs wait, and go on when it does"}
	case f.log.Corrupt:
		return &verdict{api.SessionReasonHistoryCorrupt, "stored run events or objects are damaged or missing: restore them from a backup"}
	case f.shortened():
		return &verdict{api.SessionReasonHistoryCorrupt, fmt.Sprintf("the run events end at #%d, #%d was saved once: restore them from a backup",
			f.log.State.Head.Sequence, f.saved())}
	}
	return nil
}

// saved is the number of the last entry that the log is known to have had.
func (f sessionFacts) saved() int64 {
	last := f.session.Status.LastSequence
	for i := range f.runs {
		if run := &f.runs[i]; kube.AgentKey(run) == runevent.MainAgent {
			last = max(last, run.Status.LastSequence)
		}
	}
	return last
}

// shortened says that the log ends before what was saved once. What the status says of that stays, or nobody would know of it
// any more after the next write.
func (f sessionFacts) shortened() bool { return f.log.Known && f.log.State.Head.Sequence < f.saved() }

// model is what keeps the session's own model, or the one that writes its summaries, from being used.
func (f sessionFacts) model() *verdict {
	own := f.session.Spec.Model
	if problem := modelProblem(f.provider, own.ProviderRef.Name, own.Model, "spec.model"); problem != nil {
		return problem
	}
	if other := f.session.Spec.Compaction.Model; other != nil {
		return modelProblem(f.summaries, other.ProviderRef.Name, other.Model, "spec.compaction.model")
	}
	return nil
}

// modelProblem says what is wrong with a model that field names; provider is nil when it does not exist.
func modelProblem(provider *api.ModelProvider, name, model, field string) *verdict {
	if provider == nil {
		return &verdict{api.SessionReasonProviderNotFound, fmt.Sprintf("ModelProvider %s does not exist: create it or change %s.providerRef", name, field)}
	}
	if _, ok := kube.FindModel(provider, model); !ok {
		return &verdict{api.SessionReasonModelNotDeclared, fmt.Sprintf("ModelProvider %s declares no model %s: add it there or change %s.model", name, model, field)}
	}
	if condition(provider.Status.Conditions, api.ConditionReady) != metav1.ConditionTrue {
		why := "it was not looked at yet"
		for _, c := range provider.Status.Conditions {
			if c.Type == api.ConditionReady {
				why = c.Reason + ": " + c.Message
			}
		}
		return &verdict{api.SessionReasonProviderNotReady, fmt.Sprintf("ModelProvider %s is not ready: %s", name, why)}
	}
	return nil
}
