package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// nursery is the runs that were delegated to, as the cluster would have them.
type nursery struct {
	mu    sync.Mutex
	made  map[string]Child
	ended map[string]string
	err   error
}

func (n *nursery) Ensure(_ context.Context, child Child) (ChildState, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return ChildState{}, n.err
	}
	if n.made == nil {
		n.made = map[string]Child{}
	}
	if _, ok := n.made[child.Name]; !ok {
		n.made[child.Name] = child
	}
	reason, ended := n.ended[child.Name]
	return ChildState{Ended: ended, Reason: reason}, nil
}

// tasks are what was delegated, sorted.
func (n *nursery) tasks() []string {
	var out []string
	for _, child := range n.made {
		out = append(out, child.Agent+": "+child.Task)
	}
	slices.Sort(out)
	return out
}

// delegates is a response that gives tasks to subagents, each as "agent: task".
func delegates(tasks ...string) reply {
	return func(context.Context, provider.Request, func(provider.Delta)) (provider.Response, error) {
		var blocks []message.Block
		for i, task := range tasks {
			agent, what, _ := strings.Cut(task, ": ")
			blocks = append(blocks, message.Block{
				Type: message.BlockToolCall, ID: fmt.Sprintf("d-%d", i), Name: "delegate", Arguments: fmt.Appendf(nil, `{"agent":%q,"task":%q}`, agent, what),
			})
		}
		return provider.Response{ResponseID: "r", HTTPStatus: 200, Message: message.Message{
			Role: message.RoleAssistant, StopReason: message.StopToolUse, Usage: &message.Usage{Input: count(10), Output: count(5)}, Content: message.Blocks(blocks...),
		}}, nil
	}
}

// delegating is a world whose model delegates tasks and is done with their answers.
func delegating(t *testing.T, tasks ...string) (*world, *nursery, Run) {
	w, n := newWorld(t), &nursery{}
	w.children = n
	w.tools.definitions = []tool.Definition{{Tool: message.Tool{Name: "delegate", Parameters: []byte(`{"type":"object"}`)}, Delegates: true, Server: "srv"}, defined("write")}
	w.model.replies = []reply{delegates(tasks...), says("done")}
	run := w.run("u1", "hi")
	run.Config.Subagents = []session.Subagent{{Name: "reviewer", Description: "reviews", MaxTurns: 7, MaxParallel: 2}, {Name: "writer", Description: "writes"}}
	return w, n, run
}

// runChildren executes every run that was made and has not ended, each with one answer.
func (w *world) runChildren(n *nursery, answer func(Child) reply) {
	w.t.Helper()
	model, children := w.model, w.children
	defer func() { w.model, w.children = model, children }()
	w.children = nil
	for _, name := range slices.Sorted(maps.Keys(n.made)) {
		child := n.made[name]
		run := w.run("uid-"+child.Key, child.Task)
		run.Name, run.AgentKey, run.Config.Agent, run.Config.Limits.MaxTurns = child.Name, child.Key, child.Agent, child.MaxTurns
		w.model = &scriptedModel{replies: []reply{answer(child)}}
		if _, err := w.execute(context.Background(), run); err != nil {
			w.t.Fatal(err)
		}
	}
}

func echo(c Child) reply { return says("answer to " + c.Task) }

func TestDelegates(t *testing.T) {
	w, n, run := delegating(t, "reviewer: read a", "writer: write b")
	run.Config.Limits.MaxTotalTokens = 100
	w.mustWait(run)
	if diff := cmp.Diff([]string{"reviewer: read a", "writer: write b"}, n.tasks()); diff != "" {
		t.Fatal(diff)
	}
	state, _ := w.state()
	if state.Run.Phase != session.PhaseToolCall || state.Run.Waiting == "" || !state.Run.Tools["d-0"].Delegated() {
		t.Errorf("phase %q, waiting for %q", state.Run.Phase, state.Run.Waiting)
	}
	for name, child := range n.made {
		want := Child{Name: "run-u1-" + child.Key, Key: ChildKey(child.Agent, "u1", 1, child.CallID), Agent: child.Agent, CallID: child.CallID, Turn: 1, Task: child.Task,
			MaxTurns: map[string]int{"reviewer": 7}[child.Agent], MaxTotalTokens: 85}
		if diff := cmp.Diff(want, child); diff != "" || name != child.Name {
			t.Error(name, diff)
		}
	}
	w.mustWait(run) // woken up for nothing
	w.runChildren(n, echo)
	w.mustFinish(run)
	if diff := cmp.Diff([]string{"answer to read a", "answer to write b"}, w.results()); diff != "" {
		t.Error(diff)
	}
	state, _ = w.state()
	if got, want := state.Run.Delegated, answers(2); !cmp.Equal(got, want) {
		t.Errorf("delegated %+v", got)
	}
	if got := state.Usage(); got.Total() != 60 || got.Requests != 2 {
		t.Errorf("the session's usage %+v", got)
	}
	kinds := map[string]int{}
	for _, e := range w.entries() {
		kinds[string(e.Event.Type)]++
	}
	if kinds["subagent.started"] != 2 || kinds["subagent.finished"] != 2 || kinds["tool.started"] != 0 {
		t.Errorf("entries %v", kinds)
	}
}

func TestDelegationIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		reply reply
		err   error
		want  string
	}{
		"unknown subagent": {reply: delegates("nobody: do it"), want: `There is no subagent named "nobody". There are: reviewer, writer.`},
		"empty task":       {reply: delegates("writer:  "), want: "The task is empty: say what the subagent is to do, with all that it needs to know."},
		"huge task":        {reply: delegates("writer: " + strings.Repeat("x", MaxTask+1)), want: "The task has 65537 bytes, at most 65536 are possible: say less, or delegate parts of it."},
		"other arguments":  {reply: calls("delegate"), want: "The arguments are not what delegate takes: an object with the texts agent and task."},
		"never possible": {reply: delegates("writer: w"), err: &Failure{Reason: "InvalidInput", Message: "the name is taken"},
			want: "The subagent did not finish: InvalidInput. the name is taken"},
	} {
		t.Run(name, func(t *testing.T) {
			w, n, run := delegating(t)
			w.model.replies[0], n.err = c.reply, c.err
			w.mustFinish(run)
			if diff := cmp.Diff([]string{c.want}, w.results()); diff != "" {
				t.Error(diff)
			}
			_, history := w.state()
			if !history[2].IsError {
				t.Error("the result is no error")
			}
		})
	}
}

// TestNobodyToDelegateTo goes on with a run whose tools another program declared.
func TestNobodyToDelegateTo(t *testing.T) {
	w, _, run := delegating(t, "writer: w")
	w.children = nil
	w.mustFinish(run)
	if diff := cmp.Diff([]string{"Tasks cannot be delegated here."}, w.results()); diff != "" {
		t.Error(diff)
	}
}

func TestChildrenThatFail(t *testing.T) {
	w, n, run := delegating(t, "reviewer: a", "writer: b", "writer: c")
	w.mustWait(run)
	n.ended = map[string]string{}
	for name, child := range n.made {
		if child.Task == "b" {
			n.ended[name] = "QueueDeadlineExceeded" // it never began
			delete(n.made, name)
		}
	}
	w.runChildren(n, func(c Child) reply {
		if c.Task == "a" {
			return fails(provider.ClassAuth)
		}
		return says(" ")
	})
	w.mustFinish(run)
	want := []string{"The subagent did not finish: ProviderAuthFailed.", "The subagent did not finish: QueueDeadlineExceeded.", "The subagent finished without a text."}
	if diff := cmp.Diff(want, w.results()); diff != "" {
		t.Error(diff)
	}
}

// TestFewAtOnce gives one subagent more tasks than it may have under way.
func TestFewAtOnce(t *testing.T) {
	w, n, run := delegating(t, "reviewer: a", "reviewer: b", "reviewer: c")
	w.mustWait(run)
	if diff := cmp.Diff([]string{"reviewer: a", "reviewer: b"}, n.tasks()); diff != "" {
		t.Fatal(diff)
	}
	w.runChildren(n, echo)
	w.mustWait(run)
	if len(n.made) != 3 {
		t.Fatalf("made %v", n.tasks())
	}
	n.made = map[string]Child{"last": n.made["run-u1-"+ChildKey("reviewer", "u1", 1, "d-2")]}
	w.runChildren(n, echo)
	w.mustFinish(run)
	if diff := cmp.Diff([]string{"answer to a", "answer to b", "answer to c"}, w.results()); diff != "" {
		t.Error(diff)
	}
}

// TestNobodyAnswersBefore: what stands in the stream of a call before the call was delegated is no answer to it.
func TestNobodyAnswersBefore(t *testing.T) {
	w, n, run := delegating(t, "writer: a")
	key := ChildKey("writer", "u1", 1, "d-0")
	n.made = map[string]Child{"early": {Name: ChildName(run.Name, key), Key: key, Agent: "writer", Task: "say yes"}}
	w.runChildren(n, echo)
	n.err = &Failure{Reason: "InvalidInput", Message: "another AgentRun has the name"}
	w.mustFinish(run)
	if diff := cmp.Diff([]string{"The subagent did not finish: InvalidInput. another AgentRun has the name"}, w.results()); diff != "" {
		t.Error(diff)
	}
}

func TestSameCallIDInALaterTurn(t *testing.T) {
	w, n, run := delegating(t, "writer: a")
	w.model.replies = []reply{delegates("writer: a"), delegates("writer: b"), says("done")}
	w.mustWait(run)
	w.runChildren(n, echo)
	w.mustWait(run)
	if diff := cmp.Diff([]string{"writer: a", "writer: b"}, n.tasks()); diff != "" {
		t.Fatal(diff)
	}
	n.made = map[string]Child{"second": n.made["run-u1-"+ChildKey("writer", "u1", 2, "d-0")]}
	w.runChildren(n, echo)
	w.mustFinish(run)
	if diff := cmp.Diff([]string{"answer to a", "answer to b"}, w.results()); diff != "" {
		t.Error(diff)
	}
}

func TestLongAnswerIsCut(t *testing.T) {
	w, n, run := delegating(t, "writer: a")
	run.Config.Model.ContextWindow = 1_000_000
	w.mustWait(run)
	long := strings.Repeat("é", maxDelegated)
	w.runChildren(n, func(Child) reply { return says(long) })
	w.mustFinish(run)
	got := w.results()[0]
	if !strings.HasPrefix(got, strings.Repeat("é", maxDelegated/2)+"\n\n[Cut: the first 65536 of 131072 bytes are shown.") {
		t.Errorf("%d bytes, ending %q", len(got), got[max(0, len(got)-200):])
	}
	for _, e := range w.entries() {
		if e.Event.Type == runevent.TypeToolResult && e.Event.Whole == nil {
			t.Error("the whole answer is not named")
		}
	}
}

func TestParentIsCancelled(t *testing.T) {
	w, _, run := delegating(t, "writer: a", "writer: b")
	w.mustWait(run)
	got, err := Seal(context.Background(), w.deps(), run, ErrCancelled)
	if err != nil || got.Event != runevent.TypeRunCancelled {
		t.Fatalf("%+v, %v", got, err)
	}
	if diff := cmp.Diff([]string{textChildStopped, textChildStopped}, w.results()); diff != "" {
		t.Error(diff)
	}
}

// TestDelegationTakeover kills the delegating worker at every point it comes to.
func TestDelegationTakeover(t *testing.T) {
	script := func(t *testing.T) (*world, *nursery, Run) {
		w, n, run := delegating(t, "reviewer: a", "reviewer: b", "reviewer: c")
		first := w.model.replies[0]
		answer := func(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
			if req.Messages[len(req.Messages)-1].Role == message.RoleUser {
				return first(ctx, req, onDelta)
			}
			return says("done")(ctx, req, onDelta)
		}
		w.model.replies = slices.Repeat([]reply{answer}, 10)
		return w, n, run
	}
	// live is a whole run: woken up once its children have ended.
	live := func(w *world, n *nursery, run Run) error {
		for range 4 {
			_, err := w.execute(context.Background(), run)
			if err == nil {
				return nil
			}
			if !errors.Is(err, ErrWaiting) {
				return err
			}
			chaos := w.chaos
			w.chaos = nil
			w.runChildren(n, echo)
			w.chaos = chaos
		}
		return errors.New("it waits for ever")
	}
	probe, n, run := script(t)
	reached := map[string]int{}
	probe.chaos = func(point string) { reached[point]++ }
	if err := live(probe, n, run); err != nil {
		t.Fatal(err)
	}
	for _, point := range []string{"subagent.started", "subagent.ensured", "subagent.finished", "run.waiting"} {
		if reached[point] < 2 {
			t.Errorf("%s was reached %d times", point, reached[point])
		}
	}
	for point, times := range reached {
		for i := 1; i <= times; i++ {
			t.Run(point, func(t *testing.T) {
				w, n, run := script(t)
				if !w.dies(point, i, func() { _ = live(w, n, run) }) {
					t.Fatal("the worker did not die")
				}
				if err := live(w, n, run); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]string{"answer to a", "answer to b", "answer to c"}, w.results()); diff != "" {
					t.Error(diff)
				}
				if len(n.made) != 3 {
					t.Errorf("%d runs were made", len(n.made))
				}
				state, _ := w.state()
				if !cmp.Equal(state.Run.Delegated, answers(3)) {
					t.Errorf("delegated %+v", state.Run.Delegated)
				}
			})
		}
	}
}
