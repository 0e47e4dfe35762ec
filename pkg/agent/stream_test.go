package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// awayLog is a log that cannot be reached for a while: appends fail until the time is over.
type awayLog struct {
	runevent.Log
	until time.Time
}

func (a *awayLog) Append(ctx context.Context, stream runevent.Stream, expect runevent.Head, raw []byte) (runevent.Head, error) {
	if time.Now().Before(a.until) {
		return runevent.Head{}, runevent.ErrUnavailable
	}
	return a.Log.Append(ctx, stream, expect, raw)
}

// TestLogAwayWhileStreaming takes the log away while a response comes in. The response is read on at its own pace, for
// a provider breaks a stream off that nobody reads; it is stored whole, once the log is back, and is not asked for again.
func TestLogAwayWhileStreaming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		log := &awayLog{Log: w.log}
		w.log = log
		var slowest time.Duration
		w.model.replies = []reply{func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
			log.until = time.Now().Add(time.Minute)
			for range 10 {
				pass(time.Second)
				begun := time.Now()
				onDelta(provider.Delta{Kind: provider.DeltaText, Text: "word ", At: begun, ResponseID: "r"})
				slowest = max(slowest, time.Since(begun))
			}
			return says("end")(ctx, req, func(provider.Delta) {})
		}}
		deps := w.deps()
		deps.Sleep = func(_ context.Context, d time.Duration) error { pass(d); return nil }
		if got, err := Execute(t.Context(), deps, w.run("u1", "hi")); err != nil || got != completed {
			t.Fatalf("%+v, %v", got, err)
		}
		if slowest != 0 {
			t.Errorf("the response was held up for %v", slowest)
		}
		text := ""
		for _, e := range w.entries() {
			if e.Event.Type == runevent.TypeBody {
				text += e.Event.Text
			}
		}
		if want := "word word word word word word word word word word "; text != want {
			t.Errorf("stored %q, want %q", text, want)
		}
		if len(w.model.requests) != 1 {
			t.Errorf("%d requests were sent, want 1", len(w.model.requests))
		}
	})
}

// lostLog is a log in which another worker goes on from some moment.
type lostLog struct {
	runevent.Log
	lost bool
}

func (l *lostLog) Append(ctx context.Context, stream runevent.Stream, expect runevent.Head, raw []byte) (runevent.Head, error) {
	if l.lost {
		return runevent.Head{}, runevent.ErrFenced
	}
	return l.Log.Append(ctx, stream, expect, raw)
}

// TestLostWhileStreaming breaks a response off whose run another worker has taken over: nobody needs the rest of it.
func TestLostWhileStreaming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		log := &lostLog{Log: w.log}
		w.log = log
		begun := time.Now()
		w.model.replies = []reply{func(ctx context.Context, _ provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
			log.lost = true
			for range 3 {
				onDelta(provider.Delta{Kind: provider.DeltaText, Text: "word ", At: time.Now(), ResponseID: "r"})
				pass(time.Second)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
			}
			return provider.Response{}, &provider.Error{Class: provider.ClassCancelled, Dispatched: true, Err: ctx.Err()}
		}}
		if got, err := w.execute(t.Context(), w.run("u1", "hi")); !errors.Is(err, ErrLost) {
			t.Errorf("%+v, %v", got, err)
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("the response was read for %v more", took)
		}
	})
}

// TestPauseInAResponse stores what has come of a response while its provider pauses, and not only when it goes on.
func TestPauseInAResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		bodies := func() (texts []string) {
			for _, e := range w.entries() {
				if e.Event.Type == runevent.TypeBody {
					texts = append(texts, e.Event.Text)
				}
			}
			return texts
		}
		w.model.replies = []reply{func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
			for _, text := range []string{"one ", "two "} {
				onDelta(provider.Delta{Kind: provider.DeltaText, Text: text, At: time.Now(), ResponseID: "r"})
			}
			pass(runevent.MaxMerge + time.Second)
			if diff := cmp.Diff([]string{"one two "}, bodies()); diff != "" {
				t.Errorf("during the pause (-want +got):\n%s", diff)
			}
			return says("three")(ctx, req, onDelta)
		}}
		if got, err := w.execute(t.Context(), w.run("u1", "hi")); err != nil || got != completed {
			t.Fatalf("%+v, %v", got, err)
		}
		if diff := cmp.Diff([]string{"one two ", "three"}, bodies()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// panickingLog panics at the increments of responses.
type panickingLog struct{ runevent.Log }

func (l *panickingLog) Append(ctx context.Context, stream runevent.Stream, expect runevent.Head, raw []byte) (runevent.Head, error) {
	if strings.Contains(string(raw), `"type":"body"`) {
		panic("boom")
	}
	return l.Log.Append(ctx, stream, expect, raw)
}

// TestPanicAside lets a model adapter, the log and a tool panic, the latter two in goroutines beside the run's: its own panics
// with it, where the worker catches it, and the process goes on.
func TestPanicAside(t *testing.T) {
	cases := map[string]func(w *world){
		"a model": func(w *world) {
			w.model.replies = []reply{func(context.Context, provider.Request, func(provider.Delta)) (provider.Response, error) {
				panic("boom")
			}}
		},
		"the storing of a response": func(w *world) {
			w.log = &panickingLog{Log: w.log}
			w.model.replies = []reply{func(ctx context.Context, _ provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
				onDelta(provider.Delta{Kind: provider.DeltaText, Text: "word ", ResponseID: "r"})
				<-ctx.Done() // nobody needs the rest
				return provider.Response{}, &provider.Error{Class: provider.ClassCancelled, Dispatched: true, Err: ctx.Err()}
			}}
		},
		"one of two tools at once": func(w *world) {
			w.tools.definitions = []tool.Definition{defined("look", repeatable)}
			w.model.replies = []reply{calls("look", "look")}
			w.tools.call = func(_ context.Context, call tool.Call) (tool.Result, error) {
				if call.ID == "look-1" {
					panic("boom")
				}
				return tool.Result{}, nil
			}
		},
	}
	for name, setup := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			setup(w)
			defer func() {
				var fault *Panic
				if err, _ := recover().(error); !errors.As(err, &fault) {
					t.Fatalf("the run's goroutine got %v", err)
				}
				if fault.Reason != "boom" || len(fault.Stack) == 0 || fault.Error() != "string" {
					t.Errorf("fault %v with %d bytes of stack, shown as %q", fault.Reason, len(fault.Stack), fault.Error())
				}
			}()
			got, err := w.execute(t.Context(), w.run("u1", "hi"))
			t.Fatalf("the run went on: %+v, %v", got, err)
		})
	}
}

// TestUnsentRequest cancels a run between the capture of its input and the sending: nothing was sent, so that the
// request neither counts nor becomes the latest one, and leaves no message.
func TestUnsentRequest(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	w.chaos = func(point string) {
		if point == "context.captured" {
			cancel(ErrCancelled)
		}
	}
	got, err := w.execute(ctx, w.run("u1", "hi"))
	if want := (Result{runevent.TypeRunCancelled, ReasonCancelled}); err != nil || got != want {
		t.Fatalf("%+v, %v; want %+v", got, err, want)
	}
	events := []string{"run.started", "message.user", "context.captured", "model.rejected", "state.committed", "run.cancelled"}
	w.checkTrace(t, events, []string{"user"}, session.Totals{})
	state, _ := w.state()
	if state.Run.Requests != 0 || state.Run.LastContext != nil {
		t.Errorf("%d requests, the latest is %v; want none", state.Run.Requests, state.Run.LastContext)
	}
}

// segments counts the segments of message lists that are put.
type segments struct {
	cas.Store
	puts int
}

func (s *segments) Put(ctx context.Context, scope cas.Scope, mediaType string, data []byte) (cas.Ref, error) {
	if mediaType == cas.MediaSegment {
		s.puts++
	}
	return s.Store.Put(ctx, scope, mediaType, data)
}

// TestSegmentsAreStoredOnce goes on with a long session in a run of its own: the segments of its history that an
// earlier run closed are not stored again, neither for the state nor for the input.
func TestSegmentsAreStoredOnce(t *testing.T) {
	w := newWorld(t)
	w.tools.definitions = []tool.Definition{defined("add")}
	for range cas.SegmentLength/2 + 1 {
		w.model.replies = append(w.model.replies, calls("add"))
	}
	w.model.replies = append(w.model.replies, says("done"), says("again"))
	run := w.run("u1", "hi")
	run.Config.Limits.MaxTurns = cas.SegmentLength
	run.Config.Context = "" // an input with a context of its own has a segment of its own
	if got, err := w.execute(t.Context(), run); err != nil || got != completed {
		t.Fatalf("%+v, %v", got, err)
	}
	store := &segments{Store: w.store}
	w.store = store
	run = w.run("u2", "again")
	run.Config.Context = ""
	if got, err := w.execute(t.Context(), run); err != nil || got != completed {
		t.Fatalf("%+v, %v", got, err)
	}
	if diff := cmp.Diff(0, store.puts); diff != "" {
		t.Errorf("segments that the second run stored (-want +got):\n%s", diff)
	}
}
