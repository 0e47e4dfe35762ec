// Command viewer serves the trajectory API and the viewer's page. It reads and never writes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/agentloop/agentloop/api/openapi"
	"github.com/agentloop/agentloop/pkg/archive"
	"github.com/agentloop/agentloop/pkg/trajectory/server"
	"github.com/agentloop/agentloop/pkg/trajectory/server/kubeauth"
	"github.com/agentloop/agentloop/web"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "viewer:", err)
		os.Exit(1)
	}
}

// gcPercent is how much garbage may gather, in percent of what is in use, unless GOGC says it. Most of what is in use are
// indexes, which stay: at Go's own 100 % their size would count twice.
const gcPercent = 50

func run(ctx context.Context, args []string) error {
	cfg, err := parse(args)
	if err != nil {
		return err
	}
	logger, err := cfg.logging.Logger()
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	nc, handler, err := assemble(cfg, logger)
	if err != nil {
		return err
	}
	defer nc.Close()
	return serve(ctx, cfg, logger, handler)
}

// assemble connects the adapters and makes the handler.
func assemble(cfg config, logger *slog.Logger) (*nats.Conn, http.Handler, error) {
	kubernetes, err := ctrl.GetConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("no Kubernetes configuration: outside of a Pod, name a kubeconfig file in KUBECONFIG: %w", err)
	}
	kubernetes.UserAgent = "agentloop-viewer"
	// The client-side rate limit would queue behind a burst of readers; the API server has its own.
	kubernetes.QPS, kubernetes.Burst = -1, -1
	gate, err := kubeauth.NewGate(kubernetes, kubeauth.Options{Audiences: cfg.audiences, Yes: cfg.rememberYes, No: cfg.rememberNo})
	if err != nil {
		return nil, nil, err
	}
	directory, err := kubeauth.NewDirectory(kubernetes, cfg.namespaces...)
	if err != nil {
		return nil, nil, err
	}
	store, err := cfg.store.Open(logger)
	if err != nil {
		return nil, nil, err
	}
	nc, log, err := cfg.nats.Connect("agentloop-viewer", logger)
	if err != nil {
		return nil, nil, err
	}
	history, err := archive.Over(log, store, logger)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	handler, err := server.New(server.Options{
		Gate: gate, Directory: directory, Runs: directory, Log: history, Store: store, Page: web.Dist(), Document: openapi.Trajectory,
		Ready: ready(nc, directory.Ready), Registry: registry, Logger: logger, Now: time.Now,
		IndexBytes: cfg.indexBytes, DetailBytes: cfg.detailBytes, Exports: cfg.exports, Timeout: cfg.timeout,
	})
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, handler, nil
}

// ready says whether the log's server and the API server answer. The object store is not asked: without it much can still
// be shown, and who asks for the rest is told so.
func ready(nc *nats.Conn, kubernetes func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if !nc.IsConnected() {
			return errors.New("not connected to NATS")
		}
		return kubernetes(ctx)
	}
}

// drainTimeout is how long answers may go on after SIGTERM.
const drainTimeout = 20 * time.Second

// serve answers until ctx ends, then lets answers that have begun go on for a while.
func serve(ctx context.Context, cfg config, logger *slog.Logger, handler http.Handler) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", cfg.listen)
	if err != nil {
		return fmt.Errorf("--listen=%s: %w", cfg.listen, err)
	}
	// No ReadTimeout: its deadline stays on the connection and would end exports that take longer.
	httpServer := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() {
		if cfg.certFile != "" {
			failed <- httpServer.ServeTLS(listener, cfg.certFile, cfg.keyFile)
			return
		}
		failed <- httpServer.Serve(listener)
	}()
	logger.Info("listening", "address", listener.Addr().String(), "tls", cfg.certFile != "")
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := httpServer.Shutdown(draining); err != nil {
		logger.Warn("answers were cut off", "error", err)
		return errors.Join(httpServer.Close())
	}
	return nil
}
