package controllers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// state is a run's conditions in short.
func state(run *api.AgentRun) string {
	out := ""
	for _, c := range run.Status.Conditions {
		if c.Type == api.ConditionSucceeded {
			out = string(c.Status) + " " + c.Reason
		}
	}
	if run.IsFinished() {
		out += ", finished"
	}
	return out
}

// TestOneRun follows a run from its creation to its end and counts what is written for it.
func TestOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil, newProvider(), newSession())
		w.settle()
		w.taken()
		w.create(newRun("first"))
		w.settle()
		if got := state(w.run("first")); got != "Unknown Queued" {
			t.Errorf("before a worker: %s", got)
		}
		if diff := cmp.Diff([]string{"first run"}, w.queue.names()); diff != "" {
			t.Errorf("queue (-want +got):\n%s", diff)
		}
		pass(queueGrace)
		w.settle()
		if w.session("chat").Status.QueuedRuns != 1 {
			t.Errorf("session: %+v", w.session("chat").Status)
		}
		w.work("first", says("hello"), nil)
		w.settle()
		run := w.run("first")
		if got := state(run); got != "True Completed, finished" {
			t.Errorf("at the end: %s", got)
		}
		if len(run.Finalizers) != 0 || run.Status.Ordinal != 1 || run.Status.Turn != 1 || *run.Status.Usage.Input != 10 || run.Status.ResultPreview != "" {
			t.Errorf("run: finalizers %v, status %+v", run.Finalizers, run.Status)
		}
		owner := w.session("chat").Status
		if owner.ActiveRun != nil || owner.QueuedRuns != 0 || owner.RunsTotal != 1 || owner.HistoryMessageCount != 2 || *owner.Usage.Output != 5 || owner.Head != run.Status.Head {
			t.Errorf("session: %+v", owner)
		}
		var events []string
		for range len(w.events.Events) {
			events = append(events, <-w.events.Events)
		}
		if len(events) == 2 && events[0] == "Normal Started worker w1 began the run" {
			events = events[1:] // not seen when the whole run is seen at once
		}
		if len(events) != 1 || !strings.HasPrefix(events[0], "Normal Completed run completed in 1 turn") {
			t.Errorf("events: %q", events)
		}
		writes := w.taken()
		if len(writes)+2 > 10 { // two events are two more
			t.Errorf("%d writes for one run: %v", len(writes), writes)
		}
		pass(time.Hour)
		w.settle()
		if later := w.taken(); len(later) != 0 {
			t.Errorf("writes without news: %v", later)
		}
	})
}

// TestThreeRuns go one after the other, in order, each once.
func TestThreeRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil, newProvider(), newSession())
		w.settle()
		w.taken()
		for _, name := range []string{"c", "a", "b"} {
			w.create(newRun(name))
			pass(2 * time.Second)
		}
		w.settle()
		for i, name := range []string{"c", "a", "b"} {
			if diff := cmp.Diff([]string{name + " run"}, w.queue.names()); diff != "" {
				t.Fatalf("queue before run %d (-want +got):\n%s", i+1, diff)
			}
			if got := w.run(name).Status.Ordinal; got != int64(i+1) {
				t.Errorf("run %s has ordinal %d, want %d", name, got, i+1)
			}
			pass(20 * time.Second)
			w.settle()
			w.work(name, says("hello"), nil)
			w.settle()
		}
		if got := w.session("chat").Status; got.RunsTotal != 3 || got.HistoryMessageCount != 6 || *got.Usage.Input != 30 {
			t.Errorf("session: %+v", got)
		}
		if writes := w.taken(); len(writes) > 3*10 {
			t.Errorf("%d writes for three runs: %v", len(writes), writes)
		}
	})
}

// TestRunEndedWhileNobodyLooked takes a run's end from the log, with the time at which it ended.
func TestRunEndedWhileNobodyLooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := newRun("first")
		run.Finalizers = []string{api.FinalizerRun}
		run.OwnerReferences = []metav1.OwnerReference{{APIVersion: api.GroupVersion.String(), Kind: "AgentSession", Name: "chat", UID: "session-uid"}}
		started := metav1.Now()
		run.Status = api.AgentRunStatus{Ordinal: 1, StartTime: &started, Conditions: []metav1.Condition{
			{Type: api.ConditionAccepted, Status: metav1.ConditionTrue, Reason: api.RunReasonAccepted},
			{Type: api.ConditionSucceeded, Status: metav1.ConditionUnknown, Reason: api.RunReasonModelCall},
		}}
		w := newWorld(t, nil, nil, newProvider(), newSession(), run)
		w.work("first", says("hello"), nil)
		ended := time.Now()
		pass(time.Hour)
		w.settle()
		got := w.run("first")
		if state(got) != "True Completed, finished" || len(got.Finalizers) != 0 || got.Status.CompletionTime.Sub(ended).Abs() > time.Second {
			t.Errorf("%s, finalizers %v, completed at %s, want %s", state(got), got.Finalizers, got.Status.CompletionTime, ended)
		}
		runs := slices.DeleteFunc(w.taken(), func(write string) bool { return !strings.Contains(write, "agentrun") })
		if diff := cmp.Diff([]string{"patch agentrun/status", "patch agentrun"}, runs); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	})
}

// TestProgressIsThrottled writes progress of a live run no more often than once in fifteen seconds.
func TestProgressIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil, newProvider(), newSession())
		w.create(newRun("first"))
		w.settle()
		stream := mainStream(w.session("chat"))
		writer := runevent.NewWriter(w.log, runevent.WriterConfig{Stream: stream, Now: time.Now, Put: nil})
		append1 := func(event runevent.Event) {
			t.Helper()
			event.Evidence.AgentID, event.Evidence.AgentRunID = "main", "uid-first"
			if _, _, err := writer.Append(w.ctx, event); err != nil {
				t.Fatal(err)
			}
		}
		append1(runevent.Event{Type: runevent.TypeRunStarted, RunName: "first", Attempt: 1, Worker: "w1"})
		w.settle()
		if w.run("first").Status.StartTime == nil {
			t.Fatal("the start is not reported at once")
		}
		w.taken()
		for range 60 {
			append1(runevent.Event{Type: runevent.TypeBody, Text: "x"})
			w.settle()
			pass(time.Second)
		}
		writes := w.taken()
		if len(writes) == 0 || len(writes) > 6 {
			t.Errorf("%d writes in more than a minute of progress: %v", len(writes), writes)
		}
	})
}

// TestRestoredRuns get their status back from the log when the cluster was restored from a backup that knew nothing of
// their ends. None of them is executed again.
func TestRestoredRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil, newProvider(), newSession())
		for _, name := range []string{"a", "b", "c"} {
			w.create(newRun(name))
		}
		w.work("a", says("hello"), nil)
		w.work("b", fails(provider.ClassAuth), nil)
		w.work("c", says("hello"), nil)
		pass(24 * time.Hour) // their time to start is long over
		w.settle()
		for name, want := range map[string]string{"a": "True Completed, finished", "b": "False ProviderAuthFailed, finished", "c": "True Completed, finished"} {
			run := w.run(name)
			if got := state(run); got != want || len(run.Finalizers) != 0 || run.Status.CompletionTime.After(run.CreationTimestamp.Add(time.Minute)) || run.Status.ModelRequests != 1 {
				t.Errorf("run %s: %s, want %s; finalizers %v, status %+v", name, got, want, run.Finalizers, run.Status)
			}
		}
		if names := w.queue.names(); len(names) != 0 {
			t.Errorf("queue %v", names)
		}
		if past := w.heads.streams[mainStream(w.session("chat"))].past; len(past) != 0 {
			t.Errorf("%d ended runs are kept", len(past))
		}
	})
}

// TestRunBegunWhileNobodyHeard does not end a run for lack of a start that a worker began just before, although no
// change of the log was heard since.
func TestRunBegunWhileNobodyHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil, newProvider(), newSession())
		w.create(newRun("first"))
		w.settle()
		w.log.deaf()
		pass(599 * time.Second) // of 600
		w.work("first", says("hello"), nil)
		for range 60 {
			pass(time.Second)
			w.reconcile()
		}
		if got := state(w.run("first")); got != "True Completed, finished" {
			t.Errorf("a run that a worker had begun in time: %s", got)
		}
	})
}

// TestOrphanedRun ends a run whose object was removed by force while it was live, and goes on with the next one.
func TestOrphanedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil, newProvider(), newSession())
		w.create(newRun("first"))
		w.settle()
		writer := runevent.NewWriter(w.log, runevent.WriterConfig{Stream: mainStream(w.session("chat")), Now: time.Now})
		event := runevent.Event{Type: runevent.TypeRunStarted, RunName: "first", Attempt: 1, Worker: "w1", Evidence: runevent.Evidence{AgentID: "main", AgentRunID: "uid-first"}}
		if _, _, err := writer.Append(w.ctx, event); err != nil {
			t.Fatal(err)
		}
		w.settle()
		run := w.run("first")
		w.change(run, func() { run.Finalizers = nil })
		if err := w.client.Delete(w.ctx, run); err != nil {
			t.Fatal(err)
		}
		if _, err := w.runs.Reconcile(w.ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(run)}); err != nil {
			t.Fatal(err)
		}
		w.queue.take("first") // its worker is gone, and so is its item
		w.queue.set(func() { w.queue.alive = nil })
		w.create(newRun("second"))
		w.settle()
		if diff := cmp.Diff([]string{"first seal"}, w.queue.names()); diff != "" {
			t.Fatalf("queue (-want +got):\n%s", diff)
		}
		if c := w.run("second").Status.Conditions[1]; c.Reason != "Queued" || !strings.Contains(c.Message, "run first is live") {
			t.Errorf("the next run: %+v", c)
		}
		execute(t, w.log, w.store, execution{name: "first", uid: "uid-first", history: "session-uid", cause: agent.ErrCancelled})
		w.queue.take("first")
		w.settle()
		if diff := cmp.Diff([]string{"second run"}, w.queue.names()); diff != "" {
			t.Errorf("queue after the seal (-want +got):\n%s", diff)
		}
		if n := len(w.admission.wanted); n != 1 {
			t.Errorf("%d items are wanted, want that of the second run", n)
		}
	})
}

// TestDeletedRunsAreForgotten keeps nothing of runs and sessions that are gone, however they went.
func TestDeletedRunsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil, newProvider(), newSession())
		for i := range 20 {
			run := newRun(fmt.Sprintf("r%d", i))
			w.create(run)
			w.settle()
			run = w.run(run.Name)
			w.change(run, func() { run.Finalizers = nil })
			if err := w.client.Delete(w.ctx, run); err != nil {
				t.Fatal(err)
			}
			if _, err := w.runs.Reconcile(w.ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(run)}); err != nil {
				t.Fatal(err)
			}
		}
		owner := w.session("chat")
		w.change(owner, func() { owner.Finalizers = nil })
		if err := w.client.Delete(w.ctx, owner); err != nil {
			t.Fatal(err)
		}
		if _, err := w.sessions.Reconcile(w.ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(owner)}); err != nil {
			t.Fatal(err)
		}
		if n := len(w.admission.wanted) + len(w.runs.notes) + len(w.heads.streams) + len(w.sessions.histories); n != 0 {
			t.Errorf("%d wanted, %d notes, %d streams, %d histories are kept", len(w.admission.wanted), len(w.runs.notes), len(w.heads.streams), len(w.sessions.histories))
		}
	})
}

// TestEventSaysWhy wants the Event of a run that failed to say what its condition says, for who looks at Events only.
func TestEventSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil, newProvider(), newSession())
		run := newRun("first")
		run.Spec.Skills = []string{"absent"}
		w.create(run)
		w.settle()
		want := "Warning InvalidInput run ended: the session declares no skill absent: add it to spec.skills of the AgentSession"
		if event := <-w.events.Events; !strings.HasPrefix(event, want) {
			t.Errorf("event %q, want %q", event, want)
		}
	})
}

// TestRefusedOutputCap: a run whose request had no output cap, or one that its budget does not cover, says so in its conditions and in an
// Event, whatever the protocol, and its session is ready for the next one.
func TestRefusedOutputCap(t *testing.T) {
	cases := map[string]struct{ body, want string }{
		"omitted": {`{"stream":true}`, "the cap is omitted although only 1000 of the model's 4096 output tokens are reserved"},
		"larger than what is reserved": {
			`{"max_tokens":1001,"max_completion_tokens":1001,"max_output_tokens":1001}`, "of 1001 tokens exceeds the output reserve of 1000",
		},
		"no number": {`{"max_tokens":"1","max_completion_tokens":"1","max_output_tokens":"1"}`, "is not a positive safe integer"},
	}
	for name, tc := range cases {
		for _, protocol := range []provider.API{provider.APIAnthropicMessages, provider.APIOpenAIChat, provider.APIOpenAIResponses} {
			t.Run(name+" "+string(protocol), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, nil, nil, newProvider(), newSession())
					w.create(newRun("first"))
					w.settle()
					execute(t, w.log, w.store, execution{
						name: "first", uid: string(w.run("first").UID), history: w.session("chat").HistoryUID(), model: sends(tc.body),
						change: func(cfg *session.RunConfig) { cfg.Model.API, cfg.MaxOutputTokens = protocol, 1000 },
					})
					w.queue.take("first")
					w.settle()
					status := w.run("first").Status
					succeeded := meta.FindStatusCondition(status.Conditions, api.ConditionSucceeded)
					if succeeded == nil || succeeded.Status != metav1.ConditionFalse || succeeded.Reason != api.RunReasonOutputCapRejected || !strings.Contains(succeeded.Message, tc.want) {
						t.Errorf("condition %+v, want %q", succeeded, tc.want)
					}
					if finished := meta.FindStatusCondition(status.Conditions, api.ConditionFinished); finished == nil || finished.Reason != api.RunReasonOutputCapRejected {
						t.Errorf("condition %+v", finished)
					}
					told := recorded(w.events)
					if len(told) == 0 {
						t.Fatal("no event")
					}
					if event := told[len(told)-1]; !strings.HasPrefix(event, "Warning OutputCapRejected") || !strings.Contains(event, tc.want) {
						t.Errorf("event %q", event)
					}
					if got := w.session("chat").Status; got.ActiveRun != nil || got.HistoryMessageCount != 1 {
						t.Errorf("session %+v", got)
					}
				})
			})
		}
	}
}
