package soak

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/agentloop/agentloop/test/faultplan"
	"github.com/agentloop/agentloop/test/faultproxy"
	"github.com/agentloop/agentloop/test/stories"
	"github.com/agentloop/agentloop/test/world"
)

const (
	// tellers is how many stories are told at a time.
	tellers = 6
	// endLimit is how long a wait of a story may take, whatever fails meanwhile.
	endLimit = 5 * time.Minute
)

// stage is a world with three NATS servers and controllers, and no worker.
var stage *stories.Stage

func TestMain(m *testing.M) {
	os.Exit(world.Suite{
		Name: "soak", Target: "soak", Run: m.Run,
		Ready: func(w *world.World) (err error) {
			if stage, err = stories.Open(w); err != nil {
				return err
			}
			stage.EndLimit, stage.RequestAttempts, stage.RunAttempts, stage.IdleTimeout = endLimit, 20, 20, 3*time.Second
			stage.Provider = "limits: {maxConcurrentRequests: 2}"
			return nil
		},
		Options: world.Options{
			ManagerFlags: []string{
				"--role=controllers", "--ack-wait=5s", "--heartbeat=1s", "--presence-ttl=4s", "--heads-interval=50ms", "--drain-timeout=2s",
			},
			Faults: true, Cluster: true,
		},
	}.Main())
}

// setting reads a whole number from the environment.
func setting(t *testing.T, name string, fallback uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s: use a whole number from 0", name, text)
	}
	return n
}

// begin starts the workers and puts a proxy in front of the model server.
func begin(t *testing.T) *parts {
	t.Helper()
	p := &parts{}
	var err error
	if p.models, err = faultproxy.Start(stage.ModelsURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.models.Close(); err != nil {
			t.Error(err)
		}
	})
	stage.Models = p.models.URL()
	for range faultplan.Workers {
		p.workers = append(p.workers, stage.Worker(t, ""))
	}
	return p
}

// TestSoak makes SOAK_FAULTS faults within SOAK_SECONDS, drawn from SOAK_SEED.
func TestSoak(t *testing.T) {
	seed, count := setting(t, "SOAK_SEED", uint64(time.Now().Unix())), setting(t, "SOAK_FAULTS", 30)
	length := time.Duration(setting(t, "SOAK_SECONDS", 30)) * time.Second
	plan, err := faultplan.Make(seed, int(count), length)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d faults within %s; SOAK_SEED=%d tells them again", count, length, seed)
	defer func() {
		if t.Failed() {
			for _, f := range plan {
				t.Log(f)
			}
		}
	}()
	p := begin(t)
	want := undisturbed(t)
	p.models.Script(usual())
	crew := gather(t, tellers, seed, want)
	begun := time.Now()
	p.run(t, plan)
	faulty := time.Since(begun)
	crew.rest()
	t.Logf("%d stories, the slowest took %.1f s; faults for %s, all at their end %.1f s later", len(crew.ended), crew.slowest.Seconds(), faulty.Round(time.Second), (time.Since(begun) - faulty).Seconds())
	if err := stage.Servers.Settle(t.Context()); err != nil {
		t.Error(err)
	}
	crew.verify()
	for kind, times := range counted(plan) {
		t.Logf("%4d × %s", times, kind)
	}
}

func counted(plan []faultplan.Fault) map[faultplan.Kind]int {
	out := map[faultplan.Kind]int{}
	for _, f := range plan {
		out[f.Kind]++
	}
	return out
}

// TestEachServerIsKilled kills each of three NATS servers in turn, with stories going on, and starts it again when some have
// come to their end without it.
func TestEachServerIsKilled(t *testing.T) {
	const between = 4
	p := begin(t)
	want := undisturbed(t)
	p.models.Script(usual())
	crew := gather(t, tellers, 1, want)
	without := time.Duration(0)
	for i, node := range stage.Servers.Nodes {
		t.Run(fmt.Sprintf("server-%d", i+1), func(t *testing.T) {
			crew.progress(t, between)
			if err := stage.Servers.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := node.Kill(); err != nil {
				t.Fatal(err)
			}
			killed := time.Now()
			crew.progress(t, between)
			without = max(without, time.Since(killed))
			if err := node.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
	crew.rest()
	if err := stage.Servers.Settle(t.Context()); err != nil {
		t.Error(err)
	}
	crew.verify()
	t.Logf("%d stories, the slowest took %.1f s; %d came to their end within %.1f s after a kill", len(crew.ended), crew.slowest.Seconds(), between, without.Seconds())
}

// progress waits until so many more stories have come to their end.
func (c *crew) progress(t *testing.T, stories int64) {
	t.Helper()
	goal := c.told.Load() + stories
	deadline := time.Now().Add(endLimit)
	for c.told.Load() < goal {
		if time.Now().After(deadline) {
			t.Fatalf("not %d stories more within %s", stories, endLimit)
		}
		<-time.After(20 * time.Millisecond)
	}
}
