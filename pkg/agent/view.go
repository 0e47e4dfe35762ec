package agent

import (
	"slices"
	"sync"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/session"
)

// SessionView is what a program that executes the runs of one session itself can see of it: the source map of the latest
// dispatched main request, the budget of the latest measured one, and the complete originals. Hand it to every run of
// the session through Deps.View. It is transient: a view of a reopened session knows no request until the next one is
// dispatched. Safe for concurrent use; everything that it returns is a copy.
type SessionView struct {
	mu        sync.Mutex
	model     session.ModelIdentity
	latest    *projection.ModelInputProjection
	budget    *budget.ContextBudget
	history   []message.Message
	snapshots []projection.Snapshot
}

// ModelInputProjection is the source map of the latest main request that passed its budget and its guard. It stays when
// the request then fails or is cancelled, and when a later request is rejected. An accepted prompt and a switch to
// another model clear it; then, and before the first dispatch, it is nil.
func (v *SessionView) ModelInputProjection() *projection.ModelInputProjection {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.latest == nil {
		return nil
	}
	out := v.latest.Clone()
	return &out
}

// ContextBudget is the budget of the latest main request that was measured, rejected ones included. An accepted prompt
// clears it until its first request is measured; then it is nil.
func (v *SessionView) ContextBudget() *budget.ContextBudget {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.budget == nil {
		return nil
	}
	out := v.budget.Clone()
	return &out
}

// History is the complete conversation: accepted prompts and committed messages, failed replies among them. No
// compaction changes it.
func (v *SessionView) History() []message.Message {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := slices.Clone(v.history)
	for i := range out {
		out[i] = out[i].Clone()
	}
	return out
}

// RuntimeContexts are the stored runtime-context snapshots, oldest first, with the instructions that the source map only
// names.
func (v *SessionView) RuntimeContexts() []projection.Snapshot {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := slices.Clone(v.snapshots)
	for i := range out {
		out[i].Skills = slices.Clone(out[i].Skills)
	}
	return out
}

// update changes a view; one that nobody asked for is nil.
func (v *SessionView) update(change func(v *SessionView)) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	change(v)
}

// accepted clears what the latest request showed.
func (v *SessionView) accepted() {
	v.update(func(v *SessionView) { v.latest, v.budget = nil, nil })
}

// opened takes what is stored, and clears the map when the session's model is another one now.
func (v *SessionView) opened(l *loop) {
	v.update(func(v *SessionView) {
		if model := l.identity(); v.model != model {
			v.model, v.latest = model, nil
		}
	})
	v.stored(l)
}

// stored takes history and snapshots as they are stored now.
func (v *SessionView) stored(l *loop) {
	v.update(func(v *SessionView) { v.history, v.snapshots = slices.Clip(l.history), slices.Clip(l.snapshots) })
}

// measured takes the budget of a request, and its source map when it is dispatched.
func (v *SessionView) measured(request assembled, dispatched bool) {
	v.update(func(v *SessionView) {
		measured := request.budget.Clone()
		v.budget = &measured
		if dispatched {
			latest := request.Projection.Clone()
			v.latest = &latest
		}
	})
}
