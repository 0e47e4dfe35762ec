// Package catalogue suggests ModelProvider manifests from a catalogue of public providers that is built in.
//
// Guarantees: it reads no network, file or environment; what it offers can be declared as it stands, and for what cannot
// be an error says what is known instead; nothing decides by it, a manifest is only printed.
package catalogue

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"charm.land/catwalk/pkg/catwalk"
	"charm.land/catwalk/pkg/embedded"

	api "github.com/agentloop/agentloop/api/v1alpha1"
)

// Source is what the suggestions are taken from.
const Source = "charm.land/catwalk v0.52.1"

// ErrUnknown is returned when the catalogue does not have what was asked for. Its text says what it has.
var ErrUnknown = errors.New("not in the catalogue")

// MaxModels is how many models one ModelProvider may declare.
const MaxModels = 64

// Provider is a provider that speaks a protocol of ours.
type Provider struct {
	ID, Name string
	Protocol api.Protocol
	// BaseURL is empty for the protocol's public endpoint.
	BaseURL string
	// Models are sorted by id.
	Models []Model
}

// Model is what the catalogue says of a model. Limits are in tokens, prices in US dollars for a million tokens and empty
// when there is none.
type Model struct {
	ID            string
	ContextWindow int64
	// Output is what the catalogue has clients ask for by default. The model may take more.
	Output               int64
	Thinking             api.Thinking
	Images               bool
	InputPrice, OutPrice string
}

// protocols are the catalogue's words for what we speak. Its other providers need credentials or paths of their own.
var protocols = map[catwalk.Type]api.Protocol{
	catwalk.TypeAnthropic: api.ProtocolAnthropic, catwalk.TypeOpenAI: api.ProtocolOpenAIChat, catwalk.TypeOpenAICompat: api.ProtocolOpenAIChat,
	catwalk.TypeOpenRouter: api.ProtocolOpenAIChat, catwalk.TypeVercel: api.ProtocolOpenAIChat,
}

// Providers are all providers that can be declared, sorted by id. The result is not to be changed.
var Providers = sync.OnceValue(func() []Provider {
	var out []Provider
	for _, p := range embedded.GetAll() {
		protocol, ok := protocols[p.Type]
		if !ok {
			continue
		}
		if p.ID == catwalk.InferenceProviderOpenAI {
			protocol = api.ProtocolOpenAIResponses // others of this type speak the older protocol only
		}
		made := Provider{ID: string(p.ID), Name: p.Name, Protocol: protocol}
		if !strings.HasPrefix(p.APIEndpoint, "$") { // a variable of the environment, for the public endpoint
			made.BaseURL = strings.TrimRight(p.APIEndpoint, "/")
		}
		for i := range p.Models {
			if m, ok := modelOf(protocol, &p.Models[i]); ok {
				made.Models = append(made.Models, m)
			}
		}
		slices.SortFunc(made.Models, func(a, b Model) int { return cmp.Compare(a.ID, b.ID) })
		made.Models = slices.CompactFunc(made.Models, func(a, b Model) bool { return a.ID == b.ID })
		if len(made.Models) > 0 {
			out = append(out, made)
		}
	}
	slices.SortFunc(out, func(a, b Provider) int { return cmp.Compare(a.ID, b.ID) })
	return out
})

// modelID is what a ModelProvider takes for an id.
var modelID = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9._:/@+]{0,127}$`)

// modelOf converts a model; false when it cannot be declared.
func modelOf(protocol api.Protocol, m *catwalk.Model) (Model, bool) {
	if !modelID.MatchString(m.ID) || m.ContextWindow <= 0 || m.DefaultMaxTokens <= 0 {
		return Model{}, false
	}
	return Model{
		ID: m.ID, ContextWindow: m.ContextWindow, Output: min(m.DefaultMaxTokens, m.ContextWindow), Thinking: thinkingOf(protocol, m),
		Images: m.SupportsImages, InputPrice: price(m.CostPer1MIn), OutPrice: price(m.CostPer1MOut),
	}, true
}

// thinkingOf guesses how a model takes reasoning settings. Effort max came to Anthropic's models together with adaptive
// thinking; elsewhere a model without levels reasons, if it does, without being asked.
func thinkingOf(protocol api.Protocol, m *catwalk.Model) api.Thinking {
	switch {
	case !m.CanReason:
		return api.ThinkingNone
	case protocol == api.ProtocolAnthropic && slices.Contains(m.ReasoningLevels, "max"):
		return api.ThinkingAdaptive
	case protocol == api.ProtocolAnthropic:
		return api.ThinkingFixedBudget
	case len(m.ReasoningLevels) > 0:
		return api.ThinkingAdaptive
	}
	return api.ThinkingNone
}

// price is a price as a decimal string, without what binary fractions add; empty for none.
func price(perMTok float64) string {
	if perMTok <= 0 {
		return ""
	}
	text := fmt.Sprintf("%.6f", perMTok)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Find returns a provider by its id.
func Find(id string) (Provider, error) {
	var names []string
	for _, p := range Providers() {
		if p.ID == id {
			return p, nil
		}
		names = append(names, p.ID)
	}
	for _, p := range embedded.GetAll() {
		if string(p.ID) == id {
			return Provider{}, fmt.Errorf("provider %s: %w of what can be declared: no protocol of ModelProviders is known for its API (%s); known are %s",
				id, ErrUnknown, p.Type, strings.Join(names, ", "))
		}
	}
	return Provider{}, fmt.Errorf("provider %q: %w; known are %s", id, ErrUnknown, strings.Join(names, ", "))
}

// Offering returns the one provider that offers all of some models. It fails when there is none, or more than one.
func Offering(models []string) (Provider, error) {
	var found []Provider
	for _, p := range Providers() {
		if _, err := p.Select(models); err == nil {
			found = append(found, p)
		}
	}
	switch len(found) {
	case 0:
		return Provider{}, fmt.Errorf("no provider with %s: %w; list a provider's models with --provider", strings.Join(models, ", "), ErrUnknown)
	case 1:
		return found[0], nil
	}
	names := make([]string, len(found))
	for i := range found {
		names[i] = found[i].ID
	}
	return Provider{}, fmt.Errorf("%s is offered by %s: choose one with --provider", strings.Join(models, ", "), strings.Join(names, ", "))
}

// Select returns some of the provider's models in the order of their ids; all of them for no id.
func (p Provider) Select(ids []string) ([]Model, error) {
	if len(ids) == 0 {
		return p.Models, nil
	}
	out := make([]Model, 0, len(ids))
	for _, id := range ids {
		at := slices.IndexFunc(p.Models, func(m Model) bool { return m.ID == id })
		switch {
		case at < 0:
			return nil, fmt.Errorf("model %q of %s: %w%s", id, p.ID, ErrUnknown, p.near(id))
		case slices.ContainsFunc(out, func(m Model) bool { return m.ID == id }):
			return nil, fmt.Errorf("model %s is named twice", id)
		}
		out = append(out, p.Models[at])
	}
	return out, nil
}

// near names models whose ids resemble one that is not there.
func (p Provider) near(id string) string {
	const most = 8
	stem := strings.ToLower(id)
	for ; len(stem) >= 3; stem = stem[:len(stem)-1] {
		var names []string
		for _, m := range p.Models {
			if strings.Contains(strings.ToLower(m.ID), stem) {
				names = append(names, m.ID)
			}
		}
		if len(names) > 0 {
			return "; it has " + strings.Join(names[:min(len(names), most)], ", ")
		}
	}
	return fmt.Sprintf("; list its models with --provider %s", p.ID)
}
