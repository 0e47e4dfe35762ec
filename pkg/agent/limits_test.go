package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// fakeLimits is a line with as many places as tests say, which counts what is asked for and what is given back.
type fakeLimits struct {
	mu sync.Mutex
	// free is how many turns may be held at once, delays how long each ask waits before it is looked at.
	free   int
	delays []time.Duration
	quota  Quota
	// unread is how often the quota cannot be read.
	unread    int
	asks      []Ask
	held      int
	released  int
	postponed []time.Duration
}

func newFakeLimits() *fakeLimits {
	return &fakeLimits{free: 1, quota: Quota{Namespace: "ns", Provider: "uid", Concurrent: 1}}
}

func (f *fakeLimits) allowed(context.Context, provider.Model) (Quota, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unread > 0 {
		f.unread--
		return Quota{}, errors.New("away")
	}
	return f.quota, nil
}

func (f *fakeLimits) Acquire(ctx context.Context, ask Ask) (func(), error) {
	f.mu.Lock()
	f.asks = append(f.asks, ask)
	var delay time.Duration
	if len(f.delays) > 0 {
		delay, f.delays = f.delays[0], f.delays[1:]
	}
	f.mu.Unlock()
	if delay > 0 && ask.AtOnce {
		return nil, ErrNoTurn
	}
	if delay > 0 {
		if err := ask.Waits(); err != nil {
			return nil, err
		}
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held == f.free {
		return nil, errors.New("a request asks for a turn although the run holds the only one")
	}
	f.held++
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.held--
		f.released++
	}), nil
}

func (f *fakeLimits) Postpone(_ context.Context, _ Quota, wait time.Duration) {
	f.postponed = append(f.postponed, wait)
}

// check says that every turn was given back.
func (f *fakeLimits) check(t *testing.T, turns int) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held != 0 || f.released != turns {
		t.Errorf("%d turns are held after the end and %d were given back, want none and %d", f.held, f.released, turns)
	}
}

// TestEveryRequestTakesATurn asks for a turn before each request is captured, with its estimate, and gives it back when the
// response has ended: the next request of the same run gets it.
func TestEveryRequestTakesATurn(t *testing.T) {
	w := newWorld(t)
	w.limits = newFakeLimits()
	w.tools.definitions = []tool.Definition{defined("read", repeatable)}
	w.model.replies = []reply{calls("read"), says("done")}
	w.chaos = func(point string) {
		if held := w.limits.held; held != 1 && (point == "context.captured" || point == "guard.passed") {
			t.Errorf("%d turns are held at %s", held, point)
		} else if held != 0 && (point == "model.completed" || point == "state.committed") {
			t.Errorf("%d turns are held at %s", held, point)
		}
	}
	if got, err := w.execute(context.Background(), w.run("u1", "go")); err != nil || got != completed {
		t.Fatalf("%+v, %v", got, err)
	}
	w.limits.check(t, 2)
	for i, ask := range w.limits.asks {
		if ask.Tokens <= 0 || ask.AtOnce || ask.Quota != w.limits.quota {
			t.Errorf("ask %d: %+v", i, ask)
		}
	}
	if slices.Contains(w.events(), string(runevent.KindRequestWaiting)) {
		t.Errorf("events %v: nothing waited", w.events())
	}
}

// TestWaitingStandsInTheLog records a wait before the request is captured, and nothing of the request until then.
func TestWaitingStandsInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits = newFakeLimits()
		w.limits.delays = []time.Duration{5 * time.Second}
		w.limits.unread = 2
		w.model.replies = []reply{says("done")}
		w.chaos = func(point string) {
			if state, _ := w.state(); point == "request.waiting" && (state.Run.Phase != session.PhaseRateLimited || state.Run.Captured != nil) {
				t.Errorf("while it waits: phase %s, open request %v", state.Run.Phase, state.Run.Captured)
			}
		}
		if got, err := w.execute(t.Context(), w.run("u1", "go")); err != nil || got != completed {
			t.Fatalf("%+v, %v", got, err)
		}
		w.checkTrace(t, []string{"run.started", "message.user", "request.waiting", "context.captured", "body", "model.completed", "state.committed", "run.finished"},
			[]string{"user", "assistant:stop"}, answers(1))
		w.limits.check(t, 1)
	})
}

// TestEndsWhileItWaits cancels, hands back and overruns runs that wait for their turn: nothing was sent, nothing is open, and
// the next worker of one that was handed back starts the request anew.
func TestEndsWhileItWaits(t *testing.T) {
	cases := map[string]struct {
		cause    error
		deadline int64
		want     Result
		wantErr  error
		events   []string
	}{
		"a cancel":              {cause: ErrCancelled, want: Result{runevent.TypeRunCancelled, ReasonCancelled}, events: []string{"state.committed", "run.cancelled"}},
		"the session's end":     {cause: ErrSessionDeleted, want: Result{runevent.TypeRunFailed, ReasonSessionDeleted}, events: []string{"state.committed", "run.failed"}},
		"its deadline":          {deadline: 30, want: Result{runevent.TypeRunFailed, ReasonDeadline}, events: []string{"state.committed", "run.failed"}},
		"a worker that is told": {cause: ErrHandBack, wantErr: ErrHandBack, events: []string{"run.handedback"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.clock.now = time.Now()
				w.limits = newFakeLimits()
				w.limits.delays = []time.Duration{time.Hour}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				w.chaos = func(point string) {
					if point == "request.waiting" && tc.cause != nil {
						cancel(tc.cause)
					}
				}
				run := w.run("u1", "go")
				run.Config.Limits.ActiveDeadlineSeconds = tc.deadline
				got, err := w.execute(ctx, run)
				if got != tc.want || !errors.Is(err, tc.wantErr) {
					t.Errorf("%+v, %v; want %+v, %v", got, err, tc.want, tc.wantErr)
				}
				if diff := cmp.Diff(append([]string{"run.started", "message.user", "request.waiting"}, tc.events...), w.events()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				if len(w.model.requests) != 0 {
					t.Error("a request was sent")
				}
				w.limits.check(t, 0)
				if tc.wantErr == nil {
					return
				}
				w.model.replies, w.chaos = []reply{says("done")}, nil
				if got, err := w.execute(t.Context(), w.run("u1", "go")); err != nil || got != completed {
					t.Errorf("the next worker: %+v, %v", got, err)
				}
				w.limits.check(t, 1)
			})
		})
	}
}

// TestWaitingWorkerIsFencedOut ends the wait of a worker whose run another one has taken over.
func TestWaitingWorkerIsFencedOut(t *testing.T) {
	w := newWorld(t)
	w.limits = newFakeLimits()
	w.limits.delays = []time.Duration{time.Hour}
	w.chaos = func(point string) {
		if point != "prompt.accepted" {
			return
		}
		other := *w
		other.chaos, other.limits, other.model = nil, nil, &scriptedModel{replies: []reply{says("from the other")}}
		if got, err := other.execute(context.Background(), w.run("u1", "go")); err != nil || got != completed {
			t.Errorf("the other worker: %+v, %v", got, err)
		}
	}
	if _, err := w.execute(context.Background(), w.run("u1", "go")); !errors.Is(err, ErrLost) {
		t.Errorf("%v, want %v", err, ErrLost)
	}
	w.limits.check(t, 0)
}

// TestTurnsAreGivenBack gives a turn back whatever comes of the request, also when this program has a fault.
func TestTurnsAreGivenBack(t *testing.T) {
	panics := func(context.Context, provider.Request, func(provider.Delta)) (provider.Response, error) {
		panic("a fault")
	}
	cases := map[string]struct {
		replies []reply
		body    string
		turns   int
		panics  bool
	}{
		"it is answered":                {replies: []reply{says("done")}, turns: 1},
		"it fails, and is sent again":   {replies: []reply{fails(provider.ClassOverloaded), fails(provider.ClassTransient), says("done")}, turns: 3},
		"it fails for good":             {replies: []reply{fails(provider.ClassAuth)}, turns: 1},
		"it is refused by the guard":    {body: `{"max_tokens":999999}`, turns: 1},
		"the program has a fault there": {replies: []reply{panics}, turns: 1, panics: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.limits = newFakeLimits()
			w.model.replies = tc.replies
			if tc.body != "" {
				w.model.body = func(provider.Request) []byte { return []byte(tc.body) }
			}
			fault := caught(func() {
				if _, err := w.execute(context.Background(), w.run("u1", "go")); err != nil {
					t.Error(err)
				}
			})
			if (fault != nil) != tc.panics {
				t.Errorf("panicked with %v", fault)
			}
			w.limits.check(t, tc.turns)
		})
	}
}

// TestOthersAreToldToWait passes on how long a provider asked to wait, and only that.
func TestOthersAreToldToWait(t *testing.T) {
	limited := func(after time.Duration) reply {
		return func(context.Context, provider.Request, func(provider.Delta)) (provider.Response, error) {
			return provider.Response{}, &provider.Error{Class: provider.ClassRateLimited, HTTPStatus: 429, RetryAfter: after, Dispatched: true, Err: errors.New("slow down")}
		}
	}
	cases := map[string]struct {
		first reply
		quota Quota
		want  []time.Duration
	}{
		"a wait":                    {first: limited(7 * time.Second), quota: Quota{Requests: 1}, want: []time.Duration{7 * time.Second}},
		"a very long one":           {first: limited(time.Hour), quota: Quota{Requests: 1}, want: []time.Duration{time.Minute}},
		"none":                      {first: limited(0), quota: Quota{Requests: 1}},
		"another fault":             {first: fails(provider.ClassOverloaded), quota: Quota{Requests: 1}},
		"a provider without limits": {first: limited(7 * time.Second)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.limits = newFakeLimits()
			w.limits.quota = tc.quota
			w.model.replies = []reply{tc.first, says("done")}
			if got, err := w.execute(context.Background(), w.run("u1", "go")); err != nil || got != completed {
				t.Fatalf("%+v, %v", got, err)
			}
			if diff := cmp.Diff(tc.want, w.limits.postponed); diff != "" {
				t.Errorf("others are told (-want +got):\n%s", diff)
			}
			if tc.quota.Unlimited() && len(w.limits.asks) > 0 {
				t.Error("a provider without limits is asked for a turn")
			}
		})
	}
}

// TestSummariesAndTitlesTakeTurns asks for the turn of every request, holds one at a time, lets a summary wait without its
// time running out, and sends no title that would have to wait.
func TestSummariesAndTitlesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits = newFakeLimits()
		big := strings.Repeat("word ", 4000)
		w.model.replies = []reply{says(big), says("second")}
		for _, uid := range []string{"u1", "u2"} {
			if got, err := w.execute(t.Context(), w.run(uid, big)); err != nil || got != completed {
				t.Fatalf("%+v, %v", got, err)
			}
		}
		w.limits.check(t, len(w.limits.asks))
		before := len(w.limits.asks)
		w.limits.delays = []time.Duration{2 * summaryTimeout}
		w.model.replies = []reply{says("a summary of all that"), says("summarised")}
		compact := w.run("u3", "")
		compact.Operation = OperationCompact
		compact.Config.Operation = OperationCompact
		if got, err := w.execute(t.Context(), compact); err != nil || got != completed {
			t.Fatalf("a compaction that waits: %+v, %v; %v", got, err, w.events())
		}
		w.limits.check(t, len(w.limits.asks))
		if len(w.limits.asks) == before {
			t.Error("a summary was sent without a turn")
		}
		w.limits.delays = []time.Duration{time.Second}
		w.model.replies = []reply{says("answer")}
		titled := w.run("u4", "name this")
		titled.Config.Title = true
		if got, err := w.execute(t.Context(), titled); err != nil || got != completed {
			t.Fatalf("%+v, %v", got, err)
		}
		if last := w.limits.asks[len(w.limits.asks)-2]; !last.AtOnce {
			t.Errorf("a title asks like any other request: %+v", last)
		}
		for _, entry := range w.entries() {
			if entry.Event.Purpose == runevent.PurposeTitle {
				t.Errorf("a title was asked for although it would have to wait: %s", short(entry))
			}
		}
		w.limits.check(t, len(w.limits.asks)-1)
	})
}
