package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"
)

type contextKey int

const (
	keyRequestID contextKey = iota
	keyTrace
)

// requestID is the id under which the request is logged.
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(keyRequestID).(string)
	return id
}

// trace is what the log says about a request. Handlers fill in who asked for what.
type trace struct {
	user, namespace, session string
}

func traceOf(ctx context.Context) *trace {
	if t, ok := ctx.Value(keyTrace).(*trace); ok {
		return t
	}
	return &trace{}
}

// maxRequestBody is what is read of a body that nobody needs, so that the connection can be used again.
const maxRequestBody = 4 << 10

// outermost is what every request passes first: headers, methods, an id, and the end of every panic but an abort.
func (s *Server) outermost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "accelerometer=(), camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		ctx := context.WithValue(r.Context(), keyRequestID, newID())
		r = r.WithContext(context.WithValue(ctx, keyTrace, &trace{}))
		r.Body = http.MaxBytesReader(w, r.Body, maxRequestBody)
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			newProblem(http.StatusMethodNotAllowed, "methodNotAllowed", "Only GET and HEAD are known here", "The viewer is read-only.").write(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func newID() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// counting notes status and size of an answer.
type counting struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (c *counting) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *counting) Write(p []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	n, err := c.ResponseWriter.Write(p)
	c.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// observed counts and logs the requests of a route. A panic ends its request alone.
func (s *Server) observed(route string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := s.opts.Now()
		c := &counting{ResponseWriter: w}
		defer func() {
			fault := recover()
			if fault != nil && fault != http.ErrAbortHandler { //nolint:errorlint // net/http compares it in the same way
				s.opts.Logger.Error("panic", "route", route, "requestId", requestID(r.Context()), "fault", fault, "stack", string(debug.Stack()))
				fault = http.ErrAbortHandler
				if c.status == 0 {
					newProblem(http.StatusInternalServerError, "internal", "The answer could not be made", "").write(c, r)
					fault = nil
				}
			}
			s.finished(r, route, c, s.opts.Now().Sub(begun))
			if fault != nil {
				panic(fault)
			}
		}()
		next.ServeHTTP(c, r)
	})
}

// finished counts a request and, when it read of a session, logs who read what. Never its content.
func (s *Server) finished(r *http.Request, route string, c *counting, took time.Duration) {
	status := c.status
	if status == 0 {
		status = 499 // the client went away
	}
	s.metrics.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	s.metrics.duration.WithLabelValues(route).Observe(took.Seconds())
	t := traceOf(r.Context())
	if t.user == "" {
		return
	}
	s.opts.Logger.Info("trajectory access", "user", t.user, "namespace", t.namespace, "session", t.session, "route", route,
		"status", status, "bytes", c.bytes, "milliseconds", took.Milliseconds(), "requestId", requestID(r.Context()))
}
