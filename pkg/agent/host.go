package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// maxWhole bounds what is kept of one result that was cut, in bytes.
const maxWhole = 8 << 20

// saveSkills stores the Skills that the model may load and names them in the run's configuration: from then on nobody
// asks what they are now.
func (l *loop) saveSkills(ctx context.Context) error {
	l.cfg.Loadable = nil
	for _, skill := range l.run.Skills {
		ref, err := l.saveObject(ctx, cas.MediaSkill, skill)
		if err != nil {
			return err
		}
		l.cfg.Loadable = append(l.cfg.Loadable, session.LoadableSkill{ID: skill.ID, Revision: skill.Revision, Name: skill.Name, Object: ref})
	}
	return nil
}

// withBuiltIn adds the tools that the program itself has. They come first: no server's tool can take the place of one.
func (l *loop) withBuiltIn(set tool.Set, want *session.ToolSet) tool.Set {
	if l.deps.BuiltIn == nil {
		return set
	}
	host := Host{Others: set.Definitions(), Skills: l.cfg.Loadable, Skill: l.skill, Result: l.wholeResult}
	if l.deps.Children != nil {
		host.Subagents = l.cfg.Subagents
	}
	if want != nil {
		host.Known = append([]tool.Definition{}, want.Tools...) // not nil: a run without tools goes on without
	}
	combined, shadowed := tool.Combine(l.deps.BuiltIn(host), set)
	for _, definition := range shadowed {
		l.deps.Logger.Warn("tool left out: a built-in tool has its name", "run", l.run.UID, "server", definition.Server, "tool", definition.Name)
	}
	return combined
}

// skill reads one of the Skills that the run was started with.
func (l *loop) skill(ctx context.Context, id string) (session.Skill, error) {
	for _, loadable := range l.cfg.Loadable {
		if loadable.ID == id {
			return object[session.Skill](ctx, l, loadable.Object)
		}
	}
	return session.Skill{}, ErrNoSkill
}

// wholeDetail is the member of a result's details that names all of its text.
type wholeDetail struct {
	Whole *cas.Ref `json:"whole,omitempty"`
}

// keepWhole stores all of the text of a result that was cut and names it in the result's details, where later runs find
// it. It returns nil when nothing was cut.
func (l *loop) keepWhole(ctx context.Context, text string, result *message.Message) (*cas.Ref, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // said above
	}
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	ref, err := l.save(ctx, cas.MediaBlob, []byte(message.Beginning(text, maxWhole)))
	if err != nil {
		return nil, err
	}
	result.Details, err = withMember(result.Details, wholeDetail{Whole: &ref})
	return &ref, err
}

// withMember adds what member encodes to to a JSON object, which keeps its form.
func withMember(details json.RawMessage, member any) (json.RawMessage, error) {
	added, err := json.Marshal(member)
	if err != nil {
		return nil, err
	}
	details = bytes.TrimSpace(details)
	if len(details) <= len("{}") || details[0] != '{' {
		return added, nil
	}
	out := append([]byte{}, bytes.TrimSpace(details[:len(details)-1])...)
	return append(append(out, ','), added[1:]...), nil
}

// wholeResult reads all of the text of an earlier result. The history does not change while tools run.
func (l *loop) wholeResult(ctx context.Context, callID string) (string, error) {
	found := false
	for i := len(l.history) - 1; i >= 0; i-- {
		m := &l.history[i]
		if m.Role != message.RoleToolResult || m.ToolCallID != callID {
			continue
		}
		found = true
		var details wholeDetail
		if len(m.Details) == 0 || json.Unmarshal(m.Details, &details) != nil || details.Whole == nil {
			continue
		}
		raw, _, err := cas.GetBody(ctx, l.deps.Store, l.run.Scope(), *details.Whole, maxWhole)
		if err != nil {
			return "", fmt.Errorf("read the whole of a result: %w", err)
		}
		return string(raw), nil
	}
	if found {
		return "", ErrNotCut
	}
	return "", ErrNoResult
}
