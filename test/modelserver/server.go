package modelserver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a Server; the zero value is ready for use.
type Options struct {
	// SigningKey keys thinking signatures and encrypted reasoning. Empty means a fixed key, so that tokens verify
	// after a restart.
	SigningKey []byte
	// MaxRecordedBytes bounds the recorded bodies of all models together; 0 means 256 MiB. The oldest go first.
	MaxRecordedBytes int64
	// Now is the clock for recorded times and creation times; nil means time.Now.
	Now func() time.Time
}

// Server is the scripted provider. It implements http.Handler.
type Server struct {
	now     func() time.Time
	signer  signer
	records recorder
	mux     *http.ServeMux

	mu     sync.RWMutex
	models map[string]*model
	order  []string // in the order of loading

	requests  atomic.Int64 // numbers request ids
	open      atomic.Int64
	closeOnce sync.Once
	closed    chan struct{}
}

const (
	defaultSigningKey = "agentloop modelserver"
	defaultRecorded   = 256 << 20
	// maxBody is the size of request that every protocol refuses.
	maxBody = 32 << 20
)

// New returns a server without models.
func New(o Options) *Server {
	if len(o.SigningKey) == 0 {
		o.SigningKey = []byte(defaultSigningKey)
	}
	if o.MaxRecordedBytes <= 0 {
		o.MaxRecordedBytes = defaultRecorded
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{
		now: o.Now, signer: signer{o.SigningKey}, records: recorder{limit: o.MaxRecordedBytes},
		models: map[string]*model{}, closed: make(chan struct{}),
	}
	s.routes()
	return s
}

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("POST /v1/messages", s.generate(anthropicAPI{signer: s.signer}))
	s.mux.HandleFunc("POST /v1/messages/count_tokens", s.countTokens(anthropicAPI{signer: s.signer, counting: true}))
	s.mux.HandleFunc("POST /v1/chat/completions", s.generate(chatAPI{}))
	s.mux.HandleFunc("POST /v1/responses", s.generate(responsesAPI{s.signer}))
	s.mux.HandleFunc("GET /v1/models", s.listModels)
	s.mux.HandleFunc("GET /v1/models/{id...}", s.getModel)
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	s.mux.HandleFunc("PUT /_scripts", s.putScripts)
	s.mux.HandleFunc("GET /_scripts", s.getScripts)
	s.mux.HandleFunc("DELETE /_scripts", s.deleteScripts)
	s.mux.HandleFunc("GET /_requests", s.getRequests)
	s.mux.HandleFunc("/", s.notFound)
}

// ServeHTTP implements http.Handler. A scripted break of the connection panics with http.ErrAbortHandler, as
// net/http wants it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Close ends every answer that hangs or waits, as if its connection had broken, and those that would begin. Call it
// before the http.Server's own Close or Shutdown, which wait for answers.
func (s *Server) Close() { s.closeOnce.Do(func() { close(s.closed) }) }

// Load adds the scripts' models. A model that exists already starts anew with the new script; its recorded requests
// stay. Either all scripts are loaded or none.
func (s *Server) Load(scripts ...Script) error {
	for i := range scripts {
		if err := scripts[i].validate(); err != nil {
			return fmt.Errorf("%w: model %q: %w", ErrScript, scripts[i].Model, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, script := range scripts {
		if s.models[script.Model] == nil {
			s.order = append(s.order, script.Model)
		}
		s.models[script.Model] = newModel(script)
	}
	return nil
}

// LoadYAML parses scripts as ParseYAML does, loads them and returns the ids of their models.
func (s *Server) LoadYAML(raw []byte, prefix string) ([]string, error) {
	scripts, err := ParseYAML(raw, prefix)
	if err != nil {
		return nil, err
	}
	if err := s.Load(scripts...); err != nil {
		return nil, err
	}
	ids := make([]string, len(scripts))
	for i := range scripts {
		ids[i] = scripts[i].Model
	}
	return ids, nil
}

// Unload removes a model and its recorded requests. It says whether the model was there.
func (s *Server) Unload(id string) bool {
	s.mu.Lock()
	_, was := s.models[id]
	delete(s.models, id)
	for i, name := range s.order {
		if name == id {
			s.order = append(s.order[:i:i], s.order[i+1:]...)
			break
		}
	}
	s.mu.Unlock()
	s.records.forget(id)
	return was
}

// Requests returns what was recorded for a model, oldest first; never nil.
func (s *Server) Requests(id string) []Request { return s.records.list(id) }

// Open is how many requests for answers are being answered now.
func (s *Server) Open() int { return int(s.open.Load()) }

func (s *Server) lookup(id string) *model {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.models[id]
}

// protocol is one provider API: how its requests are read and its answers and errors written.
type protocol interface {
	// read checks a request as the provider would and extracts what the server needs. A call that comes with an error
	// is one that was understood before it was refused.
	read(h http.Header, body object, m *model) (*call, *apiError)
	// refusal words what every provider refuses; detail is a model id, a parser's complaint or a status.
	refusal(why refusal, detail string) *apiError
	// errorBody is the body of an error answer.
	errorBody(e *apiError, requestID string) []byte
	// whole is the body of an answer that is not streamed.
	whole(c *call, a *answer) []byte
	// stream is a streamed answer.
	stream(c *call, a *answer) stream
}

// refusal is a reason that has its own wording in each protocol.
type refusal int

const (
	refuseJSON refusal = iota
	refuseModel
	refuseNoModel
	refuseNoKey
	refuseKey
	refuseSize
	refuseScripted // detail is the status
)

func (s *Server) generate(p protocol) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.open.Add(1)
		defer s.open.Add(-1)
		x := s.exchange(p, w, r)
		defer x.finish()
		c, e := x.accept()
		switch {
		case e == nil:
			x.answer(c)
		case c != nil && c.stream && e.inStream:
			x.failInStream(c, e)
		default:
			x.refuse(e)
		}
	}
}

func (s *Server) countTokens(p protocol) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := s.exchange(p, w, r)
		defer x.finish()
		c, e := x.accept()
		if e != nil {
			x.refuse(e)
			return
		}
		x.send(http.StatusOK, "application/json", encode(map[string]int64{"input_tokens": c.inputTokens}))
	}
}

// keyOf is the API key of a request, wherever the client put it.
func keyOf(h http.Header) string {
	if key := h.Get("X-Api-Key"); key != "" {
		return key
	}
	key, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	return strings.TrimSpace(key)
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	e := &apiError{status: http.StatusNotFound, kind: "invalid_request_error",
		message: "Invalid URL (" + r.Method + " " + r.URL.Path + ")"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	if isAnthropicClient(r.Header) {
		e.kind, e.message = "not_found_error", "Not Found"
		_, _ = w.Write(e.anthropicBody(""))
		return
	}
	_, _ = w.Write(e.openAIBody())
}

func isAnthropicClient(h http.Header) bool {
	return h.Get("Anthropic-Version") != "" || h.Get("X-Api-Key") != ""
}
