package modelserver

import "unicode/utf8"

// Token costs that do not come from text.
const (
	tokensPerMessage = 4
	tokensPerImage   = 1500
	tokensPerTool    = 8
	wordPiece        = 6 // ASCII letters in one token of a long word
	digitPiece       = 3
)

// CountTokens is the server's tokenizer: words in pieces of six letters, digits in threes, each punctuation mark and
// line break by itself, a space with the word after it, one token for two bytes of any other script. It is deterministic
// and of the right order of magnitude; it is no provider's own count.
func CountTokens(s string) int64 {
	var n int64
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case isLetter(c):
			j := i + 1
			for j < len(s) && isLetter(s[j]) {
				j++
			}
			n += pieces(j-i, wordPiece)
			i = j
		case c >= '0' && c <= '9':
			j := i + 1
			for j < len(s) && s[j] >= '0' && s[j] <= '9' {
				j++
			}
			n += pieces(j-i, digitPiece)
			i = j
		case c == ' ':
			j := i + 1
			for j < len(s) && s[j] == ' ' {
				j++
			}
			if j-i > 1 || j == len(s) {
				n++
			}
			i = j
		case c < utf8.RuneSelf:
			n++
			i++
		default:
			_, size := utf8.DecodeRuneInString(s[i:])
			n += pieces(size, 2)
			i += size
		}
	}
	return n
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }

func pieces(length, piece int) int64 { return int64((length + piece - 1) / piece) }

// countText counts a text as the model's script says.
func (m *model) countText(s string) int64 {
	if m.script.Tokenizer == TokenizerO200k {
		return vocabulary.count(s)
	}
	return CountTokens(s)
}

// tokens counts a text of the request.
func (c *call) tokens(s string) int64 { return c.model.countText(s) }

// valueTokens counts a decoded JSON value of the request: part by part, or as the JSON that a vocabulary would see.
func (c *call) valueTokens(v any) int64 {
	if c.model.script.Tokenizer != TokenizerO200k {
		return countValue(v)
	}
	if text, is := v.(string); is {
		return c.tokens(text)
	}
	return c.tokens(string(encode(v)))
}

// countValue counts a decoded JSON value with its keys and punctuation.
func countValue(v any) int64 {
	switch v := v.(type) {
	case string:
		return CountTokens(v) + 1
	case object:
		n := int64(1)
		for key, value := range v {
			n += CountTokens(key) + 1 + countValue(value)
		}
		return n
	case []any:
		n := int64(1)
		for _, item := range v {
			n += countValue(item)
		}
		return n
	}
	return 1
}
