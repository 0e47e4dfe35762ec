package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/s3store"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/natslog"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/test/world"
)

const (
	// ackWait is how long a dead worker keeps a run.
	ackWait = time.Second
	// endLimit bounds a story, a kill included.
	endLimit  = 60 * time.Second
	pollEvery = 20 * time.Millisecond
)

// shared is the world of all stories: controllers that live throughout, and no worker.
var shared struct {
	*world.World
	client client.Client
	log    *natslog.Log
	store  *s3store.Store
	// serial numbers namespaces and workers.
	serial int
}

func TestMain(m *testing.M) {
	os.Exit(world.Suite{
		Name: "chaos", Target: "chaos", Run: m.Run, Ready: ready,
		Options: world.Options{ManagerFlags: []string{
			"--role=controllers", "--ack-wait=" + ackWait.String(), "--heartbeat=300ms", "--presence-ttl=1s", "--heads-interval=50ms", "--drain-timeout=1s",
		}},
	}.Main())
}

// ready opens what the tests look at the world with.
func ready(w *world.World) (err error) {
	shared.World = w
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		return err
	}
	if shared.client, err = client.New(shared.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	nc, err := natslog.Connect(natslog.ConnectOptions{URL: shared.NATS.URL, Name: "chaos"})
	if err != nil {
		return err
	}
	if shared.log, err = natslog.New(nc, natslog.Options{}); err != nil {
		return err
	}
	s3 := shared.S3
	shared.store, err = s3store.New(s3store.Options{Endpoint: s3.Endpoint, Region: s3.Region, Bucket: s3.Bucket, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey})
	return err
}

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
  retry: {maxAttempts: 3, maxDelaySeconds: 5}
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

// told is a story that is being told in a namespace of its own.
type told struct {
	story
	t  *testing.T
	ns string
	// uid is the session's.
	uid string
}

// begin makes the namespace and the session of a story.
func begin(t *testing.T, s story) *told {
	t.Helper()
	shared.serial++
	c := &told{story: s, t: t, ns: fmt.Sprintf("chaos-%d-%d", os.Getpid(), shared.serial)}
	c.must(shared.Namespace(t.Context(), c.ns))
	t.Cleanup(func() {
		if out, err := shared.Kubectl(context.Background(), "delete", "namespace", c.ns, "--wait=false").CombinedOutput(); err != nil {
			t.Logf("delete the namespace: %s", out)
		}
	})
	_, err := shared.Models.LoadYAML([]byte("model: demo\nreplies:"+c.expand(s.models)), c.ns+"-")
	c.must(err)
	command := shared.Kubectl(t.Context(), "--namespace", c.ns, "apply", "-f", "-")
	command.Stdin = strings.NewReader(c.expand(objects))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	owner := &api.AgentSession{}
	c.must(shared.client.Get(t.Context(), client.ObjectKey{Namespace: c.ns, Name: "chat"}, owner))
	c.uid = string(owner.UID)
	return c
}

func (c *told) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *told) expand(text string) string {
	server := c.server
	if !strings.Contains(server, "declaration:") {
		server = strings.TrimSuffix("declaration: Direct\n    "+server, "\n    ")
	}
	return os.Expand(text, func(name string) string {
		return map[string]string{"NS": c.ns, "MODELS": shared.ModelsURL, "TOOLS": shared.ToolsURL, "SERVER": server, "SESSION": strings.TrimLeft(c.session, "\n ")}[name]
	})
}

// prompt creates a run.
func (c *told) prompt(i int) string {
	c.t.Helper()
	run := &api.AgentRun{}
	run.Namespace, run.Name = c.ns, fmt.Sprintf("run-%d", i+1)
	run.Spec = api.AgentRunSpec{SessionRef: api.SessionRef{Name: "chat"}, Input: &api.RunInput{Text: c.prompts[i]}, Limits: api.RunLimits{MaxAttempts: 5}}
	c.must(shared.client.Create(c.t.Context(), run))
	return run.Name
}

// until waits for something, bounded, and approves what is to be approved meanwhile.
func (c *told) until(what string, done func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(endLimit)
	for !done() {
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: not after %s; the streams:\n%s", what, endLimit, c.brief())
		}
		if c.approves {
			c.approve()
		}
		<-time.After(pollEvery)
	}
}

// finished says whether a run has ended, and fails the test if it did so in another way than by completing.
func (c *told) finished(name string) bool {
	c.t.Helper()
	run := &api.AgentRun{}
	c.must(shared.client.Get(c.t.Context(), client.ObjectKey{Namespace: c.ns, Name: name}, run))
	if !run.IsFinished() {
		return false
	}
	for _, condition := range run.Status.Conditions {
		if condition.Type == api.ConditionSucceeded && condition.Reason != api.RunReasonCompleted {
			c.t.Fatalf("%s ended with %s: %s; the streams:\n%s", name, condition.Reason, condition.Message, c.brief())
		}
	}
	return true
}

// approve decides about every call that waits.
func (c *told) approve() {
	c.t.Helper()
	runs := &api.AgentRunList{}
	c.must(shared.client.List(c.t.Context(), runs, client.InNamespace(c.ns)))
	for i := range runs.Items {
		run := &runs.Items[i]
		for _, pending := range run.Status.PendingApprovals {
			approval := &api.ToolApproval{Spec: api.ToolApprovalSpec{
				RunRef: api.ApprovalRunRef{Name: run.Name, UID: string(run.UID)}, ToolCallID: pending.ToolCallID, ArgumentsDigest: pending.ArgumentsDigest,
				Decision: api.DecisionApprove, Approver: "admin",
			}}
			approval.Namespace, approval.Name = c.ns, strings.ToLower(pending.ToolCallID)
			c.must(client.IgnoreAlreadyExists(shared.client.Create(c.t.Context(), approval)))
		}
	}
}

// streams are the raw entries of each of the session's run streams, chained and verified.
func (c *told) streams() map[string][][]byte {
	c.t.Helper()
	found, err := shared.log.Streams(c.t.Context(), c.ns, c.uid)
	c.must(err)
	out := map[string][][]byte{}
	for _, last := range found {
		previous := runevent.Head{}
		c.must(shared.log.Read(c.t.Context(), last.Stream, 0, func(record runevent.Record) error {
			if err := runevent.Verify(previous, record); err != nil {
				return fmt.Errorf("%s #%d: %w", last.Stream.Key, record.Head.Sequence, err)
			}
			previous = record.Head
			out[string(last.Stream.Class)+"/"+last.Stream.Key] = append(out[string(last.Stream.Class)+"/"+last.Stream.Key], bytes.Clone(record.Raw))
			return nil
		}))
	}
	return out
}

// brief shows the streams, a line for each entry.
func (c *told) brief() string {
	var out strings.Builder
	for key, raws := range c.streams() {
		for _, raw := range raws {
			entry, err := runevent.Decode(raw)
			c.must(err)
			e := entry.Event
			fmt.Fprintf(&out, "%s #%d %s %s %s %s attempt %d\n", key, entry.Sequence, e.Type, e.Kind, e.CallID, e.Reason, e.Attempt)
		}
	}
	return out.String()
}

var noteNumber = regexp.MustCompile(`note \d+ written`)

// history is the messages of each agent in short, what differs between two tellings taken out.
func (c *told) history() map[string][]string {
	c.t.Helper()
	scope := cas.Scope{Namespace: c.ns, Session: c.uid}
	out := map[string][]string{}
	for key := range c.streams() {
		class, agentKey, _ := strings.Cut(key, "/")
		if class != string(runevent.ClassRun) {
			continue
		}
		state, err := agent.LoadState(c.t.Context(), shared.log, shared.store, runevent.Stream{Class: runevent.ClassRun, Namespace: c.ns, Session: c.uid, Key: agentKey})
		c.must(err)
		if state.Live() {
			c.t.Errorf("%s: the log has a live run", agentKey)
		}
		raws, err := cas.NewResolver(shared.store, session.MessageIn, cas.ResolverOptions{}).Messages(c.t.Context(), scope, state.History)
		c.must(err)
		who, _, _ := strings.Cut(agentKey, "-")
		for _, raw := range raws {
			m, err := message.Decode(raw)
			c.must(err)
			text := fmt.Sprintf("%s %s %s", m.Role, m.ToolName, m.PlainText())
			for _, call := range m.ToolCalls() {
				text += " calls " + call.Name
			}
			text = noteNumber.ReplaceAllString(strings.ReplaceAll(text, c.ns, "NS"), "note written")
			out[who] = append(out[who], text[:min(len(text), 200)])
		}
	}
	return out
}

// points counts the points in a worker's log.
func points(t *testing.T, logPath string) map[string]int {
	t.Helper()
	file, err := os.Open(logPath)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out := map[string]int{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Msg, Point string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "chaos point" {
			out[line.Point]++
		}
	}
	return out
}
