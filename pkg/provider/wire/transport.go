package wire

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// maxErrorBody is how much of an error answer is kept.
const maxErrorBody = 64 << 10

// transport is the http.RoundTripper under every SDK.
type transport struct {
	network  http.RoundTripper
	idle     time.Duration
	total    time.Duration
	maxBytes int64
	trace    func(ctx context.Context) map[string]string
}

// answerError is an HTTP answer that is not what was asked for: an event stream, or a JSON document. It is returned instead of the answer, so that no SDK gets to
// interpret it.
type answerError struct {
	status int
	header http.Header
	body   []byte
	// code says what is wrong with an answer whose status is 2xx or 3xx.
	code string
}

func (e *answerError) Error() string {
	if e.code != "" {
		return "the provider's answer is not what was asked for: " + e.code
	}
	return "the provider answered " + http.StatusText(e.status)
}

// RoundTrip implements http.RoundTripper. It leaves the request and its headers as they are.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := readBody(req)
	if err != nil {
		return nil, err
	}
	c := callFrom(req.Context())
	if body, err = c.check(req.Context(), body); err != nil {
		return nil, err
	}
	ctx, w := watch(req.Context(), t.idle, t.total)
	out := t.traced(req.WithContext(ctx))
	out.ContentLength = int64(len(body))
	out.GetBody, out.Body = nil, nil
	if len(body) > 0 {
		out.GetBody = func() (io.ReadCloser, error) { return w.upload(body), nil }
		out.Body = w.upload(body)
	}
	c.dispatched = true
	resp, err := t.network.RoundTrip(out)
	if err != nil {
		defer w.stop()
		return nil, w.explain(err)
	}
	w.alive()
	c.status, c.header = resp.StatusCode, resp.Header
	stream := &streamBody{raw: resp.Body, in: resp.Body, watch: w, left: t.maxBytes}
	if c.document {
		stream.left = min(stream.left, maxDocument)
	}
	if err := accept(resp, stream, c.document); err != nil {
		stream.abandon()
		return nil, err
	}
	resp.Body = stream
	return resp, nil
}

// traced adds the headers of the request's trace, to a copy of those that there are.
func (t *transport) traced(req *http.Request) *http.Request {
	if t.trace == nil {
		return req
	}
	fields := t.trace(req.Context())
	if len(fields) == 0 {
		return req
	}
	req.Header = req.Header.Clone()
	for name, value := range fields {
		req.Header.Set(name, value)
	}
	return req
}

// readBody takes the whole body, as the guard needs it, and closes it, as the interface demands.
func readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer func() { _ = req.Body.Close() }()
	return io.ReadAll(req.Body)
}

// accept returns an error for every answer that is no event stream, or no JSON document where that is wanted.
func accept(resp *http.Response, body *streamBody, document bool) error {
	switch strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))) {
	case "", "identity":
	case "gzip", "x-gzip":
		body.in = &lazyGzip{in: body.in} // not asked for, but some proxies compress regardless
	default:
		return capture(resp, body, "content_encoding")
	}
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return capture(resp, body, "redirect")
	case resp.StatusCode < 200 || resp.StatusCode >= 300:
		return capture(resp, body, "")
	}
	if document {
		return acceptDocument(resp, body)
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err == nil && media == "text/event-stream" {
		return nil
	}
	// Some servers mislabel their streams, so the first byte decides.
	switch body.first() {
	case '{', '[':
		return capture(resp, body, "json_response")
	case '<':
		return capture(resp, body, "html_response")
	}
	return nil
}

// acceptDocument goes by the first byte alone: some servers mislabel their JSON.
func acceptDocument(resp *http.Response, body *streamBody) error {
	switch body.first() {
	case '{', '[':
		return nil
	case '<':
		return capture(resp, body, "html_response")
	}
	return capture(resp, body, "no_json")
}

func capture(resp *http.Response, body *streamBody, code string) error {
	// A body that breaks off still has its status; what came of it is kept.
	kept, err := io.ReadAll(io.LimitReader(body, maxErrorBody))
	if errors.Is(err, ErrIdleTimeout) && len(kept) == 0 && code != "" {
		return err
	}
	return &answerError{status: resp.StatusCode, header: resp.Header, body: kept, code: code}
}

// streamBody is a response body under watch: it keeps the call alive while bytes come, bounds them, and names the
// reason when it is cut.
type streamBody struct {
	raw   io.Closer
	in    io.Reader
	watch *callWatch
	left  int64
	ended bool
}

// Read implements io.Reader.
func (b *streamBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.ended = true
		return 0, ErrResponseTooLarge
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.in.Read(p)
	b.left -= int64(n)
	if n > 0 {
		b.watch.alive()
	}
	if err == nil {
		return n, nil
	}
	b.ended = true
	if errors.Is(err, io.EOF) {
		return n, io.EOF
	}
	return n, b.watch.explain(err)
}

// lazyGzip reads the gzip header at the first Read, when the watch is ready for it.
type lazyGzip struct {
	in io.Reader
	gz *gzip.Reader
}

func (l *lazyGzip) Read(p []byte) (int, error) {
	if l.gz == nil {
		gz, err := gzip.NewReader(l.in)
		if err != nil {
			return 0, err
		}
		l.gz = gz
	}
	return l.gz.Read(p)
}

// first returns the first byte that is no white space, without consuming anything; 0 when there is none.
func (b *streamBody) first() byte {
	in := bufio.NewReader(b.in)
	b.in = in
	for n := 1; n <= in.Size(); n++ {
		head, err := in.Peek(n)
		if err != nil {
			return 0
		}
		switch b := head[n-1]; b {
		case ' ', '\t', '\r', '\n', 0xef, 0xbb, 0xbf: // the last three are a byte order mark
		default:
			return b
		}
	}
	return 0
}

// drainTime and drainBytes bound the wait for the end of a stream whose terminal event has come: reading it lets the
// connection be used again.
const (
	drainTime  = 50 * time.Millisecond
	drainBytes = 4 << 10
)

// Close implements io.Closer.
func (b *streamBody) Close() error {
	if !b.ended {
		b.watch.hurry(drainTime)
		_, _ = io.CopyN(io.Discard, b, drainBytes)
	}
	b.abandon()
	return nil
}

func (b *streamBody) abandon() {
	_ = b.raw.Close()
	b.watch.stop()
}
