package controllers

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/agentloop/agentloop/api/v1alpha1"
)

func wired(t *testing.T, objects ...client.Object) *wiring {
	t.Helper()
	return &wiring{
		Client: newClient(t, interceptor.Funcs{}, objects...), ctx: t.Context(),
		runs: make(chan event.GenericEvent, 20), sessions: make(chan event.GenericEvent, 20),
	}
}

func woken(requests []reconcile.Request) []string {
	names := []string{}
	for _, request := range requests {
		names = append(names, request.Name)
	}
	slices.Sort(names)
	return names
}

// line are runs of one session: some that have ended, one on the work queue, and more that wait.
func line() []client.Object {
	run := func(name string, ordinal int64, change ...func(*api.AgentRun)) client.Object {
		r := newRun(name)
		r.CreationTimestamp, r.Status.Ordinal = metav1.NewTime(born.Add(time.Duration(ordinal)*time.Second)), ordinal
		for _, c := range change {
			c(r)
		}
		return r
	}
	unnumbered := func(at time.Duration) func(*api.AgentRun) {
		return func(r *api.AgentRun) { r.CreationTimestamp = metav1.NewTime(born.Add(time.Hour + at)) }
	}
	return []client.Object{
		run("ended", 1, finishedAt(0)), run("queued", 2, heldRun), run("next", 3), run("later", 4), run("last", 5),
		run("new", 0, unnumbered(1)), run("newer", 0, unnumbered(2)),
		run("helper", 6, func(r *api.AgentRun) { delegatedTo(r, "helper") }),
		run("other", 1, func(r *api.AgentRun) { r.Spec.SessionRef.Name = "another" }),
	}
}

// TestWhoIsWoken wakes of a session's runs those that a change can move on, however many wait behind them; and whoever
// depends on a provider.
func TestWhoIsWoken(t *testing.T) {
	owner, gone := newSession(), newSession()
	now := metav1.Now()
	gone.DeletionTimestamp = &now
	w := wired(t, append(line(), owner)...)
	summaries, apart := newSession(), newSession()
	summaries.Name, apart.Name = "summaries", "apart"
	summaries.Spec.Model.ProviderRef.Name, apart.Spec.Model.ProviderRef.Name = "big", "big"
	summaries.Spec.Compaction.Model = &api.ModelRef{ProviderRef: api.ProviderRef{Name: "models"}, Model: "demo"}
	users := wired(t, owner, summaries, apart)
	refused := newRun("refused")
	refused.Status = api.AgentRunStatus{StartTime: &now, CompletionTime: &now, ContextBudget: &api.ContextBudget{Provider: "models"}, Conditions: []metav1.Condition{
		{Type: api.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: api.RunReasonProviderAuthFailed}, {Type: api.ConditionFinished, Status: metav1.ConditionTrue},
	}}
	cases := map[string]struct {
		wake func(context.Context, client.Object) []reconcile.Request
		by   client.Object
		want []string
	}{
		"by another run":          {w.siblings, newRun("any"), []string{"helper", "new", "next", "queued"}},
		"by their session":        {w.runsOf, owner, []string{"helper", "new", "next", "queued"}},
		"by its deletion":         {w.runsOf, gone, []string{"helper", "last", "later", "new", "newer", "next", "queued"}},
		"a session by its run":    {sessionOf, newRun("any"), []string{"chat"}},
		"sessions by a provider":  {users.usersOf, newProvider(), []string{"chat", "summaries"}},
		"a provider by a refusal": {refusedBy, refused, []string{"models"}},
		"no provider by a run":    {refusedBy, newRun("any"), []string{}},
		"nobody by anything else": {w.siblings, &corev1.Namespace{}, []string{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, woken(tc.wake(t.Context(), tc.by))); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNewsOfAStream wakes the sessions that continue its history, and their runs.
func TestNewsOfAStream(t *testing.T) {
	adopting, strange := newSession(), newSession()
	adopting.Name, adopting.UID, adopting.Spec.AdoptUID = "adopting", "adopting-uid", "session-uid"
	strange.Name, strange.UID = "strange", "strange-uid"
	w := wired(t, append(line(), newSession(), adopting, strange)...)
	sent := func(from chan event.GenericEvent) []string {
		names := []string{}
		for len(from) > 0 {
			names = append(names, (<-from).Object.GetName())
		}
		slices.Sort(names)
		return names
	}
	w.streamChanged(streamOf("session-uid"))
	if diff := cmp.Diff([]string{"adopting", "chat"}, sent(w.sessions)); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"helper", "new", "next", "queued"}, sent(w.runs)); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	w.streamChanged(streamOf("unknown"))
	if len(w.sessions)+len(w.runs) != 0 {
		t.Error("somebody was woken for a history of nobody")
	}
	w.allSessions()
	if diff := cmp.Diff([]string{"adopting", "chat", "strange"}, sent(w.sessions)); diff != "" {
		t.Errorf("all sessions (-want +got):\n%s", diff)
	}
}

// TestNamespaceCap takes the cap of a namespace from its annotation, and the manager's own for one that has none.
func TestNamespaceCap(t *testing.T) {
	cases := map[string]struct {
		annotation string
		want       int
	}{
		"no annotation": {"", 7}, "a number": {"3", 3}, "not a number": {"many", 7}, "nothing at all": {"0", 7}, "less than that": {"-1", 7},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
			if tc.annotation != "" {
				namespace.Annotations = map[string]string{api.AnnotationMaxConcurrentRuns: tc.annotation}
			}
			if got := wired(t, namespace).namespaceCap(7)(t.Context(), "ns"); got != tc.want {
				t.Errorf("cap %d, want %d", got, tc.want)
			}
		})
	}
	if got := wired(t).namespaceCap(7)(t.Context(), "gone"); got != 7 {
		t.Errorf("cap %d of a namespace that is gone", got)
	}
}
