package tool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentloop/agentloop/pkg/message"
)

// Combine makes one set of several. Definitions are sorted by name. Where two sets have a tool of the same name, the
// earlier set's is the tool; the others are returned as shadowed and cannot be called. Closing the combined set closes all
// of them.
func Combine(sets ...Set) (combined Set, shadowed []Definition) {
	c := &combination{sets: sets, owner: map[string]Set{}}
	for _, set := range sets {
		for _, definition := range set.Definitions() {
			if c.owner[definition.Name] != nil {
				shadowed = append(shadowed, definition)
				continue
			}
			c.owner[definition.Name] = set
			c.definitions = append(c.definitions, definition)
		}
	}
	slices.SortStableFunc(c.definitions, func(a, b Definition) int { return strings.Compare(a.Name, b.Name) })
	return c, shadowed
}

// combination is several sets that look like one.
type combination struct {
	sets        []Set
	definitions []Definition
	owner       map[string]Set
}

// Definitions implements Set.
func (c *combination) Definitions() []Definition { return slices.Clone(c.definitions) }

// Call implements Set.
func (c *combination) Call(ctx context.Context, call Call, onProgress func(text string)) (Result, error) {
	owner := c.owner[call.Name]
	if owner == nil {
		return Result{Content: message.Text(fmt.Sprintf("There is no tool named %.64q.", call.Name)), IsError: true}, nil
	}
	return owner.Call(ctx, call, onProgress)
}

// Close implements Set: every set is closed, whatever the others say.
func (c *combination) Close() error {
	errs := make([]error, 0, len(c.sets))
	for _, set := range c.sets {
		errs = append(errs, set.Close())
	}
	return errors.Join(errs...)
}
