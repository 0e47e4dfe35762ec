package budget

import (
	"errors"
	"fmt"
)

// ExceededError is returned when a request is larger than the input limit and was therefore not sent.
type ExceededError struct {
	// Budget is the error's own copy of the budget that was exceeded.
	Budget ContextBudget
}

// Error names numbers only, never content. Where one part of the input alone is over the limit, which no shorter
// conversation can help, it names that part.
func (e *ExceededError) Error() string {
	b := e.Budget
	text := fmt.Sprintf("context budget exceeded: the input is estimated at %d tokens and the limit is %d "+
		"(window %d, output reserve %d, safety %d)", b.InputTokens(), b.InputLimit, b.ContextWindow, b.ReservedOutputTokens, b.SafetyTokens)
	switch {
	case b.SystemTokens > b.InputLimit:
		text += fmt.Sprintf("; the system prompt alone takes %d", b.SystemTokens)
	case b.ToolTokens > b.InputLimit:
		text += fmt.Sprintf("; the tool definitions alone take %d", b.ToolTokens)
	case b.SystemTokens+b.ToolTokens > b.InputLimit:
		text += fmt.Sprintf("; the system prompt and the tool definitions alone take %d", b.SystemTokens+b.ToolTokens)
	default:
		text += "; compact the session or use a larger model"
	}
	return text + "; nothing was sent and the history is kept"
}

// ErrOutputCap is returned, wrapped in an *OutputCapError, when a serialized request does not declare its output cap as
// the reserve demands. Such a request must not be sent; sending the same bytes again cannot succeed.
var ErrOutputCap = errors.New("request refused by the output cap guard")

// CapFault says what is wrong with a declared output cap.
type CapFault string

// The faults that GuardPayload finds.
const (
	// CapInvalid is a cap that is not a positive safe integer.
	CapInvalid CapFault = "invalid"
	// CapExceeds is a cap above the reserve.
	CapExceeds CapFault = "exceeds"
	// CapOmitted is a request without a cap although less than the model's ceiling is reserved.
	CapOmitted CapFault = "omitted"
	// CapUnreadable is a body that is not one JSON object.
	CapUnreadable CapFault = "unreadable"
)

// OutputCapError says which field of a serialized request was refused and why. It wraps ErrOutputCap.
type OutputCapError struct {
	Fault CapFault
	// Field is the body's key; empty for CapOmitted and CapUnreadable.
	Field string
	// Value is the declared cap (CapExceeds only), Reserve the output reserve, Ceiling the model's ceiling.
	Value, Reserve, Ceiling int64
}

// Error names the field and numbers only, never any of the body.
func (e *OutputCapError) Error() string {
	prefix := ErrOutputCap.Error() + ": "
	switch e.Fault {
	case CapInvalid:
		return prefix + e.Field + " is not a positive safe integer"
	case CapExceeds:
		return prefix + fmt.Sprintf("%s of %d tokens exceeds the output reserve of %d", e.Field, e.Value, e.Reserve)
	case CapOmitted:
		return prefix + fmt.Sprintf("the cap is omitted although only %d of the model's %d output tokens are reserved",
			e.Reserve, e.Ceiling)
	}
	return prefix + "the body is not a JSON object"
}

// Unwrap returns ErrOutputCap.
func (e *OutputCapError) Unwrap() error { return ErrOutputCap }
