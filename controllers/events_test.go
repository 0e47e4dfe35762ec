package controllers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	api "github.com/agentloop/agentloop/api/v1alpha1"
)

func runStatus(reason string, change ...func(*api.AgentRunStatus)) api.AgentRunStatus {
	started := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	s := api.AgentRunStatus{
		StartTime: &started, Worker: &api.RunWorker{Identity: "w1", Attempt: 1},
		Conditions: []metav1.Condition{{Type: api.ConditionSucceeded, Status: metav1.ConditionUnknown, Reason: reason}},
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func taken(worker string, attempt int32) func(*api.AgentRunStatus) {
	return func(s *api.AgentRunStatus) { s.Worker = &api.RunWorker{Identity: worker, Attempt: attempt} }
}

func notBegun(s *api.AgentRunStatus) { s.StartTime, s.Worker = nil, nil }

func over(message string) func(*api.AgentRunStatus) {
	return func(s *api.AgentRunStatus) {
		s.Conditions[0].Message = message
		s.Conditions = append(s.Conditions, metav1.Condition{Type: api.ConditionFinished, Status: metav1.ConditionTrue})
	}
}

// TestRunEvents tells each transition once, and nothing while nothing changes.
func TestRunEvents(t *testing.T) {
	for name, c := range map[string]struct {
		statuses []api.AgentRunStatus
		want     []string
		refused  []string
	}{
		"begun, at work, done": {
			statuses: []api.AgentRunStatus{
				runStatus("Queued", notBegun), runStatus("ModelCall"), runStatus("ToolCall"), runStatus("Completed", over(""), func(s *api.AgentRunStatus) { s.Turn = 2 }),
			},
			want: []string{"Normal Started worker w1 began the run", "Normal Completed run completed in 2 turns"},
		},
		"over as soon as it is seen": {
			statuses: []api.AgentRunStatus{runStatus("Queued", notBegun), runStatus("Completed", over(""), func(s *api.AgentRunStatus) { s.Turn = 1 })},
			want:     []string{"Normal Completed run completed in 1 turn"},
		},
		"taken over, twice": {
			statuses: []api.AgentRunStatus{runStatus("ModelCall"), runStatus("ModelCall", taken("w2", 2)), runStatus("ToolCall", taken("w2", 2)), runStatus("ToolCall", taken("w1", 3))},
			want: []string{
				"Warning TakenOver worker w2 took the run over from one that was lost, attempt 2",
				"Warning TakenOver worker w1 took the run over from one that was lost, attempt 3",
			},
		},
		"handed back and gone on with": {
			statuses: []api.AgentRunStatus{runStatus("ModelCall"), runStatus("Recovering"), runStatus("ModelCall", taken("w2", 1))},
		},
		"limited again and again": {
			statuses: []api.AgentRunStatus{runStatus("ModelCall"), runStatus("RateLimited"), runStatus("ModelCall"), runStatus("RateLimited")},
			want:     []string{"Normal RateLimited requests of the run wait for their turn under the provider's limits"},
		},
		"asking again after an answer": {
			statuses: []api.AgentRunStatus{
				runStatus("ToolCall"), runStatus("AwaitingApproval", waitsFor("tools__write")), runStatus("AwaitingApproval", waitsFor("tools__write")),
				runStatus("ToolCall"), runStatus("AwaitingApproval", waitsFor("tools__send")),
			},
			want: []string{
				"Normal AwaitingApproval 1 tool call to be approved, of tools__write",
				"Normal AwaitingApproval 1 tool call to be approved, of tools__send",
			},
		},
		"too large": {
			statuses: []api.AgentRunStatus{runStatus("AssemblingRequest"), runStatus("ContextBudgetExceeded", over("41000 tokens exceed the limit of 26304"))},
			want:     []string{"Warning ContextBudgetExceeded run ended: 41000 tokens exceed the limit of 26304"},
		},
		"cancelled": {
			statuses: []api.AgentRunStatus{runStatus("ModelCall"), runStatus("Cancelled", over("cancelled on request"))},
			want:     []string{"Warning Cancelled run ended: cancelled on request"},
		},
		"never begun": {
			statuses: []api.AgentRunStatus{runStatus("Queued", notBegun), runStatus("QueueDeadlineExceeded", notBegun, over(""))},
			want:     []string{"Warning QueueDeadlineExceeded run ended: QueueDeadlineExceeded"}, refused: []string{"QueueDeadlineExceeded"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			var refused []string
			r := &AgentRunReconciler{Events: recorder, Refused: func(reason string) { refused = append(refused, reason) }}
			var known note
			for i := 1; i < len(c.statuses); i++ {
				r.tell(&api.AgentRun{Status: c.statuses[i]}, &c.statuses[i-1], &known)
			}
			if diff := cmp.Diff(c.want, recorded(recorder)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.refused, refused); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

func waitsFor(tool string) func(*api.AgentRunStatus) {
	return func(s *api.AgentRunStatus) {
		s.PendingApprovals, s.PendingApprovalsTotal = []api.PendingApproval{{ToolCallID: "c", Tool: tool}}, 1
	}
}

func recorded(recorder *events.FakeRecorder) []string {
	var out []string
	for len(recorder.Events) > 0 {
		out = append(out, <-recorder.Events)
	}
	return out
}

// TestSessionEvents tells of compactions, and of what only somebody who looks after the session can mend.
func TestSessionEvents(t *testing.T) {
	status := func(checkpoint string, ready, message string) api.AgentSessionStatus {
		s := api.AgentSessionStatus{Conditions: []metav1.Condition{{Type: api.ConditionReady, Reason: ready, Message: message}}}
		if checkpoint != "" {
			s.Checkpoint = &api.Checkpoint{ID: checkpoint, Boundary: 12}
		}
		return s
	}
	for name, c := range map[string]struct {
		before, next api.AgentSessionStatus
		want         []string
	}{
		"nothing changes":                   {before: status("a", "Ready", ""), next: status("a", "Ready", "")},
		"the first compaction":              {before: status("", "Ready", ""), next: status("a", "Ready", ""), want: []string{"Normal Compacted a summary stands for the messages before number 12 of the history"}},
		"another one":                       {before: status("a", "Ready", ""), next: status("b", "Ready", ""), want: []string{"Normal Compacted a summary stands for the messages before number 12 of the history"}},
		"damage":                            {before: status("", "Ready", ""), next: status("", "HistoryCorrupt", "entries are missing"), want: []string{"Warning HistoryCorrupt no run can start: entries are missing"}},
		"damage that is known":              {before: status("", "HistoryCorrupt", "x"), next: status("", "HistoryCorrupt", "y")},
		"used up":                           {before: status("", "Ready", ""), next: status("", "TokenLimitReached", "100 of 100"), want: []string{"Warning TokenLimitReached no run can start: 100 of 100"}},
		"a store is away, as it is for all": {before: status("", "Ready", ""), next: status("", "StorageUnavailable", "")},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			r := &AgentSessionReconciler{Events: recorder}
			r.tell(&api.AgentSession{Status: c.next}, &c.before)
			if diff := cmp.Diff(c.want, recorded(recorder)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEventsAreDocumented wants each reason that the code names on the page of Events.
func TestEventsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/operations/events.md")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if method, ok := call.Fun.(*ast.SelectorExpr); !ok || method.Sel.Name != "Eventf" {
				return true
			}
			found++
			reason := ""
			switch arg := call.Args[3].(type) {
			case *ast.BasicLit:
				reason = strings.Trim(arg.Value, `"`)
			case *ast.Ident:
				reason = map[string]string{"eventStarted": eventStarted, "eventTakenOver": eventTakenOver, "eventCompacted": eventCompacted, "why": api.RunReasonCompleted}[arg.Name]
			case *ast.SelectorExpr:
				reason = map[string]string{
					"RunReasonAwaitingApproval": api.RunReasonAwaitingApproval, "RunReasonRateLimited": api.RunReasonRateLimited, "Reason": api.SessionReasonHistoryCorrupt,
				}[arg.Sel.Name]
			}
			if reason == "" || !strings.Contains(string(page), "`"+reason+"`") {
				t.Errorf("%s: docs/operations/events.md has no line for the reason %q", set.Position(call.Pos()), reason)
			}
			return true
		})
	}
	if found < 9 {
		t.Errorf("%d Events are recorded", found)
	}
}
