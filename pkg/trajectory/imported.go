package trajectory

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/legacy"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// classLegacy is the class of the streams that imported files are folded as. No log has it.
const classLegacy runevent.Class = "legacy"

// imports is what was imported for a session: its files, and which of their records may double what run events say.
type imports struct {
	// set names the manifests that were read.
	set   string
	files []*legacyFile
	// payloads are the payload files by the digest of their bytes.
	payloads map[cas.Digest]*legacyFile
	// texts and actions are the places of imported texts and responses, calls those of the calls in segments.
	texts, actions, calls []int
	// prefixes are the files that another one of the same path begins with.
	prefixes map[*legacyFile]bool
	matching
}

// legacyFile is one imported file.
type legacyFile struct {
	legacy.File
	// key is the part of ids that stands for the file.
	key     string
	records int
}

// name names the set of imported files; empty when there are none.
func (im *imports) name() string {
	if im == nil {
		return ""
	}
	return im.set
}

func (im *imports) size() int64 {
	if im == nil {
		return 0
	}
	const perFile, perItem = 600, 200
	return int64(len(im.files)*perFile + (len(im.texts)+len(im.actions)+len(im.calls)+len(im.compared)+len(im.arguments))*perItem)
}

// streamName is how the stream or file of an entry is named to people.
func (n *node) streamName() string {
	if n.file != nil {
		return n.file.Path
	}
	return streamName(n.stream)
}

// importing is one file that is being folded.
type importing struct {
	b    *Builder
	file *legacyFile
	// sequence is the number of the last journal line that had one.
	sequence int64
	untimed  int
}

// line folds one line. payload is what it refers to; nil when that is not there or it refers to nothing.
func (i *importing) line(line legacy.Line, payload []byte) {
	if line.TooLong() {
		i.damaged(line, fmt.Sprintf("it has %d bytes, at most %d are read", line.Length, legacy.MaxLine))
		return
	}
	record, err := legacy.Parse(i.file.Kind, line.Raw, payload)
	switch {
	case errors.Is(err, legacy.ErrMalformed) && line.Open:
		i.note(Notice{
			Code: CodeTail, From: line.Number, To: line.Number,
			Message: fmt.Sprintf("Line %d of the imported file, its last one, is incomplete: it was being written when its writer ended. It was left out.", line.Number),
		})
		return
	case errors.Is(err, legacy.ErrMalformed):
		i.damaged(line, "it is no record of its file's kind")
		return
	}
	i.order(record, line)
	if err != nil || !record.Payload.IsZero() {
		i.unknown(line, record)
		return
	}
	for part, item := range record.Items {
		i.item(line, part, item)
	}
}

func (i *importing) damaged(line legacy.Line, why string) {
	i.note(Notice{
		Code: CodeDamaged, From: line.Number, To: line.Number,
		Message: fmt.Sprintf("Line %d of the imported file is damaged and was left out: %s.", line.Number, why),
	})
}

func (i *importing) note(n Notice) {
	n.Stream = i.file.Path
	i.b.notice(n)
}

// order compares a journal line's own number with the one before.
func (i *importing) order(record legacy.Record, line legacy.Line) {
	if record.Sequence == 0 {
		return
	}
	before := i.sequence
	i.sequence = record.Sequence
	switch {
	case before == 0 || record.Sequence == before+1:
	case record.Sequence > before:
		i.note(Notice{
			Code: CodeGap, From: before + 1, To: record.Sequence - 1,
			Message: fmt.Sprintf("Records #%d to #%d are missing in the imported file, before line %d.", before+1, record.Sequence-1, line.Number),
		})
	default:
		i.note(Notice{
			Code: CodeLink, From: record.Sequence, To: record.Sequence, EntryID: entryID(i.stream(0), line.Number),
			Message: fmt.Sprintf("Record #%d stands behind record #%d in the imported file, in line %d.", record.Sequence, before, line.Number),
		})
	}
}

// stream names the stream that one of the things in a line belongs to.
func (i *importing) stream(part int) runevent.Stream {
	key := i.file.key
	if part > 0 {
		key += "." + strconv.Itoa(part)
	}
	return runevent.Stream{Class: classLegacy, Namespace: i.b.scope.Namespace, Session: i.b.scope.Session, Key: key}
}

func (i *importing) fact(line legacy.Line, part int, item legacy.Item) (*stream, fact) {
	s := i.b.stream(i.stream(part))
	entry := runevent.Entry{Sequence: line.Number, Event: item.Event}
	f := fact{
		entry: entry, head: runevent.Head{Sequence: line.Number}, agent: item.Event.Evidence.AgentID, file: i.file, part: part,
		span: cas.Range{Offset: line.Offset, Length: line.Length},
	}
	if i.file.Kind == legacy.KindJournal {
		f.at = i.b.capture(s, entry)
	} else { // the order of segments says nothing about their times
		f.at = moment{at: timeOf(entry.Event.Evidence.RecordedAt)}
	}
	if f.at.at == 0 {
		i.untimed++
	}
	s.head.Sequence = line.Number
	i.file.records++
	return s, f
}

// unknown lists a line that is not interpreted.
func (i *importing) unknown(line legacy.Line, record legacy.Record) {
	s, f := i.fact(line, 0, record.Items[0])
	n := i.b.node(s, f, TypeUnknown)
	n.Event, n.Title = short64(record.Kind), short64(record.Kind)
	i.b.place(n)
	notice := Notice{
		Code: CodeUnknown, From: line.Number, To: line.Number, EntryID: n.ID, Agent: n.Agent,
		Message: fmt.Sprintf("Line %d of the imported file has a kind that this program does not know. It is listed and not interpreted.", line.Number),
	}
	if !record.Payload.IsZero() {
		notice.Code, notice.Digest = CodeMissing, record.Payload
		notice.Message = fmt.Sprintf("The payload of line %d of the imported file is not among the imported files. The line is listed.", line.Number)
	}
	i.note(notice)
}

func short64(s string) string {
	if len(s) > 64 {
		return s[:64]
	}
	return s
}

// item folds one thing that a line says.
func (i *importing) item(line legacy.Line, part int, item legacy.Item) {
	s, f := i.fact(line, part, item)
	b, im, before := i.b, i.b.imports, len(i.b.nodes)
	switch item.Event.Type {
	case runevent.TypeReasoning, runevent.TypeBody:
		b.text(s, f)
		if len(b.nodes) == before {
			return
		}
		n := b.nodes[before]
		n.Status = StatusUnfinished // until its response comes
		if i.file.Kind == legacy.KindSegments {
			n.Status = StatusCompleted
		}
		im.texts = append(im.texts, before)
	case runevent.TypeToolCall, runevent.TypeToolResult:
		if i.file.Kind == legacy.KindSegments {
			n := b.nodes[b.newTool(s, f)]
			n.Bytes, n.Status = int64(len(item.Event.Arguments)), StatusUnfinished
			im.calls = append(im.calls, before)
			return
		}
		b.tool(s, f)
		if at, ok := s.tools.find(f.tool()); ok && b.nodes[at].Status == StatusDeclared {
			b.edit(at, f.head).Status = StatusUnfinished
		}
	default:
		b.completed(s, f)
		n := b.nodes[len(b.nodes)-1]
		n.Bytes = int64(len(item.Message))
		if item.Model != "" {
			n.Model, n.Title = item.Model, item.Model
		}
		im.actions = append(im.actions, len(b.nodes)-1)
		i.answered(s, f)
	}
}

// answered completes the texts of a response that came whole.
func (i *importing) answered(s *stream, f fact) {
	evidence := f.event().Evidence
	if evidence.RequestExecutionID == "" && evidence.ResponseID == "" {
		return
	}
	for _, kind := range []runevent.Type{runevent.TypeReasoning, runevent.TypeBody} {
		if at, ok := s.texts[textKey{kind: kind, request: f.request(), response: evidence.ResponseID}]; ok {
			i.b.edit(at, f.head).Status = StatusCompleted
		}
	}
}

// end says what was read of the file.
func (i *importing) end() {
	if i.file.records == 0 {
		return
	}
	message := fmt.Sprintf("%d records come from an imported file of an earlier format. They name no model input.", i.file.records)
	if i.untimed > 0 {
		message += fmt.Sprintf(" The time of %d was not recorded.", i.untimed)
	}
	i.note(Notice{Code: CodeImported, Message: message})
}
