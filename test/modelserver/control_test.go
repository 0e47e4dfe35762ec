package modelserver

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestControl(t *testing.T) {
	c := start(t, plain)
	const two = "model: a\nreplies: [{}, {repeat: true}]\n---\nmodel: b\nreplies: [{}]\n"
	steps := []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/healthz", "", 200, "ok\n"},
		{"PUT", "/_scripts?prefix=ns", two, 200, `{"models":["ns-a","ns-b"]}` + "\n"},
		{"GET", "/_scripts", "", 200, `[{"model":"m","used":[0],"left":1},{"model":"ns-a","used":[0,0],"left":1},{"model":"ns-b","used":[0],"left":1}]` + "\n"},
		{"POST", "/v1/chat/completions", strings.Replace(chat(userHi), `"m"`, `"ns-a"`, 1), 200, ""},
		{"POST", "/v1/chat/completions", strings.Replace(chat(userHi), `"m"`, `"ns-a"`, 1), 200, ""},
		{"GET", "/_scripts", "", 200, `[{"model":"m","used":[0],"left":1},{"model":"ns-a","used":[1,1],"left":0},{"model":"ns-b","used":[0],"left":1}]` + "\n"},
		{"PUT", "/_scripts?prefix=ns", "model: a\nreplies: [{}]", 200, `{"models":["ns-a"]}` + "\n"},
		{"GET", "/_scripts", "", 200, `[{"model":"m","used":[0],"left":1},{"model":"ns-a","used":[0],"left":1},{"model":"ns-b","used":[0],"left":1}]` + "\n"},
		{"PUT", "/_scripts", "model: c\nreplies: [{}]\n---\nmodel: d\n", 400, `{"error":"invalid model script: document 2: model \"d\": replies is missing"}` + "\n"},
		{"PUT", "/_scripts", strings.Repeat(" ", maxScripts+1), 413, `{"error":"the scripts could not be read: http: request body too large"}` + "\n"},
		{"DELETE", "/_scripts?model=ns-b", "", 204, ""},
		{"DELETE", "/_scripts?model=ns-b", "", 404, `{"error":"no model ns-b is loaded"}` + "\n"},
		{"DELETE", "/_scripts", "", 400, `{"error":"?model= is missing"}` + "\n"},
		{"GET", "/_requests", "", 400, `{"error":"?model= is missing"}` + "\n"},
		{"GET", "/_requests?model=ns-b", "", 200, "[]\n"},
		{"GET", "/v1/models", "", 200, `{"object":"list","data":[{"id":"m","object":"model","created":0,"owned_by":"modelserver"},{"id":"ns-a","object":"model","created":0,"owned_by":"modelserver"}]}` + "\n"},
		{"GET", "/v1/models/m", "", 200, `{"id":"m","object":"model","created":0,"owned_by":"modelserver"}` + "\n"},
		{"GET", "/v1/models/c", "", 404, "{\"error\":{\"message\":\"The model `c` does not exist or you do not have access to it.\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"model_not_found\"}}\n"},
		{"POST", "/v1/completions", "{}", 404, `{"error":{"message":"Invalid URL (POST /v1/completions)","type":"invalid_request_error","param":null,"code":null}}`},
		{"POST", "/v1/messages/batches", "{}", 404, `{"type":"error","error":{"type":"not_found_error","message":"Not Found"}}`},
	}
	for i, s := range steps {
		got := c.do(s.method, s.path, s.body, nil)
		if got.status != s.status || s.want != "" && string(got.body) != s.want {
			t.Errorf("step %d, %s %s: %d %q, want %d %q", i, s.method, s.path, got.status, got.body, s.status, s.want)
		}
	}
	if n := len(c.server.Requests("ns-a")); n != 2 {
		t.Errorf("%d requests kept over a new script, want 2", n)
	}
}

func TestAnthropicModels(t *testing.T) {
	c := start(t, "model: m\nwindow: 9\nmaxTokens: 3\nreplies: [{}]\n---\nmodel: o\nreplies: [{}]\n")
	header := map[string]string{"Anthropic-Version": "2023-06-01"}
	const m = `{"type":"model","id":"m","display_name":"m","created_at":"1970-01-01T00:00:00Z","max_input_tokens":9,"max_tokens":3,"lifecycle":"active"}`
	const o = `{"type":"model","id":"o","display_name":"o","created_at":"1970-01-01T00:00:00Z","max_input_tokens":null,"max_tokens":null,"lifecycle":"active"}`
	for path, want := range map[string]string{
		"/v1/models":   `{"data":[` + m + `,` + o + `],"has_more":false,"first_id":"m","last_id":"o"}`,
		"/v1/models/m": m,
		"/v1/models/x": `{"type":"error","error":{"type":"not_found_error","message":"model: x"}}`,
	} {
		if got := c.do("GET", path, "", header); string(got.body) != want+"\n" {
			t.Errorf("%s:\n got %s\nwant %s", path, got.body, want)
		}
	}
	const compatible = `{"id":"m","object":"model","created":0,"owned_by":"modelserver","max_model_len":9}`
	if got := c.do("GET", "/v1/models/m", "", nil); string(got.body) != compatible+"\n" {
		t.Errorf("got %s\nwant %s", got.body, compatible)
	}
}

// What a client sent is kept byte for byte, whether it was answered or refused, without its credentials.
func TestRecording(t *testing.T) {
	c := start(t, plain)
	odd := "{\n \"model\" : \"m\",\"max_tokens\":\t1e1, \"messages\":[" + userHi + "] , \"stream\":false}"
	header := map[string]string{"X-Api-Key": "sk-secret", "Authorization": "Bearer sk-secret", "X-Trace": "1", "User-Agent": "test"}
	c.do("POST", "/v1/messages", odd, header)
	c.do("POST", "/v1/messages?beta=true", messages(userHi, `"x":1`), header)
	c.do("POST", "/v1/chat/completions", `{"model":"m"`, header)
	c.do("POST", "/v1/chat/completions", `{"model":"unknown"}`, header)
	c.http.Close()

	raw := string(encode(c.server.Requests("m")))
	if strings.Contains(raw, "secret") {
		t.Errorf("a credential is recorded: %s", raw)
	}
	got := c.server.Requests("m")
	if len(got) != 2 || len(c.server.Requests("unknown")) != 1 || len(c.server.Requests("")) != 1 {
		t.Fatalf("recorded: %s", raw)
	}
	want := Request{
		Time: fixedTime, Path: "/v1/messages", Raw: odd, Body: json.RawMessage(odd), Status: 200, Outcome: OutcomeComplete,
		Headers: map[string]string{
			"x-api-key": "redacted", "authorization": "redacted", "x-trace": "1", "user-agent": "test",
			"anthropic-version": "2023-06-01", "accept-encoding": "gzip", "content-length": "97",
		},
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got[1].Status != 400 || got[1].Outcome != OutcomeRefused {
		t.Errorf("the refused one is recorded as %d %s", got[1].Status, got[1].Outcome)
	}
	broken := c.server.Requests("")[0]
	if broken.Body != nil || broken.Raw != `{"model":"m"` {
		t.Errorf("the broken one is recorded as %+v", broken)
	}
	if !c.server.Unload("m") || len(c.server.Requests("m")) != 0 || len(c.server.Requests("unknown")) != 1 {
		t.Error("unloading forgets the requests of that model and of no other")
	}
}

func TestRecordedRequestsOverHTTP(t *testing.T) {
	c := start(t, plain)
	c.post("/v1/messages", messages(userHi))
	var got []struct {
		Path, Raw string
		Body      struct{ Messages []any }
		Status    int
	}
	answer := c.do("GET", "/_requests?model=m", "", nil)
	if err := json.Unmarshal(answer.body, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Path != "/v1/messages" || got[0].Raw != messages(userHi) || len(got[0].Body.Messages) != 1 || got[0].Status != 200 {
		t.Errorf("got %s", answer.body)
	}
}

func TestRecordingIsBounded(t *testing.T) {
	s := New(Options{MaxRecordedBytes: 100})
	body := strings.Repeat("x", 40)
	for i := range 5 {
		rec := s.records.begin("m", "/", http.Header{}, []byte(body), fixedTime)
		s.records.end(rec, 200+i, OutcomeComplete)
	}
	var statuses []int
	for _, r := range s.Requests("m") {
		statuses = append(statuses, r.Status)
	}
	if diff := cmp.Diff([]int{203, 204}, statuses); diff != "" {
		t.Errorf("kept: -want +got:\n%s", diff)
	}
	s.records.begin("m", "/", http.Header{}, []byte(strings.Repeat("y", 500)), fixedTime)
	if n := len(s.Requests("m")); n != 1 {
		t.Errorf("%d kept, want the newest alone even when it exceeds the bound", n)
	}
}

func TestUnrecordedModel(t *testing.T) {
	c := start(t, "model: m\nrecord: false\nreplies: [{}]")
	if got := c.post("/v1/chat/completions", chat(userHi)); got.status != 200 {
		t.Fatal(got.status)
	}
	if n := len(c.server.Requests("m")); n != 0 {
		t.Errorf("%d requests recorded", n)
	}
}

func TestBodyTooLarge(t *testing.T) {
	c := start(t, plain)
	big := strings.Repeat(" ", maxBody+1)
	for path, want := range map[string]string{
		"/v1/messages":         "Request exceeds the maximum size",
		"/v1/chat/completions": "Request body is too large.",
	} {
		got := c.post(path, big)
		if got.status != http.StatusRequestEntityTooLarge || str(obj(got.object(t), "error"), "message") != want {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// The right key passes, wherever the protocol puts it.
func TestKeys(t *testing.T) {
	c := start(t, "model: m\napiKey: sk-1\nreplies: [{repeat: true}]")
	for name, header := range map[string]map[string]string{
		"x-api-key": {"X-Api-Key": "sk-1"}, "bearer": {"Authorization": "Bearer sk-1"},
	} {
		for _, ask := range asked {
			if got := c.do("POST", ask.path, ask.whole, header); got.status != 200 {
				t.Errorf("%s, %s: %d %s", name, ask.path, got.status, got.body)
			}
		}
	}
}
