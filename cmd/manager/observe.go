package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/internal/metrics"
	"github.com/agentloop/agentloop/cmd/internal/options"
	"github.com/agentloop/agentloop/cmd/internal/tracing"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// observe makes the metrics, and the tracer when the environment names a receiver.
func (p *parts) observe(ctx context.Context) error {
	p.metrics = metrics.New()
	if err := ctrlmetrics.Registry.Register(p.metrics); err != nil {
		return fmt.Errorf("register the metrics: %w", err)
	}
	var err error
	p.tracer, err = tracing.New(ctx, tracing.Options{Getenv: os.Getenv, Worker: p.workerID, Version: version(), Content: p.traceContent, Logger: p.logger})
	if err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	if p.tracer != nil {
		p.logger.Info("runs are traced", "content", p.traceContent, "modelRequests", p.traceModels)
	}
	return nil
}

// version is that of the program as it was built.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}

// lastSpans is how long the end of the process waits for a receiver.
const lastSpans = 5 * time.Second

// endTraces sends the spans that are left.
func (p *parts) endTraces() {
	if p.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	if err := p.tracer.Shutdown(ctx); err != nil {
		p.logger.Warn("the last spans were not exported", "error", err)
	}
	if dropped := p.tracer.Dropped(); dropped > 0 {
		p.logger.Warn("spans were not taken", "dropped", dropped)
	}
}

// observer is what is told of runs.
func (p *parts) observer() agent.Observer {
	if p.tracer == nil {
		return p.metrics
	}
	return both{p.tracer, p.metrics}
}

// traceFields are what tool servers are told of the trace; nil for nothing.
func (p *parts) traceFields() func(context.Context) map[string]string {
	if p.tracer == nil {
		return nil
	}
	return p.tracer.Fields
}

// modelFields are what providers are told of the trace: they are outside of it, unless somebody says otherwise.
func (p *parts) modelFields() func(context.Context) map[string]string {
	if p.tracer == nil || !p.traceModels {
		return nil
	}
	return p.tracer.Fields
}

// traceParent is the trace of what ctx is part of, for runs that are delegated to; nil for none.
func (p *parts) traceParent() func(context.Context) string {
	if p.tracer == nil {
		return nil
	}
	return p.tracer.TraceParent
}

// both tells two observers; what is measured goes on in the context of the first.
type both struct{ first, second agent.Observer }

// Run implements agent.Observer.
func (b both) Run(ctx context.Context, run *agent.Run) (context.Context, func(agent.Result, error)) {
	ctx, first := b.first.Run(ctx, run)
	ctx, second := b.second.Run(ctx, run)
	return ctx, func(result agent.Result, err error) { second(result, err); first(result, err) }
}

// Request implements agent.Observer.
func (b both) Request(ctx context.Context, request agent.ModelRequest) (context.Context, func(agent.ModelAnswer)) {
	ctx, first := b.first.Request(ctx, request)
	ctx, second := b.second.Request(ctx, request)
	return ctx, func(answer agent.ModelAnswer) { second(answer); first(answer) }
}

// Tool implements agent.Observer.
func (b both) Tool(ctx context.Context, call agent.ToolCall) (context.Context, func(agent.ToolAnswer)) {
	ctx, first := b.first.Tool(ctx, call)
	ctx, second := b.second.Tool(ctx, call)
	return ctx, func(answer agent.ToolAnswer) { second(answer); first(answer) }
}

// Recorded implements agent.Observer.
func (b both) Recorded(run *agent.Run, entry runevent.Entry, before *session.RunProgress) {
	b.first.Recorded(run, entry, before)
	b.second.Recorded(run, entry, before)
}

// Compacted implements agent.Observer.
func (b both) Compacted(run *agent.Run, before, after budget.ContextBudget) {
	b.first.Compacted(run, before, after)
	b.second.Compacted(run, before, after)
}

// backlogInterval is how often NATS is asked for what metrics tell of it.
const backlogInterval = 15 * time.Second

// count has the metrics of the leader collected, and asks NATS for what they tell of it, until ctx ends.
func (p *parts) count(ctx context.Context, mgr ctrl.Manager) {
	select {
	case <-mgr.Elected():
	case <-ctx.Done():
		return
	}
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return
	}
	p.metrics.Count(func(ctx context.Context) (metrics.Counts, bool) { return counts(ctx, mgr.GetClient()) })
	for ctx.Err() == nil {
		p.metrics.SetBacklog(p.backlog(ctx))
		if options.Sleep(ctx, backlogInterval) != nil {
			return
		}
	}
}

// counts counts what the cache has.
func counts(ctx context.Context, reader client.Reader) (metrics.Counts, bool) {
	out := metrics.Counts{Runs: map[string]int{}, Sessions: map[string]int{}}
	runs, sessions := &api.AgentRunList{}, &api.AgentSessionList{}
	if reader.List(ctx, runs, client.UnsafeDisableDeepCopy) != nil || reader.List(ctx, sessions, client.UnsafeDisableDeepCopy) != nil {
		return out, false
	}
	for i := range runs.Items {
		run := &runs.Items[i]
		if run.IsFinished() {
			continue
		}
		state := api.RunReasonQueued // one that nobody has looked at yet
		if c := meta.FindStatusCondition(run.Status.Conditions, api.ConditionSucceeded); c != nil {
			state = c.Reason
		}
		out.Runs[state]++
	}
	for i := range sessions.Items {
		if c := meta.FindStatusCondition(sessions.Items[i].Status.Conditions, api.ConditionReady); c != nil {
			out.Sessions[c.Reason]++
		}
	}
	return out, true
}

// backlog asks NATS; nil when it does not answer.
func (p *parts) backlog(ctx context.Context) *metrics.Backlog {
	ctx, cancel := context.WithTimeout(ctx, backlogInterval)
	defer cancel()
	waiting, held, err := p.queue.Backlog(ctx)
	if err != nil {
		return nil
	}
	used, limit, err := p.log.Fill(ctx)
	if err != nil {
		return nil
	}
	return &metrics.Backlog{Waiting: waiting, Held: held, Used: used, Limit: limit}
}

// newClient makes the manager's client, whose writes of statuses are measured.
func (p *parts) newClient(config *rest.Config, opts client.Options) (client.Client, error) {
	inner, err := client.New(config, opts)
	if err != nil {
		return nil, err
	}
	return &measuredClient{inner, p.metrics}, nil
}

type measuredClient struct {
	client.Client
	metrics *metrics.Metrics
}

// Status implements client.Client.
func (c *measuredClient) Status() client.SubResourceWriter {
	return &measuredStatus{c.Client.Status(), c}
}

type measuredStatus struct {
	client.SubResourceWriter
	of *measuredClient
}

// Patch implements client.SubResourceWriter. Statuses are patched only.
func (s *measuredStatus) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	begun := time.Now()
	err := s.SubResourceWriter.Patch(ctx, object, patch, opts...)
	kind := ""
	if gvk, unknown := s.of.GroupVersionKindFor(object); unknown == nil {
		kind = gvk.Kind
	}
	s.of.metrics.StatusWritten(kind, writeOutcome(err), time.Since(begun).Seconds())
	return err
}

func writeOutcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case apierrors.IsConflict(err):
		return "conflict"
	case apierrors.IsNotFound(err):
		return "not_found"
	}
	return "error"
}
