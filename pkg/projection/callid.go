package projection

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/agentloop/agentloop/pkg/provider"
)

// idRule is what a protocol accepts as a tool call id.
type idRule struct {
	max int
	// strict limits the characters to letters, digits, '_' and '-'; exact means exactly max letters and digits.
	strict, exact bool
}

// The limits that the protocols' own errors state. Chat allows fewer characters than Responses.
const (
	maxAnthropicID = 64
	maxResponsesID = 64
	maxChatID      = 40
	mistralID      = 9
)

// mistralFamilies are the words by which model ids of that vendor are known behind any gateway.
var mistralFamilies = []string{"mistral", "mixtral", "ministral", "magistral", "codestral", "devstral", "pixtral"}

func ruleFor(m provider.Model) idRule {
	switch m.API {
	case provider.APIOpenAIResponses:
		return idRule{max: maxResponsesID}
	case provider.APIOpenAIChat:
		if isMistral(m) {
			return idRule{max: mistralID, exact: true}
		}
		return idRule{max: maxChatID}
	}
	return idRule{max: maxAnthropicID, strict: true} // an unknown protocol gets the strictest characters
}

func isMistral(m provider.Model) bool {
	name := strings.ToLower(m.Provider + "/" + m.ID)
	for _, family := range mistralFamilies {
		if strings.Contains(name, family) {
			return true
		}
	}
	return false
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func (r idRule) accepts(id string) bool {
	if r.exact && len(id) != r.max {
		return false
	}
	if id == "" || len(id) > r.max {
		return false
	}
	if !r.strict && !r.exact {
		return strings.ToValidUTF8(id, "") == id
	}
	for i := range len(id) {
		if !isAlnum(id[i]) && (r.exact || id[i] != '_' && id[i] != '-') {
			return false
		}
	}
	return true
}

// clean replaces every character outside the strict set, or leaves it out where only letters and digits count.
func (r idRule) clean(id string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c < 0x80 && isAlnum(byte(c)):
			return c
		case r.exact:
			return -1
		case c == '-':
			return c
		}
		return '_'
	}, id)
}

// hashDigits is how many hex digits of the hash end a rewritten id; longest clean id plus '_' plus these fit every rule.
const hashDigits = 8

// candidate returns the n-th choice for an id that is not taken as it is: the id, then its clean form, then clean forms
// that end in a hash of the id and n. It depends on nothing else, so an id is rewritten in the same way every time.
func (r idRule) candidate(id string, n int) string {
	if n == 0 && r.accepts(id) {
		return id
	}
	clean := r.clean(id)
	if n == 0 && r.accepts(clean) {
		return clean
	}
	sum := sha256.Sum256([]byte(strconv.Itoa(n) + "\x00" + id))
	if r.exact {
		return alnumDigits(sum[:r.max])
	}
	if clean == "" {
		clean = "call"
	}
	if keep := r.max - 1 - hashDigits; len(clean) > keep {
		clean = clean[:keep]
	}
	return clean + "_" + hex.EncodeToString(sum[:])[:hashDigits]
}

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func alnumDigits(bytes []byte) string {
	out := make([]byte, len(bytes))
	for i, b := range bytes {
		out[i] = alphabet[int(b)%len(alphabet)]
	}
	return string(out)
}

// callIDs hands out the ids of one request. The value is the history index of the last assistant message that has the
// id as the model sees it.
type callIDs struct {
	rule idRule
	used map[string]int
}

// native keeps an id that the same model gave, unless the same message has it already: no protocol can tell two calls
// of one message with one id apart.
func (c *callIDs) native(id string, assistant int) string {
	if at, taken := c.used[id]; !taken || at != assistant {
		c.used[id] = assistant
		return id
	}
	return c.rewrite(id, assistant, 1)
}

// foreign returns an id that the protocol accepts and that no earlier call of the request has, since some providers
// want ids to differ across the whole conversation.
func (c *callIDs) foreign(id string, assistant int) string { return c.rewrite(id, assistant, 0) }

func (c *callIDs) rewrite(id string, assistant, n int) string {
	for ; ; n++ {
		next := c.rule.candidate(id, n)
		if _, taken := c.used[next]; !taken {
			c.used[next] = assistant
			return next
		}
	}
}
