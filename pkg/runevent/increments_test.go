package runevent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/runevent"
)

// merged is what a test looks at in a merged event; times are milliseconds since start.
type merged struct {
	Type       runevent.Type
	Block      int
	Text       string
	From, Till int64
}

func summary(events []runevent.Event) []merged {
	var out []merged
	for _, e := range events {
		m := merged{Type: e.Type, Block: e.Block, Text: e.Text, From: e.Evidence.RecordedAt.Sub(start).Milliseconds()}
		if e.Evidence.EndedAt != nil {
			m.Till = e.Evidence.EndedAt.Sub(start).Milliseconds()
		}
		out = append(out, m)
	}
	return out
}

func at(ms int64) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func delta(typ runevent.Type, block int, response, text string) runevent.Event {
	return runevent.Event{Type: typ, Block: block, Text: text, Evidence: runevent.Evidence{AgentRunID: "run-1", ResponseID: response}}
}

func TestIncrementsMerge(t *testing.T) {
	type step struct {
		ms    int64
		delta runevent.Event
		want  []merged
	}
	half := strings.Repeat("h", runevent.MaxInline/2+1)
	huge := strings.Repeat("g", runevent.MaxInline*3)
	cases := map[string]struct {
		latency time.Duration
		steps   []step
		flush   []merged
	}{
		"deltas within the wait become one event": {0, []step{
			{0, delta(runevent.TypeBody, 0, "r", "a"), nil},
			{100, delta(runevent.TypeBody, 0, "r", "b"), nil},
			{250, delta(runevent.TypeBody, 0, "r", "c"), []merged{{runevent.TypeBody, 0, "abc", 0, 250}}},
		}, nil},
		"a slow log makes the wait longer": {100 * time.Millisecond, []step{
			{0, delta(runevent.TypeBody, 0, "r", "a"), nil},
			{999, delta(runevent.TypeBody, 0, "r", "b"), nil},
			{1000, delta(runevent.TypeBody, 0, "r", "c"), []merged{{runevent.TypeBody, 0, "abc", 0, 1000}}},
		}, nil},
		"and never longer than the bound": {time.Minute, []step{
			{0, delta(runevent.TypeBody, 0, "r", "a"), nil},
			{2000, delta(runevent.TypeBody, 0, "r", "b"), []merged{{runevent.TypeBody, 0, "ab", 0, 2000}}},
		}, nil},
		"blocks and types are apart, in the order of their first delta": {0, []step{
			{0, delta(runevent.TypeReasoning, 0, "r", "t"), nil},
			{10, delta(runevent.TypeBody, 1, "r", "a"), nil},
			{20, delta(runevent.TypeReasoning, 0, "r", "u"), nil},
			{255, delta(runevent.TypeBody, 1, "r", "b"), []merged{{runevent.TypeReasoning, 0, "tu", 0, 20}}},
		}, []merged{{runevent.TypeBody, 1, "ab", 10, 255}}},
		"responses are never merged": {0, []step{
			{0, delta(runevent.TypeBody, 0, "r1", "a"), nil},
			{10, delta(runevent.TypeBody, 0, "r2", "b"), nil},
		}, []merged{{runevent.TypeBody, 0, "a", 0, 0}, {runevent.TypeBody, 0, "b", 10, 0}}},
		"a full event goes before its time, with what was captured before it": {0, []step{
			{0, delta(runevent.TypeReasoning, 0, "r", "t"), nil},
			{10, delta(runevent.TypeBody, 1, "r", half), nil},
			{20, delta(runevent.TypeBody, 1, "r", half), []merged{{runevent.TypeReasoning, 0, "t", 0, 0}, {runevent.TypeBody, 1, half, 10, 0}}},
		}, []merged{{runevent.TypeBody, 1, half, 20, 0}}},
		"one delta above the bound stays whole": {0, []step{
			{0, delta(runevent.TypeBody, 0, "r", huge), nil},
			{10, delta(runevent.TypeBody, 0, "r", "a"), []merged{{runevent.TypeBody, 0, huge, 0, 0}}},
		}, []merged{{runevent.TypeBody, 0, "a", 10, 0}}},
		"an empty delta adds nothing": {0, []step{
			{0, delta(runevent.TypeBody, 0, "r", ""), nil},
		}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var m runevent.Increments
			m.Acked(tc.latency)
			for _, s := range tc.steps {
				if diff := cmp.Diff(s.want, summary(m.Add(s.delta, at(s.ms)))); diff != "" {
					t.Errorf("at %d ms (-want +got):\n%s", s.ms, diff)
				}
			}
			if diff := cmp.Diff(tc.flush, summary(m.Flush())); diff != "" {
				t.Errorf("flush (-want +got):\n%s", diff)
			}
			if _, ok := m.Due(); ok {
				t.Error("something is due after a flush")
			}
		})
	}
}

func TestIncrementsDue(t *testing.T) {
	var m runevent.Increments
	m.Add(delta(runevent.TypeBody, 0, "r", "a"), at(100))
	m.Add(delta(runevent.TypeBody, 1, "r", "b"), at(200))
	due, ok := m.Due()
	if !ok || !due.Equal(at(350)) {
		t.Fatalf("due at %v (%v), want the first delta's time and the wait", due, ok)
	}
	if got := m.Ready(due.Add(-1)); got != nil {
		t.Errorf("ready too early: %v", got)
	}
	if got := summary(m.Ready(due)); len(got) != 1 || got[0].Text != "a" {
		t.Errorf("ready %v", got)
	}
	// The average follows slowly: one slow append among fast ones does not stretch the wait to its bound.
	for range 20 {
		m.Acked(5 * time.Millisecond)
	}
	m.Acked(80 * time.Millisecond)
	if due, _ := m.Due(); due.Sub(at(200)) < runevent.MinMerge || due.Sub(at(200)) >= runevent.MaxMerge/2 {
		t.Errorf("wait %v", due.Sub(at(200)))
	}
}

// Whatever comes in leaves again, once and in order, for each block.
func TestIncrementsLoseNothing(t *testing.T) {
	var m runevent.Increments
	want, got := map[int]string{}, map[int]string{}
	keep := func(events []runevent.Event) {
		for _, e := range events {
			got[e.Block] += e.Text
		}
	}
	for i := range 5000 {
		block, text := i*7%3, strings.Repeat(string(rune('a'+i%26)), i*31%97)
		want[block] += text
		keep(m.Add(delta(runevent.TypeBody, block, "r", text), at(int64(i*13))))
		m.Acked(time.Duration(i%300) * time.Millisecond)
	}
	keep(m.Flush())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}
