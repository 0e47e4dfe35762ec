package compaction

// Rules are the rules that go beyond the basic ones, each of which may be left out.
type Rules struct {
	// SplitTurn lets the newest turn be cut before one of its replies when there is no older turn to summarise or when it
	// alone is too large; a turn whose beginning was cut away counts as one that can be summarised.
	SplitTurn bool
	// BoundInput bounds what one summary request carries: long tool results are shortened, and a prefix that is too large
	// for one request is summarised in several, each going on from the summary before.
	BoundInput bool
}

// AllRules are the rules that apply when none were chosen.
func AllRules() Rules { return Rules{SplitTurn: true, BoundInput: true} }
