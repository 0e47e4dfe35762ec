package kube

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/session"
)

// subagents gives the session the subagents reviewer, for any depth up to 2, and writer, for the session's agent only.
func subagents(c *cluster) {
	c.tools(nil)
	c.session.Spec.Title = api.TitleAuto
	c.session.Spec.ToolServers = append(c.session.Spec.ToolServers, api.ToolServer{Name: "mail", URL: "https://mail.example.com/mcp", Declaration: api.DeclarationDirect})
	c.session.Spec.Subagents = []api.Subagent{
		{Name: "reviewer", Description: "reviews", Instructions: []api.PromptSection{{Name: "role", Text: "Review."}}, ToolServers: []string{"docs"}, MaxTurns: 5, MaxDepth: 2, MaxParallel: 3},
		{Name: "writer", Description: "writes", MaxTurns: 6, MaxDepth: 1, MaxParallel: 4},
	}
}

// below makes the run one of a subagent, for a call of a run at the depth.
func (c *cluster) below(agent string, above int) {
	parent := &api.AgentRun{ObjectMeta: meta("parent")}
	parent.UID = "parent-uid"
	c.others = append(c.others, parent)
	c.run.Spec.Agent = agent
	c.run.Spec.Parent = &api.ParentCall{RunRef: api.RunRef{Name: "parent", UID: "parent-uid"}, ToolCallID: "call_1", Turn: 2}
	for ; above > 0; above-- {
		higher := &api.AgentRun{ObjectMeta: meta(parent.Name + "s-parent")}
		parent.Spec.Parent = &api.ParentCall{RunRef: api.RunRef{Name: higher.Name}}
		c.others = append(c.others, higher)
		parent = higher
	}
}

func TestSubagentsOfRuns(t *testing.T) {
	c := newCluster()
	subagents(c)
	job, err := c.load()
	if err != nil || job.Run.Refusal != nil {
		t.Fatal(err, job.Run.Refusal)
	}
	want := []session.Subagent{{Name: "reviewer", Description: "reviews", MaxTurns: 5, MaxParallel: 3}, {Name: "writer", Description: "writes", MaxTurns: 6, MaxParallel: 4}}
	if diff := cmp.Diff(want, job.Run.Config.Subagents); diff != "" || job.Run.Config.Depth != 0 || job.Run.AgentKey != "main" {
		t.Errorf("depth %d, key %s, %s", job.Run.Config.Depth, job.Run.AgentKey, diff)
	}

	c.below("reviewer", 0)
	if job, err = c.load(); err != nil || job.Run.Refusal != nil {
		t.Fatal(err, job.Run.Refusal)
	}
	cfg := job.Run.Config
	if diff := cmp.Diff(want[:1], cfg.Subagents); diff != "" || cfg.Depth != 1 || cfg.Title || cfg.Limits.SessionMaxTotalTokens != 0 {
		t.Errorf("depth %d, %s", cfg.Depth, diff)
	}
	if diff := cmp.Diff([]projection.Section{{Name: "role", Text: "Review."}}, cfg.Sections); diff != "" {
		t.Error(diff)
	}
	if len(c.servers) != 1 || c.servers[0].Name != "docs" {
		t.Errorf("servers %+v", c.servers)
	}
	if job.Run.AgentKey != agent.ChildKey("reviewer", "parent-uid", 2, "call_1") {
		t.Errorf("key %s", job.Run.AgentKey)
	}
}

func TestSubagentsThatCannotRun(t *testing.T) {
	for name, c := range map[string]struct {
		agent string
		above int
		want  string
	}{
		"not declared":          {"nobody", 0, "spec.agent: the session has no subagent nobody"},
		"as deep as it may":     {"reviewer", 1, ""},
		"deeper than it may":    {"reviewer", 2, "spec.parent: subagent reviewer stands at depth 3, its maxDepth is 2"},
		"below another of them": {"writer", 1, "spec.parent: subagent writer stands at depth 2, its maxDepth is 1"},
		"parents without end":   {"reviewer", 40, "spec.parent: subagent reviewer stands at depth 6, its maxDepth is 2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster()
			subagents(w)
			w.below(c.agent, c.above)
			job, err := w.load()
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if job.Run.Refusal != nil {
				got = job.Run.Refusal.Message
			}
			if got != c.want {
				t.Errorf("refused with %q", got)
			}
		})
	}
}

func TestEnsureChild(t *testing.T) {
	child := agent.Child{Name: "first.run-writer-0a", Key: "writer-0a", Agent: "writer", CallID: "call_1", Turn: 3, Task: "write", MaxTurns: 6, MaxTotalTokens: 50}
	theirs := func(change func(*api.AgentRun)) *api.AgentRun {
		c := newCluster()
		c.run.UID = "run-uid"
		run := (&children{parent: c.run}).run(child)
		change(run)
		return run
	}
	gr := schema.GroupResource{Group: "agentloop.dev", Resource: "agentruns"}
	for name, c := range map[string]struct {
		there     *api.AgentRun
		createErr error
		want      agent.ChildState
		failure   string // the message of an *agent.Failure
		err       bool
	}{
		"made":         {},
		"there":        {there: theirs(func(*api.AgentRun) {})},
		"there, ended": {there: theirs(completed), want: agent.ChildState{Ended: true, Reason: "Completed"}},
		"made meanwhile, of another": {
			there: theirs(func(r *api.AgentRun) { r.Spec.Parent.ToolCallID = "other" }), failure: "another AgentRun has the name first.run-writer-0a",
		},
		"that of a call with its id in another turn": {
			there: theirs(func(r *api.AgentRun) { r.Spec.Parent.Turn = 1 }), failure: "another AgentRun has the name first.run-writer-0a",
		},
		"made by somebody else, with another task": {
			there: theirs(func(r *api.AgentRun) { r.Spec.Input.Text = "say yes" }), failure: "another AgentRun has the name first.run-writer-0a",
		},
		"a run of a person": {there: theirs(func(r *api.AgentRun) { r.Spec.Parent = nil }), failure: "another AgentRun has the name first.run-writer-0a"},
		"refused":           {createErr: apierrors.NewForbidden(gr, child.Name, errors.New("quota")), failure: "its AgentRun was refused by the API server"},
		"API server away":   {createErr: apierrors.NewServiceUnavailable("away"), err: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster()
			if c.there != nil {
				w.others = append(w.others, c.there)
			}
			server := w.reader()
			creator := interceptor.NewClient(fake.NewClientBuilder().WithScheme(testScheme()).Build(), interceptor.Funcs{
				Create: func(ctx context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if c.createErr != nil {
						return c.createErr
					}
					return server.Create(ctx, o, opts...)
				},
			})
			source := &Source{Reader: server, Creator: creator}
			got, err := (&children{source: source, parent: w.run}).Ensure(context.Background(), child)
			var failure *agent.Failure
			switch {
			case c.failure != "":
				if !errors.As(err, &failure) || failure.Message != c.failure {
					t.Errorf("error %v", err)
				}
				return
			case c.err:
				if err == nil || errors.As(err, &failure) {
					t.Errorf("error %v", err)
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("state %+v", got)
			}
			made := &api.AgentRun{}
			if err := server.Get(context.Background(), client.ObjectKey{Namespace: "ns", Name: child.Name}, made); err != nil {
				t.Fatal(err)
			}
			want := api.AgentRunSpec{
				SessionRef: api.SessionRef{Name: "chat"}, Operation: api.OperationPrompt, Agent: "writer", Input: &api.RunInput{Text: "write"},
				Parent: &api.ParentCall{RunRef: api.RunRef{Name: "first.run", UID: "run-uid"}, ToolCallID: "call_1", Turn: 3},
				Limits: api.RunLimits{MaxTurns: 6, MaxTotalTokens: 50, MaxAttempts: 3, ActiveDeadlineSeconds: 3600, QueueDeadlineSeconds: 60},
			}
			if diff := cmp.Diff(want, made.Spec); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// completed makes a run a completed one.
func completed(run *api.AgentRun) {
	run.Status.Conditions = []metav1.Condition{
		{Type: api.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: api.RunReasonCompleted}, {Type: api.ConditionFinished, Status: metav1.ConditionTrue},
	}
}
