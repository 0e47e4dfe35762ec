package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxProgressText and maxLogText bound what one notification tells, in bytes.
const (
	maxProgressText = 1 << 10
	maxLogText      = 4 << 10
)

// The notifications that a call reports.
const (
	methodProgress = "notifications/progress"
	methodMessage  = "notifications/message"
)

const (
	// logLevel is from which severity on servers are asked for their log messages.
	logLevel = "info"
	// metaLogLevel asks for them with each call, as the newest protocol wants it; older ones ask once for a session.
	metaLogLevel = "io.modelcontextprotocol/logLevel"
	// logRequestTimeout bounds the latter: a server that does not answer it has no log messages.
	logRequestTimeout = 2 * time.Second
)

// progress is one running call: where its notifications go, and how it is ended.
type progress struct {
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	report func(string)
}

// say reports one notification, unless the call has ended.
func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.report != nil && text != "" {
		p.report(text)
	}
}

// askForLogs tells a server that has log messages that they are wanted. What it says to that changes nothing.
func (s *server) askForLogs(ctx context.Context, session *sdk.ClientSession) {
	hello := session.InitializeResult()
	if hello.ProtocolVersion > legacyProtocol || hello.Capabilities == nil || hello.Capabilities.Logging == nil { //nolint:staticcheck // servers of today have it
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logRequestTimeout)
	defer cancel()
	_ = session.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: logLevel}) //nolint:staticcheck // servers of today have it
}

// begin registers a call under its token; closing waits for its finish.
func (s *server) begin(token string, p *progress) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.calls[token] = p
	s.closing.Add(1)
	return nil
}

// finish forgets the call. When it returns, report is not running and will not be called again.
func (s *server) finish(token string, p *progress) {
	s.mu.Lock()
	delete(s.calls, token)
	s.mu.Unlock()
	p.mu.Lock()
	p.report = nil
	p.mu.Unlock()
	s.closing.Done()
}

// notification has the members of the two notifications that are reported.
type notification struct {
	Method string `json:"method"`
	Params struct {
		ProgressToken any     `json:"progressToken"`
		Progress      float64 `json:"progress"`
		Total         float64 `json:"total"`
		Message       string  `json:"message"`

		Level  string          `json:"level"`
		Logger string          `json:"logger"`
		Data   json.RawMessage `json:"data"`
	} `json:"params"`
}

// heard hands a server's notification to the call that it belongs to; others are dropped. It is called with each event
// as it is read, so that all that precedes a result is reported before the call ends. A progress notification names its
// call by its token. A log message names none: it belongs to the call whose answer it is part of.
func (s *server) heard(ex *exchange, event []byte) {
	if !bytes.Contains(event, []byte("notifications")) {
		return
	}
	var n notification
	if json.Unmarshal(event, &n) != nil {
		return
	}
	switch n.Method {
	case methodProgress:
		token, _ := n.Params.ProgressToken.(string)
		s.mu.Lock()
		p := s.calls[token]
		s.mu.Unlock()
		if p != nil {
			p.say(s.redact.short(n.progressText(), maxProgressText))
		}
	case methodMessage:
		if ex != nil && ex.call != nil {
			ex.call.say(s.redact.short(n.logText(), maxLogText))
		}
	}
}

func (n notification) progressText() string {
	count := strconv.FormatFloat(n.Params.Progress, 'g', 6, 64)
	if n.Params.Total > 0 {
		count += "/" + strconv.FormatFloat(n.Params.Total, 'g', 6, 64)
	}
	if n.Params.Message == "" {
		return count
	}
	return count + " " + n.Params.Message
}

// logText is a log message as one line begins: its severity, who says it, and what.
func (n notification) logText() string {
	text := ""
	if json.Unmarshal(n.Params.Data, &text) != nil {
		text = string(n.Params.Data)
	}
	if text == "" {
		return ""
	}
	if n.Params.Logger != "" {
		text = n.Params.Logger + ": " + text
	}
	if n.Params.Level != "" {
		text = "[" + n.Params.Level + "] " + text
	}
	return text
}
