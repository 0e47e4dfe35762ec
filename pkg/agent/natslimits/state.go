package natslimits

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/agentloop/agentloop/pkg/agent"
)

// stateVersion is the version of the stored form.
const stateVersion = 1

// state is what the bucket holds of one provider: what it allows, whose turn it is, and what was sent lately. Times are
// milliseconds of the server's clock. Everything here is arithmetic on values.
type state struct {
	V      int    `json:"v"`
	Limits limits `json:"limits"`
	// Next is the number that the next request gets: the line is in the order of numbers.
	Next uint64 `json:"next"`
	// Workers are those that hold turns or wait for some.
	Workers map[string]*part `json:"workers,omitempty"`
	// Requests and Tokens are what was sent within the window.
	Requests cells `json:"requests,omitzero"`
	Tokens   cells `json:"tokens,omitzero"`
	// NotBefore is until when the provider wants to be left alone.
	NotBefore int64 `json:"notBefore,omitempty"`
	// At is the latest time that was reckoned with. It never goes back.
	At int64 `json:"at"`
}

type limits struct {
	Generation int64 `json:"generation"`
	Concurrent int64 `json:"concurrent,omitempty"`
	Requests   int64 `json:"requests,omitempty"`
	Tokens     int64 `json:"tokens,omitempty"`
}

// part is one worker's.
type part struct {
	// Until is when the worker counts as gone unless it has said something.
	Until int64 `json:"until"`
	// Held are the numbers of the requests whose turn it is, Line those that wait, both in the order of their numbers.
	Held []uint64 `json:"held,omitempty"`
	Line []ticket `json:"line,omitempty"`
}

// ticket is a request that waits.
type ticket struct {
	N      uint64 `json:"n"`
	Tokens int64  `json:"t"`
}

func empty() state { return state{V: stateVersion, Next: 1} }

// clone returns a copy that shares nothing with s.
func (s state) clone() state {
	workers := make(map[string]*part, len(s.Workers))
	for id, p := range s.Workers {
		workers[id] = &part{Until: p.Until, Held: slices.Clone(p.Held), Line: slices.Clone(p.Line)}
	}
	s.Workers = workers
	s.Requests.Counts, s.Tokens.Counts = slices.Clone(s.Requests.Counts), slices.Clone(s.Tokens.Counts)
	return s
}

// adopt takes limits that are newer than those that are known.
func (s *state) adopt(quota agent.Quota) {
	if quota.Generation > s.Limits.Generation || s.Limits == (limits{}) {
		s.Limits = limits{Generation: quota.Generation, Concurrent: quota.Concurrent, Requests: quota.Requests, Tokens: quota.Tokens}
	}
}

// postpone keeps all requests back until then.
func (s *state) postpone(until int64) { s.NotBefore = max(s.NotBefore, until) }

// maxAhead is by how many milliseconds two workers' notions of the server's time may differ.
const maxAhead = 5000

// rewind takes the server's clock as it is when it was set back by more than clocks differ: nothing else would move until
// it is where it was.
func (s *state) rewind(now int64, window time.Duration) {
	back := s.At - now
	if back <= maxAhead {
		return
	}
	s.At, s.NotBefore = now, max(0, s.NotBefore-back)
	for _, p := range s.Workers {
		p.Until -= back
	}
	s.Requests.From -= back / width(window)
	s.Tokens.From -= back / width(window)
}

// settle drops workers that are gone, with what they held and waited for, and gives turns to the first in line for as
// long as the limits allow.
func (s *state) settle(now int64, window time.Duration) {
	now = max(now, s.At)
	s.At = now
	maps.DeleteFunc(s.Workers, func(_ string, p *part) bool { return p.Until <= now })
	for _, p := range s.line() {
		first := p.Line[0]
		if s.opens(first, window) > now {
			return
		}
		p.Held, p.Line = append(p.Held, first.N), p.Line[1:]
		if s.Limits.Requests > 0 {
			s.Requests.add(1, now, window)
		}
		if s.Limits.Tokens > 0 {
			s.Tokens.add(first.Tokens, now, window)
		}
	}
}

// line lists the workers whose requests wait, once for each, in the order of the requests.
func (s *state) line() []*part {
	type waiting struct {
		n  uint64
		of *part
	}
	var all []waiting
	for _, p := range s.Workers {
		for _, t := range p.Line {
			all = append(all, waiting{t.N, p})
		}
	}
	slices.SortFunc(all, func(x, y waiting) int { return cmp.Compare(x.n, y.n) })
	out := make([]*part, len(all))
	for i, w := range all {
		out[i] = w.of
	}
	return out
}

// first is the request that is the next, and the worker whose it is.
func (s *state) first() (ticket, string, bool) {
	var first ticket
	var of string
	for id, p := range s.Workers {
		if len(p.Line) > 0 && (of == "" || p.Line[0].N < first.N) {
			first, of = p.Line[0], id
		}
	}
	return first, of, of != ""
}

// opens is when the request may be sent if nothing happens meanwhile but that time passes. Of turns that are held, the
// first comes back when its worker counts as gone.
func (s *state) opens(t ticket, window time.Duration) int64 {
	at := max(s.At, s.NotBefore)
	at = max(at, s.Requests.opens(1, s.Limits.Requests, s.At, window), s.Tokens.opens(t.Tokens, s.Limits.Tokens, s.At, window))
	held, leaves := int64(0), int64(0)
	for _, p := range s.Workers {
		held += int64(len(p.Held))
		if len(p.Held) > 0 && (leaves == 0 || p.Until < leaves) {
			leaves = p.Until
		}
	}
	if s.Limits.Concurrent > 0 && held >= s.Limits.Concurrent {
		at = max(at, leaves)
	}
	return at
}

// parts is how many cells a window has. A cell leaves the window as a whole, once all of it is older than that: in no
// window more is sent than allowed, and a sixtieth less at worst.
const parts = 60

// cells count what was sent, by when. Counts begins with the cell number From; cells of no use are cut off when
// something is added.
type cells struct {
	From   int64   `json:"from,omitempty"`
	Counts []int64 `json:"counts,omitempty"`
}

// width is the length of a cell in milliseconds: that many cells are no shorter than a window.
func width(window time.Duration) int64 { return max(1, (window.Milliseconds()+parts-1)/parts) }

// leaves is when the cell with the number is out of the window.
func leaves(cell int64, window time.Duration) int64 { return (cell + parts + 1) * width(window) }

func (c *cells) add(n, now int64, window time.Duration) {
	for len(c.Counts) > 0 && leaves(c.From, window) <= now {
		c.From, c.Counts = c.From+1, c.Counts[1:]
	}
	cell := now / width(window)
	if len(c.Counts) == 0 {
		c.From = cell
	}
	for c.From+int64(len(c.Counts)) <= cell {
		c.Counts = append(c.Counts, 0)
	}
	c.Counts[cell-c.From] += n
}

// opens is when n more fit under the limit, now at the earliest. What is more than the limit itself fits when there is
// nothing else in the window, or it would never be sent.
func (c *cells) opens(n, limit, now int64, window time.Duration) int64 {
	if limit == 0 {
		return now
	}
	room := max(0, limit-n)
	sum := int64(0)
	for _, count := range c.Counts {
		sum += count
	}
	at := now
	for i, count := range c.Counts {
		gone := leaves(c.From+int64(i), window)
		if sum <= room && gone > now {
			break
		}
		sum -= count
		if count > 0 {
			at = max(now, gone)
		}
	}
	return at
}
