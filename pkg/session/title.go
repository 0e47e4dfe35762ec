package session

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentloop/agentloop/pkg/message"
)

// The bounds of a title: what a line of a list shows, and what a status holds.
const (
	maxTitleRunes = 80
	maxTitleBytes = 128
)

// TitleOf returns the title that a model's answer gives: its first line that has words, without the marks that models
// like to put around it, at most 80 characters and 128 bytes. It is empty when the answer is not complete or has none.
func TitleOf(answer message.Message) string {
	if answer.StopReason != message.StopStop || len(answer.ToolCalls()) > 0 {
		return ""
	}
	for line := range strings.Lines(answer.PlainText()) {
		line = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, line)
		line = strings.TrimFunc(line, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`*#_“”„«».:", r) })
		line = strings.Join(strings.Fields(strings.TrimPrefix(line, "Title: ")), " ")
		if line != "" {
			return cutTitle(line)
		}
	}
	return ""
}

func cutTitle(line string) string {
	runes := 0
	for at, r := range line {
		if runes == maxTitleRunes || at+utf8.RuneLen(r) > maxTitleBytes {
			return strings.TrimSpace(line[:at])
		}
		runes++
	}
	return line
}
