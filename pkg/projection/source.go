package projection

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/agentloop/agentloop/pkg/message"
)

// SourceType says where a row of a request came from.
type SourceType string

// The kinds of sources.
const (
	SourceHistory        SourceType = "history"
	SourceCompaction     SourceType = "compaction"
	SourceRuntimeContext SourceType = "runtime-context"
	SourceToolRepair     SourceType = "tool-repair"
)

// Source is the origin of one request message. All indexes are zero-based. Its JSON has the fields of its type only.
type Source struct {
	Type SourceType
	// MessageIndex is a position in complete history: the entry itself (history), the first kept entry (compaction), the
	// anchoring user message (runtime-context), or the assistant message that made the call (tool-repair).
	MessageIndex int
	// CheckpointID and SummarizedBefore (the first history index that the summary does not cover) belong to compaction.
	CheckpointID     string
	SummarizedBefore int
	// SnapshotIndex, UserTurn and Skills belong to runtime-context.
	SnapshotIndex int
	UserTurn      int
	Skills        []SkillRef
	// ToolCallID belongs to tool-repair: the call's id as history has it.
	ToolCallID string
}

// SkillRef names a Skill and its revision; the instructions stay in the snapshot.
type SkillRef struct {
	ID       string `json:"id"`
	Revision string `json:"revision"`
}

// SkillExpansion says that a snapshot's text stands in front of a user message's own text.
type SkillExpansion struct {
	// MessageIndex is the user message's position in history.
	MessageIndex  int        `json:"messageIndex"`
	SnapshotIndex int        `json:"snapshotIndex"`
	Skills        []SkillRef `json:"skills"`
}

// ModelInputProjection is the source map of one request: Sources[i] describes message i.
type ModelInputProjection struct {
	// HistoryMessageCount is the length of complete history at dispatch, failed responses included.
	HistoryMessageCount int              `json:"historyMessageCount"`
	Sources             []Source         `json:"sources"`
	SkillExpansions     []SkillExpansion `json:"skillExpansions,omitempty"`
}

// Clone returns a copy that shares nothing with p.
func (p ModelInputProjection) Clone() ModelInputProjection {
	p.Sources = slices.Clone(p.Sources)
	for i := range p.Sources {
		p.Sources[i].Skills = slices.Clone(p.Sources[i].Skills)
	}
	p.SkillExpansions = slices.Clone(p.SkillExpansions)
	for i := range p.SkillExpansions {
		p.SkillExpansions[i].Skills = slices.Clone(p.SkillExpansions[i].Skills)
	}
	return p
}

// Validate checks that p describes a request of the given number of messages made from the given number of history
// entries. Its errors wrap ErrInvalidProjection.
func Validate(p ModelInputProjection, messages, history int) error {
	if p.HistoryMessageCount != history {
		return invalid("historyMessageCount %d, history has %d messages", p.HistoryMessageCount, history)
	}
	if len(p.Sources) != messages {
		return invalid("%d sources for %d messages", len(p.Sources), messages)
	}
	last := -1
	for i := range p.Sources {
		s := &p.Sources[i]
		if err := s.check(i, history); err != nil {
			return err
		}
		if s.Type != SourceHistory {
			continue
		}
		if s.MessageIndex <= last {
			return invalid("source %d: messageIndex %d does not follow %d", i, s.MessageIndex, last)
		}
		last = s.MessageIndex
	}
	for i, e := range p.SkillExpansions {
		if e.MessageIndex < 0 || e.MessageIndex >= history || e.SnapshotIndex < 0 {
			return invalid("skillExpansion %d: index outside history", i)
		}
	}
	return nil
}

func (s *Source) check(row, history int) error {
	if s.MessageIndex < 0 || s.MessageIndex >= history {
		return invalid("source %d: messageIndex %d is outside the %d messages of history", row, s.MessageIndex, history)
	}
	switch s.Type {
	case SourceHistory, SourceToolRepair:
		return nil
	case SourceCompaction:
		if row != 0 || s.CheckpointID == "" || s.SummarizedBefore != s.MessageIndex {
			return invalid("source %d: compaction row is not a summary of the messages before it", row)
		}
		return nil
	case SourceRuntimeContext:
		if s.SnapshotIndex < 0 || s.UserTurn < 0 || s.UserTurn > s.MessageIndex {
			return invalid("source %d: snapshotIndex or userTurn out of range", row)
		}
		return nil
	}
	return invalid("source %d: unknown type", row)
}

// AppendJSON appends the source's JSON: its type, then the fields of that type.
func (s Source) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"type":`...)
	dst = message.AppendString(dst, string(s.Type))
	if s.Type == SourceCompaction {
		dst = append(dst, `,"checkpointId":`...)
		dst = message.AppendString(dst, s.CheckpointID)
	}
	if s.Type == SourceRuntimeContext {
		dst = appendInt(dst, `,"snapshotIndex":`, s.SnapshotIndex)
		dst = appendInt(dst, `,"userTurn":`, s.UserTurn)
	}
	dst = appendInt(dst, `,"messageIndex":`, s.MessageIndex)
	switch s.Type {
	case SourceCompaction:
		dst = appendInt(dst, `,"summarizedBefore":`, s.SummarizedBefore)
	case SourceRuntimeContext:
		dst = append(dst, `,"skills":[`...)
		for i, ref := range s.Skills {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, `{"id":`...)
			dst = message.AppendString(dst, ref.ID)
			dst = append(dst, `,"revision":`...)
			dst = append(message.AppendString(dst, ref.Revision), '}')
		}
		dst = append(dst, ']')
	case SourceToolRepair:
		dst = append(dst, `,"toolCallId":`...)
		dst = message.AppendString(dst, s.ToolCallID)
	}
	return append(dst, '}')
}

func appendInt(dst []byte, key string, n int) []byte {
	return strconv.AppendInt(append(dst, key...), int64(n), 10)
}

// MarshalJSON implements json.Marshaler with the fields of the source's type only.
func (s Source) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// wireSource has every field of every type; which of them must be there depends on the type.
type wireSource struct {
	Type             SourceType `json:"type"`
	CheckpointID     *string    `json:"checkpointId"`
	SnapshotIndex    *int       `json:"snapshotIndex"`
	UserTurn         *int       `json:"userTurn"`
	MessageIndex     *int       `json:"messageIndex"`
	SummarizedBefore *int       `json:"summarizedBefore"`
	Skills           []SkillRef `json:"skills"`
	ToolCallID       *string    `json:"toolCallId"`
}

// UnmarshalJSON implements json.Unmarshaler. A missing field, a field of another type and an unknown type are errors;
// only an empty list of skills may be left out.
func (s *Source) UnmarshalJSON(raw []byte) error {
	var w wireSource
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&w); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("bytes after the source")
	}
	compaction, runtime, repair := w.Type == SourceCompaction, w.Type == SourceRuntimeContext, w.Type == SourceToolRepair
	switch {
	case !compaction && !runtime && !repair && w.Type != SourceHistory:
		return fmt.Errorf("unknown source type %q", w.Type)
	case w.MessageIndex == nil,
		(w.CheckpointID != nil) != compaction, (w.SummarizedBefore != nil) != compaction,
		(w.SnapshotIndex != nil) != runtime, (w.UserTurn != nil) != runtime, w.Skills != nil && !runtime,
		(w.ToolCallID != nil) != repair:
		return fmt.Errorf("source of type %q does not have exactly its fields", w.Type)
	}
	*s = Source{Type: w.Type, MessageIndex: *w.MessageIndex}
	switch w.Type {
	case SourceCompaction:
		s.CheckpointID, s.SummarizedBefore = *w.CheckpointID, *w.SummarizedBefore
	case SourceRuntimeContext:
		s.SnapshotIndex, s.UserTurn = *w.SnapshotIndex, *w.UserTurn
		s.Skills = append([]SkillRef{}, w.Skills...)
	case SourceToolRepair:
		s.ToolCallID = *w.ToolCallID
	}
	return nil
}
