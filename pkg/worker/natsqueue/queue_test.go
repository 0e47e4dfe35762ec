package natsqueue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/worker"
	"github.com/agentloop/agentloop/pkg/worker/natsqueue"
	"github.com/agentloop/agentloop/test/services"
)

// ackWait is short, so that a holder's silence is noticed within a test.
const ackWait = time.Second

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func newQueue(t *testing.T, url string, wait time.Duration) *natsqueue.Queue {
	t.Helper()
	q, err := natsqueue.New(connect(t, url), natsqueue.Options{AckWait: wait, APITimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Ensure(bounded(t)); err != nil {
		t.Fatal(err)
	}
	return q
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func item(n int) worker.Item {
	return worker.Item{Namespace: "team-a", RunUID: fmt.Sprintf("run-%d", n), RunName: "first.run", SessionUID: "session-1",
		SessionName: "my.session", AgentKey: "main", Kind: worker.KindRun}
}

func put(t *testing.T, q *natsqueue.Queue, it worker.Item, want bool) {
	t.Helper()
	if added, err := q.Put(bounded(t), it); err != nil || added != want {
		t.Errorf("put %s: added %v, %v; want %v", it.RunUID, added, err, want)
	}
}

func has(t *testing.T, q *natsqueue.Queue, it worker.Item, want bool) {
	t.Helper()
	if got, err := q.Has(bounded(t), it.Namespace, it.RunUID); err != nil || got != want {
		t.Errorf("has %s: %v, %v; want %v", it.RunUID, got, err, want)
	}
}

func fetch(t *testing.T, q *natsqueue.Queue) *natsqueue.Delivery {
	t.Helper()
	d, err := q.Fetch(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	return d.(*natsqueue.Delivery)
}

// empty checks that there is nothing to fetch for some time that is longer than any delivery takes.
func empty(t *testing.T, q *natsqueue.Queue, patience time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if d, err := q.Fetch(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("fetched %v, %v from a queue without waiting items", d, err)
	}
}

func TestOneItemPerRunWaitingOrHeld(t *testing.T) {
	q := newQueue(t, services.NATSForTest(t).URL, 30*time.Second)
	has(t, q, item(1), false)
	put(t, q, item(1), true)
	again := item(1)
	again.Kind = worker.KindCancel
	put(t, q, again, false)
	has(t, q, item(1), true)
	d := fetch(t, q)
	if diff := cmp.Diff(item(1), d.Item()); diff != "" || d.Deliveries() != 1 {
		t.Errorf("delivery %d (-want +got):\n%s", d.Deliveries(), diff)
	}
	put(t, q, again, false)
	has(t, q, item(1), true)
	put(t, q, item(2), true)
	if other := fetch(t, q); other.Item().RunUID != "run-2" {
		t.Errorf("fetched %s, which is held", other.Item().RunUID)
	}
	if err := d.Ack(bounded(t)); err != nil {
		t.Fatal(err)
	}
	has(t, q, item(1), false)
	put(t, q, again, true) // at once: no window of duplicates stands against it
	if got := fetch(t, q); got.Item().Kind != worker.KindCancel {
		t.Errorf("fetched %+v", got.Item())
	}
}

func TestSilentHolderLosesItsItem(t *testing.T) {
	server := services.NATSForTest(t)
	first, second := newQueue(t, server.URL, ackWait), newQueue(t, server.URL, ackWait)
	put(t, first, item(1), true)
	lost := fetch(t, first)
	taken := fetch(t, second) // waits until the first has been silent for too long
	if taken.Deliveries() != 2 {
		t.Errorf("delivery %d, want the second", taken.Deliveries())
	}
	calls := map[string]func() error{
		"extend":    func() error { return lost.InProgress(bounded(t)) },
		"ack":       func() error { return lost.Ack(bounded(t)) },
		"give back": func() error { return lost.Nak(bounded(t), 0) },
	}
	for call, do := range calls {
		if err := do(); !errors.Is(err, natsqueue.ErrStale) {
			t.Errorf("%s by the former holder: %v, want ErrStale", call, err)
		}
	}
	has(t, second, item(1), true)
	if err := taken.Ack(bounded(t)); err != nil {
		t.Fatal(err)
	}
	has(t, second, item(1), false)
}

func TestHeartbeatsKeepAnItem(t *testing.T) {
	server := services.NATSForTest(t)
	holder, other := newQueue(t, server.URL, ackWait), newQueue(t, server.URL, ackWait)
	put(t, holder, item(1), true)
	d := fetch(t, holder)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		beat := time.NewTicker(ackWait / 4)
		defer beat.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-beat.C:
				if err := d.InProgress(bounded(t)); err != nil {
					t.Errorf("extend: %v", err)
				}
			}
		}
	})
	empty(t, other, 3*ackWait)
	cancel()
	wg.Wait()
	if err := d.Ack(bounded(t)); err != nil {
		t.Error(err)
	}
	has(t, other, item(1), false)
}

func TestGivenBackItemsComeAgainWithoutEnd(t *testing.T) {
	q := newQueue(t, services.NATSForTest(t).URL, 30*time.Second)
	put(t, q, item(1), true)
	for n := 1; n <= 12; n++ {
		d := fetch(t, q)
		if d.Deliveries() != n {
			t.Fatalf("delivery %d, want %d", d.Deliveries(), n)
		}
		if err := d.Nak(bounded(t), 0); err != nil {
			t.Fatal(err)
		}
	}
	d := fetch(t, q)
	back := time.Now()
	if err := d.Nak(bounded(t), 400*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	fetch(t, q)
	if away := time.Since(back); away < 400*time.Millisecond {
		t.Errorf("it was away for %v, want 400 ms", away)
	}
}

func TestRemove(t *testing.T) {
	q := newQueue(t, services.NATSForTest(t).URL, 30*time.Second)
	put(t, q, item(1), true)
	put(t, q, item(2), true)
	d := fetch(t, q)
	for range 2 {
		if err := q.Remove(bounded(t), d.Item().Namespace, d.Item().RunUID); err != nil {
			t.Fatal(err)
		}
	}
	has(t, q, d.Item(), false)
	if err := d.Ack(bounded(t)); err != nil {
		t.Errorf("acknowledging a removed item: %v", err)
	}
	other := fetch(t, q)
	if other.Item() == d.Item() {
		t.Error("the removed item came")
	}
	has(t, q, other.Item(), true)
	put(t, q, d.Item(), true)
}

func TestFetchEndsWithItsContext(t *testing.T) {
	q := newQueue(t, services.NATSForTest(t).URL, 30*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := q.Fetch(ctx)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	// The pull of the worker that left takes no item with it.
	put(t, q, item(1), true)
	if d := fetch(t, q); d.Deliveries() != 1 {
		t.Errorf("delivery %d: the item went to nobody first", d.Deliveries())
	}
}

func TestNamesThatCannotBeSubjects(t *testing.T) {
	q := newQueue(t, services.NATSForTest(t).URL, 30*time.Second)
	for _, uid := range []string{"", "a.b", "*", ">", "a b", "a\n"} {
		bad := item(1)
		bad.RunUID = uid
		_, putErr := q.Put(bounded(t), bad)
		_, hasErr := q.Has(bounded(t), "team-a", uid)
		removeErr := q.Remove(bounded(t), uid, "run-1")
		for call, err := range map[string]error{"put": putErr, "has": hasErr, "remove": removeErr} {
			if !errors.Is(err, natsqueue.ErrInvalid) {
				t.Errorf("%s %q: %v, want ErrInvalid", call, uid, err)
			}
		}
	}
}

// Items that no worker can read do not stop the queue.
func TestUnreadableItemsAreRemoved(t *testing.T) {
	server := services.NATSForTest(t)
	q := newQueue(t, server.URL, 30*time.Second)
	js, err := jetstream.New(connect(t, server.URL))
	if err != nil {
		t.Fatal(err)
	}
	for subject, body := range map[string]string{
		"agentloop.work.team-a.garbage": "{",
		"agentloop.work.team-a.other":   `{"namespace":"team-a","runUID":"run-9"}`,
	} {
		if _, err := js.Publish(bounded(t), subject, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, q, item(1), true)
	if d := fetch(t, q); d.Item() != item(1) {
		t.Errorf("fetched %+v", d.Item())
	}
	for _, uid := range []string{"garbage", "other"} {
		gone := item(1)
		gone.RunUID = uid
		has(t, q, gone, false)
	}
}

// Waiting and held items survive a kill of the server, and a fetch that stood at it goes on.
func TestKilledServer(t *testing.T) {
	server := services.NATSForTest(t)
	q := newQueue(t, server.URL, ackWait)
	put(t, q, item(1), true)
	put(t, q, item(2), true)
	fetch(t, q) // its holder is never heard of again
	restart(t, server)
	reconnected(t, q)
	has(t, q, item(1), true)
	has(t, q, item(2), true)
	// Both come; the held one perhaps before its time, since a killed server may have forgotten that it was held.
	left := map[worker.Item]bool{item(1): true, item(2): true}
	for len(left) > 0 {
		d := fetch(t, q)
		if !left[d.Item()] {
			t.Fatalf("fetched %s again after its acknowledgement", d.Item().RunUID)
		}
		if err := d.Ack(bounded(t)); err != nil {
			t.Fatal(err)
		}
		delete(left, d.Item())
	}

	result := make(chan worker.Delivery, 1)
	go func() {
		d, err := q.Fetch(bounded(t))
		if err != nil {
			t.Error(err)
		}
		result <- d
	}()
	restart(t, server)
	reconnected(t, q)
	put(t, q, item(3), true)
	if d := <-result; d == nil || d.Item() != item(3) {
		t.Errorf("fetched %v", d)
	}
}

// reconnected waits until the queue answers.
func reconnected(t *testing.T, q *natsqueue.Queue) {
	t.Helper()
	patience := bounded(t)
	for {
		_, err := q.Has(patience, "team-a", "nobody")
		if err == nil {
			return
		}
		if patience.Err() != nil {
			t.Fatal(err)
		}
	}
}

func restart(t *testing.T, server *services.NATS) {
	t.Helper()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A server that comes back with an empty store gets its queue again, by Run and by a fetch that finds nothing.
func TestWipedServer(t *testing.T) {
	for name, run := range map[string]bool{"by Run": true, "by Fetch": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			server, err := services.StartNATS(t.Context(), services.NATSOptions{Programs: services.Folder(t), Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = server.Kill() })
			q := newQueue(t, server.URL, 30*time.Second)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			if run {
				wg.Go(func() { _ = q.Run(ctx) })
			} else {
				wg.Go(func() { _, _ = q.Fetch(ctx) })
			}
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(dir, "jetstream")); err != nil {
				t.Fatal(err)
			}
			if err := server.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			patience := bounded(t)
			for {
				if added, err := q.Put(patience, item(1)); err == nil && added {
					return
				}
				if patience.Err() != nil {
					t.Fatal("the queue was not made again")
				}
			}
		})
	}
}
