package compaction

import (
	"errors"
	"fmt"
	"math"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
)

// ErrNothingToCompact is returned when no complete turn is old enough to be summarised. It is a clean outcome: no model
// is asked and nothing is saved.
var ErrNothingToCompact = errors.New("nothing to compact: no older turn is left to summarise")

// ErrInvalid is returned when what a plan is made from does not fit together.
var ErrInvalid = errors.New("invalid compaction")

// Input is what a boundary is planned from.
type Input struct {
	// Projected is the request that is too large, projected from complete history with the checkpoint in effect.
	Projected projection.Result
	// Previous is that checkpoint; nil when there is none.
	Previous *projection.Checkpoint
	// Keep is how many tokens of the newest turns stay as they are; the newest turn always does.
	Keep int64
	// Room is how many tokens all messages of the request may take (budget.ContextBudget.MessageRoom); 0 when it is not
	// known. Only SplitTurn looks at it.
	Room int64
	// Context is the host's runtime context as it is now; empty for none. A split keeps it with the request in progress,
	// unless that one brought its own.
	Context string
	// Idle says that no turn is going on, as in a manual compaction: the newest turn is complete and is not split.
	Idle bool
	// Estimator measures the turns; nil for budget.Heuristic.
	Estimator budget.Estimator
	Rules     Rules
}

// Plan is a boundary and what stands before it. It shares rows with the projection that it was made from.
type Plan struct {
	// Boundary is the history index of the first message that stays; the messages before it are summarised, except those
	// that the previous summary covers.
	Boundary int
	// HistoryMessageCount is the length of complete history.
	HistoryMessageCount int
	// Split says that the boundary stands inside the newest turn.
	Split bool

	rows     []message.Message
	sources  []projection.Source
	previous *projection.Checkpoint
	// carried is the request in progress, whose message stands before the boundary; empty unless Split.
	carried string
}

// Summarized returns the history indexes of the messages that are to be summarised, in order and each once.
func (p Plan) Summarized() []int {
	indexes := []int{}
	for i := range p.sources {
		// A repair comes after the results of its reply, whose index it has; no other row steps back.
		if at := p.sources[i].MessageIndex; len(indexes) == 0 || indexes[len(indexes)-1] < at {
			indexes = append(indexes, at)
		}
	}
	return indexes
}

// unit is a run of projected rows that stays or goes as a whole: a turn, or a part of one.
type unit struct {
	// boundary is the history index that the unit starts at, row its first row, and size its tokens.
	boundary, row int
	size          int64
	// user says that it starts with a user message of history.
	user bool
}

// Make plans a compaction. A turn starts at a user message; the newest turn stays, and so do older ones, from new to
// old, while all of them together have at most Keep tokens. It returns ErrNothingToCompact when everything would stay,
// and an error that wraps ErrInvalid when the input contradicts itself.
func Make(in Input) (Plan, error) {
	if err := in.check(); err != nil {
		return Plan{}, err
	}
	turns := in.turns()
	if len(turns) == 0 {
		return Plan{}, ErrNothingToCompact
	}
	newest := turns[len(turns)-1]
	mayCut := in.Rules.SplitTurn && !in.Idle
	if mayCut && in.Room > 0 && newest.size > in.Room {
		if plan, ok := in.split(newest); ok {
			return plan, nil
		}
	}
	if at := keepFrom(turns, in.Keep); at > 0 {
		return in.plan(turns[at].boundary), nil
	}
	if mayCut {
		if plan, ok := in.split(newest); ok {
			return plan, nil
		}
	}
	return Plan{}, ErrNothingToCompact
}

// keepFrom returns the position of the oldest unit that stays. The newest one always does.
func keepFrom(units []unit, keep int64) int {
	at := len(units) - 1
	for total := units[at].size; at > 0; at-- {
		total = add(total, units[at-1].size)
		if total > keep {
			break
		}
	}
	return at
}

func (in *Input) check() error {
	p := in.Projected.Projection
	if err := projection.Validate(p, len(in.Projected.Messages), p.HistoryMessageCount); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if in.Keep < 0 || in.Room < 0 {
		return fmt.Errorf("%w: a negative number of tokens", ErrInvalid)
	}
	summarised := len(p.Sources) > 0 && p.Sources[0].Type == projection.SourceCompaction
	if summarised != (in.Previous != nil) || summarised &&
		(p.Sources[0].CheckpointID != in.Previous.ID || p.Sources[0].SummarizedBefore != in.Previous.FirstKeptMessageIndex) {
		return fmt.Errorf("%w: the request was not projected with the previous checkpoint", ErrInvalid)
	}
	return nil
}

// first is the first row that no summary covers.
func (in *Input) first() int {
	if in.Previous != nil {
		return 1
	}
	return 0
}

// turns are the units that may be summarised. Rows before the first user message belong to none, except the rest of a
// turn that was cut.
func (in *Input) turns() []unit {
	first := in.first()
	cut := in.Rules.SplitTurn && in.Previous != nil
	return in.units(first, len(in.Projected.Messages), func(row int) bool {
		return in.startsTurn(row) || cut && row == first
	})
}

func (in *Input) startsTurn(row int) bool {
	return in.Projected.Projection.Sources[row].Type == projection.SourceHistory &&
		in.Projected.Messages[row].Role == message.RoleUser
}

func (in *Input) startsReply(row int) bool {
	return in.Projected.Projection.Sources[row].Type == projection.SourceHistory &&
		in.Projected.Messages[row].Role == message.RoleAssistant
}

// units divides the rows from and before the given ones where starts says so.
func (in *Input) units(from, before int, starts func(row int) bool) []unit {
	estimator := in.Estimator
	if estimator == nil {
		estimator = budget.Heuristic
	}
	var units []unit
	for row := from; row < before; row++ {
		if starts(row) {
			units = append(units, unit{boundary: in.Projected.Projection.Sources[row].MessageIndex, row: row, user: in.startsTurn(row)})
		}
		if len(units) > 0 {
			last := &units[len(units)-1]
			last.size = add(last.size, budget.MessageTokensWith(estimator, in.Projected.Messages[row]))
		}
	}
	return units
}

// plan is the plan of a boundary.
func (in *Input) plan(boundary int) Plan {
	p := in.Projected.Projection
	end := in.first()
	for end < len(p.Sources) && p.Sources[end].MessageIndex < boundary {
		end++
	}
	return Plan{
		Boundary: boundary, HistoryMessageCount: p.HistoryMessageCount, previous: in.Previous,
		rows: in.Projected.Messages[in.first():end:end], sources: p.Sources[in.first():end:end],
	}
}

// add returns a+b of two counts, or the largest int64 when that is out of range.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
