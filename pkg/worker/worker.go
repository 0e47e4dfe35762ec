package worker

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentloop/agentloop/pkg/agent"
)

// Options are a worker's settings.
type Options struct {
	// ID names the worker in run events and status.
	ID string
	// MaxConcurrentRuns bounds the runs that are executed at once.
	MaxConcurrentRuns int
	// Heartbeat is how often a held item is extended; well below the queue's wait.
	Heartbeat time.Duration
	// DrainTimeout is how long runs may go on after Run's context has ended before they are handed back.
	DrainTimeout time.Duration
	// RetryDelay is how long an item that could not be executed now stays away.
	RetryDelay time.Duration
}

// Worker executes runs. Its fields are set once before Run.
type Worker struct {
	Options Options
	Queue   Queue
	Source  Source
	Cancels Cancels
	// Deps are the engine's ports besides Model and Tools, which come with each job.
	Deps agent.Deps
	// Live tells watchers what happens in a run; it must not wait. Nil tells nobody.
	Live   func(item Item, event agent.Live)
	Logger *slog.Logger

	active  sync.WaitGroup
	running atomic.Int64

	mu   sync.Mutex
	held map[string]*held // by run UID
}

// held is a run that this worker executes, with the delivery that it now holds the run by.
type held struct {
	mu       sync.Mutex
	delivery Delivery
}

func (h *held) current() Delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.delivery
}

// take makes the delivery the one that a run is held by. When this worker executes the run already, its signs of life
// came too late for the queue: the run then goes on under the new delivery, and nil is returned.
func (w *Worker) take(delivery Delivery) *held {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held == nil {
		w.held = map[string]*held{}
	}
	uid := delivery.Item().RunUID
	if h := w.held[uid]; h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.delivery = delivery
		return nil
	}
	h := &held{delivery: delivery}
	w.held[uid] = h
	return h
}

// release ends the holding of a run and returns the delivery to settle.
func (w *Worker) release(h *held) Delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	delivery := h.current()
	delete(w.held, delivery.Item().RunUID)
	return delivery
}

// Running is how many runs are executed now.
func (w *Worker) Running() int { return int(w.running.Load()) }

// Run takes and executes items until ctx ends, then drains: runs may finish for DrainTimeout and are handed back after
// that. It returns when no run is left.
func (w *Worker) Run(ctx context.Context) error {
	runs, handBack := context.WithCancelCause(context.WithoutCancel(ctx))
	defer handBack(agent.ErrHandBack)
	slots := make(chan struct{}, w.Options.MaxConcurrentRuns)
	for ctx.Err() == nil {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		delivery, err := w.Queue.Fetch(ctx)
		if err != nil {
			<-slots
			w.fetchFailed(ctx, err)
			continue
		}
		h := w.take(delivery)
		if h == nil {
			<-slots
			w.Logger.Warn("a run that is executed here was delivered again", "run", delivery.Item().RunName)
			continue
		}
		w.active.Add(1)
		w.running.Add(1)
		go func() {
			defer w.active.Done()
			defer w.running.Add(-1)
			defer func() { <-slots }()
			w.handle(runs, h)
		}()
	}
	w.drain(handBack)
	return nil
}

func (w *Worker) fetchFailed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	w.Logger.Warn("work queue not reachable, trying again", "error", err)
	if err := w.Deps.Sleep(ctx, time.Second); err != nil {
		return
	}
}

func (w *Worker) drain(handBack context.CancelCauseFunc) {
	done := make(chan struct{})
	go func() {
		w.active.Wait()
		close(done)
	}()
	timer := time.NewTimer(w.Options.DrainTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return
	case <-timer.C:
		w.Logger.Info("drain time is over, handing runs back")
	}
	handBack(agent.ErrHandBack)
	<-done
}

// handle executes one item, which is kept held and may be cancelled meanwhile. Neither takes a goroutine that waits: there
// are many runs, and most of the time each waits for its model.
func (w *Worker) handle(parent context.Context, h *held) {
	item := h.current().Item()
	logger := w.Logger.With("namespace", item.Namespace, "run", item.RunName, "session", item.SessionName)
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	letGo := w.hold(context.WithoutCancel(parent), h, logger)
	release := w.Cancels.Watch(item, func(cause error) {
		logger.Info("run is ending early", "cause", cause)
		cancel(cause)
	})
	result, err := w.execute(parent, ctx, item)
	release()
	letGo()
	w.settle(parent, w.release(h), result, err, logger)
}

// hold extends the item every Heartbeat until it is let go of, which waits for an extension that is under way.
func (w *Worker) hold(ctx context.Context, h *held, logger *slog.Logger) (letGo func()) {
	ctx, cancel := context.WithCancel(ctx)
	var mu sync.Mutex // held while the item is extended, and to set beat
	var beat *time.Timer
	mu.Lock()
	defer mu.Unlock()
	beat = time.AfterFunc(w.Options.Heartbeat, func() {
		mu.Lock()
		defer mu.Unlock()
		next := time.Now().Add(w.Options.Heartbeat)
		w.extend(ctx, h, logger)
		if ctx.Err() == nil {
			beat.Reset(time.Until(next))
		}
	})
	return func() {
		cancel()
		mu.Lock()
		defer mu.Unlock()
		beat.Stop()
	}
}

// extend tells the queue that the run is at work.
func (w *Worker) extend(ctx context.Context, h *held, logger *slog.Logger) {
	if ctx.Err() != nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, w.Options.Heartbeat)
	defer cancel()
	if err := h.current().InProgress(bounded); err != nil && ctx.Err() == nil {
		logger.Warn("work item not extended", "error", err)
	}
}

// execute runs or seals a run. A cancel ends ctx, and only what is executed: reading and sealing go on under parent, for
// the latch that asks for the seal is the one that cancels. A panic is this run's failure alone: each time that it is
// tried again counts as an attempt.
func (w *Worker) execute(parent, ctx context.Context, item Item) (result agent.Result, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			w.panicked(item, reason)
			result, err = agent.Result{}, errPanic
		}
	}()
	job, err := w.Source.Load(parent, item)
	if err != nil {
		if errors.Is(context.Cause(parent), agent.ErrHandBack) {
			err = agent.ErrHandBack
		}
		return agent.Result{}, err
	}
	deps := w.Deps
	deps.Model, deps.Tools, deps.Approvals, deps.Children = job.Deps.Model, job.Deps.Tools, job.Deps.Approvals, job.Deps.Children
	deps.Quota = job.Deps.Quota
	deps.Live = func(event agent.Live) {
		if w.Live != nil {
			w.Live(item, event)
		}
	}
	job.Run.Worker = w.Options.ID
	if cause := context.Cause(ctx); cause != nil && job.Ending == nil {
		var ended *agent.Failure
		if errors.As(cause, &ended) {
			return agent.Result{}, ErrGone
		}
		job.Ending = cause
	}
	if job.Ending != nil {
		return agent.Seal(parent, deps, job.Run, job.Ending)
	}
	return agent.Execute(ctx, deps, job.Run)
}

// errPanic is a run whose execution met a fault of this program.
var errPanic = errors.New("the execution panicked")

// panicked logs a fault without what may be content: only the runtime's own texts are quoted.
func (w *Worker) panicked(item Item, reason any) {
	fault, aside := reason.(*agent.Panic)
	if !aside {
		fault = &agent.Panic{Reason: reason, Stack: debug.Stack()}
	}
	w.Logger.Error("run panicked", "namespace", item.Namespace, "run", item.RunName, "panic", fault.Error(), "stack", string(fault.Stack))
}

// settle decides what becomes of the item. It is the only place where items are acknowledged.
func (w *Worker) settle(parent context.Context, delivery Delivery, result agent.Result, err error, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), 10*time.Second)
	defer cancel()
	var waiting *NotReadyError
	switch {
	case err == nil:
		logger.Info("run ended", "event", string(result.Event), "reason", result.Reason)
		err = delivery.Ack(ctx)
	case errors.Is(err, ErrGone):
		logger.Info("run is gone, nothing to do")
		err = delivery.Ack(ctx)
	case errors.Is(err, agent.ErrOverdue):
		logger.Info("run was not begun in time, the controllers end it")
		err = delivery.Ack(ctx)
	case errors.Is(err, agent.ErrWaiting):
		logger.Info("run waits without a worker, the controllers wake it up")
		err = delivery.Ack(ctx)
	case errors.Is(err, agent.ErrNotOverdue):
		logger.Info("run lacks something and may be active for longer")
		err = delivery.Nak(ctx, w.Options.RetryDelay)
	case errors.Is(err, agent.ErrLost):
		logger.Info("run was taken over by another worker")
		return
	case errors.Is(err, agent.ErrHandBack):
		logger.Info("run handed back")
		err = delivery.Nak(ctx, 0)
	case errors.As(err, &waiting):
		logger.Info("run not ready", "reason", waiting.Reason)
		err = delivery.Nak(ctx, w.Options.RetryDelay)
	default:
		logger.Warn("run not executed, trying again later", "error", err)
		err = delivery.Nak(ctx, w.Options.RetryDelay)
	}
	if err != nil {
		logger.Warn("work item not settled, it will be delivered again", "error", err)
	}
}
