package stories

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
)

// pollEvery is the pause between two looks of a wait.
const pollEvery = 20 * time.Millisecond

const objects = `apiVersion: v1
kind: Secret
metadata:
  name: model-key
  labels: {agentloop.dev/credential: "true"}
stringData: {key: k}
---
apiVersion: agentloop.dev/v1alpha1
kind: ModelProvider
metadata: {name: models}
spec:
  protocol: Anthropic
  baseURL: $MODELS
  apiKeySecretRef: {name: model-key, key: key}
  retry: {maxAttempts: $ATTEMPTS, maxDelaySeconds: 5}
  idleTimeoutSeconds: $IDLE
  $PROVIDER
  models:
  - {id: $NS-demo, contextWindow: 16000, maxOutputTokens: 2048}
---
apiVersion: agentloop.dev/v1alpha1
kind: AgentSession
metadata: {name: chat}
spec:
  model: {providerRef: {name: models}, model: $NS-demo}
  toolServers:
  - name: tools
    url: $TOOLS/mcp
    allow: [add, weather, append_note]
    retrySafe: [add, weather]
    $SERVER
  $SESSION
`

// Telling is a story that is being told in a namespace of its own. Its methods are for the goroutine of its test.
type Telling struct {
	Story
	// Namespace and UID are the session's.
	Namespace, UID string

	t     testing.TB
	stage *Stage
}

// Begin makes the namespace and the session of a story. They stay when the test has ended.
func (s *Stage) Begin(t testing.TB, story Story) *Telling {
	t.Helper()
	c := &Telling{Story: story, t: t, stage: s, Namespace: s.name("story")}
	c.Must(s.World.Namespace(t.Context(), c.Namespace))
	_, err := s.World.Models.LoadYAML([]byte("model: demo\nreplies:"+c.expand(story.Models)), c.Namespace+"-")
	c.Must(err)
	command := s.Kubectl(t.Context(), "--namespace", c.Namespace, "apply", "-f", "-")
	command.Stdin = strings.NewReader(c.expand(objects))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	owner := &api.AgentSession{}
	c.Must(s.Client.Get(t.Context(), client.ObjectKey{Namespace: c.Namespace, Name: "chat"}, owner))
	c.UID = string(owner.UID)
	return c
}

// On is the same telling as another test looks at it.
func (c *Telling) On(t testing.TB) *Telling {
	other := *c
	other.t = t
	return &other
}

// Forget deletes the namespace when the test ends, and does not wait for it.
func (c *Telling) Forget() {
	c.t.Cleanup(func() {
		if out, err := c.stage.Kubectl(context.Background(), "delete", "namespace", c.Namespace, "--wait=false").CombinedOutput(); err != nil {
			c.t.Logf("delete the namespace: %s", out)
		}
	})
}

// Must fails the test if there is an error.
func (c *Telling) Must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *Telling) expand(text string) string {
	server := c.Server
	if !strings.Contains(server, "declaration:") {
		server = strings.TrimSuffix("declaration: Direct\n    "+server, "\n    ")
	}
	return os.Expand(text, func(name string) string {
		return map[string]string{
			"NS": c.Namespace, "MODELS": c.stage.Models, "TOOLS": c.stage.ToolsURL, "SERVER": server, "SESSION": strings.TrimLeft(c.Session, "\n "),
			"PROVIDER": c.stage.Provider, "ATTEMPTS": fmt.Sprint(c.stage.RequestAttempts), "IDLE": fmt.Sprint(int(c.stage.IdleTimeout.Seconds())),
		}[name]
	})
}

// Prompt creates a run.
func (c *Telling) Prompt(i int) string {
	c.t.Helper()
	run := &api.AgentRun{}
	run.Namespace, run.Name = c.Namespace, fmt.Sprintf("run-%d", i+1)
	run.Spec = api.AgentRunSpec{
		SessionRef: api.SessionRef{Name: "chat"}, Input: &api.RunInput{Text: c.Prompts[i]}, Limits: api.RunLimits{MaxAttempts: c.stage.RunAttempts},
	}
	c.Must(c.stage.Client.Create(c.t.Context(), run))
	return run.Name
}

// Until waits for something, bounded, and approves what is to be approved meanwhile.
func (c *Telling) Until(what string, done func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(c.stage.EndLimit)
	for !done() {
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: %s: not after %s; the streams:\n%s", c.Namespace, what, c.stage.EndLimit, c.Brief())
		}
		if c.Approves {
			c.approve()
		}
		<-time.After(pollEvery)
	}
}

// Finished says whether a run has ended, and fails the test if it did so in another way than by completing.
func (c *Telling) Finished(name string) bool {
	c.t.Helper()
	run := &api.AgentRun{}
	c.Must(c.stage.Client.Get(c.t.Context(), client.ObjectKey{Namespace: c.Namespace, Name: name}, run))
	if !run.IsFinished() {
		return false
	}
	for _, condition := range run.Status.Conditions {
		if condition.Type == api.ConditionSucceeded && condition.Reason != api.RunReasonCompleted {
			c.t.Fatalf("%s: %s ended with %s: %s; the streams:\n%s", c.Namespace, name, condition.Reason, condition.Message, c.Brief())
		}
	}
	return true
}

// approve decides about every call that waits.
func (c *Telling) approve() {
	c.t.Helper()
	runs := &api.AgentRunList{}
	c.Must(c.stage.Client.List(c.t.Context(), runs, client.InNamespace(c.Namespace)))
	for i := range runs.Items {
		run := &runs.Items[i]
		for _, pending := range run.Status.PendingApprovals {
			approval := &api.ToolApproval{Spec: api.ToolApprovalSpec{
				RunRef: api.ApprovalRunRef{Name: run.Name, UID: string(run.UID)}, ToolCallID: pending.ToolCallID, ArgumentsDigest: pending.ArgumentsDigest,
				Decision: api.DecisionApprove, Approver: "admin",
			}}
			approval.Namespace, approval.Name = c.Namespace, strings.ToLower(pending.ToolCallID)
			c.Must(client.IgnoreAlreadyExists(c.stage.Client.Create(c.t.Context(), approval)))
		}
	}
}
