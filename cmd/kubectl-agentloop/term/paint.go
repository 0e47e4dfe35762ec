package term

import "strings"

// Colour is how a word is shown.
type Colour int

// The colours, by what they say.
const (
	Plain Colour = iota
	Strong
	Faint
	Good
	Bad
	Attention
	Link
)

const reset = "\x1b[0m"

var codes = map[Colour]string{
	Strong: "\x1b[1m", Faint: "\x1b[2m", Good: "\x1b[32m", Bad: "\x1b[31m", Attention: "\x1b[33m", Link: "\x1b[36m",
}

// Paint puts words into colours, or leaves them as they are.
type Paint struct{ on bool }

// As is a text in a colour.
func (p Paint) As(colour Colour, text string) string {
	code := codes[colour]
	if !p.on || code == "" || text == "" {
		return text
	}
	return code + text + reset
}

// Bar shows how much of a whole is full, in a width of characters.
func (p Paint) Bar(percent, width int) string {
	full := min(max(percent, 0), 100) * width / 100
	colour := Good
	switch {
	case percent >= 90:
		colour = Bad
	case percent >= 70:
		colour = Attention
	}
	return "[" + p.As(colour, strings.Repeat("#", full)) + strings.Repeat("-", width-full) + "]"
}
