package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// screen is what the user reads: steps with the time since the start, and what belongs to them indented.
type screen struct {
	out   io.Writer
	begun time.Time
}

func newScreen(out io.Writer) *screen { return &screen{out: out, begun: time.Now()} }

// margin is the width of the column with the time.
const margin = "           "

// step prints one line with the time.
func (s *screen) step(format string, args ...any) {
	fmt.Fprintf(s.out, "[%6.1f s] %s\n", time.Since(s.begun).Seconds(), fmt.Sprintf(format, args...))
}

// say prints lines that belong to the step before.
func (s *screen) say(format string, args ...any) {
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		fmt.Fprintln(s.out, strings.TrimRight(margin+strings.TrimRight(line, "\n"), " "))
	}
}

// title begins a part.
func (s *screen) title(text string) {
	fmt.Fprintf(s.out, "\n%s\n%s\n\n", text, strings.Repeat("─", len([]rune(text))))
}

// wrap breaks a text into lines of at most width characters.
func wrap(text string, width int) string {
	var b strings.Builder
	length := 0
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case length == 0:
		case length+1+n > width:
			b.WriteByte('\n')
			length = 0
		default:
			b.WriteByte(' ')
			length++
		}
		b.WriteString(word)
		length += n
	}
	return b.String()
}
