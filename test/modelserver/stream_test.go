package modelserver

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: -want +got:\n%s", path, diff)
	}
}

// everyKind has every kind of part, characters of several bytes, and every count.
const everyKind = `
model: m
replies:
  - content:
      - thinking: "Was heißt das? 😀"
      - {thinking: hidden, redacted: true}
      - text: "Grüße, <b>&amp;</b>"
      - toolCall: {id: c1, name: add, arguments: {b: 2, a: [1, 1.0, 1e2]}}
      - toolCall: {name: now}
      - refusal: "Not that."
    usage: {input: 10, output: 20, cacheRead: 3, cacheWrite: 4, reasoning: 6}
    chunks: 3
    repeat: true
`

// asked are the same question in each protocol, streamed or not.
var asked = map[string]struct{ path, whole, streamed string }{
	"anthropic": {"/v1/messages", messages(userHi), messages(userHi, `"stream":true`)},
	"chat":      {"/v1/chat/completions", chat(userHi), chat(userHi, `"stream":true`, `"stream_options":{"include_usage":true}`)},
	"responses": {"/v1/responses", input(userHi, wantsReasoning), input(userHi, wantsReasoning, `"stream":true`)},
}

func TestAnswersAreGolden(t *testing.T) {
	for name, tc := range asked {
		t.Run(name, func(t *testing.T) {
			c := start(t, everyKind)
			whole := c.post(tc.path, tc.whole)
			if whole.status != http.StatusOK || whole.header.Get("Content-Type") != "application/json" {
				t.Errorf("status %d, %s", whole.status, whole.header.Get("Content-Type"))
			}
			golden(t, name+".json", []byte(indented(t, whole.body)+"\n"))
			streamed := c.post(tc.path, tc.streamed)
			if streamed.status != http.StatusOK || streamed.header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("status %d, %s", streamed.status, streamed.header.Get("Content-Type"))
			}
			streamed.events(t)
			golden(t, name+".sse", streamed.body)
		})
	}
}

// piecesOf concatenates what a stream's deltas add to the text of the answer.
func piecesOf(t *testing.T, protocol string, events []sse) (text string, deltas int) {
	t.Helper()
	for _, e := range events {
		if e.data == "[DONE]" {
			continue
		}
		o, piece := e.json(t), ""
		switch protocol {
		case "anthropic":
			piece = str(obj(o, "delta"), "text")
		case "chat":
			for _, choice := range list(o, "choices") {
				piece = str(obj(choice.(object), "delta"), "content")
			}
		case "responses":
			piece = str(o, "delta")
		}
		if piece != "" {
			text += piece
			deltas++
		}
	}
	return text, deltas
}

func TestStreamsAreCutIntoChunks(t *testing.T) {
	cases := map[string]struct {
		script string
		text   string
		deltas int
	}{
		"one":                      {reply("content: [{text: hello}]"), "hello", 1},
		"some":                     {reply("{content: [{text: hello}], chunks: 2}"), "hello", 2},
		"more than characters":     {reply("{content: [{text: äöü}], chunks: 9}"), "äöü", 3},
		"a long text":              {reply("{content: [{text: {repeat: ab, times: 5000}}], chunks: 100}"), strings.Repeat("ab", 5000), 100},
		"an empty text":            {reply(`content: [{text: ""}]`), "", 0},
		"a reply without content":  {reply("{}"), defaultText, 1},
		"an echo":                  {reply("echo: true"), "hi", 1},
		"a reply that waits first": {reply("latency: 1ms"), defaultText, 1},
	}
	for name, tc := range cases {
		for protocol, ask := range asked {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				t.Parallel()
				c := start(t, tc.script)
				text, deltas := piecesOf(t, protocol, c.post(ask.path, ask.streamed).events(t))
				if text != tc.text || deltas != tc.deltas {
					t.Errorf("%d deltas of %d bytes, want %d of %d", deltas, len(text), tc.deltas, len(tc.text))
				}
			})
		}
	}
}

// ending says how a stream that was read to its end ended.
func ending(t *testing.T, events []sse) string {
	t.Helper()
	if len(events) == 0 {
		return "nothing"
	}
	last := events[len(events)-1]
	switch {
	case last.data == "[DONE]":
		return "complete"
	case last.name == "message_stop", last.name == "response.completed", last.name == "response.incomplete":
		return "complete"
	case last.name == "response.failed", last.name == "error", strings.HasPrefix(last.data, `{"error":`):
		return "error"
	}
	return "cut"
}

func TestStreamFaults(t *testing.T) {
	const long = `content: [{text: "0123456789"}], chunks: 5, `
	cases := map[string]struct {
		reply   string
		text    string
		ending  string
		broken  bool // the connection breaks
		outcome string
	}{
		"a break after three deltas":        {`{` + long + `drop: {afterChunks: 3}}`, "012345", "cut", true, OutcomeDropped},
		"a break before any delta":          {`{` + long + `drop: {afterChunks: 0}}`, "", "cut", true, OutcomeDropped},
		"a break after the last delta":      {`{` + long + `drop: {afterChunks: 9}}`, "0123456789", "cut", true, OutcomeDropped},
		"a clean end after three deltas":    {`{` + long + `truncate: {afterChunks: 3}}`, "012345", "cut", false, OutcomeTruncated},
		"a clean end without content":       {`truncate: {afterChunks: 1}`, defaultText[:(len(defaultText)+1)/2], "cut", false, OutcomeTruncated},
		"an error after two deltas":         {`{` + long + `error: {type: overloaded_error, afterChunks: 2}}`, "0123", "error", false, OutcomeRefused},
		"an error before the first delta":   {`{` + long + `error: {status: 529, afterChunks: 0}}`, "", "error", false, OutcomeRefused},
		"a stream that is not disturbed":    {`{` + long + `delay: {first: 1ms, perChunk: 1ms}}`, "0123456789", "complete", false, OutcomeComplete},
		"a stop for another reason":         {`{` + long + `stopReason: length}`, "0123456789", "complete", false, OutcomeComplete},
		"a stop for a reason that is new":   {`{` + long + `stopReason: tired}`, "0123456789", "complete", false, OutcomeComplete},
		"a stop because the window is full": {`{` + long + `stopReason: contextWindow}`, "0123456789", "complete", false, OutcomeComplete},
	}
	for name, tc := range cases {
		for protocol, ask := range asked {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				t.Parallel()
				c := start(t, reply(tc.reply))
				got := c.post(ask.path, ask.streamed)
				if (got.readErr != nil) != tc.broken {
					t.Errorf("read error %v, want one: %v", got.readErr, tc.broken)
				}
				events := got.events(t)
				text, _ := piecesOf(t, protocol, events)
				if text != tc.text || ending(t, events) != tc.ending {
					t.Errorf("text %q and %s, want %q and %s", text, ending(t, events), tc.text, tc.ending)
				}
				if rec := c.record(t); rec.Outcome != tc.outcome || rec.Status != http.StatusOK {
					t.Errorf("recorded as %s with status %d, want %s", rec.Outcome, rec.Status, tc.outcome)
				}
			})
		}
	}
}

func TestErrorEvents(t *testing.T) {
	script := reply(`{error: {status: 529, type: overloaded_error, code: busy, message: Overloaded, afterChunks: 1}, repeat: true}`)
	want := map[string][]sse{
		"anthropic": {{"error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`}},
		"chat":      {{"", `{"error":{"message":"Overloaded","type":"overloaded_error","param":null,"code":"busy"}}`}},
		"responses": {{"error", `{"type":"error","sequence_number":0,"error":{"message":"Overloaded","type":"overloaded_error","param":null,"code":"busy"}}`}},
	}
	for protocol, ask := range asked {
		t.Run(protocol, func(t *testing.T) {
			events := start(t, script).post(ask.path, ask.streamed).events(t)
			if protocol == "responses" {
				failed := events[len(events)-1].json(t)
				if got := str(obj(obj(failed, "response"), "error"), "code"); got != "busy" {
					t.Errorf("response.failed has the code %q", got)
				}
				events = events[:len(events)-1]
			}
			if diff := cmp.Diff(want[protocol], events[len(events)-1:], cmp.AllowUnexported(sse{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
