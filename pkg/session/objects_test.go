package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/tool"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var started = time.Date(2026, 3, 14, 8, 26, 53, 589793238, time.UTC)

// same compares stored objects: digests by value, and an absent list like an empty one.
var same = cmp.Options{
	cmp.Comparer(func(a, b cas.Digest) bool { return a == b }),
	cmpopts.EquateEmpty(),
}

func ref(content, mediaType string) *cas.Ref {
	return &cas.Ref{Digest: cas.Of([]byte(content)), Size: int64(len(content)), MediaType: mediaType}
}

func count(n int64) *int64 { return &n }

func testModel() provider.Model {
	return provider.Model{
		Provider: "models", API: provider.APIAnthropicMessages, ID: "demo", ContextWindow: 32000, MaxTokens: 4096,
		Thinking: provider.ThinkingFixed, ThinkingBudgets: map[provider.Level]int64{provider.LevelLow: 2048}, Images: true,
		Sampling: json.RawMessage(`{"temperature":0.7}`),
	}
}

func testAssembly() AssemblyRecord {
	return AssemblyRecord{
		HistoryMessageCount: 5,
		Sources: []SourceRun{
			{Source: projection.Source{Type: projection.SourceCompaction, MessageIndex: 1, CheckpointID: "c-1", SummarizedBefore: 1}, Count: 1},
			{Source: projection.Source{Type: projection.SourceHistory, MessageIndex: 1}, Count: 3},
			{Source: projection.Source{Type: projection.SourceToolRepair, MessageIndex: 3, ToolCallID: "call_1"}, Count: 1},
			{Source: projection.Source{Type: projection.SourceRuntimeContext, MessageIndex: 4, SnapshotIndex: 1, UserTurn: 1}, Count: 1},
			{Source: projection.Source{Type: projection.SourceHistory, MessageIndex: 4}, Count: 1},
		},
		SkillExpansions: []projection.SkillExpansion{{MessageIndex: 4, SnapshotIndex: 1, Skills: []projection.SkillRef{{ID: "changelog", Revision: "sha256:00"}}}},
		Budget: budget.ContextBudget{
			Provider: "models", Model: "demo", ContextWindow: 32000, SystemTokens: 12, MessageTokens: 100, ToolTokens: 40,
			EstimatedInputTokens: 152, ReservedOutputTokens: 4096, SafetyTokens: 1600, InputLimit: 26304, RemainingInputTokens: 26152, Fits: true,
			Estimator: "scan", CalibratedInputTokens: count(190), CalibratedFits: new(bool),
		},
		Estimator: "heuristic", Calibration: &budget.Calibration{Ratio: 1.25, Observations: 7, Estimator: "heuristic"},
		Admitted: Admitted{Sections: []AdmittedSection{{ID: "project", Digest: cas.Of([]byte("Be brief."))}}},
		Rendered: Rendered{SectionIDs: []string{"project"}},
		State:    ref("state", cas.MediaState), Prefix: "sha256:11", Compaction: "c-1", Dispatched: true,
		Summarized: []SourceRun{{Source: projection.Source{Type: projection.SourceHistory, MessageIndex: 1}, Count: 2}},
	}
}

func testState() AgentState {
	index := 0
	action := ref("action", cas.MediaModelAction)
	return AgentState{
		V: ObjectVersion, Agent: "main", RunUID: "0d6f2a54-7f0c-4c52-9d0e-6a3b1c8e5f27", RunName: "release-notes-1",
		History: cas.MessageList{
			Segments: []cas.Ref{{Digest: cas.Of([]byte("segment")), Size: 2762}},
			Tail:     []cas.MessageRef{{Digest: cas.Of([]byte("prompt"))}}, Count: 33,
		},
		Step: Step{
			Turn: 2, RequestExecutionID: "01J9Z6T2K8", ContextRef: ref("context", cas.MediaContext), Action: action,
			Messages: []StepMessage{
				{Ref: &cas.MessageRef{Digest: action.Digest, Index: &index}},
				{Inline: message.Encode(message.Message{Role: message.RoleToolResult, ToolCallID: "call_1", ToolName: "add", Content: message.Text("3 < 4")})},
				{Ref: &cas.MessageRef{Digest: cas.Of([]byte("long result"))}},
			},
			Terminal: &runevent.Event{Type: runevent.TypeRunFailed, Reason: "MaxTurnsExceeded", Message: "the run made 2 turns, limits.maxTurns is 2", Turns: 2},
		},
		LastSequence: 41,
		Run: RunCounters{
			Attempt: 2, Worker: "worker-1", Config: ref("config", cas.MediaRunConfig), StartedAt: started, Accepted: true, Turn: 2, ToolCalls: 3,
			Requests: 3, Usage: Totals{Requests: 3, RequestsWithoutUsage: 1, Input: count(1200), Output: count(80), CacheRead: count(0)},
			LastContext: ref("context", cas.MediaContext), LastLimit: count(4096), Compactions: 1, Recovered: 2, WaitedMillis: 90500, Decided: []string{"9a31c0de"},
			Delegated: Totals{Requests: 2, RequestsWithoutUsage: 1, Input: count(90), Output: count(9), CacheRead: count(8), CacheWrite: count(7), Reasoning: count(6)},
		},
		Recent: []string{"7f0c"}, Snapshots: []cas.Ref{*ref("snapshot", cas.MediaSnapshot)}, Sections: ref("sections", cas.MediaSections),
		Checkpoint: ref("checkpoint", cas.MediaCheckpoint), ToolSet: ref("tools", cas.MediaToolSet), Model: ModelIdentity{Provider: "models", API: provider.APIAnthropicMessages, ID: "demo"},
		Earlier: Totals{Requests: 7, Input: count(9000), Output: count(700), Reasoning: count(20)}, Title: ref("title", cas.MediaModelAction),
	}
}

// golden is one object of each kind, by the name of its file.
func golden() map[string]any {
	return map[string]any{
		"runconfig": RunConfig{
			V: ObjectVersion, Operation: "Prompt", Agent: "main", Model: testModel(), Reasoning: provider.LevelLow, MaxOutputTokens: 4000,
			Sampling: json.RawMessage(`{"top_p":0.9}`), PromptCache: true,
			Sections: []projection.Section{{Name: "project", Text: "Be <brief> & exact."}}, Context: "cluster: test",
			Skills:   []projection.SkillSelection{{ID: "changelog", Revision: "sha256:00", Name: "Changelog", Path: "skills/changelog.md", Content: "List changes."}},
			Loadable: []LoadableSkill{{ID: "review", Revision: "sha256:11", Name: "review", Object: *ref("skill", cas.MediaSkill)}},
			ToolSet:  ref("toolset", cas.MediaToolSet),
			Limits: Limits{MaxTurns: 100, MaxTotalTokens: 50000, MaxAttempts: 3, SessionMaxTotalTokens: 900000, ActiveDeadlineSeconds: 3600,
				RetryMaxAttempts: 5, RetryMaxDelaySeconds: 600},
			Compaction: Compaction{Automatic: true, ThresholdPercent: 85, Model: &provider.Model{
				Provider: "small", API: provider.APIOpenAIChat, ID: "mini", ContextWindow: 64000, MaxTokens: 2048, Thinking: provider.ThinkingNone,
			}},
			OverflowRecovery: true, Estimator: "scan", Calibrate: true, Title: true, Depth: 1,
			Subagents: []Subagent{{Name: "reviewer", Description: "reads changes", MaxTurns: 50, MaxParallel: 4}},
		},
		"skill": Skill{V: ObjectVersion, ID: "review", Revision: "sha256:11", Name: "review", Instructions: "Read <twice>.", Files: []SkillFile{
			{Name: "logo.png", Size: 3, Binary: true}, {Name: "words.md", Size: 9, Text: "Be plain."},
		}},
		"toolset": ToolSet{V: ObjectVersion, Tools: []tool.Definition{{
			Tool:   message.Tool{Name: "math_add", Description: "adds", Parameters: json.RawMessage(`{"type":"object"}`)},
			Server: "math", RemoteName: "add", ReadOnly: true, Idempotent: true, RetrySafe: true, RequiresApproval: true,
		}}},
		"sections": Sections{V: ObjectVersion, Sections: []projection.Section{{Name: "project", Text: "Be brief."}, {Name: "style", Text: "No <b>tags</b>."}}},
		"contextsnapshot": ContextSnapshot{
			V: ObjectVersion, Purpose: runevent.PurposeMain, Model: ModelIdentity{Provider: "models", API: provider.APIAnthropicMessages, ID: "demo"},
			System: ref("sections", cas.MediaSections), Tools: ref("toolset", cas.MediaToolSet),
			Messages:    cas.MessageList{Tail: []cas.MessageRef{{Digest: cas.Of([]byte("prompt"))}}, Count: 1},
			Parameters:  Parameters{MaxTokens: 4096, Reasoning: provider.LevelLow, ThinkingBudget: 2048, Sampling: json.RawMessage(`{"top_p":0.9}`)},
			InputDigest: cas.Of([]byte("input")), InputSize: 5, Assembly: testAssembly(),
		},
		"modelaction": ModelAction{
			V: ObjectVersion, RequestExecutionID: "01J9Z6T2K8", Turn: 2, ContextRef: *ref("context", cas.MediaContext), ResponseID: "msg_01",
			RawStopReason: "end_turn",
			Message: message.Message{Role: message.RoleAssistant, Content: message.Blocks(message.Block{Type: message.BlockText, Text: "Three & four."}), Provider: "models",
				API: string(provider.APIAnthropicMessages), Model: "demo", StopReason: message.StopStop, Usage: &message.Usage{Input: count(12), Output: count(4)}},
		},
		"agentstate": testState(),
		"snapshot": Snapshot{V: ObjectVersion, Snapshot: projection.Snapshot{
			UserTurn: 1, Content: "cluster: test", Timestamp: "2026-03-14T08:26:53Z", Placement: projection.PlacementUser,
			Skills: []projection.SkillSelection{{ID: "changelog", Revision: "sha256:00", Name: "Changelog", Path: "skills/changelog.md", Content: "List changes."}},
		}},
		"checkpoint": Checkpoint{V: ObjectVersion, Checkpoint: projection.Checkpoint{
			ID: "c-1", FirstKeptMessageIndex: 4, HistoryMessageCount: 6, Summary: "They listed files.",
		}},
	}
}

// TestGoldenBytes pins the exact bytes under which each object is stored: they are hashed, so they never change within
// a format version.
func TestGoldenBytes(t *testing.T) {
	for name, object := range golden() {
		t.Run(name, func(t *testing.T) {
			raw, err := EncodeObject(object)
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
}

// TestGoldenFilesDecode reads what an earlier build stored: it means the same, and encodes to the same bytes.
func TestGoldenFilesDecode(t *testing.T) {
	decoders := map[string]func([]byte) (any, error){
		"skill": decoder[Skill], "runconfig": decoder[RunConfig], "toolset": decoder[ToolSet], "sections": decoder[Sections], "contextsnapshot": decoder[ContextSnapshot],
		"modelaction": decoder[ModelAction], "agentstate": decoder[AgentState], "snapshot": decoder[Snapshot], "checkpoint": decoder[Checkpoint],
	}
	for name, want := range golden() {
		t.Run(name, func(t *testing.T) {
			stored, err := os.ReadFile(filepath.Join("testdata", "golden", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := decoders[name](stored)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, same); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			again, err := EncodeObject(got)
			if err != nil || string(again)+"\n" != string(stored) {
				t.Errorf("encoded again: %s, %v\nstored: %s", again, err, stored)
			}
		})
	}
}

// TestEarlierBuildsWroteMediaTypes reads objects whose references all have their media type, as earlier builds stored
// them, and shows that encoding changes no object and keeps a media type that the place does not say.
func TestEarlierBuildsWroteMediaTypes(t *testing.T) {
	want := golden()["agentstate"].(AgentState)
	want.Run.Config = &cas.Ref{Digest: cas.Of([]byte("long")), Size: 4, MediaType: cas.MediaParts}
	earlier, err := json.Marshal(want)
	earlier = bytes.ReplaceAll(earlier, []byte(`\u003c`), []byte("<"))
	if err != nil || !bytes.Contains(earlier, []byte(cas.MediaContext)) {
		t.Fatalf("%s, %v", earlier, err)
	}
	now, err := EncodeObject(want)
	if err != nil || strings.Contains(string(now), cas.MediaContext) || !strings.Contains(string(now), cas.MediaParts) {
		t.Fatalf("%s, %v", now, err)
	}
	for name, raw := range map[string][]byte{"earlier": earlier, "now": now} {
		got, err := DecodeObject[AgentState](raw)
		if diff := cmp.Diff(want, got, same); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func decoder[T any](raw []byte) (any, error) {
	object, err := DecodeObject[T](raw)
	return object, err
}

// TestDecodeObjectRefuses shows that nothing is guessed about an object of another format.
func TestDecodeObjectRefuses(t *testing.T) {
	cases := map[string]string{
		"a later version":         `{"v":2,"sections":[]}`,
		"no version":              `{"sections":[]}`,
		"an earlier version":      `{"v":0,"sections":[]}`,
		"a version that is text":  `{"v":"1","sections":[]}`,
		"a field of another type": `{"v":1,"sections":"project"}`,
		"no object":               `[1]`,
		"bytes after the object":  `{"v":1,"sections":[]}{}`,
		"nothing":                 ``,
		"half an object":          `{"v":1,"sections":[`,
	}
	for name, raw := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := DecodeObject[Sections]([]byte(raw)); !errors.Is(err, ErrFormat) {
				t.Errorf("error %v, want ErrFormat", err)
			}
		})
	}
}

// TestDecodeObjectIgnoresNewFields lets a later build of the same version add what earlier ones need not know.
func TestDecodeObjectIgnoresNewFields(t *testing.T) {
	got, err := DecodeObject[Sections]([]byte(`{"v":1,"sections":[{"name":"a","text":"b","later":1}],"later":{}}`))
	want := Sections{V: 1, Sections: []projection.Section{{Name: "a", Text: "b"}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestEveryFieldIsInGolden keeps the golden objects complete: a new field that they leave at its zero value is found.
func TestEveryFieldIsInGolden(t *testing.T) {
	for name, object := range golden() {
		for _, field := range zeroFields(reflect.ValueOf(object), name) {
			switch field {
			case "contextsnapshot.Assembly.Budget.RequestOutputTokenLimit", // never stored: it is known after the record
				"agentstate.Run.Usage.CacheWrite", "agentstate.Run.Usage.Reasoning", // a count that was never reported
				"agentstate.Earlier.RequestsWithoutUsage", "agentstate.Earlier.CacheRead", "agentstate.Earlier.CacheWrite",
				"runconfig.Model.NoOutputCaps": // excludes the caps that stand there
			default:
				t.Errorf("%s is zero in the golden object", field)
			}
		}
	}
}

// zeroFields walks the structs of this package and of pkg/budget and pkg/provider that an object is made of.
func zeroFields(v reflect.Value, path string) []string {
	own := strings.HasSuffix(v.Type().PkgPath(), "/session") || strings.HasSuffix(v.Type().PkgPath(), "/budget") ||
		strings.HasSuffix(v.Type().PkgPath(), "/provider")
	if v.Kind() != reflect.Struct || !own {
		return nil
	}
	var zero []string
	for i := range v.NumField() {
		name := path + "." + v.Type().Field(i).Name
		if v.Field(i).IsZero() {
			zero = append(zero, name)
		}
		zero = append(zero, zeroFields(v.Field(i), name)...)
	}
	return zero
}

// TestTotals keeps what was never reported apart from zero.
func TestTotals(t *testing.T) {
	reported := func(input, output int64) *message.Usage {
		return &message.Usage{Input: count(input), Output: count(output)}
	}
	cases := map[string]struct {
		add   []*message.Usage
		want  Totals
		total int64
	}{
		"nothing": {want: Totals{}},
		"one response": {
			add: []*message.Usage{reported(10, 5)}, want: Totals{Requests: 1, Input: count(10), Output: count(5)}, total: 15,
		},
		"a response without usage counts and adds nothing": {
			add: []*message.Usage{nil, reported(10, 5)}, want: Totals{Requests: 2, RequestsWithoutUsage: 1, Input: count(10), Output: count(5)}, total: 15,
		},
		"an empty usage is no usage": {add: []*message.Usage{{}}, want: Totals{Requests: 1, RequestsWithoutUsage: 1}},
		"cache counts alone are kept, and no usage": {
			add: []*message.Usage{{CacheRead: count(7)}}, want: Totals{Requests: 1, RequestsWithoutUsage: 1, CacheRead: count(7)}, total: 7,
		},
		"zero is a report": {add: []*message.Usage{reported(0, 0)}, want: Totals{Requests: 1, Input: count(0), Output: count(0)}},
		"input alone is a report": {
			add: []*message.Usage{{Input: count(3)}}, want: Totals{Requests: 1, Input: count(3)}, total: 3,
		},
		"a count that one of two has": {
			add:  []*message.Usage{reported(1, 2), {Input: count(1), Output: count(1), CacheRead: count(4), CacheWrite: count(5), Reasoning: count(1)}},
			want: Totals{Requests: 2, Input: count(2), Output: count(3), CacheRead: count(4), CacheWrite: count(5), Reasoning: count(1)}, total: 14,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got Totals
			for _, usage := range tc.add {
				got.Add(usage)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("totals (-want +got):\n%s", diff)
			}
			if got.Total() != tc.total {
				t.Errorf("total %d, want %d", got.Total(), tc.total)
			}
		})
	}
}

// TestPlusSharesNothing adds to a sum without changing what it was made of.
func TestPlusSharesNothing(t *testing.T) {
	a := Totals{Requests: 1, Input: count(1)}
	b := a.Plus(Totals{})
	b.Add(&message.Usage{Input: count(5)})
	if *a.Input != 1 || *b.Input != 6 {
		t.Errorf("a %d, b %d, want 1 and 6", *a.Input, *b.Input)
	}
}
