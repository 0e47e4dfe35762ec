// Package frame keeps text that is put between tags from ending or imitating them.
//
// Guarantees: what comes back contains no tag of the given names; text without such a tag comes back as it is; nothing
// but the '<' of such tags is changed, so a reader still sees what stood there.
package frame

import (
	"strings"
	"unicode"
)

// EscapeClosing makes every closing tag of one of the names harmless, in any case and spacing, by writing &lt; for
// its '<'.
func EscapeClosing(text string, names ...string) string { return escape(text, true, names) }

// Escape does what EscapeClosing does for opening and closing tags.
func Escape(text string, names ...string) string { return escape(text, false, names) }

func escape(text string, closingOnly bool, names []string) string {
	var out strings.Builder
	done := 0
	for at := 0; ; {
		next := strings.IndexByte(text[at:], '<')
		if next < 0 {
			break
		}
		at += next
		if isTag(text[at+1:], closingOnly, names) {
			out.WriteString(text[done:at])
			out.WriteString("&lt;")
			done = at + 1
		}
		at++
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// isTag says whether rest, which follows a '<', reads as a tag of one of the names.
func isTag(rest string, closingOnly bool, names []string) bool {
	rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
	inner, closing := strings.CutPrefix(rest, "/")
	if !closing && closingOnly {
		return false
	}
	inner = strings.TrimLeftFunc(inner, unicode.IsSpace)
	for _, name := range names {
		if len(inner) >= len(name) && strings.EqualFold(inner[:len(name)], name) {
			return true
		}
	}
	return false
}
