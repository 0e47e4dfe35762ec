package modelserver

import (
	"strings"
)

// call is what the server needs to know of an accepted request, whatever its protocol.
type call struct {
	model  *model
	stream bool
	// system, lastUser, hasToolResult, turn and step are what a script can match.
	system        string
	lastUser      string
	hasToolResult bool
	turn, step    int

	inputTokens int64
	maxOutput   int64 // 0 when the request sets no cap

	// prefix gives the digest of everything before the answer (Anthropic).
	prefix func() digest
	// dropThinking, hideThinking: the request wants no thinking, or thinking without its text (Anthropic).
	dropThinking, hideThinking bool
	// leadRequired says that fixed thinking is on, so that the turn must be replayed with its leading thinking.
	leadRequired bool
	// includeUsage asks for the usage chunk (Chat); wantEncrypted and wantSummary are the reasoning options (Responses).
	includeUsage               bool
	wantEncrypted, wantSummary bool
	// echoed are request fields that the answer repeats (Responses).
	echoed object
}

// matches says whether every condition of m holds for c.
func (c *call) matches(m *Match) bool {
	if m == nil {
		return true
	}
	switch {
	case m.LastUser != nil && !strings.Contains(c.lastUser, *m.LastUser),
		m.HasToolResult != nil && c.hasToolResult != *m.HasToolResult,
		m.System != nil && !strings.Contains(c.system, *m.System),
		m.Turn != nil && c.turn != *m.Turn,
		m.Step != nil && c.step != *m.Step:
		return false
	}
	return true
}

// sawText, sawToolResult and sawAssistant keep what a script can match while a request's messages are read in order.
func (c *call) sawText(text string) {
	if text == "" {
		return
	}
	c.lastUser, c.step, c.hasToolResult = text, 1, false
}

func (c *call) sawToolResult() { c.hasToolResult = true }

func (c *call) sawAssistant() {
	c.hasToolResult = false
	c.turn++
	c.step++
}

func newCall(m *model) *call { return &call{model: m, turn: 1, step: 1} }

// partKind names what a part of an answer is.
type partKind int

const (
	partText partKind = iota
	partThinking
	partToolCall
	partRefusal
)

// part is one resolved block of an answer.
type part struct {
	kind     partKind
	text     string // the text, the thinking, the refusal or the raw arguments
	redacted bool
	id, name string // tool calls
}

// pieces cuts the part's text into at most n pieces of whole characters; an empty text has none.
func (p part) pieces(n int) []string { return cutText(p.text, n) }

func cutText(s string, n int) []string {
	if s == "" {
		return nil
	}
	if n <= 1 {
		return []string{s}
	}
	var out []string
	for size := (len(s) + n - 1) / n; s != ""; {
		end := min(size, len(s))
		for end < len(s) && s[end]&0xC0 == 0x80 {
			end++
		}
		out = append(out, s[:end])
		s = s[end:]
	}
	return out
}

// answer is a reply made concrete for one call.
type answer struct {
	id       string // hexadecimal, unique in the model's life
	created  int64  // seconds since 1970
	parts    []part
	stop     string
	usage    Usage
	chunks   int
	hasUsage bool
}

// Stop reasons of scripts; each protocol has its own words for them.
const (
	stopStop    = "stop"
	stopLength  = "length"
	stopToolUse = "toolUse"
	stopRefusal = "refusal"
	stopContext = "contextWindow"
	stopPause   = "pause"
)

// defaultText answers when a reply says nothing of its content; long enough to be cut into pieces.
const defaultText = "This is the answer of a scripted model. It has no meaning of its own and is only as long as a " +
	"stream needs to be cut into a fair number of pieces."

// resolve makes the reply's content concrete. seq numbers the model's answers from 1, so ids never repeat.
func resolve(r *Reply, c *call, seq int64, created int64) *answer {
	a := &answer{id: answerID(c.model.name, seq), created: created, chunks: r.Chunks}
	if cuts := r.cuts(); len(cuts) > 0 && r.Chunks == 0 {
		a.chunks = cuts[0] + 1
	}
	switch {
	case r.Echo:
		a.parts = []part{{kind: partText, text: c.lastUser}}
	case r.Content == nil:
		a.parts = []part{{kind: partText, text: defaultText}}
	default:
		for i := range r.Content {
			a.parts = append(a.parts, resolvePart(&r.Content[i], a.id, i))
		}
	}
	if c.dropThinking {
		a.parts = withoutThinking(a.parts)
	}
	a.stop = r.StopReason
	if a.stop == "" {
		a.stop = defaultStop(a.parts)
	}
	if r.Usage != nil {
		a.usage, a.hasUsage = *r.Usage, *r.Usage != Usage{}
		return a
	}
	a.usage, a.hasUsage = counted(c, a.parts), true
	return a
}

func resolvePart(p *Part, answer string, index int) part {
	switch {
	case p.Thinking != nil:
		return part{kind: partThinking, text: string(*p.Thinking), redacted: p.Redacted}
	case p.Refusal != nil:
		return part{kind: partRefusal, text: string(*p.Refusal)}
	case p.ToolCall != nil:
		t := p.ToolCall
		out := part{kind: partToolCall, id: t.ID, name: t.Name, text: "{}"}
		if out.id == "" {
			out.id = callID(answer, index)
		}
		if t.RawArguments != nil {
			out.text = string(*t.RawArguments)
		}
		if len(t.Arguments) > 0 {
			out.text = compactJSON(t.Arguments)
		}
		return out
	}
	return part{kind: partText, text: string(*p.Text)}
}

func withoutThinking(parts []part) []part {
	var out []part
	for _, p := range parts {
		if p.kind != partThinking {
			out = append(out, p)
		}
	}
	return out
}

func defaultStop(parts []part) string {
	stop := stopStop
	for _, p := range parts {
		switch p.kind {
		case partToolCall:
			return stopToolUse
		case partRefusal:
			stop = stopRefusal
		}
	}
	return stop
}

func counted(c *call, parts []part) Usage {
	input := c.inputTokens
	var output, reasoning int64
	for _, p := range parts {
		n := c.tokens(p.text) + c.tokens(p.name)
		output += n
		if p.kind == partThinking {
			reasoning += n
		}
	}
	u := Usage{Input: &input, Output: &output}
	if reasoning > 0 {
		u.Reasoning = &reasoning
	}
	return u
}

// sum adds the counts that are set; it is nil when none is.
func sum(counts ...*int64) *int64 {
	var total *int64
	for _, n := range counts {
		if n == nil {
			continue
		}
		if total == nil {
			total = new(int64)
		}
		*total += *n
	}
	return total
}
