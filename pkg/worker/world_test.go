package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// bench is a worker whose queue, source, cancels and model a test drives. It lives in a synctest bubble.
type bench struct {
	t      *testing.T
	log    *memlog.Log
	worker *Worker

	items chan *delivery
	// fetchErr is what the queue answers until it is taken away.
	mu       sync.Mutex
	fetchErr error
	fetches  int
	// load replaces the source, model the answer of the model.
	load  func(ctx context.Context, item Item) (Job, error)
	model func(ctx context.Context, run string) error
	// ends are what the watched runs are ended with, causes what came before they were watched.
	ends   map[string]func(error)
	causes map[string]error
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, log: memlog.New(), items: make(chan *delivery, 16), ends: map[string]func(error){}, causes: map[string]error{}}
	ids := 0
	b.worker = &Worker{
		Options: Options{ID: "w1", MaxConcurrentRuns: 4, Heartbeat: 10 * time.Second, DrainTimeout: 20 * time.Second, RetryDelay: 2 * time.Second},
		Queue:   b, Source: b, Cancels: b, Logger: slog.New(slog.DiscardHandler),
		Deps: agent.Deps{
			Log: b.log, Store: memstore.New(), Now: time.Now, Logger: slog.New(slog.DiscardHandler),
			NewID: func() string { b.mu.Lock(); defer b.mu.Unlock(); ids++; return fmt.Sprintf("exec-%d", ids) },
			Sleep: sleep,
		},
	}
	return b
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// pass lets time go by. There is a bench in bubbles only, whose clock jumps ahead when nobody has anything left to do.
func (b *bench) pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // moves the clock of the bubble, no real time
}

// start runs the worker and returns what stops it and waits for it.
func (b *bench) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.worker.Run(ctx) }()
	return func() {
		b.t.Helper()
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("run: %v", err)
		}
	}
}

// Fetch implements Queue.
func (b *bench) Fetch(ctx context.Context) (Delivery, error) {
	b.mu.Lock()
	err := b.fetchErr
	b.fetches++
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case d := <-b.items:
		return d, nil
	}
}

// Watch implements Cancels.
func (b *bench) Watch(item Item, end func(error)) func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ends[item.RunUID] = end
	if cause := b.causes[item.RunUID]; cause != nil {
		delete(b.causes, item.RunUID)
		end(cause)
	}
	return func() { b.mu.Lock(); defer b.mu.Unlock(); delete(b.ends, item.RunUID) }
}

// cancel ends a run with a cause, also before it is watched.
func (b *bench) cancel(uid string, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if end := b.ends[uid]; end != nil {
		end(cause)
		return
	}
	b.causes[uid] = cause
}

// Load implements Source.
func (b *bench) Load(ctx context.Context, item Item) (Job, error) {
	if b.load != nil {
		return b.load(ctx, item)
	}
	return b.job(item), nil
}

func (b *bench) job(item Item) Job {
	return Job{
		Run: agent.Run{
			Namespace: item.Namespace, Name: item.RunName, UID: item.RunUID, SessionUID: item.SessionUID, AgentKey: item.AgentKey, Operation: "Prompt",
			Prompt: message.Message{Role: message.RoleUser, Content: message.Text("hi")},
			Config: session.RunConfig{
				V: session.ObjectVersion, Operation: "Prompt", Agent: item.AgentKey,
				Model: provider.Model{Provider: "p", API: provider.APIAnthropicMessages, ID: "m", ContextWindow: 32000, MaxTokens: 4096, Thinking: provider.ThinkingNone},
			},
		},
		Deps: agent.Deps{Model: answers{b, item.RunUID}, Tools: none{}},
	}
}

// answers is the model of one run.
type answers struct {
	*bench
	run string
}

func (a answers) Stream(ctx context.Context, req provider.Request, _ func(provider.Delta)) (provider.Response, error) {
	if err := req.Guard([]byte(`{"max_tokens":4096}`)); err != nil {
		return provider.Response{}, &provider.Error{Class: provider.ClassRejected, Err: err}
	}
	if a.model != nil {
		if err := a.model(ctx, a.run); err != nil {
			return provider.Response{}, &provider.Error{Class: provider.ClassCancelled, Err: err}
		}
	}
	return provider.Response{Message: message.Message{
		Role: message.RoleAssistant, StopReason: message.StopStop, Content: message.Blocks(message.Block{Type: message.BlockText, Text: "hello"}),
	}}, nil
}

// none is a run's tools: there are none.
type none struct{}

func (none) Connect(context.Context, *session.ToolSet) (tool.Set, error) { return none{}, nil }
func (none) Definitions() []tool.Definition                              { return nil }
func (none) Close() error                                                { return nil }
func (none) Call(context.Context, tool.Call, func(string)) (tool.Result, error) {
	return tool.Result{}, errors.New("there is no tool")
}

// delivery notes what becomes of an item.
type delivery struct {
	item Item
	mu   sync.Mutex
	// beats are the times of its signs of life, settled what became of it in the end.
	beats   []time.Time
	settled []string
	// onAck is called before an acknowledgement is noted; beat may refuse a sign of life.
	onAck  func()
	beat   func(ctx context.Context) error
	ackErr error
}

func (d *delivery) Item() Item { return d.item }

func (d *delivery) InProgress(ctx context.Context) error {
	d.mu.Lock()
	d.beats = append(d.beats, time.Now())
	d.mu.Unlock()
	if d.beat != nil {
		return d.beat(ctx)
	}
	return nil
}

func (d *delivery) Ack(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if d.onAck != nil {
		d.onAck()
	}
	return d.settle("ack", d.ackErr)
}

func (d *delivery) Nak(ctx context.Context, delay time.Duration) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return d.settle("nak "+delay.String(), nil)
}

func (d *delivery) settle(what string, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled = append(d.settled, what)
	return err
}

func (d *delivery) fate() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.settled...)
}

func (d *delivery) alive() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.beats)
}

// put queues a run of a session of its own.
func (b *bench) put(uid string) *delivery {
	d := &delivery{item: Item{
		Namespace: "ns", RunUID: uid, RunName: "run-" + uid, SessionUID: "session-" + uid, SessionName: "chat-" + uid, AgentKey: runevent.MainAgent, Kind: KindRun,
	}}
	b.items <- d
	return d
}

// last is the last event of a run's session: its type, or nothing.
func (b *bench) last(uid string) runevent.Event {
	b.t.Helper()
	record, err := b.log.Last(context.Background(), runevent.Stream{Class: runevent.ClassRun, Namespace: "ns", Session: "session-" + uid, Key: runevent.MainAgent})
	if err != nil {
		b.t.Fatal(err)
	}
	if record.Raw == nil {
		return runevent.Event{}
	}
	entry, err := runevent.Decode(record.Raw)
	if err != nil {
		b.t.Fatal(err)
	}
	return entry.Event
}

// bubble runs a test under a clock of its own.
func bubble(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newBench(t)) })
}
