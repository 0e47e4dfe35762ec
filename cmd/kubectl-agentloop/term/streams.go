// Package term writes for people: in colour on a terminal, plainly elsewhere.
//
// Guarantees: results go to Out and everything else to Err, so that results can be piped; colours appear only on a terminal
// that wants them; what models, tools and other people wrote never reaches a terminal as control characters.
package term

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Streams are the standard streams of the program, and what is known of them.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// InTerminal, OutTerminal and ErrTerminal say which of them are terminals.
	InTerminal, OutTerminal, ErrTerminal bool
	// Colour says whether terminals are written to in colour.
	Colour bool
}

// Paint colours what is written to Out.
func (s *Streams) Paint() Paint { return Paint{on: s.Colour && s.OutTerminal} }

// ErrPaint colours what is written to Err.
func (s *Streams) ErrPaint() Paint { return Paint{on: s.Colour && s.ErrTerminal} }

// Note writes a line about what is going on.
func (s *Streams) Note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.ErrTerminal {
		text = clean(text, s.Colour)
	}
	fmt.Fprintln(s.Err, text) // nothing is left to report a failure to
}

// Safe is a text as it may be written to Out: on a terminal without control characters.
func (s *Streams) Safe(text string) string {
	if !s.OutTerminal {
		return text
	}
	return Clean(text)
}

// Clean replaces control characters, but for line ends and tabs, by the signs that stand for them.
func Clean(text string) string { return clean(text, false) }

// clean leaves our own colours alone when there are any.
func clean(text string, colours bool) string {
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	var out strings.Builder
	for i, r := range text {
		switch {
		case colours && r == escape && isColour(text[i:]):
			out.WriteRune(r)
		case !hidden(r):
			out.WriteRune(r)
		case r < 0x20:
			out.WriteRune(0x2400 + r)
		default:
			out.WriteRune(unicode.ReplacementChar)
		}
	}
	return out.String()
}

// hidden says whether a character changes what a terminal does or shows: control characters, and those that turn the
// direction of writing around.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20 || r >= 0x7f && r < 0xa0:
		return true
	}
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

const escape = 0x1b

// isColour says whether a text begins with a colour that Paint makes.
func isColour(text string) bool {
	for _, code := range codes {
		if strings.HasPrefix(text, code) {
			return true
		}
	}
	return strings.HasPrefix(text, reset)
}

// Shown is a text with our own colours as it may be written to Out.
func (s *Streams) Shown(text string) string {
	if !s.OutTerminal {
		return text
	}
	return clean(text, s.Colour)
}
