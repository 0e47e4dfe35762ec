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

// stream sends the request and stores the increments of its response as they come. They are stored in a goroutine of
// their own, so that a log that is away delays nothing else; it begins with the first one, for most of the time a run waits
// for that. The response is broken off when another worker has taken the run over.
func (c *call) stream(ctx context.Context, request provider.Request) (provider.Response, error) {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	saver := &saver{call: c, ctx: ctx, stop: stop, deltas: newFeed(), read: make(chan struct{}), done: make(chan struct{})}
	var response provider.Response
	var err error
	fault := caught(func() { response, err = c.ask(reading, request, saver.add) })
	if saving := saver.finish(); fault == nil {
		fault = saving
	}
	if fault != nil {
		panic(fault)
	}
	return response, err
}

// saver stores the increments of one response beside the goroutine that reads it, whose add and finish are.
type saver struct {
	call *call
	ctx  context.Context //nolint:containedctx // lives for one call
	// stop ends the reading.
	stop   func()
	deltas *feed
	// begun says that the goroutine was started. read is closed when no more comes, done when all is stored.
	begun      bool
	read, done chan struct{}
	fault      *Panic
}

func (s *saver) add(d provider.Delta) {
	s.deltas.add(d)
	if s.begun {
		return
	}
	s.begun = true
	go func() {
		defer close(s.done)
		if s.fault = caught(s.save); s.fault != nil {
			s.stop()
		}
	}()
}

// finish waits until everything that came is stored, and returns what the storing panicked with.
func (s *saver) finish() *Panic {
	if !s.begun {
		return nil
	}
	close(s.read)
	<-s.done
	return s.fault
}

func (s *saver) save() {
	pause := time.NewTimer(runevent.MaxMerge)
	defer pause.Stop()
	for open := true; open; {
		select {
		case <-pause.C: // nothing comes that what is held could be merged with
			s.call.store(s.ctx, s.call.increments.Flush())
		case <-s.deltas.ready:
			pause.Reset(runevent.MaxMerge)
		case <-s.read:
			open = false
		}
		for _, d := range s.deltas.take() {
			s.call.delta(s.ctx, d)
		}
		if errors.Is(s.call.saveErr, runevent.ErrFenced) {
			s.stop()
		}
	}
}
