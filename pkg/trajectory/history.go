package trajectory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/session"
)

// ErrNoAgent is returned when the session has no agent of that key.
var ErrNoAgent = errors.New("no such agent in this session")

// HistoryMessage is one message of a conversation.
type HistoryMessage struct {
	Index   int             `json:"index"`
	Role    string          `json:"role"`
	Message json.RawMessage `json:"message,omitempty"`
	// EntryID is the entry that the message came from.
	EntryID     string   `json:"entryId,omitempty"`
	Run         *RunName `json:"run,omitempty"`
	RecordedAt  Time     `json:"recordedAt,omitzero"`
	Unavailable string   `json:"unavailable,omitempty"`
}

// History is a part of a conversation. Total is the length of all of it.
type History struct {
	Agent    string
	Total    int
	Messages []HistoryMessage
	Notices  []Notice
}

// History returns the messages of an agent's conversation before index before, at most limit of them, the newest;
// before below 0 means all. Committed messages are history, and accepted prompts from their acceptance on.
func (r *Reader) History(ctx context.Context, ix *Index, agent string, before, limit int) (History, error) {
	c, ok := ix.agents[agent]
	if !ok {
		return History{}, ErrNoAgent
	}
	out := History{Agent: agent, Messages: []HistoryMessage{}, Notices: []Notice{}}
	refs, notice, err := r.historyRefs(ctx, ix.Scope, c)
	if err != nil {
		return out, err
	}
	if notice != nil {
		notice.Agent = agent
		out.Notices = append(out.Notices, *notice)
	}
	out.Total = len(refs)
	end := len(refs)
	if before >= 0 {
		end = min(before, end)
	}
	begin := max(0, end-limit)
	origins := ix.origins(c, refs)
	bodies, err := r.resolve(ctx, ix.Scope, refs[begin:end])
	if err != nil {
		return out, err
	}
	for i, body := range bodies {
		m := HistoryMessage{Index: begin + i, Role: body.roleName(), Message: body.raw, Unavailable: body.problem()}
		if body.notice != nil {
			notice := *body.notice
			notice.Agent = agent
			out.Notices = append(out.Notices, notice)
		}
		ix.originate(&m, c, origins[begin+i], body)
		out.Messages = append(out.Messages, m)
	}
	return out, nil
}

// historyRefs are the references of a conversation's messages: those of the latest committed state, then the prompts
// that were accepted since.
func (r *Reader) historyRefs(ctx context.Context, scope cas.Scope, c *conversation) ([]cas.MessageRef, *Notice, error) {
	var refs []cas.MessageRef
	var covered int64
	if c.state != nil {
		committed, notice, err := load[session.AgentState](ctx, r, scope, *c.state)
		if err != nil || notice != nil {
			return nil, notice, err
		}
		refs, err = cas.ReadList(ctx, r.store, scope, committed.History)
		if err != nil {
			if notice := objectNotice(c.state.Digest, err); notice != nil {
				notice.Message = "The list of the conversation's messages is missing or damaged."
				return nil, notice, nil
			}
			return nil, nil, fmt.Errorf("read the conversation: %w", err)
		}
		refs = append(refs, committed.Step.StepRefs(c.state.Digest)...)
		covered = committed.LastSequence
	}
	for _, p := range c.prompts {
		if p.at > covered {
			refs = append(refs, cas.MessageRef{Digest: p.digest})
		}
	}
	return refs, nil, nil
}

// origins are the nodes that messages came from, by the objects that hold them; nil where none is known. Prompts stand
// in the history in the order of their acceptance, so that equal ones are told apart.
func (ix *Index) origins(c *conversation, refs []cas.MessageRef) []*node {
	out := make([]*node, len(refs))
	prompts := c.prompts
	for i, ref := range refs {
		if ref.Index == nil && len(prompts) > 0 && prompts[0].digest == ref.Digest {
			out[i] = ix.at(prompts[0].node)
			prompts = prompts[1:]
			continue
		}
		if at, ok := c.objects.find(ref.Digest); ok {
			out[i] = ix.at(at)
		}
	}
	return out
}

func (ix *Index) at(place int) *node {
	if place >= len(ix.nodes) {
		return nil
	}
	return ix.nodes[place]
}

// originate names the entry that a message came from. What a commit holds itself are results of its own request's calls.
func (ix *Index) originate(m *HistoryMessage, c *conversation, origin *node, body body) {
	if origin == nil {
		return
	}
	m.Run, m.RecordedAt = origin.Run, origin.CapturedAt
	if origin.Event == "state.committed" {
		if body.role != message.RoleToolResult || origin.Run == nil {
			return
		}
		at, ok := c.tools.find(toolKey{run: origin.Run.UID, request: origin.RequestExecutionID, call: body.callID})
		if origin = ix.at(at); !ok || origin == nil {
			return
		}
	}
	m.EntryID, m.RecordedAt = origin.ID, origin.CapturedAt
	if origin.EndedAt != 0 {
		m.RecordedAt = origin.EndedAt
	}
}
