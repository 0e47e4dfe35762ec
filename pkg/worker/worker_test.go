package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// TestSettle tells what becomes of an item for each way that its run can go.
func TestSettle(t *testing.T) {
	ends := func(cause error) func(*bench) {
		return func(b *bench) {
			b.load = func(_ context.Context, item Item) (Job, error) {
				job := b.job(item)
				job.Ending = cause
				return job, nil
			}
		}
	}
	loads := func(err error) func(*bench) {
		return func(b *bench) { b.load = func(context.Context, Item) (Job, error) { return Job{}, err } }
	}
	cases := map[string]struct {
		setup func(*bench)
		want  string
		event runevent.Type
	}{
		"a run that finishes":                {want: "ack", event: runevent.TypeRunFinished},
		"a run that is to be cancelled":      {setup: ends(agent.ErrCancelled), want: "ack", event: runevent.TypeRunCancelled},
		"a run whose session is deleted":     {setup: ends(agent.ErrSessionDeleted), want: "ack", event: runevent.TypeRunFailed},
		"a run whose time is up":             {setup: ends(agent.ErrDeadline), want: "ack", event: runevent.TypeRunFailed},
		"a run that is gone":                 {setup: loads(ErrGone), want: "ack"},
		"a run that is not ready":            {setup: loads(&NotReadyError{Reason: "SecretNotFound"}), want: "nak 2s"},
		"an API server that does not answer": {setup: loads(errors.New("unavailable")), want: "nak 2s"},
		"a source that panics":               {setup: func(b *bench) { b.load = func(context.Context, Item) (Job, error) { panic("content") } }, want: "nak 2s"},
		"a model adapter that panics": {setup: func(b *bench) {
			b.model = func(context.Context, string) error { return any(b).(error) } // panics with a runtime error
		}, want: "nak 2s", event: runevent.TypeRecord},
		"a run that another worker took over": {setup: func(b *bench) { b.model = b.takeOver }, event: runevent.TypeRunStarted},
		"a run that was not begun in time": {
			setup: func(b *bench) {
				b.load = func(_ context.Context, item Item) (Job, error) {
					job := b.job(item)
					job.Run.StartBy = time.Now().Add(-time.Second)
					return job, nil
				}
			}, want: "ack",
		},
		"a run that cannot be executed": {
			setup: func(b *bench) {
				b.load = func(_ context.Context, item Item) (Job, error) {
					job := b.job(item)
					job.Run.Refusal = &agent.Failure{Reason: "InvalidInput", Message: "no prompt"}
					return job, nil
				}
			}, want: "ack", event: runevent.TypeRunFailed,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				if tc.setup != nil {
					tc.setup(b)
				}
				d := b.put("u1")
				d.onAck = func() {
					if got := b.last("u1").Type; got != tc.event {
						t.Errorf("acknowledged behind %q, want %q", got, tc.event)
					}
				}
				stop := b.start()
				synctest.Wait()
				stop()
				var want []string
				if tc.want != "" {
					want = []string{tc.want}
				}
				if diff := cmp.Diff(want, d.fate()); diff != "" {
					t.Errorf("item (-want +got):\n%s", diff)
				}
				if got := b.last("u1").Type; got != tc.event {
					t.Errorf("last event %q, want %q", got, tc.event)
				}
				if len(b.ends) != 0 || b.worker.Running() != 0 {
					t.Errorf("%d watches and %d runs are left", len(b.ends), b.worker.Running())
				}
			})
		})
	}
}

// takeOver appends to the run's stream as another worker does.
func (b *bench) takeOver(ctx context.Context, uid string) error {
	stream := runevent.Stream{Class: runevent.ClassRun, Namespace: "ns", Session: "session-" + uid, Key: runevent.MainAgent}
	record, err := b.log.Last(ctx, stream)
	if err != nil {
		return err
	}
	writer := runevent.NewWriter(b.log, runevent.WriterConfig{Stream: stream, Head: record.Head, Now: time.Now})
	_, _, err = writer.Append(ctx, runevent.Event{Type: runevent.TypeRunStarted, Attempt: 2, Worker: "w2", Evidence: runevent.Evidence{AgentID: "main", AgentRunID: uid}})
	return err
}

// TestAckFails leaves the item to the queue, which delivers it again.
func TestAckFails(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		d := b.put("u1")
		d.ackErr = errors.New("no answer")
		stop := b.start()
		synctest.Wait()
		again := b.put("u1")
		synctest.Wait()
		stop()
		if diff := cmp.Diff([]string{"ack"}, again.fate()); diff != "" {
			t.Errorf("the item that came again (-want +got):\n%s", diff)
		}
		if got := b.last("u1"); got.Type != runevent.TypeRunFinished {
			t.Errorf("last event %+v", got)
		}
	})
}

// TestCancelCause passes on why a run is to end, whenever that is said.
func TestCancelCause(t *testing.T) {
	overdue := &agent.Failure{Reason: "QueueDeadlineExceeded", Message: "the run was ended before it was seen to begin"}
	cases := map[string]struct {
		cause  error
		event  runevent.Type
		reason string
	}{
		"a cancel":                               {agent.ErrCancelled, runevent.TypeRunCancelled, "Cancelled"},
		"a deleted session":                      {agent.ErrSessionDeleted, runevent.TypeRunFailed, "SessionDeleted"},
		"a run that its resource shows as ended": {overdue, runevent.TypeRunFailed, "QueueDeadlineExceeded"},
	}
	for name, tc := range cases {
		t.Run(name+", during a model call", func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				b.model = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
				d := b.put("u1")
				stop := b.start()
				synctest.Wait()
				b.cancel("u1", tc.cause)
				synctest.Wait()
				if got := b.last("u1"); got.Type != tc.event || got.Reason != tc.reason {
					t.Errorf("last event %s %s, want %s %s", got.Type, got.Reason, tc.event, tc.reason)
				}
				if diff := cmp.Diff([]string{"ack"}, d.fate()); diff != "" {
					t.Errorf("item (-want +got):\n%s", diff)
				}
				stop()
			})
		})
		t.Run(name+", while the run is read", func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				read := make(chan struct{})
				b.load = func(_ context.Context, item Item) (Job, error) { <-read; return b.job(item), nil }
				d := b.put("u1")
				stop := b.start()
				b.cancel("u1", tc.cause)
				synctest.Wait()
				close(read)
				synctest.Wait()
				if got := b.last("u1"); got.Reason != tc.reason && (!errors.Is(tc.cause, overdue) || got.Type != "") {
					t.Errorf("last event %s %s, want %s %s", got.Type, got.Reason, tc.event, tc.reason)
				}
				if diff := cmp.Diff([]string{"ack"}, d.fate()); diff != "" {
					t.Errorf("item (-want +got):\n%s", diff)
				}
				stop()
			})
		})
	}
}

// TestHeartbeat tells the queue that the worker is at work, as long as it is.
func TestHeartbeat(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.model = func(ctx context.Context, _ string) error { return sleep(ctx, 35*time.Second) }
		d := b.put("u1")
		d.beat = func(context.Context) error { return errors.New("no answer") }
		began := time.Now()
		stop := b.start()
		b.pass(time.Minute)
		stop()
		var beats []time.Duration
		for _, at := range d.beats {
			beats = append(beats, at.Sub(began))
		}
		if diff := cmp.Diff([]time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}, beats); diff != "" {
			t.Errorf("signs of life (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"ack"}, d.fate()); diff != "" {
			t.Errorf("item (-want +got):\n%s", diff)
		}
	})
}

// TestWaitingRunsTakeOneGoroutine holds a run that waits for its model to the goroutine that executes it: workers have many.
func TestWaitingRunsTakeOneGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		const runs = 12
		b.worker.Options.MaxConcurrentRuns = runs
		b.model = func(ctx context.Context, _ string) error { return sleep(ctx, 25*time.Second) }
		stop := b.start()
		b.pass(time.Second)
		before := runtime.NumGoroutine()
		for n := range runs {
			b.put(fmt.Sprintf("u%d", n))
		}
		b.pass(15 * time.Second) // past the first heartbeat
		if running := b.worker.Running(); running != runs {
			t.Errorf("%d runs are executed, want %d", running, runs)
		}
		if more := runtime.NumGoroutine() - before; more > runs {
			stacks := make([]byte, 1<<16)
			t.Errorf("%d goroutines for %d runs:\n%s", more, runs, stacks[:runtime.Stack(stacks, true)])
		}
		stop()
	})
}

// TestCancelWhileTheQueueIsAway shows that a sign of life that is not answered keeps neither a cancel nor the end away.
func TestCancelWhileTheQueueIsAway(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.model = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
		d := b.put("u1")
		d.beat = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		stop := b.start()
		b.pass(11 * time.Second)
		b.cancel("u1", agent.ErrCancelled)
		synctest.Wait()
		if got := b.last("u1"); got.Type != runevent.TypeRunCancelled {
			t.Errorf("last event %s, want the cancel", got.Type)
		}
		if diff := cmp.Diff([]string{"ack"}, d.fate()); diff != "" {
			t.Errorf("item (-want +got):\n%s", diff)
		}
		stop()
	})
}

// TestDrain lets runs finish for a while, hands back those that do not, and takes no new ones.
func TestDrain(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		takes := map[string]time.Duration{"short": 15 * time.Second, "long": time.Hour}
		b.model = func(ctx context.Context, uid string) error { return sleep(ctx, takes[uid]) }
		b.load = func(ctx context.Context, item Item) (Job, error) {
			if item.RunUID == "unread" {
				<-ctx.Done()
				return Job{}, ctx.Err()
			}
			return b.job(item), nil
		}
		short, long, unread := b.put("short"), b.put("long"), b.put("unread")
		stop := b.start()
		synctest.Wait()
		began := time.Now()
		stop()
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("drained for %s, want 20s", took)
		}
		for want, d := range map[string]*delivery{"ack": short, "nak 0s": long} {
			if diff := cmp.Diff([]string{want}, d.fate()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", d.item.RunUID, diff)
			}
		}
		if diff := cmp.Diff([]string{"nak 0s"}, unread.fate()); diff != "" {
			t.Errorf("the run that was not read yet (-want +got):\n%s", diff)
		}
		switch got := b.last("long").Type; got {
		case "", runevent.TypeRunFinished, runevent.TypeRunFailed, runevent.TypeRunCancelled:
			t.Errorf("a run that is handed back ends with %q, want it open", got)
		}
		if b.worker.Running() != 0 {
			t.Errorf("%d runs are left", b.worker.Running())
		}
	})
}

// TestStopTakesNothing leaves what comes while the worker drains to others.
func TestStopTakesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.model = func(ctx context.Context, _ string) error { return sleep(ctx, 5*time.Second) }
		b.put("u1")
		stop := b.start()
		synctest.Wait()
		go func() {
			b.pass(time.Second)
			b.put("late")
		}()
		stop()
		if len(b.items) != 1 {
			t.Error("a draining worker took an item")
		}
	})
}

// TestConcurrency executes no more runs at once than allowed, and fetches none that it has no room for.
func TestConcurrency(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.worker.Options.MaxConcurrentRuns = 2
		b.model = func(ctx context.Context, _ string) error { return sleep(ctx, 5*time.Second) }
		var all []*delivery
		for _, uid := range []string{"a", "b", "c", "d", "e"} {
			all = append(all, b.put(uid))
		}
		stop := b.start()
		for _, want := range []struct{ running, waiting int }{{2, 3}, {2, 1}, {1, 0}, {0, 0}} {
			synctest.Wait()
			if b.worker.Running() != want.running || len(b.items) != want.waiting {
				t.Errorf("%d runs are executed and %d wait, want %d and %d", b.worker.Running(), len(b.items), want.running, want.waiting)
			}
			b.pass(5*time.Second + time.Millisecond)
		}
		stop()
		for _, d := range all {
			if diff := cmp.Diff([]string{"ack"}, d.fate()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", d.item.RunUID, diff)
			}
		}
	})
}

// TestQueueIsAway tries again without running hot.
func TestQueueIsAway(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.fetchErr = errors.New("no responders")
		stop := b.start()
		b.pass(10*time.Second + time.Millisecond)
		synctest.Wait()
		if b.fetches != 11 {
			t.Errorf("%d tries in 10 s, want 11", b.fetches)
		}
		b.mu.Lock()
		b.fetchErr = nil
		b.mu.Unlock()
		d := b.put("u1")
		b.pass(2 * time.Second)
		stop()
		if diff := cmp.Diff([]string{"ack"}, d.fate()); diff != "" {
			t.Errorf("item (-want +got):\n%s", diff)
		}
	})
}

// TestDeliveredAgain goes on with a run that comes again while it is executed here, and settles what it holds then.
func TestDeliveredAgain(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.model = func(ctx context.Context, _ string) error { return sleep(ctx, 25*time.Second) }
		first := b.put("u1")
		stop := b.start()
		b.pass(15 * time.Second)
		second := b.put("u1")
		b.pass(time.Minute)
		stop()
		if len(first.fate()) != 0 || first.alive() != 1 {
			t.Errorf("the earlier delivery: %v after %d signs of life, want none after 1", first.fate(), first.alive())
		}
		if diff := cmp.Diff([]string{"ack"}, second.fate()); diff != "" || second.alive() != 1 {
			t.Errorf("the later delivery after %d signs of life, want 1 (-want +got):\n%s", second.alive(), diff)
		}
		if got := b.last("u1"); got.Type != runevent.TypeRunFinished {
			t.Errorf("last event %s", got.Type)
		}
	})
}

// TestOneFailureTouchesNoOther lets a run panic beside another one.
func TestOneFailureTouchesNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.model = func(ctx context.Context, uid string) error {
			if uid == "bad" {
				panic("content")
			}
			return sleep(ctx, time.Second)
		}
		good, bad := b.put("good"), b.put("bad")
		stop := b.start()
		b.pass(2 * time.Second)
		stop()
		if diff := cmp.Diff([]string{"ack"}, good.fate()); diff != "" {
			t.Errorf("the good run (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"nak 2s"}, bad.fate()); diff != "" {
			t.Errorf("the bad run (-want +got):\n%s", diff)
		}
	})
}
