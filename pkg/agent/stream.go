package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// feed holds the increments of a response between the goroutine that reads it and the one that stores them. It is
// bounded by the response: reading never waits for the log, because a provider's stream that is not read breaks off
// and has been paid for.
type feed struct {
	mu      sync.Mutex
	waiting []provider.Delta
	// ready holds a token while something may be waiting.
	ready chan struct{}
}

func newFeed() *feed { return &feed{ready: make(chan struct{}, 1)} }

func (f *feed) add(d provider.Delta) {
	f.mu.Lock()
	f.waiting = append(f.waiting, d)
	f.mu.Unlock()
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

func (f *feed) take() []provider.Delta {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.waiting
	f.waiting = nil
	return out
}

// stream sends the request and stores the increments of its response as they come. The response is read in a goroutine
// of its own, so that a log that is away delays only what is stored. It is broken off when another worker has taken the
// run over.
func (c *call) stream(ctx context.Context, request provider.Request) (provider.Response, error) {
	var response provider.Response
	var err error
	var fault *Panic
	deltas, done := newFeed(), make(chan struct{})
	reading, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer close(done)
		fault = caught(func() {
			response, err = c.ask(reading, request, deltas.add)
		})
	}()
	pause := time.NewTimer(runevent.MaxMerge)
	defer pause.Stop()
	for open := true; open; {
		select {
		case <-pause.C: // nothing comes that what is held could be merged with
			c.store(ctx, c.increments.Flush())
		case <-deltas.ready:
			pause.Reset(runevent.MaxMerge)
		case <-done:
			open = false
		}
		for _, d := range deltas.take() {
			c.delta(ctx, d)
		}
		if errors.Is(c.saveErr, runevent.ErrFenced) {
			stop()
		}
	}
	if fault != nil {
		panic(fault)
	}
	return response, err
}
