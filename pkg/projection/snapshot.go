package projection

import (
	"strings"

	"github.com/agentloop/agentloop/pkg/message"
)

// NextSnapshot decides whether the newest user turn of history gets a snapshot of its own. candidate holds the runtime
// context and the Skills selected for this turn; its UserTurn is set here, and selected Skills place it in front of the
// user's text. The second result says whether to store it, that is, to append it to stored.
//
// It is stored when Skills were selected, or when its content differs from the latest stored one that the model still
// sees: one whose anchor a compaction has replaced by a summary does not count. A turn that has a snapshot keeps it, so
// a request that is sent again finds the same, and one whose own prompt was replaced gets none, for nothing would show it. Blank content is never stored; beside selected Skills it is replaced by
// their instructions. Errors wrap ErrInvalidProjection.
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
	visible := last.UserTurn >= seen
	return candidate, len(candidate.Skills) > 0 || !visible || last.Content != candidate.Content, nil
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
