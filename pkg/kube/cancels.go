package kube

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/worker"
)

// Cancels tells workers which of their runs are to end: it follows runs and sessions through the shared cache, so a
// latch that was set while a worker was away is seen as well. A run that the controllers have ended is stopped too.
type Cancels struct {
	reader client.Reader

	mu      sync.Mutex
	watches map[string]*watch // by run UID
}

type watch struct {
	item worker.Item
	end  func(error)
	sent bool
}

// NewCancels registers with the cache. Watch works before the cache has synced; causes then come with the sync.
func NewCancels(ctx context.Context, informers ctrlcache.Cache) (*Cancels, error) {
	c := &Cancels{reader: informers, watches: map[string]*watch{}}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    c.observe,
		UpdateFunc: func(_, now any) { c.observe(now) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			c.deleted(object)
		},
	}
	for _, kind := range []client.Object{&api.AgentRun{}, &api.AgentSession{}} {
		informer, err := informers.GetInformer(ctx, kind)
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return c, nil
}

// Watch implements worker.Cancels.
func (c *Cancels) Watch(item worker.Item, end func(error)) (stop func()) {
	w := &watch{item: item, end: end}
	c.mu.Lock()
	c.watches[item.RunUID] = w
	c.mu.Unlock()
	c.look(item)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.watches[item.RunUID] == w {
			delete(c.watches, item.RunUID)
		}
	}
}

// look judges the objects as the cache has them now. What it cannot read will come as an event.
func (c *Cancels) look(item worker.Item) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	run := &api.AgentRun{}
	if c.reader.Get(ctx, client.ObjectKey{Namespace: item.Namespace, Name: item.RunName}, run) == nil {
		c.observe(run)
	}
	owner := &api.AgentSession{}
	if c.reader.Get(ctx, client.ObjectKey{Namespace: item.Namespace, Name: item.SessionName}, owner) == nil {
		c.observe(owner)
	}
}

func (c *Cancels) observe(object any) {
	switch o := object.(type) {
	case *api.AgentRun:
		switch {
		case o.Spec.Cancel || !o.DeletionTimestamp.IsZero():
			c.end(string(o.UID), agent.ErrCancelled)
		case o.IsFinished():
			c.end(string(o.UID), finished(o))
		}
	case *api.AgentSession:
		if !o.DeletionTimestamp.IsZero() {
			c.endSession(o.Namespace, o.HistoryUID())
		}
	}
}

// deleted judges an object that is gone without having been seen to go.
func (c *Cancels) deleted(object any) {
	switch o := object.(type) {
	case *api.AgentRun:
		c.end(string(o.UID), agent.ErrCancelled)
	case *api.AgentSession:
		c.endSession(o.Namespace, o.HistoryUID())
	}
}

// finished is why a run is to stop that the controllers have ended before they saw it begin.
func finished(run *api.AgentRun) error {
	for _, c := range run.Status.Conditions {
		if c.Type != api.ConditionSucceeded {
			continue
		}
		switch c.Reason {
		case api.RunReasonCancelled:
			return agent.ErrCancelled
		case api.RunReasonSessionDeleted:
			return agent.ErrSessionDeleted
		}
		return &agent.Failure{Reason: c.Reason, Message: "the run was ended before it was seen to begin"}
	}
	return agent.ErrCancelled
}

func (c *Cancels) endSession(namespace, uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.watches {
		if w.item.Namespace == namespace && w.item.SessionUID == uid {
			w.tell(agent.ErrSessionDeleted)
		}
	}
}

func (c *Cancels) end(runUID string, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.watches[runUID]; w != nil {
		w.tell(cause)
	}
}

// tell needs the lock: after a watch was stopped nobody tells it anything.
func (w *watch) tell(cause error) {
	if w.sent {
		return
	}
	w.sent = true
	w.end(cause)
}
