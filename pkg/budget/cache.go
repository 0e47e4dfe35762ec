package budget

import (
	"bytes"

	"github.com/agentloop/agentloop/pkg/message"
)

// Cache remembers the counts of the messages that were measured last, so that the next request of the same conversation
// costs only what was added or replaced. The zero value is ready; a nil *Cache remembers nothing. It is not safe for
// concurrent use: keep one for each run.
//
// A count is reused only for a message whose counted content is equal, compared by value from both ends of the list,
// which covers a longer history, a rewritten message and a summary in place of the beginning. The comparison is cheap
// because requests of one conversation share their strings, and equal strings at one address are not read. It trusts
// one thing: messages are immutable values, so a block list at the same address still holds what it held.
type Cache struct {
	estimator string
	entries   []entry
}

// entry is the counted part of a message and its count.
type entry struct {
	role       message.Role
	content    message.Content
	toolCallID string
	toolName   string
	tokens     int64
}

// messageTokens returns the sum of the messages' counts.
func (c *Cache) messageTokens(e Estimator, messages []message.Message) int64 {
	var total int64
	if c == nil {
		for i := range messages {
			total = add(total, MessageTokensWith(e, messages[i]))
		}
		return total
	}
	if name := e.Name(); c.estimator != name {
		c.estimator, c.entries = name, nil
	}
	head := 0
	for shorter := min(len(c.entries), len(messages)); head < shorter && c.entries[head].counts(&messages[head]); {
		head++
	}
	tail := 0
	for shorter := min(len(c.entries), len(messages)) - head; tail < shorter &&
		c.entries[len(c.entries)-1-tail].counts(&messages[len(messages)-1-tail]); {
		tail++
	}
	c.replace(head, tail, len(messages))
	for i := head; i < len(messages)-tail; i++ {
		m := &messages[i]
		c.entries[i] = entry{role: m.Role, content: m.Content, toolCallID: m.ToolCallID, toolName: m.ToolName,
			tokens: MessageTokensWith(e, *m)}
	}
	for i := range c.entries {
		total = add(total, c.entries[i].tokens)
	}
	return total
}

// replace makes the list n entries long, keeping head entries at its beginning and tail at its end.
func (c *Cache) replace(head, tail, n int) {
	old := c.entries
	if n > cap(old) {
		c.entries = append(make([]entry, 0, n+n/4), old[:head]...)
	}
	c.entries = c.entries[:n]
	copy(c.entries[n-tail:], old[len(old)-tail:])
	if n < len(old) {
		clear(old[n:]) // let go of the messages that left
	}
}

// counts says that the entry's count is m's count.
func (e *entry) counts(m *message.Message) bool {
	return e.role == m.Role && e.content.IsText == m.Content.IsText && e.content.Text == m.Content.Text &&
		e.toolCallID == m.ToolCallID && e.toolName == m.ToolName && sameBlocks(e.content.Blocks, m.Content.Blocks)
}

func sameBlocks(a, b []message.Block) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) == 0 || &a[0] == &b[0] {
		return true
	}
	for i := range a {
		if !sameBlock(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

// sameBlock compares what is counted: every image costs the same.
func sameBlock(a, b *message.Block) bool {
	if a.Type != b.Type {
		return false
	}
	if a.Type == message.BlockImage {
		return true
	}
	return a.Text == b.Text && a.TextSignature == b.TextSignature &&
		a.Thinking == b.Thinking && a.ThinkingSignature == b.ThinkingSignature && a.Redacted == b.Redacted &&
		a.ID == b.ID && a.Name == b.Name && bytes.Equal(a.Arguments, b.Arguments) &&
		a.ThoughtSignature == b.ThoughtSignature
}
