package modelserver

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func ptr[T any](v T) *T { return &v }

var parsed = map[string]struct {
	yaml   string
	prefix string
	want   []Script
}{
	"everything that the format has": {
		yaml: `
model: demo
window: 32000
windowIncludesOutput: true
maxTokens: 4096
auth: key
apiKey: sk-1
thinking: adaptive
images: false
chatReasoning: reasoning
allowFields: [top_k]
record: false
replies:
  - match: {lastUser: hello, hasToolResult: false, system: be, turn: 1, step: 2}
    content: [{thinking: hm, redacted: true}, {text: {repeat: ab, times: 3}}, {refusal: "no"}]
    stopReason: length
    usage: {input: 10, output: 5, cacheRead: 0, cacheWrite: 1, reasoning: 2}
    chunks: 8
    delay: {first: 50ms, perChunk: 10ms}
    latency: 1s
    headers: {X-A: b}
  - content: [{toolCall: {id: c1, name: add, arguments: {b: "<&>", a: 1}}}, {toolCall: {name: sub, rawArguments: '{"a":'}}]
    drop: {afterChunks: 3}
  - error: {status: 429, type: rate_limit_error, code: c, message: slow, retryAfter: 1.5}
  - error: {type: overloaded_error, afterChunks: 0}
  - truncate: {afterChunks: 1}
  - hang: true
  - hang: {afterChunks: 2}
  - raw: {status: 502, contentType: text/html, body: <html>}
  - echo: true
    repeat: true
`,
		want: []Script{{
			Model: "demo", Window: 32000, WindowIncludesOutput: true, MaxTokens: 4096, Auth: AuthKey, APIKey: "sk-1",
			Thinking: ThinkingAdaptive, Images: ptr(false), ChatReasoning: ChatReasoning, AllowFields: []string{"top_k"},
			Record: ptr(false),
			Replies: []Reply{
				{
					Match: &Match{LastUser: ptr("hello"), HasToolResult: ptr(false), System: ptr("be"), Turn: ptr(1), Step: ptr(2)},
					Content: []Part{
						{Thinking: ptr(Text("hm")), Redacted: true}, {Text: ptr(Text("ababab"))}, {Refusal: ptr(Text("no"))}},
					StopReason: "length",
					Usage: &Usage{Input: ptr(int64(10)), Output: ptr(int64(5)), CacheRead: ptr(int64(0)),
						CacheWrite: ptr(int64(1)), Reasoning: ptr(int64(2))},
					Chunks: 8, Latency: Duration(time.Second), Headers: map[string]string{"X-A": "b"},
					Delay: Delay{First: Duration(50 * time.Millisecond), PerChunk: Duration(10 * time.Millisecond)},
				},
				{
					Content: []Part{
						{ToolCall: &ToolCall{ID: "c1", Name: "add", Arguments: json.RawMessage(`{"a":1,"b":"<&>"}`)}},
						{ToolCall: &ToolCall{Name: "sub", RawArguments: ptr(Text(`{"a":`))}}},
					Drop: &Cut{AfterChunks: 3},
				},
				{Error: &Fault{Status: 429, Type: "rate_limit_error", Code: "c", Message: "slow", RetryAfter: ptr(1.5)}},
				{Error: &Fault{Type: "overloaded_error", AfterChunks: ptr(0)}},
				{Truncate: &Cut{AfterChunks: 1}},
				{Hang: &Hang{}},
				{Hang: &Hang{AfterChunks: ptr(2)}},
				{Raw: &Raw{Status: 502, ContentType: "text/html", Body: "<html>"}},
				{Echo: true, Repeat: true},
			},
		}},
	},
	"several documents, one of them a list, with a prefix": {
		yaml:   "model: a\nreplies: [{}]\n--- # next\n- model: b\n  replies: [{}]\n- model: ns-c\n  replies: [{}]\n---\n",
		prefix: "ns",
		want:   []Script{{Model: "ns-a", Replies: []Reply{{}}}, {Model: "ns-b", Replies: []Reply{{}}}, {Model: "ns-c", Replies: []Reply{{}}}},
	},
	"a prefix that ends with its dash": {
		yaml: "model: a\nreplies: [{}]", prefix: "ns-", want: []Script{{Model: "ns-a", Replies: []Reply{{}}}},
	},
	"a block text with a line of dashes in it": {
		yaml: "model: a\nreplies:\n- content:\n  - text: |\n      x\n      ---\n      y\n",
		want: []Script{{Model: "a", Replies: []Reply{{Content: []Part{{Text: ptr(Text("x\n---\ny\n"))}}}}}},
	},
}

func TestParseYAML(t *testing.T) {
	for name, tc := range parsed {
		t.Run(name, func(t *testing.T) {
			got, err := ParseYAML([]byte(tc.yaml), tc.prefix)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// reply is a script with one reply.
func reply(yaml string) string { return "model: m\nreplies:\n- " + yaml + "\n" }

var unparsed = map[string]struct{ yaml, want string }{
	"nothing":                   {"", "no script in it"},
	"no model":                  {"replies: [{}]", "model is missing"},
	"no replies":                {"model: m", "replies is missing"},
	"an unknown key":            {"model: m\nreplys: [{}]", `unknown field "replys"`},
	"an unknown key in a reply": {"model: m\nreplies:\n- {}\n- contents: []", `replies[1]: unknown field "contents"`},
	"an unknown key in a match": {reply("match: {lastuser: x}"), `unknown field "lastuser"`},
	"an unknown key in a call":  {reply("content: [{toolCall: {name: f, args: {}}}]"), `unknown field "args"`},
	"a repeated key":            {"model: m\nmodel: n\nreplies: [{}]", "already set in map"},
	"broken YAML":               {"model: [", "document 1"},
	"a second broken document":  {"model: m\nreplies: [{}]\n---\nmodel: 1\n", "document 2"},
	"a model defined twice":     {"- {model: m, replies: [{}]}\n- {model: m, replies: [{}]}", "defined twice"},
	"a scalar":                  {"hello", "cannot unmarshal"},
	"a negative window":         {"model: m\nwindow: -1\nreplies: [{}]", "must not be negative"},
	"an unknown auth":           {"model: m\nauth: token\nreplies: [{}]", `auth must be "key"`},
	"an unknown thinking":       {"model: m\nthinking: on\nreplies: [{}]", "thinking"},
	"an unknown reasoning":      {"model: m\nchatReasoning: x\nreplies: [{}]", "chatReasoning must be"},
	"two kinds of answer":       {reply("{echo: true, content: [{text: x}]}"), "content and echo exclude each other"},
	"two cuts":                  {reply("{drop: {afterChunks: 1}, truncate: {afterChunks: 1}}"), "only one of"},
	"a negative cut":            {reply("drop: {afterChunks: -1}"), "must not be negative"},
	"negative chunks":           {reply("chunks: -1"), "must not be negative"},
	"a raw answer that is cut":  {reply("{raw: {body: x}, drop: {afterChunks: 1}}"), "raw is not a stream that can be cut"},
	"hang: false":               {reply("hang: false"), "hang: false says nothing"},
	"a hang of another type":    {reply("hang: 3"), "hang must be true or"},
	"a number as duration":      {reply("delay: {first: 50}"), "a duration must be a string"},
	"a duration without unit":   {reply(`delay: {first: "50"}`), "missing unit"},
	"a negative duration":       {reply("latency: -1s"), "must not be negative"},
	"a text of another type":    {reply("content: [{text: [x]}]"), "a text must be a string or"},
	"an unknown key in a text":  {reply("content: [{text: {repeat: x, time: 2}}]"), `unknown field "time"`},
	"a negative repetition":     {reply("content: [{text: {repeat: x, times: -2}}]"), "between 0 and"},
	"a huge repetition":         {reply("content: [{text: {repeat: xx, times: 99999999}}]"), "between 0 and"},
	"a part of two kinds":       {reply("content: [{text: a, thinking: b}]"), "exactly one of"},
	"a part of no kind":         {reply("content: [{}]"), "exactly one of"},
	"redacted text":             {reply("content: [{text: a, redacted: true}]"), "only thinking can be redacted"},
	"a call without name":       {reply("content: [{toolCall: {id: c}}]"), "toolCall.name is missing"},
	"arguments twice":           {reply("content: [{toolCall: {name: f, arguments: {}, rawArguments: x}}]"), "exclude each other"},
	"arguments of another type": {reply("content: [{toolCall: {name: f, arguments: [1]}}]"), "must be an object"},
	"an error status of 200":    {reply("error: {status: 200}"), "between 400 and 599"},
	"a raw status of 100":       {reply("raw: {status: 100, body: x}"), "between 200 and 599"},
	"a reply that hides others": {"model: m\nreplies: [{repeat: true}, {}]", "replies[0] repeats and matches everything"},
}

func TestParseYAMLRefuses(t *testing.T) {
	for name, tc := range unparsed {
		t.Run(name, func(t *testing.T) {
			_, err := ParseYAML([]byte(tc.yaml), "")
			if !errors.Is(err, ErrScript) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an ErrScript that says %q", err, tc.want)
			}
		})
	}
}

func TestLoadKeepsAllOrNothing(t *testing.T) {
	s := New(Options{})
	err := s.Load(Script{Model: "good", Replies: []Reply{{}}}, Script{Model: "bad"})
	if !errors.Is(err, ErrScript) || !strings.Contains(err.Error(), `"bad"`) {
		t.Errorf("got %v", err)
	}
	if n := len(s.loaded()); n != 0 {
		t.Errorf("%d models loaded, want none", n)
	}
}

// The examples of the format's description must be scripts.
func TestDocumentedScripts(t *testing.T) {
	raw, err := os.ReadFile("../../docs/format/modelscript.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, rest := range strings.Split(string(raw), "```yaml\n")[1:] {
		example, _, _ := strings.Cut(rest, "```")
		examples++
		if _, err := ParseYAML([]byte(example), "ns"); err != nil {
			t.Errorf("example %d: %v\n%s", examples, err, example)
		}
	}
	if examples == 0 {
		t.Error("no example found")
	}
}

// Whatever parses has a valid form that the server can load.
func FuzzParseYAML(f *testing.F) {
	for _, tc := range parsed {
		f.Add(tc.yaml, tc.prefix)
	}
	for _, tc := range unparsed {
		f.Add(tc.yaml, "")
	}
	f.Fuzz(func(t *testing.T, yaml, prefix string) {
		scripts, err := ParseYAML([]byte(yaml), prefix)
		if err != nil {
			if !errors.Is(err, ErrScript) {
				t.Errorf("%v is no ErrScript", err)
			}
			return
		}
		s := New(Options{})
		if err := s.Load(scripts...); err != nil {
			t.Errorf("parsed, but not loaded: %v", err)
		}
		if len(s.loaded()) != len(scripts) {
			t.Errorf("%d models of %d scripts", len(s.loaded()), len(scripts))
		}
	})
}
