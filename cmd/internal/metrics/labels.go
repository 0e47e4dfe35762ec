package metrics

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/agentloop/agentloop/pkg/provider"
)

// other is the label of what has none of its own.
const other = "other"

const (
	// maxModels is how many models of providers have labels of their own, in the order in which they are first used. Providers
	// and models are declared by those who run the cluster, but nothing says how many they declare.
	maxModels = 50
	// maxLabel is the longest value of a label, in bytes.
	maxLabel = 128
)

// pair is a provider's name and a model's id.
type pair struct{ provider, model string }

// pairs are those that have labels of their own.
type pairs struct {
	mu    sync.RWMutex
	known map[pair]bool
}

// label returns the labels of a model.
func (p *pairs) label(model provider.Model) pair {
	want := pair{model.Provider, model.ID}
	p.mu.RLock()
	known := p.known[want]
	p.mu.RUnlock()
	if known {
		return want
	}
	if !printable(want.provider) || !printable(want.model) {
		return pair{other, other}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[want] {
		return want
	}
	if len(p.known) >= maxModels {
		return pair{other, other}
	}
	if p.known == nil {
		p.known = map[pair]bool{}
	}
	want = pair{strings.Clone(want.provider), strings.Clone(want.model)} // of a document that is not kept for it
	p.known[want] = true
	return want
}

func printable(value string) bool {
	return value != "" && len(value) <= maxLabel && utf8.ValidString(value) && !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// among returns value if it is one of the known ones.
func among(known map[string]bool, value string) string {
	if known[value] {
		return value
	}
	return other
}

func setOf(values ...string) map[string]bool {
	out := make(map[string]bool, len(values))
	for _, value := range values {
		out[value] = true
	}
	return out
}
