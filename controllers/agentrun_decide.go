package controllers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/kube"
	"github.com/agentloop/agentloop/pkg/worker"
)

// endGrace is how long a run that may be on the work queue is left to a worker that would end it, before the controllers
// end it themselves. A worker that takes it meanwhile has written that to the log by then, or stops when it sees the end.
const endGrace = 10 * time.Second

// runFacts is all that is known when a decision about a run is made. Nothing in it is changed by the decision.
type runFacts struct {
	run *api.AgentRun
	// session is nil when no session of that name exists.
	session *api.AgentSession
	// parent is the run that delegated to this one; nil for none, and for one that is gone.
	parent *api.AgentRun
	// siblings are the session's runs, this one among them.
	siblings []api.AgentRun
	// log is what the run's stream says. past is what it said when the run ended, if that is in the log and another run
	// came after it.
	log, past Facts
	// approvals are the decisions about calls of runs of its name, if the run waits.
	approvals []api.ToolApproval
	// leaving is since when the run, which may be on the work queue, is to end without having begun; zero when it was not
	// noticed before.
	leaving time.Time
	// unsaved says that the object store or the run-event stream does not answer: what the run does cannot be stored now.
	unsaved bool
	// namespaceEnding says that the run is deleted, and with it its namespace.
	namespaceEnding bool
	now             time.Time
}

// verdict is how a run ends without the log saying so: it never reached a worker.
type verdict struct{ reason, message string }

// runDecision is what is to be done about a run.
type runDecision struct {
	// own sets the owner reference; hold adds the finalizer, release takes it off; remove deletes the run.
	own, hold, release, remove bool
	// cancel sets spec.cancel: the run that delegated to this one has ended, or is about to.
	cancel bool
	// item is the work item that the run needs; done says that it needs none any more, rests that it needs none now.
	item        *worker.Item
	done, rests bool
	// leaving says that the run is left to a worker that would end it.
	leaving bool
	// status is what is reported; nil for no change.
	status *api.AgentRunStatus
	// requeue is when the decision must be made again although nothing changes; 0 or less for never.
	requeue time.Duration
}

// decideRun is pure.
//
// The finalizer says that the run may be on the work queue: it is put on before the first item, when the run is the
// first in line. A run without it is known to no worker.
func decideRun(f runFacts) runDecision {
	if f.run.IsFinished() {
		return decideFinished(f)
	}
	d := f.unfinished()
	d.cancel = f.abandoned() && !f.run.Spec.Cancel && f.run.DeletionTimestamp.IsZero()
	return d
}

// abandoned says whether nobody waits for the run's answer any more: it is a subagent's, and the run that delegated to it
// has ended, is about to, or is gone.
func (f runFacts) abandoned() bool {
	switch {
	case f.session == nil || f.run.Spec.Parent == nil:
		return false
	case f.parent == nil:
		return true
	}
	return f.parent.IsFinished() || f.parent.Spec.Cancel || !f.parent.DeletionTimestamp.IsZero()
}

func (f runFacts) unfinished() runDecision {
	if end := f.unrecorded(); end != nil {
		return f.over(*end)
	}
	own := f.session != nil && f.run.DeletionTimestamp.IsZero() && ownedBy(f.run) == ""
	if f.passed() {
		if !f.past.Known {
			return runDecision{own: own} // it is being read
		}
		f.log = f.past
	}
	if f.logged() {
		return f.live(runDecision{own: own, hold: f.run.DeletionTimestamp.IsZero() && !hasFinalizer(f.run)})
	}
	if f.session != nil && hasFinalizer(f.run) && !f.log.Known && !f.cancelling() {
		return runDecision{own: own} // it may have begun: what was reported stands until the log was read
	}
	if end := f.endWithoutLog(); end != nil {
		return f.leave(*end)
	}
	if f.session == nil {
		return f.waitFor(fmt.Sprintf("AgentSession %s does not exist yet", f.run.Spec.SessionRef.Name))
	}
	d := runDecision{own: own, requeue: f.untilDeadline()}
	waiting := f.waiting()
	d.status = f.queued(waiting)
	switch {
	case waiting != "" || !f.log.Known || d.status.Ordinal == 0:
	case hasFinalizer(f.run):
		d.item = f.item(worker.KindRun)
	default:
		d.hold = true
	}
	return d
}

// over ends a run whose end no run event tells.
func (f runFacts) over(end verdict) runDecision {
	return runDecision{status: f.refused(end), done: true, release: hasFinalizer(f.run)}
}

// unrecorded is why a run is over that may have begun, although no end of it can be read or written; nil for one that has
// to wait for that.
func (f runFacts) unrecorded() *verdict {
	switch {
	case f.namespaceEnding && f.patience() <= 0 && (f.unsaved || f.log.Unavailable):
		return &verdict{api.RunReasonSessionDeleted, "the namespace is being deleted and the stores do not answer: how far the run came is not recorded"}
	case f.passed() && f.past.Corrupt:
		return &verdict{api.RunReasonInternalError, "the run has ended; its run events, which say how, cannot be read"}
	}
	return nil
}

// namespacePatience is how long a run that cannot be ended, because the stores do not answer, holds up the deletion of its
// whole namespace.
const namespacePatience = 2 * time.Minute

// patience is what is left of that.
func (f runFacts) patience() time.Duration {
	return f.run.DeletionTimestamp.Add(namespacePatience).Sub(f.now)
}

// waiting is what keeps a run from the work queue; empty for nothing that is worth to be told.
func (f runFacts) waiting() string {
	switch {
	case !f.first():
		return "an earlier run of the session has not ended"
	case !f.ready():
		return "the session is not ready: " + f.notReady()
	case f.log.Corrupt:
		return "the session's run events cannot be read: its condition Ready says why"
	case f.log.State.Live():
		return fmt.Sprintf("run %s is live in the run events, but its object is gone or over: a worker ends it first", f.log.State.Run.Name)
	}
	return ""
}

// leave ends a run that the log does not know. One that may be on the work queue is left to a worker for a while, so
// that its end is recorded where others look for it; then the log must have been read once more, for a worker may have
// begun the run just before. One that is known to no worker is ended when the log was read at all: an object that was
// restored from a backup may be behind it.
func (f runFacts) leave(end verdict) runDecision {
	if f.session == nil {
		return f.over(end)
	}
	wait := runDecision{status: f.stopping(end), requeue: time.Second}
	if !hasFinalizer(f.run) {
		if f.log.Known && !f.log.Unavailable || f.log.Unavailable && f.cancelling() {
			return f.over(end)
		}
		return wait
	}
	left := endGrace
	if !f.leaving.IsZero() {
		left = f.leaving.Add(endGrace).Sub(f.now)
	}
	if left <= 0 && !f.stale() {
		return f.over(end)
	}
	wait.item, wait.leaving, wait.requeue = f.item(worker.KindCancel), true, max(left, wait.requeue)
	return wait
}

// stale says whether the log was not read since a worker's time to end the run was up.
func (f runFacts) stale() bool {
	return !f.log.Known || f.log.Unavailable || f.log.ReadAt.Before(f.leaving.Add(endGrace))
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

// endWithoutLog is why a run that the log does not know is over: refused, cancelled or overdue while it waited. It is nil
// for one that goes on waiting.
func (f runFacts) endWithoutLog() *verdict {
	switch {
	case f.session == nil && (ownedBy(f.run) != "" || !f.run.DeletionTimestamp.IsZero()):
		return &verdict{api.RunReasonSessionDeleted, "the session is gone"}
	case f.session != nil && !f.session.DeletionTimestamp.IsZero():
		return &verdict{api.RunReasonSessionDeleted, "the session was deleted before the run started"}
	case f.run.Spec.Cancel || !f.run.DeletionTimestamp.IsZero():
		return &verdict{api.RunReasonCancelled, "cancelled before it started"}
	case f.run.Status.StartTime != nil:
		return nil // it had begun, and the log has lost it: somebody has to restore that
	}
	if problem := f.invalid(); problem != "" {
		return &verdict{api.RunReasonInvalidInput, problem}
	}
	if f.untilDeadline() > 0 {
		return nil
	}
	seconds := f.run.Spec.Limits.QueueDeadlineSeconds
	switch {
	case f.session == nil:
		return &verdict{api.RunReasonSessionNotFound, fmt.Sprintf("AgentSession %s did not exist within %d s: create it first", f.run.Spec.SessionRef.Name, seconds)}
	case f.first() && !f.ready():
		return &verdict{api.RunReasonSessionNotReady, fmt.Sprintf("AgentSession %s was not ready within %d s (%s): mend that and create the run again", f.session.Name, seconds, f.notReady())}
	}
	return &verdict{api.RunReasonQueueDeadlineExceeded, fmt.Sprintf("waited %d s without a start: create the run again, if need be with a larger limits.queueDeadlineSeconds", seconds)}
}

// invalid finds what no waiting can mend.
func (f runFacts) invalid() string {
	if f.session == nil {
		return ""
	}
	if other := f.compacting(); other != "" {
		return fmt.Sprintf("run %s compacts the session already: wait for its end", other)
	}
	// Only one run can have the name, so that no other one writes into its stream and answers in its place.
	if call := f.run.Spec.Parent; call != nil && (call.RunRef.UID == "" || f.run.Name != agent.ChildName(call.RunRef.Name, kube.AgentKey(f.run))) {
		return "the runs of subagents are made by workers, for calls of delegate: create a run of the agent main, without a parent"
	}
	if name := f.run.Spec.Agent; name != api.AgentMain && !slices.ContainsFunc(f.session.Spec.Subagents, func(s api.Subagent) bool { return s.Name == name }) {
		return fmt.Sprintf("the session declares no subagent %s: add it to spec.subagents of the AgentSession", name)
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

// passed says whether the run has ended in the log, and another one has begun there since: its status was restored from
// a backup, or was not written in time.
func (f runFacts) passed() bool {
	return f.log.Known && !f.logged() && f.log.State.Ended(string(f.run.UID))
}

// logged says whether the log knows the run as its latest.
func (f runFacts) logged() bool {
	return f.log.Known && f.log.State.Run != nil && f.log.State.Run.UID == string(f.run.UID)
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
		SessionName: f.session.Name, AgentKey: kube.AgentKey(f.run), Kind: kind,
	}
}

// live decides about a run that is in the log: ended there, in a worker's hands, or waiting without one.
func (f runFacts) live(d runDecision) runDecision {
	progress := f.log.State.Run
	d.status = f.progressed()
	if progress.Terminal != nil {
		return runDecision{status: d.status, done: true, release: hasFinalizer(f.run)}
	}
	rests, wake := f.rests()
	if rests {
		d.rests = true
		if !wake.IsZero() {
			d.requeue = wake.Sub(f.now)
		}
		return d
	}
	kind := worker.KindResume
	if f.cancelling() {
		kind = worker.KindCancel
	}
	d.item = f.item(kind)
	if f.namespaceEnding {
		d.requeue = max(f.patience(), time.Second)
	}
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
