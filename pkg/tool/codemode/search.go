package codemode

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentloop/agentloop/pkg/message"
)

const (
	// maxFound bounds the results of one search.
	maxFound = 10
	// maxSummary bounds the description of a tool in a search, in bytes.
	maxSummary = 200
	// maxSchemaShown bounds what describeTool gives, in bytes.
	maxSchemaShown = 256 << 10
)

// foundTool is a tool as a search lists it.
type foundTool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// CallDirectly is why code may not call it.
	CallDirectly string `json:"callDirectly,omitempty"`
}

// described is a tool with its schema.
type described struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	Parameters   json.RawMessage `json:"parameters"`
	ReadOnly     bool            `json:"readOnly,omitempty"`
	CallDirectly string          `json:"callDirectly,omitempty"`
}

// search finds the tools that most words of the query stand in; words of the name count more. An empty query finds the
// first ones.
func search(all []callable, query string) []foundTool {
	words := strings.FieldsFunc(strings.ToLower(query), func(r rune) bool { return strings.ContainsRune(" \t\n,.;:/_-", r) })
	type ranked struct {
		callable
		score int
	}
	var hits []ranked
	for _, c := range all {
		name, description := strings.ToLower(c.name()), strings.ToLower(c.definition.Description)
		score := 0
		for _, word := range words[:min(len(words), 32)] {
			if strings.Contains(name, word) {
				score += 3
			}
			if strings.Contains(description, word) {
				score++
			}
		}
		if score > 0 || len(words) == 0 {
			hits = append(hits, ranked{c, score})
		}
	}
	slices.SortStableFunc(hits, func(a, b ranked) int { return b.score - a.score })
	found := []foundTool{}
	for _, h := range hits[:min(len(hits), maxFound)] {
		found = append(found, foundTool{Name: h.name(), Description: shorten(h.definition.Description), CallDirectly: h.refusal})
	}
	return found
}

// shorten is the beginning of a description.
func shorten(s string) string {
	if len(s) <= maxSummary {
		return s
	}
	return message.Beginning(s, maxSummary) + "…"
}

// describe is the tool of a name, or why there is none.
func describe(all []callable, name string) (described, string) {
	name = strings.TrimSpace(name)
	for _, c := range all {
		if name != c.name() && name != "tools."+c.name() && name != c.definition.Name {
			continue
		}
		if len(c.definition.Parameters) > maxSchemaShown {
			return described{}, fmt.Sprintf("The schema of %s is too long to be shown.", c.name())
		}
		return described{
			Name: c.name(), Description: c.definition.Description, Parameters: c.definition.Parameters, ReadOnly: c.definition.ReadOnly, CallDirectly: c.refusal,
		}, ""
	}
	return described{}, fmt.Sprintf("There is no tool named %q. searchTools finds them.", message.Beginning(name, 200))
}
