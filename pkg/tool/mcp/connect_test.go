package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
)

func TestListsDecideWhatIsAdmitted(t *testing.T) {
	tools := []string{`[{"name":"a","inputSchema":{"type":"object"}},{"name":"b","inputSchema":{"type":"object"}}]`, `[{"name":"c","inputSchema":{"type":"object"}}]`}
	type flags struct {
		Name                string
		Approval, RetrySafe bool
	}
	cases := map[string]struct {
		allow, approval, retry []string
		want                   []flags
		problems               []string
	}{
		"an empty allow list admits nothing":              {},
		"a star admits all, over all pages":               {allow: []string{"*"}, want: []flags{{Name: "srv__a"}, {Name: "srv__b"}, {Name: "srv__c"}}},
		"names admit themselves":                          {allow: []string{"c", "a"}, want: []flags{{Name: "srv__a"}, {Name: "srv__c"}}},
		"an unknown allowed name is a problem":            {allow: []string{"a", "x"}, want: []flags{{Name: "srv__a"}}, problems: []string{"ToolNotFound x: allow names it, but the server has no such tool"}},
		"approval and retry marks follow their lists":     {allow: []string{"a", "b"}, approval: []string{"a"}, retry: []string{"b"}, want: []flags{{"srv__a", true, false}, {"srv__b", false, true}}},
		"a star marks every admitted tool":                {allow: []string{"a"}, approval: []string{"*"}, retry: []string{"*"}, want: []flags{{"srv__a", true, true}}},
		"a misspelt approval name is a problem":           {allow: []string{"*"}, approval: []string{"A"}, want: []flags{{Name: "srv__a"}, {Name: "srv__b"}, {Name: "srv__c"}}, problems: []string{"ToolNotFound A: requireApproval names it, but the server has no such tool"}},
		"a retry name that is not allowed is a problem":   {allow: []string{"a"}, retry: []string{"b"}, want: []flags{{Name: "srv__a"}}, problems: []string{"ToolNotFound b: retrySafe names it, but allow does not"}},
		"a star beside a wrong name still tells about it": {allow: []string{"*", "x"}, want: []flags{{Name: "srv__a"}, {Name: "srv__b"}, {Name: "srv__c"}}, problems: []string{"ToolNotFound x: allow names it, but the server has no such tool"}},
	}
	server := (&fake{pages: tools}).start(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cfg := ServerConfig{Name: "srv", URL: server.URL, Allow: tc.allow, RequireApproval: tc.approval, RetrySafe: tc.retry}
			set, problems, err := Connect(t.Context(), []ServerConfig{cfg}, Options{Addresses: local})
			if err != nil {
				t.Fatal(err)
			}
			defer set.Close()
			var got []flags
			for _, d := range set.Definitions() {
				got = append(got, flags{d.Name, d.RequiresApproval, d.RetrySafe})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.problems, problemTexts(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func problemTexts(problems []ServerProblem) []string {
	var texts []string
	for _, p := range problems {
		texts = append(texts, strings.TrimSpace(fmt.Sprintf("%s %s", p.Reason, p.Tool))+": "+p.Message)
	}
	return texts
}

func TestDefinitionsKeepWhatTheServerSent(t *testing.T) {
	server := (&fake{pages: []string{`[
		{"name":"z","description":" Last. ","inputSchema":{"type":"object","required":["n"],"properties":{"n":{"maximum":9007199254740993,"type":"integer"},"a":{"type":"string"}}},"annotations":{"readOnlyHint":true}},
		{"name":"b","inputSchema":{"properties":{}},"annotations":{"idempotentHint":true}},
		{"name":"a","inputSchema":{"type":"object","anyOf":[{"required":["x"]},{"required":["y"]}]}}]`}}).start(t)
	set := connect(t, config(server.URL), Options{})
	want := []tool.Definition{
		{Tool: message.Tool{Name: "srv__a", Description: "\n\nThe arguments must also satisfy this JSON Schema: {\"anyOf\":[{\"required\":[\"x\"]},{\"required\":[\"y\"]}]}", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}, Server: "srv", RemoteName: "a"},
		{Tool: message.Tool{Name: "srv__b", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}, Server: "srv", RemoteName: "b", Idempotent: true},
		{Tool: message.Tool{Name: "srv__z", Description: "Last.", Parameters: json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"maximum":9007199254740993,"type":"integer"},"a":{"type":"string"}}}`)}, Server: "srv", RemoteName: "z", ReadOnly: true},
	}
	if diff := cmp.Diff(want, set.Definitions()); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
}

func TestToolsThatCannotBeOfferedAreLeftOut(t *testing.T) {
	long := strings.Repeat("n", maxRemoteName+1)
	cases := map[string]struct {
		pages    []string
		loop     bool
		opts     Options
		names    []string
		problems []string
	}{
		"the same name twice": {
			pages: []string{"[" + plainTool + "," + plainTool + "]"},
			names: []string{"srv__add"}, problems: []string{"ToolSkipped add: the server lists it twice: the first is used"},
		},
		"a schema that is no object": {
			pages: []string{`[{"name":"bad","inputSchema":[1]},` + plainTool + `]`},
			names: []string{"srv__add"}, problems: []string{"ToolSkipped bad: its input schema is no JSON object"},
		},
		"a schema of another type": {
			pages: []string{`[{"name":"bad","inputSchema":{"type":"string"}},` + plainTool + `]`},
			names: []string{"srv__add"}, problems: []string{"ToolSkipped bad: its input schema is not of type object"},
		},
		"a schema above the bound": {
			pages: []string{`[{"name":"bad","inputSchema":{"type":"object","description":"` + strings.Repeat("x", maxSchema) + `"}},` + plainTool + `]`},
			names: []string{"srv__add"}, problems: []string{"ToolSkipped bad: its input schema is larger than 131072 bytes"},
		},
		"names that are empty or too long": {
			pages: []string{`[{"name":"","inputSchema":{}},{"name":"` + long + `","inputSchema":{}},` + plainTool + `]`},
			names: []string{"srv__add"},
			problems: []string{
				"ToolSkipped: its name is empty or longer than 256 bytes",
				"ToolSkipped " + strings.Repeat("n", maxRemoteName-len("…")) + "…: its name is empty or longer than 256 bytes",
			},
		},
		"a list of pages that never ends": {
			pages: []string{"[" + plainTool + "]", "[" + riskyTool + "]"}, loop: true,
			names: []string{"srv__add", "srv__write"},
			problems: []string{
				"ToolSkipped: its list of tools does not end: only the first pages are used",
				"ToolSkipped add: the server lists it twice: the first is used",
			},
		},
		"more tools than the bound": {
			opts:  Options{MaxTools: 1},
			names: []string{"srv__add"}, problems: []string{"ToolSkipped: 1 tools are above the limit of 1: list the needed ones in allow"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := (&fake{pages: tc.pages, loop: tc.loop}).start(t)
			tc.opts.Addresses = local
			set, problems, err := Connect(t.Context(), []ServerConfig{config(server.URL)}, tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			defer set.Close()
			var names []string
			for _, d := range set.Definitions() {
				names = append(names, d.Name)
			}
			if diff := cmp.Diff(tc.names, names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.problems, problemTexts(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

const secret = "very-secret-token-0815"

// badServers are endpoints that cannot be used, and how that is told.
var badServers = map[string]struct {
	handler   http.HandlerFunc
	reason    ProblemReason
	message   string
	retryable bool
}{
	"an HTML page": {
		handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>hello</html>")
		},
		reason: ReasonProtocol, message: "it answers with text/html",
	},
	"not found": {handler: http.NotFound, reason: ReasonProtocol, message: "HTTP 404"},
	"refused credentials": {
		handler: func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, r.Header.Get("Authorization"), http.StatusUnauthorized)
		},
		reason: ReasonAuthFailed, message: "refuses the credentials (HTTP 401)",
	},
	"a redirect": {
		handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		},
		reason: ReasonProtocol, message: "a redirect (HTTP 307), which is not followed",
	},
	"always busy": {
		handler: func(w http.ResponseWriter, r *http.Request) { http.Error(w, "busy", http.StatusServiceUnavailable) },
		reason:  ReasonUnreachable, message: "is not ready (HTTP 503)", retryable: true,
	},
	"an internal error": {
		handler: func(w http.ResponseWriter, r *http.Request) { http.Error(w, "oops", http.StatusInternalServerError) },
		reason:  ReasonUnreachable, message: "fails (HTTP 500)", retryable: true,
	},
	"JSON that is no JSON-RPC": {
		handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"hello":"world"}`)
		},
		reason: ReasonProtocol, message: "JSON that is no JSON-RPC message",
	},
	"an error that echoes the credentials": {
		handler: func(w http.ResponseWriter, r *http.Request) {
			var req rpcRequest
			_ = json.NewDecoder(r.Body).Decode(&req) // every request of this test has an id
			rpcFail(w, req, http.StatusOK, -32000, "no such token "+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		},
		reason: ReasonProtocol, message: "it says no such token [redacted] (error -32000)",
	},
	"an answer without end": {
		handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			chunk := strings.Repeat("x", 1<<16)
			for {
				if _, err := fmt.Fprint(w, chunk); err != nil {
					return
				}
			}
		},
		reason: ReasonProtocol, message: "its answer is larger than",
	},
	"no answer at all": {
		handler: hang,
		reason:  ReasonUnreachable, message: "did not answer within", retryable: true,
	},
}

func TestUnusableServersAreProblemsOrErrors(t *testing.T) {
	for name, tc := range badServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tc.handler)
			t.Cleanup(server.Close)
			t.Cleanup(server.CloseClientConnections)
			cfg := config(server.URL)
			cfg.BearerToken, cfg.OnUnavailable = secret, Continue
			opts := Options{Addresses: local, ConnectTimeout: 2 * time.Second, MaxResponseBytes: 1 << 20}
			set, problems, err := Connect(t.Context(), []ServerConfig{cfg}, opts)
			if err != nil {
				t.Fatalf("with Continue: %v", err)
			}
			defer set.Close()
			if len(problems) != 1 {
				t.Fatalf("problems %+v, want one", problems)
			}
			p := problems[0]
			if p.Reason != tc.reason || !strings.Contains(p.Message, tc.message) || p.Retryable != tc.retryable || !p.Unavailable {
				t.Errorf("problem %+v, want reason %s, message with %q, retryable %t, unavailable", p, tc.reason, tc.message, tc.retryable)
			}
			cfg.OnUnavailable = Fail
			_, _, err = Connect(t.Context(), []ServerConfig{cfg}, opts)
			var unavailable *UnavailableError
			if !errors.As(err, &unavailable) || unavailable.Retryable() != tc.retryable {
				t.Fatalf("with Fail: %v, want an *UnavailableError, retryable %t", err, tc.retryable)
			}
			for _, s := range []string{fmt.Sprintf("%+v", problems), err.Error(), fmt.Sprintf("%v %+v %#v", cfg, cfg, cfg)} {
				if strings.Contains(s, secret) {
					t.Errorf("the token stands in %q", s)
				}
			}
		})
	}
}

func TestImpossibleConfigurations(t *testing.T) {
	cases := map[string]struct {
		cfg     ServerConfig
		reason  ProblemReason
		message string
	}{
		"no host":                    {ServerConfig{Name: "s", URL: "http:///x"}, ReasonInvalidConfig, "no host"},
		"another scheme":             {ServerConfig{Name: "s", URL: "file:///etc/passwd"}, ReasonInvalidConfig, "http://"},
		"a password in the URL":      {ServerConfig{Name: "s", URL: "http://a:b@localhost/"}, ReasonInvalidConfig, "user or password"},
		"no name":                    {ServerConfig{URL: "http://localhost/"}, ReasonInvalidConfig, "name is empty"},
		"a token with a line break":  {ServerConfig{Name: "s", URL: "http://localhost/", BearerToken: "abc\n"}, ReasonInvalidConfig, "line break"},
		"a header of the protocol":   {ServerConfig{Name: "s", URL: "http://localhost/", Headers: []Header{{Name: "Mcp-Session-Id", Value: "1"}}}, ReasonInvalidConfig, "belongs to the protocol"},
		"a header without name":      {ServerConfig{Name: "s", URL: "http://localhost/", Headers: []Header{{Name: "a b", Value: "1"}}}, ReasonInvalidConfig, "no valid name"},
		"a header with a line break": {ServerConfig{Name: "s", URL: "http://localhost/", Headers: []Header{{Name: "A", Value: "1\r\nB: 2"}}}, ReasonInvalidConfig, "no HTTP header may hold"},
		"two credentials":            {ServerConfig{Name: "s", URL: "http://localhost/", BearerToken: "t", Headers: []Header{{Name: "authorization", Value: "1"}}}, ReasonInvalidConfig, "exclude each other"},
		"a bundle without PEM":       {ServerConfig{Name: "s", URL: "https://localhost/", CABundle: []byte("x")}, ReasonInvalidConfig, "no PEM"},
		"the metadata address":       {ServerConfig{Name: "s", URL: "http://169.254.169.254/latest"}, ReasonAddressRefused, "not allowed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, problems, err := Connect(t.Context(), []ServerConfig{tc.cfg}, Options{Addresses: local})
			var unavailable *UnavailableError
			if !errors.As(err, &unavailable) || unavailable.Retryable() {
				t.Fatalf("error %v, want a final *UnavailableError", err)
			}
			if len(problems) != 1 || problems[0].Reason != tc.reason || !strings.Contains(problems[0].Message, tc.message) {
				t.Errorf("problems %+v, want one with reason %s and %q", problems, tc.reason, tc.message)
			}
		})
	}
}

func TestUnreachableThenThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	cfg := config("http://" + address)
	_, problems, err := Connect(t.Context(), []ServerConfig{cfg}, Options{Addresses: local})
	var unavailable *UnavailableError
	if !errors.As(err, &unavailable) || !unavailable.Retryable() || !strings.Contains(err.Error(), "tool server srv: cannot be reached: connection refused") {
		t.Fatalf("error %v with problems %+v", err, problems)
	}

	var busy atomic.Int32
	f := &fake{before: func(w http.ResponseWriter, r *http.Request, req rpcRequest) bool {
		if busy.Add(1) > 2 {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}}
	set := connect(t, config(f.start(t).URL), Options{})
	if got := len(set.Definitions()); got != 2 {
		t.Errorf("%d tools after the server became ready, want 2", got)
	}
}

func TestServerThatIgnoresTheNewProtocol(t *testing.T) {
	f := &fake{before: func(w http.ResponseWriter, r *http.Request, req rpcRequest) bool {
		if req.Method != "server/discover" {
			return false
		}
		<-r.Context().Done()
		return true
	}}
	set := connect(t, config(f.start(t).URL), Options{ConnectTimeout: 2 * time.Second})
	if got := len(set.Definitions()); got != 2 {
		t.Errorf("%d tools, want 2", got)
	}
}

func TestConnectEndsWithItsContext(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(hang))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	cause := errors.New("run cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	if _, _, err := Connect(ctx, []ServerConfig{config(server.URL)}, Options{Addresses: local}); !errors.Is(err, cause) {
		t.Errorf("error %v, want the context's cause", err)
	}
}

func TestSeveralServers(t *testing.T) {
	one, two := (&fake{}).start(t), (&fake{}).start(t)
	dead := config("http://127.0.0.1:1")
	dead.Name, dead.OnUnavailable = "dead", Continue
	first, second, twice := config(one.URL), config(two.URL), config(two.URL)
	first.Name, second.Name, twice.Name, twice.OnUnavailable = "one", "two", "one", Continue
	set, problems, err := Connect(t.Context(), []ServerConfig{second, first, dead, twice}, Options{Addresses: local})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	var names []string
	for _, d := range set.Definitions() {
		names = append(names, d.Name)
	}
	if diff := cmp.Diff([]string{"one__add", "one__write", "two__add", "two__write"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	want := []string{"Unreachable: cannot be reached: connection refused", "InvalidConfig: the name is used twice"}
	if diff := cmp.Diff(want, problemTexts(problems)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	wantText(t, call(t, set, "two__add", `{}`), "ok")
}

func TestCredentialsAndHeadersAreSentToTheServerOnly(t *testing.T) {
	var got atomic.Pointer[http.Header]
	f := &fake{before: func(w http.ResponseWriter, r *http.Request, req rpcRequest) bool {
		h := r.Header.Clone()
		got.Store(&h)
		return false
	}}
	cfg := config(f.start(t).URL)
	cfg.BearerToken, cfg.Headers = secret, []Header{{Name: "x-team", Value: "blue"}}
	connect(t, cfg, Options{Version: "1.2.3"})
	h := *got.Load()
	want := map[string]string{"Authorization": "Bearer " + secret, "X-Team": "blue", "User-Agent": "agentloop/1.2.3"}
	for name, value := range want {
		if h.Get(name) != value {
			t.Errorf("header %s: %q, want %q", name, h.Get(name), value)
		}
	}
}

// TestSetsShareConnections makes sets with credentials of their own, one after another: each request has its own set's, and
// all go over one connection, which no set keeps open for itself.
func TestSetsShareConnections(t *testing.T) {
	var mu sync.Mutex
	tokens, opened := map[string]bool{}, 0
	f := &fake{sessions: map[string]bool{}, pages: []string{"[" + plainTool + "]"}, before: func(_ http.ResponseWriter, r *http.Request, _ rpcRequest) bool {
		mu.Lock()
		defer mu.Unlock()
		tokens[r.Header.Get("Authorization")] = true
		return false
	}}
	server := httptest.NewUnstartedServer(f)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if state == http.StateNew {
			opened++
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	shared := NewConnections(local)
	t.Cleanup(shared.Close)
	for _, token := range []string{"a", "b", "c"} {
		cfg := config(server.URL)
		cfg.BearerToken = token
		mu.Lock()
		clear(tokens)
		mu.Unlock()
		set, _, err := Connect(t.Context(), []ServerConfig{cfg}, Options{Connections: shared})
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, call(t, set, "srv__add", `{}`), "ok")
		if err := set.Close(); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if diff := cmp.Diff(map[string]bool{"Bearer " + token: true}, tokens); diff != "" {
			t.Errorf("credentials (-want +got):\n%s", diff)
		}
		mu.Unlock()
	}
	mu.Lock()
	defer mu.Unlock()
	if opened > 2 { // a set that is closed while its last answer is under way leaves none behind
		t.Errorf("%d connections were opened for three sets", opened)
	}
}

func TestTLSTrustsTheBundleOnly(t *testing.T) {
	f := &fake{pages: []string{"[" + plainTool + "]"}, sessions: map[string]bool{}}
	server := httptest.NewTLSServer(f)
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	cfg := config(server.URL)
	_, problems, err := Connect(t.Context(), []ServerConfig{cfg}, Options{Addresses: local})
	if err == nil || !strings.Contains(problems[0].Message, "not signed by a known authority: set caBundle") {
		t.Fatalf("without bundle: %v, problems %+v", err, problems)
	}
	cfg.CABundle = pemOf(server)
	set := connect(t, cfg, Options{})
	wantText(t, call(t, set, "srv__add", `{}`), "ok")
}

func TestPlainHTTPBehindAnHTTPSURL(t *testing.T) {
	cfg := config("https" + strings.TrimPrefix((&fake{}).start(t).URL, "http"))
	_, problems, err := Connect(t.Context(), []ServerConfig{cfg}, Options{Addresses: local})
	if err == nil || len(problems) != 1 || !strings.Contains(problems[0].Message, "it does not speak TLS: use http:// in url") {
		t.Errorf("error %v, problems %+v", err, problems)
	}
}
