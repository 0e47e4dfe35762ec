package trajectory

import (
	"context"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/session"
)

// AgentState says what a committed state holds, without contents.
type AgentState struct {
	Ref             cas.Ref         `json:"ref"`
	Agent           string          `json:"agent"`
	Run             RunName         `json:"run"`
	Turn            int             `json:"turn"`
	LastSequence    int64           `json:"lastSequence"`
	HistoryMessages int             `json:"historyMessages"`
	AddedMessages   int             `json:"addedMessages,omitempty"`
	Attempt         int             `json:"attempt,omitempty"`
	Worker          string          `json:"worker,omitempty"`
	StartedAt       Time            `json:"startedAt,omitzero"`
	Requests        int             `json:"requests"`
	ToolCalls       int             `json:"toolCalls"`
	Usage           *session.Totals `json:"usage,omitempty"`
	Earlier         *session.Totals `json:"earlier,omitempty"`
	Model           *ModelName      `json:"model,omitempty"`
	Snapshots       []cas.Ref       `json:"snapshots,omitempty"`
	Sections        *cas.Ref        `json:"sections,omitempty"`
	Checkpoint      *cas.Ref        `json:"checkpoint,omitempty"`
	LastContext     *cas.Ref        `json:"lastContext,omitempty"`
	// Terminal is the run's last event, when the step was its last one.
	Terminal string `json:"terminal,omitempty"`
	// safe is the state as it may leave; nil when it was not encoded yet.
	safe []byte
}

// keptStates is how many described states a reader keeps: all entries of a turn have the same one.
const keptStates = 256

// state fills in the state that held at the entry: of a model input, the one that its assembly record names.
func (d *detail) state(ctx context.Context) error {
	ref := d.node.stateRef
	if d.Assembly != nil {
		ref = d.Assembly.State
	}
	if ref == nil {
		return nil
	}
	key := bodyKey{d.index.Scope, ref.Digest, -1}
	if known, ok := d.reader.states.Get(key); ok && known.Ref == *ref {
		d.AgentState = known
		return nil
	}
	committed, notice, err := load[session.AgentState](ctx, d.reader, d.index.Scope, *ref)
	if err != nil {
		return err
	}
	if notice != nil {
		d.note(*notice)
		return nil
	}
	d.AgentState = describe(committed, *ref)
	var w writer
	if w.value("agentState", d.AgentState); w.err == nil {
		d.AgentState.safe = w.out
	}
	d.reader.states.Add(key, d.AgentState, 1)
	return nil
}

func describe(s session.AgentState, ref cas.Ref) *AgentState {
	out := &AgentState{
		Ref: ref, Agent: s.Agent, Run: RunName{UID: s.RunUID, Name: s.RunName}, Turn: s.Step.Turn, LastSequence: s.LastSequence,
		HistoryMessages: s.History.Count + len(s.Step.Messages), AddedMessages: len(s.Step.Messages), Attempt: s.Run.Attempt,
		Worker: s.Run.Worker, StartedAt: timeOf(s.Run.StartedAt), Requests: s.Run.Requests, ToolCalls: s.Run.ToolCalls, Usage: &s.Run.Usage,
		Earlier: &s.Earlier, Snapshots: s.Snapshots, Sections: s.Sections, Checkpoint: s.Checkpoint, LastContext: s.Run.LastContext,
	}
	if s.Model.ID != "" {
		out.Model = &ModelName{Provider: s.Model.Provider, API: string(s.Model.API), ID: s.Model.ID}
	}
	if s.Step.Terminal != nil {
		out.Terminal = string(s.Step.Terminal.Type)
	}
	return out
}
