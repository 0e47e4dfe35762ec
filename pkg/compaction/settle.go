package compaction

import (
	"errors"
	"slices"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/projection"
)

// ErrNotSmaller is returned when a candidate does not make the request strictly smaller. Nothing of it is saved.
var ErrNotSmaller = errors.New("the compacted request is not smaller")

// Candidate is a checkpoint with everything that becomes part of the session in the same moment: all of it, or nothing.
type Candidate struct {
	Checkpoint projection.Checkpoint
	// Snapshots are those that the request, assembled with the checkpoint, brings new.
	Snapshots []projection.Snapshot
}

// Settle returns what is to be saved of a candidate. before is the measure of the whole request without it, after with it,
// both under the same model and estimator. It returns ErrNotSmaller unless the candidate makes the request strictly smaller.
func Settle(before, after budget.ContextBudget, c Candidate) (Candidate, error) {
	if after.EstimatedInputTokens >= before.EstimatedInputTokens {
		return Candidate{}, ErrNotSmaller
	}
	c.Snapshots = slices.Clone(c.Snapshots)
	for i := range c.Snapshots {
		c.Snapshots[i].Skills = slices.Clone(c.Snapshots[i].Skills)
	}
	return c, nil
}
