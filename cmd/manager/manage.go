package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
	_ "time/tzdata" // the zones that the tool "now" knows; images without a system have none

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/internal/engine"
	"github.com/agentloop/agentloop/cmd/internal/metrics"
	"github.com/agentloop/agentloop/cmd/internal/options"
	"github.com/agentloop/agentloop/cmd/internal/tracing"
	"github.com/agentloop/agentloop/controllers"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/agent/natscalibration"
	"github.com/agentloop/agentloop/pkg/agent/natslimits"
	"github.com/agentloop/agentloop/pkg/archive"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/kube"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/pkg/tool/builtin"
	"github.com/agentloop/agentloop/pkg/tool/codemode"
	"github.com/agentloop/agentloop/pkg/tool/mcp"
	"github.com/agentloop/agentloop/pkg/worker"
	"github.com/agentloop/agentloop/pkg/worker/natsqueue"
)

// parts are the adapters that both roles share.
type parts struct {
	config
	logger   *slog.Logger
	nc       *nats.Conn
	log      *natslog.Log
	store    cas.Store
	archives cas.Archives
	// history reads what the log has, and what its archives have, as one.
	history  *archive.Log
	queue    *natsqueue.Queue
	presence *natsqueue.Presence
	// calibrations is what is known of models' real counts.
	calibrations *natscalibration.Calibrations
	// metrics and tracer are told what happens; the latter is nil when nobody wants traces.
	metrics *metrics.Metrics
	tracer  *tracing.Tracer
}

// manage runs the chosen role until ctx ends, then stops in order: workers hand their runs back before the connections
// close.
func manage(ctx context.Context, cfg config) error {
	logger, err := cfg.logging.Logger()
	if err != nil {
		return err
	}
	options.LimitMemory(logger)
	ctrl.SetLogger(logr.FromSlogHandler(logger.Handler()))
	p := &parts{config: cfg, logger: logger}
	if err := p.observe(ctx); err != nil {
		return err
	}
	defer p.endTraces()
	if err := p.open(ctx); err != nil {
		return err
	}
	defer p.nc.Close()
	mgr, err := p.manager()
	if err != nil {
		return err
	}
	// The manager and the background parts outlive ctx until the workers have drained.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var background sync.WaitGroup
	defer background.Wait()
	defer stop()
	background.Go(func() { p.keep("run-event stream", p.log.Run(running)) })
	background.Go(func() { p.keep("work queue", p.queue.Run(running)) })
	if cfg.role != roleWorkers {
		if err := p.controllers(running, mgr); err != nil {
			return err
		}
		background.Go(func() { p.count(running, mgr) })
	}
	limits, err := natslimits.New(p.nc, natslimits.Options{Worker: p.workerID, Replicas: p.nats.Replicas, Lease: p.ackWait, Logger: p.logger})
	if err != nil {
		return err
	}
	defer limits.Close()
	var w *worker.Worker
	if cfg.role != roleControllers {
		if w, err = p.worker(running, mgr, limits); err != nil {
			return err
		}
	}
	failed := make(chan error, 1)
	background.Go(func() { failed <- mgr.Start(running) })
	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	background.Go(func() {
		if err := <-failed; err != nil {
			cancel(fmt.Errorf("manager: %w", err))
			return
		}
		cancel(nil)
	})
	if w != nil && mgr.GetCache().WaitForCacheSync(working) {
		background.Go(func() { p.beat(running, w) })
		if err := w.Run(working); err != nil {
			return err
		}
	}
	<-working.Done()
	if cause := context.Cause(working); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// keep logs why a background part ended.
func (p *parts) keep(name string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		p.logger.Error("background part ended", "part", name, "error", err)
	}
}

// engine makes the clients of model endpoints and tool servers; code is nil where no run is executed.
func (p *parts) engine(code *codemode.Runner) *engine.Engine {
	return &engine.Engine{
		Addresses: mcp.AddressPolicy{AllowLoopback: p.allowLoopback, AllowPrivate: p.allowPrivate, Allowed: p.allowAddresses}, Code: code, Logger: p.logger,
		TraceTools: p.traceFields(), TraceModels: p.modelFields(),
	}
}

func (p *parts) open(ctx context.Context) error {
	var err error
	if p.nc, p.log, err = p.nats.Connect("agentloop-manager", p.logger); err != nil {
		return err
	}
	driver, err := p.config.store.Open(p.logger)
	if err != nil {
		return err
	}
	driver = p.metrics.Driver(driver)
	p.archives = driver
	if p.store, err = options.Remembering(driver); err != nil {
		return err
	}
	if p.history, err = archive.Over(p.log, driver, p.logger); err != nil {
		return err
	}
	p.queue, err = natsqueue.New(p.nc, natsqueue.Options{Replicas: p.nats.Replicas, AckWait: p.ackWait, Logger: p.logger})
	if err != nil {
		return err
	}
	p.presence, err = natsqueue.NewPresence(p.nc, natsqueue.PresenceOptions{Replicas: p.nats.Replicas, TTL: p.presenceTTL, Logger: p.logger})
	if err != nil {
		return err
	}
	if p.calibrations, err = natscalibration.New(p.nc, natscalibration.Options{Replicas: p.nats.Replicas}); err != nil {
		return err
	}
	for _, part := range []struct {
		name   string
		ensure func(context.Context) error
	}{{"run-event stream", p.log.Ensure}, {"work queue", p.queue.Ensure}, {"worker presence", p.presence.Ensure}} {
		p.logger.Info("preparing", "part", part.name)
		if err := part.ensure(ctx); err != nil {
			return fmt.Errorf("prepare the %s on %s: %w", part.name, p.nats.URL, err)
		}
	}
	return nil
}

func (p *parts) manager() (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(api.AddToScheme(scheme))
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("no Kubernetes configuration: outside of a Pod, name a kubeconfig file in KUBECONFIG: %w", err)
	}
	config.UserAgent = "agentloop-manager"
	// The client-side rate limit would queue behind a burst of runs; the API server has its own (priority and fairness).
	config.QPS, config.Burst = -1, -1
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  scheme,
		Logger:                  logr.FromSlogHandler(p.logger.Handler()),
		LeaderElection:          p.leaderElect && p.role != roleWorkers,
		LeaderElectionID:        "agentloop-controllers",
		LeaderElectionNamespace: p.leaderElectNamespace,
		Metrics:                 metricsserver.Options{BindAddress: p.metricsAddress},
		HealthProbeBindAddress:  p.healthAddress,
		PprofBindAddress:        p.pprofAddress,
		NewClient:               p.newClient,
		Cache:                   p.cached(),
		Client:                  client.Options{Cache: &client.CacheOptions{DisableFor: p.uncached()}},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("ping", healthz.Ping)
}

// cached says what is watched: the namespaces that were named, else all of them.
func (p *parts) cached() cache.Options {
	opts := cache.Options{DefaultTransform: controllers.Cached}
	for _, name := range p.namespaces {
		if opts.DefaultNamespaces == nil {
			opts.DefaultNamespaces = map[string]cache.Config{}
		}
		opts.DefaultNamespaces[name] = cache.Config{}
	}
	return opts
}

// uncached are the kinds that are read one by one. A role of a namespace can let its own Namespace be read and never watched.
func (p *parts) uncached() []client.Object {
	kinds := []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}
	if len(p.namespaces) > 0 {
		kinds = append(kinds, &corev1.Namespace{})
	}
	return kinds
}

// alive adapts the presence to what the controllers ask.
type alive struct{ *natsqueue.Presence }

// Alive implements controllers.Presence.
func (a alive) Alive(ctx context.Context) (map[string]int, error) {
	workers, err := a.Presence.Alive(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[string]int, len(workers))
	for id, worker := range workers {
		out[id] = worker.Capacity
	}
	return out, nil
}

func (p *parts) controllers(ctx context.Context, mgr ctrl.Manager) error {
	source := &kube.Source{Reader: mgr.GetClient(), Describe: p.engine(nil).Describe, Now: time.Now}
	opt := controllers.Options{
		Log: p.history, Store: p.store, Changes: p.log, Queue: p.queue, Presence: alive{p.presence}, Logger: p.logger,
		NamespaceCap: p.namespaceCap, ViewerURL: p.viewerURL, HeadsInterval: p.headsInterval, HealthInterval: 5 * time.Second,
		Resync: p.ackWait, Now: time.Now, IdleConfig: source.IdleConfig,
		Estimator: engine.Estimator, Calibrations: p.calibrations, ModelsInterval: p.modelsInterval,
		Fill: p.log.Fill, Archive: p.archive, ArchiveAbove: p.archiveAbove, ArchiveInterval: p.archiveInterval,
		Observer: p.metrics,
	}
	if p.modelsInterval > 0 {
		opt.Listed = source.Listed
	}
	return controllers.Setup(ctx, mgr, opt)
}

// archive archives the ended runs of a session and removes them from the log.
func (p *parts) archive(ctx context.Context, scope cas.Scope) (archive.Result, error) {
	a := &archive.Archiver{Log: p.log, Trimmer: p.log, Store: p.store, Archives: p.archives}
	return a.Session(ctx, scope, true)
}

func (p *parts) worker(ctx context.Context, mgr ctrl.Manager, limits agent.Limits) (*worker.Worker, error) {
	cancels, err := kube.NewCancels(ctx, mgr.GetCache())
	if err != nil {
		return nil, err
	}
	chaos, err := chaosPoint(p.chaos, p.logger)
	if err != nil {
		return nil, err
	}
	live := natsqueue.NewLive(p.nc, p.logger)
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program for code that models write: %w", err)
	}
	clients := p.engine(codemode.NewRunner(codemode.Self(program), codemode.DefaultLimits()))
	p.metrics.SetCapacity(p.maxConcurrentRuns)
	return &worker.Worker{
		Options: worker.Options{
			ID: p.workerID, MaxConcurrentRuns: p.maxConcurrentRuns, Heartbeat: p.heartbeat, DrainTimeout: p.drainTimeout, RetryDelay: 2 * time.Second,
		},
		Queue: p.queue, Cancels: cancels, Logger: p.logger,
		Source: &kube.Source{Reader: mgr.GetAPIReader(), Creator: mgr.GetClient(), Model: clients.Model, Tools: clients.Tools, TraceParent: p.traceParent(), Now: time.Now},
		Live:   func(item worker.Item, event agent.Live) { p.publish(live, item, event) },
		Deps: agent.Deps{
			Observer: p.observer(),
			Log:      p.metrics.Log(p.history), Store: p.store, Now: time.Now, NewID: uuid.NewString, Sleep: options.Sleep, Logger: p.logger, Chaos: chaos,
			Estimator: engine.Estimator, Calibrations: p.calibrations, Limits: limits, BuiltIn: builtin.New(time.Now),
		},
	}, nil
}

// publish tells watchers; that nobody hears it is no fault.
func (p *parts) publish(live *natsqueue.Live, item worker.Item, event agent.Live) {
	if err := live.Send(item.Namespace, item.SessionUID, item.AgentKey, event); err != nil {
		p.logger.Debug("live event not sent", "run", item.RunName, "error", err)
	}
}

// beat says that this worker is alive, until the process ends or drains.
func (p *parts) beat(ctx context.Context, w *worker.Worker) {
	started := time.Now()
	for ctx.Err() == nil {
		info := natsqueue.WorkerInfo{StartedAt: started, Running: w.Running(), Capacity: p.maxConcurrentRuns}
		if err := p.presence.Beat(ctx, p.workerID, info); err != nil && ctx.Err() == nil {
			p.logger.Warn("worker presence not written", "error", err)
		}
		if options.Sleep(ctx, p.presenceTTL/2) != nil {
			break
		}
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := p.presence.Leave(leaving, p.workerID); err != nil {
		p.logger.Debug("worker presence not removed", "error", err)
	}
}
