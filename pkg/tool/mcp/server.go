package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// resumeAttempts is how often a broken event stream is picked up again where it broke, if the server keeps events:
	// that fetches an answer without sending the call again.
	resumeAttempts = 2
	// legacyProtocol is the newest protocol version that begins with initialize instead of server/discover.
	legacyProtocol = "2025-11-25"
	// connectAttempts and connectPause are for servers that are just starting.
	connectAttempts = 3
	connectPause    = 300 * time.Millisecond
	// closeTimeout bounds the end of a session whose server does not answer any more.
	closeTimeout = 5 * time.Second
)

// errClosed is why calls end when their set is closed.
var errClosed = errors.New("tool set closed")

// server is the connection to one tool server: at most one session, made anew when it is lost.
type server struct {
	cfg    ServerConfig
	opts   Options
	redact redactor
	client *sdk.Client
	http   *http.Client

	// opening is held by whoever connects; the others wait for it or for their context.
	opening chan struct{}

	mu      sync.Mutex
	session *sdk.ClientSession
	closed  bool
	calls   map[string]*progress // by progress token
	closing sync.WaitGroup
}

// newServer needs a checked configuration.
func newServer(cfg ServerConfig, opts Options) *server {
	s := &server{
		cfg: cfg, opts: opts, redact: newRedactor(cfg),
		opening: make(chan struct{}, 1), calls: map[string]*progress{},
	}
	var host string
	if u, err := url.Parse(cfg.URL); err == nil {
		host = u.Host
	}
	s.http = newHTTPClient(cfg, opts, host, s.heard)
	s.client = sdk.NewClient(&sdk.Implementation{Name: "agentloop", Version: opts.Version}, &sdk.ClientOptions{
		// No roots, sampling or elicitation: nobody sits beside a run to answer a server's questions.
		Capabilities:   &sdk.ClientCapabilities{},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	})
	return s
}

// open returns the session, connecting when there is none.
func (s *server) open(ctx context.Context) (*sdk.ClientSession, error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	session, closed := s.session, s.closed
	s.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	if session != nil {
		return session, nil
	}
	session, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.discard(session)
		return nil, errClosed
	}
	s.session = session
	return session, nil
}

// connect makes a session, trying again when the server cannot be reached yet.
func (s *server) connect(ctx context.Context) (*sdk.ClientSession, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.ConnectTimeout)
	defer cancel()
	var last *connectError
	for attempt := range connectAttempts {
		if attempt > 0 {
			select {
			case <-time.After(connectPause << attempt):
			case <-ctx.Done():
				return nil, last
			}
		}
		session, failure := s.handshake(ctx)
		if failure == nil {
			s.opts.Logger.Info("tool server connected", slog.String("server", s.cfg.Name),
				slog.String("protocol", session.InitializeResult().ProtocolVersion))
			s.askForLogs(ctx, session)
			return session, nil
		}
		last = failure
		if !last.seen.passing() || ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

// handshake tries the newest protocol for half of the time that is left: a server that knows only the older one may
// leave its first request unanswered. One that refuses the request as a whole may know the old transport only.
func (s *server) handshake(ctx context.Context) (*sdk.ClientSession, *connectError) {
	deadline, _ := ctx.Deadline() // set by connect
	first, cancel := context.WithTimeout(ctx, time.Until(deadline)/2)
	defer cancel()
	session, failure := s.try(first, "")
	if failure != nil && failure.seen.olderTransport() && first.Err() == nil {
		if session, other := s.tryOld(first); session != nil || other != nil {
			return session, other
		}
	}
	if failure == nil || first.Err() == nil || ctx.Err() != nil {
		return session, failure
	}
	return s.try(ctx, legacyProtocol)
}

func (s *server) try(ctx context.Context, version string) (*sdk.ClientSession, *connectError) {
	ex := &exchange{limit: s.cfg.maxResponse(s.opts), every: true}
	session, err := s.client.Connect(watch(ctx, ex), &sdk.StreamableClientTransport{
		Endpoint:             s.cfg.URL,
		HTTPClient:           s.http,
		MaxRetries:           resumeAttempts,
		DisableStandaloneSSE: true,
		MaxEventSize:         -1, // the round tripper bounds whole answers
	}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	seen := ex.end()
	if err == nil {
		return session, nil
	}
	return nil, &connectError{err: err, seen: seen, timedOut: ctx.Err() != nil}
}

// lose forgets a session that does not work any more, so that the next call makes another. Calls that still run on it
// may end there.
func (s *server) lose(session *sdk.ClientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session == nil || s.session != session {
		return
	}
	s.session = nil
	s.opts.Logger.Info("tool server session lost", slog.String("server", s.cfg.Name))
	s.discard(session)
}

// discard ends a session beside the caller, who holds s.mu.
func (s *server) discard(session *sdk.ClientSession) {
	s.closing.Add(1)
	go func() {
		defer s.closing.Done()
		_ = session.Close() // it is lost: there is nothing left to be told
	}()
}

// close ends every call and the session, and waits for their goroutines.
func (s *server) close() error {
	s.mu.Lock()
	s.closed = true
	session := s.session
	s.session = nil
	for _, call := range s.calls {
		call.cancel(errClosed)
	}
	if session != nil {
		s.discard(session)
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.closing.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(closeTimeout):
		return fmt.Errorf("close tool server %s: its session did not end within %s", s.cfg.Name, closeTimeout)
	}
}

// connectError is returned when no session could be made.
type connectError struct {
	err      error
	seen     facts
	timedOut bool
}

// Error implements error for the log of a developer; people and models read what describe makes of it.
func (e *connectError) Error() string { return "connect: " + e.err.Error() }

// Unwrap returns the SDK's error.
func (e *connectError) Unwrap() error { return e.err }
