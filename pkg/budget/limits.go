package budget

import (
	"encoding/json"
	"errors"
	"fmt"
)

// MaxTokenCount is the largest token count that is accepted anywhere: 2^53-1, which every JSON reader keeps exactly.
const MaxTokenCount = 1<<53 - 1

// ErrInvalid is returned when a capacity, cap or setting that a budget is made from is out of range or contradicts
// another one. The caller's configuration is wrong; the same call cannot succeed later.
var ErrInvalid = errors.New("invalid token limit")

// checkCount returns an error unless n is a positive safe integer.
func checkCount(name string, n int64) error {
	if n < 1 || n > MaxTokenCount {
		return fmt.Errorf("%w: %s must be a positive safe integer, not %d", ErrInvalid, name, n)
	}
	return nil
}

// parseCount reads a JSON number that is a positive safe integer written with digits alone. Fractions and exponents are
// refused even where their value is whole, for readers differ in what they make of them.
func parseCount(raw json.RawMessage) (n int64, ok bool) {
	if len(raw) == 0 || len(raw) > len("9007199254740991") || raw[0] == '0' {
		return 0, false
	}
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n <= MaxTokenCount
}
