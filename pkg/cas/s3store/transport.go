package s3store

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// errListingLoops is returned when a listing repeats itself or goes backwards.
var errListingLoops = errors.New("the server's listing does not advance")

// transport looks at every answer before the client library does, which believes statuses: it shows errors inside
// successes, tells a proxy's "not found" from the server's, insists on encryption, keeps listings from running in
// circles, and keeps the difference of the clocks.
type transport struct {
	base *http.Transport
	// clock is the server's clock minus ours in nanoseconds, by the last answer; noClock before the first.
	clock atomic.Int64
	heard atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := checkListing(req); err != nil {
		return nil, err
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	t.observe(resp)
	if err := checkEncryption(req, resp); err != nil {
		_ = resp.Body.Close() // nobody wants the rest
		return nil, err
	}
	return unmask(req, resp), nil
}

func (t *transport) observe(resp *http.Response) {
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		t.clock.Store(int64(time.Until(at)))
		t.heard.Store(true)
	}
}

// clockOffset returns how far the server's clock was ahead of ours at the last answer, to about a second.
func (t *transport) clockOffset() (time.Duration, bool) {
	return time.Duration(t.clock.Load()), t.heard.Load()
}

const encryptionHeader = "X-Amz-Server-Side-Encryption"

// checkEncryption refuses the success of a put that was to be encrypted and, by the answer, was not.
func checkEncryption(req *http.Request, resp *http.Response) error {
	asked := req.Header.Get(encryptionHeader)
	if asked == "" || req.Method != http.MethodPut || resp.StatusCode != http.StatusOK {
		return nil
	}
	if got := resp.Header.Get(encryptionHeader); got != asked {
		return fmt.Errorf("%w: asked for %s, the server confirmed %q", ErrNotEncrypted, asked, got)
	}
	return nil
}

// peekSize is how much of an answer decides whether it is an error.
const peekSize = 512

// unmask gives the answer the status that its body deserves.
func unmask(req *http.Request, resp *http.Response) *http.Response {
	if req.Method == http.MethodHead {
		return resp
	}
	switch {
	case resp.StatusCode == http.StatusOK && resp.ContentLength != 0:
		if isErrorBody(peek(resp)) {
			resp.StatusCode, resp.Status = http.StatusInternalServerError, "500 error inside a success"
		}
	case resp.StatusCode == http.StatusNotFound && !isErrorBody(peek(resp)):
		// S3 says in XML what is missing. Anything else is somebody who does not know the bucket.
		resp.StatusCode, resp.Status = http.StatusBadGateway, "502 not found, but not by an S3 server"
	}
	return resp
}

// peek returns the beginning of the body and leaves it in place.
func peek(resp *http.Response) []byte {
	r := bufio.NewReaderSize(resp.Body, peekSize)
	head, _ := r.Peek(peekSize) // a shorter body, or one that breaks, is seen again by its reader
	resp.Body = struct {
		io.Reader
		io.Closer
	}{r, resp.Body}
	return head
}

// isErrorBody says whether a body's outermost element is an S3 error. No stored object begins like that.
func isErrorBody(head []byte) bool {
	head = bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	if bytes.HasPrefix(head, []byte("<?xml")) {
		_, rest, ok := bytes.Cut(head, []byte("?>"))
		if !ok {
			return false
		}
		head = bytes.TrimSpace(rest)
	}
	rest, ok := bytes.CutPrefix(head, []byte("<Error"))
	return ok && len(rest) > 0 && strings.ContainsRune("> \t\r\n", rune(rest[0]))
}

// listing follows one listing over its requests.
type listing struct {
	tokens map[string]bool
	empty  int // pages in a row that brought nothing
}

type listingKey struct{}

// maxEmptyPages is how many empty pages in a row a listing may have. Servers skip over deleted keys that way.
const maxEmptyPages = 1000

func withListing(ctx context.Context, l *listing) context.Context {
	return context.WithValue(ctx, listingKey{}, l)
}

// checkListing refuses to ask for a page a second time. The client library follows whatever token it is given.
func checkListing(req *http.Request) error {
	l, ok := req.Context().Value(listingKey{}).(*listing)
	if !ok {
		return nil
	}
	token := req.URL.Query().Get("continuation-token")
	if l.tokens[token] {
		return fmt.Errorf("%w: it gave the same continuation token twice", errListingLoops)
	}
	l.tokens[token] = true
	if l.empty++; l.empty > maxEmptyPages {
		return fmt.Errorf("%w: %d empty pages in a row", errListingLoops, maxEmptyPages)
	}
	return nil
}
