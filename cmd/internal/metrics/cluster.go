package metrics

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentloop/agentloop/controllers"
)

// clusterMetrics are what the controllers tell. Only the leader's are of use, and only it has them.
type clusterMetrics struct {
	refused *prometheus.CounterVec
	writes  *prometheus.HistogramVec
	leader  *leader
}

func newCluster(m *Metrics) clusterMetrics {
	l := newLeader()
	m.collectors = append(m.collectors, l)
	return clusterMetrics{
		refused: counters(m, "agentloop_runs_refused_total", "Runs that ended without a worker having begun them.", "reason"),
		writes:  histograms(m, "agentloop_status_write_duration_seconds", "Time that the API server took to store a status, by kind of object.", shortTimes, "kind", "outcome"),
		leader:  l,
	}
}

// Refused implements controllers.Observer.
func (m *Metrics) Refused(reason string) {
	m.cluster.refused.WithLabelValues(among(endings, reason)).Inc()
}

// Watch implements controllers.Observer.
func (m *Metrics) Watch(vitals func() controllers.Vitals) { m.cluster.leader.vitals.Store(&vitals) }

var _ controllers.Observer = (*Metrics)(nil)

// kinds are those of the objects that have a status.
var kinds = setOf("AgentRun", "AgentSession", "ModelProvider", "ToolApproval")

// StatusWritten is told of a write of a status: the object's kind, how long it took in seconds, and ok, conflict, not_found or
// error.
func (m *Metrics) StatusWritten(kind, outcome string, seconds float64) {
	m.cluster.writes.WithLabelValues(among(kinds, kind), outcome).Observe(seconds)
}

// Counts are how many objects there are: live runs by where they are, sessions by the reason of their Ready condition. A
// reason that is not known counts as another one.
type Counts struct{ Runs, Sessions map[string]int }

// Backlog is what NATS tells: items of the work queue that wait for a worker and that are held by one, the bytes of the
// run-event log, and how many it may have, 0 for no limit.
type Backlog struct{ Waiting, Held, Used, Limit int64 }

// Count has the leader's metrics collected. counts reads the cache and says whether this process leads.
func (m *Metrics) Count(counts func(context.Context) (Counts, bool)) {
	m.cluster.leader.counts.Store(&counts)
}

// SetBacklog keeps what NATS told last; nil when it did not answer.
func (m *Metrics) SetBacklog(backlog *Backlog) { m.cluster.leader.backlog.Store(backlog) }

// leader collects what is known of the cluster, at the time of the scrape.
type leader struct {
	vitals  atomic.Pointer[func() controllers.Vitals]
	counts  atomic.Pointer[func(context.Context) (Counts, bool)]
	backlog atomic.Pointer[Backlog]

	runs, sessions, unread, oldest, available, items, used, limit *prometheus.Desc
}

func newLeader() *leader {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &leader{
		runs:      desc("agentloop_runs", "Runs that have not ended, by where they are: the reason of their Succeeded condition. Told by the leader.", "state"),
		sessions:  desc("agentloop_sessions", "Sessions by the reason of their Ready condition. Told by the leader.", "reason"),
		unread:    desc("agentloop_log_unread_streams", "Run-event streams with entries that the controllers have not read yet. Told by the leader."),
		oldest:    desc("agentloop_log_unread_oldest_seconds", "For how long the first of them has had such entries; a live run's progress is read every five seconds at most. Told by the leader."),
		available: desc("agentloop_store_available", "1 when the probes of the object store (objects) or the run-event log (events) succeed, else 0. Told by the leader.", "store"),
		items:     desc("agentloop_work_queue_items", "Items of the work queue that wait for a worker (waiting) or that one has (held). Told by the leader.", "state"),
		used:      desc("agentloop_log_size_bytes", "Bytes of the run-event stream. Told by the leader."),
		limit:     desc("agentloop_log_size_limit_bytes", "Bytes that the run-event stream may have; absent without a limit. Told by the leader."),
	}
}

// Describe implements prometheus.Collector.
func (l *leader) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{l.runs, l.sessions, l.unread, l.oldest, l.available, l.items, l.used, l.limit} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (l *leader) Collect(to chan<- prometheus.Metric) {
	count := l.counts.Load()
	if count == nil {
		return
	}
	counts, leads := (*count)(context.Background())
	if !leads {
		return
	}
	put := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for state, n := range bounded(places, counts.Runs) {
		put(l.runs, n, state)
	}
	for reason, n := range bounded(readiness, counts.Sessions) {
		put(l.sessions, n, reason)
	}
	if vitals := l.vitals.Load(); vitals != nil {
		now := (*vitals)()
		put(l.unread, float64(now.Unread))
		put(l.oldest, now.Oldest.Seconds())
		put(l.available, yes(!now.StorageDown), "objects")
		put(l.available, yes(!now.StreamDown), "events")
	}
	if backlog := l.backlog.Load(); backlog != nil {
		put(l.items, float64(backlog.Waiting), "waiting")
		put(l.items, float64(backlog.Held), "held")
		put(l.used, float64(backlog.Used))
		if backlog.Limit > 0 {
			put(l.limit, float64(backlog.Limit))
		}
	}
}

// bounded has a value for each known key, and one for all others together when there are any.
func bounded(known []string, counts map[string]int) map[string]float64 {
	out := make(map[string]float64, len(known)+1)
	for _, key := range known {
		out[key] = 0
	}
	for key, n := range counts {
		if _, ok := out[key]; !ok {
			key = other
		}
		out[key] += float64(n)
	}
	return out
}

func yes(truth bool) float64 {
	if truth {
		return 1
	}
	return 0
}
