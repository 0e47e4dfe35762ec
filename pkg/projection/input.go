package projection

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

// ErrInvalidProjection is returned when history, snapshots, a checkpoint, sections or a source map do not fit each
// other. Nothing may be dispatched from such an input.
var ErrInvalidProjection = errors.New("invalid projection")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalidProjection}, args...)...)
}

// Input is everything that one request of a session is projected from. Its values are read and shared, never changed.
type Input struct {
	// Model is the model that the request is for; only its identity and whether it takes images matter here.
	Model provider.Model
	// History is the complete conversation, oldest first.
	History []message.Message
	// Snapshots are the stored runtime-context snapshots, oldest first.
	Snapshots []Snapshot
	// Checkpoint is the latest saved compaction; nil when there is none.
	Checkpoint *Checkpoint
	// System is the system prompt as ordered sections with distinct names.
	System []Section
	Tools  []message.Tool
}

// The placements of a snapshot.
const (
	// PlacementLegacy makes the snapshot a user message of its own after its anchor.
	PlacementLegacy = ""
	// PlacementUser puts the snapshot's text in front of its anchor's own text.
	PlacementUser = "user"
)

// Snapshot is runtime context or selected Skills as the model saw them from one user turn on.
type Snapshot struct {
	// UserTurn is the zero-based ordinal, among the user messages of history, of the message that it belongs to: its
	// anchor.
	UserTurn int `json:"userTurn"`
	// Content is the exact text that the model gets, Skill instructions included.
	Content string `json:"content"`
	// Timestamp is when it was captured (RFC 3339); it has no influence on the projection.
	Timestamp string           `json:"timestamp,omitempty"`
	Placement string           `json:"placement,omitempty"`
	Skills    []SkillSelection `json:"skills,omitempty"`
}

// SkillSelection is one selected Skill with the instructions that it had at that moment.
type SkillSelection struct {
	ID       string `json:"id"`
	Revision string `json:"revision"`
	Name     string `json:"name"`
	Path     string `json:"path"`
	Content  string `json:"content"`
}

// Checkpoint is a saved compaction: the messages before FirstKeptMessageIndex are represented by Summary.
type Checkpoint struct {
	ID string `json:"id"`
	// FirstKeptMessageIndex is the history index of the first message that is still sent; at least 1.
	FirstKeptMessageIndex int `json:"firstKeptMessageIndex"`
	// HistoryMessageCount is how long history was when the checkpoint was made.
	HistoryMessageCount int    `json:"historyMessageCount"`
	Summary             string `json:"summary"`
}

// blank looks at no more of s than its leading white space.
func blank(s string) bool { return strings.TrimLeftFunc(s, unicode.IsSpace) == "" }

// check refuses what can be judged without walking history. That the last snapshot has an anchor is judged afterwards.
func (in *Input) check() error {
	if err := checkSnapshots(in.Snapshots); err != nil {
		return err
	}
	if err := in.Checkpoint.check(len(in.History)); err != nil {
		return err
	}
	return checkSections(in.System)
}

func checkSnapshots(snapshots []Snapshot) error {
	last := -1
	for i := range snapshots {
		s := &snapshots[i]
		if s.UserTurn < 0 {
			return invalid("snapshot %d: userTurn %d is negative", i, s.UserTurn)
		}
		if s.UserTurn <= last {
			return invalid("snapshot %d: userTurn %d does not follow %d", i, s.UserTurn, last)
		}
		last = s.UserTurn
		if s.Placement != PlacementLegacy && s.Placement != PlacementUser {
			return invalid("snapshot %d: unknown placement", i)
		}
		if blank(s.Content) {
			return invalid("snapshot %d: content is blank", i)
		}
	}
	return nil
}

func (c *Checkpoint) check(history int) error {
	switch {
	case c == nil:
		return nil
	case c.ID == "":
		return invalid("checkpoint: id is empty")
	case blank(c.Summary):
		return invalid("checkpoint: summary is blank")
	case c.HistoryMessageCount > history:
		return invalid("checkpoint: historyMessageCount %d is beyond the %d messages of history", c.HistoryMessageCount, history)
	case c.FirstKeptMessageIndex < 1 || c.FirstKeptMessageIndex > c.HistoryMessageCount || c.FirstKeptMessageIndex >= history:
		return invalid("checkpoint: firstKeptMessageIndex %d is outside history", c.FirstKeptMessageIndex)
	}
	return nil
}

// boundary is the first history index that is still sent.
func (c *Checkpoint) boundary() int {
	if c == nil {
		return 0
	}
	return c.FirstKeptMessageIndex
}
