package controllers

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/worker"
)

// runFacts is all that is known when a decision about a run is made. Nothing in it is changed by the decision.
type runFacts struct {
	run *api.AgentRun
	// session is nil when no session of that name exists.
	session *api.AgentSession
	// siblings are the session's runs, this one among them.
	siblings []api.AgentRun
	// log is what the run's stream says.
	log Facts
	now time.Time
}

// verdict is how a run ends without the log saying so: it never reached a worker.
type verdict struct{ reason, message string }

// runDecision is what is to be done about a run.
type runDecision struct {
	// adopt adds the finalizer and the owner reference; release takes the finalizer off; remove deletes the run.
	adopt, release, remove bool
	// item is the work item that the run needs; done says that it needs none any more.
	item *worker.Item
	done bool
	// status is what is reported; nil for no change.
	status *api.AgentRunStatus
	// requeue is when the decision must be made again although nothing changes.
	requeue time.Duration
}

// decideRun is pure.
func decideRun(f runFacts) runDecision {
	if f.run.IsFinished() {
		return decideFinished(f)
	}
	if ended := f.endedWithoutLog(); ended != nil {
		status := f.refused(*ended)
		return runDecision{status: status, done: true, release: hasFinalizer(f.run)}
	}
	if f.session == nil {
		return f.waitFor(api.RunReasonSessionNotFound, fmt.Sprintf("AgentSession %s does not exist yet", f.run.Spec.SessionRef.Name))
	}
	d := runDecision{adopt: !hasFinalizer(f.run) && f.run.DeletionTimestamp.IsZero()}
	if f.logged() {
		return f.live(d)
	}
	first := f.first()
	waiting := ""
	switch {
	case !first:
		waiting = "an earlier run of the session has not ended"
	case !f.ready():
		waiting = "the session is not ready: " + f.notReady()
	case f.log.Corrupt:
		waiting = "the session's run events cannot be read"
	case !f.log.Known:
		waiting = "the session's run events are being read"
	}
	d.status = f.queued(waiting)
	d.requeue = f.untilDeadline()
	if waiting == "" && !d.adopt {
		d.item = f.item(worker.KindRun)
	}
	return d
}

func decideFinished(f runFacts) runDecision {
	d := runDecision{done: true, release: hasFinalizer(f.run)}
	ttl := f.run.Spec.TTLSecondsAfterFinished
	if ttl == nil || f.run.Status.CompletionTime == nil || !f.run.DeletionTimestamp.IsZero() {
		return d
	}
	left := f.run.Status.CompletionTime.Add(time.Duration(*ttl) * time.Second).Sub(f.now)
	if left <= 0 {
		d.remove = true
		return d
	}
	d.requeue = left
	return d
}

// endedWithoutLog judges runs that no worker has seen: refused, cancelled or overdue while they waited.
func (f runFacts) endedWithoutLog() *verdict {
	if f.logged() {
		return nil
	}
	untouched := f.session == nil || f.log.Known && !f.first() || f.log.Known && !f.queuedBefore()
	switch {
	case f.session != nil && !f.session.DeletionTimestamp.IsZero() && untouched:
		return &verdict{api.RunReasonSessionDeleted, "the session was deleted before the run started"}
	case f.session == nil && !f.run.DeletionTimestamp.IsZero(), f.session == nil && ownedBy(f.run) != "":
		return &verdict{api.RunReasonSessionDeleted, "the session is gone"}
	case (f.run.Spec.Cancel || !f.run.DeletionTimestamp.IsZero()) && untouched:
		return &verdict{api.RunReasonCancelled, "cancelled before it started"}
	}
	if problem := f.invalid(); problem != "" && untouched {
		return &verdict{api.RunReasonInvalidInput, problem}
	}
	if f.untilDeadline() > 0 || !untouched {
		return nil
	}
	return &verdict{api.RunReasonQueueDeadlineExceeded, fmt.Sprintf("waited %d s without a start (%s); limits.queueDeadlineSeconds allows no more",
		f.run.Spec.Limits.QueueDeadlineSeconds, f.blocker())}
}

// queuedBefore says whether the run may be on the work queue: it has been first in line and adopted.
func (f runFacts) queuedBefore() bool { return f.first() && hasFinalizer(f.run) && f.ready() }

func (f runFacts) blocker() string {
	switch {
	case f.session == nil:
		return "AgentSession " + f.run.Spec.SessionRef.Name + " does not exist"
	case !f.first():
		return "earlier runs of the session"
	}
	return f.notReady()
}

// invalid finds what no waiting can mend.
func (f runFacts) invalid() string {
	if f.session == nil {
		return ""
	}
	if f.run.Spec.Operation == api.OperationCompact {
		return "operation Compact is not offered by this version: use operation Prompt"
	}
	if f.run.Spec.Agent != api.AgentMain {
		return "subagent runs are not offered by this version: set agent to main and remove parent"
	}
	for _, id := range f.run.Spec.Skills {
		if !slices.ContainsFunc(f.session.Spec.Skills, func(s api.Skill) bool { return s.ID == id }) {
			return fmt.Sprintf("the session declares no skill %s: add it to spec.skills of the AgentSession", id)
		}
	}
	return ""
}

func (f runFacts) untilDeadline() time.Duration {
	return f.run.CreationTimestamp.Add(time.Duration(f.run.Spec.Limits.QueueDeadlineSeconds) * time.Second).Sub(f.now)
}

// logged says whether the log knows the run.
func (f runFacts) logged() bool {
	return f.log.Known && f.log.State.Run != nil && f.log.State.Run.UID == string(f.run.UID)
}

// first says whether no unfinished run of the same agent stands before this one.
func (f runFacts) first() bool {
	for i := range f.siblings {
		other := &f.siblings[i]
		if other.UID != f.run.UID && other.Spec.Agent == f.run.Spec.Agent && !other.IsFinished() && before(other, f.run) {
			return false
		}
	}
	return true
}

// before is the order of a session's runs: by ordinal, those without one last, by creation and name.
func before(a, b *api.AgentRun) bool {
	x, y := a.Status.Ordinal, b.Status.Ordinal
	if x != y && x != 0 && y != 0 {
		return x < y
	}
	if (x == 0) != (y == 0) {
		return x != 0
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// ordinal is the run's place; 0 while an older run has none yet.
func (f runFacts) ordinal() int64 {
	if f.run.Status.Ordinal > 0 {
		return f.run.Status.Ordinal
	}
	sorted := slices.Clone(f.siblings)
	sort.Slice(sorted, func(i, j int) bool { return before(&sorted[i], &sorted[j]) })
	highest := f.session.Status.RunsTotal
	for i := range sorted {
		highest = max(highest, sorted[i].Status.Ordinal)
		if sorted[i].Status.Ordinal == 0 {
			if sorted[i].UID == f.run.UID {
				return highest + 1
			}
			return 0
		}
	}
	return 0
}

func (f runFacts) ready() bool {
	return condition(f.session.Status.Conditions, api.ConditionReady) == metav1.ConditionTrue
}

func (f runFacts) notReady() string {
	for _, c := range f.session.Status.Conditions {
		if c.Type == api.ConditionReady {
			return c.Reason
		}
	}
	return "not looked at yet"
}

func (f runFacts) item(kind worker.Kind) *worker.Item {
	return &worker.Item{
		Namespace: f.run.Namespace, RunUID: string(f.run.UID), RunName: f.run.Name, SessionUID: f.session.HistoryUID(),
		SessionName: f.session.Name, AgentKey: runevent.MainAgent, Kind: kind,
	}
}

// live decides about a run that is in the log: ended there, or in a worker's hands.
func (f runFacts) live(d runDecision) runDecision {
	progress := f.log.State.Run
	d.status = f.progressed()
	if progress.Terminal != nil {
		d.done, d.adopt, d.release = true, false, hasFinalizer(f.run)
		return d
	}
	kind := worker.KindResume
	if f.cancelling() {
		kind = worker.KindCancel
	}
	d.item = f.item(kind)
	return d
}

func (f runFacts) cancelling() bool {
	return f.run.Spec.Cancel || !f.run.DeletionTimestamp.IsZero() || !f.session.DeletionTimestamp.IsZero()
}

func hasFinalizer(run *api.AgentRun) bool { return slices.Contains(run.Finalizers, api.FinalizerRun) }

// ownedBy is the UID of the session that owns the run; empty before it was adopted.
func ownedBy(run *api.AgentRun) string {
	for _, owner := range run.OwnerReferences {
		if owner.Kind == "AgentSession" && strings.HasPrefix(owner.APIVersion, api.GroupName+"/") {
			return string(owner.UID)
		}
	}
	return ""
}

func condition(conditions []metav1.Condition, kind string) metav1.ConditionStatus {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return metav1.ConditionUnknown
}
