package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// runMetrics are what workers tell of runs.
type runMetrics struct {
	capacity, executing prometheus.Gauge
	started, ended      *prometheus.CounterVec
	wait                prometheus.Histogram
	duration            *prometheus.HistogramVec
	takeovers           prometheus.Counter
	handbacks           *prometheus.CounterVec
	rejections          *prometheus.CounterVec
	compactions         prometheus.Counter
	saved               prometheus.Counter
	recoveries, waits   prometheus.Counter
	approvals           *prometheus.CounterVec
}

func newRuns(m *Metrics) runMetrics {
	return runMetrics{
		capacity:  gauge(m, "agentloop_worker_capacity_runs", "Runs that this worker executes at most at once."),
		executing: gauge(m, "agentloop_worker_runs", "Runs that this worker executes now."),
		started:   counters(m, "agentloop_runs_started_total", "Runs that a worker began, each counted once.", "operation"),
		ended:     counters(m, "agentloop_runs_ended_total", "Runs that a worker brought to their end, by the reason of their Succeeded condition.", "operation", "outcome", "reason"),
		wait:      histogram(m, "agentloop_run_queue_wait_seconds", "Time from the creation of a run's object to its begin.", runTimes),
		duration: histograms(m, "agentloop_run_duration_seconds",
			"Time from a run's begin to its end, without the time that it waited for people or for runs that it delegated to.", runTimes, "operation", "outcome"),
		takeovers: counter(m, "agentloop_run_takeovers_total", "Runs that this worker took over from one that was lost."),
		handbacks: counters(m, "agentloop_run_handbacks_total", "Runs that this worker gave back: because it stops, or because they wait without a worker.", "reason"),
		rejections: counters(m, "agentloop_budget_rejections_total",
			"Model requests that were not sent: they did not fit the context window, declared a larger output cap than was reserved, or a token limit was reached.", "reason"),
		compactions: counter(m, "agentloop_compactions_total", "Saved compactions."),
		saved:       counter(m, "agentloop_compaction_saved_tokens_total", "Estimated input tokens by which requests became smaller when their history was compacted."),
		recoveries:  counter(m, "agentloop_context_recoveries_total", "Requests that the provider found too long although their estimate fit, and that were compacted and sent again."),
		waits:       counter(m, "agentloop_model_request_waits_total", "Model requests that had to wait for their turn under their provider's limits for longer than a moment."),
		approvals:   counters(m, "agentloop_approvals_total", "Tool calls that people were asked about, and what became of them.", "decision"),
	}
}

// SetCapacity says how many runs this worker executes at most.
func (m *Metrics) SetCapacity(runs int) { m.runs.capacity.Set(float64(runs)) }

// Run implements agent.Observer.
func (m *Metrics) Run(ctx context.Context, _ *agent.Run) (context.Context, func(agent.Result, error)) {
	m.runs.executing.Inc()
	return ctx, func(agent.Result, error) { m.runs.executing.Dec() }
}

// Recorded implements agent.Observer.
func (m *Metrics) Recorded(run *agent.Run, entry runevent.Entry, before *session.RunProgress) {
	event := &entry.Event
	switch event.Type {
	case runevent.TypeRunStarted:
		m.started(run, event.Evidence.RecordedAt, before)
	case runevent.TypeRunFinished, runevent.TypeRunFailed, runevent.TypeRunCancelled:
		m.ended(run, event, before)
	case runevent.TypeRunHandedBack:
		reason := reasonStopping
		if event.Reason != "" {
			reason = among(waits, event.Reason)
		}
		m.runs.handbacks.WithLabelValues(reason).Inc()
	case runevent.TypeModelRejected:
		if event.Reason == agent.ReasonOutputCapRejected {
			m.runs.rejections.WithLabelValues(event.Reason).Inc()
		}
	case runevent.TypeMCPAudit:
		m.nested(event)
	case runevent.TypeRecord:
		m.evidence(event)
	}
}

func (m *Metrics) started(run *agent.Run, at time.Time, before *session.RunProgress) {
	if before == nil || before.UID != run.UID {
		m.runs.started.WithLabelValues(among(operations, run.Operation)).Inc()
		if !run.Queued.IsZero() {
			m.runs.wait.Observe(max(0, at.Sub(run.Queued).Seconds()))
		}
		return
	}
	if !before.HandedBack {
		m.runs.takeovers.Inc()
	}
}

// outcomes are the words for how runs end.
var outcomes = map[runevent.Type]string{
	runevent.TypeRunFinished: "finished", runevent.TypeRunFailed: "failed", runevent.TypeRunCancelled: "cancelled",
}

func (m *Metrics) ended(run *agent.Run, event *runevent.Event, before *session.RunProgress) {
	operation, outcome := among(operations, run.Operation), outcomes[event.Type]
	m.runs.ended.WithLabelValues(operation, outcome, among(endings, event.Reason)).Inc()
	if rejections[event.Reason] {
		m.runs.rejections.WithLabelValues(event.Reason).Inc()
	}
	if before == nil || before.UID != run.UID {
		return
	}
	at := event.Evidence.RecordedAt
	active := at.Sub(before.StartedAt) - before.Waited(at)
	m.runs.duration.WithLabelValues(operation, outcome).Observe(max(0, active.Seconds()))
}

func (m *Metrics) evidence(event *runevent.Event) {
	switch event.Kind {
	case runevent.KindContextRecovery:
		m.runs.recoveries.Inc()
	case runevent.KindRequestWaiting:
		m.runs.waits.Inc()
	case runevent.KindApproval:
		m.runs.approvals.WithLabelValues(among(decisions, string(event.Decision))).Inc()
	}
}

// Compacted implements agent.Observer.
func (m *Metrics) Compacted(_ *agent.Run, before, after budget.ContextBudget) {
	m.runs.compactions.Inc()
	m.runs.saved.Add(float64(max(0, before.InputTokens()-after.InputTokens())))
}
