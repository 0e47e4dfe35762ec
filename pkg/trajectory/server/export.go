package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/pkg/trajectory/atif"
	"github.com/agentloop/agentloop/pkg/trajectory/otlp"
)

// format is one of the forms in which evidence is handed out. Each is written by streaming, line by line.
type format struct {
	name, suffix string
	// content says that contents must be asked for.
	content bool
	write   func(ctx context.Context, s *Server, x exported, to io.Writer) (int, error)
}

// formats are the forms, the first one for who does not say which.
var formats = []format{
	{name: "ndjson", suffix: ".trajectory.ndjson", write: writeNDJSON},
	{name: "otlp-json", suffix: ".otlp.jsonl", content: true, write: writeOTLP},
	{name: "atif", suffix: ".atif.jsonl", write: writeATIF},
}

func writeNDJSON(ctx context.Context, s *Server, x exported, to io.Writer) (int, error) {
	return x.reader.Export(ctx, x.index, trajectory.Header{Session: x.summary, ExportedAt: s.now()}, parallel, to)
}

func writeOTLP(ctx context.Context, s *Server, x exported, to io.Writer) (int, error) {
	return otlp.Export(ctx, x.reader.Contents(x.index), otlp.Options{
		Namespace: x.summary.Namespace, Session: x.summary.Name, UID: x.summary.UID, ExportedAt: s.now(), Content: x.content, Each: parallel,
	}, to)
}

func writeATIF(ctx context.Context, s *Server, x exported, to io.Writer) (int, error) {
	return atif.Export(ctx, x.reader.Contents(x.index), atif.Options{
		Namespace: x.summary.Namespace, Session: x.summary.Name, UID: x.summary.UID, ExportedAt: s.now(), Each: parallel,
	}, to)
}

func (s *Server) now() trajectory.Time { return trajectory.Time(s.opts.Now().UnixMicro()) }

// exported is what is asked for: a session that the caller may export, in a form.
type exported struct {
	found
	format  format
	content bool
	// reader is the export's own: it keeps more of what entries share.
	reader *trajectory.Reader
}

// file is the name under which an export is saved.
func (x exported) file() string {
	name := x.summary.Name
	if name == "" {
		name = x.summary.UID
	}
	return x.summary.Namespace + "_" + name + x.format.suffix
}

// exportBuffer is how much of an export is sent at once, in bytes: most lines are short.
const exportBuffer = 64 << 10

// export streams all evidence of a session. Once it has begun, a failure breaks the connection off: no form of it then has what
// makes it complete.
func (s *Server) export(w http.ResponseWriter, r *http.Request) error {
	x, err := s.exported(w, r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", `attachment; filename="`+x.file()+`"`)
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
	out := &patient{w: w, control: http.NewResponseController(w), now: s.opts.Now, each: s.opts.Timeout}
	defer func() { s.metrics.exported.WithLabelValues(x.format.name).Add(float64(out.sent)) }()
	records, err := x.format.write(r.Context(), s, x, out)
	if err == nil {
		err = out.flush()
	}
	s.metrics.entries.WithLabelValues(x.format.name).Add(float64(records))
	if err == nil {
		return nil
	}
	if !out.begun {
		w.Header().Del("Content-Disposition")
		return err
	}
	_ = out.flush() // what was made is evidence; the failure is told below
	s.metrics.aborted.Inc()
	if !errors.Is(r.Context().Err(), context.Canceled) {
		s.opts.Logger.Error("export broken off", "requestId", requestID(r.Context()), "format", x.format.name, "records", records, "error", err)
	}
	panic(http.ErrAbortHandler)
}

// exported decides about the request and finds the session. An export may take long; what comes before it may not.
func (s *Server) exported(w http.ResponseWriter, r *http.Request) (exported, error) {
	ctx, cancel := s.bounded(w, r)
	defer cancel()
	id, err := s.enter(ctx, r, "trajectoryexport")
	if err != nil {
		return exported{}, err
	}
	values, err := params(r, "format", "content")
	if err != nil {
		return exported{}, err
	}
	x, err := formOf(values)
	if err != nil {
		return exported{}, err
	}
	if x.reader, err = s.reading(); err != nil {
		return exported{}, err
	}
	x.found, err = s.find(ctx, id, false)
	return x, err
}

// formOf is the form that is asked for.
func formOf(values url.Values) (exported, error) {
	x := exported{format: formats[0]}
	if name := values.Get("format"); name != "" {
		i := slices.IndexFunc(formats, func(f format) bool { return f.name == name })
		if i < 0 {
			return x, badRequest(fmt.Sprintf("The format %.32q is not known; known are ndjson, otlp-json and atif.", name))
		}
		x.format = formats[i]
	}
	switch content := values.Get("content"); {
	case content != "" && !x.format.content:
		return x, badRequest("content belongs to format=otlp-json: the other formats always have contents.")
	case content != "" && content != "true" && content != "false":
		return x, badRequest("content is true or false.")
	default:
		x.content = content == "true"
	}
	return x, nil
}

// patient writes as long as the client reads: each write has its own time. But for the first one it gathers short pieces.
type patient struct {
	w       http.ResponseWriter
	control *http.ResponseController
	now     func() time.Time
	each    time.Duration
	// begun says that something was written: from then on an answer can only be broken off.
	begun bool
	held  []byte
	// sent is how many bytes the connection took.
	sent int64
}

// Write implements io.Writer. An error may be that of pieces that were held.
func (p *patient) Write(data []byte) (int, error) {
	if p.begun && len(p.held)+len(data) <= exportBuffer {
		p.held = append(p.held, data...)
		return len(data), nil
	}
	p.begun = true
	if err := p.flush(); err != nil {
		return 0, err
	}
	return p.send(data)
}

// flush sends what is held.
func (p *patient) flush() error {
	if len(p.held) == 0 {
		return nil
	}
	_, err := p.send(p.held)
	p.held = p.held[:0]
	return err
}

func (p *patient) send(data []byte) (int, error) {
	_ = p.control.SetWriteDeadline(p.now().Add(p.each)) // best effort: not every connection has one
	n, err := p.w.Write(data)
	p.sent += int64(n)
	return n, err
}
