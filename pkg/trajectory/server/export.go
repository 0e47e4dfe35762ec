package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/agentloop/agentloop/pkg/trajectory"
)

// export streams all evidence of a session. Once it has begun, a failure breaks the connection off: the client sees that
// the last line is missing.
func (s *Server) export(w http.ResponseWriter, r *http.Request) error {
	session, err := s.exported(w, r)
	if err != nil {
		return err
	}
	name := session.summary.Namespace + "_" + session.summary.UID + ".trajectory.ndjson"
	if session.summary.Name != "" {
		name = session.summary.Namespace + "_" + session.summary.Name + ".trajectory.ndjson"
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	select {
	case s.exports <- struct{}{}:
		defer func() { <-s.exports }()
	default:
		p := newProblem(http.StatusTooManyRequests, "tooMany", "Too many exports at once", "Try again in some seconds.")
		p.retryAfter = 10
		w.Header().Del("Content-Disposition")
		return p
	}
	head := trajectory.Header{Session: session.summary, ExportedAt: trajectory.Time(s.opts.Now().UnixMicro())}
	out := &patient{w: w, control: http.NewResponseController(w), now: s.opts.Now, each: s.opts.Timeout}
	records, err := s.reader.Export(r.Context(), session.index, head, out)
	s.metrics.entries.Add(float64(records))
	if err == nil {
		return nil
	}
	s.metrics.aborted.Inc()
	if !errors.Is(r.Context().Err(), context.Canceled) {
		s.opts.Logger.Error("export broken off", "requestId", requestID(r.Context()), "records", records, "error", err)
	}
	panic(http.ErrAbortHandler)
}

// exported decides about the request and finds the session. An export may take long; what comes before it may not.
func (s *Server) exported(w http.ResponseWriter, r *http.Request) (found, error) {
	ctx, cancel := s.bounded(w, r)
	defer cancel()
	id, err := s.enter(ctx, r, "trajectoryexport")
	if err != nil {
		return found{}, err
	}
	values, err := params(r, "format")
	if err != nil {
		return found{}, err
	}
	if format := values.Get("format"); format != "" && format != "ndjson" {
		return found{}, badRequest(fmt.Sprintf("The format %.32q is not known here: only ndjson is.", format))
	}
	return s.find(ctx, id, false)
}

// patient writes as long as the client reads: each write has its own time.
type patient struct {
	w       http.ResponseWriter
	control *http.ResponseController
	now     func() time.Time
	each    time.Duration
}

func (p *patient) Write(data []byte) (int, error) {
	_ = p.control.SetWriteDeadline(p.now().Add(p.each)) // best effort: not every connection has one
	return p.w.Write(data)
}
