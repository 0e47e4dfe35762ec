package compaction

import (
	"errors"
	"fmt"
	"strings"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
)

// MaxSummaryTokens is the output cap of a summary request, in tokens, where the model's ceiling is not lower.
const MaxSummaryTokens = 4096

// Settings are what summaries of a session are written with.
type Settings struct {
	// Model writes the summaries. Its output policy and its window apply to them as to any request.
	Model provider.Model
	// Estimator measures the requests; nil for budget.Heuristic.
	Estimator budget.Estimator
	// Calibration is what is known of that model's real counts; nil when the session does not calibrate.
	Calibration *budget.Calibration
	Rules       Rules
}

// SummaryRequest is one request for a summary. It declares no tools and asks for no thinking.
type SummaryRequest struct {
	System   string
	Messages []message.Message
	// Options are what it was measured under, Policy is what its body is guarded by, and Budget is its measure.
	Options budget.Options
	Policy  budget.Policy
	Budget  budget.ContextBudget

	rest []entry
	part int
}

// Progress is a compaction under way: an immutable value, and each step returns the next one.
type Progress struct {
	plan     Plan
	settings Settings
	// summary is the latest: the previous checkpoint's at first.
	summary string
	// entries are not summarised yet; part is how many pieces of the first one are.
	entries []entry
	part    int
	// target is how many tokens the input of one request may have.
	target int64
	// asked says that a summary was accepted.
	asked bool
}

// Begin starts the compaction that p plans. Errors wrap budget.ErrInvalid when the model cannot be used.
func (p Plan) Begin(settings Settings) (Progress, error) {
	progress := Progress{plan: p, settings: settings, entries: transcript(p.rows, p.sources)}
	if p.previous != nil {
		progress.summary = p.previous.Summary
	}
	empty, err := progress.request("", "")
	if err != nil {
		return Progress{}, err
	}
	progress.target = empty.Budget.MessageRoom() + empty.Budget.SystemTokens
	if settings.Rules.BoundInput {
		progress.target = boundTarget(progress.target)
		progress.entries = bound(progress.entries, progress.target-empty.Budget.EstimatedInputTokens)
	}
	return progress, nil
}

// Done says that everything is summarised, so that Checkpoint has its summary.
func (p Progress) Done() bool { return p.asked && len(p.entries) == 0 }

// options are those of every summary request: the model's own sampling applies, the run's belongs to main requests.
func (p Progress) options() budget.Options {
	return budget.Options{Model: p.settings.Model, MaxTokens: max(1, min(MaxSummaryTokens, p.settings.Model.MaxTokens)),
		Reasoning: provider.LevelOff, Estimator: p.settings.Estimator, Calibration: p.settings.Calibration}
}

func (p Progress) tokens(text string) int64 {
	if p.settings.Estimator != nil {
		return p.settings.Estimator.Text(text)
	}
	return budget.TextTokens(text)
}

// request is the measured request for the given parts.
func (p Progress) request(previous, rendered string) (SummaryRequest, error) {
	r := SummaryRequest{
		System:   summarySystem,
		Messages: []message.Message{{Role: message.RoleUser, Content: message.Text(summaryText(previous, rendered))}},
		Options:  p.options(),
	}
	var err error
	if r.Policy, err = budget.ReserveFor(r.Options); err != nil {
		return SummaryRequest{}, err
	}
	r.Budget, err = budget.Measure(budget.Request{System: r.System, Messages: r.Messages}, r.Options, nil)
	return r, err
}

// Next returns the next summary request. It fails with a *budget.ExceededError when the request does not fit the model's
// window, which bounded requests do only in a window that hardly holds the instructions.
func (p Progress) Next() (SummaryRequest, error) {
	if p.Done() {
		return SummaryRequest{}, fmt.Errorf("%w: everything is summarised", ErrInvalid)
	}
	if !p.settings.Rules.BoundInput {
		var out strings.Builder
		for _, e := range p.entries {
			e.append(&out)
		}
		r, err := p.request(p.summary, out.String())
		if err != nil {
			return SummaryRequest{}, err
		}
		return r, r.Budget.Err()
	}
	return p.nextBounded()
}

// Accept takes the answer to the latest request. Only a complete, non-empty text counts; for anything else it returns a
// *SummaryError, and nothing of the compaction may be saved.
func (p Progress) Accept(r SummaryRequest, answer message.Message) (Progress, error) {
	summary, err := Judge(answer)
	if err != nil {
		return Progress{}, err
	}
	p.summary, p.entries, p.part, p.asked = summary, r.rest, r.part, true
	return p, nil
}

// Checkpoint is the candidate: what later requests are projected with if Settle takes it.
func (p Progress) Checkpoint(id string) (projection.Checkpoint, error) {
	if !p.Done() {
		return projection.Checkpoint{}, fmt.Errorf("%w: not everything is summarised", ErrInvalid)
	}
	if id == "" {
		return projection.Checkpoint{}, fmt.Errorf("%w: a checkpoint needs an id", ErrInvalid)
	}
	c := projection.Checkpoint{ID: id, FirstKeptMessageIndex: p.plan.Boundary, HistoryMessageCount: p.plan.HistoryMessageCount,
		Summary: p.summary}
	if p.plan.carried != "" {
		c.Summary += carriedLead + p.plan.carried
	}
	return c, nil
}

// ErrNoSummary is returned, wrapped in a *SummaryError, when an answer is not a summary.
var ErrNoSummary = errors.New("the answer is not a summary")

// Fault says why an answer is not a summary.
type Fault string

// The faults that Judge finds.
const (
	// FaultFailed is a reply that ended in an error or was aborted.
	FaultFailed Fault = "failed"
	// FaultTruncated is a reply that ended for any other reason than being complete.
	FaultTruncated Fault = "truncated"
	// FaultToolCall is a reply that calls a tool, although none was declared.
	FaultToolCall Fault = "toolCall"
	// FaultEmpty is a reply without text.
	FaultEmpty Fault = "empty"
)

// SummaryError says why an answer was not accepted. It wraps ErrNoSummary and holds no content.
type SummaryError struct{ Fault Fault }

// Error names the fault only.
func (e *SummaryError) Error() string { return ErrNoSummary.Error() + ": " + string(e.Fault) }

// Unwrap returns ErrNoSummary.
func (e *SummaryError) Unwrap() error { return ErrNoSummary }

// Judge returns the summary that an answer holds, or a *SummaryError.
func Judge(answer message.Message) (string, error) {
	summary := strings.TrimSpace(answer.PlainText())
	switch {
	case answer.StopReason == message.StopError || answer.StopReason == message.StopAborted:
		return "", &SummaryError{FaultFailed}
	case answer.StopReason == message.StopToolUse || len(answer.ToolCalls()) > 0:
		return "", &SummaryError{FaultToolCall}
	case answer.StopReason != message.StopStop:
		return "", &SummaryError{FaultTruncated}
	case summary == "":
		return "", &SummaryError{FaultEmpty}
	}
	return summary, nil
}
