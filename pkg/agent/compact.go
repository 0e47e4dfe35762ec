package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/compaction"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// summaryTimeout bounds one summary with its retries, besides the run's own time.
const summaryTimeout = 120 * time.Second

// unsummarised is a compaction that came to nothing. Nothing of it was saved: the session is as it was.
type unsummarised struct{ err error }

func (u *unsummarised) Error() string { return "no compaction: " + u.err.Error() }
func (u *unsummarised) Unwrap() error { return u.err }

// fitting assembles the next turn's request and compacts until it may be sent. One that does not fit and cannot be made
// smaller is recorded and refused.
func (l *loop) fitting(ctx context.Context) (assembled, error) {
	request, err := l.assemble(l.checkpoint)
	if err != nil {
		return request, err
	}
	l.deps.View.measured(request, false)
	trigger := compaction.Trigger{Percent: int64(l.cfg.Compaction.ThresholdPercent), Off: !l.cfg.Compaction.Automatic}
	verdict := compaction.Decide(request.budget, l.state.Run.Compactions, trigger)
	for verdict.Action == compaction.Compact {
		next, err := l.pass(ctx, request, verdict.Keep, verdict.Counter)
		switch {
		case errors.Is(err, compaction.ErrNothingToCompact):
			verdict = verdict.Nothing()
			continue
		case err == nil:
			request = next
		case !soft(err):
			return request, err
		}
		verdict = compaction.Decide(request.budget, verdict.Counter, trigger)
	}
	request.compactions = verdict.Counter
	if verdict.Action == compaction.Refuse {
		rejected := false
		l.announce(request, &rejected)
		return request, l.exceeded(ctx, request)
	}
	return request, nil
}

func soft(err error) bool {
	var failed *unsummarised
	return errors.As(err, &failed)
}

// recoverOverflow compacts a request once that the provider found too long although its estimate fits. It says whether
// the request is worth to be sent again.
func (l *loop) recoverOverflow(ctx context.Context, request assembled) (bool, error) {
	if !l.cfg.OverflowRecovery {
		return false, nil
	}
	verdict := compaction.Recover(request.budget, l.state.Run.Recovered == request.turn)
	for verdict.Action == compaction.Compact {
		_, err := l.pass(ctx, request, verdict.Keep, l.state.Run.Compactions)
		switch {
		case errors.Is(err, compaction.ErrNothingToCompact):
			verdict = verdict.Nothing()
			continue
		case soft(err):
			return false, nil
		case err != nil:
			return false, err
		}
		return true, l.append(ctx, runevent.Event{
			Type: runevent.TypeRecord, Kind: runevent.KindContextRecovery, Reason: string(provider.ClassOverflow),
			Evidence: runevent.Evidence{Turn: request.turn},
		})
	}
	return false, nil
}

// errSendAgain is returned when a request is to be sent once more behind a new checkpoint.
var errSendAgain = errors.New("the request is sent again")

// cutShort says whether a response ended at its length limit well below the cap that it was given: the input left no
// more room in the window than that, whatever was estimated.
func (l *loop) cutShort(request assembled, response provider.Response) bool {
	limit, used := request.policy.SendMaxTokens, response.Message.Usage
	if response.Message.StopReason != message.StopLength || limit <= 0 || used == nil || used.Output == nil {
		return false
	}
	return *used.Output < limit-max(minCutShort, limit/20)
}

// minCutShort is how many tokens an answer must at least be below its cap: providers do not count to the last one alike.
const minCutShort = 16

// tooLong records a response that was cut short as a request that was too long, with what it used.
func (c *call) tooLong(ctx context.Context, response provider.Response) error {
	err := c.failed(ctx, &provider.Error{
		Class: provider.ClassOverflow, Dispatched: true, HTTPStatus: response.HTTPStatus, Code: "cut_short",
		Usage: response.Message.Usage, ResponseID: response.ResponseID, Err: errSendAgain,
	})
	return err
}

// pass makes one compaction of a request, which keeps about that many tokens of the newest turns, and returns the request
// as it is afterwards. attempt is how many were tried with it. Whatever goes wrong, nothing of it is saved; an
// *unsummarised says that the run can go on without.
func (l *loop) pass(ctx context.Context, request assembled, keep int64, attempt int) (assembled, error) {
	plan, err := compaction.Make(compaction.Input{
		Projected: request.Result, Previous: l.checkpoint, Keep: keep, Room: request.budget.MessageRoom(),
		Context: l.context(), Idle: !l.prompts(), Estimator: l.estimator(), Rules: compaction.AllRules(),
	})
	if err != nil {
		return assembled{}, err
	}
	checkpoint, err := l.summarise(ctx, plan, attempt, request.turn)
	if err != nil {
		return assembled{}, err
	}
	candidate, err := l.assemble(&checkpoint)
	if err != nil {
		return assembled{}, err
	}
	// The system prompt is stored whole and named by its digest: its changes need no record of their own.
	commit, err := compaction.Settle(request.budget, candidate.budget, compaction.Candidate{Checkpoint: checkpoint, Snapshots: candidate.fresh})
	if err != nil {
		return assembled{}, &unsummarised{err}
	}
	if err := l.commitCheckpoint(ctx, commit, candidate); err != nil {
		return assembled{}, err
	}
	l.deps.observer().Compacted(&l.run, request.budget, candidate.budget)
	candidate.fresh = nil
	return candidate, nil
}

// summarise has the model write the summary that a plan needs, in as many requests as it takes.
func (l *loop) summarise(ctx context.Context, plan compaction.Plan, attempt, turn int) (projection.Checkpoint, error) {
	settings := compaction.Settings{Model: l.cfg.Model, Estimator: l.estimator(), Rules: compaction.AllRules()}
	if other := l.cfg.Compaction.Model; other != nil {
		settings.Model = *other
	} else if l.cfg.Calibrate {
		settings.Calibration = &l.calibration
	}
	progress, err := plan.Begin(settings)
	if err != nil {
		return projection.Checkpoint{}, &unsummarised{err}
	}
	for !progress.Done() {
		request, err := progress.Next()
		if err != nil {
			return projection.Checkpoint{}, &unsummarised{err}
		}
		answer, err := l.aside(ctx, aside{
			purpose: runevent.PurposeSummary, model: settings.Model, system: request.System, messages: request.Messages, policy: request.Policy,
			budget: request.Budget, attempt: attempt, turn: turn, summarized: plan.Summarized(), timeout: summaryTimeout,
		})
		var failed *provider.Error
		if soft(err) && errors.As(err, &failed) && failed.Class == provider.ClassOverflow {
			smaller, ok := progress.Smaller()
			if !ok {
				return projection.Checkpoint{}, err
			}
			progress = smaller
			continue
		}
		if err != nil {
			return projection.Checkpoint{}, err
		}
		if progress, err = progress.Accept(request, answer); err != nil {
			return projection.Checkpoint{}, &unsummarised{err}
		}
	}
	return progress.Checkpoint(l.deps.NewID())
}

// commitCheckpoint makes a compaction part of the session, with the snapshots and the system prompt that the request
// brings new: all of it in one entry.
func (l *loop) commitCheckpoint(ctx context.Context, commit compaction.Candidate, candidate assembled) error {
	ref, err := l.saveObject(ctx, cas.MediaCheckpoint, session.Checkpoint{V: session.ObjectVersion, Checkpoint: commit.Checkpoint})
	if err != nil {
		return err
	}
	event := runevent.Event{
		Type: runevent.TypeRecord, Kind: runevent.KindCompactionCommitted, Checkpoint: &ref, Evidence: runevent.Evidence{Turn: candidate.turn},
	}
	if event.SnapshotRefs, err = l.saveSnapshots(ctx, commit.Snapshots); err != nil {
		return err
	}
	if _, event.SectionsRef, err = l.saveSections(ctx, candidate); err != nil {
		return err
	}
	l.deps.Chaos("checkpoint.stored")
	if err := l.append(ctx, event); err != nil {
		return err
	}
	l.deps.Chaos("compaction.committed")
	l.checkpoint = &commit.Checkpoint
	l.snapshots = append(l.snapshots, commit.Snapshots...)
	return nil
}

// compact is a run of the operation Compact: one compaction, whatever the pressure.
func (l *loop) compact(ctx context.Context) error {
	if ending := l.state.Run.Ending; ending != nil {
		return &announced{event: *ending}
	}
	if l.state.Run.Compacted { // by a worker that did not come further
		return l.finish(ctx)
	}
	request, err := l.assemble(l.checkpoint)
	if err != nil {
		return err
	}
	_, err = l.pass(ctx, request, compaction.KeepRecent(l.cfg.Model.ContextWindow), 0)
	var failed *provider.Error
	var rejected *refused
	var over *budget.ExceededError
	switch {
	case err == nil:
		return l.finish(ctx)
	case errors.Is(err, compaction.ErrNothingToCompact):
		return &Failure{Reason: ReasonNothingToCompact, Message: "no complete turn is old enough to be summarised; nothing was changed", Err: err}
	case !soft(err):
		return err
	case errors.As(err, &rejected):
		return rejected
	case errors.As(err, &failed):
		return providerFailure(failed)
	case errors.As(err, &over):
		return &Failure{Reason: ReasonCompactionFailed, Message: "the request for a summary does not fit the window of its model: set spec.compaction.model to one with a larger window", Err: err}
	}
	return &Failure{Reason: ReasonCompactionFailed, Message: fmt.Sprintf("%v; the history is as it was", err), Err: err}
}

// finish commits a compaction with the run's end.
func (l *loop) finish(ctx context.Context) error {
	event := runevent.Event{Type: runevent.TypeRunFinished, Reason: reasonCompleted}
	if err := l.commit(ctx, step{terminal: &event}); err != nil {
		return err
	}
	return &announced{event: event}
}
