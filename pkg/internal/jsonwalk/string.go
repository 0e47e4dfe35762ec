package jsonwalk

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// String decodes a JSON string, quotes included, as encoding/json does: invalid UTF-8 and lone surrogates become U+FFFD.
func String(raw []byte) string {
	rest := raw[1 : len(raw)-1]
	if bytes.IndexByte(rest, '\\') < 0 && utf8.Valid(rest) {
		return string(rest)
	}
	return textOf(AppendString(make([]byte, 0, len(rest)), raw)) // nobody else holds these bytes
}

// AppendString appends what String returns.
func AppendString(dst, raw []byte) []byte {
	rest := raw[1 : len(raw)-1]
	for escape := bytes.IndexByte(rest, '\\'); escape >= 0; escape = bytes.IndexByte(rest, '\\') {
		dst = appendValidUTF8(dst, rest[:escape])
		dst, rest = appendUnescaped(dst, rest[escape+1:])
	}
	return appendValidUTF8(dst, rest)
}

// appendUnescaped appends what the escape stands for whose text after the backslash s begins with; rest comes after it.
func appendUnescaped(dst, s []byte) (out, rest []byte) {
	c := s[0]
	switch c {
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		r, n := codePoint(s)
		return utf8.AppendRune(dst, r), s[n:]
	}
	return append(dst, c), s[1:]
}

// codePoint reads uXXXX, or uXXXX\uXXXX when the two are a surrogate pair, and returns how long it is. Surrogates that
// are no pair come out as U+FFFD when they are appended as a rune.
func codePoint(s []byte) (r rune, n int) {
	r = hex4(s[1:])
	if utf16.IsSurrogate(r) && len(s) >= 11 && s[5] == '\\' && s[6] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(s[7:])); pair != utf8.RuneError {
			return pair, 11
		}
	}
	return r, 5
}

func hex4(s []byte) (r rune) {
	for _, c := range s[:4] {
		switch {
		case c >= 'a':
			c -= 'a' - 10
		case c >= 'A':
			c -= 'A' - 10
		default:
			c -= '0'
		}
		r = r<<4 | rune(c)
	}
	return r
}
