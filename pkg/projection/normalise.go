package projection

import (
	"github.com/agentloop/agentloop/pkg/message"
)

// Texts that stand for what a request cannot hold. They are fixed, so that the same history gives the same bytes.
const (
	imagePlaceholder    = "(image left out: this model takes text only)"
	ownImagePlaceholder = "(image left out: it was part of a reply)"
	noOutputPlaceholder = "(no output)"
	noTextPlaceholder   = "(no text)"
	repairText          = "No result provided"
)

func textBlock(text string) message.Block {
	return message.Block{Type: message.BlockText, Text: text}
}

// blockList collects the blocks of an adapted message. Until the first difference it only counts: an unchanged message
// keeps its own list.
type blockList struct {
	in      []message.Block
	out     []message.Block
	seen    int
	changed bool
	// inRun says that everything since the last placeholder for images was left out.
	inRun bool
}

// keep passes the next block of in on as it is.
func (l *blockList) keep() {
	if l.changed {
		l.out = append(l.out, l.in[l.seen])
	}
	l.inRun = false
	l.seen++
}

// drop leaves the next block of in out.
func (l *blockList) drop() {
	l.diverge()
	l.seen++
}

// replace puts b in the place of the next block of in.
func (l *blockList) replace(b message.Block) {
	l.diverge()
	l.out = append(l.out, b)
	l.inRun = false
	l.seen++
}

func (l *blockList) diverge() {
	if l.changed {
		return
	}
	l.changed = true
	l.out = append(make([]message.Block, 0, max(len(l.in), 1)), l.in[:l.seen]...)
}

// orPlaceholder ends the list: a message must not be empty.
func (l *blockList) orPlaceholder(text string) {
	if len(l.in) > 0 && (!l.changed || len(l.out) > 0) {
		return
	}
	l.diverge()
	l.out = append(l.out, textBlock(text))
}

func (l *blockList) blocks() []message.Block {
	if l.changed {
		return l.out
	}
	return l.in
}

// replaceImage puts one placeholder in the place of a run of images.
func (l *blockList) replaceImage(placeholder string) {
	if l.inRun {
		l.drop()
		return
	}
	l.replace(textBlock(placeholder))
	l.inRun = true
}

// adaptContent returns what a user message or a tool result may hold: non-blank text and images. front, when it is not
// empty, comes before everything else; empty stands in for content that has nothing left.
func adaptContent(c message.Content, images bool, front, empty string) (message.Content, bool) {
	if c.IsText {
		return adaptText(c, front, empty)
	}
	list := blockList{in: c.Blocks}
	if front != "" {
		list.changed = true
		list.out = append(make([]message.Block, 0, len(c.Blocks)+1), textBlock(front))
	}
	for i := range c.Blocks {
		switch b := &c.Blocks[i]; b.Type {
		case message.BlockText:
			if blank(b.Text) {
				list.drop()
				continue
			}
			list.keep()
		case message.BlockImage:
			if images {
				list.keep()
				continue
			}
			list.replaceImage(imagePlaceholder)
		default: // thinking and calls belong to assistants only
			list.drop()
		}
	}
	if front == "" {
		list.orPlaceholder(empty)
	}
	return message.Content{Blocks: list.blocks()}, list.changed
}

func adaptText(c message.Content, front, empty string) (message.Content, bool) {
	switch {
	case front != "" && blank(c.Text):
		return message.Text(front), true
	case front != "":
		return message.Text(front + "\n\n" + c.Text), true
	case blank(c.Text):
		return message.Text(empty), true
	}
	return c, false
}
