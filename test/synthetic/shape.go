package synthetic

import (
	"errors"
	"time"
)

// Shape says what a session looks like.
type Shape struct {
	// Agents are the main agent and subagents. They work at the same time, each on Runs runs one after the other.
	Agents, Runs int
	// Turns are the model requests of a run, Tools the calls of each response but a run's last one.
	Turns, Tools int
	// Increments are recorded of each response's reasoning, and as many of its text.
	Increments int
	// Input is about how many bytes a model input has once the history is long enough, Text those of a response's text and
	// of a tool's result.
	Input, Text int
	// Begin and Span are when the first record was captured and how long it is to about the last one.
	Begin time.Time
	Span  time.Duration
	// Idle puts all work into five bursts that take a fiftieth of the span each.
	Idle bool
	// Skew is how far the clock of each subagent is behind that of the one before.
	Skew time.Duration
	// Untimed are how many of the main agent's first runs were recorded by a clock that was never set.
	Untimed int
	// LoseEvery loses each so many-th event of the subagents; 0 loses none.
	LoseEvery int
}

var begin = time.Date(2026, 3, 14, 8, 0, 0, 0, time.UTC)

// Sized is the shape of a usual session of about that many run events within a span: one agent when it is short, up to
// twenty when it is long, with two inputs for each hundred events.
func Sized(events int, span time.Duration) Shape {
	s := Shape{Agents: 1, Runs: 1, Turns: 1, Increments: 1, Input: 200_000, Text: 1000, Begin: begin, Span: span}
	switch {
	case events < 20:
		return s
	case events < 200:
		s.Tools, s.Increments = 1, 2
	case events < 5000:
		s.Agents, s.Tools, s.Increments = 3, 4, 4
	default:
		s.Agents, s.Tools, s.Increments = 20, 8, 7
	}
	turns := max(events/(s.perTurn()*s.Agents), 1)
	s.Runs = max(turns/20, 1)
	s.Turns = max(turns/s.Runs, 1)
	return s
}

// Dense is a shape of about that many entries that a viewer lists: calls above all, and short texts.
func Dense(entries int, span time.Duration) Shape {
	s := Shape{Agents: 20, Runs: 5, Turns: 20, Increments: 1, Input: 4000, Text: 40, Begin: begin, Span: span}
	s.Tools = max(entries/(s.Agents*s.Runs*s.Turns)-3, 0)
	return s
}

// perTurn is how many events a turn has.
func (s Shape) perTurn() int { return 3 + 2*s.Increments + 4*s.Tools }

func (s Shape) validate() error {
	if s.Agents < 1 || s.Runs < 1 || s.Turns < 1 || s.Tools < 0 || s.Increments < 0 || s.Input < 0 || s.Text < 0 || s.Span <= 0 || s.Begin.IsZero() {
		return errors.New("a shape has agents, runs, turns, a beginning and a span")
	}
	return nil
}

// at is the time of a moment between 0, the beginning, and 1.
func (s Shape) at(moment float64) time.Time {
	if s.Idle {
		const bursts, width = 5, 0.02
		burst := min(int(moment*bursts), bursts-1)
		moment = float64(burst)/(bursts-1)*(1-width) + (moment*bursts-float64(burst))*width
	}
	return s.Begin.Add(time.Duration(moment * float64(s.Span))).Truncate(time.Microsecond)
}
