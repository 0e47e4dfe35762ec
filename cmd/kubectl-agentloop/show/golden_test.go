package show

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/term"
	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/viewer"
)

var update = flag.Bool("update", false, "write the golden files anew")

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func budget(dispatched bool, remaining int64) *api.ContextBudget {
	return &api.ContextBudget{
		Provider: "anthropic", Model: "claude-sonnet-4-5", ContextWindow: 200000, SystemTokens: 1234, MessageTokens: 80000, ToolTokens: 3000,
		EstimatedInputTokens: 84234, ReservedOutputTokens: 16000, SafetyTokens: 4096, InputLimit: 179904, RemainingInputTokens: remaining,
		Fits: remaining >= 0, UsedPercent: ptr.To[int32](42), Dispatched: &dispatched,
	}
}

func session() *api.AgentSession {
	s := &api.AgentSession{}
	s.Namespace, s.Name, s.CreationTimestamp = "team", "trip", ago(3*time.Hour)
	s.Spec.Model.ProviderRef.Name, s.Spec.Model.Model = "anthropic", "claude-sonnet-4-5"
	s.Spec.ToolServers = []api.ToolServer{{Name: "maps"}, {Name: "weather"}}
	s.Spec.History.OnDelete = "Retain"
	s.Status = api.AgentSessionStatus{
		StorageUID: "7b2f3a52-4c1d-4f0e-9a57-0f6f2c1b8a11", RunsTotal: 3, QueuedRuns: 1, HistoryMessageCount: 12, Checkpoint: &api.Checkpoint{ID: "c", Boundary: 6},
		ContextBudget: budget(true, 95670), Usage: &api.TokenUsage{Input: ptr.To[int64](12345), Output: ptr.To[int64](678)}, LastActivityTime: ptr.To(ago(time.Minute)),
		Conditions: []metav1.Condition{
			{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: api.SessionReasonSecretNotFound, Message: "Secret maps has no key token"},
			{Type: api.ConditionActive, Status: metav1.ConditionFalse, Reason: api.SessionReasonIdle},
		},
	}
	return s
}

func run(name, reason string, status metav1.ConditionStatus) api.AgentRun {
	r := api.AgentRun{}
	r.Namespace, r.Name, r.CreationTimestamp = "team", name, ago(90*time.Second)
	r.Spec.SessionRef.Name, r.Spec.Agent, r.Spec.Operation = "trip", "main", api.OperationPrompt
	r.Spec.Input = &api.RunInput{Text: "Plan two days in Lisbon.\nWith children."}
	r.Spec.Limits = api.RunLimits{MaxTurns: 100, MaxAttempts: 3}
	r.Status = api.AgentRunStatus{
		StartTime: ptr.To(ago(80 * time.Second)), Turn: 2, ModelRequests: 2, ToolCalls: 1, Worker: &api.RunWorker{Identity: "worker-0", Attempt: 1},
		Usage: &api.TokenUsage{Input: ptr.To[int64](1234), Output: ptr.To[int64](56), CacheRead: ptr.To[int64](1000)}, ContextBudget: budget(true, 95670),
		InputSources: &api.InputSources{HistoryMessageCount: 5, History: 5, RuntimeContext: 1},
		Conditions: []metav1.Condition{
			{Type: api.ConditionAccepted, Status: metav1.ConditionTrue, Reason: api.RunReasonAccepted},
			{Type: api.ConditionSucceeded, Status: status, Reason: reason},
			{Type: api.ConditionFinished, Status: metav1.ConditionFalse, Reason: api.RunReasonInProgress},
		},
	}
	return r
}

// TestGolden holds what people see to the files in testdata.
func TestGolden(t *testing.T) {
	waiting := run("trip-a", api.RunReasonAwaitingApproval, metav1.ConditionUnknown)
	waiting.Status.PendingApprovals = []api.PendingApproval{{ToolCallID: "toolu_01", Tool: "maps__book", ExpiresAt: ptr.To(metav1.NewTime(now.Add(time.Hour)))}}
	waiting.Status.PendingApprovalsTotal = 2
	refused := run("trip-b", api.RunReasonContextBudgetExceeded, metav1.ConditionFalse)
	refused.Status.ContextBudget, refused.Status.Usage = budget(false, -4000), nil
	refused.Status.Failure = &api.RunFailure{Class: "overflow", HTTPStatus: 400}
	fresh := api.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "trip-c", CreationTimestamp: ago(0)}}
	fresh.Spec.SessionRef.Name, fresh.Spec.Agent = "trip", "main"
	raw, err := os.ReadFile("testdata/input.json")
	if err != nil {
		t.Fatal(err)
	}
	var detail viewer.Detail
	if err := json.Unmarshal(raw, &detail); err != nil {
		t.Fatal(err)
	}
	plain := term.Paint{}
	for name, got := range map[string]string{
		"session.txt":     Session(session(), []api.AgentRun{waiting, refused}, now, plain),
		"run-waiting.txt": Run(&waiting, now, plain),
		"run-refused.txt": Run(&refused, now, plain),
		"run-new.txt":     Run(&fresh, now, plain),
		"runs.txt":        Runs([]api.AgentRun{waiting, refused, fresh}, true, now, plain),
		"input.txt":       Input(&detail, time.UTC, false, plain),
	} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := Grouped(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
