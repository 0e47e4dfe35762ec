package projection

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
)

// TestProjectorSeesEachField changes one field at a time of an input that a Projector has seen: forgetting to compare one
// would show as a stale row.
func TestProjectorSeesEachField(t *testing.T) {
	block := func(f func(*message.Block)) func(*Input) {
		return func(in *Input) {
			blocks := slices.Clone(in.History[1].Content.Blocks)
			f(&blocks[0])
			in.History[1].Content.Blocks = blocks
		}
	}
	reply := func(f func(*message.Message)) func(*Input) { return func(in *Input) { f(&in.History[2]) } }
	result := func(f func(*message.Message)) func(*Input) { return func(in *Input) { f(&in.History[3]) } }
	snapshot := func(f func(*Snapshot)) func(*Input) { return func(in *Input) { f(&in.Snapshots[0]) } }
	nine := int64(9)
	changes := map[string]func(*Input){
		"content":                    func(in *Input) { in.History[0].Content = message.Text("b") },
		"content from text to block": func(in *Input) { in.History[0].Content = message.Blocks(textBlock("a")) },
		"number of blocks":           reply(func(m *message.Message) { m.Content.Blocks = m.Content.Blocks[:1:1] }),
		"image data":                 block(func(b *message.Block) { b.Data, b.Ref = "AAAA", nil }),
		"image reference":            block(func(b *message.Block) { b.Ref = &message.BlobRef{Digest: "sha256:ab", Size: 4} }),
		"media type":                 block(func(b *message.Block) { b.MediaType = "image/gif" }),
		"block type":                 block(func(b *message.Block) { *b = textBlock("x") }),
		"provider":                   reply(func(m *message.Message) { m.Provider = "x" }),
		"api":                        reply(func(m *message.Message) { m.API = "x" }),
		"model":                      reply(func(m *message.Message) { m.Model = "x" }),
		"stop reason":                reply(func(m *message.Message) { m.StopReason = message.StopLength }),
		"error message":              reply(func(m *message.Message) { m.ErrorMessage = "x" }),
		"prefix":                     reply(func(m *message.Message) { m.Prefix = "x" }),
		"usage":                      reply(func(m *message.Message) { m.Usage = &message.Usage{Input: &nine} }),
		"usage that is gone":         reply(func(m *message.Message) { m.Usage = nil }),
		"thinking": reply(func(m *message.Message) {
			m.Content = message.Blocks(message.Block{Type: message.BlockThinking, Thinking: "other", ThinkingSignature: "s"}, m.Content.Blocks[1])
		}),
		"thinking signature": reply(func(m *message.Message) {
			m.Content = message.Blocks(message.Block{Type: message.BlockThinking, Thinking: "plan", ThinkingSignature: "t"}, m.Content.Blocks[1])
		}),
		"call id":   reply(func(m *message.Message) { m.Content = withCall(m.Content, func(b *message.Block) { b.ID = "d" }) }),
		"call name": reply(func(m *message.Message) { m.Content = withCall(m.Content, func(b *message.Block) { b.Name = "d" }) }),
		"arguments": reply(func(m *message.Message) {
			m.Content = withCall(m.Content, func(b *message.Block) { b.Arguments = json.RawMessage(`{"a":2}`) })
		}),
		"call's mark": reply(func(m *message.Message) {
			m.Content = withCall(m.Content, func(b *message.Block) { b.ThoughtSignature = "d" })
		}),
		"result's id": result(func(m *message.Message) { m.ToolCallID = "d" }), "result's tool": result(func(m *message.Message) { m.ToolName = "d" }),
		"failure": result(func(m *message.Message) { m.IsError = true }), "details": result(func(m *message.Message) { m.Details = json.RawMessage(`2`) }),
		"role":            result(func(m *message.Message) { m.Role = message.RoleUser }),
		"snapshot's text": snapshot(func(s *Snapshot) { s.Content = "D" }), "snapshot's place": snapshot(func(s *Snapshot) { s.Placement = PlacementUser }),
		"snapshot's turn":  snapshot(func(s *Snapshot) { s.UserTurn = 1 }),
		"Skill's revision": snapshot(func(s *Snapshot) { s.Skills = []SkillSelection{{ID: "a", Revision: "2"}} }),
		"checkpoint": func(in *Input) {
			in.Checkpoint = &Checkpoint{ID: "c", FirstKeptMessageIndex: 1, HistoryMessageCount: 2, Summary: "S"}
		},
		"tool description":     func(in *Input) { in.Tools = []message.Tool{{Name: "read", Description: "x"}} },
		"tool name":            func(in *Input) { in.Tools = []message.Tool{{Name: "x"}} },
		"section":              func(in *Input) { in.System = []Section{{Name: "a", Text: "B"}} },
		"model of the request": func(in *Input) { in.Model.ID = "x" },
		"model's provider":     func(in *Input) { in.Model.Provider = "x" },
		"model's protocol":     func(in *Input) { in.Model.API = "x" },
		"images of a model":    func(in *Input) { in.Model.Images = false },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			var p Projector
			if _, err := p.Project(fieldInput()); err != nil {
				t.Fatal(err)
			}
			in := fieldInput()
			change(&in)
			want, err := Project(in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Project(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(encodeResult(t, want), encodeResult(t, got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			before, err := Project(fieldInput())
			if err != nil || encodeResult(t, before) == encodeResult(t, want) {
				t.Errorf("the change does not show, so this case tests nothing (error %v)", err)
			}
		})
	}
}

func withCall(c message.Content, f func(*message.Block)) message.Content {
	blocks := slices.Clone(c.Blocks)
	f(&blocks[1])
	return message.Blocks(blocks...)
}

func fieldInput() Input {
	model, one := testModels[0], int64(1)
	m := reply(model, message.Block{Type: message.BlockThinking, Thinking: "plan", ThinkingSignature: "s"},
		message.Block{Type: message.BlockToolCall, ID: "c", Name: "read", Arguments: json.RawMessage(`{"a":1}`)})
	m.Usage = &message.Usage{Input: &one}
	return Input{Model: model, System: []Section{{Name: "a", Text: "A"}}, Tools: []message.Tool{{Name: "read"}},
		Snapshots: []Snapshot{{UserTurn: 0, Content: "C", Skills: []SkillSelection{{ID: "a", Revision: "1"}}}},
		History: []message.Message{userText("a"),
			{Role: message.RoleUser, Content: message.Blocks(message.Block{Type: message.BlockImage, MediaType: "image/png", Ref: &message.BlobRef{Digest: "sha256:ab", Size: 3}})},
			m, {Role: message.RoleToolResult, ToolCallID: "c", ToolName: "read", Content: message.Text("x"), Details: json.RawMessage(`1`)}}}
}
