package compaction

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentloop/agentloop/pkg/budget"
)

const (
	// maxRequests is how many requests one compaction is meant to take. Texts are shortened until it does.
	maxRequests = 8
	// minRoom is the smallest room for the conversation in one request, in tokens. It is more than an entry's tags take, so
	// that a piece of an entry is more than a few characters.
	minRoom = 256
	// longestText and shortestText are the lengths, in characters, between which texts are shortened.
	longestText, shortestText = 64_000, 250
	// pieceMargin of 16 parts is what a piece of an entry aims at: its tokens are not spread evenly.
	pieceMargin = 15
)

// boundTarget leaves a quarter of the input limit free: estimates are low for some content, and models write better
// summaries of less.
func boundTarget(limit int64) int64 { return limit / 4 * 3 }

// bound shortens entries so that their summary takes about maxRequests requests with the given room in tokens: tool
// results always, other texts only when they must be, and at last the middle of the conversation is left out. It counts
// with the cheapest estimate, for it only has to be about right.
func bound(entries []entry, room int64) []entry {
	capacity := maxRequests * max(room, minRoom)
	shorter, total := shortenAll(entries, 0)
	for limit := longestText; total > capacity && limit >= shortestText; limit /= 2 {
		shorter, total = shortenAll(entries, limit)
	}
	if total <= capacity {
		return shorter
	}
	return dropMiddle(shorter, capacity)
}

// shortenAll returns copies of the entries with texts of at most limit characters (0 for as long as they are), and the
// tokens of them all.
func shortenAll(entries []entry, limit int) ([]entry, int64) {
	shorter := make([]entry, len(entries))
	var total int64
	for i, e := range entries {
		switch {
		case e.tool && (limit == 0 || limit > maxResult):
			e.body = shorten(e.body, maxResult)
		case limit > 0:
			e.body = shorten(e.body, limit)
		}
		shorter[i] = e
		total = add(total, budget.TextTokens(e.String()))
	}
	return shorter, total
}

// dropMiddle keeps a quarter of the capacity from the beginning and the rest from the end.
func dropMiddle(entries []entry, capacity int64) []entry {
	head, tail := 0, len(entries)
	for size := int64(0); head < tail; head++ {
		if size = add(size, budget.TextTokens(entries[head].String())); size > capacity/4 {
			break
		}
	}
	for size := int64(0); tail > head; tail-- {
		if size = add(size, budget.TextTokens(entries[tail-1].String())); size > capacity-capacity/4 {
			break
		}
	}
	note := entry{open: "<" + tagMessage + ` role="note"`, tag: tagMessage,
		body: strconv.Itoa(tail-head) + " messages stood here and were left out."}
	kept := append(append([]entry{}, entries[:head]...), note)
	return append(kept, entries[tail:]...)
}

// nextBounded packs as many entries as fit. An entry that does not fit into a request of its own is taken in pieces.
func (p Progress) nextBounded() (SummaryRequest, error) {
	previous, base, err := p.fitPrevious()
	if err != nil {
		return SummaryRequest{}, err
	}
	room := p.target - base.EstimatedInputTokens
	if room < minRoom {
		return SummaryRequest{}, &budget.ExceededError{Budget: base}
	}
	taken, out := 0, strings.Builder{}
	left, part := room, p.part
	for ; taken < len(p.entries); taken++ {
		e := p.entries[taken]
		if part > 0 {
			e.part = part + 1
		}
		text := e.String()
		cost := p.tokens(text) + 1
		if cost > left {
			break
		}
		out.WriteString(text)
		left, part = left-cost, 0
	}
	rest := p.entries[taken:]
	if taken == 0 {
		var piece entry
		piece, rest = p.piece(room)
		piece.append(&out)
		if part = piece.part; len(rest) < len(p.entries) {
			part = 0 // it was the last piece of its entry
		}
	}
	r, err := p.request(previous, out.String())
	if err != nil {
		return SummaryRequest{}, err
	}
	r.rest, r.part = rest, part
	return r, r.Budget.Err()
}

// fitPrevious returns the summary so far, shortened where it would leave less than half of the target, and the measure
// of a request with nothing else.
func (p Progress) fitPrevious() (string, budget.ContextBudget, error) {
	previous := p.summary
	for {
		r, err := p.request(previous, "")
		if err != nil || r.Budget.EstimatedInputTokens <= p.target/2 || previous == "" {
			return previous, r.Budget, err
		}
		limit := utf8.RuneCountInString(previous) / 2
		if limit < shortestText {
			previous = ""
			continue
		}
		previous = shorten(previous, limit)
	}
}

// piece cuts a beginning that fits room off the first entry, and returns it and the entries that are left.
func (p Progress) piece(room int64) (entry, []entry) {
	first := p.entries[0]
	first.part = p.part + 1
	head, size := first, len(first.body)
	for cost := p.tokens(head.String()); cost > room && size > 1; cost = p.tokens(head.String()) {
		smaller := min(size-1, max(1, int(float64(size)*float64(room)/float64(cost)*pieceMargin/16)))
		head.body = first.body[:boundaryBefore(first.body, smaller)]
		if len(head.body) >= size {
			break // a single character
		}
		size = len(head.body)
	}
	rest := append([]entry{}, p.entries...)
	rest[0].body = first.body[len(head.body):]
	if rest[0].body == "" {
		rest = rest[1:]
	}
	return head, rest
}

// boundaryBefore returns the start of the character that position at lies in, or the end of the first character.
func boundaryBefore(text string, at int) int {
	end := 0
	for i := range text {
		if i > at {
			break
		}
		end = i
	}
	if end == 0 {
		return byteAt(text, 1)
	}
	return end
}

// Smaller is what to do when the provider refused the latest request as too long: the same with half the input. What is
// left is bounded anew, so that half the input does not mean twice the requests. It is false when the input is not
// bounded or cannot be smaller.
func (p Progress) Smaller() (Progress, bool) {
	empty, err := p.request("", "")
	if err != nil || !p.settings.Rules.BoundInput || p.target/2-empty.Budget.EstimatedInputTokens < minRoom {
		return Progress{}, false
	}
	p.target /= 2
	p.entries = bound(p.entries, p.target-empty.Budget.EstimatedInputTokens)
	return p, true
}
