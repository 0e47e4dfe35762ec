package mcp

import (
	"encoding/json"
	"strings"

	"github.com/agentloop/agentloop/pkg/message"
)

// shortestSecret is the length from which a secret is blanked: shorter ones occur in any text by chance.
const shortestSecret = 8

// redactor blanks a server's credentials in what the server sends back.
type redactor struct{ replace *strings.Replacer }

func newRedactor(c ServerConfig) redactor {
	var pairs []string
	add := func(secret string) {
		if len(secret) < shortestSecret {
			return
		}
		pairs = append(pairs, secret, "[redacted]")
		quoted, _ := json.Marshal(secret) // a string always marshals
		if inner := strings.Trim(string(quoted), `"`); inner != secret {
			pairs = append(pairs, inner, "[redacted]")
		}
	}
	add(c.BearerToken)
	for _, h := range c.Headers {
		if h.Secret {
			add(h.Value)
		}
	}
	if pairs == nil {
		return redactor{}
	}
	return redactor{replace: strings.NewReplacer(pairs...)}
}

// text returns s as valid UTF-8 without the credentials.
func (r redactor) text(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if r.replace == nil {
		return s
	}
	return r.replace.Replace(s)
}

// short is text cut to at most limit bytes.
func (r redactor) short(s string, limit int) string {
	s = r.text(strings.TrimSpace(s))
	if len(s) <= limit {
		return s
	}
	return message.Beginning(s, limit-len("…")) + "…"
}
