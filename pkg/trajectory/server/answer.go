package server

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/agentloop/agentloop/pkg/trajectory"
)

// documents is raised when the same records make another answer although the API's document has not changed: what
// clients keep from before is then asked for anew.
const documents = 1

// tag names the answer to a request about a session: the same as long as the request, the session's description and
// what its index was made of are the same. It is known before anything is read of the store. Weak, because the same
// answer may be sent in several encodings.
func (s *Server) tag(r *http.Request, session found) string {
	sum := sha256.New()
	summary, err := json.Marshal([]any{session.summary, session.unstarted})
	if err != nil {
		return ""
	}
	fmt.Fprintf(sum, "%d\n%x\n%s\n%s\n%s\n%d\n%s", documents, s.version, r.URL.EscapedPath(), r.URL.RawQuery, session.index.Tag, s.opts.DetailBytes, summary)
	return weak(sum.Sum(nil))
}

func weak(sum []byte) string { return `W/"` + hex.EncodeToString(sum[:12]) + `"` }

// unchanged answers that the client has the answer with this tag already, if it has.
func unchanged(w http.ResponseWriter, r *http.Request, tag string) bool {
	if tag == "" || !matches(r.Header.Get("If-None-Match"), tag) {
		return false
	}
	w.Header().Set("ETag", tag)
	w.WriteHeader(http.StatusNotModified)
	return true
}

func matches(header, tag string) bool {
	for _, candidate := range strings.Split(header, ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || strings.TrimPrefix(candidate, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// tagged encodes, redacts and sends with a tag; without one when it is empty.
func tagged(w http.ResponseWriter, tag string, value any) error {
	body, err := trajectory.Encode(value)
	return sendTagged(w, tag, body, err)
}

// sendTagged sends what was made for the outside, unless that failed.
func sendTagged(w http.ResponseWriter, tag string, body []byte, err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", trajectory.ErrNotJSON, err)
	}
	if tag != "" {
		w.Header().Set("ETag", tag)
	}
	write(w, "application/json", body)
	return nil
}

func write(w http.ResponseWriter, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) //nolint:gosec // no page: the content type says so, and browsers must not guess; the client is gone when it fails
}

// document encodes, redacts and sends. The tag is that of the bytes.
func document(w http.ResponseWriter, r *http.Request, value any) error {
	body, err := trajectory.Encode(value)
	if err != nil {
		return fmt.Errorf("%w: %w", trajectory.ErrNotJSON, err)
	}
	send(w, r, "application/json", body)
	return nil
}

// send answers with bytes that were made for the outside, or says that they have not changed.
func send(w http.ResponseWriter, r *http.Request, contentType string, body []byte) {
	sum := sha256.Sum256(body)
	tag := weak(sum[:])
	if unchanged(w, r, tag) {
		return
	}
	w.Header().Set("ETag", tag)
	write(w, contentType, body)
}
