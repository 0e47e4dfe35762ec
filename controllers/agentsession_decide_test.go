package controllers

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/worker"
)

// sessionAt are the facts of a session in order, with a history of one finished run.
func sessionAt(change ...func(*sessionFacts)) sessionFacts {
	f := sessionFacts{session: newSession(), provider: newProvider(), log: Facts{Known: true, State: session.Empty("main")}, now: born.Add(time.Minute)}
	f.session.Finalizers = []string{api.FinalizerSession}
	f.provider.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: api.ProviderReasonReady}}
	for _, c := range change {
		c(&f)
	}
	return f
}

func terminating(f *sessionFacts) { at := metav1.NewTime(born); f.session.DeletionTimestamp = &at }
func purging(f *sessionFacts) {
	terminating(f)
	f.session.Spec.History.OnDelete = api.DeletePolicyDelete
}
func forced(f *sessionFacts) {
	f.session.Annotations = map[string]string{api.AnnotationForceDelete: api.ValueTrue}
}

// summarised names a provider of its own for summaries.
func summarised(model string) func(*sessionFacts) {
	return func(f *sessionFacts) {
		f.session.Spec.Compaction.Model = &api.ModelRef{ProviderRef: api.ProviderRef{Name: "cheap"}, Model: model}
		f.summaries = f.provider.DeepCopy()
		f.summaries.Name = "cheap"
	}
}
func orphaned(f *sessionFacts) {
	f.log.State.Run, f.orphaned = &session.RunProgress{UID: "uid-gone", Name: "gone"}, true
}
func with(runs ...api.AgentRun) func(*sessionFacts) {
	return func(f *sessionFacts) { f.runs = append(f.runs, runs...) }
}

// runIn makes a run in one of the states that a session looks at.
func runIn(name string, change ...func(*api.AgentRun)) api.AgentRun {
	run := newRun(name)
	run.Status.Conditions = []metav1.Condition{{Type: api.ConditionAccepted, Status: metav1.ConditionTrue, Reason: api.RunReasonAccepted}}
	for _, c := range change {
		c(run)
	}
	return *run
}

func finishedAt(at time.Duration) func(*api.AgentRun) {
	return func(run *api.AgentRun) {
		completed := metav1.NewTime(born.Add(at))
		run.Status.CompletionTime = &completed
		run.Status.Conditions = append(run.Status.Conditions, metav1.Condition{Type: api.ConditionFinished, Status: metav1.ConditionTrue})
	}
}

func startedRun(run *api.AgentRun) { at := metav1.NewTime(born); run.Status.StartTime = &at }
func heldRun(run *api.AgentRun)    { run.Finalizers = []string{api.FinalizerRun} }

// conditionsOf are the conditions in short.
func conditionsOf(status *api.AgentSessionStatus) map[string]string {
	out := map[string]string{}
	for _, c := range status.Conditions {
		out[c.Type] = fmt.Sprintf("%s %s", c.Status, c.Reason)
		if c.Message != "" {
			out[c.Type] += ": " + c.Message
		}
	}
	return out
}

// TestSessionReady says whether runs can start, and if not what is to be done.
func TestSessionReady(t *testing.T) {
	number := func(n int64) *int64 { return &n }
	used := func(f *sessionFacts) { f.log.State.Earlier = session.Totals{Input: number(60), Output: number(40)} }
	cases := map[string]struct {
		facts sessionFacts
		want  string
	}{
		"all in order":                     {sessionAt(), "True Ready"},
		"no provider":                      {sessionAt(func(f *sessionFacts) { f.provider = nil }), "False ProviderNotFound: ModelProvider models does not exist: create it or change spec.model.providerRef"},
		"no such model":                    {sessionAt(func(f *sessionFacts) { f.session.Spec.Model.Model = "other" }), "False ModelNotDeclared: ModelProvider models declares no model other: add it there or change spec.model.model"},
		"a provider that nobody looked at": {sessionAt(func(f *sessionFacts) { f.provider.Status.Conditions = nil }), "False ProviderNotReady: ModelProvider models is not ready: it was not looked at yet"},
		"a provider that is not ready": {
			sessionAt(func(f *sessionFacts) {
				c := &f.provider.Status.Conditions[0]
				c.Status, c.Reason, c.Message = metav1.ConditionFalse, "AuthFailed", "replace it"
			}), "False ProviderNotReady: ModelProvider models is not ready: AuthFailed: replace it",
		},
		"summaries by a model that is there": {sessionAt(summarised("demo")), "True Ready"},
		"summaries by a provider that is not there": {
			sessionAt(summarised("demo"), func(f *sessionFacts) { f.summaries = nil }),
			"False ProviderNotFound: ModelProvider cheap does not exist: create it or change spec.compaction.model.providerRef",
		},
		"summaries by a model that is not declared": {
			sessionAt(summarised("other")), "False ModelNotDeclared: ModelProvider cheap declares no model other: add it there or change spec.compaction.model.model",
		},
		"a missing Secret": {sessionAt(func(f *sessionFacts) {
			f.missing = &verdict{api.SessionReasonSecretNotFound, "Secret t does not exist: create it"}
		}), "False SecretNotFound: Secret t does not exist: create it"},
		"suspended":                {sessionAt(func(f *sessionFacts) { f.session.Spec.Suspend = true }), "False Suspended: spec.suspend is true: queued runs wait"},
		"below its tokens":         {sessionAt(used, func(f *sessionFacts) { f.session.Spec.MaxTotalTokens = 101 }), "True Ready"},
		"at the end of its tokens": {sessionAt(used, func(f *sessionFacts) { f.session.Spec.MaxTotalTokens = 100 }), "False TokenLimitReached: 100 tokens are used, spec.maxTotalTokens is 100: raise it to go on"},
		"the store is away":        {sessionAt(func(f *sessionFacts) { f.storageDown = true }), "False StorageUnavailable: the object store does not answer the manager, or stores nothing: runs wait, and go on when it does"},
		"the stream is away":       {sessionAt(func(f *sessionFacts) { f.streamDown = true }), "False StreamUnavailable: the run-event stream does not answer the manager, or stores nothing: runs wait, and go on when it does"},
		"a damaged history":        {sessionAt(func(f *sessionFacts) { f.log.Corrupt = true }), "False HistoryCorrupt: stored run events or objects are damaged or missing: restore them from a backup"},
		"a history that is shorter than it was": {
			sessionAt(func(f *sessionFacts) { f.session.Status.LastSequence, f.log.State.Head.Sequence = 9, 7 }),
			"False HistoryCorrupt: the run events end at #7, #9 was saved once: restore them from a backup",
		},
		"a history that is shorter than a run saw it": {
			sessionAt(with(runIn("a", func(r *api.AgentRun) { r.Status.LastSequence = 9 })), func(f *sessionFacts) { f.log.State.Head.Sequence = 7 }),
			"False HistoryCorrupt: the run events end at #7, #9 was saved once: restore them from a backup",
		},
		"a history that a subagent's stream is longer than": {
			sessionAt(with(runIn("a", func(r *api.AgentRun) { delegatedTo(r, "helper"); r.Status.LastSequence = 9 })), func(f *sessionFacts) { f.log.State.Head.Sequence = 7 }),
			"True Ready",
		},
		"a history that was not read yet":   {sessionAt(func(f *sessionFacts) { f.session.Status.LastSequence, f.log = 9, Facts{} }), "True Ready"},
		"stores before what the spec names": {sessionAt(func(f *sessionFacts) { f.storageDown, f.provider = true, nil }), "False StorageUnavailable: the object store does not answer the manager, or stores nothing: runs wait, and go on when it does"},
		"deleted, with runs left":           {sessionAt(terminating, with(runIn("a"))), "False Terminating: waiting for 1 run to end"},
		"deleted, being purged":             {sessionAt(purging), "False Terminating: purging the history"},
		"deleted, not purged so far": {
			sessionAt(purging, func(f *sessionFacts) { f.purge.Failed = 1 }),
			`False Terminating: the history could not be purged yet; the annotation agentloop.dev/force-delete: "true" lets the session go without that`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			status := tc.facts.status()
			if got := conditionsOf(status)[api.ConditionReady]; got != tc.want {
				t.Errorf("ready %q, want %q", got, tc.want)
			}
		})
	}
}

// TestSessionCounts tells what the session's runs and its log add up to.
func TestSessionCounts(t *testing.T) {
	number := func(n int64) *int64 { return &n }
	state := session.Empty("main")
	state.Head.Sequence = 12
	state.StateRef = &cas.Ref{Digest: cas.Of([]byte("state"))}
	state.Run = &session.RunProgress{UID: "uid-b", Phase: session.PhaseModelCall}
	state.Run.Usage, state.Earlier = session.Totals{Input: number(2)}, session.Totals{Input: number(3), Output: number(4)}
	logged := Facts{Known: true, State: state, Messages: 5}
	ended := state
	run := *state.Run
	ended.Run = &run
	terminal(runevent.Event{Type: runevent.TypeRunFinished})(ended.Run)
	runs := with(
		runIn("a", finishedAt(0), func(r *api.AgentRun) { r.Status.Ordinal = 1 }), runIn("b", startedRun, func(r *api.AgentRun) { r.Status.Ordinal = 2 }),
		runIn("c", func(r *api.AgentRun) { r.Status.Ordinal = 3 }), runIn("d", func(r *api.AgentRun) { r.Status.Conditions = nil }),
	)
	at := metav1.NewTime(born.Add(30 * time.Second))
	first := sessionAt(runs, func(f *sessionFacts) { f.log, f.viewerURL = logged, "https://viewer/" })
	cases := map[string]struct {
		facts sessionFacts
		want  api.AgentSessionStatus
		extra map[string]string
	}{
		"with a live run, for the first time": {
			facts: first,
			want: api.AgentSessionStatus{
				ActiveRun: &api.ActiveRun{Name: "b", UID: "uid-b"}, QueuedRuns: 1, RunsTotal: 3,
				TrajectoryURL: "https://viewer/projects/ns/sessions/chat/trajectory",
			},
			extra: map[string]string{"Ready": "True Ready", "Active": "True Running"},
		},
		"numbers rest while a run is live": {
			facts: sessionAt(runs, func(f *sessionFacts) { f.log, f.session.Status.LastSequence = logged, 4 }),
			want:  api.AgentSessionStatus{ActiveRun: &api.ActiveRun{Name: "b", UID: "uid-b"}, QueuedRuns: 1, RunsTotal: 3, LastSequence: 4},
			extra: map[string]string{"Ready": "True Ready", "Active": "True Running", "HistoryDurable": "True Saved"},
		},
		"when the log says that the run has ended": {
			facts: sessionAt(runs, func(f *sessionFacts) { f.log, f.session.Status.LastSequence = logged, 4; f.log.State = ended }),
			want: api.AgentSessionStatus{
				QueuedRuns: 1, RunsTotal: 3, LastSequence: 12, HistoryMessageCount: 5, Head: state.StateRef.Digest.String(),
				Usage: &api.TokenUsage{Input: number(5), Output: number(4)}, LastActivityTime: &at,
			},
			extra: map[string]string{"Ready": "True Ready", "Active": "False Idle", "HistoryDurable": "True Saved"},
		},
		"runs of subagents are not active, and wait only before they begin": {
			facts: sessionAt(with(
				runIn("a", startedRun), runIn("b", startedRun, func(r *api.AgentRun) { delegatedTo(r, "helper") }), runIn("c", func(r *api.AgentRun) { delegatedTo(r, "helper") }),
			)),
			want:  api.AgentSessionStatus{ActiveRun: &api.ActiveRun{Name: "a", UID: "uid-a"}, QueuedRuns: 1},
			extra: map[string]string{"Ready": "True Ready", "Active": "True Running"},
		},
		"deleted runs count": {
			facts: sessionAt(func(f *sessionFacts) { f.session.Status.RunsTotal = 8 }), want: api.AgentSessionStatus{RunsTotal: 8},
			extra: map[string]string{"Ready": "True Ready", "Active": "False Idle"},
		},
		"a save that waits": {
			facts: sessionAt(runs, func(f *sessionFacts) { f.storageDown = true }),
			want:  api.AgentSessionStatus{ActiveRun: &api.ActiveRun{Name: "b", UID: "uid-b"}, QueuedRuns: 1, RunsTotal: 3},
			extra: map[string]string{
				"Ready": "False StorageUnavailable: the object store does not answer the manager, or stores nothing: runs wait, and go on when it does", "Active": "True Running",
				"HistoryDurable": "False PendingSave: a save is being tried again; the run waits for it",
			},
		},
		"a stream that fills": {
			facts: sessionAt(func(f *sessionFacts) { f.log, f.session.Status.LastSequence, f.streamFilling = Facts{}, 4, true }), want: api.AgentSessionStatus{LastSequence: 4},
			extra: map[string]string{
				"Ready": "True Ready", "Active": "False Idle",
				"HistoryDurable": "True StreamFilling: the run-event stream is nearly full: a full one takes no more events, and runs wait",
			},
		},
		"a history that has lost its end: what was known of it stays": {
			facts: sessionAt(func(f *sessionFacts) {
				f.log.State, f.log.Messages = ended, 5
				f.session.Status.LastSequence, f.session.Status.HistoryMessageCount, f.session.Status.Head = 20, 9, "sha256:later"
			}),
			want: api.AgentSessionStatus{LastSequence: 20, HistoryMessageCount: 9, Head: "sha256:later"},
			extra: map[string]string{
				"Ready": "False HistoryCorrupt: the run events end at #12, #20 was saved once: restore them from a backup", "Active": "False Idle", "HistoryDurable": "True Saved",
			},
		},
		"a history that is not read": {
			facts: sessionAt(func(f *sessionFacts) { f.log = Facts{}; f.session.Status.LastSequence = 4 }), want: api.AgentSessionStatus{LastSequence: 4},
			extra: map[string]string{"Ready": "True Ready", "Active": "False Idle", "HistoryDurable": "True Saved"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := tc.facts.status()
			if diff := cmp.Diff(tc.extra, conditionsOf(got)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			tc.want.Conditions, tc.want.ObservedGeneration, tc.want.StorageUID = got.Conditions, 1, "session-uid"
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			again := tc.facts
			again.session = again.session.DeepCopy()
			again.session.Status, again.now = *got, again.now.Add(time.Hour)
			if diff := cmp.Diff(got, again.status()); diff != "" {
				t.Errorf("a second look at the same facts says something else (-first +second):\n%s", diff)
			}
		})
	}
}

// TestSessionActs tells what is done about a session besides its status.
func TestSessionActs(t *testing.T) {
	short, ttl := int32(1), int32(60)
	keepOne := func(f *sessionFacts) { f.session.Spec.History.KeepRuns = &short }
	purged := func(f *sessionFacts) { f.purge.Done = true }
	cases := map[string]struct {
		facts sessionFacts
		want  map[string]string
	}{
		"held from the first look":                    {sessionAt(func(f *sessionFacts) { f.session.Finalizers = nil }), pairs("hold", "yes", "status", "yes")},
		"held already":                                {sessionAt(), pairs("status", "yes")},
		"looked at again while something is missing":  {sessionAt(func(f *sessionFacts) { f.missing = &verdict{"SecretNotFound", "m"} }), pairs("status", "yes", "again", "10s")},
		"deleted, its history kept":                   {sessionAt(terminating), pairs("letGo", "yes")},
		"deleted, with a live run":                    {sessionAt(terminating, with(runIn("a", heldRun))), pairs("status", "yes")},
		"deleted, with a run that is still held":      {sessionAt(terminating, with(runIn("a", heldRun, finishedAt(0)))), pairs("status", "yes")},
		"a run is live in the log without its object": {sessionAt(orphaned), pairs("status", "yes", "seal", "gone (uid-gone)")},
		"deleted, with such a run":                    {sessionAt(terminating, orphaned), pairs("status", "yes", "seal", "gone (uid-gone)")},
		"to be purged, with such a run":               {sessionAt(purging, orphaned), pairs("status", "yes", "seal", "gone (uid-gone)")},
		"its namespace ends, with such a run":         {sessionAt(terminating, orphaned, func(f *sessionFacts) { f.namespaceEnding = true }), pairs("status", "yes", "seal", "gone (uid-gone)")},
		"its namespace ends while the stream is away": {
			sessionAt(terminating, orphaned, func(f *sessionFacts) { f.namespaceEnding, f.streamDown = true, true }), pairs("letGo", "yes", "seal", "gone (uid-gone)"),
		},
		"such a run in a history that has lost its end is left alone": {
			sessionAt(orphaned, func(f *sessionFacts) { f.session.Status.LastSequence = 9 }), pairs("status", "yes"),
		},
		"deleted, with such a run in such a history": {
			sessionAt(terminating, orphaned, func(f *sessionFacts) { f.session.Status.LastSequence = 9 }), pairs("letGo", "yes"),
		},
		"forced to go with such a run":              {sessionAt(terminating, forced, orphaned), pairs("letGo", "yes", "seal", "gone (uid-gone)")},
		"deleted, its runs settled":                 {sessionAt(terminating, with(runIn("a", finishedAt(0)))), pairs("letGo", "yes")},
		"deleted, its history to be purged":         {sessionAt(purging), pairs("purge", "yes", "status", "yes")},
		"deleted, to be purged, with a live run":    {sessionAt(purging, with(runIn("a"))), pairs("status", "yes")},
		"deleted, its history purged":               {sessionAt(purging, purged), pairs("letGo", "yes")},
		"deleted, another session has the history":  {sessionAt(purging, func(f *sessionFacts) { f.shared = true }), pairs("letGo", "yes")},
		"forced to go with a live run":              {sessionAt(terminating, forced, with(runIn("a"))), pairs("letGo", "yes")},
		"forced to go without a purge":              {sessionAt(purging, forced), pairs("letGo", "yes", "lost", "the annotation agentloop.dev/force-delete lets the session go")},
		"forced, but not deleted":                   {sessionAt(forced), pairs("status", "yes")},
		"a namespace that ends waits for a purge":   {sessionAt(purging, func(f *sessionFacts) { f.namespaceEnding, f.purge.Failed = true, 2 }), pairs("purge", "yes", "status", "yes")},
		"but not for ever":                          {sessionAt(purging, func(f *sessionFacts) { f.namespaceEnding, f.purge.Failed = true, 3 }), pairs("letGo", "yes", "lost", "the namespace is being deleted and the stores do not answer")},
		"a session alone waits as long as it takes": {sessionAt(purging, func(f *sessionFacts) { f.purge.Failed = 300 }), pairs("purge", "yes", "status", "yes")},
		"deleted and let go already":                {sessionAt(terminating, func(f *sessionFacts) { f.session.Finalizers = nil }), pairs()},
		"runs beyond those that are kept": {
			sessionAt(keepOne, with(runIn("new", finishedAt(3)), runIn("old", finishedAt(1)), runIn("older", finishedAt(0)), runIn("live"))),
			pairs("status", "yes", "expired", "older old"),
		},
		"runs with a time of their own are not counted": {
			sessionAt(keepOne, with(runIn("new", finishedAt(3)), runIn("own", finishedAt(0), func(r *api.AgentRun) { r.Spec.TTLSecondsAfterFinished = &ttl }))),
			pairs("status", "yes"),
		},
		"runs that are being deleted are not counted": {
			sessionAt(keepOne, with(runIn("new", finishedAt(3)), runIn("going", finishedAt(0), func(r *api.AgentRun) { at := metav1.NewTime(born); r.DeletionTimestamp = &at }))),
			pairs("status", "yes"),
		},
		"runs that ended in the same second, by their order": {
			sessionAt(keepOne, with(runIn("b", finishedAt(0), func(r *api.AgentRun) { r.Status.Ordinal = 2 }), runIn("a", finishedAt(0), func(r *api.AgentRun) { r.Status.Ordinal = 1 }))),
			pairs("status", "yes", "expired", "a"),
		},
		"a subagent's run is kept with its parent": {
			sessionAt(keepOne, with(runIn("parent", finishedAt(3)), runIn("child", finishedAt(0), func(r *api.AgentRun) { delegatedTo(r, "helper") }))),
			pairs("status", "yes"),
		},
		"a subagent's run goes with its parent": {
			sessionAt(keepOne, with(runIn("child", finishedAt(0), func(r *api.AgentRun) { delegatedTo(r, "helper") }))), pairs("status", "yes", "expired", "child"),
		},
		"all runs are kept": {sessionAt(func(f *sessionFacts) { f.session.Spec.History.KeepRuns = nil }, with(runIn("a", finishedAt(0)))), pairs("status", "yes")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decideSession(tc.facts)
			got := map[string]string{"lost": d.lost}
			for key, set := range map[string]bool{"hold": d.hold, "letGo": d.letGo, "purge": d.purge, "status": d.status != nil} {
				if set {
					got[key] = "yes"
				}
			}
			if d.requeue > 0 {
				got["again"] = d.requeue.String()
			}
			for _, run := range d.expired {
				if got["expired"] != "" {
					got["expired"] += " "
				}
				got["expired"] += run.Name
			}
			if item := d.seal; item != nil {
				got["seal"] = fmt.Sprintf("%s (%s)", item.RunName, item.RunUID)
				if item.Kind != worker.KindSeal || item.SessionUID != "session-uid" || item.SessionName != "chat" || item.Namespace != "ns" || item.AgentKey != "main" {
					t.Errorf("seal %+v", item)
				}
			}
			if got["lost"] == "" {
				delete(got, "lost")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// TestQueuedRunsAreCountedLate reports a run that was just made only together with something else, or when it still waits
// after a while.
func TestQueuedRunsAreCountedLate(t *testing.T) {
	cases := map[string]struct {
		age    time.Duration
		change func(*sessionFacts)
		want   bool
	}{
		"a new run":                      {age: time.Second},
		"one that waits":                 {age: queueGrace, want: true},
		"a new run, and another news":    {age: time.Second, change: func(f *sessionFacts) { f.session.Generation++ }, want: true},
		"a new run in a deleted session": {age: time.Second, change: deletedNow, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := sessionAt(with(runIn("a"), runIn("b")))
			f.session.Finalizers = []string{api.FinalizerSession}
			f.session.Status = *decideSession(f).status
			f.session.Status.QueuedRuns--
			for i := range f.runs {
				f.runs[i].CreationTimestamp = metav1.NewTime(f.now.Add(-time.Hour))
			}
			f.runs[0].CreationTimestamp = metav1.NewTime(f.now.Add(-tc.age))
			if tc.change != nil {
				tc.change(&f)
			}
			d := decideSession(f)
			if got := d.status != nil; got != tc.want {
				t.Errorf("reported %v, want %v", got, tc.want)
			}
			if !tc.want && d.requeue != queueGrace-tc.age {
				t.Errorf("looked at again after %s", d.requeue)
			}
		})
	}
}

func deletedNow(f *sessionFacts) {
	at := metav1.NewTime(f.now)
	f.session.DeletionTimestamp = &at
}
