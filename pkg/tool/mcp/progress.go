package mcp

import (
	"context"
	"strconv"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxProgressText bounds one progress notification's text in bytes.
const maxProgressText = 1 << 10

// progress is one running call: where its notifications go, and how it is ended.
type progress struct {
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	report func(string)
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

// onProgress hands a server's notification to the call that it belongs to; others are dropped.
func (s *server) onProgress(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
	token, _ := req.Params.ProgressToken.(string)
	s.mu.Lock()
	p := s.calls[token]
	s.mu.Unlock()
	if p == nil {
		return
	}
	text := s.redact.short(progressText(req.Params), maxProgressText)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.report != nil {
		p.report(text)
	}
}

func progressText(n *sdk.ProgressNotificationParams) string {
	count := strconv.FormatFloat(n.Progress, 'g', 6, 64)
	if n.Total > 0 {
		count += "/" + strconv.FormatFloat(n.Total, 'g', 6, 64)
	}
	if n.Message == "" {
		return count
	}
	return count + " " + n.Message
}
