package runevent

import (
	"slices"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
)

// The bounds of how long increments wait to be merged.
const (
	MinMerge = 250 * time.Millisecond
	MaxMerge = 2 * time.Second
)

// mergeFactor times the latency of an append is how long increments wait, so that a stream spends at most about a
// tenth of its time in appends of increments.
const mergeFactor = 10

// Increments merges the text deltas of a response (reasoning, body) or of a tool's output into few events: one for each
// block and type every MinMerge to MaxMerge, the longer the slower the log acknowledges. It holds no clock: the caller
// passes the time and asks Due when to come back. Deltas of different responses, agent runs, contexts or calls are
// never merged. Not safe for concurrent use. The zero value is ready.
type Increments struct {
	open    []Event // in the order of their first delta
	latency time.Duration
}

// Add takes one delta: an event whose Text is the increment. It returns the events that are ready to be appended, in
// order. An event carries the capture time of its first delta as recordedAt and of its last one as endedAt.
func (m *Increments) Add(delta Event, now time.Time) []Event {
	if delta.Text == "" {
		return m.Ready(now)
	}
	delta.Evidence.RecordedAt = now
	i := slices.IndexFunc(m.open, func(e Event) bool { return mergeable(e, delta) })
	if i < 0 {
		m.open = append(m.open, delta)
		return m.Ready(now)
	}
	if len(m.open[i].Text)+len(delta.Text) > MaxInline {
		// Full: what was captured before it goes first, so that events stay in the order of their first delta.
		full := slices.Clone(m.open[:i+1])
		m.open = append(slices.Delete(m.open, 0, i+1), delta)
		return append(full, m.Ready(now)...)
	}
	m.open[i].Text += delta.Text
	m.open[i].Evidence.EndedAt = &now
	return m.Ready(now)
}

// Ready returns the events whose time to be merged is over at now.
func (m *Increments) Ready(now time.Time) []Event {
	n := 0
	for n < len(m.open) && now.Sub(m.open[n].Evidence.RecordedAt) >= m.wait() {
		n++
	}
	if n == 0 {
		return nil
	}
	ready := slices.Clone(m.open[:n])
	m.open = slices.Delete(m.open, 0, n)
	return ready
}

// Flush returns all that is held: at the end of a response, and before any event that must stand after it.
func (m *Increments) Flush() []Event {
	all := m.open
	m.open = nil
	return all
}

// Due returns when Ready will have something; false when nothing is held.
func (m *Increments) Due() (time.Time, bool) {
	if len(m.open) == 0 {
		return time.Time{}, false
	}
	return m.open[0].Evidence.RecordedAt.Add(m.wait()), true
}

// Acked tells how long an append took. The average moves by a quarter towards it.
func (m *Increments) Acked(latency time.Duration) {
	if m.latency == 0 {
		m.latency = latency
		return
	}
	m.latency += (latency - m.latency) / 4
}

func (m *Increments) wait() time.Duration {
	return min(max(mergeFactor*m.latency, MinMerge), MaxMerge)
}

func mergeable(a, b Event) bool {
	return a.Type == b.Type && a.Block == b.Block && a.CallID == b.CallID && a.Name == b.Name &&
		a.Attempt == b.Attempt && a.Agent == b.Agent && sameOrigin(a.Evidence, b.Evidence)
}

func sameOrigin(a, b Evidence) bool {
	return a.AgentID == b.AgentID && a.AgentRunID == b.AgentRunID && a.RequestExecutionID == b.RequestExecutionID &&
		a.Turn == b.Turn && a.ResponseID == b.ResponseID && sameRef(a.ContextRef, b.ContextRef)
}

func sameRef(a, b *cas.Ref) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
