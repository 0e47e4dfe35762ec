package controllers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/kube"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

var born = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// facts are those of a run that is alone in a session that is ready, and whose log is empty.
func facts(change ...func(*runFacts)) runFacts {
	f := runFacts{run: newRun("first"), session: readySession(), log: Facts{Known: true, State: session.Empty("main")}, now: born.Add(time.Minute)}
	f.run.CreationTimestamp = metav1.NewTime(born)
	for _, c := range change {
		c(&f)
	}
	f.siblings = append(f.siblings, *f.run)
	if f.log.Known && f.log.ReadAt.IsZero() {
		f.log.ReadAt = f.now
	}
	return f
}

func readySession() *api.AgentSession {
	owner := newSession()
	owner.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: api.SessionReasonReady}}
	return owner
}

// The things that can be true of a run.
func adopted(f *runFacts) {
	f.run.OwnerReferences = []metav1.OwnerReference{{APIVersion: api.GroupVersion.String(), Kind: "AgentSession", Name: "chat", UID: "session-uid"}}
}
func held(f *runFacts) {
	adopted(f)
	f.run.Finalizers = []string{api.FinalizerRun}
	f.run.Status.Ordinal = 1
}
func unread(f *runFacts)      { f.log = Facts{} }
func unreachable(f *runFacts) { f.log.Unavailable = true }
func readAgo(d time.Duration) func(*runFacts) {
	return func(f *runFacts) { f.log.ReadAt = f.now.Add(-d) }
}
func unsaved(f *runFacts) { f.unsaved = true }
func namespaceEnds(ago time.Duration) func(*runFacts) {
	return func(f *runFacts) { f.namespaceEnding, f.now = true, born.Add(ago) }
}
func corrupt(f *runFacts)   { f.log.Corrupt = true }
func noSession(f *runFacts) { f.session, f.log = nil, Facts{} }
func cancelled(f *runFacts) { f.run.Spec.Cancel = true }
func overdue(f *runFacts)   { f.now = born.Add(600 * time.Second) }
func leaving(ago time.Duration) func(*runFacts) {
	return func(f *runFacts) { f.leaving = f.now.Add(-ago) }
}
func deletedRun(f *runFacts)     { at := metav1.NewTime(born); f.run.DeletionTimestamp = &at }
func deletedSession(f *runFacts) { at := metav1.NewTime(born); f.session.DeletionTimestamp = &at }
func notReady(reason string) func(*runFacts) {
	return func(f *runFacts) {
		f.session.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: reason}}
	}
}

const noWorkers = "the runs of subagents are made by workers, for calls of delegate: create a run of the agent main, without a parent"

const abandoned = "the namespace is being deleted and the stores do not answer: how far the run came is not recorded"

// delegatedTo makes a run that of a subagent, for a call of the run "parent".
func delegatedTo(run *api.AgentRun, agent string) {
	run.Spec.Agent = agent
	run.Spec.Parent = &api.ParentCall{RunRef: api.RunRef{Name: "parent", UID: "uid-parent"}, ToolCallID: "call_1"}
}

// child makes the run one of a subagent, whose parent is live; the session declares the subagent helper.
func child(name string) func(*runFacts) {
	return func(f *runFacts) {
		delegatedTo(f.run, name)
		f.run.Name = agent.ChildName("parent", kube.AgentKey(f.run))
		f.parent = newRun("parent")
		f.session.Spec.Subagents = []api.Subagent{{Name: "helper", Description: "helps", MaxDepth: 1}}
		f.log.State = session.Empty(kube.AgentKey(f.run))
	}
}

// end makes a run a finished one.
func end(run *api.AgentRun) {
	run.Status.Conditions = append(run.Status.Conditions, metav1.Condition{Type: api.ConditionFinished, Status: metav1.ConditionTrue, Reason: "Completed"})
}

// behind puts an unfinished older run before the run.
func behind(change ...func(*api.AgentRun)) func(*runFacts) {
	return func(f *runFacts) {
		older := newRun("older")
		older.CreationTimestamp, older.Status.Ordinal = metav1.NewTime(born.Add(-time.Minute)), 1
		if f.run.Status.Ordinal == 0 {
			f.run.Status.Ordinal = 2
		}
		for _, c := range change {
			c(older)
		}
		f.siblings = append(f.siblings, *older)
	}
}

func compacts(f *runFacts) { f.run.Spec.Operation = api.OperationCompact }

// started lets the log know the run, as far as change moves it on.
func started(change ...func(*session.RunProgress)) func(*runFacts) {
	return func(f *runFacts) {
		held(f)
		run := &session.RunProgress{UID: string(f.run.UID), Name: f.run.Name, Phase: session.PhaseModelCall}
		run.Attempt, run.Worker, run.StartedAt, run.Turn, run.Requests = 1, "w1", born.Add(10*time.Second), 2, 3
		f.log.State.Run, f.log.State.Head.Sequence = run, 12
		for _, c := range change {
			c(run)
		}
	}
}

func terminal(event runevent.Event) func(*session.RunProgress) {
	return func(run *session.RunProgress) {
		run.Terminal, run.Phase, run.EndedAt = &event, "", born.Add(30*time.Second)
	}
}

// brief is a decision in short.
func brief(d runDecision) map[string]string {
	out := map[string]string{}
	for name, set := range map[string]bool{
		"cancel": d.cancel, "own": d.own, "hold": d.hold, "release": d.release, "remove": d.remove, "done": d.done, "leaving": d.leaving, "rests": d.rests,
	} {
		if set {
			out[name] = "yes"
		}
	}
	if d.item != nil {
		out["item"] = string(d.item.Kind)
	}
	if d.requeue > 0 {
		out["again"] = d.requeue.String()
	}
	if d.status == nil {
		return out
	}
	for _, c := range d.status.Conditions {
		text := fmt.Sprintf("%s %s", c.Status, c.Reason)
		if c.Message != "" {
			text += ": " + c.Message
		}
		out[c.Type] = text
	}
	return out
}

// waits is what is said of a run that waits.
func waits(why string, more ...string) map[string]string {
	return pairs(append([]string{
		"Accepted", "True Accepted", "Succeeded", "Unknown Queued: " + why, "Finished", "False InProgress", "own", "yes", "again", "9m0s",
	}, more...)...)
}

// ends is what is said of a run that ended without a worker.
func ends(reason, message string, more ...string) map[string]string {
	out := pairs("Accepted", "False "+reason+": "+message, "Succeeded", "False "+reason+": "+message, "Finished", "True "+reason, "done", "yes")
	if reason == api.RunReasonCancelled || reason == api.RunReasonSessionDeleted {
		out["Accepted"] = "True Accepted"
	}
	for key, value := range pairs(more...) {
		out[key] = value
	}
	return out
}

func pairs(of ...string) map[string]string {
	out := map[string]string{}
	for pair := range slices.Chunk(of, 2) {
		out[pair[0]] = pair[1]
	}
	for key, value := range out {
		if value == "" {
			delete(out, key)
		}
	}
	return out
}

// TestDecideWaitingRun decides about runs that the log does not know.
func TestDecideWaitingRun(t *testing.T) {
	deadlineMessage := "waited 600 s without a start: create the run again, if need be with a larger limits.queueDeadlineSeconds"
	stopping := func(reason, why string, more ...string) map[string]string {
		return pairs(append([]string{
			"Accepted", "True Accepted", "Succeeded", "Unknown " + reason + ": about to end: " + why, "Finished", "False InProgress", "leaving", "yes", "item", "cancel",
		}, more...)...)
	}
	cases := map[string]struct {
		facts runFacts
		want  map[string]string
	}{
		"a new run is numbered and held":           {facts(), waits("waiting for a worker", "hold", "yes")},
		"a held run is put on the queue":           {facts(held), waits("waiting for a worker", "item", "run", "own", "")},
		"a run whose log is not read waits":        {facts(unread), waits("waiting for a worker")},
		"a held run whose log is not read may run": {facts(held, unread), pairs()},
		"a run behind another waits":               {facts(behind()), waits("an earlier run of the session has not ended")},
		"a run behind one without a number waits": {
			facts(behind(func(r *api.AgentRun) { r.Status.Ordinal = 0 }), func(f *runFacts) { f.run.Status.Ordinal = 0 }), waits("an earlier run of the session has not ended"),
		},
		"a run behind one that has ended goes": {
			facts(behind(func(r *api.AgentRun) {
				r.Status.Conditions = []metav1.Condition{{Type: api.ConditionFinished, Status: metav1.ConditionTrue}}
			})),
			waits("waiting for a worker", "hold", "yes"),
		},
		"a run behind one of another agent goes": {facts(behind(func(r *api.AgentRun) { delegatedTo(r, "reviewer") })), waits("waiting for a worker", "hold", "yes")},
		"a run behind a held one waits, whatever the numbers say": {
			facts(func(f *runFacts) { f.run.Status.Ordinal = 1 }, behind(func(r *api.AgentRun) { r.Status.Ordinal, r.Finalizers = 5, []string{api.FinalizerRun} })),
			waits("an earlier run of the session has not ended"),
		},
		"a session that is not ready":               {facts(notReady("Suspended")), waits("the session is not ready: Suspended")},
		"a session that nobody looked at":           {facts(func(f *runFacts) { f.session.Status.Conditions = nil }), waits("the session is not ready: not looked at yet")},
		"a held run of a session that went unready": {facts(held, notReady("Suspended")), waits("the session is not ready: Suspended", "own", "")},
		"a corrupt log":                             {facts(corrupt), waits("the session's run events cannot be read: its condition Ready says why")},
		"a session that does not exist yet": {
			facts(noSession), pairs("Succeeded", "Unknown Queued: AgentSession chat does not exist yet", "Finished", "False InProgress", "again", "9m0s"),
		},
		"a session that never came": {
			facts(noSession, overdue), ends("SessionNotFound", "AgentSession chat did not exist within 600 s: create it first"),
		},
		"a session that never was ready": {
			facts(notReady("ProviderNotFound"), overdue), ends("SessionNotReady", "AgentSession chat was not ready within 600 s (ProviderNotFound): mend that and create the run again"),
		},
		"too long behind another run":              {facts(behind(), overdue), ends("QueueDeadlineExceeded", deadlineMessage)},
		"too long behind another, session unready": {facts(behind(), notReady("Suspended"), overdue), ends("QueueDeadlineExceeded", deadlineMessage)},
		"too long without a worker, not held yet":  {facts(overdue), ends("QueueDeadlineExceeded", deadlineMessage)},
		"too long on the queue":                    {facts(held, overdue), stopping("Queued", deadlineMessage, "again", "10s")},
		"a while too long on the queue":            {facts(held, overdue, leaving(4*time.Second)), stopping("Queued", deadlineMessage, "again", "6s")},
		"far too long on the queue":                {facts(held, overdue, leaving(10*time.Second)), ends("QueueDeadlineExceeded", deadlineMessage, "release", "yes")},
		"far too long, but the log is away":        {facts(held, overdue, unreachable, leaving(time.Minute)), stopping("Queued", deadlineMessage, "again", "1s")},
		"far too long, but the log was read too early to tell": {
			facts(held, overdue, leaving(12*time.Second), readAgo(3*time.Second)), stopping("Queued", deadlineMessage, "again", "1s"),
		},
		"far too long, and the log was read since": {
			facts(held, overdue, leaving(12*time.Second), readAgo(2*time.Second)), ends("QueueDeadlineExceeded", deadlineMessage, "release", "yes"),
		},
		"overdue, but the log is not read":           {facts(held, overdue, unread), pairs()},
		"overdue, not held, and the log is not read": {facts(overdue, unread), stopping("Queued", deadlineMessage, "again", "1s", "item", "", "leaving", "")},
		"overdue, not held, and the log is away":     {facts(overdue, unreachable), stopping("Queued", deadlineMessage, "again", "1s", "item", "", "leaving", "")},
		"cancelled while it waits":                   {facts(behind(), cancelled), ends("Cancelled", "cancelled before it started")},
		"cancelled while the log is not read":        {facts(unread, cancelled), stopping("Cancelling", "cancelled before it started", "again", "1s", "item", "", "leaving", "")},
		"cancelled while the log is away":            {facts(unreachable, cancelled), ends("Cancelled", "cancelled before it started")},
		"cancelled while the log was never there":    {facts(unread, unreachable, cancelled), ends("Cancelled", "cancelled before it started")},
		"cancelled on the queue":                     {facts(held, cancelled), stopping("Cancelling", "cancelled before it started", "again", "10s")},
		"cancelled on the queue of a session that went unready": {
			facts(held, cancelled, notReady("Suspended")), stopping("Cancelling", "cancelled before it started", "again", "10s"),
		},
		"cancelled on the queue, and every worker is busy": {
			facts(held, cancelled, leaving(11*time.Second)), ends("Cancelled", "cancelled before it started", "release", "yes"),
		},
		"cancelled on the queue, the log not read": {facts(held, cancelled, unread, leaving(time.Hour)), stopping("Cancelling", "cancelled before it started", "again", "1s")},
		"deleted on the queue":                     {facts(held, deletedRun), stopping("Cancelling", "cancelled before it started", "again", "10s")},
		"deleted behind another":                   {facts(behind(), deletedRun), ends("Cancelled", "cancelled before it started")},
		"its session is deleted while it waits":    {facts(deletedSession), ends("SessionDeleted", "the session was deleted before the run started")},
		"its session is deleted, on the queue":     {facts(held, deletedSession), stopping("Cancelling", "the session was deleted before the run started", "again", "10s")},
		"its session goes before a cancel":         {facts(deletedSession, cancelled), ends("SessionDeleted", "the session was deleted before the run started")},
		"its session is gone":                      {facts(held, noSession), ends("SessionDeleted", "the session is gone", "release", "yes")},
		"deleted before its session came":          {facts(noSession, deletedRun), ends("SessionDeleted", "the session is gone")},
		"a skill that is not there": {
			facts(func(f *runFacts) { f.run.Spec.Skills = []string{"nope"} }), ends("InvalidInput", "the session declares no skill nope: add it to spec.skills of the AgentSession"),
		},
		"a compaction behind a run": {facts(behind(), compacts), waits("an earlier run of the session has not ended")},
		"a compaction beside another": {
			facts(behind(func(r *api.AgentRun) { r.Spec.Operation = api.OperationCompact }), compacts),
			ends("InvalidInput", "run older compacts the session already: wait for its end"),
		},
		"a subagent that is not declared": {
			facts(child("reviewer")), ends("InvalidInput", "the session declares no subagent reviewer: add it to spec.subagents of the AgentSession"),
		},
		"a subagent of nobody's": {
			facts(child("helper"), func(f *runFacts) { f.run.Spec.Parent.RunRef.UID = "" }), ends("InvalidInput", noWorkers),
		},
		"a second run for a subagent's call": {
			facts(child("helper"), func(f *runFacts) { f.run.Name = "mine" }), ends("InvalidInput", noWorkers),
		},
		"a subagent beside its parent":      {facts(behind(), child("helper")), waits("waiting for a worker", "hold", "yes")},
		"a subagent without its parent":     {facts(child("helper"), func(f *runFacts) { f.parent = nil }), waits("waiting for a worker", "hold", "yes", "cancel", "yes")},
		"a subagent whose parent ended":     {facts(child("helper"), func(f *runFacts) { end(f.parent) }), waits("waiting for a worker", "hold", "yes", "cancel", "yes")},
		"a subagent whose parent is ending": {facts(child("helper"), func(f *runFacts) { f.parent.Spec.Cancel = true }), waits("waiting for a worker", "hold", "yes", "cancel", "yes")},
		"its namespace ends": {
			facts(held, deletedRun, namespaceEnds(time.Second)), stopping("Cancelling", "cancelled before it started", "again", "10s"),
		},
		"its namespace ends while nothing can be read": {
			facts(held, deletedRun, unreachable, namespaceEnds(time.Minute)), stopping("Cancelling", "cancelled before it started", "again", "10s"),
		},
		"its namespace ends while nothing can be read, for long": {
			facts(held, deletedRun, unreachable, namespaceEnds(2*time.Minute)), ends("SessionDeleted", abandoned, "release", "yes"),
		},
		"its namespace ends while nothing was ever read, for long": {
			facts(held, deletedRun, unread, unsaved, namespaceEnds(2*time.Minute)), ends("SessionDeleted", abandoned, "release", "yes"),
		},
		"behind a run that is live in the log but gone": {
			facts(func(f *runFacts) { f.log.State.Run = &session.RunProgress{UID: "uid-gone", Name: "gone"} }), waits("run gone is live in the run events, but its object is gone or over: a worker ends it first"),
		},
		"a run that the log has lost": {
			facts(held, overdue, func(f *runFacts) { at := metav1.NewTime(born); f.run.Status.StartTime = &at }), waits("waiting for a worker", "item", "run", "own", "", "again", ""),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.facts.run.DeepCopy()
			got := decideRun(tc.facts)
			if diff := cmp.Diff(tc.want, brief(got)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.facts.run); diff != "" {
				t.Errorf("the decision changed its facts (-before +after):\n%s", diff)
			}
			if got.status != nil && got.status.IsFinished() != (got.status.CompletionTime != nil) {
				t.Errorf("finished %v, completed at %v", got.status.IsFinished(), got.status.CompletionTime)
			}
		})
	}
}

// TestDecideLiveRun decides about runs that the log knows.
func TestDecideLiveRun(t *testing.T) {
	alive := func(reason string, more ...string) map[string]string {
		return pairs(append([]string{"Accepted", "True Accepted", "Succeeded", "Unknown " + reason, "Finished", "False InProgress", "item", "resume"}, more...)...)
	}
	over := func(status, reason string, more ...string) map[string]string {
		return pairs(append([]string{
			"Accepted", "True Accepted", "Succeeded", status, "Finished", "True " + reason, "done", "yes", "release", "yes",
		}, more...)...)
	}
	stopping := alive("Cancelling: the worker was told to stop", "item", "cancel")
	cases := map[string]struct {
		facts runFacts
		want  map[string]string
	}{
		"a live run keeps its item":            {facts(started()), alive("ModelCall")},
		"a live run that is not held is":       {facts(started(), func(f *runFacts) { f.run.Finalizers = nil }), alive("ModelCall", "hold", "yes")},
		"a cancelled one is told to stop":      {facts(started(), cancelled), stopping},
		"a deleted one is told to stop":        {facts(started(), deletedRun), stopping},
		"one of a deleted session":             {facts(started(), deletedSession), stopping},
		"a live run of a session gone unready": {facts(started(), notReady("Suspended")), alive("ModelCall")},
		"a live run beyond its queue deadline": {facts(started(), overdue), alive("ModelCall")},
		"a live run behind another":            {facts(started(), behind()), alive("ModelCall")},
		"one whose namespace ends":             {facts(started(), deletedRun, namespaceEnds(30*time.Second)), alive("Cancelling: the worker was told to stop", "item", "cancel", "again", "1m30s")},
		"one whose namespace ends slowly": {
			facts(started(), deletedRun, namespaceEnds(time.Hour)), alive("Cancelling: the worker was told to stop", "item", "cancel", "again", "1s"),
		},
		"one whose namespace ends while nothing can be saved": {
			facts(started(), deletedRun, unsaved, namespaceEnds(time.Hour)),
			over("False SessionDeleted: "+abandoned, "SessionDeleted"),
		},
		"one that is deleted alone while nothing can be saved": {
			facts(started(), deletedRun, unsaved, func(f *runFacts) { f.now = born.Add(time.Hour) }), stopping,
		},
		"one that cannot be saved": {
			facts(started(), unsaved), alive("PendingSave: the object store or the run-event stream does not answer; what the run does is stored as soon as it does"),
		},
		"a cancelled one that cannot be saved": {facts(started(), unsaved, cancelled), stopping},
		"one that was handed back": {
			facts(started(func(run *session.RunProgress) { run.HandedBack = true })), alive("Recovering: the worker stopped and gave the run back; another one takes it over"),
		},
		"one that ended while nothing can be saved": {
			facts(unsaved, started(terminal(runevent.Event{Type: runevent.TypeRunFinished, Reason: "Completed"}))), over("True Completed", "Completed"),
		},
		"a finished one": {
			facts(started(terminal(runevent.Event{Type: runevent.TypeRunFinished, Reason: "Completed"}))), over("True Completed", "Completed"),
		},
		"a failed one": {
			facts(started(terminal(runevent.Event{Type: runevent.TypeRunFailed, Reason: "MaxTurnsExceeded", Message: "the run made 7 turns"}))),
			over("False MaxTurnsExceeded: the run made 7 turns", "MaxTurnsExceeded"),
		},
		"a refused one was not accepted": {
			facts(started(terminal(runevent.Event{Type: runevent.TypeRunFailed, Reason: "InvalidInput", Message: "no prompt"}))),
			over("False InvalidInput: no prompt", "InvalidInput", "Accepted", "False InvalidInput: no prompt"),
		},
		"a cancelled one that has ended": {
			facts(cancelled, started(terminal(runevent.Event{Type: runevent.TypeRunCancelled, Reason: "Cancelled", Message: "cancelled on request"}))),
			over("False Cancelled: cancelled on request", "Cancelled"),
		},
		"an end without a reason": {
			facts(started(terminal(runevent.Event{Type: runevent.TypeRunFailed}))), over("False InternalError", "InternalError"),
		},
		"an ended one that is not held": {
			facts(started(terminal(runevent.Event{Type: runevent.TypeRunFinished})), func(f *runFacts) { f.run.Finalizers = nil }),
			over("True Completed", "Completed", "release", ""),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, brief(decideRun(tc.facts))); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecidePassedRun repairs the status of a run from the log that others have moved on since, as after a restore of
// the cluster from a backup.
func TestDecidePassedRun(t *testing.T) {
	passed := func(f *runFacts) {
		f.log.State.Recent = []string{"uid-first", "uid-later"}
		f.log.State.Run = &session.RunProgress{UID: "uid-later", Terminal: &runevent.Event{Type: runevent.TypeRunFinished}}
	}
	read := func(event runevent.Event) func(*runFacts) {
		return func(f *runFacts) {
			g := facts(started(terminal(event)))
			f.past = g.log
		}
	}
	finished := pairs("Accepted", "True Accepted", "Succeeded", "True Completed", "Finished", "True Completed", "done", "yes")
	cases := map[string]struct {
		facts runFacts
		want  map[string]string
	}{
		"its end is not read yet":                      {facts(passed), pairs("own", "yes")},
		"its end is not read yet, long after":          {facts(held, passed, overdue), pairs()},
		"it had finished":                              {facts(passed, read(runevent.Event{Type: runevent.TypeRunFinished})), finished},
		"it had finished, and its time to start is up": {facts(passed, overdue, read(runevent.Event{Type: runevent.TypeRunFinished})), finished},
		"it had finished, and is cancelled since":      {facts(passed, cancelled, read(runevent.Event{Type: runevent.TypeRunFinished})), finished},
		"it had failed, and is still held": {
			facts(held, passed, read(runevent.Event{Type: runevent.TypeRunFailed, Reason: "MaxTurnsExceeded"})),
			pairs("Accepted", "True Accepted", "Succeeded", "False MaxTurnsExceeded", "Finished", "True MaxTurnsExceeded", "done", "yes", "release", "yes"),
		},
		"its end cannot be read": {
			facts(held, passed, func(f *runFacts) { f.past = Facts{Known: true, Corrupt: true} }),
			pairs("Accepted", "True Accepted", "Succeeded", "False InternalError: the run has ended; its run events, which say how, cannot be read",
				"Finished", "True InternalError", "done", "yes", "release", "yes"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, brief(decideRun(tc.facts))); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecideFinishedRun keeps a finished run for its time.
func TestDecideFinishedRun(t *testing.T) {
	finished := func(ttl *int32, ago time.Duration) func(*runFacts) {
		return func(f *runFacts) {
			at := metav1.NewTime(born)
			f.run.Status.CompletionTime, f.run.Spec.TTLSecondsAfterFinished, f.now = &at, ttl, born.Add(ago)
			f.run.Status.Conditions = []metav1.Condition{{Type: api.ConditionFinished, Status: metav1.ConditionTrue}}
		}
	}
	hour, none := int32(3600), int32(0)
	cases := map[string]struct {
		facts runFacts
		want  map[string]string
	}{
		"without a time to live": {facts(finished(nil, time.Hour)), pairs("done", "yes")},
		"still held":             {facts(held, finished(nil, 0)), pairs("done", "yes", "release", "yes")},
		"before its time":        {facts(finished(&hour, 10*time.Minute)), pairs("done", "yes", "again", "50m0s")},
		"at its time":            {facts(finished(&hour, time.Hour)), pairs("done", "yes", "remove", "yes")},
		"at once":                {facts(finished(&none, 0)), pairs("done", "yes", "remove", "yes")},
		"deleted already":        {facts(held, deletedRun, finished(&none, 0)), pairs("done", "yes", "release", "yes")},
		"whose session is gone":  {facts(finished(&hour, time.Hour), noSession), pairs("done", "yes", "remove", "yes")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, brief(decideRun(tc.facts))); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// TestProgress reports every number of the log.
func TestProgress(t *testing.T) {
	context, refused := session.AssemblyRecord{HistoryMessageCount: 4}, session.AssemblyRecord{}
	context.Budget.ContextWindow, context.Budget.EstimatedInputTokens, context.Budget.Fits = 1000, 125, true
	refused.Budget.ContextWindow, refused.Budget.EstimatedInputTokens = 1000, 2000
	number := func(n int64) *int64 { return &n }
	f := facts(started(func(run *session.RunProgress) {
		run.ToolCalls, run.LastLimit = 4, number(100)
		run.Usage = session.Totals{Requests: 3, RequestsWithoutUsage: 1, Input: number(10)}
		run.LastContext = &cas.Ref{Digest: cas.Of([]byte("context"))}
	}), func(f *runFacts) {
		f.log.Record, f.log.State.StateRef = &context, &cas.Ref{Digest: cas.Of([]byte("state"))}
	})
	got := decideRun(f).status
	dispatched, percent := true, int32(12)
	at := metav1.NewTime(born.Add(10 * time.Second))
	want := &api.AgentRunStatus{
		ObservedGeneration: 1, Ordinal: 1, StartTime: &at, Turn: 2, ModelRequests: 3, RequestsWithoutUsage: 1, ToolCalls: 4, LastSequence: 12,
		Worker: &api.RunWorker{Identity: "w1", Attempt: 1}, Head: cas.Of([]byte("state")).String(), Context: cas.Of([]byte("context")).String(),
		Usage: &api.TokenUsage{Input: number(10)}, InputSources: &api.InputSources{HistoryMessageCount: 4},
		ContextBudget: &api.ContextBudget{
			ContextWindow: 1000, EstimatedInputTokens: 125, Fits: true, UsedPercent: &percent, Dispatched: &dispatched, RequestOutputTokenLimit: number(100),
			Estimator: api.EstimatorHeuristic,
		},
		TraceID:    kube.TraceID(f.run),
		Conditions: got.Conditions,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}

	f.log.Refused = &refused
	f.log.State.Run.Terminal = &runevent.Event{
		Type: runevent.TypeRunFailed, Reason: "ContextBudgetExceeded", Class: "overflow", HTTPStatus: 400, Retryable: true, Detail: &cas.Ref{Digest: cas.Of([]byte("d"))},
	}
	got = decideRun(f).status
	if got.ContextBudget.Fits || *got.ContextBudget.Dispatched || *got.ContextBudget.UsedPercent != 200 || got.InputSources.HistoryMessageCount != 4 {
		t.Errorf("a refused request shows %+v and the sources %+v", got.ContextBudget, got.InputSources)
	}
	failure := &api.RunFailure{Class: "overflow", HTTPStatus: 400, Retryable: true, Detail: cas.Of([]byte("d")).String()}
	if diff := cmp.Diff(failure, got.Failure); diff != "" {
		t.Errorf("failure (-want +got):\n%s", diff)
	}
}

// TestResult names what a finished run ended with, and shows the answer only where the session says so.
func TestResult(t *testing.T) {
	answer := cas.MessageRef{Digest: cas.Of([]byte("answer"))}
	for _, mode := range []api.PreviewMode{api.PreviewOff, api.PreviewOn} {
		f := facts(started(terminal(runevent.Event{Type: runevent.TypeRunFinished, Result: &answer})), func(f *runFacts) {
			f.session.Spec.ResultPreview, f.log.Preview = mode, "hello"
			f.log.State.StateRef = &cas.Ref{Digest: cas.Of([]byte("state"))}
		})
		got := decideRun(f).status
		want := &api.RunResult{Message: answer.Digest.String(), State: cas.Of([]byte("state")).String()}
		if diff := cmp.Diff(want, got.Result); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if preview := map[api.PreviewMode]string{api.PreviewOn: "hello"}[mode]; got.ResultPreview != preview {
			t.Errorf("preview %q with %s, want %q", got.ResultPreview, mode, preview)
		}
	}
}

// TestOrdinals numbers runs in their order, each once.
func TestOrdinals(t *testing.T) {
	run := func(name string, age time.Duration, ordinal int64, finished bool) api.AgentRun {
		r := newRun(name)
		r.CreationTimestamp, r.Status.Ordinal = metav1.NewTime(born.Add(-age)), ordinal
		if finished {
			r.Status.Conditions = []metav1.Condition{{Type: api.ConditionFinished, Status: metav1.ConditionTrue}}
		}
		return *r
	}
	cases := map[string]struct {
		self     api.AgentRun
		siblings []api.AgentRun
		total    int64
		want     int64
	}{
		"the first run":                  {self: run("a", 0, 0, false), want: 1},
		"after others":                   {self: run("c", 0, 0, false), siblings: []api.AgentRun{run("a", 2, 1, false), run("b", 1, 2, true)}, want: 3},
		"after others that were deleted": {self: run("c", 0, 0, false), total: 7, want: 8},
		"it has one":                     {self: run("c", 0, 4, false), total: 9, want: 4},
		"an older one waits for its own": {self: run("b", 0, 0, false), siblings: []api.AgentRun{run("a", time.Second, 0, false)}, want: 0},
		"a younger one has none":         {self: run("a", time.Second, 0, false), siblings: []api.AgentRun{run("b", 0, 0, false)}, want: 1},
		"of the same second, by name":    {self: run("b", 0, 0, false), siblings: []api.AgentRun{run("a", 0, 0, false)}, want: 0},
		"an older one ended without":     {self: run("b", 0, 0, false), siblings: []api.AgentRun{run("a", time.Second, 0, true)}, want: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := runFacts{run: &tc.self, siblings: append(tc.siblings, tc.self), session: readySession()}
			f.session.Status.RunsTotal = tc.total
			if got := f.ordinal(); got != tc.want {
				t.Errorf("ordinal %d, want %d", got, tc.want)
			}
		})
	}
}
