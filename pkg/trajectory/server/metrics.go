package server

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	indexes  prometheus.Gauge
	bytes    prometheus.Gauge
	rebuilt  prometheus.Counter
	notices  *prometheus.CounterVec
	entries  *prometheus.CounterVec
	exported *prometheus.CounterVec
	aborted  prometheus.Counter
}

func newMetrics(registry *prometheus.Registry) *metrics {
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	m := &metrics{
		registry: registry,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentloop_viewer_requests_total", Help: "Requests by route and status; 499 are those whose client went away.",
		}, []string{"route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "agentloop_viewer_request_duration_seconds", Help: "Time from a request to its complete answer, by route.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 120},
		}, []string{"route"}),
		indexes: prometheus.NewGauge(prometheus.GaugeOpts{Name: "agentloop_viewer_indexes", Help: "Session indexes in memory."}),
		bytes:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "agentloop_viewer_index_bytes", Help: "About how many bytes the indexes have."}),
		rebuilt: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "agentloop_viewer_rewritten_streams_total", Help: "Times that a session's streams were found cut, gone or replaced since they were last read.",
		}),
		notices: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentloop_viewer_integrity_notices_total", Help: "Integrity notices found while sessions were indexed, by code.",
		}, []string{"code"}),
		entries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentloop_viewer_exported_records_total", Help: "Records written to exports by format: entries, spans or documents.",
		}, []string{"format"}),
		exported: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentloop_viewer_export_bytes_total", Help: "Bytes of exports that were sent, by format.",
		}, []string{"format"}),
		aborted: prometheus.NewCounter(prometheus.CounterOpts{Name: "agentloop_viewer_exports_aborted_total", Help: "Exports that were broken off."}),
	}
	registry.MustRegister(m.all()...)
	return m
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.duration, m.indexes, m.bytes, m.rebuilt, m.notices, m.entries, m.exported, m.aborted}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
