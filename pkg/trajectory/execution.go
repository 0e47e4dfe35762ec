package trajectory

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// Execution is one run with its entries, as formats need it that go by runs. What it says was redacted.
type Execution struct {
	Run
	// Config names the configuration that the run was started under, when that was recorded.
	Config *cas.Ref
	// Parent is the execution that delegated to this one, and CallerID the entry of the tool call that did. Without a record
	// of it there is no Parent, and CallerID is empty when the call is not known.
	Parent   *Execution
	CallerID string
	// Children are the executions that this one delegated to, in the order of their beginnings.
	Children []*Execution

	nodes []*node
}

// Entries are the run's entries in listing order, untimed ones last.
func (e *Execution) Entries() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, n := range e.nodes {
			if !yield(&n.Entry) {
				return
			}
		}
	}
}

// Contents reads the entries of an index. It keeps what it read last, so that neighbours cost little. Whatever it returns was
// redacted. Safe for concurrent use.
type Contents struct {
	reader *Reader
	index  *Index
	window *window
}

// Contents returns what reads the entries of an index.
func (r *Reader) Contents(ix *Index) *Contents {
	return &Contents{reader: r, index: ix, window: newWindow(r.log)}
}

// Index is the index whose entries are read.
func (c *Contents) Index() *Index { return c.index }

// Content is an entry with its content, of any size: everything that a Detail has but the events and the agent's state.
func (c *Contents) Content(ctx context.Context, id string) (Detail, error) {
	return c.detail(ctx, id, extentContent)
}

// Declared is an Outline with the tools that a model input declares.
func (c *Contents) Declared(ctx context.Context, id string) (Detail, error) {
	return c.detail(ctx, id, extentDeclared)
}

// Outline is a Content with what the entry's records say themselves, and of a model input with its parameters and its assembly,
// but without messages, texts and tools that are stored in objects of their own.
func (c *Contents) Outline(ctx context.Context, id string) (Detail, error) {
	return c.detail(ctx, id, extentBare)
}

func (c *Contents) detail(ctx context.Context, id string, how extent) (Detail, error) {
	n, ok := c.index.find(id)
	if !ok {
		return Detail{}, ErrNoEntry
	}
	d := &detail{reader: c.reader, index: c.index, node: n, window: c.window, extent: how}
	if err := d.fill(ctx); err != nil {
		return Detail{}, err
	}
	d.Events = []RunEvent{}
	return redacted(d.Detail)
}

// redacted is a document as it may leave.
func redacted[T any](document T) (T, error) {
	var out T
	raw, err := Encode(document)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fmt.Errorf("read what was redacted: %w", err)
	}
	return out, nil
}

// Executions are the index's runs in the order of their beginnings, each with its entries and with who delegated to whom.
// Entries that belong to no run are in none of them.
func (c *Contents) Executions(ctx context.Context) ([]*Execution, error) {
	byKey := make(map[runKey]*Execution, len(c.index.runs))
	all := make([]*Execution, 0, len(c.index.runs))
	for _, r := range c.index.runs {
		told, err := redacted(r.Run)
		if err != nil {
			return nil, err
		}
		e := &Execution{Run: told, Config: r.config}
		byKey[runKey{r.Agent, r.UID}] = e
		all = append(all, e)
	}
	var delegations []*node
	for _, n := range c.index.listed {
		if n.Run == nil {
			continue
		}
		e := byKey[runKey{n.Agent, n.Run.UID}]
		if e == nil {
			continue
		}
		e.nodes = append(e.nodes, n)
		if n.Event == string(runevent.TypeSubagentStarted) {
			delegations = append(delegations, n)
		}
	}
	for _, n := range delegations {
		if err := c.link(ctx, n, byKey, all); err != nil {
			return nil, err
		}
	}
	for _, e := range all {
		if e.Parent != nil {
			e.Parent.Children = append(e.Parent.Children, e)
		}
	}
	return all, nil
}

// link notes which execution a delegation began.
func (c *Contents) link(ctx context.Context, n *node, byKey map[runKey]*Execution, all []*Execution) error {
	record, ok, err := c.window.record(ctx, n.stream, n.defining())
	if err != nil || !ok {
		return err
	}
	entry, err := runevent.Decode(record.Raw)
	if err != nil {
		return nil //nolint:nilerr // the entry itself has the notice
	}
	parent := byKey[runKey{n.Agent, n.Run.UID}]
	for _, e := range all {
		if e.Agent != entry.Event.Agent || e.Name != entry.Event.RunName || e.Parent != nil || e.above(parent) {
			continue
		}
		e.Parent, e.CallerID = parent, c.callOf(n, entry.Event.CallID)
		return nil
	}
	return nil
}

// above says whether the execution is another one or delegated to it, directly or not.
func (e *Execution) above(other *Execution) bool {
	for ; other != nil; other = other.Parent {
		if other == e {
			return true
		}
	}
	return false
}

// callOf is the entry of the tool call that a record of its run names.
func (c *Contents) callOf(n *node, call string) string {
	conversation := c.index.agents[n.Agent]
	if conversation == nil {
		return ""
	}
	at, ok := conversation.tools.find(toolKey{run: n.Run.UID, request: n.RequestExecutionID, call: call})
	if node := c.index.at(at); ok && node != nil {
		return node.ID
	}
	return ""
}
