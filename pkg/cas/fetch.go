package cas

import (
	"context"
	"sync"
)

// getAll returns the objects that refs name, in their order, with at most parallel gets at a time. The first error ends
// the others; all goroutines have ended when it returns.
func getAll(ctx context.Context, store Store, scope Scope, refs []Ref, parallel int) ([][]byte, error) {
	out := make([][]byte, len(refs))
	if len(refs) == 0 {
		return out, ctx.Err()
	}
	parent := ctx
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(max(parallel, 1), len(refs)) {
		wg.Go(func() {
			for i := range next {
				data, err := store.Get(ctx, scope, refs[i])
				if err != nil {
					cancel(err)
					return
				}
				out[i] = data
			}
		})
	}
	feed(ctx, next, len(refs))
	wg.Wait()
	if err := parent.Err(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return out, nil
}

func feed(ctx context.Context, next chan<- int, n int) {
	defer close(next)
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			return
		}
	}
}
