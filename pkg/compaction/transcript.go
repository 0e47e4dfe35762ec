package compaction

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentloop/agentloop/pkg/internal/frame"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
)

// maxResult is how many characters of a tool result, or of a call's arguments, a bounded summary request holds.
const maxResult = 2000

// imageWord stands for an image: a summary is written from text.
const imageWord = "(image)"

// The tags that a summary request consists of. None of what stands between them can contain one.
const (
	tagPrevious     = "previous_summary"
	tagConversation = "conversation"
	tagMessage      = "message"
	tagCall         = "tool_call"
	tagResult       = "tool_result"
)

var frameTags = []string{tagPrevious, tagConversation, tagMessage, tagCall, tagResult}

// entry is one part of the transcript: what a person, the agent or a tool said.
type entry struct {
	// open is the opening tag without its bracket at the end, so that a part of an entry can be marked; tag is its name.
	open, tag string
	// body is the text as the conversation has it.
	body string
	// tool says that it is a call's arguments or a result, which are shortened first.
	tool bool
	// part numbers the pieces of an entry that did not fit into one request; 0 for a whole one.
	part int
}

// append writes the entry. What it says cannot leave its tags.
func (e entry) append(out *strings.Builder) {
	out.WriteString(e.open)
	if e.part > 0 {
		out.WriteString(` part="` + strconv.Itoa(e.part) + `"`)
	}
	out.WriteString(">\n" + frame.Escape(e.body, frameTags...) + "\n</" + e.tag + ">\n")
}

func (e entry) String() string {
	var out strings.Builder
	e.append(&out)
	return out.String()
}

// transcript renders projected rows. Thinking is left out: it is the model's own and often as long as everything else.
func transcript(rows []message.Message, sources []projection.Source) []entry {
	var entries []entry
	text := func(role, body string) {
		if strings.TrimSpace(body) != "" {
			entries = append(entries, entry{open: `<message role="` + role + `"`, tag: tagMessage, body: body})
		}
	}
	for i := range rows {
		m := &rows[i]
		switch {
		case m.Role == message.RoleToolResult:
			open := "<" + tagResult + ` name=` + quote(m.ToolName)
			if m.IsError {
				open += ` error="true"`
			}
			entries = append(entries, entry{open: open, tag: tagResult, body: plainText(m.Content), tool: true})
		case m.Role == message.RoleAssistant:
			for j := range m.Content.Blocks {
				switch b := &m.Content.Blocks[j]; b.Type {
				case message.BlockText:
					text("assistant", b.Text)
				case message.BlockToolCall:
					entries = append(entries, entry{open: "<" + tagCall + ` name=` + quote(b.Name), tag: tagCall,
						body: string(b.Arguments), tool: true})
				}
			}
		case sources[i].Type == projection.SourceRuntimeContext:
			text("context", plainText(m.Content))
		default:
			text("user", plainText(m.Content))
		}
	}
	if len(entries) == 0 {
		text("note", "Nothing but thinking stood here.")
	}
	return entries
}

var attributeEscaper = strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;", "\n", "&#10;", "\r", "&#13;")

// maxName bounds the names of tools, which come from their servers, in characters.
const maxName = 64

func quote(name string) string { return `"` + attributeEscaper.Replace(shorten(name, maxName)) + `"` }

// shorten cuts text to about limit characters: its beginning and its end, between them a note of how many are missing.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	count := utf8.RuneCountInString(text)
	if count <= limit {
		return text
	}
	head := limit * 3 / 4
	tail := limit - head
	return text[:byteAt(text, head)] + "\n[… " + strconv.Itoa(count-limit) + " characters left out …]\n" +
		text[byteAt(text, count-tail):]
}

// byteAt returns where the n-th character of text begins.
func byteAt(text string, n int) int {
	for at := range text {
		if n == 0 {
			return at
		}
		n--
	}
	return len(text)
}
