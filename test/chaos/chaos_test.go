package chaos

import (
	"bytes"
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

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/test/services"
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
	story story
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
	return fmt.Sprintf("%s/%s/%s=%d", p.story.name, workers, p.point, p.nth)
}

// TestChaos tells each story undisturbed, and then once for each place. A place that fails is tried alone with
// `make chaos RUN=story/one-worker/point=1`.
func TestChaos(t *testing.T) {
	want := map[string]map[string][]string{}
	var places []place
	for _, s := range stories {
		if pattern := flag.Lookup("test.run").Value.String(); strings.Contains(pattern, "=") && !strings.Contains(pattern, s.name) {
			continue
		}
		history, reached := undisturbed(t, s)
		want[s.name] = history
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
			died, took := disturbed(t, p, want[p.story.name])
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
		byStory[p.story.name] = append(byStory[p.story.name], p)
	}
	var out []place
	for i, s := range stories {
		some := byStory[s.name]
		h := fnv.New64a()
		h.Write([]byte(s.name))
		rand.New(rand.NewPCG(seed, h.Sum64())).Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		share := cases*(i+1)/len(stories) - cases*i/len(stories)
		out = append(out, some[:min(share, len(some))]...)
	}
	return out
}

// worker starts a worker of a new name.
func worker(t *testing.T, chaos string) *services.Process {
	t.Helper()
	shared.serial++
	process, err := shared.StartWorker(t.Context(), fmt.Sprintf("worker-%d", shared.serial), chaos)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Stop(); err != nil {
			t.Error(err)
		}
	})
	return process
}

// prelude tells all but the last prompt.
func (c *told) prelude() {
	c.t.Helper()
	if len(c.prompts) == 1 {
		return
	}
	helper := worker(c.t, "")
	for i := range c.prompts[:len(c.prompts)-1] {
		name := c.prompt(i)
		c.until("prelude", func() bool { return c.finished(name) })
	}
	c.must(helper.Stop())
}

// undisturbed tells a story whose worker writes down the points that it comes to.
func undisturbed(t *testing.T, s story) (history map[string][]string, reached map[string]int) {
	c := begin(t, s)
	c.prelude()
	process := worker(t, "list")
	name := c.prompt(len(s.prompts) - 1)
	c.until("undisturbed", func() bool { return c.finished(name) })
	c.must(process.Stop()) // no other story is its
	return c.history(), points(t, process.LogPath())
}

// disturbed tells a story whose worker dies at the place, and returns how long it took to its end from then on.
func disturbed(t *testing.T, p place, want map[string][]string) (died bool, took time.Duration) {
	c := begin(t, p.story)
	c.prelude()
	victim := worker(t, fmt.Sprintf("%s=%d", p.point, p.nth))
	name := c.prompt(len(c.prompts) - 1)
	if p.others {
		worker(t, "")
	}
	c.until("kill or end", func() bool { return !victim.Running() || c.finished(name) })
	died = !victim.Running()
	begun := time.Now()
	before := c.streams()
	if died && !p.others {
		worker(t, "")
	}
	c.until("end", func() bool { return c.finished(name) })
	took = time.Since(begun)
	c.nothingIsLost(before)
	c.historyIs(want)
	c.nothingIsDoubled()
	return died, took
}

// nothingIsLost holds that what the log had is still there, byte for byte.
func (c *told) nothingIsLost(before map[string][][]byte) {
	c.t.Helper()
	after := c.streams()
	for key, raws := range before {
		if len(after[key]) < len(raws) || !slices.EqualFunc(raws, after[key][:len(raws)], bytes.Equal) {
			c.t.Errorf("%s: entries that were in the log before the kill are missing or others now:\n%s", key, c.brief())
		}
	}
}

// unknownEffect begins the result of a call that was interrupted.
const unknownEffect = "The tool call was interrupted and its effect is unknown."

// historyIs holds that the history is the undisturbed one, but for calls whose effect is told as unknown.
func (c *told) historyIs(want map[string][]string) {
	c.t.Helper()
	got := c.history()
	for who, messages := range got {
		for i, m := range messages {
			for _, name := range []string{"tools__append_note", "codemode"} {
				if strings.HasPrefix(m, "toolResult "+name+" "+unknownEffect) && i < len(want[who]) && strings.HasPrefix(want[who][i], "toolResult "+name+" ") {
					messages[i] = want[who][i]
				}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("history (-undisturbed +disturbed):\n%s\n%s", diff, c.brief())
	}
}

// nothingIsDoubled holds that each note was written at most once, and exactly once if its call has the tool's result.
func (c *told) nothingIsDoubled() {
	c.t.Helper()
	written := map[string]int{}
	for _, effect := range shared.Tools.Effects(c.ns) {
		written[effect.Text]++
	}
	for text, times := range written {
		if times > 1 {
			c.t.Errorf("%q was written %d times:\n%s", text, times, c.brief())
		}
	}
	results := 0
	for _, messages := range c.history() {
		for _, m := range messages {
			if strings.HasPrefix(m, "toolResult tools__append_note") && strings.Contains(m, "note written") {
				results++
			}
		}
	}
	if results > len(written) {
		c.t.Errorf("%d calls have the result of a note, %d notes were written", results, len(written))
	}
}
