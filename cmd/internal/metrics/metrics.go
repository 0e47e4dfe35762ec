package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentloop/agentloop/pkg/agent"
)

// Metrics are the manager's own metrics. It is a prometheus.Collector: register it once. Its parts are told what happens by
// the observers' methods and by the wrapped ports. Safe for concurrent use.
type Metrics struct {
	runs    runMetrics
	models  modelMetrics
	tools   toolMetrics
	stores  storeMetrics
	cluster clusterMetrics

	pairs      pairs
	now        func() time.Time
	collectors []prometheus.Collector
}

var (
	_ agent.Observer       = (*Metrics)(nil)
	_ prometheus.Collector = (*Metrics)(nil)
)

// New makes the metrics.
func New() *Metrics {
	m := &Metrics{now: time.Now}
	m.runs, m.models, m.tools, m.stores, m.cluster = newRuns(m), newModels(m), newTools(m), newStores(m), newCluster(m)
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors {
		c.Collect(to)
	}
}

// Times in seconds: of calls to stores and of status writes, of model requests and tools, and of whole runs.
var (
	shortTimes = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	callTimes  = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 600}
	runTimes   = []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400}
)

func counter(m *Metrics, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.collectors = append(m.collectors, c)
	return c
}

func counters(m *Metrics, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.collectors = append(m.collectors, c)
	return c
}

func gauge(m *Metrics, name, help string) prometheus.Gauge {
	c := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	m.collectors = append(m.collectors, c)
	return c
}

func histogram(m *Metrics, name, help string, buckets []float64) prometheus.Histogram {
	c := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.collectors = append(m.collectors, c)
	return c
}

func histograms(m *Metrics, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	c := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.collectors = append(m.collectors, c)
	return c
}
