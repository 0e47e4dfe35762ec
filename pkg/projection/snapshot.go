package projection

import (
	"strings"

	"github.com/agentloop/agentloop/pkg/message"
)

// NextSnapshot decides whether the newest user turn of history gets a snapshot of its own. candidate holds the runtime
// context and the Skills selected for this turn; its UserTurn is set here, and selected Skills place it in front of the
// user's text. The second result says whether to store it, that is, to append it to stored.
//
// It is stored when Skills were selected, or when its context differs from the latest stored one that the model still
// sees: one whose anchor a compaction has replaced by a summary does not count, nor do the instructions of Skills. Context
// that has become blank is stored as ClearedContext, so that the model does not rely on the old; blank context that the
// model knows nothing of is not stored, and beside selected Skills it is replaced by their instructions. A turn that has a
// snapshot keeps it, so a request that is sent again finds the same, and one whose own prompt was replaced gets none, for
// nothing would show it. Errors wrap ErrInvalidProjection.
func NextSnapshot(stored []Snapshot, history []message.Message, checkpoint *Checkpoint, candidate Snapshot) (Snapshot, bool, error) {
	if err := checkSnapshots(stored); err != nil {
		return Snapshot{}, false, err
	}
	users, seen := 0, 0
	for i := range history {
		if history[i].Role != message.RoleUser {
			continue
		}
		if users++; i < checkpoint.boundary() {
			seen = users
		}
	}
	if users == 0 {
		return Snapshot{}, false, invalid("snapshot: history has no user message to anchor it")
	}
	candidate.UserTurn = users - 1
	believed := visibleContext(stored, seen)
	if blank(candidate.context()) && believed != "" && believed != ClearedContext {
		candidate.Content = strings.TrimSpace(ClearedContext + "\n\n" + SkillInstructions(candidate.Skills))
	}
	if len(candidate.Skills) > 0 {
		candidate.Placement = PlacementUser
		if blank(candidate.Content) {
			candidate.Content = SkillInstructions(candidate.Skills)
		}
	}
	last := Snapshot{UserTurn: -1}
	if len(stored) > 0 {
		last = stored[len(stored)-1]
	}
	switch {
	case last.UserTurn > candidate.UserTurn:
		return Snapshot{}, false, invalid("snapshot %d: userTurn %d is not below the %d user messages of history",
			len(stored)-1, last.UserTurn, users)
	case candidate.Placement != PlacementLegacy && candidate.Placement != PlacementUser:
		return Snapshot{}, false, invalid("snapshot: unknown placement")
	case last.UserTurn == candidate.UserTurn, seen == users, blank(candidate.Content):
		return Snapshot{}, false, nil
	}
	return candidate, len(candidate.Skills) > 0 || believed != candidate.Content, nil
}

// ClearedContext takes the place of runtime context that there is not any more.
const ClearedContext = "(The runtime context was cleared: what earlier context said does not hold any more.)"

// context is the runtime context of a snapshot, without the instructions of its Skills behind it.
func (s Snapshot) context() string {
	if len(s.Skills) == 0 {
		return s.Content
	}
	return strings.TrimSuffix(strings.TrimSuffix(s.Content, SkillInstructions(s.Skills)), "\n\n")
}

// visibleContext is the runtime context that the model has last been told of a turn from seen on; "" for none. Snapshots of
// Skills alone say nothing about it.
func visibleContext(stored []Snapshot, seen int) string {
	for i := len(stored) - 1; i >= 0 && stored[i].UserTurn >= seen; i-- {
		if context := stored[i].context(); !blank(context) {
			return context
		}
	}
	return ""
}

// SkillInstructions renders selected Skills as the text that a snapshot's content carries for them.
func SkillInstructions(skills []SkillSelection) string {
	var out strings.Builder
	for i, s := range skills {
		if i > 0 {
			out.WriteString("\n\n")
		}
		out.WriteString("<skill name=" + quote(s.Name))
		if s.Path != "" {
			out.WriteString(" path=" + quote(s.Path))
		}
		out.WriteString(">\n" + strings.TrimRight(s.Content, "\n") + "\n</skill>")
	}
	return out.String()
}

var attributeEscaper = strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;", "\n", "&#10;", "\r", "&#13;")

func quote(s string) string { return `"` + attributeEscaper.Replace(s) + `"` }
