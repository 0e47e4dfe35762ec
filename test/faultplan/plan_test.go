package faultplan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/test/faultplan"
)

func plan(t *testing.T, seed uint64, count int, length time.Duration) []faultplan.Fault {
	t.Helper()
	made, err := faultplan.Make(seed, count, length)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestTheSeedIsThePlan(t *testing.T) {
	one := plan(t, 7, 1000, 15*time.Minute)
	if diff := cmp.Diff(one, plan(t, 7, 1000, 15*time.Minute)); diff != "" {
		t.Errorf("the same seed again (-first +second):\n%s", diff)
	}
	if cmp.Equal(one, plan(t, 8, 1000, 15*time.Minute)) {
		t.Error("another seed has the same plan")
	}
	if len(one) != 1000 || !slices.IsSortedFunc(one, func(a, b faultplan.Fault) int { return int(a.At - b.At) }) {
		t.Errorf("%d faults, not in order", len(one))
	}
	kinds := map[faultplan.Kind]int{}
	for _, f := range one {
		kinds[f.Kind]++
	}
	if len(kinds) != 23 {
		t.Errorf("%d kinds: %v", len(kinds), kinds)
	}
}

// A worker, a model and so on has one fault at a time, and of the servers of a cluster one is away or all are.
func TestFaultsOfOnePartDoNotOverlap(t *testing.T) {
	servers := []faultplan.Kind{faultplan.ServerKilled, faultplan.ServerStalled, faultplan.ServersKilled}
	workers := []faultplan.Kind{faultplan.WorkerKilled, faultplan.WorkerStopped, faultplan.WorkerStalled}
	for seed := range uint64(20) {
		serversWell, workersWell := time.Duration(0), map[int]time.Duration{}
		for _, f := range plan(t, seed, 1000, 15*time.Minute) {
			switch {
			case slices.Contains(servers, f.Kind):
				if f.At < serversWell {
					t.Fatalf("seed %d: %s, the servers are well at %s", seed, f, serversWell)
				}
				serversWell = f.At + f.For
			case slices.Contains(workers, f.Kind):
				if f.At < workersWell[f.Part] {
					t.Fatalf("seed %d: %s, the worker is well at %s", seed, f, workersWell[f.Part])
				}
				workersWell[f.Part] = f.At + f.For
			}
		}
	}
}

func TestTooManyFaults(t *testing.T) {
	if made, err := faultplan.Make(1, 1000, time.Second); err == nil {
		t.Errorf("%d faults within a second", len(made))
	}
}
