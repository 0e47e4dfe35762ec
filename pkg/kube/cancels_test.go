package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/worker"
)

// objects is a cache with what it was given, whose informers a test drives.
type objects struct {
	informertest.FakeInformers
	client.Reader

	mu       sync.Mutex
	handlers []cache.ResourceEventHandler
}

func (o *objects) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	return o.Reader.Get(ctx, key, into, opts...)
}

func (o *objects) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return o.Reader.List(ctx, into, opts...)
}

type informer struct {
	ctrlcache.Informer
	objects *objects
}

func (i informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.objects.mu.Lock()
	defer i.objects.mu.Unlock()
	i.objects.handlers = append(i.objects.handlers, handler)
	return nil, nil
}

func (o *objects) GetInformer(context.Context, client.Object, ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	return informer{objects: o}, nil
}

func newCancels(t *testing.T, existing ...client.Object) (*Cancels, cache.ResourceEventHandler) {
	t.Helper()
	store := &objects{Reader: fake.NewClientBuilder().WithScheme(testScheme()).WithObjects(existing...).Build()}
	cancels, err := NewCancels(context.Background(), store)
	if err != nil {
		t.Fatal(err)
	}
	if len(store.handlers) != 2 {
		t.Fatalf("%d kinds are followed, want 2", len(store.handlers))
	}
	return cancels, store.handlers[0]
}

var watched = worker.Item{Namespace: "ns", RunUID: "run-uid", RunName: "first.run", SessionUID: "session-uid", SessionName: "chat"}

func watchedRun(change func(*api.AgentRun)) *api.AgentRun {
	run := &api.AgentRun{ObjectMeta: meta("first.run")}
	run.UID, run.Spec.SessionRef.Name = "run-uid", "chat"
	if change != nil {
		change(run)
	}
	return run
}

func watchedSession(change func(*api.AgentSession)) *api.AgentSession {
	owner := &api.AgentSession{ObjectMeta: meta("chat")}
	owner.UID = "session-uid"
	if change != nil {
		change(owner)
	}
	return owner
}

func ended(reason string) func(*api.AgentRun) {
	return func(run *api.AgentRun) {
		run.Status.Conditions = []metav1.Condition{
			{Type: api.ConditionFinished, Status: metav1.ConditionTrue, Reason: reason}, {Type: api.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: reason},
		}
	}
}

// TestCancels tells for each change of an object whether it ends a run, seen before the run is watched and after.
func TestCancels(t *testing.T) {
	deleted := metav1.Now()
	overdue := &agent.Failure{Reason: api.RunReasonQueueDeadlineExceeded}
	cases := map[string]struct {
		object client.Object
		want   error
	}{
		"nothing is asked":    {object: watchedRun(nil)},
		"a cancel":            {object: watchedRun(func(r *api.AgentRun) { r.Spec.Cancel = true }), want: agent.ErrCancelled},
		"a deletion":          {object: watchedRun(func(r *api.AgentRun) { r.DeletionTimestamp, r.Finalizers = &deleted, []string{api.FinalizerRun} }), want: agent.ErrCancelled},
		"the session changes": {object: watchedSession(nil)},
		"the session is deleted": {
			object: watchedSession(func(s *api.AgentSession) {
				s.DeletionTimestamp, s.Finalizers = &deleted, []string{api.FinalizerSession}
			}), want: agent.ErrSessionDeleted,
		},
		"a session that continues the same history is deleted": {
			object: watchedSession(func(s *api.AgentSession) {
				s.UID, s.Spec.AdoptUID = "other", "session-uid"
				s.DeletionTimestamp, s.Finalizers = &deleted, []string{api.FinalizerSession}
			}), want: agent.ErrSessionDeleted,
		},
		"a session of the same name is deleted": {
			object: watchedSession(func(s *api.AgentSession) {
				s.UID, s.DeletionTimestamp, s.Finalizers = "other", &deleted, []string{api.FinalizerSession}
			}),
		},
		"a run of the same name is cancelled": {object: watchedRun(func(r *api.AgentRun) { r.UID, r.Spec.Cancel = "other", true })},
		"the controllers cancelled it":        {object: watchedRun(ended(api.RunReasonCancelled)), want: agent.ErrCancelled},
		"the controllers saw its session go":  {object: watchedRun(ended(api.RunReasonSessionDeleted)), want: agent.ErrSessionDeleted},
		"the controllers found it overdue":    {object: watchedRun(ended(api.RunReasonQueueDeadlineExceeded)), want: overdue},
	}
	for name, tc := range cases {
		check := func(t *testing.T, causes <-chan error) {
			t.Helper()
			var got error
			select {
			case got = <-causes:
			default:
			}
			var failure *agent.Failure
			if errors.As(tc.want, &failure) {
				if !errors.As(got, &failure) || failure.Reason != api.RunReasonQueueDeadlineExceeded {
					t.Errorf("cause %v, want %v", got, tc.want)
				}
				return
			}
			if !errors.Is(got, tc.want) {
				t.Errorf("cause %v, want %v", got, tc.want)
			}
		}
		t.Run(name+", before", func(t *testing.T) {
			cancels, _ := newCancels(t, tc.object)
			causes, stop := follow(cancels, watched)
			defer stop()
			check(t, causes)
		})
		t.Run(name+", after", func(t *testing.T) {
			cancels, handler := newCancels(t)
			causes, stop := follow(cancels, watched)
			defer stop()
			handler.OnAdd(tc.object, false)
			handler.OnUpdate(tc.object, tc.object)
			check(t, causes)
		})
	}
}

// TestCancelsOfWhatIsGone ends runs whose object, or whose session's, is gone without having been seen to go.
func TestCancelsOfWhatIsGone(t *testing.T) {
	cases := map[string]struct {
		object any
		want   error
	}{
		"the run":                         {object: watchedRun(nil), want: agent.ErrCancelled},
		"the run, as it was last seen":    {object: cache.DeletedFinalStateUnknown{Obj: watchedRun(nil)}, want: agent.ErrCancelled},
		"the session":                     {object: watchedSession(nil), want: agent.ErrSessionDeleted},
		"another run":                     {object: watchedRun(func(r *api.AgentRun) { r.UID = "other" })},
		"an object that is not looked at": {object: &api.ModelProvider{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cancels, handler := newCancels(t)
			causes, stop := follow(cancels, watched)
			defer stop()
			handler.OnDelete(tc.object)
			select {
			case got := <-causes:
				if !errors.Is(got, tc.want) {
					t.Errorf("cause %v, want %v", got, tc.want)
				}
			default:
				if tc.want != nil {
					t.Errorf("no cause, want %v", tc.want)
				}
			}
		})
	}
}

// TestCancelsSendOnce never waits for a worker that does not listen, and tells a run's end once.
func TestCancelsSendOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancels, handler := newCancels(t)
		causes, stop := follow(cancels, watched)
		cancelled := watchedRun(func(r *api.AgentRun) { r.Spec.Cancel = true })
		for range 3 {
			handler.OnUpdate(cancelled, cancelled)
		}
		handler.OnDelete(cancelled)
		if got := <-causes; !errors.Is(got, agent.ErrCancelled) {
			t.Errorf("cause %v", got)
		}
		select {
		case got := <-causes:
			t.Errorf("a second cause: %v", got)
		default:
		}
		stop()
		if len(cancels.watches) != 0 {
			t.Errorf("%d watches are left after the release", len(cancels.watches))
		}
		handler.OnUpdate(cancelled, cancelled)
	})
}

// TestReleaseOfAnEarlierWatch leaves the later watch of the same run in place.
func TestReleaseOfAnEarlierWatch(t *testing.T) {
	cancels, handler := newCancels(t)
	_, earlier := follow(cancels, watched)
	causes, later := follow(cancels, watched)
	defer later()
	earlier()
	cancelled := watchedRun(func(r *api.AgentRun) { r.Spec.Cancel = true })
	handler.OnUpdate(cancelled, cancelled)
	select {
	case got := <-causes:
		if !errors.Is(got, agent.ErrCancelled) {
			t.Errorf("cause %v", got)
		}
	default:
		t.Error("the later watch is gone")
	}
}

// TestCancelsAtOnce watches many runs while events of them come in.
func TestCancelsAtOnce(t *testing.T) {
	cancels, handler := newCancels(t)
	var group sync.WaitGroup
	for i := range 50 {
		uid := fmt.Sprintf("run-%d", i)
		watching := make(chan struct{})
		group.Go(func() {
			causes, stop := follow(cancels, worker.Item{Namespace: "ns", RunUID: uid, RunName: "r", SessionUID: "session-uid", SessionName: "chat"})
			defer stop()
			close(watching)
			if got := <-causes; !errors.Is(got, agent.ErrCancelled) {
				t.Errorf("cause %v", got)
			}
		})
		group.Go(func() {
			run := watchedRun(func(r *api.AgentRun) { r.UID, r.Spec.Cancel = types.UID(uid), true })
			<-watching
			handler.OnUpdate(run, run)
		})
	}
	group.Wait()
	if len(cancels.watches) != 0 {
		t.Errorf("%d watches are left", len(cancels.watches))
	}
}

// follow watches a run and returns a channel that gets the cause of its end.
func follow(c *Cancels, item worker.Item) (<-chan error, func()) {
	causes := make(chan error, 2) // a second one is noticed
	return causes, c.Watch(item, func(cause error) { causes <- cause })
}
