package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
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
