package budget

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/message"
)

// TestScan pins what single pieces cost. How close the whole comes to real counts is measured on a corpus (test/bench).
func TestScan(t *testing.T) {
	cases := map[string]struct {
		text string
		want int64
	}{
		"nothing":                                  {"", 0},
		"a letter":                                 {"a", 1},
		"a word":                                   {"context", 2},
		"short words are about a token each":       {"the cat sat on the mat", 7},
		"a space belongs to the word behind it":    {" the", 2},
		"three digits are a token":                 {"123", 1},
		"four digits are two":                      {"1234", 2},
		"an indented line":                         {"\n\t\t\t", 2},
		"many spaces are one":                      {strings.Repeat(" ", 40), 1},
		"a thousand spaces are more":               {strings.Repeat(" ", 1000), 16},
		"a rule of equal signs":                    {strings.Repeat("=", 80), 2},
		"camel case is one per part":               {"getUserNameFromRequest", 6},
		"base64 is about two letters per token":    {"aGVsbG8gd29ybGQhIEhlbGxvIHdvcmxkISBIZWxsbyB3b3JsZCE", 32},
		"a digest":                                 {"3fa85f6457174562b3fc2c963f66afa6", 20},
		"Han characters are less than one each":    {"请阅读配置文件", 6},
		"a Cyrillic word":                          {"конфигурация", 3},
		"a word with marks":                        {"überprüfen", 3},
		"an emoji":                                 {"😀", 2},
		"an invalid byte is a character":           {"\xff", 1},
		"a special-token look-alike is plain text": {"<|endoftext|>", 4},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Scan.Text(tc.text); got != tc.want {
				t.Errorf("%d tokens, want %d", got, tc.want)
			}
		})
	}
}

// TestScanKnowsWhatTheHeuristicMisses: the texts for which it exists.
func TestScanKnowsWhatTheHeuristicMisses(t *testing.T) {
	base64 := strings.Repeat("aGVsbG8gd29ybGQhIEhlbGxvIHdvcmxkISBIZWxsbyB3b3JsZCE", 100)
	if scanned, quarter := Scan.Text(base64), TextTokens(base64); scanned < 2*quarter {
		t.Errorf("base64: %d tokens, the heuristic says %d", scanned, quarter)
	}
	chinese := strings.Repeat("请阅读配置文件并解释项目结构。", 100)
	if scanned, half := Scan.Text(chinese), TextTokens(chinese); scanned > half/2 {
		t.Errorf("Chinese: %d tokens, the heuristic says %d", scanned, half)
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	for name, text := range benchTexts() {
		t.Run(name, func(t *testing.T) {
			if n := testing.AllocsPerRun(10, func() { Scan.Text(text) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

// TestOtherEstimatorsCountTextsAsTheModelGetsThem: escapes of JSON are no part of a block's text for them.
func TestOtherEstimatorsCountTextsAsTheModelGetsThem(t *testing.T) {
	text := "line one\n\t\"line two\"\n"
	cases := map[string]struct {
		message message.Message
		want    int64
	}{
		"a text block": {message.Message{Role: message.RoleUser, Content: message.Blocks(message.Block{Type: message.BlockText, Text: text, TextSignature: "sig"})},
			MessageOverhead + BlockOverhead + Scan.Text(text) + Scan.Text("sig")},
		"a call": {message.Message{Role: message.RoleAssistant, Content: message.Blocks(message.Block{Type: message.BlockToolCall, ID: "c1", Name: "read", Arguments: []byte(`{"a":"\n"}`), ThoughtSignature: "s"})},
			MessageOverhead + BlockOverhead + Scan.Text("c1") + Scan.Text("read") + Scan.Text(`{"a":"\n"}`) + Scan.Text("s")},
		"thinking": {message.Message{Role: message.RoleAssistant, Content: message.Blocks(message.Block{Type: message.BlockThinking, Thinking: text, ThinkingSignature: "s"})},
			MessageOverhead + BlockOverhead + Scan.Text(text) + Scan.Text("s")},
		"an image": {message.Message{Role: message.RoleUser, Content: message.Blocks(message.Block{Type: message.BlockImage, Data: "AAAA"})},
			MessageOverhead + ImageTokens},
		"a result": {message.Message{Role: message.RoleToolResult, ToolName: "read", ToolCallID: "c1", Content: message.Blocks(message.Block{Type: message.BlockText, Text: text})},
			MessageOverhead + BlockOverhead + Scan.Text("read") + Scan.Text("c1") + Scan.Text(text)},
		"a string": {message.Message{Role: message.RoleUser, Content: message.Text(text)}, MessageOverhead + Scan.Text(text)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := MessageTokensWith(Scan, tc.message); got != tc.want {
				t.Errorf("%d tokens, want %d", got, tc.want)
			}
		})
	}
}

func FuzzScan(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 30 {
		f.Add(randomText(r))
	}
	for _, text := range benchTexts() {
		f.Add(text[:60])
	}
	f.Fuzz(func(t *testing.T, text string) {
		n := Scan.Text(text)
		if n < 0 || n > 2*int64(len(text)) || (n == 0) != (text == "") {
			t.Fatalf("%d tokens for %d bytes", n, len(text))
		}
		var sent strings.Builder
		for _, c := range text {
			sent.WriteRune(c)
		}
		if m := Scan.Text(sent.String()); m != n {
			t.Fatalf("%d tokens, as it is sent %d", n, m)
		}
	})
}
