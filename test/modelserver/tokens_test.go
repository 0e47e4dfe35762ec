package modelserver

import (
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
