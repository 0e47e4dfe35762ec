package modelserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestCountTokens(t *testing.T) {
	for text, want := range map[string]int64{
		"":                         0,
		"hi":                       1,
		"hello world":              2,
		"straightforward":          3,
		"a  b":                     3,
		"end ":                     2,
		"12345":                    2,
		"x = y[0];\n":              8,
		"é":                        1,
		"中文":                       4,
		"😀":                        2,
		"\xff":                     1,
		"snake_case":               2,
		strings.Repeat("a", 60000): 10000,
	} {
		if got := CountTokens(text); got != want {
			t.Errorf("%.20q: %d, want %d", text, got, want)
		}
	}
}

// Tools and images are part of the input.
func TestInputTokens(t *testing.T) {
	c := start(t, plain)
	count := func(extra ...string) int64 {
		body := `{"model":"m","messages":[` + userHi + `]` + fields(extra) + `}`
		n, _ := integer(c.post("/v1/messages/count_tokens", body).object(t), "input_tokens")
		return n
	}
	base, withTools := count(), count(`"tools":[`+toolF+`]`)
	if base != 5 || withTools <= base+tokensPerTool {
		t.Errorf("%d tokens, with a tool %d", base, withTools)
	}
	body := `{"model":"m","messages":[` + user(image(pngPixel)) + `]}`
	if n, _ := integer(c.post("/v1/messages/count_tokens", body).object(t), "input_tokens"); n != tokensPerImage+tokensPerMessage {
		t.Errorf("an image has %d tokens", n)
	}
}

// TestVocabularyCountsWhatIsOnTheWire: a model that counts with the o200k vocabulary reports the tokens of the texts that
// it was sent, in each protocol, and refuses what leaves no room for the declared answer.
func TestVocabularyCountsWhatIsOnTheWire(t *testing.T) {
	const text = "Straßenbahnhaltestelle 配置文件 aGVsbG8gd29ybGQ= if err != nil { return err }"
	want := vocabulary.count(text) + tokensPerMessage
	if n := vocabulary.count("hello world"); n != 2 {
		t.Fatalf("hello world has %d tokens", n)
	}
	if own := CountTokens(text) + tokensPerMessage; own == want {
		t.Fatalf("both counters say %d", own)
	}
	script := fmt.Sprintf("{model: m, tokenizer: o200k, window: %d, windowIncludesOutput: true, replies: [{content: [{text: ok}], repeat: true}]}", want+100)
	cases := map[string]struct {
		path, body, usage, field string
	}{
		"Anthropic": {"/v1/messages", `{"model":"m","max_tokens":%d,"messages":[{"role":"user","content":"%s"}]}`, "usage", "input_tokens"},
		"Chat":      {"/v1/chat/completions", `{"model":"m","max_completion_tokens":%d,"messages":[{"role":"user","content":"%s"}]}`, "usage", "prompt_tokens"},
		"Responses": {"/v1/responses", `{"model":"m","store":false,"max_output_tokens":%d,"input":"%s"}`, "usage", "input_tokens"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := start(t, script)
			fits := c.post(tc.path, fmt.Sprintf(tc.body, 100, text))
			if n, _ := integer(obj(fits.object(t), tc.usage), tc.field); fits.status != http.StatusOK || n != want {
				t.Errorf("status %d, %d tokens, want %d", fits.status, n, want)
			}
			if over := c.post(tc.path, fmt.Sprintf(tc.body, 101, text)); over.status != http.StatusBadRequest {
				t.Errorf("one token too many: status %d", over.status)
			}
		})
	}
}

// TestVocabularyCountsSchemasAsJSON: tools are counted as the JSON that a vocabulary sees.
func TestVocabularyCountsSchemasAsJSON(t *testing.T) {
	c := newCall(newModel(Script{Model: "m", Tokenizer: TokenizerO200k}))
	if got, want := c.valueTokens(object{"type": "object"}), vocabulary.count(`{"type":"object"}`); got != want {
		t.Errorf("%d tokens, want %d", got, want)
	}
}

// TestVocabularyForgets: what is remembered is bounded, and counts stay the same.
func TestVocabularyForgets(t *testing.T) {
	v := &vocabularyCounter{codec: vocabulary.codec, known: map[string]int64{}, held: maxHeld}
	text := strings.Repeat("word ", 100)
	first := v.count(text)
	if len(v.known) != 1 || v.held != len(text) || v.count(text) != first {
		t.Errorf("%d texts of %d bytes are held", len(v.known), v.held)
	}
}

func FuzzCountTokens(f *testing.F) {
	f.Add("hello 世界 \xff 123")
	f.Fuzz(func(t *testing.T, s string) {
		n := CountTokens(s)
		if n < 0 || n > int64(len(s)) || s != "" && n == 0 && strings.TrimLeft(s, " ") != "" {
			t.Errorf("%q has %d tokens", s, n)
		}
	})
}

func BenchmarkCountTokens(b *testing.B) {
	text := strings.Repeat("The quick brown fox (42) jumps über den Zaun.\n", 2000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		CountTokens(text)
	}
}
