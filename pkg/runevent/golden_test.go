package runevent

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var (
	testTime = time.Date(2026, 3, 14, 9, 26, 53, 589793238, time.FixedZone("CET", 3600))
	cmpTime  = cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })
	cmpHash  = cmp.Comparer(func(a, b cas.Digest) bool { return a == b })
)

func testRef(content, mediaType string) *cas.Ref {
	return &cas.Ref{Digest: cas.Of([]byte(content)), Size: int64(len(content)), MediaType: mediaType}
}

func count(n int64) *int64 { return &n }

// goldenEvents has one entry for each type and kind, with the fields that it uses.
func goldenEvents() map[string]Event {
	state, snapshot := testRef("state", cas.MediaState), testRef("context", cas.MediaContext)
	ended := testTime.Add(1750 * time.Millisecond)
	request := Evidence{RequestExecutionID: "req-1", Turn: 2, ContextRef: snapshot, StateRef: state}
	response := request
	response.ResponseID, response.EndedAt = "msg_01", &ended
	usage := &message.Usage{Input: count(1200), Output: count(80), CacheRead: count(0), Cost: "0.0048"}
	return map[string]Event{
		"run.started": {Type: TypeRunStarted, RunName: "first.run", Operation: "Prompt", Attempt: 1, Worker: "worker-0",
			Config: testRef("config", cas.MediaRunConfig)},
		"run.finished": {Type: TypeRunFinished, Reason: "Completed", Turns: 3,
			Result: &cas.MessageRef{Digest: cas.Of([]byte("action")), Index: new(int)}, Evidence: Evidence{StateRef: state}},
		"run.failed": {Type: TypeRunFailed, Reason: "ContextBudgetExceeded", Turns: 1,
			Message: "the estimate is above the window", Class: "overflow", Record: snapshot, Evidence: Evidence{StateRef: state}},
		"run.cancelled":  {Type: TypeRunCancelled, Reason: "Cancelled", Message: "cancelled on request", Evidence: Evidence{StateRef: state}},
		"run.handedback": {Type: TypeRunHandedBack, Worker: "worker-0", Evidence: Evidence{StateRef: state}},
		"message.user": {Type: TypeMessageUser, Ref: testRef("message", cas.MediaMessage),
			Body: message.Encode(message.Message{Role: message.RoleUser, Content: message.Text("List <b>files</b> & \u2028count")})},
		"message.user.long": {Type: TypeMessageUser, Ref: testRef("long", cas.MediaMessage)},
		"reasoning":         {Type: TypeReasoning, Text: "I should look.", Evidence: response},
		"body":              {Type: TypeBody, Text: "There are \xff\xfe three.\n", Block: 1, Evidence: response},
		"tool.call": {Type: TypeToolCall, CallID: "call_1", Name: "add", Server: "math", Block: 2,
			Arguments: json.RawMessage(`{"b": 12345678901234567890, "a": 1.0}`), Evidence: response},
		"tool.call.long": {Type: TypeToolCall, CallID: "call_1", Name: "write", Block: 2,
			ArgumentsRef: testRef("arguments", cas.MediaBlob), Evidence: response},
		"tool.started": {Type: TypeToolStarted, CallID: "call_1", Name: "add", Server: "math", Attempt: 1, Evidence: request},
		"tool.started.nested": {Type: TypeToolStarted, CallID: "call_2", Name: "math__add", Server: "math", Nested: 3,
			Arguments: json.RawMessage(`{"a": 1}`), Evidence: request},
		"mcp.audit.nested": {Type: TypeMCPAudit, CallID: "call_2", Name: "math__add", Server: "math", Nested: 3, Evidence: request,
			Audit: json.RawMessage(`{"server":"math","method":"tools/call","tool":"add","outcome":"ok"}`)},
		"tool.result": {Type: TypeToolResult, CallID: "call_1", Name: "add", Server: "math", IsError: true, Evidence: request,
			Body: message.Encode(message.Message{Role: message.RoleToolResult, ToolCallID: "call_1", ToolName: "add",
				Content: message.Text("no such file"), IsError: true})},
		"tool.result.cut": {Type: TypeToolResult, CallID: "call_1", Name: "read", Evidence: request, Whole: testRef("whole", cas.MediaBlob),
			Body: message.Encode(message.Message{Role: message.RoleToolResult, ToolCallID: "call_1", ToolName: "read", Content: message.Text("the beginning")})},
		"tool.unknown":   {Type: TypeToolUnknown, CallID: "call_1", Name: "add", Server: "math", Evidence: request},
		"model.rejected": {Type: TypeModelRejected, Reason: "ContextBudgetExceeded", Record: snapshot, Evidence: request},
		"model.failed": {Type: TypeModelFailed, Class: "rateLimited", HTTPStatus: 429, Retryable: true, Message: "too many requests",
			Detail: testRef("answer", cas.MediaBlob), Usage: &message.Usage{Input: count(10)}, Evidence: request},
		"mcp.audit": {Type: TypeMCPAudit, CallID: "call_1", Name: "add", Server: "math", Evidence: request,
			Audit: json.RawMessage(`{"method": "tools/call", "durationMs": 12}`)},
		"subagent.started":  {Type: TypeSubagentStarted, Agent: "reviewer-0a1b2c3d", CallID: "call_9", RunName: "child", Evidence: request},
		"subagent.finished": {Type: TypeSubagentFinished, Agent: "reviewer-0a1b2c3d", CallID: "call_9", RunName: "child", Evidence: request},
		"tool.output":       {Type: TypeToolOutput, CallID: "call_1", Name: "build", Attempt: 1, Text: "ok\tpkg\n", Evidence: Evidence{Turn: 2}},
		"tool.output.long":  {Type: TypeToolOutput, CallID: "call_1", Name: "build", TextRef: testRef("output", cas.MediaBlob)},
		"agent.record.context.captured": {Type: TypeRecord, Kind: KindContextCaptured, Purpose: PurposeMain,
			SnapshotRefs: []cas.Ref{*testRef("snapshot", cas.MediaSnapshot)}, SectionsRef: testRef("sections", cas.MediaSections), Evidence: request},
		"agent.record.model.completed": {Type: TypeRecord, Kind: KindModelCompleted, Purpose: PurposeMain, StopReason: "toolUse", Usage: usage,
			PayloadRef: testRef("action", cas.MediaModelAction), RequestOutputTokenLimit: count(24192), Evidence: response},
		"agent.record.state.committed":  {Type: TypeRecord, Kind: KindStateCommitted, Evidence: request},
		"agent.record.context_recovery": {Type: TypeRecord, Kind: KindContextRecovery, Reason: "overflow", Evidence: request},
		"agent.record.compaction.committed": {Type: TypeRecord, Kind: KindCompactionCommitted,
			Checkpoint: testRef("checkpoint", cas.MediaCheckpoint), Evidence: request},
		"agent.record.approval": {Type: TypeRecord, Kind: KindApproval, CallID: "call_1", Name: "append_note", Server: "notes", Evidence: request,
			Decision: DecisionDenied, ArgumentsDigest: cas.Of([]byte(`{"a":1}`)), Approver: "kim@example.com", Approval: "9a31c0de", Text: "not on a Friday"},
		"agent.record.approval.requested": {Type: TypeRecord, Kind: KindApproval, CallID: "call_1", Name: "append_note", Server: "notes",
			Decision: DecisionRequested, ArgumentsDigest: cas.Of([]byte(`{"a":1}`)), Until: &testTime, Evidence: request},
		"agent.record.request.waiting": {Type: TypeRecord, Kind: KindRequestWaiting, Purpose: PurposeMain, Reason: "RateLimited", Evidence: Evidence{Turn: 2}},
		"run.handedback.waiting":       {Type: TypeRunHandedBack, Worker: "worker-1", Reason: "AwaitingApproval"},
	}
}

func goldenEntry(event Event) Entry {
	event.V = Version
	event.Evidence.AgentID, event.Evidence.AgentRunID, event.Evidence.RecordedAt = "main", "7f0c", testTime
	event.Evidence.Prev = cas.Of([]byte("the entry before"))
	return Entry{CreatedAt: testTime.Add(2 * time.Second), Sequence: 17, Event: event}
}

func TestGoldenBytes(t *testing.T) {
	events := goldenEvents()
	for name, event := range events {
		t.Run(name, func(t *testing.T) {
			raw, err := Encode(goldenEntry(event))
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "golden", name+".json")
			if *update {
				if err := os.WriteFile(file, append(raw, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimSuffix(string(want), "\n"), string(raw)); diff != "" {
				t.Errorf("bytes (-want +got):\n%s", diff)
			}
		})
	}
	for _, typ := range knownTypes {
		if _, ok := events[string(typ)]; !ok && typ != TypeRecord {
			t.Errorf("no golden entry for type %s", typ)
		}
	}
	for _, kind := range knownKinds {
		if _, ok := events[string(TypeRecord)+"."+string(kind)]; !ok {
			t.Errorf("no golden entry for record kind %s", kind)
		}
	}
}

// Golden files are read as well as written: what an earlier build stored stays readable, and means the same.
func TestGoldenFilesDecode(t *testing.T) {
	for name, event := range goldenEvents() {
		t.Run(name, func(t *testing.T) {
			stored, err := os.ReadFile(filepath.Join("testdata", "golden", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(stored)
			if err != nil {
				t.Fatal(err)
			}
			want := goldenEntry(event)
			want.Event.Text = strings.ToValidUTF8(strings.ReplaceAll(want.Event.Text, "\xff\xfe", "\uFFFD\uFFFD"), "")
			want.Event.Arguments = compact(t, want.Event.Arguments)
			want.Event.Audit = compact(t, want.Event.Audit)
			if diff := cmp.Diff(want, got, cmpTime, cmpHash); diff != "" {
				t.Errorf("entry (-want +got):\n%s", diff)
			}
		})
	}
}

func compact(t *testing.T, raw json.RawMessage) json.RawMessage {
	t.Helper()
	if raw == nil {
		return nil
	}
	return message.AppendRaw(nil, raw)
}
