package server

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/viewer/story"
)

const base = "/api/sessions/team:" + sessionName

func TestEveryAnswerIsWhatTheDocumentSays(t *testing.T) {
	s := newSite(t)
	var index struct {
		Entries []trajectory.Entry `json:"entries"`
		Cursor  string             `json:"cursor"`
	}
	for _, path := range []string{
		"/api/sessions", "/api/sessions?namespace=team&limit=1", base, "/api/sessions/team:fresh", base + "/messages", base + "/messages?limit=2",
		"/api/sessions/team:fresh/messages", "/api/sessions/team:fresh/trajectory", base + "/trajectory?limit=3", base + "/trajectory/export",
		"/api/sessions/team:fresh/trajectory/export", "/healthz", "/readyz", "/metrics", "/openapi.json",
	} {
		if a := s.get(path); a.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %s: %s", path, a.Status, a.body)
		}
	}
	s.get(base+"/trajectory").decode(t, &index)
	if len(index.Entries) != 23 {
		t.Fatalf("%d entries, want 23", len(index.Entries))
	}
	for _, e := range index.Entries {
		for _, raw := range []string{"", "&raw=true"} {
			if a := s.get(base + "/trajectory/detail?id=" + e.ID + raw); a.StatusCode != http.StatusOK {
				t.Errorf("detail of %s: %s: %s", e.ID, a.Status, a.body)
			}
		}
	}
	if a := s.get(base + "/trajectory?after=" + index.Cursor); a.StatusCode != http.StatusOK || bytes.Contains(a.body, []byte(`"id":"run.main`)) {
		t.Errorf("an increment without changes: %s: %s", a.Status, a.body)
	}
}

func TestProblems(t *testing.T) {
	s := newSite(t)
	const unknown = "33333333-3333-4333-8333-333333333333"
	cases := map[string]struct {
		path   string
		header []string
		status int
		code   string
	}{
		"no token":                          {base, []string{"Authorization", ""}, 401, "unauthenticated"},
		"another scheme":                    {base, []string{"Authorization", "Basic YTpi"}, 401, "unauthenticated"},
		"a bad token":                       {base, []string{"Authorization", "Bearer nonsense"}, 401, "unauthenticated"},
		"a bad token for what is not there": {"/api/sessions/team:none", []string{"Authorization", "Bearer nonsense"}, 401, "unauthenticated"},
		"no permission":                     {"/api/sessions/other:x", nil, 403, "forbidden"},
		"no permission, and nothing there":  {"/api/sessions/other:none", nil, 403, "forbidden"},
		"no permission for the export":      {base + "/trajectory/export", []string{"Authorization", "Bearer token-of-bob"}, 403, "forbidden"},
		"no permission to list all":         {"/api/sessions", []string{"Authorization", "Bearer token-of-bob"}, 403, "forbidden"},
		"no such session":                   {"/api/sessions/team:none", nil, 404, "notFound"},
		"no such session, by UID":           {"/api/sessions/team:" + unknown + "/trajectory", nil, 404, "notFound"},
		"no such session to export":         {"/api/sessions/team:none/trajectory/export", nil, 404, "notFound"},
		"no such entry":                     {base + "/trajectory/detail?id=run.main.999", nil, 404, "notFound"},
		"a digest is no id":                 {base + "/trajectory/detail?id=sha256:" + strings.Repeat("a", 64), nil, 404, "notFound"},
		"no such agent":                     {base + "/messages?agent=nobody", nil, 404, "notFound"},
		"no id of an entry":                 {base + "/trajectory/detail", nil, 400, "badRequest"},
		"an id of no session":               {"/api/sessions/team", nil, 400, "badRequest"},
		"an id with a path in it":           {"/api/sessions/team:..%2Fx", nil, 400, "badRequest"},
		"a limit that is no number":         {base + "/trajectory?limit=all", nil, 400, "badRequest"},
		"a limit that is too high":          {base + "/trajectory?limit=10001", nil, 400, "badRequest"},
		"an unknown parameter":              {base + "/trajectory?format=x", nil, 400, "badRequest"},
		"a parameter given twice":           {base + "/trajectory?limit=1&limit=2", nil, 400, "badRequest"},
		"a malformed cursor":                {base + "/trajectory?after=%25", nil, 400, "badRequest"},
		"a malformed cursor of messages":    {base + "/messages?cursor=%25", nil, 400, "badRequest"},
		"a cursor of another version":       {base + "/trajectory?after=eyJ2Ijo5fQ", nil, 410, "cursorExpired"},
		"a list's cursor that expired":      {"/api/sessions?namespace=team&cursor=expired", nil, 410, "cursorExpired"},
		"an unknown format":                 {base + "/trajectory/export?format=xml", nil, 400, "badRequest"},
		"contents where they always are":    {base + "/trajectory/export?format=atif&content=false", nil, 400, "badRequest"},
		"contents that are no switch":       {base + "/trajectory/export?format=otlp-json&content=some", nil, 400, "badRequest"},
		"an unknown path of the API":        {"/api/other", nil, 404, "notFound"},
		"a limit of none":                   {base + "/trajectory?limit=0", nil, 400, "badRequest"},
		"a limit below none":                {base + "/messages?limit=-1", nil, 400, "badRequest"},
		"an empty limit":                    {base + "/messages?limit=", nil, 400, "badRequest"},
		"a limit that overflows":            {base + "/messages?limit=99999999999999999999", nil, 400, "badRequest"},
		"a limit of messages too high":      {base + "/messages?limit=1001", nil, 400, "badRequest"},
		"a limit of sessions too high":      {"/api/sessions?limit=1001", nil, 400, "badRequest"},
		"a namespace that is none":          {"/api/sessions?namespace=A", nil, 400, "badRequest"},
		"a cursor that is too long":         {base + "/trajectory?after=" + strings.Repeat("a", 4097), nil, 400, "badRequest"},
		"a cursor of messages, too long":    {base + "/messages?cursor=" + strings.Repeat("a", 4097), nil, 400, "badRequest"},
		"a cursor of sessions, too long":    {"/api/sessions?namespace=team&cursor=" + strings.Repeat("a", 4097), nil, 400, "badRequest"},
		"a cursor that is no JSON":          {base + "/trajectory?after=YWJj", nil, 400, "badRequest"},
		"a cursor of messages, no JSON":     {base + "/messages?cursor=YWJj", nil, 400, "badRequest"},
		"messages before none":              {base + "/messages?cursor=eyJ2IjoxLCJiIjotMX0", nil, 400, "badRequest"},
		"a cursor of another agent":         {base + "/messages?cursor=eyJ2IjoxLCJzIjoieCIsImEiOiJtYWluIiwiYiI6MX0", nil, 410, "cursorExpired"},
		"an id that is too long":            {base + "/trajectory/detail?id=" + strings.Repeat("a", 513), nil, 400, "badRequest"},
		"raw that is neither":               {base + "/trajectory/detail?id=run.main.1&raw=1", nil, 400, "badRequest"},
		"a parameter of a session":          {base + "?limit=1", nil, 400, "badRequest"},
		"a query that is malformed":         {base + "/trajectory?limit=%zz", nil, 400, "badRequest"},
		"a semicolon in the query":          {base + "/trajectory?limit=1;after=x", nil, 400, "badRequest"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s.t = t
			a := s.get(c.path, c.header...)
			var p problem
			a.decode(t, &p)
			if a.StatusCode != c.status || p.Code != c.code || p.Status != c.status || a.Header.Get("Content-Type") != "application/problem+json" || p.Instance == "" {
				t.Errorf("GET %s: %s %s, want %d %s", c.path, a.Status, a.body, c.status, c.code)
			}
			if asks := a.Header.Get("WWW-Authenticate") != ""; asks != (c.status == 401) {
				t.Errorf("WWW-Authenticate is %q", a.Header.Get("WWW-Authenticate"))
			}
			if (p.RequiredAccess != nil) != (c.status == 403) {
				t.Errorf("the required access is %+v", p.RequiredAccess)
			}
		})
	}
}

// TestAccessComesFirst counts what is looked at for those who may not look.
func TestAccessComesFirst(t *testing.T) {
	s := newSite(t)
	s.get("/api/sessions/other:x/trajectory")
	s.get(base, "Authorization", "Bearer nonsense")
	if s.directory.looked != 0 {
		t.Errorf("%d sessions were looked up for a caller who may not", s.directory.looked)
	}
	s.get(base + "/trajectory/detail?id=run.main.1")
	s.get(base + "/trajectory/export")
	s.get("/api/sessions?namespace=team")
	want := []Access{
		{Verb: "get", Subresource: "trajectory", Namespace: "other", Name: "x"}, {Verb: "get", Subresource: "trajectory", Namespace: "team", Name: sessionName},
		{Verb: "get", Subresource: "trajectoryexport", Namespace: "team", Name: sessionName}, {Verb: "list", Namespace: "team"},
	}
	if len(s.gate.asked) != len(want) {
		t.Fatalf("asked for %+v", s.gate.asked)
	}
	for i, access := range want {
		if s.gate.asked[i] != access {
			t.Errorf("asked for %+v, want %+v", s.gate.asked[i], access)
		}
	}
	logged := s.logs.String()
	if !strings.Contains(logged, "user=alice") || !strings.Contains(logged, "session="+sessionName) || strings.Contains(logged, "token-of-alice") {
		t.Errorf("the access log says: %s", logged)
	}
}

func TestOnlyReadingMethods(t *testing.T) {
	s := newSite(t)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
		for _, path := range []string{base, base + "/trajectory/text", base + "/trajectory/image", base + "/trajectory/export", "/", "/readyz"} {
			a := s.do(method, path, "Authorization", "Bearer token-of-alice")
			if a.StatusCode != http.StatusMethodNotAllowed || a.Header.Get("Allow") != "GET, HEAD" || a.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %s: %s, Allow %q", method, path, a.Status, a.Header.Get("Allow"))
			}
		}
	}
	for _, path := range []string{base, base + "/trajectory", base + "/trajectory/export", "/"} {
		a := s.do(http.MethodHead, path, "Authorization", "Bearer token-of-alice")
		if a.StatusCode != http.StatusOK || len(a.body) > 0 || a.Header.Get("Content-Type") == "" {
			t.Errorf("HEAD %s: %s %v", path, a.Status, a.Header)
		}
	}
	if a := s.do(http.MethodHead, "/api/sessions/team:none/trajectory/export", "Authorization", "Bearer token-of-alice"); a.StatusCode != http.StatusNotFound {
		t.Errorf("HEAD of an export that is not there: %s", a.Status)
	}
}

func TestDeletedSessionsAreFoundByUID(t *testing.T) {
	s := newSite(t)
	s.directory.sessions = nil
	var index struct {
		Session Summary            `json:"session"`
		Entries []trajectory.Entry `json:"entries"`
	}
	s.get("/api/sessions/team:"+story.Session+"/trajectory").decode(t, &index)
	if !index.Session.Deleted || index.Session.UID != story.Session || len(index.Entries) != 23 {
		t.Errorf("session is %+v with %d entries", index.Session, len(index.Entries))
	}
	if a := s.get("/api/sessions/team:" + sessionName); a.StatusCode != http.StatusNotFound {
		t.Errorf("by its name: %s", a.Status)
	}
}

func TestNotModified(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{base, base + "/messages", base + "/trajectory", base + "/trajectory/detail?id=run.main.13", "/"} {
		first := s.get(path)
		tag := first.Header.Get("ETag")
		if a := s.get(path, "If-None-Match", `"x", `+tag); a.StatusCode != http.StatusNotModified || len(a.body) > 0 || a.Header.Get("ETag") != tag {
			t.Errorf("GET %s again: %s, ETag %s", path, a.Status, a.Header.Get("ETag"))
		}
		if a := s.get(path, "If-None-Match", `"x"`); a.StatusCode != http.StatusOK {
			t.Errorf("GET %s with another tag: %s", path, a.Status)
		}
	}
	tag := s.get(base + "/trajectory").Header.Get("ETag")
	event := runevent.Event{Type: runevent.TypeRunStarted, RunName: "run-9", Attempt: 1, Evidence: runevent.Evidence{AgentID: "main", AgentRunID: "u9"}}
	if _, err := s.story.Append(t.Context(), story.Stream("main"), event); err != nil {
		t.Fatal(err)
	}
	if a := s.get(base+"/trajectory", "If-None-Match", tag); a.StatusCode != http.StatusOK || !bytes.Contains(a.body, []byte("run-9")) {
		t.Errorf("after an append: %s", a.Status)
	}
}

func TestPagesOfTheIndexAndOfMessages(t *testing.T) {
	s := newSite(t)
	seen, after := 0, ""
	for {
		var page struct {
			Entries []trajectory.Entry `json:"entries"`
			Next    string             `json:"next"`
		}
		s.get(base+"/trajectory?limit=5&after="+url.QueryEscape(after)).decode(t, &page)
		seen += len(page.Entries)
		if after = page.Next; after == "" {
			break
		}
	}
	if seen != 23 {
		t.Errorf("pages have %d entries, want 23", seen)
	}
	var roles []string
	cursor := ""
	for {
		var page struct {
			Total    int                         `json:"total"`
			Messages []trajectory.HistoryMessage `json:"messages"`
			Previous string                      `json:"previous"`
		}
		s.get(base+"/messages?limit=3&cursor="+url.QueryEscape(cursor)).decode(t, &page)
		var part []string
		for _, m := range page.Messages {
			part = append(part, m.Role)
		}
		roles = append(part, roles...)
		if cursor = page.Previous; cursor == "" {
			break
		}
	}
	if got := strings.Join(roles, " "); got != "user assistant toolResult toolResult assistant user assistant" {
		t.Errorf("messages are %s", got)
	}
}

func TestNothingLeavesUnredacted(t *testing.T) {
	s := newSite(t)
	paths := []string{
		base + "/messages", base + "/trajectory/export", base + "/trajectory/export?format=atif", base + "/trajectory/export?format=otlp-json&content=true",
	}
	for _, id := range []string{"run.main.4", "run.main.6", "run.main.13"} {
		paths = append(paths, base+"/trajectory/detail?id="+id, base+"/trajectory/detail?id="+id+"&raw=true")
	}
	for _, path := range paths {
		body := s.get(path).body
		if !bytes.Contains(body, []byte(trajectory.Redacted)) {
			t.Errorf("GET %s: nothing was redacted", path)
		}
		for _, secret := range []string{"hunter2", "user:pass", "sk-live"} {
			if bytes.Contains(body, []byte(secret)) {
				t.Errorf("GET %s: %q came through", path, secret)
			}
		}
	}
}

func TestExport(t *testing.T) {
	s := newSite(t)
	a := s.get(base + "/trajectory/export")
	if got := a.Header.Get("Content-Disposition"); got != `attachment; filename="team_sample.trajectory.ndjson"` || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers are %v", a.Header)
	}
	lines := bytes.Split(bytes.TrimSuffix(a.body, []byte("\n")), []byte("\n"))
	var header struct {
		Type    string             `json:"type"`
		Entries []trajectory.Entry `json:"entries"`
	}
	var complete struct {
		Type    string `json:"type"`
		Records int    `json:"records"`
		SHA256  string `json:"sha256"`
	}
	last := len(lines) - 1
	if json.Unmarshal(lines[0], &header) != nil || json.Unmarshal(lines[last], &complete) != nil {
		t.Fatal("the export is not NDJSON")
	}
	sum := sha256.Sum256(a.body[:len(a.body)-len(lines[last])-1])
	if header.Type != "trajectory" || complete.Type != "complete" || complete.Records != last-1 || len(header.Entries) != last-1 || complete.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("header with %d entries, %d lines between, complete is %+v", len(header.Entries), last-1, complete)
	}
	for i, line := range lines[1:last] {
		var entry struct {
			Type  string           `json:"type"`
			Entry trajectory.Entry `json:"entry"`
		}
		if json.Unmarshal(line, &entry) != nil || entry.Type != "entry" || entry.Entry.ID != header.Entries[i].ID {
			t.Errorf("line %d is %.200s", i+1, line)
		}
	}
}

// TestAFailedExportIsBrokenOff lets the store go away in the middle.
func TestAFailedExportIsBrokenOff(t *testing.T) {
	for name, encoding := range map[string]string{"plain": "identity", "compressed": "gzip"} {
		t.Run(name, func(t *testing.T) {
			store := &brokenStore{left: 12}
			s := newSite(t, func(o *Options) { store.Store = o.Store; o.Store = store })
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+base+"/trajectory/export", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer token-of-alice")
			request.Header.Set("Accept-Encoding", encoding)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if response.StatusCode != http.StatusOK || err == nil {
				t.Errorf("%s with %d bytes and error %v, want a transfer that breaks", response.Status, len(body), err)
			}
			if encoding == "gzip" {
				unpacked, zerr := gzip.NewReader(bytes.NewReader(body))
				if zerr != nil {
					t.Fatal(zerr)
				}
				body, _ = io.ReadAll(bufio.NewReader(unpacked)) // what there is of it
			}
			if !bytes.Contains(body, []byte(`{"type":"entry"`)) || bytes.Contains(body, []byte(`"type":"complete"`)) {
				t.Errorf("the export begins with entries and never completes, but is: %.300s", body)
			}
		})
	}
}

func TestTooManyExports(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Exports = 1 })
	s.server.exports <- struct{}{}
	if a := s.get(base + "/trajectory/export"); a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" {
		t.Errorf("%s %v", a.Status, a.Header)
	}
	<-s.server.exports
	if a := s.get(base + "/trajectory/export"); a.StatusCode != http.StatusOK {
		t.Errorf("when the other one is done: %s", a.Status)
	}
}

func TestUnavailable(t *testing.T) {
	log := &awayLog{}
	store := &brokenStore{left: 1 << 30}
	s := newSite(t, func(o *Options) {
		log.Log, store.Store = o.Log, o.Store
		o.Log, o.Store = log, store
	})
	expect := func(path string) {
		t.Helper()
		a := s.get(path)
		if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "5" || bytes.Contains(a.body, []byte("secret-endpoint")) {
			t.Errorf("GET %s: %s, Retry-After %q: %s", path, a.Status, a.Header.Get("Retry-After"), a.body)
		}
	}
	log.away = true
	expect(base + "/trajectory")
	log.away = false
	store.left = 0
	expect(base + "/trajectory/detail?id=run.main.13")
	if a := s.get(base + "/trajectory"); a.StatusCode != http.StatusOK {
		t.Errorf("the index needs no objects: %s: %s", a.Status, a.body)
	}
	s.gate.err = errors.New("secret-endpoint is down")
	expect(base)
	s.gate.err = nil
	s.directory.err = errors.New("secret-endpoint is down")
	expect(base)
}

func TestReadiness(t *testing.T) {
	fault := errors.New("secret-endpoint is down")
	s := newSite(t, func(o *Options) { o.Ready = func(context.Context) error { return fault } })
	if a := s.do(http.MethodGet, "/readyz"); a.StatusCode != http.StatusServiceUnavailable || bytes.Contains(a.body, []byte("secret")) {
		t.Errorf("%s: %s", a.Status, a.body)
	}
	fault = nil
	if a := s.do(http.MethodGet, "/readyz"); a.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", a.Status, a.body)
	}
}

func TestLimitOfADetail(t *testing.T) {
	s := newSite(t, func(o *Options) { o.DetailBytes = 100 })
	if a := s.get(base + "/trajectory/detail?id=run.main.13"); a.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%s: %s", a.Status, a.body)
	}
	if a := s.get(base + "/trajectory/export"); a.StatusCode != http.StatusOK || !bytes.Contains(a.body, []byte(`"type":"complete"`)) {
		t.Errorf("the export has no such limit: %s", a.Status)
	}
}

func TestThePage(t *testing.T) {
	s := newSite(t)
	for path, want := range map[string]struct {
		status int
		kind   string
		cache  string
	}{
		"/":                                    {200, "text/html; charset=utf-8", "no-cache"},
		"/projects/team/sessions/a.b":          {200, "text/html; charset=utf-8", "no-cache"},
		"/projects/team/sessions/a/trajectory": {200, "text/html; charset=utf-8", "no-cache"},
		"/assets/main-abc.js":                  {200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"},
		"/icon.svg":                            {200, "image/svg+xml", "no-cache"},
		"/assets/none.js":                      {404, "application/problem+json", "no-store"},
		"/assets/":                             {404, "application/problem+json", "no-store"},
		"/index.html":                          {404, "application/problem+json", "no-store"},
		"/projects/team/sessions/a/trajectory/on": {404, "application/problem+json", "no-store"},
		"/elsewhere": {404, "application/problem+json", "no-store"},
	} {
		a := s.do(http.MethodGet, path)
		if a.StatusCode != want.status || a.Header.Get("Content-Type") != want.kind || a.Header.Get("Cache-Control") != want.cache {
			t.Errorf("GET %s: %s %v, want %+v", path, a.Status, a.Header, want)
		}
		for name, value := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin"} {
			if a.Header.Get(name) != value {
				t.Errorf("GET %s: %s is %q", path, name, a.Header.Get(name))
			}
		}
		policy := a.Header.Get("Content-Security-Policy")
		if want.status == 200 && (!strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "trusted-types 'none'")) {
			t.Errorf("GET %s: policy %q", path, policy)
		}
	}
	none := newSite(t, func(o *Options) { o.Page = nil })
	if a := none.do(http.MethodGet, "/"); a.StatusCode != http.StatusNotFound {
		t.Errorf("without a page: %s", a.Status)
	}
}

func TestCompression(t *testing.T) {
	s := newSite(t)
	for _, encoding := range []string{"gzip", "zstd"} {
		a := s.get(base+"/trajectory", "Accept-Encoding", encoding)
		if a.Header.Get("Content-Encoding") != encoding || !strings.Contains(strings.Join(a.Header.Values("Vary"), ","), "Accept-Encoding") {
			t.Errorf("%s: headers are %v", encoding, a.Header)
		}
	}
}
