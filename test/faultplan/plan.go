// Package faultplan draws which parts of an installation fail, when and for how long.
//
// Guarantees: a plan depends on nothing but seed, number and length; its faults are in the order of their times; no two faults
// of the same part overlap; no more than one server of a cluster is away at a time, unless all of them are.
package faultplan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is what happens.
type Kind string

// The kinds. Whatever is away, stands still or refuses does so for the fault's time, and is well again then.
const (
	WorkerKilled      Kind = "worker killed"
	WorkerStopped     Kind = "worker stopped"
	WorkerStalled     Kind = "worker stands still"
	ControllersKilled Kind = "controllers killed"
	ServerKilled      Kind = "NATS server killed"
	ServerStalled     Kind = "NATS server stands still"
	ServersKilled     Kind = "all NATS servers killed"
	ConnectionsCut    Kind = "connections to a NATS server cut"
	NATSUnreachable   Kind = "no NATS server can be reached"
	StoreRefuses      Kind = "object store breaks connections"
	StoreOverloaded   Kind = "object store answers 503"
	StoreForbids      Kind = "object store takes no credential"
	StoreSlow         Kind = "object store is slow"
	StoreHangs        Kind = "object store answers nothing"
	StoreCutsUploads  Kind = "object store breaks uploads off"
	StoreLosesAnswers Kind = "object store does its work and breaks connections"
	ModelResets       Kind = "model breaks connections"
	ModelBreaksOff    Kind = "model breaks off in an answer"
	ModelEndsEarly    Kind = "model ends an answer in its middle"
	ModelGarbage      Kind = "model talks nonsense"
	ModelOverloaded   Kind = "model is overloaded"
	ModelHangs        Kind = "model answers nothing"
	APIServerAway     Kind = "API server away"
)

// Fault is one fault.
type Fault struct {
	// At is when it begins, from the beginning of the plan; For is how long it takes.
	At, For time.Duration
	Kind    Kind
	// Part is which worker or server of several it is, from 0.
	Part int
}

func (f Fault) String() string {
	return fmt.Sprintf("%.1f s: %s (%d) for %.1f s", f.At.Seconds(), f.Kind, f.Part, f.For.Seconds())
}

// species is what a plan knows of a kind.
type species struct {
	kind Kind
	// group are the faults that exclude each other: single ones whatever their part, others only those of the same part.
	group  string
	parts  int
	single bool
	// weight is how often the kind is drawn, compared with others.
	weight int
	// shortest and longest bound how long it takes.
	shortest, longest time.Duration
}

// catalogue has all kinds.
var catalogue = []species{
	{WorkerKilled, "worker", Workers, false, 20, 0, 3 * time.Second},
	{WorkerStopped, "worker", Workers, false, 6, 0, 2 * time.Second},
	{WorkerStalled, "worker", Workers, false, 8, 500 * time.Millisecond, 10 * time.Second},
	{ControllersKilled, "controllers", 1, true, 8, 0, 3 * time.Second},
	{ServerKilled, "servers", Servers, true, 7, 0, 6 * time.Second},
	{ServerStalled, "servers", Servers, true, 3, 500 * time.Millisecond, 6 * time.Second},
	{ServersKilled, "servers", 1, true, 1, 0, 4 * time.Second},
	{ConnectionsCut, "connections", Servers, true, 8, 0, 2 * time.Second},
	{NATSUnreachable, "connections", 1, true, 3, 100 * time.Millisecond, 8 * time.Second},
	{StoreRefuses, "store", 1, true, 5, 100 * time.Millisecond, 3 * time.Second},
	{StoreOverloaded, "store", 1, true, 5, 100 * time.Millisecond, 3 * time.Second},
	{StoreForbids, "store", 1, true, 2, 100 * time.Millisecond, 2 * time.Second},
	{StoreSlow, "store", 1, true, 4, 500 * time.Millisecond, 4 * time.Second},
	{StoreHangs, "store", 1, true, 2, 500 * time.Millisecond, 3 * time.Second},
	{StoreCutsUploads, "store", 1, true, 4, 100 * time.Millisecond, 2 * time.Second},
	{StoreLosesAnswers, "store", 1, true, 6, 100 * time.Millisecond, 2 * time.Second},
	{ModelResets, "model", 1, true, 4, 200 * time.Millisecond, 1500 * time.Millisecond},
	{ModelBreaksOff, "model", 1, true, 4, 200 * time.Millisecond, 1500 * time.Millisecond},
	{ModelEndsEarly, "model", 1, true, 4, 200 * time.Millisecond, 1500 * time.Millisecond},
	{ModelGarbage, "model", 1, true, 4, 200 * time.Millisecond, 1500 * time.Millisecond},
	{ModelOverloaded, "model", 1, true, 4, 200 * time.Millisecond, 1500 * time.Millisecond},
	{ModelHangs, "model", 1, true, 3, 200 * time.Millisecond, 1500 * time.Millisecond},
	{APIServerAway, "apiserver", 1, true, 6, 500 * time.Millisecond, 6 * time.Second},
}

// Workers and Servers are how many there are to fail.
const (
	Workers = 3
	Servers = 3
)

// rest is how long a part is well at least between two of its faults.
const rest = 300 * time.Millisecond

// tries bounds how often another fault is drawn because the part is not well at the time, wait is how much later it is then.
const (
	tries = 100
	wait  = 100 * time.Millisecond
)

// Make draws a plan of so many faults that begin within length. An error says that they do not fit.
func Make(seed uint64, count int, length time.Duration) ([]Fault, error) {
	draw := rand.New(rand.NewPCG(seed, 1))
	times := make([]time.Duration, count)
	for i := range times {
		times[i] = time.Duration(draw.Int64N(int64(length)))
	}
	slices.Sort(times)
	total := 0
	for _, s := range catalogue {
		total += s.weight
	}
	busy := map[string]time.Duration{}
	plan := make([]Fault, 0, count)
	at := time.Duration(0)
	for _, wanted := range times {
		at = max(at, wanted)
		fault, place := one(draw, total, busy, at)
		for ; place == ""; fault, place = one(draw, total, busy, at) {
			if at += wait; at > length {
				return nil, fmt.Errorf("%d faults do not fit into %s", count, length)
			}
		}
		busy[place] = at + fault.For + rest
		plan = append(plan, fault)
	}
	return plan, nil
}

// one draws a fault of something that is well at the time, and says what; of nothing when hardly anything is.
func one(draw *rand.Rand, total int, busy map[string]time.Duration, at time.Duration) (Fault, string) {
	for range tries {
		s := pick(draw.IntN(total))
		fault := Fault{At: at, For: s.shortest + time.Duration(draw.Int64N(int64(s.longest-s.shortest))), Kind: s.kind, Part: draw.IntN(s.parts)}
		if place := s.place(fault.Part); busy[place] <= at {
			return fault, place
		}
	}
	return Fault{}, ""
}

// place is what no two faults have at once.
func (s species) place(part int) string {
	if s.single {
		return s.group
	}
	return fmt.Sprintf("%s %d", s.group, part)
}

func pick(n int) species {
	for _, s := range catalogue {
		if n -= s.weight; n < 0 {
			return s
		}
	}
	return catalogue[len(catalogue)-1]
}
