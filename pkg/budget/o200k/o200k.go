// Package o200k counts tokens with OpenAI's o200k vocabulary, behind the estimator port of pkg/budget.
//
// Guarantees: counts are those of the vocabulary, special-token look-alikes counted as plain text, and an estimate only
// in that other models have other vocabularies; the vocabulary is part of the program and made ready once, at the first
// use; an Estimator may be used by several goroutines.
package o200k

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer"

	"github.com/agentloop/agentloop/pkg/budget"
)

// Name is the estimator's name in records and settings.
const Name = "o200k"

// New returns the estimator.
func New() budget.Estimator { return estimator{} }

type estimator struct{}

// codec makes the vocabulary ready, which takes some tens of milliseconds and megabytes.
var codec = sync.OnceValues(func() (tokenizer.Codec, error) { return tokenizer.Get(tokenizer.O200kBase) })

func (estimator) Name() string { return Name }

// Text counts the tokens of s. Where the vocabulary cannot be used, it answers as budget.Heuristic does.
func (estimator) Text(s string) int64 {
	if s == "" {
		return 0
	}
	counter, err := codec()
	if err != nil {
		return budget.TextTokens(s)
	}
	n, err := counter.Count(valid(s))
	if err != nil || n < 0 {
		return budget.TextTokens(s)
	}
	return int64(n)
}

// valid puts U+FFFD in the place of each invalid byte, as requests carry it.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		out.WriteRune(r)
	}
	return out.String()
}
