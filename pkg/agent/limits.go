package agent

import (
	"context"
	"errors"
	"time"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
)

// Quota is what a provider allows all its users together. A limit of zero does not limit.
type Quota struct {
	// Namespace and Provider, which is a UID, name the provider: one that was made anew has nothing of the earlier one.
	Namespace, Provider string
	// Generation is higher after every change of the limits.
	Generation int64
	// Concurrent is how many requests may be under way at once, Requests how many may start within a minute, and Tokens how
	// many estimated input tokens those may have.
	Concurrent, Requests, Tokens int64
}

// Unlimited says whether nothing is limited.
func (q Quota) Unlimited() bool { return q.Concurrent == 0 && q.Requests == 0 && q.Tokens == 0 }

// Ask is a request that wants its turn at a provider.
type Ask struct {
	Quota Quota
	// Tokens is the measured estimate of its input.
	Tokens int64
	// AtOnce asks for a turn that is free now, and leaves no place in the line: ErrNoTurn is the answer when there is none.
	AtOnce bool
	// Current tells what the quota is by now. It is called now and then while the request waits, by another goroutine.
	Current func(ctx context.Context) (Quota, error)
	// Waits is called by the goroutine of the ask, at most once, when the request has to wait for longer than a moment. Its
	// error ends the wait.
	Waits func() error
}

// ErrNoTurn is returned when a request that does not wait would have to.
var ErrNoTurn = errors.New("no request may be sent at once")

// Limits shares what providers allow among all workers.
//
// Acquire returns when the request may be sent: first come, first served among the requests of a provider. While nobody can
// tell, because the store of the limits is away, it waits too. It returns an error when ctx ends, and for AtOnce and Waits as
// said there; nothing is held then. release gives the turn back and does not wait; it must be called once the response ended
// or the request failed, and may be called again. The turn of a worker that is gone comes back by itself.
//
// Postpone tells all workers that the provider asked to be left alone for that long. That nobody hears of it is no error:
// the others then find out themselves.
type Limits interface {
	Acquire(ctx context.Context, ask Ask) (release func(), err error)
	Postpone(ctx context.Context, quota Quota, wait time.Duration)
}

// How long a quota that could not be read rests, how long a title asks for its turn, and how long it may take to tell the
// others of a pause.
const (
	quotaBackoff = time.Second
	atOnce       = time.Second
	postponeTime = 3 * time.Second
)

// wish is a request before its turn.
type wish struct {
	purpose runevent.Purpose
	model   provider.Model
	budget  budget.ContextBudget
	turn    int
}

// place waits for the turn of a request that fits. Until then nothing of it stands in the log but, if it takes longer, that
// the run waits: it holds no open request, and its end or a takeover finds nothing to clear up.
func (l *loop) place(ctx context.Context, w wish) (release func(), err error) {
	if l.deps.Limits == nil || l.deps.Quota == nil {
		return func() {}, nil
	}
	quota, err := l.quota(ctx, w.model)
	if err != nil {
		return nil, err
	}
	if quota.Unlimited() {
		return func() {}, nil
	}
	ask := Ask{
		Quota: quota, Tokens: w.budget.InputTokens(), AtOnce: w.purpose == runevent.PurposeTitle,
		Current: func(ctx context.Context) (Quota, error) { return l.deps.Quota(ctx, w.model) },
		Waits:   func() error { return l.waitsTurn(ctx, w) },
	}
	release, err = l.deps.Limits.Acquire(ctx, ask)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return release, err
}

// quota reads what the provider of a model allows. Nothing is sent while that is not known.
func (l *loop) quota(ctx context.Context, model provider.Model) (Quota, error) {
	for {
		quota, err := l.deps.Quota(ctx, model)
		if err == nil {
			return quota, nil
		}
		l.deps.Logger.Warn("limits of the provider not read, trying again", "run", l.run.UID, "provider", model.Provider, "error", err)
		if l.deps.Sleep(ctx, quotaBackoff) != nil {
			return Quota{}, context.Cause(ctx)
		}
	}
}

// waitsTurn records that the run waits for its turn.
func (l *loop) waitsTurn(ctx context.Context, w wish) error {
	err := l.append(ctx, runevent.Event{
		Type: runevent.TypeRecord, Kind: runevent.KindRequestWaiting, Purpose: w.purpose, Reason: ReasonRateLimited,
		Evidence: runevent.Evidence{Turn: w.turn},
	})
	if err == nil {
		l.deps.Chaos("request.waiting")
	}
	return err
}

// postpone lets all workers know that the provider asked for a pause.
func (l *loop) postpone(ctx context.Context, model provider.Model, failed *provider.Error) {
	if l.deps.Limits == nil || l.deps.Quota == nil || failed.Class != provider.ClassRateLimited || failed.RetryAfter <= 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, postponeTime)
	defer cancel()
	quota, err := l.deps.Quota(bounded, model)
	if err != nil {
		l.deps.Logger.Warn("limits of the provider not read, others are not told to wait", "run", l.run.UID, "provider", model.Provider, "error", err)
		return
	}
	if !quota.Unlimited() {
		l.deps.Limits.Postpone(bounded, quota, l.delay(failed, 1))
	}
}
