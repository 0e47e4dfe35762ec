package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentloop/agentloop/pkg/tool"
)

// oldServer speaks the transport of 2024-11-05, written by hand, so that it can misbehave. Its tools are those of fake.
type oldServer struct {
	// endpoint is the data of the first event; "" for the right one. first, when set, is written instead of that event.
	endpoint, first string
	// post may answer a message itself; it says whether it did. say sends an event.
	post func(w http.ResponseWriter, req rpcRequest, say func(string)) bool
	// key, when set, must come as bearer token with every request.
	key string

	mu      sync.Mutex
	streams map[string]chan string
	made    int
	posts   []string
}

func (o *oldServer) start(t *testing.T) *httptest.Server {
	t.Helper()
	o.streams = map[string]chan string{}
	server := httptest.NewServer(o)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server
}

func (o *oldServer) stream(id string) chan string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.streams[id]
}

// ServeHTTP implements http.Handler.
func (o *oldServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case o.key != "" && r.Header.Get("Authorization") != "Bearer "+o.key:
		w.WriteHeader(http.StatusUnauthorized)
	case r.Method == http.MethodGet && r.URL.Path == "/sse":
		o.listen(w, r)
	case r.Method == http.MethodPost && r.URL.Path == "/messages":
		o.take(w, r)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (o *oldServer) listen(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.made++
	id := fmt.Sprintf("s%d", o.made)
	say := make(chan string, 64)
	o.streams[id] = say
	o.mu.Unlock()
	first := o.first
	if first == "" {
		endpoint := o.endpoint
		if endpoint == "" {
			endpoint = "/messages?session=" + id
		}
		first = "event: endpoint\ndata: " + endpoint + "\n\n"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, first)
	for {
		_ = http.NewResponseController(w).Flush() // the client is gone otherwise
		select {
		case text := <-say:
			if text == "end" {
				return
			}
			fmt.Fprint(w, text)
		case <-r.Context().Done():
			return
		}
	}
}

func (o *oldServer) take(w http.ResponseWriter, r *http.Request) {
	var req rpcRequest
	_ = json.NewDecoder(r.Body).Decode(&req) // our own client
	o.mu.Lock()
	o.posts = append(o.posts, req.Method)
	o.mu.Unlock()
	stream := o.stream(r.FormValue("session"))
	if stream == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	say := func(text string) { stream <- text }
	if o.post != nil && o.post(w, req, say) {
		return
	}
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprint(w, "Accepted")
	answer := func(result string) {
		say(fmt.Sprintf("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", req.ID, result))
	}
	switch req.Method {
	case "initialize":
		answer(`{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`)
	case "tools/list":
		answer(`{"tools":[` + plainTool + "," + riskyTool + `]}`)
	case "tools/call":
		answer(`{"content":[{"type":"text","text":"12345678901234567890"}],"structuredContent":{"b":12345678901234567890,"a":1}}`)
	}
}

func (o *oldServer) postsOf(method string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, m := range o.posts {
		if m == method {
			n++
		}
	}
	return n
}

// TestOldTransportOfOthers calls tools of a server that knows the transport of 2024-11-05 only.
func TestOldTransportOfOthers(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "1"}, nil)
	raw(server, "steps", tellSteps)
	raw(server, "broken", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "disk full"}}}, nil
	})
	web := httptest.NewServer(sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	cfg := config(web.URL)
	cfg.BearerToken = "secret-token"
	set := connect(t, cfg, Options{})
	var told []string
	result, err := set.Call(t.Context(), tool.Call{Name: "srv__steps"}, func(s string) { told = append(told, s) })
	if err != nil || text(result) != "done" || result.Audit.Outcome != "ok" {
		t.Fatalf("%v %+v", err, result)
	}
	want := []string{"1/3 step", "2/3 step", "3/3 step", "[warning] disk: 90 % full", `[info] {"free":[1,2]}`, "[error] [redacted] is wrong"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if failed := call(t, set, "srv__broken", ``); !failed.IsError || failed.Audit.Outcome != "toolError" {
		t.Errorf("a tool's own failure: %+v", failed)
	}
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			if got, err := set.Call(t.Context(), tool.Call{Name: "srv__steps"}, nil); err != nil || text(got) != "done" {
				t.Errorf("%v %q", err, text(got))
			}
		})
	}
	group.Wait()
}

// TestOldTransportKeepsWhatWasSent holds results to the server's own bytes, and credentials to both of its endpoints.
func TestOldTransportKeepsWhatWasSent(t *testing.T) {
	o := &oldServer{key: "secret-token"}
	cfg := config(o.start(t).URL + "/sse")
	cfg.BearerToken = o.key
	got := call(t, connect(t, cfg, Options{}), "srv__add", `{"a":1}`)
	if string(got.Details) != `{"structuredContent":{"b":12345678901234567890,"a":1}}` || text(got) != "12345678901234567890" {
		t.Errorf("details %s, text %s", got.Details, text(got))
	}
}

// TestEndpointsOfTheOldTransport has servers name endpoints. What is not the server itself is not called.
func TestEndpointsOfTheOldTransport(t *testing.T) {
	other := &fake{}
	elsewhere := other.start(t).URL
	const begins, origin, unusable = "does not begin with an endpoint", "an endpoint of another origin", "cannot be used"
	cases := map[string]struct {
		server *oldServer
		want   string
	}{
		"another host":                 {&oldServer{endpoint: elsewhere + "/messages"}, origin},
		"a metadata service":           {&oldServer{endpoint: "http://169.254.169.254/latest/meta-data"}, origin},
		"a host without a scheme":      {&oldServer{endpoint: "//169.254.169.254/"}, origin},
		"another scheme":               {&oldServer{endpoint: "https://127.0.0.1/messages"}, origin},
		"a file":                       {&oldServer{endpoint: "file:///etc/passwd"}, origin},
		"a user":                       {&oldServer{endpoint: "http://user:password@127.0.0.1/messages"}, unusable},
		"no URL":                       {&oldServer{endpoint: "http://[::1"}, unusable},
		"a very long one":              {&oldServer{endpoint: "/messages?" + strings.Repeat("x", 3000)}, begins},
		"another event first":          {&oldServer{first: "event: message\ndata: {}\n\n"}, begins},
		"an event without a name":      {&oldServer{first: "data: /messages\n\n"}, begins},
		"a stream without events":      {&oldServer{first: ": hello\n\n"}, "it answers with HTTP 405"},
		"the right one, but elsewhere": {&oldServer{first: "event: endpoint\ndata: " + elsewhere + "\n\nevent: endpoint\ndata: /messages\n\n"}, origin},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := tc.server
			cfg := config(o.start(t).URL + "/sse")
			cfg.BearerToken = "secret-token"
			_, problems, err := Connect(t.Context(), []ServerConfig{cfg}, Options{Addresses: local, ConnectTimeout: time.Second})
			var unavailable *UnavailableError
			if !errors.As(err, &unavailable) || len(problems) != 1 {
				t.Fatalf("error %v, problems %+v", err, problems)
			}
			if !strings.Contains(problems[0].Message, tc.want) {
				t.Errorf("problem %+v, want %q", problems[0], tc.want)
			}
			if len(o.posts) > 0 {
				t.Errorf("messages were sent: %q", o.posts)
			}
		})
	}
	if len(other.methods) > 0 {
		t.Errorf("another server was sent %q", other.methods)
	}
	for name, endpoint := range map[string]string{"a whole URL": "%s/messages?session=s1", "a relative path": "messages?session=s1#part"} {
		t.Run(name, func(t *testing.T) {
			o := &oldServer{}
			server := o.start(t)
			if o.endpoint = endpoint; strings.Contains(endpoint, "%s") {
				o.endpoint = fmt.Sprintf(endpoint, server.URL)
			}
			wantText(t, call(t, connect(t, config(server.URL+"/sse"), Options{}), "srv__add", `{}`), "12345678901234567890")
		})
	}
}

// TestFailuresOfTheOldTransport breaks calls in every way. Each leaves the set usable.
func TestFailuresOfTheOldTransport(t *testing.T) {
	const accepted = http.StatusAccepted
	status := func(code int) func(http.ResponseWriter, rpcRequest, func(string)) bool {
		return func(w http.ResponseWriter, _ rpcRequest, _ func(string)) bool { w.WriteHeader(code); return true }
	}
	says := func(texts ...string) func(http.ResponseWriter, rpcRequest, func(string)) bool {
		return func(w http.ResponseWriter, req rpcRequest, say func(string)) bool {
			w.WriteHeader(accepted)
			for _, text := range texts {
				say(strings.ReplaceAll(text, "$ID", string(req.ID)))
			}
			return true
		}
	}
	cases := map[string]struct {
		post    func(http.ResponseWriter, rpcRequest, func(string)) bool
		outcome string
		want    []string
	}{
		"never answered":      {status(accepted), "timeout", []string{"did not answer within 1s"}},
		"the session is gone": {status(http.StatusNotFound), "transport", []string{"had ended its session", "was not run"}},
		"too many requests":   {status(http.StatusTooManyRequests), "transport", []string{"is busy (HTTP 429)"}},
		"an internal error":   {status(http.StatusInternalServerError), "transport", []string{"failed (HTTP 500)", "Its effect is unknown"}},
		"a redirect": {func(w http.ResponseWriter, _ rpcRequest, _ func(string)) bool {
			w.Header().Set("Location", "http://169.254.169.254/")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		}, "transport", []string{"a redirect, which is not followed"}},
		"a stream that ends":       {says("end"), "transport", []string{"broke during the call", "Its effect is unknown"}},
		"a JSON-RPC error":         {says("data: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"error\":{\"code\":-32602,\"message\":\"n must be positive\"}}\n\n"), "protocol", []string{"n must be positive (error -32602)"}},
		"an event that is no JSON": {says("data: <html>\n\n"), "protocol", []string{"an event that is no JSON-RPC message"}},
		"an answer to nobody":      {says("data: {\"jsonrpc\":\"2.0\",\"id\":98765,\"result\":{}}\n\n"), "timeout", []string{"did not answer within 1s"}},
		"an answer without end":    {says("data: "+strings.Repeat("x", 1<<20), "data: "+strings.Repeat("x", 1<<20)), "protocol", []string{"is larger than 1048576 bytes"}},
		"notes without end": {func(w http.ResponseWriter, _ rpcRequest, say func(string)) bool {
			w.WriteHeader(accepted)
			for range 40 {
				say("event: other\ndata: " + strings.Repeat("x", 32<<10) + "\n\n")
			}
			return true
		}, "protocol", []string{"is larger than 1048576 bytes"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o, once := &oldServer{}, false
			o.post = func(w http.ResponseWriter, req rpcRequest, say func(string)) bool {
				if req.Method != "tools/call" || once {
					return false
				}
				once = true
				return tc.post(w, req, say)
			}
			cfg := config(o.start(t).URL + "/sse")
			cfg.CallTimeout = time.Second
			set := connect(t, cfg, Options{MaxResponseBytes: 1 << 20})
			got := call(t, set, "srv__write", `{}`)
			if !got.IsError || got.Audit.Outcome != tc.outcome {
				t.Errorf("result %+v, want outcome %s", got, tc.outcome)
			}
			wantText(t, got, tc.want...)
			if n := o.postsOf("tools/call"); n != 1 {
				t.Errorf("the call was sent %d times", n)
			}
			wantText(t, call(t, set, "srv__write", `{}`), "12345678901234567890")
		})
	}
}

// TestOldTransportConnectsAnew ends the stream between two calls: the next one has a stream of its own, and was not sent twice.
func TestOldTransportConnectsAnew(t *testing.T) {
	o := &oldServer{}
	set := connect(t, config(o.start(t).URL+"/sse"), Options{})
	call(t, set, "srv__write", `{}`)
	o.stream("s1") <- "end"
	_ = set.servers["srv"].session.Wait() // the client has noticed
	got := call(t, set, "srv__write", `{}`)
	wantText(t, got, "12345678901234567890")
	if o.made != 2 || o.postsOf("tools/call") != 2 {
		t.Errorf("%d streams, %d calls, want 2 and 2", o.made, o.postsOf("tools/call"))
	}
}

// TestWhoIsAskedForTheOldTransport answers the first request in ways that are no sign of an old server.
func TestWhoIsAskedForTheOldTransport(t *testing.T) {
	for _, status := range []int{401, 403, 429, 500, 503} {
		asked := false
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = asked || r.Method == http.MethodGet
			w.WriteHeader(status)
		}))
		t.Cleanup(server.Close)
		_, problems, err := Connect(t.Context(), []ServerConfig{config(server.URL)}, Options{Addresses: local})
		if err == nil || asked || !strings.Contains(problems[0].Message, fmt.Sprintf("HTTP %d", status)) {
			t.Errorf("HTTP %d: asked for events %t, %v", status, asked, problems)
		}
	}
	o := &oldServer{key: "right"}
	cfg := config(o.start(t).URL + "/sse")
	_, problems, err := Connect(t.Context(), []ServerConfig{cfg}, Options{Addresses: local})
	if err == nil || problems[0].Reason != ReasonAuthFailed {
		t.Errorf("an old server that wants other credentials: %v", problems)
	}
}
