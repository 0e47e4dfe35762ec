package modelserver

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Request is one recorded request.
type Request struct {
	// Time is when the request had been read.
	Time time.Time `json:"time"`
	Path string    `json:"path"`
	// Headers are the request's, in lower case, credentials replaced by "redacted".
	Headers map[string]string `json:"headers"`
	// Body is the parsed body; null when it is not JSON.
	Body json.RawMessage `json:"body"`
	// Raw is the body byte for byte.
	Raw string `json:"raw"`
	// Status is the status that was sent, 0 as long as none was.
	Status int `json:"status"`
	// Outcome is pending, complete, refused, dropped, truncated or clientGone.
	Outcome string `json:"outcome"`
}

// Outcomes of recorded requests.
const (
	OutcomePending    = "pending"
	OutcomeComplete   = "complete"
	OutcomeRefused    = "refused"
	OutcomeDropped    = "dropped"
	OutcomeTruncated  = "truncated"
	OutcomeClientGone = "clientGone"
)

// recorder keeps requests by the model they name, within a bound on their total size; the oldest go first.
type recorder struct {
	mu    sync.Mutex
	limit int64
	size  int64
	all   []*record
}

type record struct {
	model string
	Request
}

func (r *recorder) begin(model, path string, header http.Header, body []byte, at time.Time) *record {
	rec := &record{model: model, Request: Request{
		Time: at, Path: path, Headers: visibleHeaders(header), Raw: string(body), Outcome: OutcomePending,
	}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, rec)
	r.size += int64(len(rec.Raw))
	drop := 0
	for r.size > r.limit && drop < len(r.all)-1 {
		r.size -= int64(len(r.all[drop].Raw))
		r.all[drop] = nil
		drop++
	}
	r.all = r.all[drop:]
	return rec
}

// end notes how a request was answered. A nil record is one that is not kept.
func (r *recorder) end(rec *record, status int, outcome string) {
	if rec == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rec.Status, rec.Outcome = status, outcome
}

func (r *recorder) list(model string) []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []Request{}
	for _, rec := range r.all {
		if rec.model != model {
			continue
		}
		req := rec.Request
		if raw := json.RawMessage(req.Raw); json.Valid(raw) {
			req.Body = raw
		}
		out = append(out, req)
	}
	return out
}

func (r *recorder) forget(model string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var kept []*record
	r.size = 0
	for _, rec := range r.all {
		if rec.model != model {
			kept = append(kept, rec)
			r.size += int64(len(rec.Raw))
		}
	}
	r.all = kept
}

var secretHeaders = map[string]bool{
	"Authorization": true, "X-Api-Key": true, "Api-Key": true, "Cookie": true, "Proxy-Authorization": true,
}

func visibleHeaders(h http.Header) map[string]string {
	out := make(map[string]string, len(h))
	for name, values := range h {
		value := strings.Join(values, ", ")
		if secretHeaders[name] {
			value = "redacted"
		}
		out[strings.ToLower(name)] = value
	}
	return out
}
