package budget

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agentloop/agentloop/pkg/message"
)

// slowText states the rule of the heuristic as plainly as it can be said.
func slowText(s string) int64 {
	var quarters int64
	for _, r := range s { // an invalid byte comes as U+FFFD
		if r <= 0x7f {
			quarters++
			continue
		}
		quarters += 4 * int64((utf8.RuneLen(r)+1)/2)
	}
	return (quarters + 3) / 4
}

// plain is an estimator that counts as the heuristic does and is not known to be it: it is asked for the text of each
// block, where the heuristic counts without one.
type plain struct{}

func (plain) Name() string        { return "plain" }
func (plain) Text(s string) int64 { return slowText(s) }

// snippets are what random texts are made of: every kind of character, escape and damage.
var snippets = []string{"a", "word ", "x=1;\n", "\"quoted\"", `back\slash`, "\t", "\r\n", "\b\f", "\x00", "\x1f", "\x7f",
	"é", "中文", "😀", "\u07ff", "\u0800", "\uffff", "\ufffd", "\u2028", "<b>&", "\xff", "\xc3", "\xe4\xb8", "\xed\xa0\x80",
	"\xf0\x9f\x98", "\xc0\x80", "\xe0\x80\x80", "\xf4\x90\x80\x80", "\xc2", strings.Repeat("abcdefgh", 5), "русский текст"}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(12) {
		b.WriteString(snippets[r.IntN(len(snippets))])
	}
	return b.String()
}

func randomRaw(r *rand.Rand) json.RawMessage {
	quoted, _ := json.Marshal(randomText(r))
	switch r.IntN(9) {
	case 0:
		return nil
	case 1:
		return json.RawMessage(randomText(r)) // seldom JSON
	case 2:
		return json.RawMessage(` { "a" : [ 1 , "x y" ] ,` + "\n\t" + `"b\"\\" : ` + string(quoted) + ` } `)
	case 3:
		return json.RawMessage("{\"a\xff\":\"\xe4\xb8 b\"}")
	case 4:
		return json.RawMessage(` [1, 2]`)
	case 5:
		return json.RawMessage(`null`)
	case 6:
		return json.RawMessage(`{"cut":"of`)
	}
	return json.RawMessage(`{"k":` + string(quoted) + `,"n":-1.50e+3,"z":{"y":[true,null,{}]}}`)
}

func randomBlock(r *rand.Rand) message.Block {
	b := message.Block{Type: []message.BlockType{message.BlockText, message.BlockThinking, message.BlockImage,
		message.BlockToolCall, "other\n"}[r.IntN(5)]}
	for _, s := range []*string{&b.Text, &b.TextSignature, &b.Thinking, &b.ThinkingSignature, &b.ID, &b.Name,
		&b.ThoughtSignature, &b.MediaType, &b.Data} {
		if r.IntN(3) > 0 {
			*s = randomText(r)
		}
	}
	b.Redacted = r.IntN(2) == 0
	b.Arguments = randomRaw(r)
	return b
}

func randomMessage(r *rand.Rand) message.Message {
	m := message.Message{Role: []message.Role{message.RoleUser, message.RoleAssistant, message.RoleToolResult}[r.IntN(3)]}
	m.ToolCallID, m.ToolName = randomText(r), randomText(r)
	if m.Role != message.RoleAssistant && r.IntN(2) == 0 {
		m.Content = message.Text(randomText(r))
		return m
	}
	for range r.IntN(4) {
		m.Content.Blocks = append(m.Content.Blocks, randomBlock(r))
	}
	return m
}

// jsonTokens is the rule for messages, stated plainly: each block is the text of its JSON.
func jsonTokens(m message.Message) int64 {
	if m.Content.IsText {
		return MessageOverhead + slowText(m.Content.Text)
	}
	total := int64(MessageOverhead)
	if m.Role == message.RoleToolResult {
		total += slowText(m.ToolName) + slowText(m.ToolCallID)
	}
	for _, b := range m.Content.Blocks {
		if b.Type == message.BlockImage {
			total += ImageTokens
			continue
		}
		total += slowText(string(b.AppendJSON(nil)))
	}
	return total
}

func TestTextIsTheRuleStatedPlainly(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5_000 {
		s := randomText(r)
		if got, want := TextTokens(s), slowText(s); got != want {
			t.Fatalf("%q: %d tokens, want %d", s, got, want)
		}
	}
}

func TestBlockIsCountedAsItsJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 5_000 {
		b := randomBlock(r)
		if b.Type == message.BlockImage {
			continue
		}
		encoded := string(b.AppendJSON(nil))
		if got, want := blockQuarters(&b), quarters(encoded); got != want {
			t.Fatalf("%s: %d quarters, want %d", encoded, got, want)
		}
	}
}

func TestMessageIsCountedAlikeWithAndWithoutItsJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 5_000 {
		m := randomMessage(r)
		if got, want := MessageTokens(m), jsonTokens(m); got != want {
			t.Fatalf("%s: %d tokens, want %d", message.Encode(m), got, want)
		}
	}
}

func TestToolsAreCountedAsTheirJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 5_000 {
		tools := make([]message.Tool, r.IntN(4))
		for i := range tools {
			tools[i] = message.Tool{Name: randomText(r), Description: randomText(r), Parameters: randomRaw(r)}
		}
		if got, want := ToolTokens(tools), ToolTokensWith(plain{}, tools); got != want {
			t.Fatalf("%+v: %d tokens, want %d", tools, got, want)
		}
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	text := strings.Repeat("naïve text 中文 😀 \"quoted\"\n", 50)
	m := message.Message{Role: message.RoleAssistant, Content: message.Blocks(
		message.Block{Type: message.BlockThinking, Thinking: text, ThinkingSignature: "c2ln"},
		message.Block{Type: message.BlockText, Text: text},
		message.Block{Type: message.BlockImage, MediaType: "image/png", Data: text})}
	cases := map[string]func(){
		"text":          func() { TextTokens(text) },
		"estimator":     func() { Heuristic.Text(text) },
		"system prompt": func() { SystemTokens(text) },
		"message":       func() { MessageTokens(m) },
		"cached list": func() func() {
			messages, cache := []message.Message{m, m, m}, new(Cache)
			cache.messageTokens(Heuristic, messages)
			return func() { cache.messageTokens(Heuristic, messages) }
		}(),
	}
	for name, count := range cases {
		t.Run(name, func(t *testing.T) {
			if n := testing.AllocsPerRun(100, count); n != 0 {
				t.Errorf("%v allocations, want none", n)
			}
		})
	}
}

func TestAddStaysInRange(t *testing.T) {
	if got := add(math.MaxInt64-1, 1); got != math.MaxInt64 {
		t.Errorf("sum at the edge is %d", got)
	}
	if got := add(math.MaxInt64, math.MaxInt64); got != math.MaxInt64 {
		t.Errorf("sum beyond the edge is %d", got)
	}
}

// FuzzText: an estimate is never negative, is the plainly stated rule, and never falls when text is appended to valid
// text. (After a cut-off character it may: the bytes that complete it make one character of several invalid ones.)
func FuzzText(f *testing.F) {
	for _, s := range snippets {
		f.Add(s, "tail")
		f.Add(strings.Repeat("abc", 20)+s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		got := TextTokens(a)
		if want := slowText(a); got != want || got < 0 {
			t.Fatalf("%q: %d tokens, want %d", a, got, want)
		}
		valid := strings.ToValidUTF8(a, "\uFFFD")
		if before, after := TextTokens(valid), TextTokens(valid+b); after < before {
			t.Fatalf("%q: %d tokens, and %d with %q appended", valid, before, after, b)
		}
		if alone, joined := TextTokens(valid)+TextTokens(b), TextTokens(valid+b); joined > alone {
			t.Fatalf("%q and %q: %d tokens together, %d apart", valid, b, joined, alone)
		}
	})
}

// FuzzMessageCount: a stored message of any form is counted alike with and without the JSON of its blocks.
func FuzzMessageCount(f *testing.F) {
	f.Add([]byte(`{"role":"user","content":"hi"}`))
	f.Add([]byte(`{"role":"assistant","content":[{"type":"thinking","thinking":"\u0001\"","redacted":true},` +
		`{"type":"toolCall","id":"a","name":"b","arguments":{ "x" : "\ud800é" }}]}`))
	f.Add([]byte("{\"role\":\"toolResult\",\"toolCallId\":\"\xff\",\"toolName\":\"n\",\"content\":[{\"type\":\"text\",\"text\":\"\xff\"}]}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := message.Decode(raw)
		if err != nil {
			return
		}
		if got, want := MessageTokens(m), jsonTokens(m); got != want || got < MessageOverhead {
			t.Fatalf("%s: %d tokens, want %d", raw, got, want)
		}
	})
}
