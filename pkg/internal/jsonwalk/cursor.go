package jsonwalk

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

// maxNested is how deep a value may be nested that a Cursor passes over.
const maxNested = 512

// Cursor reads JSON text once from its beginning to its end and checks it on the way: unlike the functions of this
// package it may be given anything. Whoever reads a value, and then End says yes, has read what json.Valid accepts. Text
// that json.Valid accepts is refused when a key is escaped or not ASCII, or when it is nested deeper than maxNested.
//
// Where the text is not what a method reads, the cursor fails: all that it returns from then on is empty and false.
type Cursor struct {
	raw []byte
	at  int
	// first says that an object or array was entered and nothing in it was read.
	first  bool
	failed bool
}

// Over returns a cursor at the beginning of raw.
func Over(raw []byte) Cursor { return Cursor{raw: raw} }

// Fail makes the cursor fail: what it has read is not what its user wants.
func (c *Cursor) Fail() { c.failed = true }

// End says whether everything was read, and all of it was in order.
func (c *Cursor) End() bool {
	c.space()
	return !c.failed && c.at == len(c.raw)
}

// Object enters an object. Read one value after each Member, until there is none.
func (c *Cursor) Object() bool {
	c.first = c.take('{')
	return c.first
}

// Member goes to the value of the object's next member and returns its key as it is written. It returns false at the
// end of the object, which it leaves.
func (c *Cursor) Member() ([]byte, bool) {
	first := c.first
	c.first = false
	switch {
	case c.peek() == '}':
		c.at++
		return nil, false
	case !first && !c.take(','):
		return nil, false
	}
	quoted, plain := c.Text()
	if !plain || !c.take(':') {
		c.failed = true
		return nil, false
	}
	return quoted[1 : len(quoted)-1], true
}

// Array enters an array. Read one value after each Element, until there is none.
func (c *Cursor) Array() bool {
	c.first = c.take('[')
	return c.first
}

// Element goes to the array's next element. It returns false at the end of the array, which it leaves.
func (c *Cursor) Element() bool {
	first := c.first
	c.first = false
	if c.peek() == ']' {
		c.at++
		return false
	}
	return first && !c.failed || c.take(',')
}

// Text reads a string and returns it as it is written, quotes included. plain says that nothing in it is escaped or
// outside of ASCII.
func (c *Cursor) Text() (quoted []byte, plain bool) {
	if c.peek() != '"' {
		c.failed = true
		return nil, false
	}
	begin := c.at
	end, plain := stringEnd(c.raw, begin+1)
	if end < 0 {
		c.failed = true
		return nil, false
	}
	c.at = end
	return c.raw[begin:end:end], plain
}

// Int reads a whole number that is written without a point or an exponent.
func (c *Cursor) Int() (int64, bool) {
	c.space()
	begin := c.at
	if c.number() {
		if n, err := strconv.ParseInt(textOf(c.raw[begin:c.at]), 10, 64); err == nil {
			return n, true
		}
	}
	c.failed = true
	return 0, false
}

// Bool reads true or false.
func (c *Cursor) Bool() (value, ok bool) {
	switch c.peek() {
	case 't':
		return true, c.word("true")
	case 'f':
		return false, c.word("false")
	}
	c.failed = true
	return false, false
}

// Value reads any value and returns it as it is written.
func (c *Cursor) Value() []byte {
	c.space()
	begin := c.at
	if !c.value(0) {
		c.failed = true
		return nil
	}
	return c.raw[begin:c.at:c.at]
}

// Plain views the text of a string that Text said is plain. It is good as long as the string does not change.
func Plain(quoted []byte) string { return textOf(quoted[1 : len(quoted)-1]) }

// View is raw as a string that is good as long as raw does not change.
func View(raw []byte) string { return textOf(raw) }

func (c *Cursor) space() {
	for c.at < len(c.raw) {
		switch c.raw[c.at] {
		case ' ', '\t', '\r', '\n':
			c.at++
		default:
			return
		}
	}
}

// peek returns the first byte of what comes; 0 when there is nothing.
func (c *Cursor) peek() byte {
	c.space()
	if c.failed || c.at == len(c.raw) {
		return 0
	}
	return c.raw[c.at]
}

// take passes over one byte, which must come.
func (c *Cursor) take(b byte) bool {
	if c.peek() != b {
		c.failed = true
		return false
	}
	c.at++
	return true
}

func (c *Cursor) word(w string) bool {
	if rest := c.raw[c.at:]; len(rest) < len(w) || string(rest[:len(w)]) != w {
		c.failed = true
		return false
	}
	c.at += len(w)
	return true
}

// value passes over a value that is within depth others.
func (c *Cursor) value(depth int) bool {
	switch b := c.peek(); b {
	case '"':
		end, _ := stringEnd(c.raw, c.at+1)
		c.at = max(c.at, end)
		return end >= 0
	case '{', '[':
		return depth < maxNested && c.elements(b, depth+1)
	case 't':
		return c.word("true")
	case 'f':
		return c.word("false")
	case 'n':
		return c.word("null")
	}
	return c.number()
}

// elements passes over an object or an array.
func (c *Cursor) elements(open byte, depth int) bool {
	c.at++
	closing := open + 2 // both in ASCII
	if c.peek() == closing {
		c.at++
		return true
	}
	for {
		if open == '{' && (c.peek() != '"' || !c.value(depth) || !c.take(':')) {
			return false
		}
		if !c.value(depth) {
			return false
		}
		switch c.peek() {
		case ',':
			c.at++
		case closing:
			c.at++
			return true
		default:
			return false
		}
	}
}

// number passes over a number. What may follow one is for the next step to say.
func (c *Cursor) number() bool {
	if c.peek() == '-' {
		c.at++
	}
	if c.failed {
		return false
	}
	if c.at < len(c.raw) && c.raw[c.at] == '0' {
		c.at++
	} else if !c.digits() {
		return false
	}
	if c.at < len(c.raw) && c.raw[c.at] == '.' {
		c.at++
		if !c.digits() {
			return false
		}
	}
	if c.at < len(c.raw) && c.raw[c.at]|0x20 == 'e' {
		c.at++
		if c.at < len(c.raw) && (c.raw[c.at] == '+' || c.raw[c.at] == '-') {
			c.at++
		}
		return c.digits()
	}
	return true
}

func (c *Cursor) digits() bool {
	begin := c.at
	for c.at < len(c.raw) && c.raw[c.at] >= '0' && c.raw[c.at] <= '9' {
		c.at++
	}
	return c.at > begin
}

// stringEnd returns the position behind the string whose text begins at i, below 0 when it is none, and whether the text
// has no escapes and nothing outside of ASCII.
func stringEnd(raw []byte, i int) (end int, plain bool) {
	plain = true
	for i < len(raw) {
		if i+8 <= len(raw) {
			found := unusual(binary.LittleEndian.Uint64(raw[i:]))
			if found == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(found) / 8
		}
		switch b := raw[i]; {
		case b == '"':
			return i + 1, plain
		case b == '\\':
			n := escapeLength(raw[i:])
			if n == 0 {
				return -1, false
			}
			i, plain = i+n, false
		case b < ' ':
			return -1, false
		case b >= 0x80:
			i, plain = i+1, false
		default:
			i++
		}
	}
	return -1, false
}

// unusual marks the bytes that are no ordinary text of a string: those below a space, above ASCII, quotes and
// backslashes. The lowest mark is right; ones above it may be wrong.
func unusual(eight uint64) uint64 {
	const ones = 0x0101010101010101
	return (eight | (eight - ones*' ') | ((eight ^ ones*'"') - ones) | ((eight ^ ones*'\\') - ones)) & (ones * 0x80)
}

// escapeLength returns how long the escape is that raw begins with; 0 when it is none.
func escapeLength(raw []byte) int {
	if len(raw) < 2 {
		return 0
	}
	switch raw[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(raw) < 6 {
			return 0
		}
		for _, d := range raw[2:6] {
			if (d < '0' || d > '9') && (d|0x20 < 'a' || d|0x20 > 'f') {
				return 0
			}
		}
		return 6
	}
	return 0
}
