package compaction

import (
	"slices"
	"strings"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
)

// carriedLead stands in a saved summary in front of the request that is being worked on. A reader of the checkpoint
// finds the request behind its last occurrence.
const carriedLead = "\n\nThe request in progress, word for word:\n\n"

// maxCarried bounds the request that a split keeps in the summary, in characters.
const maxCarried = 8000

// split plans a boundary inside the newest turn: before one of its replies, whose calls and results stay with it. The
// newest reply always stays, and older ones while all of them together have at most Keep tokens.
func (in *Input) split(newest unit) (Plan, bool) {
	before := len(in.Projected.Messages)
	parts := in.units(newest.row, before, func(row int) bool { return row == newest.row || in.startsReply(row) })
	keep := in.Keep
	if in.Room > 0 {
		keep = min(keep, in.Room)
	}
	at := keepFrom(parts, keep)
	if at == 0 {
		return Plan{}, false
	}
	plan := in.plan(parts[at].boundary)
	plan.Split = true
	plan.carried = in.carried(newest, parts[1].row)
	return plan, true
}

// carried is the text of the request in progress with the context that was sent with it, or with a turn before and has not
// changed since. Where its message was cut away by an earlier split, it is what that one carried.
func (in *Input) carried(newest unit, reply int) string {
	if !newest.user {
		return carriedIn(in.Previous)
	}
	p := in.Projected.Projection
	var texts []string
	own := slices.ContainsFunc(p.SkillExpansions, func(e projection.SkillExpansion) bool { return e.MessageIndex == newest.boundary })
	for row := newest.row; row < reply; row++ {
		own = own || p.Sources[row].Type == projection.SourceRuntimeContext
		texts = append(texts, plainText(in.Projected.Messages[row].Content))
	}
	if !own && in.Context != "" {
		texts = append(texts, in.Context)
	}
	return shorten(strings.Join(texts, "\n\n"), maxCarried)
}

// carriedIn returns the request that a checkpoint carries, empty when it carries none.
func carriedIn(c *projection.Checkpoint) string {
	if c == nil {
		return ""
	}
	at := strings.LastIndex(c.Summary, carriedLead)
	if at < 0 {
		return ""
	}
	return c.Summary[at+len(carriedLead):]
}

// plainText is the text of content that is not a reply's, with a word for each image.
func plainText(c message.Content) string {
	if c.IsText {
		return c.Text
	}
	var texts []string
	for i := range c.Blocks {
		switch b := &c.Blocks[i]; b.Type {
		case message.BlockText:
			texts = append(texts, b.Text)
		case message.BlockImage:
			texts = append(texts, imageWord)
		}
	}
	return strings.Join(texts, "\n")
}
