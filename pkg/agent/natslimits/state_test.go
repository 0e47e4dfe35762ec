package natslimits

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/agent"
)

const minute = time.Minute

// holding is a worker's part that lives for an hour after zero.
func holding(held []uint64, line ...ticket) *part {
	return &part{Until: time.Hour.Milliseconds(), Held: held, Line: line}
}

// TestSettle gives turns to the first in line and no more than allowed.
func TestSettle(t *testing.T) {
	second := time.Second.Milliseconds()
	cases := map[string]struct {
		state state
		now   int64
		// want is who holds what then, next when the first in line may go; 0 for an empty line.
		want map[string][]uint64
		next int64
	}{
		"nobody waits": {state: state{Workers: map[string]*part{"a": holding([]uint64{1})}}, want: map[string][]uint64{"a": {1}}},
		"the first of all, whose it may be": {
			state: state{Limits: limits{Concurrent: 2}, Workers: map[string]*part{"a": holding([]uint64{1}, ticket{N: 4}), "b": holding(nil, ticket{N: 3}, ticket{N: 5})}},
			want:  map[string][]uint64{"a": {1}, "b": {3}}, next: time.Hour.Milliseconds(),
		},
		"as many as there is room for": {
			state: state{Limits: limits{Concurrent: 3}, Workers: map[string]*part{"a": holding(nil, ticket{N: 1}, ticket{N: 3}), "b": holding(nil, ticket{N: 2}, ticket{N: 4})}},
			want:  map[string][]uint64{"a": {1, 3}, "b": {2}}, next: time.Hour.Milliseconds(),
		},
		"a worker that is gone holds nothing and waits for nothing": {
			state: state{Limits: limits{Concurrent: 1}, Workers: map[string]*part{"a": {Until: 10 * second, Held: []uint64{1}, Line: []ticket{{N: 2}}}, "b": holding(nil, ticket{N: 3})}},
			now:   10 * second, want: map[string][]uint64{"b": {3}},
		},
		"until it is gone it is waited for": {
			state: state{Limits: limits{Concurrent: 1}, Workers: map[string]*part{"a": {Until: 10 * second, Held: []uint64{1}}, "b": holding(nil, ticket{N: 3})}},
			now:   9 * second, want: map[string][]uint64{"a": {1}, "b": nil}, next: 10 * second,
		},
		"a limit that was lowered": {
			state: state{Limits: limits{Concurrent: 1}, Workers: map[string]*part{"a": holding([]uint64{1, 2}), "b": holding(nil, ticket{N: 3})}},
			want:  map[string][]uint64{"a": {1, 2}, "b": nil}, next: time.Hour.Milliseconds(),
		},
		"requests of the last minute": {
			state: state{Limits: limits{Requests: 3}, Requests: cells{From: 0, Counts: []int64{1, 1}}, Workers: map[string]*part{"a": holding(nil, ticket{N: 1}, ticket{N: 2})}},
			now:   2 * second, want: map[string][]uint64{"a": {1}}, next: 61 * second,
		},
		"tokens of the last minute": {
			state: state{Limits: limits{Tokens: 100}, Tokens: cells{From: 0, Counts: []int64{20, 50}}, Workers: map[string]*part{"a": holding(nil, ticket{1, 31}, ticket{2, 1})}},
			now:   2 * second, want: map[string][]uint64{"a": nil}, next: 61 * second,
		},
		"a small one does not overtake a large one, which passes": {
			state: state{Limits: limits{Tokens: 100}, Tokens: cells{From: 0, Counts: []int64{20, 50}}, Workers: map[string]*part{"a": holding(nil, ticket{1, 60}, ticket{2, 1})}},
			now:   61 * second, want: map[string][]uint64{"a": nil}, next: 62 * second,
		},
		"one that is larger than the limit goes alone": {
			state: state{Limits: limits{Tokens: 100}, Workers: map[string]*part{"a": holding(nil, ticket{1, 1000}, ticket{2, 1})}},
			now:   2 * second, want: map[string][]uint64{"a": {1}}, next: 63 * second,
		},
		"and not beside others": {
			state: state{Limits: limits{Tokens: 100}, Tokens: cells{From: 0, Counts: []int64{1}}, Workers: map[string]*part{"a": holding(nil, ticket{1, 1000})}},
			now:   2 * second, want: map[string][]uint64{"a": nil}, next: 61 * second,
		},
		"the provider wants to be left alone": {
			state: state{Limits: limits{Requests: 100}, NotBefore: 5 * second, Workers: map[string]*part{"a": holding(nil, ticket{N: 1})}},
			now:   2 * second, want: map[string][]uint64{"a": nil}, next: 5 * second,
		},
		"limits that are gone": {state: state{Workers: map[string]*part{"a": holding([]uint64{1}, ticket{N: 2}, ticket{N: 3})}}, want: map[string][]uint64{"a": {1, 2, 3}}},
		"time that went back does not count": {
			state: state{At: 70 * second, Limits: limits{Requests: 1}, Requests: cells{From: 69, Counts: []int64{1}}, Workers: map[string]*part{"a": holding(nil, ticket{N: 1})}},
			now:   2 * second, want: map[string][]uint64{"a": nil}, next: 130 * second,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := tc.state.clone()
			s.settle(tc.now, minute)
			got := map[string][]uint64{}
			for id, p := range s.Workers {
				got[id] = p.Held
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("held (-want +got):\n%s", diff)
			}
			next := int64(0)
			if first, _, ok := s.first(); ok {
				next = s.opens(first, minute)
			}
			if next != tc.next {
				t.Errorf("the next may go at %d, want %d", next, tc.next)
			}
		})
	}
}

// TestAdoptNewerLimits takes limits of a later generation, whoever brings them, and no earlier ones.
func TestAdoptNewerLimits(t *testing.T) {
	s := empty()
	for _, quota := range []agent.Quota{{Generation: 2, Concurrent: 5}, {Generation: 1, Concurrent: 9}, {Generation: 4}, {Generation: 3, Requests: 7}} {
		s.adopt(quota)
	}
	if want := (limits{Generation: 4}); s.Limits != want {
		t.Errorf("%+v, want %+v", s.Limits, want)
	}
}

// TestRewind goes on where it was when the server's clock is set back, and not for what clocks differ by.
func TestRewind(t *testing.T) {
	s := state{At: 3600_000, NotBefore: 3610_000, Requests: cells{From: 3599, Counts: []int64{4}}, Workers: map[string]*part{"a": {Until: 3630_000}}}
	s.rewind(3599_000, minute)
	if s.At != 3600_000 || s.Requests.From != 3599 {
		t.Errorf("a second: %+v", s)
	}
	s.rewind(600_000, minute)
	want := state{At: 600_000, NotBefore: 610_000, Requests: cells{From: 599, Counts: []int64{4}}, Tokens: cells{From: -3000}, Workers: map[string]*part{"a": {Until: 630_000}}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("an hour (-want +got):\n%s", diff)
	}
}

// sent is a request that got its turn.
type sent struct{ at, tokens int64 }

// FuzzNeverMoreThanAllowed drives the arithmetic with workers that come, go, die and ask at random: no window of any
// position has more than the limits, but for a request that is larger than the limit alone; no more is under way than allowed;
// turns are given in the order of numbers; and whoever asks gets a turn in the end.
func FuzzNeverMoreThanAllowed(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, uint8(seed%4), uint8(1+seed%7), uint16(50*seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, concurrent, requests uint8, tokens uint16) {
		r := rand.New(rand.NewPCG(seed, 1))
		window := time.Duration(1+r.IntN(100)) * time.Second
		s := empty()
		s.Limits = limits{Concurrent: int64(concurrent), Requests: int64(requests), Tokens: int64(tokens)}
		var log []sent
		asked := map[uint64]int64{}
		last := uint64(0)
		settle := func(now int64) {
			before := s.clone()
			s.settle(now, window)
			checkHeld(t, before, s)
			for _, n := range given(before, s) {
				if n < last && n != 0 {
					t.Fatalf("request %d goes after %d", n, last)
				}
				last = n
				log = append(log, sent{s.At, asked[n]})
			}
		}
		now := int64(1e12)
		for range 400 {
			now += r.Int64N(window.Milliseconds() / 20)
			id := fmt.Sprint("w", r.IntN(4))
			if s.Workers[id] == nil {
				s.Workers = with(s.Workers, id, &part{})
			}
			p := s.Workers[id]
			p.Until = now + window.Milliseconds()*int64(1+r.IntN(3))
			switch {
			case r.IntN(3) > 0:
				asked[s.Next] = r.Int64N(int64(tokens)/2 + 2)
				p.Line = append(p.Line, ticket{s.Next, asked[s.Next]})
				s.Next++
			case len(p.Held) > 0:
				p.Held = p.Held[1:]
			}
			settle(now - r.Int64N(50)) // no two clocks are the same
		}
		checkWindows(t, log, s.Limits, window)
		for range 100000 { // whoever is left goes, one lease and one window after another
			first, _, ok := s.first()
			if !ok {
				return
			}
			next := s.opens(first, window)
			if next <= s.At {
				t.Fatalf("the first in line may go at %d and did not by %d", next, s.At)
			}
			for _, p := range s.Workers {
				p.Held = nil
				if len(p.Line) > 0 {
					p.Until = max(p.Until, next+1)
				}
			}
			settle(max(next, s.At+1))
		}
		t.Fatal("somebody waits for ever")
	})
}

func with(workers map[string]*part, id string, p *part) map[string]*part {
	if workers == nil {
		workers = map[string]*part{}
	}
	workers[id] = p
	return workers
}

// given lists the requests that got their turn, in the order of their numbers.
func given(before, after state) []uint64 {
	waited := map[uint64]bool{}
	for _, p := range before.Workers {
		for _, t := range p.Line {
			waited[t.N] = true
		}
	}
	var out []uint64
	for n := range after.Next {
		for _, p := range after.Workers {
			for _, held := range p.Held {
				if held == n && waited[n] {
					out = append(out, n)
				}
			}
		}
	}
	return out
}

func checkHeld(t *testing.T, before, after state) {
	t.Helper()
	count := func(s state) (n int64) {
		for _, p := range s.Workers {
			n += int64(len(p.Held))
		}
		return n
	}
	if limit := after.Limits.Concurrent; limit > 0 && count(after) > limit && count(after) > count(before) {
		t.Fatalf("%d are under way, %d are allowed", count(after), limit)
	}
}

func checkWindows(t *testing.T, log []sent, l limits, window time.Duration) {
	t.Helper()
	for i := range log {
		requests, tokens := int64(0), int64(0)
		j := i
		for ; j >= 0 && log[j].at > log[i].at-window.Milliseconds(); j-- {
			requests++
			tokens += log[j].tokens
		}
		if l.Requests > 0 && requests > l.Requests {
			t.Fatalf("%d requests within a window, %d are allowed", requests, l.Requests)
		}
		if l.Tokens > 0 && tokens > l.Tokens && requests > 1 {
			t.Fatalf("%d tokens in %d requests within a window, %d are allowed", tokens, requests, l.Tokens)
		}
	}
}
