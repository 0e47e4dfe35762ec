package controllers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/kube"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/worker"
)

// Estimates measures sessions in which nothing happens, in the background and one after another: what the next request
// would take without a new prompt. It asks no model and writes nothing. An estimate holds for one saved state, one
// generation of the session and one of its provider, and one version of each ConfigMap that the session names. Sessions that continue the same history are measured each for itself.
type Estimates struct {
	Log   runevent.Log
	Store cas.Store
	// Config is what a run of the session would work under now.
	Config    func(ctx context.Context, owner *api.AgentSession) (session.RunConfig, error)
	Estimator func(name string) budget.Estimator
	// Calibrations corrects estimates; nil for never.
	Calibrations agent.Calibrations
	Logger       *slog.Logger
	// Notify is called when an estimate is there.
	Notify func(stream runevent.Stream)
	Now    func() time.Time

	mu      sync.Mutex
	entries map[measured]*estimate
	wake    chan measured
}

// measured is what an estimate is of: a stream as one session sees it.
type measured struct {
	runevent.Stream
	owner types.UID
}

// Estimate is what is known of a session's next request.
type Estimate struct {
	// Budget is nil for an empty session, one whose model is not available, and while nothing is known.
	Budget *budget.ContextBudget
	// Known says that it was made or that there is none, Pending that it will be made in a moment, so that it is worth to
	// wait with a report.
	Known, Pending bool
	// Again is when to ask again for one that could not be made; 0 for all others.
	Again time.Duration
}

// estimateKey is what an estimate holds for.
type estimateKey struct {
	state           cas.Digest
	session, target int64
	configMaps      string
}

type estimate struct {
	key   estimateKey
	owner *api.AgentSession
	// asked is when it was asked for, retry when a failed one may be tried again; done says that result holds.
	asked, retry time.Time
	done         bool
	result       Estimate
}

const (
	// estimateTimeout bounds one estimate, estimatePatience is how long others wait for one.
	estimateTimeout  = 20 * time.Second
	estimatePatience = 2 * time.Second
	estimateRetry    = 30 * time.Second
	// maxEstimates is how many wait at a time; further ones are taken up when their sessions are looked at again.
	maxEstimates = 4096
)

// Start implements manager.Runnable. It returns when ctx ends.
func (e *Estimates) Start(ctx context.Context) error {
	e.mu.Lock()
	e.init()
	wake := e.wake
	e.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return nil
		case of := <-wake:
			e.make(ctx, of)
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: only the leader reports.
func (e *Estimates) NeedLeaderElection() bool { return true }

func (e *Estimates) init() {
	if e.entries == nil {
		e.entries, e.wake = map[measured]*estimate{}, make(chan measured, maxEstimates)
	}
}

// Get returns the estimate of a session's next request, and has it made when it is not known. It never waits. owner and
// target are not changed; target is nil when the provider does not exist. configMaps tells one state of the ConfigMaps that
// the session names from another. A nil Estimates knows none.
func (e *Estimates) Get(stream runevent.Stream, owner *api.AgentSession, target *api.ModelProvider, configMaps string, log Facts) Estimate {
	if e == nil {
		return Estimate{Known: true}
	}
	state, of := log.State, measured{stream, owner.UID}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.init()
	if target == nil || !log.Known || log.Corrupt || state.StateRef == nil || state.Live() || log.Messages == 0 {
		delete(e.entries, of)
		return Estimate{Known: log.Known && !log.State.Live()}
	}
	now := e.Now()
	key := estimateKey{state: state.StateRef.Digest, session: owner.Generation, target: target.Generation, configMaps: configMaps}
	entry := e.entries[of]
	if entry == nil || entry.key != key || entry.done && !entry.retry.IsZero() && !now.Before(entry.retry) {
		entry = &estimate{key: key, owner: owner.DeepCopy(), asked: now}
		e.entries[of] = entry
		select {
		case e.wake <- of:
		default: // it is looked at again with its session
			delete(e.entries, of)
		}
	}
	result := entry.result
	result.Pending = !entry.done && now.Sub(entry.asked) < estimatePatience
	if entry.done && !entry.retry.IsZero() {
		result.Again = entry.retry.Sub(now)
	}
	return result
}

// Forget drops what is known of a session.
func (e *Estimates) Forget(namespace, sessionUID string) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for of := range e.entries {
		if of.Namespace == namespace && of.Session == sessionUID {
			delete(e.entries, of)
		}
	}
}

// make measures a session, unless that is done or nobody wants it any more.
func (e *Estimates) make(ctx context.Context, of measured) {
	e.mu.Lock()
	entry := e.entries[of]
	if entry == nil || entry.done {
		e.mu.Unlock()
		return
	}
	owner, key := entry.owner, entry.key
	e.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, estimateTimeout)
	result, err := e.measure(bounded, of.Stream, owner, key)
	cancel()
	if ctx.Err() != nil {
		return
	}
	var waiting *worker.NotReadyError
	result.Known = err == nil || errors.As(err, &waiting) || errors.Is(err, agent.ErrEmptySession)
	if !result.Known && !errors.Is(err, errMoved) {
		e.Logger.Warn("next request not estimated", "namespace", of.Namespace, "session", of.Session, "error", err)
	}
	e.mu.Lock()
	entry.done, entry.result = true, result
	entry.owner = nil
	if err != nil {
		entry.retry = e.Now().Add(estimateRetry)
	}
	e.mu.Unlock()
	e.Notify(of.Stream)
}

// errMoved is returned when the session has moved on meanwhile: it is looked at again for that.
var errMoved = errors.New("the session has moved on")

func (e *Estimates) measure(ctx context.Context, stream runevent.Stream, owner *api.AgentSession, key estimateKey) (_ Estimate, err error) {
	defer contained(e.Logger, stream, &err)
	cfg, err := e.Config(ctx, owner)
	if err != nil {
		return Estimate{}, err
	}
	state, err := agent.LoadState(ctx, e.Log, e.Store, stream)
	switch {
	case err != nil:
		return Estimate{}, err
	case state.Live() || state.StateRef == nil || state.StateRef.Digest != key.state:
		return Estimate{}, errMoved
	}
	idle := agent.Idle{
		Store: e.Store, Stream: stream, State: state, Config: cfg, Admits: kube.Admits(owner),
		Estimator: e.Estimator, Calibrations: e.Calibrations, Logger: e.Logger,
	}
	next, err := idle.Measure(ctx)
	if err != nil {
		return Estimate{}, err
	}
	return Estimate{Budget: &next}, nil
}
