package compaction

import (
	"github.com/agentloop/agentloop/pkg/budget"
)

// The bounds of what is kept word for word, in tokens: a fifth of the window within these.
const (
	minKeepRecent = 256
	maxKeepRecent = 20_000
)

// maxPasses is how many passes one accepted prompt gets while its requests stay under pressure: an ordinary one and an
// emergency pass.
const maxPasses = 2

// KeepRecent is how many tokens of the newest turns an ordinary pass keeps for a model with the given context window.
func KeepRecent(window int64) int64 { return min(maxKeepRecent, max(minKeepRecent, window/5)) }

// Action says what comes next for a request.
type Action string

// The actions.
const (
	// Dispatch sends the request as it is.
	Dispatch Action = "dispatch"
	// Compact makes a pass; then the request is assembled and decided upon again.
	Compact Action = "compact"
	// Refuse ends the request: it does not fit and no pass is left. Nothing may be sent.
	Refuse Action = "refuse"
)

// Trigger says when a session compacts by itself. The zero value is the default.
type Trigger struct {
	// Percent is the share of the input limit that an estimate may reach; 0 for budget.PressedPercent.
	Percent int64
	// Off leaves compaction to manual runs: a request that fits is sent, any other refused.
	Off bool
}

func (t Trigger) percent() int64 {
	if t.Percent <= 0 {
		return budget.PressedPercent
	}
	return t.Percent
}

// Verdict is what Decide says.
type Verdict struct {
	Action Action
	// Pass and Keep belong to Compact: the number of the pass (0 ordinary, 1 emergency) and the tokens that it keeps.
	Pass int
	Keep int64
	// Counter is what the next call of Decide is given, once a pass has asked its model. An accepted prompt starts at 0.
	Counter int

	fits   bool
	before int
}

// Decide says what to do with a measured request. counter is how many passes were made since the prompt was accepted, or
// since the last of its requests that was not under pressure.
//
// The first pass starts under pressure and keeps the newest turns; the second one, the emergency pass, only when the
// request does not fit, and it keeps as little as possible. Further ones are not made: a session that cannot be made
// smaller must not ask for summaries for ever.
func Decide(b budget.ContextBudget, counter int, trigger Trigger) Verdict {
	v := Verdict{Counter: counter, fits: b.Allowed(), before: counter}
	if !b.PressedAt(trigger.percent()) && b.Allowed() {
		v.Action, v.Counter = Dispatch, 0
		return v
	}
	if trigger.Off || counter >= maxPasses || counter == 1 && b.Allowed() {
		return v.settle()
	}
	return v.compact(max(counter, 0), b.ContextWindow)
}

// Recover says what to do with a request that was estimated to fit and that the provider refused as too long. It
// compacts once: recovered says that this request was recovered before. The counter of Decide is not moved.
func Recover(b budget.ContextBudget, recovered bool) Verdict {
	v := Verdict{}
	if recovered {
		return v.settle()
	}
	return v.compact(0, b.ContextWindow)
}

// Nothing says what to do when a pass found nothing to compact, which costs nothing and so counts as no pass: the
// emergency pass when the request does not fit, else what can be done without.
func (v Verdict) Nothing() Verdict {
	next := Verdict{Counter: v.before, fits: v.fits, before: v.before}
	if v.Action == Compact && v.Pass == 0 && !v.fits {
		return next.compact(1, 0)
	}
	return next.settle()
}

func (v Verdict) compact(pass int, window int64) Verdict {
	v.Action, v.Pass, v.Counter = Compact, pass, pass+1
	if pass == 0 {
		v.Keep = KeepRecent(window)
	}
	return v
}

func (v Verdict) settle() Verdict {
	v.Action = Refuse
	if v.fits {
		v.Action = Dispatch
	}
	return v
}
