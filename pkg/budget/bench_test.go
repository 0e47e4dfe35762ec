package budget

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

const goSource = "func (s *server) handle(w http.ResponseWriter, r *http.Request) {\n\tif err := s.check(r); err != nil {\n" +
	"\t\thttp.Error(w, \"not allowed: \"+err.Error(), http.StatusForbidden)\n\t\treturn\n\t}\n}\n"

// benchTexts are about a megabyte each.
func benchTexts() map[string]string {
	repeat := func(s string) string { return strings.Repeat(s, 1<<20/len(s)) }
	return map[string]string{
		"ascii":    repeat("The quick brown fox jumps over the lazy dog. "),
		"code":     repeat(goSource),
		"mixed":    repeat("Größe naïve — 价格是 42 € und 😀 plus some plain English words, "),
		"chinese":  repeat("请阅读配置文件并解释项目结构，然后运行测试。"),
		"cyrillic": repeat("Прочитай файл конфигурации и объясни. "),
		"emoji":    repeat("😀🎉👩‍💻"),
	}
}

func BenchmarkText(b *testing.B) {
	for name, text := range benchTexts() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if TextTokens(text) == 0 {
					b.Fatal("no tokens")
				}
			}
		})
	}
}

func BenchmarkScan(b *testing.B) {
	for name, text := range benchTexts() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if Scan.Text(text) == 0 {
					b.Fatal("no tokens")
				}
			}
		})
	}
}

// BenchmarkBlock counts the text as the JSON of a text block, as most of a conversation is counted.
func BenchmarkBlock(b *testing.B) {
	for name, text := range benchTexts() {
		b.Run(name, func(b *testing.B) {
			m := message.Message{Role: message.RoleUser, Content: message.Blocks(message.Block{Type: message.BlockText, Text: text})}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if MessageTokens(m) == 0 {
					b.Fatal("no tokens")
				}
			}
		})
	}
}

func BenchmarkArguments(b *testing.B) {
	quoted, err := json.Marshal(benchTexts()["code"])
	if err != nil {
		b.Fatal(err)
	}
	raw := json.RawMessage(`{"path":"main.go","content":` + string(quoted) + `}`)
	m := message.Message{Role: message.RoleAssistant, Content: message.Blocks(
		message.Block{Type: message.BlockToolCall, ID: "c", Name: "write", Arguments: raw})}
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if MessageTokens(m) == 0 {
			b.Fatal("no tokens")
		}
	}
}

// history is n messages, about bytes long together: prompts, replies with a call, results.
func history(n, bytes int) []message.Message {
	text := strings.Repeat(goSource, bytes/n/len(goSource)+1)[:bytes/n]
	messages := make([]message.Message, 0, n)
	for i := range n {
		id := fmt.Sprintf("call_%d", i/2)
		own := fmt.Sprintf("%d %s", i, text)
		if i%2 == 0 {
			messages = append(messages, message.Message{Role: message.RoleAssistant, StopReason: message.StopToolUse,
				Content: message.Blocks(message.Block{Type: message.BlockText, Text: own},
					message.Block{Type: message.BlockToolCall, ID: id, Name: "read", Arguments: json.RawMessage(`{"path":"main.go"}`)})})
			continue
		}
		messages = append(messages, message.Message{Role: message.RoleToolResult, ToolCallID: id, ToolName: "read",
			Content: message.Blocks(message.Block{Type: message.BlockText, Text: own})})
	}
	return messages
}

func bigModel() Options {
	return Options{Model: provider.Model{Provider: "p", API: provider.APIAnthropicMessages, ID: "m",
		ContextWindow: 10_000_000, MaxTokens: 64_000}}
}

// BenchmarkMeasure measures a conversation of 10,000 messages and 10 MB: anew, as it is, and grown by two messages; the
// last also when all its messages were loaded again and share nothing with those remembered.
func BenchmarkMeasure(b *testing.B) {
	messages := history(10_002, 10<<20)
	shorter, longer := Request{Messages: messages[:10_000]}, Request{Messages: messages}
	anew := Request{}
	for _, m := range messages {
		anew.Messages = append(anew.Messages, deepCopy(m))
	}
	measure := func(b *testing.B, request Request, cache *Cache) {
		if budget, err := Measure(request, bigModel(), cache); err != nil || budget.MessageTokens == 0 {
			b.Fatalf("%+v, %v", budget, err)
		}
	}
	b.Run("anew", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			measure(b, longer, nil)
		}
	})
	for name, request := range map[string]Request{"continuation": longer, "continuation loaded again": anew} {
		b.Run(name, func(b *testing.B) {
			cache := new(Cache)
			measure(b, shorter, cache)
			b.ReportAllocs()
			for b.Loop() {
				measure(b, request, cache)
				cache.entries = cache.entries[:10_000] // as if the two had not been there yet
			}
		})
	}
}

func BenchmarkGuardPayload(b *testing.B) {
	body, err := json.Marshal(map[string]any{"messages": benchTexts()["code"], "max_tokens": 4096})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := GuardPayload(body, Policy{Reserve: 4096, Ceiling: 8192}); err != nil {
			b.Fatal(err)
		}
	}
}
