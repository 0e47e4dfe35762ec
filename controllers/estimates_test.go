package controllers

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/worker"
)

// estimatesWorld is the estimates of one session with a history.
type estimatesWorld struct {
	*headsWorld
	*Estimates
	session *api.AgentSession
	target  *api.ModelProvider
	// configMaps stands for the versions of those that the session names.
	configMaps string
	told       atomic.Int64
	// fails is what the configuration ends with; tries counts how often it was asked for.
	fails error
	tries atomic.Int64
}

// errBoom makes the configuration panic.
var errBoom = errors.New("boom")

func newEstimates(t *testing.T) *estimatesWorld {
	t.Helper()
	w := &estimatesWorld{headsWorld: newHeads(t), session: &api.AgentSession{}, target: &api.ModelProvider{}}
	w.session.Generation, w.target.Generation = 1, 1
	w.Estimates = &Estimates{
		Log: w.log, Store: w.store, Logger: slog.New(slog.DiscardHandler), Now: time.Now, Notify: func(runevent.Stream) { w.told.Add(1) },
		Config: func(context.Context, *api.AgentSession) (session.RunConfig, error) {
			w.tries.Add(1)
			if errors.Is(w.fails, errBoom) {
				panic(w.fails)
			}
			return session.RunConfig{
				Model:    provider.Model{Provider: "p", API: provider.APIAnthropicMessages, ID: "m", ContextWindow: 32000, MaxTokens: 4096},
				Sections: []projection.Section{{Text: "Project instructions: run verification"}},
			}, w.fails
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Estimates.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *estimatesWorld) get() Estimate {
	return w.Estimates.Get(w.stream, w.session, w.target, w.configMaps, w.facts())
}

// settled is the estimate after it had time to be made.
func (w *estimatesWorld) settled() Estimate {
	w.get()
	pass(100 * time.Millisecond)
	return w.get()
}

// TestEstimates measures an idle session once for each of its states, and again when what it depends on changes.
func TestEstimates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEstimates(t)
		if got := w.settled(); got.Budget != nil || got.Pending || !got.Known || w.tries.Load() != 0 {
			t.Errorf("an empty session: %+v", got)
		}
		w.run("first", says("hello"))
		if got := w.get(); got.Known || !got.Pending {
			t.Errorf("at first: %+v", got)
		}
		got := w.settled()
		if !got.Known || got.Pending || got.Budget == nil || got.Budget.SystemTokens != 26 || got.Budget.ContextWindow != 32000 || w.told.Load() != 1 {
			t.Fatalf("estimate %+v, %d notes", got, w.told.Load())
		}
		for range 3 {
			w.settled()
		}
		if w.tries.Load() != 1 {
			t.Errorf("one state was measured %d times", w.tries.Load())
		}
		before := got.Budget.EstimatedInputTokens
		w.run("second", says("hello again"))
		if got = w.settled(); got.Budget == nil || got.Budget.EstimatedInputTokens <= before {
			t.Errorf("after another turn %+v, %d tokens before", got, before)
		}
		w.session.Generation++
		w.settled()
		w.target.Generation++
		w.settled()
		w.configMaps = "uid/2 "
		w.settled()
		if w.tries.Load() != 5 {
			t.Errorf("measured %d times after two turns and three changes", w.tries.Load())
		}
		w.Estimates.Forget(w.stream.Namespace, w.stream.Session)
		w.settled()
		if w.tries.Load() != 6 {
			t.Errorf("measured %d times after it was forgotten", w.tries.Load())
		}
		w.begin("third")
		if got := w.settled(); got.Budget != nil || got.Known || got.Pending {
			t.Errorf("a session with a live run: %+v", got)
		}
	})
}

// TestEstimatesThatFail are tried again after a while, and nobody waits for them.
func TestEstimatesThatFail(t *testing.T) {
	cases := map[string]struct {
		setup func(w *estimatesWorld)
		// known says that there is none, and not only that it could not be told.
		known bool
	}{
		"the model is not declared": {func(w *estimatesWorld) { w.fails = &worker.NotReadyError{Reason: "ModelNotDeclared"} }, true},
		"the API server is away":    {func(w *estimatesWorld) { w.fails = errors.New("away") }, false},
		"measuring panics":          {func(w *estimatesWorld) { w.fails = errBoom }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEstimates(t)
				w.run("first", says("hello"))
				tc.setup(w)
				if got := w.settled(); got.Budget != nil || got.Pending || got.Known != tc.known || got.Again <= 0 || got.Again > estimateRetry {
					t.Errorf("estimate %+v", got)
				}
				w.fails = nil
				pass(estimateRetry)
				if got := w.settled(); got.Budget == nil || w.tries.Load() != 2 {
					t.Errorf("afterwards %+v, %d tries", got, w.tries.Load())
				}
			})
		})
	}
	t.Run("the provider is gone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newEstimates(t)
			w.run("first", says("hello"))
			w.target = nil
			if got := w.settled(); got.Budget != nil || !got.Known || w.tries.Load() != 0 {
				t.Errorf("estimate %+v", got)
			}
		})
	})
}

// TestEstimatesOfOneHistory: sessions that continue the same history are measured each for itself, and once.
func TestEstimatesOfOneHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEstimates(t)
		w.run("first", says("hello"))
		other := w.session.DeepCopy()
		w.session.UID, other.UID, other.Generation = "one", "two", 7
		for range 3 {
			for _, owner := range []*api.AgentSession{w.session, other} {
				w.Estimates.Get(w.stream, owner, w.target, "", w.facts())
				pass(100 * time.Millisecond)
			}
		}
		if w.tries.Load() != 2 || w.told.Load() != 2 {
			t.Errorf("measured %d times, told %d times", w.tries.Load(), w.told.Load())
		}
	})
}

// TestReportWithEstimate waits a moment with the report of a new state for its estimate, and shows none that is not the
// state's own.
func TestReportWithEstimate(t *testing.T) {
	head := cas.Ref{Digest: cas.Of([]byte("new")), Size: 3, MediaType: cas.MediaState}
	measured := Estimate{Known: true, Budget: &budget.ContextBudget{ContextWindow: 1000, EstimatedInputTokens: 500}}
	cases := map[string]struct {
		estimate Estimate
		reported string
		// want is the percentage in the report, -1 for none, and -2 for no report.
		want int32
	}{
		"it is there":                           {measured, "old", 50},
		"it will be there in a moment":          {Estimate{Pending: true}, "old", -2},
		"it takes longer":                       {Estimate{}, "old", -1},
		"it is made anew for the state":         {Estimate{Pending: true}, "new", 10},
		"there is none":                         {Estimate{Known: true}, "new", -1},
		"there is none for the state any more":  {Estimate{Known: true}, "old", -1},
		"it was made anew and has other values": {measured, "new", 50},
		"it could not be told for the state":    {Estimate{Again: time.Second}, "new", 10},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			percent := int32(10)
			f := sessionFacts{session: &api.AgentSession{}, estimate: tc.estimate, log: Facts{Known: true, Messages: 2}}
			f.session.Status.Head, f.session.Status.ContextBudget = cas.Of([]byte(tc.reported)).String(), &api.ContextBudget{UsedPercent: &percent}
			f.log.State.StateRef, f.log.State.Head.Sequence = &head, 9
			got := int32(-2)
			if d := decideSession(f); d.status != nil {
				got = -1
				if b := d.status.ContextBudget; b != nil {
					got = *b.UsedPercent
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("percentage (-want +got):\n%s", diff)
			}
		})
	}
}

// TestChangedConfigMapIsMeasured: ConfigMaps are not watched, so an idle session that names some looks at them again after a while,
// and is measured anew when one has changed.
func TestChangedConfigMapIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := &corev1.ConfigMap{ObjectMeta: named("rules"), Data: map[string]string{"text": "Be brief."}}
		owner := newSession()
		owner.Spec.Instructions = []api.PromptSection{{Name: "project", ConfigMapKeyRef: &api.ConfigMapKeyRef{Name: "rules", Key: "text"}}}
		w := newWorld(t, nil, nil, newProvider(), owner, rules)
		measuredBy := &Estimates{
			Log: w.log, Store: w.store, Logger: slog.New(slog.DiscardHandler), Now: time.Now, Notify: func(runevent.Stream) {},
			Config: func(ctx context.Context, _ *api.AgentSession) (session.RunConfig, error) {
				now := &corev1.ConfigMap{}
				err := w.client.Get(ctx, client.ObjectKeyFromObject(rules), now)
				return session.RunConfig{
					Model:    provider.Model{Provider: "models", API: provider.APIAnthropicMessages, ID: "demo", ContextWindow: 32000, MaxTokens: 4096},
					Sections: []projection.Section{{Text: now.Data["text"]}},
				}, err
			},
		}
		w.sessions.Estimates = measuredBy
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); _ = measuredBy.Start(ctx) }()
		defer func() { cancel(); <-done }()
		w.settle()
		w.create(newRun("first"))
		w.settle()
		w.work("first", says("hello"), nil)
		w.settle()
		before := w.session("chat").Status.ContextBudget
		if before == nil || before.SystemTokens != 19 {
			t.Fatalf("at first: %+v", before)
		}
		again, err := w.sessions.Reconcile(w.ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(owner)})
		if err != nil || again.RequeueAfter != estimateInterval {
			t.Errorf("it looks again after %s, %v", again.RequeueAfter, err)
		}
		w.change(rules, func() { rules.Data["text"] = "Be very brief, and never say the same thing again." })
		w.settle()
		if after := w.session("chat").Status.ContextBudget; after == nil || after.SystemTokens != 29 {
			t.Errorf("after the change: %+v", after)
		}
	})
}
