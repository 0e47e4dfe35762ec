package chaos

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentloop/agentloop/test/stories"
)

// setting reads a number from the environment: CHAOS_SEED is which places are tried when not all are, CHAOS_CASES how many
// are, 0 for all.
func setting(t *testing.T, name string, fallback int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s=%s: use a whole number from 0", name, text)
	}
	return n
}

// place is where a worker dies.
type place struct {
	story stories.Story
	point string
	// nth is which time it gets there.
	nth int
	// others says that a second worker is alive then; else the same one comes back.
	others bool
}

func (p place) String() string {
	workers := "one-worker"
	if p.others {
		workers = "two-workers"
	}
	return fmt.Sprintf("%s/%s/%s=%d", p.story.Name, workers, p.point, p.nth)
}

// TestChaos tells each story undisturbed, and then once for each place. A place that fails is tried alone with
// `make chaos RUN=story/one-worker/point=1`.
func TestChaos(t *testing.T) {
	want := map[string]map[string][]string{}
	var places []place
	for _, s := range stories.All {
		if pattern := flag.Lookup("test.run").Value.String(); strings.Contains(pattern, "=") && !strings.Contains(pattern, s.Name) {
			continue
		}
		history, reached := undisturbed(t, s)
		want[s.Name] = history
		for _, point := range sorted(reached) {
			for n := 1; n <= reached[point]; n++ {
				places = append(places, place{s, point, n, false}, place{s, point, n, true})
			}
		}
	}
	seed, total := setting(t, "CHAOS_SEED", 1), len(places)
	tried := chosen(places, setting(t, "CHAOS_CASES", 24), uint64(seed))
	t.Logf("%d of %d places, seed %d", len(tried), total, seed)
	missed, slowest := 0, time.Duration(0)
	for _, p := range tried {
		t.Run(p.String(), func(t *testing.T) {
			died, took := disturbed(t, p, want[p.story.Name])
			if !died {
				missed++
				t.Log("the worker did not come to the place this time")
			}
			slowest = max(slowest, took)
		})
	}
	t.Logf("the slowest story came to its end %.1f s after the kill (the wait for a dead worker is %s); %d places were not reached", slowest.Seconds(), ackWait, missed)
	if missed*5 > len(tried) {
		t.Errorf("%d of %d places were not reached: the stories are not the same each time", missed, len(tried))
	}
}

func sorted(reached map[string]int) []string {
	out := make([]string, 0, len(reached))
	for point := range reached {
		out = append(out, point)
	}
	slices.Sort(out)
	return out
}

// chosen are the places that are tried: all, or some of each story. One that is asked for by -run is among them.
func chosen(places []place, cases int, seed uint64) []place {
	if cases == 0 || len(places) <= cases || strings.Contains(flag.Lookup("test.run").Value.String(), "=") {
		return places
	}
	byStory := map[string][]place{}
	for _, p := range places {
		byStory[p.story.Name] = append(byStory[p.story.Name], p)
	}
	var out []place
	for i, s := range stories.All {
		some := byStory[s.Name]
		h := fnv.New64a()
		h.Write([]byte(s.Name))
		rand.New(rand.NewPCG(seed, h.Sum64())).Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		share := cases*(i+1)/len(stories.All) - cases*i/len(stories.All)
		out = append(out, some[:min(share, len(some))]...)
	}
	return out
}

// prelude tells all but the last prompt.
func prelude(t *testing.T, s stories.Story) *stories.Telling {
	t.Helper()
	c := stage.Begin(t, s)
	c.Forget()
	if len(c.Prompts) == 1 {
		return c
	}
	helper := stage.Worker(t, "")
	for i := range c.Prompts[:len(c.Prompts)-1] {
		name := c.Prompt(i)
		c.Until("prelude", func() bool { return c.Finished(name) })
	}
	c.Must(helper.Stop())
	return c
}

// undisturbed tells a story whose worker writes down the points that it comes to.
func undisturbed(t *testing.T, s stories.Story) (history map[string][]string, reached map[string]int) {
	c := prelude(t, s)
	process := stage.Worker(t, "list")
	name := c.Prompt(len(s.Prompts) - 1)
	c.Until("undisturbed", func() bool { return c.Finished(name) })
	c.Must(process.Stop()) // no other story is its
	return c.History(), points(t, process.LogPath())
}

// disturbed tells a story whose worker dies at the place, and returns how long it took to its end from then on.
func disturbed(t *testing.T, p place, want map[string][]string) (died bool, took time.Duration) {
	c := prelude(t, p.story)
	victim := stage.Worker(t, fmt.Sprintf("%s=%d", p.point, p.nth))
	name := c.Prompt(len(c.Prompts) - 1)
	if p.others {
		stage.Worker(t, "")
	}
	c.Until("kill or end", func() bool { return !victim.Running() || c.Finished(name) })
	died = !victim.Running()
	begun := time.Now()
	before := c.Streams()
	if died && !p.others {
		stage.Worker(t, "")
	}
	c.Until("end", func() bool { return c.Finished(name) })
	took = time.Since(begun)
	c.NothingIsLost(before)
	c.HistoryIs(want)
	c.NothingIsDoubled()
	return died, took
}
