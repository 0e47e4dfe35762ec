package natsqueue_test

import (
	"testing"
	"time"

	"github.com/agentloop/agentloop/test/services"
)

// TestBacklog tells items that wait from items that are held.
func TestBacklog(t *testing.T) {
	q := newQueue(t, services.NATSForTest(t).URL, 30*time.Second)
	expect := func(when string, wantWaiting, wantHeld int64) {
		t.Helper()
		waiting, held, err := q.Backlog(bounded(t))
		if err != nil || waiting != wantWaiting || held != wantHeld {
			t.Errorf("%s: %d wait and %d are held, %v; want %d and %d", when, waiting, held, err, wantWaiting, wantHeld)
		}
	}
	expect("empty", 0, 0)
	for n := range 3 {
		put(t, q, item(n), true)
	}
	expect("three were put", 3, 0)
	held := fetch(t, q)
	expect("one was taken", 2, 1)
	if err := held.Ack(bounded(t)); err != nil {
		t.Fatal(err)
	}
	expect("one is done", 2, 0)
}
