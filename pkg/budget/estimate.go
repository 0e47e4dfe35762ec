package budget

import (
	"math/bits"
	"unicode/utf8"
)

// Estimator estimates how many tokens a model's tokenizer makes of a text.
type Estimator interface {
	// Name identifies the estimator, and every setting that changes its answers, in records and caches.
	Name() string
	// Text returns the estimate for s: never negative, 0 for the empty string, the same for the same s. Invalid UTF-8
	// counts as U+FFFD, which is what the request carries.
	Text(s string) int64
}

// Heuristic is the default estimator: a quarter token for each ASCII character, half the UTF-8 length (rounded up) for
// each other one, and the sum rounded up once per text. It reads each text once and allocates nothing.
var Heuristic Estimator = heuristic{}

type heuristic struct{}

func (heuristic) Name() string        { return "heuristic" }
func (heuristic) Text(s string) int64 { return TextTokens(s) }

// TextTokens is the heuristic estimate of a text.
func TextTokens(s string) int64 { return roundUp(quarters(s)) }

// Costs in quarter tokens of the characters outside ASCII, by UTF-8 length: ceil(2/2) tokens and ceil(3/2) = ceil(4/2)
// tokens. An invalid byte is sent as U+FFFD, three bytes long.
const (
	cost2     = 4
	costOther = 8
)

func roundUp(quarters int64) int64 { return (quarters + 3) / 4 }

// highBits has the top bit of each byte: set in a word of eight bytes wherever a byte is not ASCII.
const highBits = 0x8080808080808080

// load8 returns the first eight bytes of s, lowest address lowest; s has at least eight. The compiler makes one load.
func load8(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// quarters returns the cost of s in quarter tokens. ASCII costs one for each byte, so whole words of it are skipped.
func quarters(s string) int64 {
	var total int64
	for len(s) > 0 {
		n := asciiPrefix(s)
		total += int64(n)
		var cost int64
		cost, s = wideRun(s[n:])
		total += cost
	}
	return total
}

// asciiPrefix returns how many bytes of s come before the first that is not ASCII.
func asciiPrefix(s string) int {
	n := 0
	for len(s)-n >= 32 {
		block := s[n : n+32]
		if (load8(block)|load8(block[8:])|load8(block[16:])|load8(block[24:]))&highBits != 0 {
			break
		}
		n += 32
	}
	for len(s)-n >= 8 {
		if high := load8(s[n:]) & highBits; high != 0 {
			return n + bits.TrailingZeros64(high)>>3
		}
		n += 8
	}
	for n < len(s) && s[n] < utf8.RuneSelf {
		n++
	}
	return n
}

// wideRun returns the cost of the characters outside ASCII that s begins with, and the rest of s.
func wideRun(s string) (cost int64, rest string) {
	for len(s) > 0 && s[0] >= utf8.RuneSelf {
		c, size := wide(s)
		cost += c
		s = s[size:]
	}
	return cost, s
}

// wide returns the cost in quarters and the length of the character that s begins with; its first byte is not ASCII.
// The common forms are tested here, the rare and the invalid ones by the standard library.
func wide(s string) (cost int64, size int) {
	first := s[0]
	if len(s) >= 3 && s[1]&0xC0 == 0x80 {
		if first >= 0xC2 && first <= 0xDF {
			return cost2, 2
		}
		if first >= 0xE1 && first <= 0xEC && s[2]&0xC0 == 0x80 {
			return costOther, 3
		}
	}
	if _, size = utf8.DecodeRuneInString(s); size == 2 {
		return cost2, size
	}
	return costOther, size
}
