package compaction

import (
	"errors"
	"slices"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/projection"
)

// ErrNotSmaller is returned when a candidate does not make the request strictly smaller. Nothing of it is saved.
var ErrNotSmaller = errors.New("the compacted request is not smaller")

// Candidate is a checkpoint with everything that becomes part of the session in the same moment.
type Candidate struct {
	Checkpoint projection.Checkpoint
	// Snapshots are those that the request, assembled with the checkpoint, brings new.
	Snapshots []projection.Snapshot
	// Saved is the system prompt as the session has it, Current the one that the request was assembled with.
	Saved, Current []projection.Section
}

// Commit is what is saved in one step: all of it, or nothing.
type Commit struct {
	Checkpoint projection.Checkpoint
	Snapshots  []projection.Snapshot
	// Sections are the changes of the system prompt; an entry with a nil text is a removed section. Empty when nothing
	// changed.
	Sections []projection.SectionChange
}

// Settle decides about a candidate. before is the measure of the whole request without it, after with it, both under
// the same model and estimator. It returns ErrNotSmaller unless the candidate makes the request strictly smaller.
func Settle(before, after budget.ContextBudget, c Candidate) (Commit, error) {
	if after.EstimatedInputTokens >= before.EstimatedInputTokens {
		return Commit{}, ErrNotSmaller
	}
	snapshots := slices.Clone(c.Snapshots)
	for i := range snapshots {
		snapshots[i].Skills = slices.Clone(snapshots[i].Skills)
	}
	return Commit{Checkpoint: c.Checkpoint, Snapshots: snapshots, Sections: projection.SectionChanges(c.Saved, c.Current)}, nil
}
