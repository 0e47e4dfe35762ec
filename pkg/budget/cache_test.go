package budget

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/message"
)

// counting counts like the heuristic and remembers how many texts it was asked for.
type counting struct {
	name  string
	texts *int
}

func (c counting) Name() string { return c.name }
func (c counting) Text(s string) int64 {
	*c.texts++
	return slowText(s)
}

// deepCopy returns an equal message that shares no memory with m.
func deepCopy(m message.Message) message.Message {
	m.Content.Text, m.ToolCallID, m.ToolName = strings.Clone(m.Content.Text), strings.Clone(m.ToolCallID), strings.Clone(m.ToolName)
	blocks := m.Content.Blocks
	m.Content.Blocks = nil
	for _, b := range blocks {
		b.Text, b.Thinking, b.ID, b.Name = strings.Clone(b.Text), strings.Clone(b.Thinking), strings.Clone(b.ID), strings.Clone(b.Name)
		b.Arguments = bytes.Clone(b.Arguments)
		m.Content.Blocks = append(m.Content.Blocks, b)
	}
	return m
}

func uncached(messages []message.Message) int64 {
	var total int64
	for _, m := range messages {
		total += MessageTokens(m)
	}
	return total
}

// TestCachedCountsAreTheUncachedOnes edits a conversation in every way that projection and compaction do, and in some
// that they do not, and compares after each edit.
func TestCachedCountsAreTheUncachedOnes(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 60 {
		cache := new(Cache)
		var messages []message.Message
		for step := range 60 {
			messages = edit(r, messages)
			if got, want := cache.messageTokens(Heuristic, messages), uncached(messages); got != want {
				t.Fatalf("step %d, %d messages: %d tokens from the cache, want %d", step, len(messages), got, want)
			}
			if len(cache.entries) != len(messages) {
				t.Fatalf("the cache holds %d entries for %d messages", len(cache.entries), len(messages))
			}
		}
	}
}

func edit(r *rand.Rand, messages []message.Message) []message.Message {
	n := len(messages)
	at := r.IntN(n + 1)
	switch r.IntN(9) {
	case 0: // nothing changes
	case 1: // a summary replaces the beginning
		messages = append([]message.Message{randomMessage(r)}, messages[at:]...)
	case 2: // the end is cut off
		messages = messages[:at]
	case 3: // a row comes in between
		messages = append(messages[:at:at], append([]message.Message{randomMessage(r)}, messages[at:]...)...)
	case 4: // one message is rewritten in the same list
		if at < n {
			messages[at] = randomMessage(r)
		}
	case 5: // everything is loaded anew
		fresh := make([]message.Message, 0, n)
		for _, m := range messages {
			fresh = append(fresh, deepCopy(m))
		}
		messages = fresh
	case 6: // the same list turned round
		for i, j := 0, n-1; i < j; i, j = i+1, j-1 {
			messages[i], messages[j] = messages[j], messages[i]
		}
	default: // the conversation goes on
		messages = append(messages, randomMessage(r), randomMessage(r))
	}
	return messages
}

func TestCacheCountsOnlyWhatIsNew(t *testing.T) {
	texts := 0
	estimator := counting{"counting", &texts}
	user := func(s string) message.Message {
		return message.Message{Role: message.RoleUser, Content: message.Text(s)}
	}
	messages := []message.Message{user("a"), user("b"), user("c"), user("d")}
	cache := new(Cache)
	steps := []struct {
		name     string
		messages []message.Message
		want     int
	}{
		{"the first time everything", messages, 4},
		{"nothing when nothing changed", messages, 0},
		{"nothing for equal messages elsewhere in memory", []message.Message{user("a"), user("b"), user("c"), user("d")}, 0},
		{"the two that were added", append(messages[:4:4], user("e"), user("f")), 2},
		{"the summary that replaced the beginning", []message.Message{user("sum"), user("d"), user("e"), user("f")}, 1},
		{"the one that was rewritten", []message.Message{user("sum"), user("D"), user("e"), user("f")}, 1},
		{"nothing when messages leave", []message.Message{user("sum"), user("f")}, 0},
		{"nothing for none", nil, 0},
	}
	for _, step := range steps {
		texts = 0
		cache.messageTokens(estimator, step.messages)
		if texts != step.want {
			t.Errorf("%s: %d texts counted, want %d", step.name, texts, step.want)
		}
	}
}

func TestCacheOfAnotherEstimatorIsNotUsed(t *testing.T) {
	texts := 0
	cache := new(Cache)
	messages := []message.Message{{Role: message.RoleUser, Content: message.Text("a")}}
	for _, name := range []string{"one", "two", "two", "one"} {
		cache.messageTokens(counting{name, &texts}, messages)
	}
	if texts != 3 {
		t.Errorf("%d texts counted, want one for each change of the estimator", texts)
	}
}

// TestCacheSeesEveryCountedField changes one counted field at a time of a message that is otherwise equal.
func TestCacheSeesEveryCountedField(t *testing.T) {
	block := message.Block{Type: message.BlockToolCall, ID: "id", Name: "n", Arguments: []byte(`{"a":1}`)}
	cases := map[string]func(m *message.Message){
		"role":               func(m *message.Message) { m.Role = message.RoleUser },
		"tool call id":       func(m *message.Message) { m.ToolCallID = "another call id" },
		"tool name":          func(m *message.Message) { m.ToolName = "another tool name" },
		"string content":     func(m *message.Message) { m.Content = message.Text("some text, long enough to differ") },
		"block type":         func(m *message.Message) { m.Content.Blocks[0] = message.Block{Type: message.BlockImage} },
		"text":               func(m *message.Message) { m.Content.Blocks[1].Text = "longer text" },
		"text signature":     func(m *message.Message) { m.Content.Blocks[1].TextSignature = "signature" },
		"thinking":           func(m *message.Message) { m.Content.Blocks[2].Thinking = "longer thinking" },
		"thinking signature": func(m *message.Message) { m.Content.Blocks[2].ThinkingSignature = "signature" },
		"redacted":           func(m *message.Message) { m.Content.Blocks[2].Redacted = true },
		"id":                 func(m *message.Message) { m.Content.Blocks[0].ID = "a much longer id" },
		"name":               func(m *message.Message) { m.Content.Blocks[0].Name = "a much longer name" },
		"arguments":          func(m *message.Message) { m.Content.Blocks[0].Arguments = []byte(`{"a":1,"b":[2,3,4]}`) },
		"thought signature":  func(m *message.Message) { m.Content.Blocks[0].ThoughtSignature = "signature" },
		"number of blocks":   func(m *message.Message) { m.Content.Blocks = m.Content.Blocks[:2] },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			before := message.Message{Role: message.RoleToolResult, ToolCallID: "c", ToolName: "t", Content: message.Blocks(
				block, message.Block{Type: message.BlockText, Text: "t"}, message.Block{Type: message.BlockThinking, Thinking: "h"})}
			after := deepCopy(before)
			change(&after)
			cache := new(Cache)
			first := cache.messageTokens(Heuristic, []message.Message{before})
			second := cache.messageTokens(Heuristic, []message.Message{after})
			if want := uncached([]message.Message{after}); second != want || first == second {
				t.Errorf("%d tokens before, %d after, want %d and a difference", first, second, want)
			}
		})
	}
}
