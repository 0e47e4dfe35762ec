package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/trajectory"
)

// Options are what a Server is made of. Page, Ready and Runs may be nil; zero bounds mean the defaults.
type Options struct {
	Gate      Gate
	Directory Directory
	Runs      Runs
	Log       trajectory.Log
	Store     cas.Store
	// Page is the built page: index.html and assets. Without it only the API is served.
	Page fs.FS
	// Document is the OpenAPI document in YAML.
	Document []byte
	// Ready says why the server cannot answer now.
	Ready    func(ctx context.Context) error
	Registry *prometheus.Registry
	Logger   *slog.Logger
	Now      func() time.Time

	// IndexBytes bounds the indexes that are kept, DetailBytes the model input of one answer, in bytes.
	IndexBytes, DetailBytes int64
	// Exports bounds the exports at one time.
	Exports int
	// Timeout bounds one answer; of an export, the time that one write may take.
	Timeout time.Duration
}

const (
	defaultIndexBytes  = 256 << 20
	defaultDetailBytes = 64 << 20
	defaultExports     = 8
	defaultTimeout     = 30 * time.Second
)

// Server answers the API and serves the page.
type Server struct {
	opts     Options
	reader   *trajectory.Reader
	indexes  *indexes
	document []byte
	// version is the digest of the document, which changes with the form of answers.
	version [sha256.Size]byte
	metrics *metrics
	exports chan struct{}
	handler http.Handler
}

// New returns a server.
func New(opts Options) (*Server, error) {
	opts.IndexBytes = or(opts.IndexBytes, defaultIndexBytes)
	opts.DetailBytes = or(opts.DetailBytes, defaultDetailBytes)
	opts.Exports = or(opts.Exports, defaultExports)
	opts.Timeout = or(opts.Timeout, defaultTimeout)
	document, err := yaml.YAMLToJSON(opts.Document)
	if err != nil {
		return nil, fmt.Errorf("OpenAPI document: %w", err)
	}
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(1024), gzhttp.CompressionLevel(5), gzhttp.EnableZstd(true),
		gzhttp.ContentTypes([]string{"application/json", storedType, "application/x-ndjson", "application/problem+json", "text/html", "text/css", "text/javascript", "image/svg+xml"}))
	if err != nil {
		return nil, fmt.Errorf("compression: %w", err)
	}
	reader := trajectory.NewReader(opts.Log, opts.Store)
	s := &Server{
		opts: opts, reader: reader, document: document, version: sha256.Sum256(document), metrics: newMetrics(opts.Registry), exports: make(chan struct{}, opts.Exports),
	}
	s.indexes = newIndexes(reader, opts.IndexBytes, s.metrics, opts.Now)
	routes, err := s.routes()
	if err != nil {
		return nil, err
	}
	s.handler = s.outermost(compress(routes))
	return s, nil
}

func or[T int | int64 | time.Duration](value, fallback T) T {
	if value == 0 {
		return fallback
	}
	return value
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// apiHandler answers one API request. What it returns as an error becomes a problem.
type apiHandler func(w http.ResponseWriter, r *http.Request) error

func (s *Server) routes() (http.Handler, error) {
	mux := http.NewServeMux()
	for pattern, handler := range map[string]apiHandler{
		"/api/sessions":                        s.listSessions,
		"/api/sessions/{id}":                   s.getSession,
		"/api/sessions/{id}/messages":          s.getMessages,
		"/api/sessions/{id}/trajectory":        s.getTrajectory,
		"/api/sessions/{id}/trajectory/detail": s.getDetail,
		"/api/sessions/{id}/trajectory/text":   s.getText,
		"/api/sessions/{id}/trajectory/image":  s.getImage,
		"/api/sessions/{id}/trajectory/export": s.export,
		"/openapi.json":                        s.getDocument,
		"/api/":                                nowhere,
	} {
		mux.Handle(pattern, s.api(pattern, handler))
	}
	mux.Handle("/healthz", s.observed("/healthz", http.HandlerFunc(alive)))
	mux.Handle("/readyz", s.observed("/readyz", http.HandlerFunc(s.ready)))
	mux.Handle("/metrics", s.metrics.handler())
	pages, err := s.pages()
	if err != nil {
		return nil, err
	}
	mux.Handle("/", s.observed("page", pages))
	return mux, nil
}

func nowhere(http.ResponseWriter, *http.Request) error { return notFound("There is nothing here") }

func alive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n")) // the client is gone when it fails
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if s.opts.Ready != nil {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		if err := s.opts.Ready(ctx); err != nil {
			s.opts.Logger.Warn("not ready", "error", err)
			unavailable(err).write(w, r)
			return
		}
	}
	alive(w, r)
}

func (s *Server) getDocument(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-cache")
	send(w, r, "application/json", s.document)
	return nil
}

// api wraps a handler: its time is bounded, its errors become problems.
func (s *Server) api(route string, handle apiHandler) http.Handler {
	return s.observed(route, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cache-Control", "private, no-cache")
		h.Add("Vary", "Authorization")
		err := handle(w, r)
		if err == nil {
			return
		}
		p := problemOf(err)
		if p.Status >= http.StatusInternalServerError && !errors.Is(r.Context().Err(), context.Canceled) {
			s.opts.Logger.Error("request failed", "route", route, "requestId", requestID(r.Context()), "error", p.cause)
		}
		p.write(w, r)
	}))
}

// bounded limits how long one answer may take to make and to send.
func (s *Server) bounded(w http.ResponseWriter, r *http.Request) (context.Context, context.CancelFunc) {
	_ = http.NewResponseController(w).SetWriteDeadline(s.opts.Now().Add(2 * s.opts.Timeout)) // best effort: not every connection has one
	return context.WithTimeout(r.Context(), s.opts.Timeout)
}
