package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
)

// observer sees every change of sessions and runs, by namespace.
type observer struct {
	turns   int
	changed chan struct{}
	// stop ends it: an API server that is asked to end waits for those who watch.
	stop func()

	mu   sync.Mutex
	seen map[string]*seen
}

// seen is what was observed in one namespace.
type seen struct {
	ready, ended map[types.UID]bool
	// runStatus and sessionStatus are the largest status objects so far, in bytes of JSON.
	runStatus, sessionStatus int
	// wrong is set when something is not as it should be.
	wrong error
}

// observe follows sessions and runs until it is stopped.
func observe(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, turns int) (*observer, error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	o := &observer{turns: turns, changed: make(chan struct{}, 1), seen: map[string]*seen{}, stop: func() {
		cancel()
		<-done
	}}
	follower, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		cancel()
		return nil, err
	}
	go func() {
		defer close(done)
		if err := follower.Start(ctx); err != nil {
			o.fail(err)
		}
	}()
	if err := o.follow(ctx, follower); err != nil {
		o.stop()
		return nil, err
	}
	return o, nil
}

func (o *observer) follow(ctx context.Context, follower cache.Cache) error {
	for _, object := range []client.Object{&api.AgentRun{}, &api.AgentSession{}} {
		informer, err := follower.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: o.look, UpdateFunc: func(_, now any) { o.look(now) }})
		if err != nil {
			return err
		}
	}
	if !follower.WaitForCacheSync(ctx) {
		return errors.New("sessions and runs cannot be followed")
	}
	return nil
}

func (o *observer) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.seen {
		s.wrong = err
	}
	o.poke()
}

func (o *observer) poke() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

func (o *observer) look(object any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch x := object.(type) {
	case *api.AgentRun:
		o.of(x.Namespace).run(x, o.turns)
	case *api.AgentSession:
		o.of(x.Namespace).session(x)
	}
	o.poke()
}

func (o *observer) of(namespace string) *seen {
	if o.seen[namespace] == nil {
		o.seen[namespace] = &seen{ready: map[types.UID]bool{}, ended: map[types.UID]bool{}}
	}
	return o.seen[namespace]
}

func (s *seen) run(run *api.AgentRun, turns int) {
	raw, err := json.Marshal(run.Status)
	if err != nil {
		s.wrong = err
		return
	}
	s.runStatus = max(s.runStatus, len(raw))
	if !run.IsFinished() {
		return
	}
	s.ended[run.UID] = true
	if !meta.IsStatusConditionTrue(run.Status.Conditions, api.ConditionSucceeded) || int(run.Status.Turn) != turns {
		s.wrong = fmt.Errorf("run %s did not end as it should: %s", run.Name, raw)
	}
}

func (s *seen) session(session *api.AgentSession) {
	raw, err := json.Marshal(session.Status)
	if err != nil {
		s.wrong = err
		return
	}
	s.sessionStatus = max(s.sessionStatus, len(raw))
	if meta.IsStatusConditionTrue(session.Status.Conditions, api.ConditionReady) {
		s.ready[session.UID] = true
	}
}

// wait returns once done says so of what was seen in the namespace, with the largest status objects.
func (o *observer) wait(ctx context.Context, namespace string, done func(*seen) bool) (runStatus, sessionStatus int, err error) {
	for {
		o.mu.Lock()
		s := o.of(namespace)
		runStatus, sessionStatus, err = s.runStatus, s.sessionStatus, s.wrong
		ready, ended, finished := len(s.ready), len(s.ended), done(s)
		o.mu.Unlock()
		if err != nil || finished {
			return runStatus, sessionStatus, err
		}
		select {
		case <-o.changed:
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("%d sessions are ready and %d runs have ended: %w", ready, ended, ctx.Err())
		}
	}
}
