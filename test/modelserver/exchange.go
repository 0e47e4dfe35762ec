package modelserver

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// exchange is one request on its way to its answer.
type exchange struct {
	server   *Server
	protocol protocol
	w        http.ResponseWriter
	r        *http.Request
	id       string // the request id that the answer carries
	rec      *record
	status   int
	outcome  string
}

func (s *Server) exchange(p protocol, w http.ResponseWriter, r *http.Request) *exchange {
	id := "req_" + answerID("", s.requests.Add(1))
	// Each provider reads its own of the two names.
	w.Header().Set("Request-Id", id)
	w.Header().Set("X-Request-Id", id)
	return &exchange{server: s, protocol: p, w: w, r: r, id: id, outcome: OutcomeComplete}
}

// accept reads, records and checks the request. With an error the call may still be there, if it was understood.
func (x *exchange) accept() (*call, *apiError) {
	raw, err := readBody(x.r)
	if err != nil {
		x.outcome = OutcomeClientGone
		return nil, x.protocol.refusal(refuseJSON, "the body ended early")
	}
	if len(raw) > maxBody {
		return nil, x.protocol.refusal(refuseSize, "")
	}
	body, err := parseObject(raw)
	id := str(body, "model")
	m := x.server.lookup(id)
	if m == nil || m.script.Record == nil || *m.script.Record {
		x.rec = x.server.records.begin(id, x.r.URL.Path, x.r.Header, raw, x.server.now())
	}
	switch {
	case err != nil:
		return nil, x.protocol.refusal(refuseJSON, err.Error())
	case id == "":
		return nil, x.protocol.refusal(refuseNoModel, "")
	case m == nil:
		return nil, x.protocol.refusal(refuseModel, id)
	}
	key := keyOf(x.r.Header)
	switch {
	case key == "" && (m.script.Auth == AuthKey || m.script.APIKey != ""):
		return nil, x.protocol.refusal(refuseNoKey, "")
	case m.script.APIKey != "" && key != m.script.APIKey:
		return nil, x.protocol.refusal(refuseKey, "")
	}
	return x.protocol.read(x.r.Header, body, m)
}

// readBody reads at most one byte more than the largest body.
func readBody(r *http.Request) ([]byte, error) {
	var buf bytes.Buffer
	if n := r.ContentLength; n > 0 && n <= maxBody {
		buf.Grow(int(n) + bytes.MinRead) // so that reading to the end grows nothing
	}
	_, err := buf.ReadFrom(io.LimitReader(r.Body, maxBody+1))
	return buf.Bytes(), err
}

// finish closes the record, also when the handler panics to break the connection.
func (x *exchange) finish() { x.server.records.end(x.rec, x.status, x.outcome) }

func (x *exchange) refuse(e *apiError) {
	if x.outcome == OutcomeComplete {
		x.outcome = OutcomeRefused
	}
	x.send(e.status, "application/json", x.protocol.errorBody(e, x.id))
}

// failInStream begins an answer and ends it with the error.
func (x *exchange) failInStream(c *call, e *apiError) {
	x.outcome = OutcomeRefused
	s := x.protocol.stream(c, &answer{id: answerID(c.model.name, 0), created: x.server.now().Unix()})
	x.begin(http.StatusOK, "text/event-stream")
	for _, ev := range append(s.before(0), s.fail(e)...) {
		x.write(ev.frame)
	}
}

// answer gives the script's next reply.
func (x *exchange) answer(c *call) {
	r, seq, e := c.model.pick(c)
	if e != nil {
		x.refuse(e)
		return
	}
	for name, value := range r.Headers {
		x.w.Header().Set(name, value)
	}
	if !x.wait(time.Duration(r.Delay.First) + time.Duration(r.Latency)) {
		return
	}
	switch {
	case r.Hang != nil && r.Hang.AfterChunks == nil:
		x.hang()
		return
	case r.Raw != nil:
		x.raw(r.Raw)
		return
	case r.Error != nil && (r.Error.AfterChunks == nil || !c.stream):
		x.fault(r.Error)
		return
	}
	a := resolve(r, c, seq, x.server.now().Unix())
	if c.leadRequired {
		c.model.rememberLead(a)
	}
	if c.stream {
		x.playStream(r, x.protocol.stream(c, a))
		return
	}
	x.playWhole(r, x.protocol.whole(c, a))
}

func (x *exchange) fault(f *Fault) {
	if f.RetryAfter != nil {
		x.w.Header().Set("Retry-After", strconv.FormatFloat(*f.RetryAfter, 'f', -1, 64))
	}
	x.refuse(f.scripted(x.protocol))
}

func (x *exchange) raw(r *Raw) {
	status, kind := r.Status, r.ContentType
	if status == 0 {
		status = http.StatusOK
	}
	if kind == "" {
		kind = "text/html; charset=utf-8"
	}
	x.send(status, kind, []byte(r.Body))
}

// playStream sends events at the reply's pace until its end or until the place where the reply is cut.
func (x *exchange) playStream(r *Reply, s stream) {
	events, pause := s.events, time.Duration(r.Delay.PerChunk)
	cuts := r.cuts()
	if len(cuts) > 0 {
		events = s.before(cuts[0])
	}
	x.begin(http.StatusOK, "text/event-stream")
	chunks := 0
	for _, ev := range events {
		if ev.chunk {
			chunks++
			if pause > 0 && chunks > 1 && (!x.flush() || !x.wait(pause)) {
				return
			}
		}
		if !x.write(ev.frame) {
			return
		}
	}
	switch {
	case r.Drop != nil:
		x.breakOff()
	case r.Truncate != nil:
		x.outcome = OutcomeTruncated
	case r.Hang != nil:
		x.hang()
	case r.Error != nil:
		x.outcome = OutcomeRefused
		for _, ev := range s.fail(r.Error.scripted(x.protocol)) {
			x.write(ev.frame)
		}
	}
}

// playWhole sends an answer in one piece; a cut one loses its second half.
func (x *exchange) playWhole(r *Reply, body []byte) {
	if !x.wait(time.Duration(r.Delay.PerChunk) * time.Duration(max(0, r.Chunks-1))) {
		return
	}
	if len(r.cuts()) == 0 {
		x.send(http.StatusOK, "application/json", body)
		return
	}
	if r.Drop != nil {
		x.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	x.begin(http.StatusOK, "application/json")
	x.write(body[:len(body)/2])
	switch {
	case r.Drop != nil:
		x.breakOff()
	case r.Hang != nil:
		x.hang()
	default:
		x.outcome = OutcomeTruncated
	}
}

// breakOff breaks the connection after what was written has left.
func (x *exchange) breakOff() {
	x.flush()
	x.outcome = OutcomeDropped
	panic(http.ErrAbortHandler)
}

func (x *exchange) hang() {
	if x.status != 0 {
		x.flush()
	}
	select {
	case <-x.r.Context().Done():
		x.outcome = OutcomeClientGone
	case <-x.server.closed:
		x.outcome = OutcomeDropped
		panic(http.ErrAbortHandler)
	}
}

// wait pauses. It is false when the client went away meanwhile.
func (x *exchange) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.r.Context().Done():
		x.outcome = OutcomeClientGone
		return false
	case <-x.server.closed:
		x.outcome = OutcomeDropped
		panic(http.ErrAbortHandler)
	}
}

func (x *exchange) send(status int, contentType string, body []byte) {
	x.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.begin(status, contentType)
	x.write(body)
}

func (x *exchange) begin(status int, contentType string) {
	x.w.Header().Set("Content-Type", contentType)
	x.status = status
	x.w.WriteHeader(status)
}

func (x *exchange) write(b []byte) bool {
	if _, err := x.w.Write(b); err != nil {
		x.outcome = OutcomeClientGone
		return false
	}
	return true
}

func (x *exchange) flush() bool {
	err := http.NewResponseController(x.w).Flush()
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		return true
	}
	x.outcome = OutcomeClientGone
	return false
}
