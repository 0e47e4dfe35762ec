package modelserver

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

const thinkingScript = `
model: m
replies:
  - match: {lastUser: nothing}
    content: [{toolCall: {id: a, name: f}}]
    repeat: true
  - content:
      - thinking: first
      - text: words
      - {thinking: second, redacted: true}
      - toolCall: {id: a, name: f, arguments: {x: 1.5}}
    repeat: true
---
model: other
replies: [{repeat: true}]
`

// thoughtBlocks are the blocks of an answer to the request with thinking in two places.
func thoughtBlocks(t *testing.T, c *client, body string) []string {
	t.Helper()
	got := c.post("/v1/messages", body)
	var message struct{ Content []json.RawMessage }
	if err := json.Unmarshal(got.body, &message); err != nil || got.status != http.StatusOK {
		t.Fatalf("status %d, %v: %s", got.status, err, got.body)
	}
	var blocks []string
	for _, raw := range message.Content {
		blocks = append(blocks, string(raw))
	}
	return blocks
}

const (
	systemS  = `"system":"s"`
	modified = ": `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must " +
		"remain as they were in the original response."
	badSignature = ": Invalid `signature` in `thinking` block"
)

// Each case sends back the blocks of one answer (first, words, second, call), perhaps changed.
func TestThinkingComesBack(t *testing.T) {
	c := start(t, thinkingScript)
	const tools = `"tools":[` + toolF + `]`
	b := thoughtBlocks(t, c, messages(userHi, systemS, tools))
	first, words, second, call := b[0], b[1], b[2], b[3]
	replay := func(before string, blocks []string, extra ...string) string {
		return messages(before+","+assistant(blocks...)+","+user(resultA), extra...)
	}
	later := func(blocks []string, extra ...string) string {
		return messages(userHi+","+assistant(blocks...)+","+user(resultA)+","+assistant(textBlock("done"))+","+userHi, extra...)
	}
	altered := strings.Replace(first, `"first"`, `"First"`, 1)
	cases := map[string]struct{ body, want string }{
		"as it was":             {replay(userHi, b, systemS, tools), ""},
		"as it was, later":      {later(b, systemS, tools), ""},
		"all thinking left out": {replay(userHi, []string{words, call}, systemS, tools), ""},
		"with cache markers, and content in its other form": {replay(user(`{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}`), b,
			`"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]`, tools), ""},
		"with other settings":             {replay(userHi, b, systemS, tools, `"temperature":1`, `"stream":true`), ""},
		"with a changed text":             {replay(userHi, []string{altered, words, second, call}, systemS, tools), "messages.1.content.0" + modified},
		"with an emptied text":            {replay(userHi, []string{strings.Replace(first, `"first"`, `""`, 1), words, second, call}, systemS, tools), "messages.1.content.0" + modified},
		"with a changed text, later":      {later([]string{altered, words, second, call}, systemS, tools), "messages.1.content.0" + badSignature},
		"with one left out":               {replay(userHi, []string{first, words, call}, systemS, tools), "messages.1.content.0" + modified},
		"with the other left out":         {replay(userHi, []string{words, second, call}, systemS, tools), "messages.1.content.1" + modified},
		"in another order":                {replay(userHi, []string{words, first, second, call}, systemS, tools), "messages.1.content.1" + modified},
		"with the words gone":             {replay(userHi, []string{first, second, call}, systemS, tools), "messages.1.content.1" + modified},
		"with a cut signature":            {replay(userHi, []string{strings.Replace(first, `"signature":"A`, `"signature":"`, 1), words, second, call}, systemS, tools), "messages.1.content.0" + badSignature},
		"behind another system prompt":    {replay(userHi, b, `"system":"t"`, tools), "messages.1.content.0" + badSignature},
		"behind other tools":              {replay(userHi, b, systemS), "messages.1.content.0" + badSignature},
		"behind another message":          {replay(user(textBlock("ho")), b, systemS, tools), "messages.1.content.0" + badSignature},
		"behind a message more":           {replay(userHi+","+userHi, b, systemS, tools), "messages.2.content.0" + badSignature},
		"for another model":               {strings.Replace(replay(userHi, b, systemS, tools), `"model":"m"`, `"model":"other"`, 1), "messages.1.content.0" + modified},
		"as redacted of another":          {replay(userHi, []string{first, words, `{"type":"redacted_thinking","data":` + signatureOf(first) + `}`, call}, systemS, tools), "messages.1.content.2" + modified},
		"with a cache marker on thinking": {replay(userHi, []string{strings.Replace(first, `{`, `{"cache_control":{"type":"ephemeral"},`, 1), words, second, call}, systemS, tools), "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := c.post("/v1/messages", tc.body)
			if tc.want == "" {
				if got.status != http.StatusOK {
					t.Errorf("status %d: %s", got.status, got.body)
				}
				return
			}
			if message := str(obj(got.object(t), "error"), "message"); message != tc.want || got.status != http.StatusBadRequest {
				t.Errorf("status %d, %q, want %q", got.status, message, tc.want)
			}
		})
	}
}

// signatureOf is the quoted signature of a thinking block.
func signatureOf(block string) string {
	o, err := parseObject([]byte(block))
	if err != nil {
		panic(err)
	}
	return string(encode(str(o, "signature")))
}

// Thinking that a later answer gave stays good when the thinking of an earlier one is left out, as a client does that
// compacts or switches models.
func TestEarlierThinkingIsNoPrefix(t *testing.T) {
	c := start(t, thinkingScript)
	b1 := thoughtBlocks(t, c, messages(userHi))
	turn1 := userHi + "," + assistant(b1...) + "," + user(resultA)
	b2 := thoughtBlocks(t, c, messages(turn1))
	stripped := userHi + "," + assistant(b1[1], b1[3]) + "," + user(resultA)
	got := c.post("/v1/messages", messages(stripped+","+assistant(b2...)+","+user(resultA)))
	if got.status != http.StatusOK {
		t.Errorf("status %d: %s", got.status, got.body)
	}
}

// Tokens verify at a server with the same key and nowhere else.
func TestThinkingOutlivesTheServer(t *testing.T) {
	b := thoughtBlocks(t, start(t, thinkingScript), messages(userHi))
	body := messages(userHi + "," + assistant(b...) + "," + user(resultA))
	if got := start(t, thinkingScript).post("/v1/messages", body); got.status != http.StatusOK {
		t.Errorf("the same key: status %d: %s", got.status, got.body)
	}
	c := start(t, thinkingScript)
	c.server.signer = signer{[]byte("another")}
	c.server.routes()
	if got := c.post("/v1/messages", body); got.status != http.StatusBadRequest {
		t.Errorf("another key: status %d: %s", got.status, got.body)
	}
}

const enabled = `"thinking":{"type":"enabled","budget_tokens":1024}`

// As long as fixed thinking is on, the calls that thinking led come back with it.
func TestFixedThinkingMustLead(t *testing.T) {
	c := start(t, thinkingScript)
	b := thoughtBlocks(t, c, messages(userHi, enabled))
	bare := userHi + "," + assistant(b[1], b[3]) + "," + user(resultA)
	cases := map[string]struct {
		body string
		ok   bool
	}{
		"with it":                    {messages(userHi+","+assistant(b...)+","+user(resultA), enabled), true},
		"without it":                 {messages(bare, enabled), false},
		"without it, thinking off":   {messages(bare), true},
		"without it, the turn over":  {messages(bare+","+assistant(textBlock("x"))+","+userHi, enabled), true},
		"without it, a new question": {messages(userHi+","+assistant(b[1], b[3])+","+user(resultA, textBlock("and?")), enabled), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := c.post("/v1/messages", tc.body)
			if ok := got.status == http.StatusOK; ok != tc.ok {
				t.Errorf("status %d: %s", got.status, got.body)
			}
			if message := str(obj(got.object(t), "error"), "message"); !tc.ok && !strings.HasPrefix(message,
				"messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`. When `thinking` is enabled") {
				t.Errorf("message %q", message)
			}
		})
	}
	t.Run("a call that nothing led", func(t *testing.T) {
		nothing := user(textBlock("nothing"))
		b := thoughtBlocks(t, c, messages(nothing, enabled))
		got := c.post("/v1/messages", messages(nothing+","+assistant(b...)+","+user(resultA), enabled))
		if got.status != http.StatusOK {
			t.Errorf("status %d: %s", got.status, got.body)
		}
	})
}

func TestThinkingDisplay(t *testing.T) {
	c := start(t, thinkingScript)
	hidden := `"thinking":{"type":"adaptive","display":"omitted"}`
	b := thoughtBlocks(t, c, messages(userHi, hidden))
	if o, _ := parseObject([]byte(b[0])); str(o, "thinking") != "" || str(o, "signature") == "" {
		t.Errorf("omitted thinking is %s", b[0])
	}
	if got := c.post("/v1/messages", messages(userHi+","+assistant(b...)+","+user(resultA), hidden)); got.status != http.StatusOK {
		t.Errorf("sent back: status %d: %s", got.status, got.body)
	}
	if b := thoughtBlocks(t, c, messages(userHi, `"thinking":{"type":"disabled"}`)); len(b) != 2 {
		t.Errorf("with thinking off: %v", b)
	}
}
