package modelserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestErrorReplies(t *testing.T) {
	type want struct {
		status              int
		kind, code, message string
		retryAfter          string
	}
	cases := map[string]struct {
		fault     string
		anthropic want
		openAI    want
	}{
		"nothing said": {"{}",
			want{500, "api_error", "", "Internal server error", ""},
			want{500, "server_error", "", "The server had an error while processing your request.", ""}},
		"everything said": {"{status: 418, type: teapot, code: short, message: stout, retryAfter: 1}",
			want{418, "teapot", "", "stout", "1"}, want{418, "teapot", "short", "stout", "1"}},
		"too many requests": {"{status: 429, retryAfter: 0.25}",
			want{429, "rate_limit_error", "", "This request would exceed your organization's rate limit.", "0.25"},
			want{429, "requests", "rate_limit_exceeded", "Rate limit reached for requests.", "0.25"}},
		"no quota": {"{status: 429, type: insufficient_quota, message: none}",
			want{429, "insufficient_quota", "", "none", ""}, want{429, "insufficient_quota", "insufficient_quota", "none", ""}},
		"overloaded": {"{status: 529}",
			want{529, "overloaded_error", "", "Overloaded", ""}, want{529, "api_error", "", "Error", ""}},
		"unavailable": {"{status: 503}", want{503, "api_error", "", "Service Unavailable", ""},
			want{503, "server_error", "", "The engine is currently overloaded, please try again later.", ""}},
		"unauthorised": {"{status: 401}", want{401, "authentication_error", "", "invalid x-api-key", ""},
			want{401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided.", ""}},
	}
	for name, tc := range cases {
		for protocol, ask := range asked {
			for _, body := range []string{ask.whole, ask.streamed} {
				t.Run(name+"/"+protocol, func(t *testing.T) {
					c := start(t, reply("error: "+tc.fault))
					got := c.post(ask.path, body)
					e := obj(got.object(t), "error")
					have := want{got.status, str(e, "type"), str(e, "code"), str(e, "message"), got.header.Get("Retry-After")}
					expected := tc.openAI
					if protocol == "anthropic" {
						expected = tc.anthropic
					}
					if have != expected {
						t.Errorf("got %+v, want %+v", have, expected)
					}
					if rec := c.record(t); rec.Status != expected.status || rec.Outcome != OutcomeRefused {
						t.Errorf("recorded as %d %s", rec.Status, rec.Outcome)
					}
				})
			}
		}
	}
}

func TestWholeFaults(t *testing.T) {
	const text = `content: [{text: "0123456789"}], `
	for protocol, ask := range asked {
		t.Run(protocol, func(t *testing.T) {
			full := len(start(t, reply(`{`+text+`chunks: 2}`)).post(ask.path, ask.whole).body)
			cases := map[string]struct {
				reply   string
				broken  bool
				outcome string
			}{
				"drop":     {`{` + text + `drop: {afterChunks: 1}}`, true, OutcomeDropped},
				"truncate": {`{` + text + `truncate: {afterChunks: 1}}`, false, OutcomeTruncated},
			}
			for name, tc := range cases {
				c := start(t, reply(tc.reply))
				got := c.post(ask.path, ask.whole)
				if got.status != http.StatusOK || len(got.body) != full/2 || (got.readErr != nil) != tc.broken {
					t.Errorf("%s: status %d, %d of %d bytes, %v", name, got.status, len(got.body), full, got.readErr)
				}
				if rec := c.record(t); rec.Outcome != tc.outcome {
					t.Errorf("%s: recorded as %s", name, rec.Outcome)
				}
			}
			c := start(t, reply(`{`+text+`error: {status: 529, message: busy, afterChunks: 1}}`))
			if got := c.post(ask.path, ask.whole); got.status != 529 || str(obj(got.object(t), "error"), "message") != "busy" {
				t.Errorf("error inside a stream, asked for whole: status %d: %s", got.status, got.body)
			}
		})
	}
}

func TestRawReplies(t *testing.T) {
	cases := map[string]struct {
		raw         string
		status      int
		contentType string
		body        string
	}{
		"a page":   {`{status: 502, body: "<html>bad gateway</html>"}`, 502, "text/html; charset=utf-8", "<html>bad gateway</html>"},
		"a stream": {`{contentType: text/event-stream, body: "data: {}\n\n"}`, 200, "text/event-stream", "data: {}\n\n"},
		"nothing":  {`{status: 200, contentType: application/json, body: ""}`, 200, "application/json", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := start(t, reply("{raw: "+tc.raw+", headers: {X-Extra: more}}"))
			got := c.post("/v1/messages", messages(userHi))
			if got.status != tc.status || got.header.Get("Content-Type") != tc.contentType || string(got.body) != tc.body {
				t.Errorf("got %d %q %q", got.status, got.header.Get("Content-Type"), got.body)
			}
			if got.header.Get("X-Extra") != "more" {
				t.Errorf("headers %v", got.header)
			}
		})
	}
}

// A hanging answer ends only with its client, which the record then says.
func TestHang(t *testing.T) {
	cases := map[string]struct {
		reply  string
		first  string // the beginning of what is sent before the answer hangs
		status int
	}{
		"at once":          {"hang: true", "", 0},
		"after two deltas": {`{content: [{text: "0123456789"}], chunks: 5, hang: {afterChunks: 2}}`, "event: message_start", 200},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := start(t, reply(tc.reply))
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/messages",
				strings.NewReader(messages(userHi, `"stream":true`)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Anthropic-Version", "2023-06-01")
			done := make(chan error, 1)
			begun := make(chan string, 1)
			go func() {
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					done <- err
					return
				}
				lines := bufio.NewScanner(res.Body)
				lines.Scan()
				begun <- lines.Text()
				for lines.Scan() {
				}
				done <- errors.Join(lines.Err(), res.Body.Close())
			}()
			if tc.first != "" {
				if got := <-begun; got != tc.first {
					t.Errorf("begins with %q", got)
				}
			}
			c.awaitRequest(t)
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("the client got %v", err)
			}
			if rec := c.record(t); rec.Outcome != OutcomeClientGone || rec.Status != tc.status {
				t.Errorf("recorded as %d %s", rec.Status, rec.Outcome)
			}
		})
	}
}

// awaitRequest returns once a reply has been taken.
func (c *client) awaitRequest(t *testing.T) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for c.server.lookup("m").counts()[0] == 0 {
		select {
		case <-ticker.C:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// Close breaks off what hangs and what waits, so that the HTTP server can end.
func TestCloseEndsWhatHangs(t *testing.T) {
	for name, yaml := range map[string]string{"hanging": "hang: true", "waiting": "latency: 1h", "pacing": `{content: [{text: ab}], chunks: 2, delay: {perChunk: 1h}}`} {
		t.Run(name, func(t *testing.T) {
			c := start(t, reply(yaml))
			done := make(chan answerOf, 1)
			go func() { done <- c.post("/v1/messages", messages(userHi, `"stream":true`)) }()
			c.awaitRequest(t)
			c.server.Close()
			if got := <-done; got.readErr == nil {
				t.Errorf("got %d %q, want a broken connection", got.status, got.body)
			}
			if rec := c.record(t); rec.Outcome != OutcomeDropped {
				t.Errorf("recorded as %s", rec.Outcome)
			}
		})
	}
}

// Delays are a lower bound of how long the client waits.
func TestDelays(t *testing.T) {
	cases := map[string]struct {
		reply string
		least time.Duration
	}{
		"first":     {"delay: {first: 30ms}", 30 * time.Millisecond},
		"latency":   {"latency: 30ms", 30 * time.Millisecond},
		"per chunk": {`{content: [{text: "0123"}], chunks: 4, delay: {first: 10ms, perChunk: 10ms}}`, 40 * time.Millisecond},
		"an error":  {"{error: {status: 500}, delay: {first: 30ms}}", 30 * time.Millisecond},
	}
	for name, tc := range cases {
		for protocol, ask := range asked {
			for kind, body := range map[string]string{"whole": ask.whole, "streamed": ask.streamed} {
				t.Run(name+"/"+protocol+"/"+kind, func(t *testing.T) {
					t.Parallel()
					c := start(t, reply(tc.reply))
					begin := time.Now()
					c.post(ask.path, body)
					if took := time.Since(begin); took < tc.least {
						t.Errorf("took %v, want at least %v", took, tc.least)
					}
				})
			}
		}
	}
}

// Counts that a script leaves out are absent on the wire, and nothing is added up from what is absent.
func TestUsage(t *testing.T) {
	cases := map[string]struct {
		usage                      string
		anthropic, chat, responses string
	}{
		"none":      {"{}", "", "", ""},
		"the input": {"{input: 10}", `{"input_tokens":10}`, `{"prompt_tokens":10}`, `{"input_tokens":10}`},
		"zeros": {"{input: 0, output: 0, cacheRead: 0}", `{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}`,
			`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":0}}`,
			`{"input_tokens":0,"input_tokens_details":{"cached_tokens":0},"output_tokens":0,"total_tokens":0}`},
		"all": {"{input: 1, output: 20, cacheRead: 300, cacheWrite: 4000, reasoning: 5}",
			`{"input_tokens":1,"cache_creation_input_tokens":4000,"cache_read_input_tokens":300,"output_tokens":20,"output_tokens_details":{"thinking_tokens":5}}`,
			`{"prompt_tokens":4301,"completion_tokens":20,"total_tokens":4321,"prompt_tokens_details":{"cached_tokens":300,"cache_write_tokens":4000},"completion_tokens_details":{"reasoning_tokens":5}}`,
			`{"input_tokens":4301,"input_tokens_details":{"cached_tokens":300,"cache_write_tokens":4000},"output_tokens":20,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":4321}`},
	}
	for name, tc := range cases {
		for protocol, ask := range asked {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				c := start(t, reply(`{content: [{text: x}], usage: `+tc.usage+`, repeat: true}`))
				want := map[string]string{"anthropic": tc.anthropic, "chat": tc.chat, "responses": tc.responses}[protocol]
				var expected any
				if want != "" {
					expected, _ = parseObject([]byte(want))
				}
				whole := c.post(ask.path, ask.whole).object(t)
				if diff := cmp.Diff(expected, whole["usage"]); diff != "" {
					t.Errorf("whole: -want +got:\n%s", diff)
				}
				streamed := streamedUsage(t, c.post(ask.path, ask.streamed).events(t))
				if diff := cmp.Diff(expected, streamed); diff != "" {
					t.Errorf("streamed: -want +got:\n%s", diff)
				}
			})
		}
	}
}

// streamedUsage is the last usage that a stream gives.
func streamedUsage(t *testing.T, events []sse) any {
	t.Helper()
	var usage any
	for _, e := range events {
		if e.data == "[DONE]" {
			continue
		}
		o := e.json(t)
		for _, v := range []any{o["usage"], obj(o, "response")["usage"]} {
			if v != nil {
				usage = v
			}
		}
	}
	return usage
}

func TestReplyOrder(t *testing.T) {
	const script = `
model: m
replies:
  - {match: {lastUser: weather}, content: [{text: sunny}]}
  - {match: {hasToolResult: true}, content: [{text: result}], repeat: true}
  - content: [{text: one}]
  - {match: {system: judge}, content: [{text: verdict}]}
  - {match: {turn: 3}, content: [{text: third}]}
  - {match: {step: 2}, content: [{text: step}]}
  - content: [{text: two}]
`
	c := start(t, script)
	ask := func(body string) string {
		t.Helper()
		got := c.post("/v1/messages", body)
		if got.status != http.StatusOK {
			return str(obj(got.object(t), "error"), "message")
		}
		return str(list(got.object(t), "content")[0].(object), "text")
	}
	said := assistant(textBlock("x"))
	result := userHi + "," + assistant(useA) + "," + user(resultA)
	steps := []struct{ body, want string }{
		{messages(userHi), "one"},
		{messages(result), "result"},
		{messages(user(textBlock("the weather?"))), "sunny"},
		{messages(result), "result"},
		{messages(result + "," + said + "," + userHi), "third"},
		{messages(userHi, `"system":"You judge."`), "verdict"},
		{messages(userHi + "," + said + "," + said + "," + user(textBlock("weather"))), "two"},
		{messages(userHi), "script exhausted for model m: 7 replies used, none left that matches this request (turn 1)"},
		{messages(result), "result"},
	}
	for i, s := range steps {
		if got := ask(s.body); got != s.want {
			t.Errorf("request %d: %q, want %q", i, got, s.want)
		}
	}
	if diff := cmp.Diff([]int{1, 3, 1, 1, 1, 0, 1}, c.server.lookup("m").counts()); diff != "" {
		t.Errorf("used: -want +got:\n%s", diff)
	}
}

// What a script matches is the same for a conversation in each protocol.
func TestMatchesInEachProtocol(t *testing.T) {
	conversations := map[string]struct {
		anthropic, chat, responses string
		turn, step                 int
		result                     bool
	}{
		"a question": {userHi, userHi, userHi, 1, 1, false},
		"a result":   {userHi + "," + assistant(useA) + "," + user(resultA), userHi + "," + chatCalls("a") + "," + chatResult("a"), userHi + "," + fnCall("a") + "," + fnOutput("a"), 2, 2, true},
		"two results at once": {userHi + "," + assistant(useA, useB) + "," + user(resultA, resultB), userHi + "," + chatCalls("a", "b") + "," + chatResult("a") + "," + chatResult("b"),
			userHi + "," + fnCall("a") + "," + fnCall("b") + "," + fnOutput("a") + "," + fnOutput("b"), 2, 2, true},
		"a second question": {userHi + "," + assistant(useA) + "," + user(resultA) + `,{"role":"assistant","content":"x"},` + userHi,
			userHi + "," + chatCalls("a") + "," + chatResult("a") + `,{"role":"assistant","content":"x"},` + userHi,
			userHi + "," + fnCall("a") + "," + fnOutput("a") + `,{"role":"assistant","content":"x"},` + userHi, 3, 1, false},
	}
	for name, tc := range conversations {
		t.Run(name, func(t *testing.T) {
			c := start(t, fmt.Sprintf("model: m\nreplies:\n- {match: {turn: %d, step: %d, hasToolResult: %v, lastUser: hi, system: be brief}, repeat: true}\n",
				tc.turn, tc.step, tc.result))
			for path, body := range map[string]string{
				"/v1/messages":         messages(tc.anthropic, `"system":"be brief"`),
				"/v1/chat/completions": chat(`{"role":"system","content":"be brief"},` + tc.chat),
				"/v1/responses":        input(tc.responses, `"instructions":"be brief"`),
			} {
				if got := c.post(path, body); got.status != http.StatusOK {
					t.Errorf("%s: %s", path, got.body)
				}
			}
		})
	}
}

// Many clients at once use up each reply exactly once, and ids never repeat.
func TestConcurrentRequests(t *testing.T) {
	const clients, each = 32, 10
	var script strings.Builder
	script.WriteString("model: m\nreplies:\n")
	for i := range clients * each {
		fmt.Fprintf(&script, "- content: [{text: answer %d}]\n  chunks: 3\n", i)
	}
	c := start(t, script.String())
	var mu sync.Mutex
	texts, ids := map[string]bool{}, map[string]bool{}
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for range each {
				events := c.post("/v1/messages", messages(userHi, `"stream":true`)).events(t)
				text, _ := piecesOf(t, "anthropic", events)
				id := str(obj(events[0].json(t), "message"), "id")
				mu.Lock()
				texts[text], ids[id] = true, true
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if len(texts) != clients*each || len(ids) != clients*each {
		t.Errorf("%d texts and %d ids, want %d of each", len(texts), len(ids), clients*each)
	}
	if n := len(c.server.Requests("m")); n != clients*each {
		t.Errorf("%d requests recorded", n)
	}
}
