package session

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agentloop/agentloop/pkg/message"
)

func TestTitleOf(t *testing.T) {
	said := func(text string) message.Message {
		return message.Message{Role: message.RoleAssistant, StopReason: message.StopStop, Content: message.Blocks(message.Block{Type: message.BlockText, Text: text})}
	}
	cut := said("Half a tit")
	cut.StopReason = message.StopLength
	cases := map[string]struct {
		answer message.Message
		want   string
	}{
		"a title":                       {said("Checkout errors after the release"), "Checkout errors after the release"},
		"in quotes, with a line before": {said("\n\n\"Checkout errors\"\nand more"), "Checkout errors"},
		"as a heading":                  {said("## **Checkout errors.**"), "Checkout errors"},
		"labelled":                      {said("Title: Checkout\terrors"), "Checkout errors"},
		"control characters":            {said("Check\x1b[31mout"), "Check [31mout"},
		"nothing but marks":             {said("\"\"\n**"), ""},
		"no text":                       {said(""), ""},
		"cut off":                       {cut, ""},
		"long":                          {said(strings.Repeat("a", 200)), strings.Repeat("a", 80)},
		"long in bytes":                 {said(strings.Repeat("中", 200)), strings.Repeat("中", 42)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := TitleOf(tc.answer)
			if got != tc.want || !utf8.ValidString(got) || len(got) > 128 {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
