package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// breakingLog is a log that the connection to can break during an append: nobody learns then whether it was stored.
type breakingLog struct {
	runevent.Log
	// breaks says at which entry the connection breaks, stored whether the log has the entry then.
	breaks func(entry string) bool
	stored bool
}

func (b *breakingLog) Append(ctx context.Context, stream runevent.Stream, expect runevent.Head, raw []byte) (runevent.Head, error) {
	entry, err := runevent.Decode(raw)
	if err != nil {
		return runevent.Head{}, err
	}
	if !b.breaks(short(entry)) {
		return b.Log.Append(ctx, stream, expect, raw)
	}
	if b.stored {
		if _, err := b.Log.Append(context.WithoutCancel(ctx), stream, expect, raw); err != nil {
			return runevent.Head{}, err
		}
	}
	return runevent.Head{}, fmt.Errorf("%w: the connection broke", runevent.ErrUnavailable)
}

// TestCancelDuringUnknownAppend cancels a run while an append is in flight that gets no answer. Whether the entry was
// stored or not, it ends up in the log once, the run's end is built upon it, and the session goes on from there.
func TestCancelDuringUnknownAppend(t *testing.T) {
	turn := []string{
		"run.started", "message.user", "context.captured", "model.completed", "tool.call", "tool.started", "mcp.audit", "tool.result", "state.committed",
	}
	// upTo is a trace that goes on otherwise after n entries of the turn.
	upTo := func(n int, then ...string) []string { return slices.Concat(turn[:n], then) }
	cancelled := Result{runevent.TypeRunCancelled, ReasonCancelled}
	called := []string{"user", "assistant:toolUse", "toolResult"}
	closed := []string{"user", "assistant:toolUse", "toolResult:error"}
	cases := map[string]struct {
		entry   string
		want    Result
		events  []string
		history []string
		usage   session.Totals
	}{
		"the run's start": {
			entry: "run.started", want: cancelled, events: upTo(1, "state.committed", "run.cancelled"),
		},
		"the prompt": {
			entry: "message.user", want: cancelled, events: upTo(2, "state.committed", "run.cancelled"), history: []string{"user"},
		},
		"the request": {
			entry: "context.captured", want: cancelled, events: upTo(3, "state.committed", "run.cancelled"),
			history: []string{"user"}, usage: unanswered(session.Totals{}, 1),
		},
		"the answer with its calls": {
			entry: "model.completed", want: cancelled, events: upTo(4, "tool.result", "state.committed", "run.cancelled"),
			history: closed, usage: answers(1),
		},
		"a call": {
			entry: "tool.call", want: cancelled, events: upTo(5, "tool.result", "state.committed", "run.cancelled"),
			history: closed, usage: answers(1),
		},
		"the start of a tool": {
			entry: "tool.started", want: cancelled, events: upTo(6, "tool.unknown", "tool.result", "state.committed", "run.cancelled"),
			history: closed, usage: answers(1),
		},
		"the audit of a call": {
			entry: "mcp.audit", want: cancelled, events: upTo(9, "state.committed", "run.cancelled"), history: called, usage: answers(1),
		},
		"the result of a tool": {
			entry: "tool.result", want: cancelled, events: upTo(9, "state.committed", "run.cancelled"), history: called, usage: answers(1),
		},
		"the commit": {
			entry: "state.committed", want: cancelled, events: upTo(9, "state.committed", "run.cancelled"), history: called, usage: answers(1),
		},
		"a piece of the last answer, which is complete": {
			entry: "body", want: completed, events: upTo(9, "context.captured", "body", "model.completed", "state.committed", "run.finished"),
			history: append(called[:3:3], "assistant:stop"), usage: answers(2),
		},
	}
	for name, tc := range cases {
		for found, stored := range map[string]bool{"stored": true, "not stored": false} {
			t.Run(name+" was "+found, func(t *testing.T) {
				w := newWorld(t)
				w.tools.definitions = []tool.Definition{defined("add")}
				w.model.replies = []reply{calls("add"), says("done")}
				ctx, cancel := context.WithCancelCause(context.Background())
				broken := false
				w.log = &breakingLog{Log: w.log, stored: stored, breaks: func(entry string) bool {
					if broken || entry != tc.entry {
						return false
					}
					broken = true
					cancel(ErrCancelled)
					return true
				}}
				got, err := w.execute(ctx, w.run("u1", "hi"))
				if err != nil || got != tc.want || !broken {
					t.Fatalf("%+v, %v; want %+v (connection broken: %v)", got, err, tc.want, broken)
				}
				w.checkTrace(t, tc.events, tc.history, tc.usage)
				w.checkFolds(t)
				w.model.replies = []reply{says("back")}
				if got, err := w.execute(context.Background(), w.run("u2", "again")); err != nil || got != completed {
					t.Fatalf("the session is not usable afterwards: %+v, %v", got, err)
				}
				_, history := w.state()
				if diff := cmp.Diff(slices.Concat(tc.history, []string{"user", "assistant:stop"}), roles(history)); diff != "" {
					t.Errorf("history after the next run (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestNoSaveAfterTheEnd shows that nothing is saved under a context that has ended, not even tried.
func TestNoSaveAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrCancelled)
	l := &loop{deps: newWorld(t).deps()}
	tries := 0
	err := l.retrySave(ctx, "append a run event", func() error { tries++; return nil })
	if !errors.Is(err, ErrCancelled) || tries != 0 {
		t.Errorf("%d tries ended in %v, want none and %v", tries, err, ErrCancelled)
	}
}

// TestCancelBeforeTool cancels a run when its tool is about to be started: neither log nor model are told of a call with
// an unknown effect.
func TestCancelBeforeTool(t *testing.T) {
	w := newWorld(t)
	w.tools.definitions = []tool.Definition{defined("add")}
	w.model.replies = []reply{calls("add")}
	ctx, cancel := context.WithCancelCause(context.Background())
	w.chaos = func(point string) {
		if point == "tool.before-start" {
			cancel(ErrCancelled)
		}
	}
	got, err := w.execute(ctx, w.run("u1", "hi"))
	if want := (Result{runevent.TypeRunCancelled, ReasonCancelled}); err != nil || got != want {
		t.Fatalf("%+v, %v; want %+v", got, err, want)
	}
	w.checkTrace(t, []string{
		"run.started", "message.user", "context.captured", "model.completed", "tool.call", "tool.result", "state.committed", "run.cancelled",
	}, []string{"user", "assistant:toolUse", "toolResult:error"}, answers(1))
	if _, history := w.state(); history[2].PlainText() != textStopped || len(w.tools.calls) != 0 {
		t.Errorf("result %q of calls %v, want %q of none", history[2].PlainText(), w.tools.calls, textStopped)
	}
}
