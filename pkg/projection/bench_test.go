package projection

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/message"
)

// longHistory has n messages of about size bytes each: user, call, result, reply, over and over, as the same model gave
// them. prefix is what the calling replies record.
func longHistory(n, size int, prefix string) []message.Message {
	model := testModels[0]
	body := func(i int) string {
		line := fmt.Sprintf("line %d: func main() { fmt.Println(\"hello\") } // \u4e2d\n", i)
		return strings.Repeat(line, 1+size/len(line))
	}
	history := make([]message.Message, 0, n)
	for i := range n {
		id := fmt.Sprintf("toolu_%08d", i/4)
		switch i % 4 {
		case 0:
			history = append(history, userText(body(i)))
		case 1:
			args, _ := json.Marshal(map[string]string{"path": body(i)})
			m := reply(model, message.Block{Type: message.BlockThinking, Thinking: "I need the file.", ThinkingSignature: "c2ln"},
				message.Block{Type: message.BlockToolCall, ID: id, Name: "read", Arguments: args})
			m.StopReason, m.Prefix = message.StopToolUse, prefix
			history = append(history, m)
		case 2:
			history = append(history, message.Message{Role: message.RoleToolResult, ToolCallID: id, ToolName: "read", Content: message.Text(body(i))})
		case 3:
			history = append(history, reply(model, textBlock(body(i))))
		}
	}
	return history
}

const benchMessages, benchSize = 10_000, 1_000

// BenchmarkProject projects 10,000 messages of 10 MB from nothing: as they are, and with the thinking of every fourth one
// left out because its prefix changed.
func BenchmarkProject(b *testing.B) {
	for name, prefix := range map[string]string{"as it is": "", "thinking left out": "sha256:" + strings.Repeat("0", 64)} {
		b.Run(name, func(b *testing.B) {
			in := Input{Model: testModels[0], History: longHistory(benchMessages, benchSize, prefix), System: []Section{{Text: "Be brief."}}}
			b.SetBytes(benchMessages * benchSize)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Project(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkContinue adds two messages to 10,000 that the Projector has seen.
func BenchmarkContinue(b *testing.B) {
	history := longHistory(benchMessages+2*b.N+9, benchSize/50, "")
	copy(history, longHistory(benchMessages, benchSize, ""))
	in := Input{Model: testModels[0], History: history[:benchMessages+1], System: []Section{{Text: "Be brief."}}}
	var p Projector
	if _, err := p.Project(in); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		in.History = history[:benchMessages+1+2*(i+1)]
		if _, err := p.Project(in); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReproject projects 10,000 seen messages again under another system prompt, as after a change of model or a
// compaction: the digests of history are known.
func BenchmarkReproject(b *testing.B) {
	in := Input{Model: testModels[0], History: longHistory(benchMessages, benchSize, "")}
	var p Projector
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		in.System = []Section{{Text: fmt.Sprint("Be brief ", i)}}
		if _, err := p.Project(in); err != nil {
			b.Fatal(err)
		}
	}
}
