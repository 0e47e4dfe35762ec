package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/tool"
)

// coding makes the world's one tool run code that calls the named tools in order; it returns what was really called.
func (w *world) coding(names ...string) *[]string {
	called := &[]string{}
	w.tools.definitions = []tool.Definition{{
		Tool:   message.Tool{Name: "codemode", Description: "runs code", Parameters: []byte(`{"type":"object"}`)},
		Nested: []tool.Definition{defined("get", repeatable), defined("put", func(d *tool.Definition) { d.Idempotent, d.RetrySafe = true, true })},
	}}
	w.tools.call = func(_ context.Context, call tool.Call) (tool.Result, error) {
		for i, name := range names {
			n := tool.Nested{Number: i + 1, Name: name, Server: "srv", Arguments: json.RawMessage(`{"n":1}`)}
			if err := call.Record(n); err != nil {
				return tool.Result{}, err
			}
			*called = append(*called, name)
			n.Arguments, n.Audit = nil, &tool.Audit{Server: "srv", Tool: name, Outcome: "ok"}
			if err := call.Record(n); err != nil {
				return tool.Result{}, err
			}
		}
		return tool.Result{Content: message.Text(fmt.Sprint(len(names)))}, nil
	}
	w.model.replies = []reply{calls("codemode"), says("done")}
	return called
}

// TestNestedCallsAreRecorded holds the log to what code called: each call before it starts, with its arguments, and its
// evidence after it, and no message of any.
func TestNestedCallsAreRecorded(t *testing.T) {
	w := newWorld(t)
	w.coding("get", "put")
	if got, err := w.execute(context.Background(), w.run("u1", "hi")); err != nil || got != completed {
		t.Fatalf("%+v, %v", got, err)
	}
	w.checkTrace(t, []string{
		"run.started", "message.user", "context.captured", "model.completed", "tool.call", "tool.started",
		"tool.started", "mcp.audit", "tool.started", "mcp.audit", "tool.result", "state.committed",
		"context.captured", "body", "model.completed", "state.committed", "run.finished",
	}, []string{"user", "assistant:toolUse", "toolResult", "assistant:stop"}, answers(2))
	var nested []string
	for _, e := range w.entries() {
		if e.Event.Nested > 0 {
			nested = append(nested, fmt.Sprintf("%d %s %s of %s at %s: %s%s", e.Event.Nested, e.Event.Type, e.Event.Name, e.Event.CallID, e.Event.Server, e.Event.Arguments, e.Event.Audit))
		}
	}
	want := []string{
		`1 tool.started get of codemode-0 at srv: {"n":1}`, `1 mcp.audit get of codemode-0 at srv: {"server":"srv","tool":"get","outcome":"ok"}`,
		`2 tool.started put of codemode-0 at srv: {"n":1}`, `2 mcp.audit put of codemode-0 at srv: {"server":"srv","tool":"put","outcome":"ok"}`,
	}
	if diff := cmp.Diff(want, nested); diff != "" {
		t.Errorf("nested (-want +got):\n%s", diff)
	}
	if state, _ := w.state(); state.Run.ToolCalls != 1 {
		t.Errorf("%d tool calls, want 1", state.Run.ToolCalls)
	}
}

// TestTakeoverOfCode kills the worker while code runs. It runs again only if everything that it had begun to call reads only.
func TestTakeoverOfCode(t *testing.T) {
	cases := map[string]struct {
		names []string
		point string
		n     int
		again bool
		puts  int
	}{
		"before its first call":                {[]string{"put"}, "nested.before-start", 1, true, 1},
		"after a call that reads":              {[]string{"get", "get", "put"}, "nested.returned", 2, true, 1},
		"before a call that writes":            {[]string{"get", "put"}, "nested.before-start", 2, true, 1},
		"a call that writes is about to start": {[]string{"get", "put"}, "nested.started", 2, false, 0},
		"a call that writes has ended":         {[]string{"put", "get"}, "nested.returned", 1, false, 1},
		"long after a call that writes":        {[]string{"put", "get", "get"}, "nested.returned", 3, false, 1},
		"when the code was done, reading":      {[]string{"get"}, "tool.returned", 1, true, 0},
		"when the code was done, writing":      {[]string{"put"}, "tool.returned", 1, false, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			called := w.coding(tc.names...)
			w.runUntil(w.run("u1", "hi"), tc.point, tc.n)
			got, err := w.execute(context.Background(), w.run("u1", "hi"))
			if err != nil || got != completed {
				t.Fatalf("takeover: %+v, %v", got, err)
			}
			puts := 0
			for _, name := range *called {
				if name == "put" {
					puts++
				}
			}
			_, history := w.state()
			again := !strings.Contains(history[2].PlainText(), "effect is unknown")
			if again != tc.again || history[2].IsError == tc.again || puts != tc.puts {
				t.Errorf("ran again: %t, want %t; put was called %d times, want %d; the result is %q", again, tc.again, puts, tc.puts, history[2].PlainText())
			}
		})
	}
}

// TestNestedCallsNeedTheLog ends a run whose log stays away in the middle of code: the call that could not be recorded is
// not made.
func TestNestedCallsNeedTheLog(t *testing.T) {
	w := newWorld(t)
	called := w.coding("get", "put")
	ctx, cancel := context.WithCancelCause(context.Background())
	w.chaos = func(point string) {
		if point == "nested.returned" {
			cancel(ErrHandBack)
		}
	}
	if _, err := w.execute(ctx, w.run("u1", "hi")); !errors.Is(err, ErrHandBack) {
		t.Fatalf("got %v, want ErrHandBack", err)
	}
	if diff := cmp.Diff([]string{"get"}, *called); diff != "" {
		t.Errorf("called (-want +got):\n%s", diff)
	}
	w.chaos = nil
	if got, err := w.execute(context.Background(), w.run("u1", "hi")); err != nil || got != completed {
		t.Fatalf("next worker: %+v, %v", got, err)
	}
	var last runevent.Entry
	for _, e := range w.entries() {
		if e.Event.Type == runevent.TypeToolStarted && e.Event.Nested == 0 {
			last = e
		}
	}
	if last.Event.Attempt != 2 {
		t.Errorf("the code ran %d times, want 2", last.Event.Attempt)
	}
}
