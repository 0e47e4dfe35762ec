package projection

import (
	"slices"

	"github.com/agentloop/agentloop/pkg/internal/frame"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

// assembly builds the rows of one request message by message. A row that was added is never touched again, whatever
// history brings later: this is what lets a Projector go on from where it was. Only the repairs of calls that are still
// unanswered at the end are provisional, and those are never added to it.
type assembly struct {
	model      provider.Model
	snapshots  []Snapshot
	checkpoint *Checkpoint
	ids        callIDs
	// digest returns the digest of a history message.
	digest func(index int) Digest
	// scratch is the buffer for digests of rows that history does not have.
	scratch []byte

	rows       []message.Message
	sources    []Source
	unaltered  []bool
	expansions []SkillExpansion
	// prefix covers all rows so far.
	prefix Prefix

	// consumed is how many history messages were taken.
	consumed int
	// users counts the user messages of history so far; nextSnapshot is the first snapshot whose anchor is to come.
	users, nextSnapshot int
	// calls are those of the latest assistant message, whose history index is caller; empty when no result may follow.
	calls  []openCall
	caller int
	// firstOpen is the position of the first call that may still be unanswered: results mostly stand in call order.
	firstOpen int
	// lostThinking says that a reply of the turn that is going on stands without thinking it was given with.
	lostThinking bool
}

// openCall is a call whose result is awaited.
type openCall struct {
	historyID, requestID, name string
	answered                   bool
}

func newAssembly(in *Input, system string, digest func(int) Digest) *assembly {
	a := &assembly{
		model: in.Model, snapshots: in.Snapshots, checkpoint: in.Checkpoint, digest: digest,
		ids:    callIDs{rule: ruleFor(in.Model), used: map[string]int{}},
		prefix: NewPrefix(system, in.Tools),
	}
	// Room for some growth: most requests of a session continue an earlier one.
	room := len(in.History) - in.Checkpoint.boundary() + len(in.Snapshots)
	room += room/8 + 16
	a.rows, a.sources, a.unaltered = make([]message.Message, 0, room), make([]Source, 0, room), make([]bool, 0, room)
	if c := in.Checkpoint; c != nil {
		a.add(message.Message{Role: message.RoleUser, Content: message.Text(summaryText(c.Summary))},
			Source{Type: SourceCompaction, CheckpointID: c.ID, MessageIndex: c.FirstKeptMessageIndex,
				SummarizedBefore: c.FirstKeptMessageIndex})
	}
	return a
}

// add appends a row that history does not have in this form.
func (a *assembly) add(m message.Message, s Source) {
	var digest Digest
	digest, a.scratch = appendDigest(a.scratch, m)
	a.append(m, s, false, digest)
}

func (a *assembly) append(m message.Message, s Source, unaltered bool, digest Digest) {
	a.rows = append(a.rows, m)
	a.sources = append(a.sources, s)
	a.unaltered = append(a.unaltered, unaltered)
	a.prefix = a.prefix.Add(digest)
}

// addHistory appends history message index, adapted or as it is.
func (a *assembly) addHistory(index int, m message.Message, changed bool) {
	s := Source{Type: SourceHistory, MessageIndex: index}
	if changed {
		a.add(m, s)
		return
	}
	a.append(m, s, true, a.digest(index))
}

// take adds what history message index gives. Messages before the boundary only count.
func (a *assembly) take(index int, m message.Message) error {
	if err := checkMessage(index, m); err != nil {
		return err
	}
	if m.Role == message.RoleToolResult {
		if index >= a.checkpoint.boundary() {
			a.result(index, m)
		}
		return nil
	}
	a.calls = a.repair(a.calls)
	if m.Role == message.RoleUser {
		a.user(index, m)
		return nil
	}
	if index >= a.checkpoint.boundary() {
		a.assistant(index, m)
	}
	return nil
}

// checkMessage refuses what no stored message can be.
func checkMessage(index int, m message.Message) error {
	switch m.Role {
	case message.RoleUser, message.RoleToolResult:
	case message.RoleAssistant:
		if m.Content.IsText {
			return invalid("message %d: an assistant's content must be a list of blocks", index)
		}
	default:
		return invalid("message %d: unknown role", index)
	}
	for i := range m.Content.Blocks {
		switch m.Content.Blocks[i].Type {
		case message.BlockText, message.BlockThinking, message.BlockImage, message.BlockToolCall:
		default:
			return invalid("message %d: block %d has an unknown type", index, i)
		}
	}
	return nil
}

func (a *assembly) user(index int, m message.Message) {
	a.lostThinking = false
	turn := a.users
	a.users++
	snapshot := -1
	if a.nextSnapshot < len(a.snapshots) && a.snapshots[a.nextSnapshot].UserTurn == turn {
		snapshot = a.nextSnapshot
		a.nextSnapshot++
	}
	if index < a.checkpoint.boundary() {
		return
	}
	front := ""
	if snapshot >= 0 && a.snapshots[snapshot].Placement == PlacementUser {
		front = a.snapshots[snapshot].Content
		a.expansions = append(a.expansions,
			SkillExpansion{MessageIndex: index, SnapshotIndex: snapshot, Skills: skillRefs(a.snapshots[snapshot].Skills)})
	}
	var changed bool
	m.Content, changed = adaptContent(m.Content, a.model.Images, front, noTextPlaceholder)
	a.addHistory(index, m, changed)
	if snapshot >= 0 && front == "" {
		s := &a.snapshots[snapshot]
		a.add(message.Message{Role: message.RoleUser, Content: message.Text(s.Content)},
			Source{Type: SourceRuntimeContext, SnapshotIndex: snapshot, UserTurn: turn, MessageIndex: index,
				Skills: skillRefs(s.Skills)})
	}
}

// skillRefs is never nil, since the list is part of its row even when it is empty.
func skillRefs(skills []SkillSelection) []SkillRef {
	refs := make([]SkillRef, len(skills))
	for i := range skills {
		refs[i] = SkillRef{ID: skills[i].ID, Revision: skills[i].Revision}
	}
	return refs
}

func (a *assembly) assistant(index int, m message.Message) {
	if m.StopReason == message.StopError || m.StopReason == message.StopAborted {
		return // its calls are not opened, so their results find no call and leave with it
	}
	same := a.model.Same(m.Provider, m.API, m.Model)
	bound := same && (m.Prefix == "" || a.prefix.is(m.Prefix))
	a.caller, a.firstOpen = index, 0
	list := blockList{in: m.Content.Blocks}
	for i := range m.Content.Blocks {
		switch b := &m.Content.Blocks[i]; b.Type {
		case message.BlockThinking:
			a.thinking(&list, b, bound)
		case message.BlockText:
			adaptAssistantText(&list, b, same)
		case message.BlockImage:
			list.replaceImage(ownImagePlaceholder) // no protocol takes an image back as a reply
		case message.BlockToolCall:
			a.call(&list, b, same)
		}
	}
	list.orPlaceholder(noTextPlaceholder)
	m.Content.Blocks = list.blocks()
	a.addHistory(index, m, list.changed)
}

// thinking passes reasoning on whole or not at all: an edited block would be refused by the provider that signed it.
func (a *assembly) thinking(list *blockList, b *message.Block, bound bool) {
	worth := b.Redacted || b.ThinkingSignature != "" || !blank(b.Thinking)
	if bound && worth {
		list.keep()
		return
	}
	a.lostThinking = a.lostThinking || worth
	list.drop()
}

func adaptAssistantText(list *blockList, b *message.Block, same bool) {
	switch {
	case blank(b.Text):
		list.drop()
	case same || b.TextSignature == "":
		list.keep()
	default:
		list.replace(textBlock(b.Text))
	}
}

func (a *assembly) call(list *blockList, b *message.Block, same bool) {
	next := *b
	if same {
		next.ID = a.ids.native(b.ID, a.caller)
	} else {
		next.ID, next.ThoughtSignature = a.ids.foreign(b.ID, a.caller), ""
	}
	a.calls = append(a.calls, openCall{historyID: b.ID, requestID: next.ID, name: b.Name})
	if next.ID == b.ID && next.ThoughtSignature == b.ThoughtSignature {
		list.keep()
		return
	}
	list.replace(next)
}

// result adds a result if it answers an open call. Calls of one message that share an id are answered in order.
func (a *assembly) result(index int, m message.Message) {
	at := a.awaiting(m.ToolCallID)
	if at < 0 {
		return
	}
	a.calls[at].answered = true
	changed := a.calls[at].requestID != m.ToolCallID
	m.ToolCallID = a.calls[at].requestID
	var adapted bool
	m.Content, adapted = adaptContent(m.Content, a.model.Images, "", noOutputPlaceholder)
	a.addHistory(index, m, changed || adapted)
}

// awaiting returns the position of the first unanswered call with the id; -1 without one.
func (a *assembly) awaiting(historyID string) int {
	for a.firstOpen < len(a.calls) && a.calls[a.firstOpen].answered {
		a.firstOpen++
	}
	for i := a.firstOpen; i < len(a.calls); i++ {
		if c := &a.calls[i]; !c.answered && c.historyID == historyID {
			return i
		}
	}
	return -1
}

// repair answers the calls that have no result and returns the emptied list.
func (a *assembly) repair(calls []openCall) []openCall {
	for i := range calls {
		if calls[i].answered {
			continue
		}
		a.add(message.Message{Role: message.RoleToolResult, ToolCallID: calls[i].requestID, ToolName: calls[i].name,
			Content: message.Blocks(textBlock(repairText)), IsError: true},
			Source{Type: SourceToolRepair, MessageIndex: a.caller, ToolCallID: calls[i].historyID})
	}
	return calls[:0]
}

// finish returns the rows as they would stand in a request now.
func (a *assembly) finish() assembly {
	done := *a
	if slices.ContainsFunc(a.calls, func(c openCall) bool { return !c.answered }) {
		// Later results may take the place of these repairs: they go to a copy.
		done.rows, done.sources, done.unaltered = slices.Clip(done.rows), slices.Clip(done.sources), slices.Clip(done.unaltered)
		done.repair(done.calls)
	}
	return done
}

const (
	summaryLead = "The earlier part of this conversation was replaced by a summary. It is a record, not a new request.\n\n"
	summaryOpen = "<summary>\n"
	summaryEnd  = "\n</summary>"
)

// summaryText frames the summary so that it cannot end its own frame.
func summaryText(summary string) string {
	return summaryLead + summaryOpen + frame.EscapeClosing(summary, "summary") + summaryEnd
}
