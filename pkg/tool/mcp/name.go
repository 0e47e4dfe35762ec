package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
)

const (
	// maxToolName is the longest tool name that every model provider accepts.
	maxToolName = 64
	// hashDigits is the length of the suffix that keeps shortened or altered names apart.
	hashDigits = 8
	separator  = "__"
)

// ToolName is the name under which a model sees a server's tool. It depends on the two names alone, whatever other
// tools there are. Names that had to be altered, and names of servers with '_' in theirs, get a suffix from the hash
// of both originals; all others are exactly server__tool, which splits at its first "__" in one way only.
func ToolName(server, toolName string) string {
	plainServer, okServer := sanitise(server)
	plainTool, okTool := sanitise(toolName)
	name := plainServer + separator + plainTool
	if okServer && okTool && len(name) <= maxToolName && !strings.Contains(server, "_") {
		return name
	}
	sum := sha256.Sum256([]byte(server + "\x00" + toolName))
	suffix := "_" + hex.EncodeToString(sum[:])[:hashDigits]
	return name[:min(len(name), maxToolName-len(suffix))] + suffix
}

// The joiners are the only invisible characters that words are written with.
const nonJoiner, joiner = '\u200c', '\u200d'

// visible takes out of a description what a person who reads it would not see and a model would: control characters,
// marks that turn the direction of text, and letters without a shape.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == joiner, r == nonJoiner:
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, s)
}

// sanitise replaces what providers do not accept in names, and says whether there was nothing to replace.
func sanitise(s string) (string, bool) {
	same := true
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		same = false
		return '_'
	}, s), same
}
