package providertest

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Reply answers one request.
type Reply func(w http.ResponseWriter, r *http.Request)

// Server is a provider that answers every request with one reply and keeps the requests.
type Server struct {
	URL string
	// Gone is closed when a request's client went away while its reply was still being given.
	Gone chan struct{}

	once     sync.Once
	mu       sync.Mutex
	requests []Recorded
	reply    Reply
}

// Recorded is a request as it arrived.
type Recorded struct {
	Path   string
	Header http.Header
	Body   []byte
}

// NewServer starts a server for the length of the test.
func NewServer(t testing.TB, reply Reply) *Server {
	t.Helper()
	s := &Server{Gone: make(chan struct{}), reply: reply}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

// NewTLSServer is NewServer with a certificate of its own authority, which it returns as PEM.
func NewTLSServer(t testing.TB, reply Reply) (*Server, []byte) {
	t.Helper()
	s := &Server{Gone: make(chan struct{}), reply: reply}
	h := httptest.NewUnstartedServer(s)
	h.Config.ErrorLog = discardLog
	h.StartTLS()
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s, certificatePEM(h.Certificate())
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, Recorded{Path: r.URL.Path, Header: r.Header.Clone(), Body: body})
	s.mu.Unlock()
	s.reply(w, r)
	if r.Context().Err() != nil {
		s.once.Do(func() { close(s.Gone) })
	}
}

// Requests returns what has arrived so far.
func (s *Server) Requests() []Recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Recorded(nil), s.requests...)
}

// Frames writes server-sent events, each flushed by itself, and ends the answer properly.
func Frames(frames ...string) Reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		writeFrames(w, frames)
	}
}

func writeFrames(w http.ResponseWriter, frames []string) {
	for _, frame := range frames {
		_, _ = io.WriteString(w, frame)
		_ = http.NewResponseController(w).Flush() // the client is gone when it fails
	}
}

// FramesThenReset writes events and breaks the connection.
func FramesThenReset(frames ...string) Reply {
	return func(w http.ResponseWriter, r *http.Request) {
		Frames(frames...)(w, r)
		panic(http.ErrAbortHandler)
	}
}

// FramesThenSilence writes events and says nothing more until the client goes away.
func FramesThenSilence(frames ...string) Reply {
	return func(w http.ResponseWriter, r *http.Request) {
		Frames(frames...)(w, r)
		<-r.Context().Done()
	}
}

// Silence answers nothing until the client goes away.
func Silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Answer answers with a status, headers as pairs, and a body.
func Answer(status int, body string, headers ...string) Reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Gzipped answers with compressed events that nobody asked for.
func Gzipped(frames ...string) Reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		var packed bytes.Buffer
		gz := gzip.NewWriter(&packed)
		_, _ = io.WriteString(gz, strings.Join(frames, ""))
		_ = gz.Close()
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	}
}

// Event is one server-sent event; without a name it has a data line only.
func Event(name, data string) string {
	if name == "" {
		return "data: " + data + "\n\n"
	}
	return "event: " + name + "\ndata: " + data + "\n\n"
}
