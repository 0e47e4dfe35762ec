package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/protobuf/proto"
)

// exporter posts spans to an OTLP/HTTP receiver. It is the least that is needed: the official exporter links gRPC, whatever
// protocol is used.
type exporter struct {
	config
	client *http.Client
	logger *slog.Logger
	// dropped counts the spans that the receiver has not taken.
	dropped atomic.Int64
}

var _ sdktrace.SpanExporter = (*exporter)(nil)

func newExporter(cfg config, logger *slog.Logger) *exporter {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: cfg.tls, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 2, IdleConnTimeout: 90 * time.Second,
	}
	return &exporter{config: cfg, logger: logger, client: &http.Client{
		Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// The pauses between two tries: the first, and the longest.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 5 * time.Second
)

// ExportSpans implements sdktrace.SpanExporter. A receiver that is overloaded or away is tried again while the time lasts;
// spans that it does not take are gone.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	body, err := proto.Marshal(documentOf(spans))
	if err == nil && e.gzip {
		body, err = compressed(body)
	}
	if err != nil {
		e.dropped.Add(int64(len(spans)))
		return fmt.Errorf("encode spans: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	pause := firstPause
	for {
		wait, err := e.post(ctx, body)
		if err == nil {
			return nil
		}
		var final *refusedError
		if wait == 0 {
			wait = pause/2 + rand.N(pause/2+1)
			pause = min(2*pause, lastPause)
		}
		if errors.As(err, &final) || !rest(ctx, wait) {
			e.dropped.Add(int64(len(spans)))
			return err
		}
	}
}

// Shutdown implements sdktrace.SpanExporter.
func (e *exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// refusedError is an answer that would be the same again.
type refusedError struct{ status int }

func (e *refusedError) Error() string { return "the receiver answered HTTP " + strconv.Itoa(e.status) }

// post sends a document once. It returns how long the receiver asks to wait, 0 when it does not say.
func (e *exporter) post(ctx context.Context, body []byte) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, value := range e.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if e.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // lets the connection be used again
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		if err != nil || seconds < 0 {
			seconds = 0
		}
		return time.Duration(seconds) * time.Second, fmt.Errorf("the receiver answered HTTP %d", resp.StatusCode)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return 0, &refusedError{resp.StatusCode}
	}
	return 0, nil
}

// rest waits; false when ctx ends before, or would.
func rest(ctx context.Context, wait time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func compressed(body []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}
