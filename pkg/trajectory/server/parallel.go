package server

import (
	"context"
	"sync"
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

// exportParallel is how many entries of an export are made at once: some read while others are written.
const exportParallel = 4

// parallel implements trajectory.Ordered.
func parallel(ctx context.Context, n int, make func(ctx context.Context, i int) ([]byte, error), use func([]byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	queue := begin(ctx, &group, n, make)
	for made := range queue {
		one := <-made
		if one.err != nil {
			return one.err
		}
		if err := use(one.bytes); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// made is what one call returned.
type made struct {
	bytes []byte
	err   error
}

// begin starts the calls in order, and no more of them than are waited for. The queue has them in order. Who makes one makes
// others after it: a new goroutine for each would have its stack grown each time.
func begin(ctx context.Context, group *sync.WaitGroup, n int, do func(ctx context.Context, i int) ([]byte, error)) <-chan chan made {
	type job struct {
		i    int
		done chan made
	}
	queue, jobs := make(chan chan made, exportParallel), make(chan job)
	for range min(exportParallel, n) {
		group.Go(func() {
			for one := range jobs {
				bytes, err := do(ctx, one.i)
				one.done <- made{bytes, err}
			}
		})
	}
	group.Go(func() {
		defer close(jobs)
		defer close(queue)
		for i := range n {
			one := job{i, make(chan made, 1)}
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
