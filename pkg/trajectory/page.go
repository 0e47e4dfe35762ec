package trajectory

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
)

// ErrCursor is returned when a cursor is malformed.
var ErrCursor = errors.New("malformed cursor")

// ErrCursorExpired is returned when a cursor belongs to another history, or to one that was longer: listing begins anew.
var ErrCursorExpired = errors.New("the cursor's history is no longer there")

// Page is one answer of the index.
type Page struct {
	Agents []Agent
	Runs   []Run
	// Entries and Untimed are the index's own: they must not be changed.
	Entries, Untimed []*Entry
	// Next goes on with the listing; empty on its last page. Cursor then stands for all that was listed.
	Next, Cursor string
}

// cursor is a place in a listing. Listings name entries that changed after Base; Until is the position that the index
// was complete up to at the listing's first page.
type cursor struct {
	Version int    `json:"v"`
	Session string `json:"s"`
	Base    uint64 `json:"b,omitempty"`
	Until   uint64 `json:"u"`
	// After is the last listed place; nil at the beginning.
	After *place `json:"a,omitempty"`
	// Imports names the set of imported files that was listed.
	Imports string `json:"i,omitempty"`
}

const cursorVersion = 1

func (c cursor) encode() (string, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode cursor: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw), nil
}

func decodeCursor(text string) (cursor, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return cursor{}, fmt.Errorf("%w: %w", ErrCursor, err)
	}
	var c cursor
	if err := json.Unmarshal(raw, &c); err != nil {
		return cursor{}, fmt.Errorf("%w: %w", ErrCursor, err)
	}
	if c.Version != cursorVersion {
		return cursor{}, fmt.Errorf("%w: version %d", ErrCursorExpired, c.Version)
	}
	return c, nil
}

// Continues says whether a cursor goes on with a listing, for which the index need not be fresh.
func Continues(after string) bool {
	c, err := decodeCursor(after)
	return err == nil && c.After != nil
}

// start is the cursor from which a page is listed.
func (ix *Index) start(after string) (cursor, error) {
	if after == "" {
		return cursor{Version: cursorVersion, Session: ix.Scope.Session, Until: ix.Position, Imports: ix.imports}, nil
	}
	c, err := decodeCursor(after)
	if err != nil {
		return c, err
	}
	if c.Session != ix.Scope.Session || c.Until > ix.Position || c.Base > c.Until || c.Imports != ix.imports {
		return c, ErrCursorExpired
	}
	if c.After == nil {
		c.Base, c.Until = c.Until, ix.Position
	}
	return c, nil
}

// Page lists up to limit entries after a cursor. A listing without a cursor has every entry; one after a listing's last
// Cursor has those that were added or changed since. Changes while a listing goes on are in the next one, if not in it.
func (ix *Index) Page(after string, limit int) (Page, error) {
	c, err := ix.start(after)
	if err != nil {
		return Page{}, err
	}
	rest := ix.listed[ix.after(c.After):]
	page := Page{Agents: ix.Agents, Runs: []Run{}, Entries: make([]*Entry, 0, min(limit, changedAfter(rest, c.Base))), Untimed: []*Entry{}}
	if c.After == nil {
		for _, r := range ix.runs {
			if r.changed > c.Base {
				page.Runs = append(page.Runs, r.Run)
			}
		}
	}
	more := false
	var last place
	for _, n := range rest {
		if !n.changedAfter(c.Base) {
			continue
		}
		if len(page.Entries)+len(page.Untimed) == limit {
			more = true
			break
		}
		last = n.place()
		if last.Untimed {
			page.Untimed = append(page.Untimed, &n.Entry)
			continue
		}
		page.Entries = append(page.Entries, &n.Entry)
	}
	if more {
		if page.Next, err = (cursor{cursorVersion, c.Session, c.Base, c.Until, &last, c.Imports}).encode(); err != nil {
			return Page{}, err
		}
	}
	page.Cursor, err = cursor{Version: cursorVersion, Session: c.Session, Until: c.Until, Imports: c.Imports}.encode()
	return page, err
}

// changedAfter says whether the node belongs to a listing of what changed after base.
func (n *node) changedAfter(base uint64) bool { return base == 0 || n.changed > base }

func changedAfter(nodes []*node, base uint64) int {
	count := 0
	for _, n := range nodes {
		if n.changedAfter(base) {
			count++
		}
	}
	return count
}

// after is the position in the listing of the first entry behind a place.
func (ix *Index) after(p *place) int {
	if p == nil {
		return 0
	}
	return sort.Search(len(ix.listed), func(i int) bool { return ix.listed[i].place().compare(*p) > 0 })
}

// All returns the entries of the index in listing order: the timed ones and the untimed ones.
func (ix *Index) All() (timed, untimed []Entry) {
	out := make([]Entry, len(ix.listed))
	for i, n := range ix.listed {
		out[i] = n.Entry
	}
	return out[:ix.timed:ix.timed], out[ix.timed:]
}

// AllRuns returns every run, in the order in which they began.
func (ix *Index) AllRuns() []Run {
	out := make([]Run, len(ix.runs))
	for i, r := range ix.runs {
		out[i] = r.Run
	}
	return out
}
