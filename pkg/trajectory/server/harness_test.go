package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/agentloop/agentloop/api/openapi"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/trajectory"
	"github.com/agentloop/agentloop/test/viewer/story"
)

// gate lets the tokens in that it knows, with the accesses that they have.
type gate struct {
	mu sync.Mutex
	// users are by token, grants by user name.
	grants map[string][]string
	asked  []Access
	err    error
}

func (g *gate) Authenticate(_ context.Context, token string) (User, error) {
	if g.err != nil {
		return User{}, g.err
	}
	name, ok := strings.CutPrefix(token, "token-of-")
	if !ok {
		return User{}, ErrUnauthenticated
	}
	return User{Name: name}, nil
}

func (g *gate) Allowed(_ context.Context, user User, access Access) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, access)
	return slices.Contains(g.grants[user.Name], access.Verb+" "+access.Subresource+"@"+access.Namespace), nil
}

// directory knows the sessions that it was given.
type directory struct {
	mu       sync.Mutex
	sessions []Session
	looked   int
	err      error
}

func (d *directory) Session(_ context.Context, namespace, ref string) (Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looked++
	if d.err != nil {
		return Session{}, d.err
	}
	for _, s := range d.sessions {
		if s.Summary.Namespace == namespace && (s.Summary.Name == ref || s.Summary.UID == ref) {
			return s, nil
		}
	}
	return Session{}, ErrNotFound
}

func (d *directory) Sessions(_ context.Context, namespace string, limit int, cursor string) ([]Session, string, error) {
	if cursor == "expired" {
		return nil, "", ErrListExpired
	}
	var out []Session
	for _, s := range d.sessions {
		if (namespace == "" || s.Summary.Namespace == namespace) && s.Summary.Name > cursor {
			out = append(out, s)
		}
	}
	if len(out) > limit {
		return out[:limit], out[limit-1].Summary.Name, nil
	}
	return out, "", nil
}

// site is a server with a session and somebody who may read it.
type site struct {
	t         *testing.T
	story     *story.Story
	gate      *gate
	directory *directory
	server    *Server
	url       string
	logs      *bytes.Buffer
}

const sessionName = "sample"

func newSite(t *testing.T, change ...func(*Options)) *site {
	t.Helper()
	s, err := story.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	site := &site{t: t, story: s, logs: &bytes.Buffer{}}
	site.gate = &gate{grants: map[string][]string{
		"alice": {"get trajectory@team", "get trajectoryexport@team", "list @team", "list @"},
		"bob":   {"get trajectory@other", "list @other", "get trajectory@team"},
	}}
	site.directory = &directory{sessions: []Session{
		{Summary: Summary{
			ID: "team:" + sessionName, Namespace: "team", Name: sessionName, UID: story.Session, Title: "A sum", CreatedAt: 1773478800000000,
			Model: &trajectory.ModelName{Provider: "scripted", ID: "story-1"}, Runs: 2,
			Status: &Status{Ready: "True", Reason: "Ready", ActiveRun: &trajectory.RunName{UID: "u", Name: "n"}},
			ContextBudget: json.RawMessage(`{"provider":"p","model":"m","contextWindow":1,"systemTokens":1,"messageTokens":1,"toolTokens":1,"estimatedInputTokens":3,
				"reservedOutputTokens":1,"safetyTokens":1,"inputLimit":1,"remainingInputTokens":-2,"fits":false,"usedPercent":34}`),
		}},
		{Summary: Summary{ID: "team:fresh", Namespace: "team", Name: "fresh", UID: "11111111-1111-4111-8111-111111111111"}},
		{Summary: Summary{ID: "other:x", Namespace: "other", Name: "x", UID: "22222222-2222-4222-8222-222222222222"}},
	}}
	opts := Options{
		Gate: site.gate, Directory: site.directory, Log: s.Log, Store: s.Store, Document: openapi.Trajectory, Now: time.Now,
		Logger: slog.New(slog.NewTextHandler(site.logs, nil)),
		Page: fstest.MapFS{
			"index.html": {Data: []byte(`<!doctype html><div id="app"></div>`)}, "assets/main-abc.js": {Data: []byte("export {}")}, "icon.svg": {Data: []byte("<svg/>")},
		},
	}
	for _, c := range change {
		c(&opts)
	}
	if site.server, err = New(opts); err != nil {
		t.Fatal(err)
	}
	httpServer := httptest.NewServer(site.server)
	t.Cleanup(httpServer.Close)
	site.url = httpServer.URL
	return site
}

// answer is a response with its body.
type answer struct {
	*http.Response
	body []byte
}

// do sends a request and holds the answer to the OpenAPI document.
func (s *site) do(method, path string, header ...string) answer {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		s.t.Fatal(err)
	}
	a := answer{response, body.Bytes()}
	if method == http.MethodGet && response.Header.Get("Content-Encoding") == "" {
		conform(s.t, request, a)
	}
	return a
}

// get asks as alice, who may read everything of the namespace team.
func (s *site) get(path string, header ...string) answer {
	s.t.Helper()
	return s.do(http.MethodGet, path, append([]string{"Authorization", "Bearer token-of-alice"}, header...)...)
}

func (a answer) decode(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal(a.body, into); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

// contract is the OpenAPI document, compiled once.
var contract = sync.OnceValues(func() (map[string]any, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(openapi.Trajectory, &doc); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return parsed.(map[string]any), nil
})

const contractURL = "https://agentloop.dev/trajectory.v1.json"

func compiler(t *testing.T) *jsonschema.Compiler {
	t.Helper()
	doc, err := contract()
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(contractURL, doc); err != nil {
		t.Fatal(err)
	}
	return c
}

// conform checks that the answer to a request of the API is one that the document describes.
func conform(t *testing.T, request *http.Request, a answer) {
	t.Helper()
	doc, err := contract()
	if err != nil {
		t.Fatal(err)
	}
	path := template(doc, request.URL.Path)
	if path == "" {
		return
	}
	status := fmt.Sprint(a.StatusCode)
	pointer := "#/paths/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(path) + "/get/responses/" + status
	responses := doc["paths"].(map[string]any)[path].(map[string]any)["get"].(map[string]any)["responses"].(map[string]any)
	described, ok := responses[status].(map[string]any)
	if !ok {
		t.Errorf("GET %s answered %s, which the document does not know", request.URL, status)
		return
	}
	if ref, ok := described["$ref"].(string); ok {
		pointer = ref
		described = doc["components"].(map[string]any)["responses"].(map[string]any)[strings.TrimPrefix(ref, "#/components/responses/")].(map[string]any)
	}
	content, ok := described["content"].(map[string]any)
	if !ok {
		if len(a.body) > 0 {
			t.Errorf("GET %s: %s has a body that the document does not know", request.URL, status)
		}
		return
	}
	mediaType, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
	if content[mediaType] == nil {
		t.Errorf("GET %s answered %s as %q, which the document does not know", request.URL, status, mediaType)
		return
	}
	if mediaType == "text/plain" || strings.HasPrefix(mediaType, "image/") {
		return
	}
	schema, err := compiler(t).Compile(contractURL + pointer + "/content/" + strings.ReplaceAll(mediaType, "/", "~1") + "/schema")
	if err != nil {
		t.Fatal(err)
	}
	bodies := [][]byte{a.body}
	if mediaType == "application/x-ndjson" {
		bodies = bytes.Split(bytes.TrimSuffix(a.body, []byte("\n")), []byte("\n"))
	}
	for _, body := range bodies {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		if err != nil {
			t.Fatalf("GET %s: %v", request.URL, err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("GET %s: the answer is not what the document says: %v\n%.2000s", request.URL, err, body)
		}
	}
}

// template is the document's path that a request's path is one of; empty when there is none.
func template(doc map[string]any, path string) string {
	parts := strings.Split(path, "/")
	for candidate := range doc["paths"].(map[string]any) {
		want := strings.Split(candidate, "/")
		if len(want) == len(parts) && slices.EqualFunc(want, parts, func(w, p string) bool { return w == p || strings.HasPrefix(w, "{") }) {
			return candidate
		}
	}
	return ""
}

// awayLog fails as long as it is away.
type awayLog struct {
	trajectory.Log
	away bool
}

func (l *awayLog) Streams(ctx context.Context, namespace, session string) ([]runevent.Record, error) {
	if l.away {
		return nil, runevent.ErrUnavailable
	}
	return l.Log.Streams(ctx, namespace, session)
}

// brokenStore fails for every object but the first ones.
type brokenStore struct {
	cas.Store
	mu   sync.Mutex
	left int
}

var errAway = errors.New("secret-endpoint.internal: connection refused")

func (b *brokenStore) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	b.mu.Lock()
	b.left--
	left := b.left
	b.mu.Unlock()
	if left < 0 {
		return nil, errAway
	}
	return b.Store.Get(ctx, scope, ref)
}
