package natsqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/worker"
	"github.com/agentloop/agentloop/pkg/worker/natsqueue"
	"github.com/agentloop/agentloop/test/services"
)

// patient calls something until it succeeds: while a new leader is chosen, calls fail and may be repeated.
func patient(t *testing.T, what string, call func(context.Context) error) {
	t.Helper()
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := call(limit)
		if err == nil {
			return
		}
		if limit.Err() != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// Three servers keep one item for each run, waiting and held, whichever of them is killed; what was acknowledged does not
// come again, and presences are told.
func TestThreeServersWithoutOne(t *testing.T) {
	const wait = 5 * time.Second
	c := services.ClusterForTest(t)
	q, err := natsqueue.New(connect(t, c.URL()), natsqueue.Options{Replicas: 3, AckWait: wait, APITimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	patient(t, "ensure", q.Ensure)
	presence, err := natsqueue.NewPresence(connect(t, c.URL()), natsqueue.PresenceOptions{Replicas: 3, TTL: time.Minute, APITimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for i, node := range c.Nodes {
		held, waiting := item(10*i), item(10*i+1)
		var delivery worker.Delivery
		putUntil(t, q, held)
		patient(t, "fetch", func(ctx context.Context) (err error) { delivery, err = q.Fetch(ctx); return err })
		if delivery.Item() != held {
			t.Fatalf("fetched %s, want %s", delivery.Item().RunUID, held.RunUID)
		}
		if err := c.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := node.Kill(); err != nil {
			t.Fatal(err)
		}
		putUntil(t, q, waiting)
		putUntil(t, q, held) // there already, or there again
		patient(t, "beat", func(ctx context.Context) error { return presence.Beat(ctx, "w-1", natsqueue.WorkerInfo{Running: i}) })
		patient(t, "who is alive", func(ctx context.Context) error {
			alive, err := presence.Alive(ctx)
			if err == nil && len(alive) != 1 {
				t.Errorf("alive are %v", alive)
			}
			return err
		})
		left := map[worker.Item]bool{held: true, waiting: true}
		for len(left) > 0 {
			patient(t, "fetch", func(ctx context.Context) (err error) { delivery, err = q.Fetch(ctx); return err })
			if !left[delivery.Item()] {
				t.Fatalf("fetched %s again after its acknowledgement", delivery.Item().RunUID)
			}
			if err := delivery.Ack(bounded(t)); err == nil {
				delete(left, delivery.Item())
			}
		}
		if err := node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// putUntil puts an item until the queue has it.
func putUntil(t *testing.T, q *natsqueue.Queue, it worker.Item) {
	t.Helper()
	patient(t, "put", func(ctx context.Context) error { _, err := q.Put(ctx, it); return err })
}
