package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/agentloop/agentloop/api/openapi"
	"github.com/agentloop/agentloop/cmd/internal/options"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/trajectory/server"
	"github.com/agentloop/agentloop/test/services"
)

// TestReady takes a real NATS server away and brings it back, and lets the API server fail.
func TestReady(t *testing.T) {
	n := services.NATSForTest(t)
	flags := options.NATS{URL: n.URL}
	nc, log, err := flags.Connect("ready-test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	var fault error
	handler, err := server.New(server.Options{
		Log: log, Store: memstore.New(), Document: openapi.Trajectory, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		Ready: ready(nc, func(context.Context) error { return fault }),
	})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when string, want int) {
		t.Helper()
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", http.NoBody))
		if answer.Code != want {
			t.Errorf("%s: %d, want %d: %s", when, answer.Code, want, answer.Body)
		}
		alive := httptest.NewRecorder()
		handler.ServeHTTP(alive, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", http.NoBody))
		if alive.Code != http.StatusOK {
			t.Errorf("%s: healthz is %d", when, alive.Code)
		}
	}
	become := func(want nats.Status) {
		t.Helper()
		changed := nc.StatusChanged(want)
		defer nc.RemoveStatusListener(changed)
		if nc.Status() == want {
			return
		}
		select {
		case <-changed:
		case <-time.After(30 * time.Second):
			t.Fatalf("the connection never became %s", want)
		}
	}
	become(nats.CONNECTED)
	expect("both answer", http.StatusOK)
	fault = errors.New("the API server is away")
	expect("the API server is away", http.StatusServiceUnavailable)
	fault = nil
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	become(nats.RECONNECTING)
	expect("NATS is away", http.StatusServiceUnavailable)
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	become(nats.CONNECTED)
	expect("NATS is back", http.StatusOK)
}
