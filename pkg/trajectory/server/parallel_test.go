package server

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
)

func TestThingsAreMadeAtOnceAndUsedInOrder(t *testing.T) {
	var running, most atomic.Int32
	together := make(chan struct{})
	next := 0
	err := parallel(t.Context(), 100, func(_ context.Context, i int) ([]byte, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		if i == 0 { // the first waits for the second: they are made at once
			<-together
		}
		if i == 1 {
			close(together)
		}
		return []byte(fmt.Sprint(i)), nil
	}, func(made []byte) error {
		if string(made) != fmt.Sprint(next) {
			t.Errorf("%s instead of %d", made, next)
		}
		next++
		return nil
	})
	if err != nil || next != 100 {
		t.Errorf("%d used: %v", next, err)
	}
	if most.Load() > exportParallel+2 {
		t.Errorf("%d at once", most.Load())
	}
}

func TestTheFirstFailureEndsAll(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct{ make, use int }{"making": {5, -1}, "using": {-1, 5}} {
		used := 0
		err := parallel(t.Context(), 100, func(_ context.Context, i int) ([]byte, error) {
			if i == c.make {
				return nil, broken
			}
			return nil, nil
		}, func([]byte) error {
			if used == c.use {
				return broken
			}
			used++
			return nil
		})
		if !errors.Is(err, broken) || used != 5 {
			t.Errorf("%s: %d used, then %v", name, used, err)
		}
	}
}

func TestAnEndedRequestEndsTheRest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	used := 0
	err := parallel(ctx, 1_000_000, func(context.Context, int) ([]byte, error) { return nil, nil }, func([]byte) error {
		if used++; used == 3 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || used > 3+exportParallel+2 {
		t.Errorf("%d used, then %v", used, err)
	}
}
