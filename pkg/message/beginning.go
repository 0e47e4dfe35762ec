package message

import "unicode/utf8"

// Beginning is the longest beginning of a text that has at most limit bytes and ends between two characters; empty for a
// limit below one.
func Beginning(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := max(0, limit)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
