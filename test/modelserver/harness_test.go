package modelserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// fixedTime is the clock of every test server.
var fixedTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// client talks to a Server of its own.
type client struct {
	t      *testing.T
	server *Server
	url    string
	http   *httptest.Server
}

// start serves the script.
func start(t *testing.T, script string) *client {
	t.Helper()
	s := New(Options{Now: func() time.Time { return fixedTime }})
	if _, err := s.LoadYAML([]byte(script), ""); err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		ts.Close()
	})
	return &client{t: t, server: s, url: ts.URL, http: ts}
}

// record is the only recorded request, after the server has done with it.
func (c *client) record(t *testing.T) Request {
	t.Helper()
	c.http.Close() // waits for the handlers
	recs := c.server.Requests("m")
	if len(recs) != 1 {
		t.Fatalf("%d requests recorded, want 1", len(recs))
	}
	return recs[0]
}

// answerOf is a response with its body read.
type answerOf struct {
	status int
	header http.Header
	body   []byte
	// readErr is the error of reading the body to its end.
	readErr error
}

func (c *client) do(method, path, body string, header map[string]string) answerOf {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if strings.HasPrefix(path, "/v1/messages") {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answerOf{readErr: err}
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	return answerOf{status: res.StatusCode, header: res.Header, body: raw, readErr: err}
}

func (c *client) post(path, body string) answerOf {
	c.t.Helper()
	return c.do(http.MethodPost, path, body, nil)
}

// object decodes the body.
func (a answerOf) object(t *testing.T) object {
	t.Helper()
	o, err := parseObject(a.body)
	if err != nil {
		t.Fatalf("status %d, body %q: %v", a.status, a.body, err)
	}
	return o
}

// sse is one parsed server-sent event.
type sse struct {
	name, data string
}

// events parses a stream body; a half event at its end is left out, as the standard says.
func (a answerOf) events(t *testing.T) []sse {
	t.Helper()
	var out []sse
	for block := range strings.SplitSeq(string(a.body), "\n\n") {
		if block == "" {
			continue
		}
		var e sse
		for line := range strings.SplitSeq(block, "\n") {
			key, value, ok := strings.Cut(line, ": ")
			switch {
			case ok && key == "event":
				e.name = value
			case ok && key == "data":
				e.data = value
			default:
				t.Fatalf("unexpected line %q in a stream", line)
			}
		}
		out = append(out, e)
	}
	return out
}

// json decodes an event's data.
func (e sse) json(t *testing.T) object {
	t.Helper()
	o, err := parseObject([]byte(e.data))
	if err != nil {
		t.Fatalf("event %q: %v", e.data, err)
	}
	return o
}

// refused is a case of a request that must be refused.
type refused struct {
	script  string // "" means the table's
	path    string // "" means the table's
	body    string
	header  map[string]string
	status  int // 0 means 400
	kind    string
	code    any // OpenAI: string or nil
	param   any
	message string
}

// runRefused checks that every case is refused as it says, and that no reply was used up.
func runRefused(t *testing.T, path, script string, cases map[string]refused) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.script == "" {
				tc.script = script
			}
			if tc.path == "" {
				tc.path = path
			}
			if tc.status == 0 {
				tc.status = http.StatusBadRequest
			}
			if tc.kind == "" {
				tc.kind = "invalid_request_error"
			}
			c := start(t, tc.script)
			got := c.do(http.MethodPost, tc.path, tc.body, tc.header)
			if got.status != tc.status {
				t.Fatalf("status %d, want %d: %s", got.status, tc.status, got.body)
			}
			e := obj(got.object(t), "error")
			if str(e, "message") != tc.message {
				t.Errorf("message\n got %q\nwant %q", str(e, "message"), tc.message)
			}
			if str(e, "type") != tc.kind {
				t.Errorf("type %q, want %q", str(e, "type"), tc.kind)
			}
			if strings.HasPrefix(tc.path, "/v1/messages") {
				if top := got.object(t); str(top, "type") != "error" || !strings.HasPrefix(str(top, "request_id"), "req_") {
					t.Errorf("not the shape of the Messages API: %s", got.body)
				}
			} else if e["code"] != tc.code || e["param"] != tc.param {
				t.Errorf("code %v and param %v, want %v and %v", e["code"], e["param"], tc.code, tc.param)
			}
			for _, m := range c.server.loaded() {
				for i, n := range m.counts() {
					if n != 0 {
						t.Errorf("reply %d was used up", i)
					}
				}
			}
		})
	}
}

// indented is for golden files and messages.
func indented(t *testing.T, raw []byte) string {
	t.Helper()
	var buf bytes.Buffer
	if err := json.Indent(&buf, raw, "", "  "); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return buf.String()
}
