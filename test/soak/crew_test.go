package soak

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentloop/agentloop/test/stories"
)

// lookEvery is how often a story's log is read while it is told.
const lookEvery = 2 * time.Second

// ended is a story that was told, with what the log had at its end.
type ended struct {
	*stories.Telling
	streams map[string][][]byte
}

// crew tells stories, several at a time, until it is to stop.
type crew struct {
	t    *testing.T
	want map[string]map[string][]string
	stop chan struct{}
	// told counts the stories that came to their end.
	told atomic.Int64

	tellers sync.WaitGroup
	mu      sync.Mutex
	ended   []ended
	slowest time.Duration
}

// undisturbed tells each story while all is well.
func undisturbed(t *testing.T) map[string]map[string][]string {
	t.Helper()
	want := map[string]map[string][]string{}
	for _, s := range stories.All {
		c := stage.Begin(t, s)
		for i := range c.Prompts {
			name := c.Prompt(i)
			c.Until("undisturbed", func() bool { return c.Finished(name) })
		}
		want[s.Name] = c.History()
	}
	return want
}

// gather sets so many tellers to work. Each of them has its own order of stories, drawn from the seed.
func gather(t *testing.T, tellers int, seed uint64, want map[string]map[string][]string) *crew {
	c := &crew{t: t, want: want, stop: make(chan struct{})}
	for i := range tellers {
		draw := rand.New(rand.NewPCG(seed, uint64(i)+100))
		c.tellers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-c.stop:
					return
				default:
				}
				story := stories.All[draw.IntN(len(stories.All))]
				t.Run(fmt.Sprintf("%s-%d-%d", story.Name, i, n), func(t *testing.T) { c.tell(t, story) })
			}
		})
	}
	return c
}

// tell tells one story to its end and holds that it is the right one.
func (c *crew) tell(t *testing.T, story stories.Story) {
	begun := time.Now()
	telling := stage.Begin(t, story)
	seen, looked := map[string][][]byte{}, time.Now()
	for i := range telling.Prompts {
		name := telling.Prompt(i)
		telling.Until("end", func() bool {
			if time.Since(looked) > lookEvery {
				telling.NothingIsLost(seen)
				seen, looked = telling.Streams(), time.Now()
			}
			return telling.Finished(name)
		})
	}
	took := time.Since(begun)
	telling.NothingIsLost(seen)
	telling.HistoryIs(c.want[story.Name])
	telling.NothingIsDoubled()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slowest = max(c.slowest, took)
	c.ended = append(c.ended, ended{telling, telling.Streams()})
	c.told.Add(1)
}

// rest lets the stories that were begun come to their end.
func (c *crew) rest() {
	close(c.stop)
	c.tellers.Wait()
}

// verifiers is how many sessions are verified at a time.
const verifiers = 2

// verify holds that every session that was told is as it was at its end, and whole.
func (c *crew) verify() {
	var workers sync.WaitGroup
	left := make(chan ended, len(c.ended))
	for _, e := range c.ended {
		left <- e
	}
	close(left)
	for range verifiers {
		workers.Go(func() {
			for e := range left {
				c.t.Run("verify-"+e.Namespace, func(t *testing.T) {
					telling := e.On(t)
					telling.NothingIsLost(e.streams)
					telling.NothingIsDoubled()
					out, err := stage.Tool("verify", "--quiet", "--namespace", e.Namespace, "--session", "chat").CombinedOutput()
					if err != nil {
						t.Errorf("verify %s: %v\n%s\n%s", e.Namespace, err, out, telling.Brief())
					}
				})
			}
		})
	}
	workers.Wait()
}
