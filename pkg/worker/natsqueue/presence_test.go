package natsqueue_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/pkg/worker/natsqueue"
	"github.com/agentloop/agentloop/test/services"
)

func newPresence(t *testing.T, url string, ttl time.Duration) *natsqueue.Presence {
	t.Helper()
	p, err := natsqueue.NewPresence(connect(t, url), natsqueue.PresenceOptions{TTL: ttl, APITimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func alive(t *testing.T, p *natsqueue.Presence) map[string]natsqueue.WorkerInfo {
	t.Helper()
	got, err := p.Alive(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestPresence(t *testing.T) {
	server := services.NATSForTest(t)
	p := newPresence(t, server.URL, time.Second)
	if got := alive(t, p); len(got) != 0 {
		t.Errorf("alive before any beat: %v", got)
	}
	info := natsqueue.WorkerInfo{StartedAt: time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC), Version: "v1", Running: 2, Capacity: 32}
	want := map[string]natsqueue.WorkerInfo{"worker-0": {Running: 3}, "node-1.worker": info, "leaving": {}}
	for id, info := range map[string]natsqueue.WorkerInfo{"worker-0": info, "node-1.worker": info, "leaving": {}} {
		if err := p.Beat(bounded(t), id, info); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Beat(bounded(t), "worker-0", natsqueue.WorkerInfo{Running: 3}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, alive(t, p)); diff != "" {
		t.Errorf("alive (-want +got):\n%s", diff)
	}
	if err := p.Leave(bounded(t), "leaving"); err != nil {
		t.Fatal(err)
	}
	delete(want, "leaving")
	if diff := cmp.Diff(want, alive(t, p)); diff != "" {
		t.Errorf("after one left (-want +got):\n%s", diff)
	}
	// One goes on beating, the other falls silent and expires.
	patience := bounded(t)
	for {
		if err := p.Beat(patience, "worker-0", info); err != nil {
			t.Fatal(err)
		}
		got := alive(t, p)
		if _, ok := got["worker-0"]; !ok {
			t.Fatal("a beating worker expired")
		}
		if _, ok := got["node-1.worker"]; !ok {
			break
		}
	}
	if err := p.Beat(patience, "a worker", info); !errors.Is(err, jetstream.ErrInvalidKey) {
		t.Errorf("a name that is no key: %v", err)
	}
}

// Not knowing who is alive is an error, never an empty answer: runs would be taken from workers that execute them.
func TestPresenceWhenTheServerIsAway(t *testing.T) {
	server := services.NATSForTest(t)
	p := newPresence(t, server.URL, time.Minute)
	if err := p.Beat(bounded(t), "worker-0", natsqueue.WorkerInfo{}); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Alive(bounded(t)); err == nil {
		t.Errorf("alive %v without a server", got)
	}
	if err := p.Beat(bounded(t), "worker-0", natsqueue.WorkerInfo{}); err == nil {
		t.Error("a beat was stored without a server")
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	patience := bounded(t)
	for {
		got, err := p.Alive(patience)
		if _, ok := got["worker-0"]; ok && err == nil {
			return // the beat outlived the kill
		}
		if patience.Err() != nil {
			t.Fatalf("alive %v, %v", got, err)
		}
	}
}

func TestLive(t *testing.T) {
	server := services.NATSForTest(t)
	conn := connect(t, server.URL)
	sender, receiver := natsqueue.NewLive(connect(t, server.URL), nil), natsqueue.NewLive(conn, nil)
	type heard struct {
		cancel natsqueue.Cancel
		agent  string
		event  string
	}
	got := make(chan heard, 10)
	stopCancels, err := receiver.OnCancel(func(c natsqueue.Cancel) { got <- heard{cancel: c} })
	if err != nil {
		t.Fatal(err)
	}
	stopEvents, err := receiver.OnEvent("team-a", "session-1", func(agent string, event json.RawMessage) {
		got <- heard{agent: agent, event: string(event)}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil { // the server knows the subscriptions
		t.Fatal(err)
	}
	cancel := natsqueue.Cancel{Namespace: "team-a", Session: "session-1", RunUID: "run-1"}
	sends := []error{
		sender.SendCancel(cancel),
		sender.Send("team-a", "session-1", "main", map[string]any{"type": "context_budget", "usedPercent": 12}),
		sender.Send("team-a", "session-2", "main", map[string]any{"type": "progress"}), // nobody listens to this one
		sender.SendCancel(natsqueue.Cancel{Namespace: "team-b", Session: "s", RunUID: "run-2"}),
	}
	if err := errors.Join(sends...); err != nil {
		t.Fatal(err)
	}
	want := map[heard]bool{
		{cancel: cancel}: true,
		{cancel: natsqueue.Cancel{Namespace: "team-b", Session: "s", RunUID: "run-2"}}: true,
		{agent: "main", event: `{"type":"context_budget","usedPercent":12}`}:           true,
	}
	patience := bounded(t)
	for range len(want) {
		select {
		case h := <-got:
			if !want[h] {
				t.Errorf("heard %+v", h)
			}
			delete(want, h)
		case <-patience.Done():
			t.Fatalf("not heard: %v", want)
		}
	}
	stopCancels()
	stopEvents()
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := sender.SendCancel(cancel); err != nil {
		t.Fatal(err)
	}
	stopCancels() // once more is no harm

	bad := []error{
		sender.SendCancel(natsqueue.Cancel{Namespace: "team-a", Session: "*", RunUID: "run-1"}),
		sender.Send("team-a", "session-1", "", struct{}{}),
	}
	for i, err := range bad {
		if !errors.Is(err, natsqueue.ErrInvalid) {
			t.Errorf("bad name %d: %v, want ErrInvalid", i, err)
		}
	}
	if err := sender.Send("team-a", "session-1", "main", make([]byte, 1<<20)); err == nil {
		t.Error("a live event of a megabyte was sent")
	}
	if len(got) != 0 {
		t.Errorf("heard %+v after stop", <-got)
	}
}
