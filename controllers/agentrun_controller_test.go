package controllers

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/runevent"
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
		if event := <-w.events.Events; !strings.HasPrefix(event, "Normal Completed run completed in 1 turns") {
			t.Errorf("event %q", event)
		}
		if len(w.events.Events) != 0 {
			t.Errorf("more events: %s", <-w.events.Events)
		}
		writes := w.taken()
		if len(writes)+1 > 10 { // the event is one more
			t.Errorf("%d writes for one run: %v", len(writes), writes)
		}
		time.Sleep(time.Hour)
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
			time.Sleep(2 * time.Second)
		}
		w.settle()
		for i, name := range []string{"c", "a", "b"} {
			if diff := cmp.Diff([]string{name + " run"}, w.queue.names()); diff != "" {
				t.Fatalf("queue before run %d (-want +got):\n%s", i+1, diff)
			}
			if got := w.run(name).Status.Ordinal; got != int64(i+1) {
				t.Errorf("run %s has ordinal %d, want %d", name, got, i+1)
			}
			time.Sleep(20 * time.Second)
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
		time.Sleep(time.Hour)
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
			time.Sleep(time.Second)
		}
		writes := w.taken()
		if len(writes) == 0 || len(writes) > 6 {
			t.Errorf("%d writes in more than a minute of progress: %v", len(writes), writes)
		}
	})
}
