package budget

import (
	"encoding/json"
	"math/bits"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/agentloop/agentloop/pkg/internal/jsonwalk"
)

// Words of eight equal bytes. ones*c repeats the byte c.
const (
	ones    = 0x0101010101010101
	sevens  = 0x7f * ones
	quotes  = '"' * ones
	slashes = '\\' * ones
)

// escapeQuarters is the cost of an ASCII character inside a JSON string: 1 as it is, 2 with a backslash, 6 as \u00XX.
var escapeQuarters = func() (cost [utf8.RuneSelf]uint8) {
	for c := range cost {
		cost[c] = 1
		if c < 0x20 {
			cost[c] = 6
		}
	}
	for _, c := range "\"\\\b\t\n\f\r" {
		cost[c] = 2
	}
	return cost
}()

// zeroBytes sets the top bit of each zero byte of w, whose bytes are all ASCII (so no sum carries into its neighbour).
func zeroBytes(w uint64) uint64 { return ^(w + sevens) & highBits }

// stringQuarters is quarters(s as a JSON string): the quotes, and each character as message.AppendString writes it.
func stringQuarters(s string) int64 {
	total := int64(len(`""`))
	for len(s) >= 8 {
		w := load8(s)
		if high := w & highBits; high != 0 {
			n := bits.TrailingZeros64(high) >> 3
			total += escaped(s[:n])
			var cost int64
			cost, s = wideRun(s[n:])
			total += cost
			continue
		}
		marks := zeroBytes(w^quotes) | zeroBytes(w^slashes)
		total += 8 + int64(bits.OnesCount64(marks))
		if control := ^(w + 0x60*ones) & highBits; control != 0 { // a sum with 0x60 reaches 0x80 from 0x20 on
			short := zeroBytes(w^'\n'*ones) | zeroBytes(w^'\t'*ones) | zeroBytes(w^'\r'*ones)
			if short == control {
				total += int64(bits.OnesCount64(control))
			} else {
				total += escaped(s[:8]) - 8 - int64(bits.OnesCount64(marks))
			}
		}
		s = s[8:]
	}
	for len(s) > 0 {
		if s[0] < utf8.RuneSelf {
			total += int64(escapeQuarters[s[0]])
			s = s[1:]
			continue
		}
		cost, size := wide(s)
		total += cost
		s = s[size:]
	}
	return total
}

// escaped is the cost of ASCII text inside a JSON string.
func escaped(s string) int64 {
	var total int64
	for i := range len(s) {
		total += int64(escapeQuarters[s[i]&0x7f])
	}
	return total
}

// rawQuarters is quarters(raw as message.AppendRaw writes it): compact JSON, {} for nothing, a string for what is not JSON.
func rawQuarters(raw json.RawMessage) int64 {
	if len(raw) == 0 {
		return int64(len(`{}`))
	}
	if !json.Valid(raw) {
		return stringQuarters(textOf(raw))
	}
	return compactQuarters(textOf(raw))
}

// compactQuarters is the cost of valid JSON without the spaces between its tokens.
func compactQuarters(s string) int64 {
	total := quarters(s)
	for len(s) > 0 {
		outside := strings.IndexByte(s, '"')
		if outside < 0 {
			outside = len(s)
		}
		for i := range outside {
			if s[i] <= ' ' {
				total--
			}
		}
		s = s[outside:]
		if s != "" {
			s = s[jsonwalk.StringEnd(s):]
		}
	}
	return total
}

// textOf views raw as a string without copying it. The view is only read and does not outlive the call it is made for.
func textOf(raw []byte) string { return unsafe.String(unsafe.SliceData(raw), len(raw)) } //nolint:gosec // read-only, and gone before raw can change
