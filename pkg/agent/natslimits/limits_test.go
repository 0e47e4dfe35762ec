package natslimits_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/agent/natslimits"
	"github.com/agentloop/agentloop/test/services"
)

// workers are several instances at one server, each with a connection and a clock of its own: one is right, one ten minutes
// fast, one ten minutes slow, and so on.
func workers(t *testing.T, url string, n int, opts natslimits.Options) []*natslimits.Limits {
	t.Helper()
	out := make([]*natslimits.Limits, n)
	for i := range out {
		opts.Worker = fmt.Sprint("w", i)
		skew := time.Duration((i+1)%3-1) * 10 * time.Minute
		opts.Now = func() time.Time { return time.Now().Add(skew) }
		out[i] = open(t, url, opts)
		t.Cleanup(out[i].Close)
	}
	return out
}

func open(t *testing.T, url string, opts natslimits.Options) *natslimits.Limits {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	opts.Logger = slog.New(slog.DiscardHandler)
	l, err := natslimits.New(nc, opts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// provider is what requests go to: it counts them.
type provider struct {
	mu        sync.Mutex
	now, most int
	starts    []start
}

type start struct {
	at     time.Time
	tokens int64
}

func (p *provider) begin(tokens int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now++
	p.most = max(p.most, p.now)
	p.starts = append(p.starts, start{time.Now(), tokens})
}

func (p *provider) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now--
}

// most in any window of that length, by weight.
func (p *provider) within(window time.Duration, weight func(start) int64) (most int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.starts {
		sum := int64(0)
		for j := i; j >= 0 && p.starts[i].at.Sub(p.starts[j].at) < window; j-- {
			sum += weight(p.starts[j])
		}
		most = max(most, sum)
	}
	return most
}

// storm sends requests through all workers, several at a time at each, until so many were sent.
func storm(t *testing.T, all []*natslimits.Limits, each, requests int, send func(i int, at *natslimits.Limits) error) time.Duration {
	t.Helper()
	var group errgroup.Group
	next := make(chan int, requests)
	for i := range requests {
		next <- i
	}
	close(next)
	began := time.Now()
	for _, at := range all {
		for range each {
			group.Go(func() error {
				for i := range next {
					if err := send(i, at); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// TestConcurrencyIsHeld lets no more requests be under way at once than allowed, over three workers, and makes use of what is
// allowed. Three servers answer a writer that was too late otherwise than one does.
func TestConcurrencyIsHeld(t *testing.T) {
	t.Run("one server", func(t *testing.T) { concurrencyIsHeld(t, services.NATSForTest(t).URL, 1) })
	t.Run("three servers", func(t *testing.T) { concurrencyIsHeld(t, services.ClusterForTest(t).URL(), 3) })
}

func concurrencyIsHeld(t *testing.T, url string, replicas int) {
	all := workers(t, url, 3, natslimits.Options{Replicas: replicas})
	ctx := bounded(t)
	quota := agent.Quota{Namespace: "team.a", Provider: "uid-1", Generation: 1, Concurrent: 5}
	for _, at := range all { // three servers may take seconds to choose a leader for the bucket, which is made once
		release, err := at.Acquire(ctx, agent.Ask{Quota: quota, Tokens: 10})
		if err != nil {
			t.Fatal(err)
		}
		release()
	}
	var p provider
	const requests, takes = 100, 100 * time.Millisecond
	took := storm(t, all, 10, requests, func(_ int, at *natslimits.Limits) error {
		release, err := at.Acquire(ctx, agent.Ask{Quota: quota, Tokens: 10})
		if err != nil {
			return err
		}
		p.begin(10)
		timer := time.NewTimer(takes)
		<-timer.C
		p.end()
		release()
		release()
		return nil
	})
	if p.most != 5 {
		t.Errorf("%d requests were under way at once, want 5", p.most)
	}
	if ideal := requests / 5 * takes; took > 2*ideal {
		t.Errorf("took %s, %s would do", took, ideal)
	}
}

// TestRatesAreHeld lets no more requests and tokens start within any window than allowed, over three workers whose clocks are
// ten minutes apart, and no less than 95 % of it.
func TestRatesAreHeld(t *testing.T) {
	const window = 2 * time.Second
	cases := map[string]struct {
		quota  agent.Quota
		tokens func(i int) int64
		weight func(start) int64
		limit  int64
	}{
		"requests": {quota: agent.Quota{Requests: 60}, tokens: func(int) int64 { return 1 }, weight: func(start) int64 { return 1 }, limit: 60},
		"tokens": {
			quota: agent.Quota{Tokens: 60_000}, tokens: func(i int) int64 { return int64(400 + 200*(i%7)) },
			weight: func(s start) int64 { return s.tokens }, limit: 60_000,
		},
	}
	server := services.NATSForTest(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			all := workers(t, server.URL, 3, natslimits.Options{Window: window})
			ctx := bounded(t)
			tc.quota.Namespace, tc.quota.Provider, tc.quota.Generation = "ns", name, 1
			var p provider
			storm(t, all, 20, 240, func(i int, at *natslimits.Limits) error {
				release, err := at.Acquire(ctx, agent.Ask{Quota: tc.quota, Tokens: tc.tokens(i)})
				if err != nil {
					return err
				}
				p.begin(tc.tokens(i))
				p.end()
				release()
				return nil
			})
			// A request starts a moment after its turn was written down: that much less than a window is a window.
			most := p.within(window-window/20, tc.weight)
			if float64(most) > 1.05*float64(tc.limit) || float64(most) < 0.95*float64(tc.limit) {
				t.Errorf("at most %d in a window, want %d within 5 %%", most, tc.limit)
			}
			sum := int64(0)
			first, last := p.starts[0].at, p.starts[0].at
			for _, s := range p.starts {
				sum += tc.weight(s)
				if s.at.After(last) {
					last = s.at
				}
			}
			// The first window's worth goes at once, the rest one window's worth a window.
			windows := float64(sum) / float64(tc.limit)
			if spent := last.Sub(first); spent > time.Duration((windows)*1.15*float64(window)) {
				t.Errorf("%.1f windows' worth took %s", windows, spent)
			}
		})
	}
}

// held takes a turn and fails the test if there is none soon.
func held(t *testing.T, at *natslimits.Limits, quota agent.Quota) func() {
	t.Helper()
	release, err := at.Acquire(bounded(t), agent.Ask{Quota: quota})
	if err != nil {
		t.Fatal(err)
	}
	return release
}

// TestGoneWorkers gives the turns of a worker back that was killed, within its lease and not before, and at once those of
// one that ended.
func TestGoneWorkers(t *testing.T) {
	server := services.NATSForTest(t)
	const lease = 2 * time.Second
	quota := agent.Quota{Namespace: "ns", Provider: "uid", Generation: 1, Concurrent: 1}
	nc, err := nats.Connect(server.URL, nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	killed, err := natslimits.New(nc, natslimits.Options{Worker: "killed", Lease: lease, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(killed.Close)
	held(t, killed, quota)
	other := open(t, server.URL, natslimits.Options{Worker: "other", Lease: lease})
	t.Cleanup(other.Close)
	if _, err := other.Acquire(bounded(t), agent.Ask{Quota: quota, AtOnce: true}); !errors.Is(err, agent.ErrNoTurn) {
		t.Errorf("%v, want %v", err, agent.ErrNoTurn)
	}
	// While it lives it keeps its turn, for longer than a lease.
	waiting, cancel := context.WithTimeout(t.Context(), lease+lease/2)
	defer cancel()
	if _, err := other.Acquire(waiting, agent.Ask{Quota: quota}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a live worker's turn was given away: %v", err)
	}
	nc.Close() // from here on it says nothing
	gone := time.Now()
	release := held(t, other, quota)
	if after := time.Since(gone); after < lease/3 || after > lease+2*time.Second {
		t.Errorf("the turn came back after %s, the lease is %s", after, lease)
	}
	third := open(t, server.URL, natslimits.Options{Worker: "third", Lease: time.Hour})
	release()
	held(t, third, quota)
	third.Close()
	held(t, other, quota)()
	if _, err := third.Acquire(bounded(t), agent.Ask{Quota: quota}); !errors.Is(err, natslimits.ErrClosed) {
		t.Errorf("%v, want %v", err, natslimits.ErrClosed)
	}
}

// stallable is a connection that can stop to carry anything, as that of a process does that is not scheduled.
type stallable struct {
	net.Conn
	gate *sync.RWMutex
}

func (s *stallable) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.gate.RLock()
	defer s.gate.RUnlock()
	return n, err
}

func (s *stallable) Write(p []byte) (int, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	return s.Conn.Write(p)
}

// Dial implements nats.CustomDialer.
func (s *stallable) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return &stallable{conn, s.gate}, err
}

// TestStalledWorker gives the turn of a worker that stalls to another one, and counts the request that it still has under
// way once it wakes up: nobody else gets a turn until there is room.
func TestStalledWorker(t *testing.T) {
	server := services.NATSForTest(t)
	const lease = time.Second
	quota := agent.Quota{Namespace: "ns", Provider: "uid", Generation: 1, Concurrent: 1}
	gate := &sync.RWMutex{}
	nc, err := nats.Connect(server.URL, nats.SetCustomDialer(&stallable{gate: gate}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	stalled, err := natslimits.New(nc, natslimits.Options{Worker: "stalled", Lease: lease, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stalled.Close)
	others := workers(t, server.URL, 2, natslimits.Options{Lease: lease})
	first := held(t, stalled, quota)
	gate.Lock()
	second := held(t, others[0], quota)
	gate.Unlock()
	// The stalled one asks for another turn: when it is refused, what it holds is in the bucket again.
	if _, err := stalled.Acquire(bounded(t), agent.Ask{Quota: quota, AtOnce: true}); !errors.Is(err, agent.ErrNoTurn) {
		t.Errorf("%v, want %v", err, agent.ErrNoTurn)
	}
	second()
	waiting, cancel := context.WithTimeout(t.Context(), 2*lease)
	defer cancel()
	if _, err := others[1].Acquire(waiting, agent.Ask{Quota: quota}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a turn although the request of the worker that had stalled is under way: %v", err)
	}
	first()
	held(t, others[1], quota)()
}

// TestServerAway keeps everybody waiting while the server is stopped, and goes on when it is there again.
func TestServerAway(t *testing.T) {
	server := services.NATSForTest(t)
	quota := agent.Quota{Namespace: "ns", Provider: "uid", Generation: 1, Concurrent: 1}
	all := workers(t, server.URL, 2, natslimits.Options{Lease: time.Second, APITimeout: time.Second})
	release := held(t, all[0], quota)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	waiting, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := all[1].Acquire(waiting, agent.Ask{Quota: quota}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request got a turn that nobody could write down: %v", err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := make(chan func(), 1)
	go func() {
		release, err := all[1].Acquire(t.Context(), agent.Ask{Quota: quota})
		if err == nil {
			got <- release
		}
	}()
	release()
	select {
	case release := <-got:
		release()
	case <-time.After(30 * time.Second):
		t.Error("the turn that was given back is not given to the next one")
	}
}

// TestLimitsChange takes new limits into account for requests that wait already, and lets them go when limits are removed.
func TestLimitsChange(t *testing.T) {
	server := services.NATSForTest(t)
	all := workers(t, server.URL, 3, natslimits.Options{})
	var mu sync.Mutex
	quota := agent.Quota{Namespace: "ns", Provider: "uid", Generation: 1, Concurrent: 1}
	current := func(context.Context) (agent.Quota, error) {
		mu.Lock()
		defer mu.Unlock()
		return quota, nil
	}
	held(t, all[0], quota)
	granted := make(chan struct{}, 10)
	first := quota
	for i := range 6 {
		go func() {
			if _, err := all[i%3].Acquire(t.Context(), agent.Ask{Quota: first, Current: current}); err == nil {
				granted <- struct{}{}
			}
		}()
	}
	expect := func(n int) {
		t.Helper()
		for range n {
			select {
			case <-granted:
			case <-time.After(20 * time.Second):
				t.Fatal("the new limit does not hold")
			}
		}
		select {
		case <-granted:
			t.Fatal("more than the new limit")
		case <-time.After(300 * time.Millisecond):
		}
	}
	expect(0)
	mu.Lock()
	quota.Generation, quota.Concurrent = 2, 4
	mu.Unlock()
	expect(3)
	mu.Lock()
	quota.Generation, quota.Concurrent = 3, 0
	mu.Unlock()
	expect(3)
}

// TestFirstComeFirstServed gives turns in the order in which the requests came, also over two workers, and tells those that
// have to wait.
func TestFirstComeFirstServed(t *testing.T) {
	server := services.NATSForTest(t)
	all := workers(t, server.URL, 2, natslimits.Options{Patience: 50 * time.Millisecond})
	quota := agent.Quota{Namespace: "ns", Provider: "uid", Generation: 1, Concurrent: 1}
	release := held(t, all[0], quota)
	order := make(chan int, 8)
	for i := range 8 {
		waits := make(chan struct{})
		go func() {
			release, err := all[i%2].Acquire(t.Context(), agent.Ask{Quota: quota, Waits: func() error { close(waits); return nil }})
			if err == nil {
				order <- i
				release()
			}
		}()
		select {
		case <-waits: // it stands in the line by now
		case <-time.After(20 * time.Second):
			t.Fatal("a request that waits does not say so")
		}
	}
	release()
	for i := range 8 {
		select {
		case got := <-order:
			if got != i {
				t.Errorf("request %d goes in place of %d", got, i)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("a request does not get its turn")
		}
	}
	refused := errors.New("not recorded")
	release = held(t, all[0], quota)
	if _, err := all[1].Acquire(bounded(t), agent.Ask{Quota: quota, Waits: func() error { return refused }}); !errors.Is(err, refused) {
		t.Errorf("%v, want %v", err, refused)
	}
	release()
	held(t, all[0], quota)()
}

// TestPostpone keeps all workers back that share a provider, and nobody else.
func TestPostpone(t *testing.T) {
	server := services.NATSForTest(t)
	all := workers(t, server.URL, 3, natslimits.Options{})
	quota := agent.Quota{Namespace: "ns", Provider: "uid", Generation: 1, Requests: 1000}
	held(t, all[0], quota)()
	told := time.Now()
	all[0].Postpone(t.Context(), quota, 2*time.Second)
	held(t, all[0], quota)() // the pause is in the bucket before a turn of the worker that heard of it
	if after := time.Since(told); after < 1900*time.Millisecond {
		t.Errorf("the worker that was told goes after %s", after)
	}
	told = time.Now()
	all[1].Postpone(t.Context(), quota, 2*time.Second)
	held(t, all[1], quota)()
	other := quota
	other.Namespace = "other"
	held(t, all[0], other)()
	held(t, all[2], quota)()
	if after := time.Since(told); after < 1900*time.Millisecond || after > 10*time.Second {
		t.Errorf("the others go after %s", after)
	}
}
