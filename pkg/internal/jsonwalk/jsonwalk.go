// Package jsonwalk reads the outline of JSON text in place: the members of an object, the elements of an array, a string.
//
// Guarantees: nothing is decoded or copied that is not asked for; keys are compared as written after unescaping, so that
// "Name" is not "name"; members are visited in the order of the text, each occurrence of a key that is given twice
// included. The text must be valid JSON (json.Valid said so): on anything else the functions may panic. A Cursor takes
// anything, and checks what it reads.
package jsonwalk

import (
	"bytes"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// Object calls visit with each own member of a JSON object until visit returns an error, which it returns. The key is
// unescaped, the value is raw without spaces around it; both are only good during the call, the value as long as raw.
// ok is false when raw is another kind of value.
func Object(raw []byte, visit func(key, value []byte) error) (ok bool, err error) {
	i := skipSpace(raw, 0)
	if raw[i] != '{' {
		return false, nil
	}
	for i = skipSpace(raw, i+1); raw[i] != '}'; {
		if raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
		keyEnd := skipString(raw, i)
		key := raw[i+1 : keyEnd-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			key = []byte(String(raw[i:keyEnd]))
		}
		start := skipSpace(raw, skipSpace(raw, keyEnd)+1) // past the colon
		end := skipValue(raw, start)
		if err := visit(key, raw[start:end:end]); err != nil {
			return true, err
		}
		i = skipSpace(raw, end)
	}
	return true, nil
}

// Array calls visit with each element of a JSON array, as Object does for members.
func Array(raw []byte, visit func(value []byte) error) (ok bool, err error) {
	i := skipSpace(raw, 0)
	if raw[i] != '[' {
		return false, nil
	}
	for i = skipSpace(raw, i+1); raw[i] != ']'; {
		if raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
		end := skipValue(raw, i)
		if err := visit(raw[i:end:end]); err != nil {
			return true, err
		}
		i = skipSpace(raw, end)
	}
	return true, nil
}

// First returns the first byte of the value, which tells its kind: one of { [ " t f n - or a digit.
func First(raw []byte) byte { return raw[skipSpace(raw, 0)] }

// AppendCompact appends the value without the spaces between its tokens. Invalid UTF-8 in strings becomes U+FFFD, byte by
// byte; everything else is copied as written.
func AppendCompact(dst, raw []byte) []byte {
	start := 0
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			end := skipString(raw, i)
			if !utf8.Valid(raw[i:end]) {
				dst = appendValidUTF8(append(dst, raw[start:i]...), raw[i:end])
				start = end
			}
			i = end
		case c <= ' ':
			dst = append(dst, raw[start:i]...)
			i++
			start = i
		default:
			i++
		}
	}
	return append(dst, raw[start:]...)
}

func appendValidUTF8(dst, raw []byte) []byte {
	if utf8.Valid(raw) {
		return append(dst, raw...)
	}
	for _, r := range textOf(raw) { // ranging yields U+FFFD for each invalid byte
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

func skipSpace(raw []byte, i int) int {
	for i < len(raw) && raw[i] <= ' ' { // between tokens, valid JSON has no other control characters
		i++
	}
	return i
}

// StringEnd returns the length of the JSON string that s begins with, quotes included. A quote ends it unless an odd
// number of backslashes stands before the quote.
func StringEnd(s string) int {
	for i := 1; ; i++ {
		i += strings.IndexByte(s[i:], '"')
		slashes := 0
		for s[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

func skipString(raw []byte, i int) int { return i + StringEnd(textOf(raw[i:])) }

// textOf views raw as a string without copying it. The view is only read and does not outlive the call it is made for.
func textOf(raw []byte) string { return unsafe.String(unsafe.SliceData(raw), len(raw)) } //nolint:gosec // read only, and gone before raw can change

func skipValue(raw []byte, i int) int {
	for depth := 0; ; {
		switch raw[i] {
		case '"':
			i = skipString(raw, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			i++
		}
		if depth == 0 && (i == len(raw) || endsValue(raw[i])) {
			return i
		}
	}
}

func endsValue(c byte) bool { return c <= ' ' || c == ',' || c == '}' || c == ']' }
