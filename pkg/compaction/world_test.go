package compaction

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
)

var claude = provider.Model{Provider: "anthropic", API: provider.APIAnthropicMessages, ID: "claude", ContextWindow: 32_000,
	MaxTokens: 8192, Thinking: provider.ThinkingFixed, Images: true}

func user(text string) message.Message {
	return message.Message{Role: message.RoleUser, Content: message.Text(text)}
}

func reply(blocks ...message.Block) message.Message {
	m := message.Message{Role: message.RoleAssistant, Provider: claude.Provider, API: string(claude.API), Model: claude.ID,
		StopReason: message.StopStop, Content: message.Blocks(blocks...)}
	if len(m.ToolCalls()) > 0 {
		m.StopReason = message.StopToolUse
	}
	return m
}

func said(text string) message.Message {
	return reply(message.Block{Type: message.BlockText, Text: text})
}

func calls(ids ...string) message.Message {
	var blocks []message.Block
	for _, id := range ids {
		blocks = append(blocks, message.Block{Type: message.BlockToolCall, ID: id, Name: "read", Arguments: json.RawMessage(`{"path":"a.go"}`)})
	}
	return reply(blocks...)
}

func result(id, text string) message.Message {
	return message.Message{Role: message.RoleToolResult, ToolCallID: id, ToolName: "read", Content: message.Text(text)}
}

func xs(n int) string { return strings.Repeat("x", n) }

// project is the request for history as it stands, projected with the checkpoint.
func project(t testing.TB, history []message.Message, checkpoint *projection.Checkpoint, snapshots ...projection.Snapshot) projection.Result {
	t.Helper()
	got, err := projection.Project(projection.Input{Model: claude, History: history, Snapshots: snapshots, Checkpoint: checkpoint})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// begin plans a compaction of history that keeps the newest turn alone, and starts it.
func begin(t testing.TB, history []message.Message, previous *projection.Checkpoint, settings Settings) Progress {
	t.Helper()
	plan, err := Make(Input{Projected: project(t, history, previous), Previous: previous, Rules: settings.Rules})
	if err != nil {
		t.Fatal(err)
	}
	progress, err := plan.Begin(settings)
	if err != nil {
		t.Fatal(err)
	}
	return progress
}

// text is the message of a summary request.
func text(r SummaryRequest) string { return r.Messages[0].Content.Text }
