package metrics

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// modelMetrics are what is told of requests to models.
type modelMetrics struct {
	requests  *prometheus.CounterVec
	inFlight  prometheus.Gauge
	duration  *prometheus.HistogramVec
	firstTime *prometheus.HistogramVec
	tokens    *prometheus.CounterVec
	ratio     *prometheus.HistogramVec
}

// ratios are estimates divided by counts: 1 is right, less is an estimate that was too low.
var ratios = []float64{.5, .6, .7, .8, .9, .95, 1, 1.05, 1.1, 1.2, 1.3, 1.5, 2, 3}

func newModels(m *Metrics) modelMetrics {
	return modelMetrics{
		requests: counters(m, "agentloop_model_requests_total",
			"Requests to models that ended, with the class of their failure as outcome: ok, or rejected for those that were not sent.", "provider", "model", "purpose", "outcome"),
		inFlight:  gauge(m, "agentloop_model_requests_in_flight", "Requests to models that are under way."),
		duration:  histograms(m, "agentloop_model_request_duration_seconds", "Time from a request to its complete answer; failed requests do not count.", callTimes, "provider", "model"),
		firstTime: histograms(m, "agentloop_model_time_to_first_token_seconds", "Time from a request to the first increment of its answer.", callTimes, "provider", "model"),
		tokens: counters(m, "agentloop_model_tokens_total",
			"Tokens that providers reported. input has no cached tokens, output has those of reasoning in it.", "provider", "model", "kind"),
		ratio: histograms(m, "agentloop_input_estimate_ratio",
			"Estimated input tokens divided by those that the provider reported, cached ones included; below 1 the estimate was too low.", ratios, "provider", "model"),
	}
}

// Request implements agent.Observer.
func (m *Metrics) Request(ctx context.Context, request agent.ModelRequest) (context.Context, func(agent.ModelAnswer)) {
	begun := m.now()
	m.models.inFlight.Inc()
	labels := m.pairs.label(request.Request.Model)
	return ctx, func(answer agent.ModelAnswer) {
		m.models.inFlight.Dec()
		m.models.requests.WithLabelValues(labels.provider, labels.model, among(purposes, string(request.Purpose)), requestOutcome(answer.Err)).Inc()
		if !answer.First.IsZero() {
			m.models.firstTime.WithLabelValues(labels.provider, labels.model).Observe(max(0, answer.First.Sub(begun).Seconds()))
		}
		usage := answer.Response.Message.Usage
		var failed *provider.Error
		switch {
		case answer.Err == nil:
			m.models.duration.WithLabelValues(labels.provider, labels.model).Observe(m.now().Sub(begun).Seconds())
		case errors.As(answer.Err, &failed):
			usage = failed.Usage
		}
		m.used(labels, usage)
		if answer.Err == nil && request.Purpose == runevent.PurposeMain {
			m.estimated(labels, request.Estimate, usage)
		}
	}
}

func requestOutcome(err error) string {
	var failed *provider.Error
	switch {
	case err == nil:
		return outcomeOK
	case errors.As(err, &failed):
		return among(classes, string(failed.Class))
	}
	return outcomeError
}

// used counts what the provider reported. What it did not report is not counted as nothing.
func (m *Metrics) used(labels pair, usage *message.Usage) {
	if usage == nil {
		return
	}
	for kind, count := range map[string]*int64{
		"input": usage.Input, "output": usage.Output, "cache_read": usage.CacheRead, "cache_write": usage.CacheWrite, "reasoning": usage.Reasoning,
	} {
		if count != nil && *count > 0 {
			m.models.tokens.WithLabelValues(labels.provider, labels.model, kind).Add(float64(*count))
		}
	}
}

func (m *Metrics) estimated(labels pair, estimate int64, usage *message.Usage) {
	counted, ok := provider.ContextTokens(usage)
	if ok && counted > 0 && estimate > 0 {
		m.models.ratio.WithLabelValues(labels.provider, labels.model).Observe(float64(estimate) / float64(counted))
	}
}
