package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentloop/agentloop/pkg/cas/recent"
	"github.com/agentloop/agentloop/pkg/trajectory"
)

// While an export goes on, exportObjects bytes of small objects that many entries share are kept, for exportAge at most.
const (
	exportObjects = 4 << 20
	exportAge     = 10 * time.Minute
)

// reading is the reader of one export.
func (s *Server) reading() (*trajectory.Reader, error) {
	store, err := recent.New(s.opts.Store, recent.Options{Bytes: exportObjects, TTL: exportAge, Now: s.opts.Now})
	if err != nil {
		return nil, err
	}
	return s.reader.Over(store), nil
}

const (
	// exportParallel is how many entries of an export are made at once: some read while others are written.
	exportParallel = 4
	// exportAhead is how many entries are begun before the first one of them is written, and exportHeld how many bytes of them
	// may wait: most are short and soon made, and one that is not shall not keep the others from beginning.
	exportAhead = 32
	exportHeld  = 2 << 20
)

// parallel implements trajectory.Ordered.
func parallel(ctx context.Context, n int, make func(ctx context.Context, i int) ([]byte, error), use func([]byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	p := newPipeline(make)
	defer p.group.Wait()
	defer cancel()
	for made := range p.begin(ctx, n) {
		one := <-made
		if one.err != nil {
			return one.err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := use(one.bytes); err != nil {
			return err
		}
		p.used(len(one.bytes))
	}
	return ctx.Err()
}

// pipeline makes things ahead of who uses them.
type pipeline struct {
	make  func(ctx context.Context, i int) ([]byte, error)
	group sync.WaitGroup
	// held are the bytes that were made and not used; freed tells that some were.
	held  atomic.Int64
	freed chan struct{}
}

func newPipeline(do func(ctx context.Context, i int) ([]byte, error)) *pipeline {
	return &pipeline{make: do, freed: make(chan struct{}, 1)}
}

// made is what one call returned.
type made struct {
	bytes []byte
	err   error
}

// job is one call that is wanted.
type job struct {
	i    int
	done chan made
}

// begin starts the calls in order, and not too many before they are waited for. The queue has them in order. Who makes one
// makes others after it: a new goroutine for each would have its stack grown each time.
func (p *pipeline) begin(ctx context.Context, n int) <-chan chan made {
	queue, jobs := make(chan chan made, exportAhead), make(chan job)
	for range min(exportParallel, n) {
		p.group.Go(func() {
			for one := range jobs {
				bytes, err := p.make(ctx, one.i)
				p.held.Add(int64(len(bytes)))
				one.done <- made{bytes, err}
			}
		})
	}
	p.group.Go(func() {
		defer close(jobs)
		defer close(queue)
		for i := range n {
			one := job{i, make(chan made, 1)}
			if !p.room(ctx) {
				return
			}
			select {
			case queue <- one.done:
			case <-ctx.Done():
				return
			}
			select {
			case jobs <- one:
			case <-ctx.Done():
				one.done <- made{err: ctx.Err()}
				return
			}
		}
	})
	return queue
}

// room waits until few enough bytes are held. Whoever holds some comes before what is begun now, so that they will be used.
func (p *pipeline) room(ctx context.Context) bool {
	for p.held.Load() > exportHeld {
		select {
		case <-p.freed:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// used says that bytes are no longer held.
func (p *pipeline) used(n int) {
	p.held.Add(-int64(n))
	select {
	case p.freed <- struct{}{}:
	default:
	}
}
