package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentloop/agentloop/cmd/internal/options"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// storeMetrics are what is measured of the object store and of the run-event log.
type storeMetrics struct {
	append    *prometheus.HistogramVec
	fenced    prometheus.Counter
	operation *prometheus.HistogramVec
	bytes     *prometheus.CounterVec
}

func newStores(m *Metrics) storeMetrics {
	return storeMetrics{
		append:    histograms(m, "agentloop_log_append_duration_seconds", "Time until the run-event log has stored an entry, or has not.", shortTimes, "outcome"),
		fenced:    counter(m, "agentloop_log_fenced_appends_total", "Entries that were refused because another worker has written to the stream: this one had been given up."),
		operation: histograms(m, "agentloop_store_operation_duration_seconds", "Time that calls to the object store took, tries included.", shortTimes, "operation", "outcome"),
		bytes:     counters(m, "agentloop_store_bytes_total", "Bytes of the objects that were put into the object store and got from it, before compression.", "operation"),
	}
}

// Log measures the appends to a log.
func (m *Metrics) Log(log runevent.Log) runevent.Log { return &measuredLog{log, m} }

type measuredLog struct {
	runevent.Log
	metrics *Metrics
}

// Append implements runevent.Log.
func (l *measuredLog) Append(ctx context.Context, stream runevent.Stream, expect runevent.Head, raw []byte) (runevent.Head, error) {
	begun := l.metrics.now()
	head, err := l.Log.Append(ctx, stream, expect, raw)
	l.metrics.stores.append.WithLabelValues(appendOutcome(err)).Observe(l.metrics.now().Sub(begun).Seconds())
	if errors.Is(err, runevent.ErrFenced) {
		l.metrics.stores.fenced.Inc()
	}
	return head, err
}

func appendOutcome(err error) string {
	switch {
	case err == nil:
		return outcomeOK
	case errors.Is(err, runevent.ErrFenced):
		return "fenced"
	case errors.Is(err, runevent.ErrUnavailable):
		return "unavailable"
	}
	return outcomeError
}

// Driver measures an object store. What a memory above it answers does not reach it.
func (m *Metrics) Driver(driver options.Driver) options.Driver { return &measuredDriver{driver, m} }

type measuredDriver struct {
	options.Driver
	metrics *Metrics
}

// Put implements cas.Store.
func (d *measuredDriver) Put(ctx context.Context, scope cas.Scope, mediaType string, data []byte) (cas.Ref, error) {
	begun := d.metrics.now()
	ref, err := d.Driver.Put(ctx, scope, mediaType, data)
	d.metrics.stored("put", begun, int64(len(data)), err)
	return ref, err
}

// Get implements cas.Store.
func (d *measuredDriver) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	begun := d.metrics.now()
	data, err := d.Driver.Get(ctx, scope, ref)
	d.metrics.stored("get", begun, int64(len(data)), err)
	return data, err
}

func (m *Metrics) stored(operation string, begun time.Time, size int64, err error) {
	m.stores.operation.WithLabelValues(operation, storeOutcome(err)).Observe(m.now().Sub(begun).Seconds())
	if err == nil {
		m.stores.bytes.WithLabelValues(operation).Add(float64(size))
	}
}

func storeOutcome(err error) string {
	switch {
	case err == nil:
		return outcomeOK
	case errors.Is(err, cas.ErrNotFound):
		return "not_found"
	case errors.Is(err, cas.ErrCorrupt):
		return "corrupt"
	case errors.Is(err, context.Canceled):
		return outcomeCancelled
	}
	return outcomeError
}
