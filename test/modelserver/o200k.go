package modelserver

import (
	"strings"
	"sync"

	"github.com/tiktoken-go/tokenizer"
)

// vocabularyCounter counts with a vocabulary. Conversations bring the same texts again with every request, so long ones
// are remembered.
type vocabularyCounter struct {
	codec func() (tokenizer.Codec, error)

	mu    sync.Mutex
	known map[string]int64
	held  int // bytes of the texts in known
}

const (
	// rememberFrom is the length of text from which looking it up is cheaper than counting it.
	rememberFrom = 64
	// maxHeld bounds the remembered texts, in bytes; beyond it the memory starts anew.
	maxHeld = 64 << 20
)

// vocabulary is made ready at its first use, which takes some tens of milliseconds and megabytes.
var vocabulary = &vocabularyCounter{
	codec: sync.OnceValues(func() (tokenizer.Codec, error) { return tokenizer.Get(tokenizer.O200kBase) }),
	known: map[string]int64{},
}

// count returns the tokens of s; markers such as <|endoftext|> are plain text, as in any user's text.
func (v *vocabularyCounter) count(s string) int64 {
	if s == "" {
		return 0
	}
	v.mu.Lock()
	n, ok := v.known[s]
	v.mu.Unlock()
	if ok {
		return n
	}
	n = v.encode(s)
	if len(s) < rememberFrom {
		return n
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held += len(s); v.held > maxHeld {
		clear(v.known)
		v.held = len(s)
	}
	v.known[strings.Clone(s)] = n
	return n
}

func (v *vocabularyCounter) encode(s string) int64 {
	codec, err := v.codec()
	if err != nil {
		panic("modelserver: the o200k vocabulary is part of the program: " + err.Error())
	}
	n, err := codec.Count(strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		panic("modelserver: count tokens: " + err.Error())
	}
	return int64(n)
}
