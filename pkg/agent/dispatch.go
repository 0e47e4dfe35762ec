package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/compaction"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// How long a failed request waits before it is sent again when the provider does not say: it doubles from the first,
// with jitter.
const (
	retryBackoff        = time.Second
	defaultRetries      = 5
	defaultMaxDelay     = 600 * time.Second
	failedDetailMaxSize = 64 << 10
)

// answered is a complete response and the object that holds it.
type answered struct {
	message message.Message
	action  cas.Ref
	request session.Request
	// failure is set for a request that failed for good: message then is the error's trace in the history.
	failure *Failure
}

// request assembles and sends the next turn's request until it is answered or fails for good. Each try is its own
// captured invocation under a new execution id.
func (l *loop) request(ctx context.Context) (answered, error) {
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return answered{}, context.Cause(ctx)
		}
		request, err := l.fitting(ctx)
		if err != nil {
			return answered{}, err
		}
		answer, err := l.dispatch(ctx, request)
		if err == nil {
			return answer, nil
		}
		if errors.Is(err, errSendAgain) {
			continue
		}
		var kept *refused
		if errors.As(err, &kept) {
			return answered{}, err
		}
		var failed *provider.Error
		if !errors.As(err, &failed) || ctx.Err() != nil || failed.Class == provider.ClassCancelled {
			return answered{}, err
		}
		if failed.Class == provider.ClassOverflow {
			recovered, err := l.recoverOverflow(ctx, request)
			if err != nil {
				return answered{}, err
			}
			if recovered {
				continue
			}
		}
		if !failed.Class.Retryable() || try >= l.retries() {
			return l.failedAnswer(failed, request), nil
		}
		if l.deps.Sleep(ctx, l.delay(failed, try)) != nil {
			return answered{}, context.Cause(ctx)
		}
	}
}

func (l *loop) retries() int {
	if n := l.cfg.Limits.RetryMaxAttempts; n > 0 {
		return n
	}
	return defaultRetries
}

// delay is how long to wait before the next try: what the provider asks for, else an exponential backoff with jitter;
// never longer than the provider object allows.
func (l *loop) delay(failed *provider.Error, try int) time.Duration {
	limit := defaultMaxDelay
	if s := l.cfg.Limits.RetryMaxDelaySeconds; s > 0 {
		limit = time.Duration(s) * time.Second
	}
	if failed.RetryAfter > 0 {
		return min(failed.RetryAfter, limit)
	}
	wait := min(retryBackoff<<min(try-1, 20), limit)
	return wait/2 + rand.N(wait/2+1)
}

// rejected turns a guard's refusal into the run's failure. It is never retried.
func (l *loop) rejected(failed *provider.Error) *Failure {
	var over *budget.OutputCapError
	if errors.As(failed, &over) {
		return &Failure{Reason: ReasonOutputCapRejected, Message: over.Error(), Class: failed.Class, Err: failed}
	}
	return &Failure{Reason: ReasonOutputCapRejected, Message: "the request body was refused before dispatch", Class: failed.Class, Err: failed}
}

// dispatch is the boundary: when it is the request's turn, the fixed input is stored and named in the log, then the guard
// sees the exact body, then the request leaves.
func (l *loop) dispatch(ctx context.Context, request assembled) (answered, error) {
	release, err := l.place(ctx, wish{purpose: runevent.PurposeMain, model: l.cfg.Model, budget: request.budget, turn: request.turn})
	if err != nil {
		return answered{}, err
	}
	defer release()
	l.announce(request, nil)
	fixed, err := l.capture(ctx, request, true)
	if err != nil {
		return answered{}, err
	}
	invocation := session.Request{RequestExecutionID: l.deps.NewID(), Turn: request.turn, ContextRef: fixed.ref}
	if err := l.append(ctx, runevent.Event{
		Type: runevent.TypeRecord, Kind: runevent.KindContextCaptured, Purpose: runevent.PurposeMain, Attempt: request.compactions,
		SnapshotRefs: fixed.snapshots, SectionsRef: fixed.sections, Evidence: invocationEvidence(invocation),
	}); err != nil {
		return answered{}, err
	}
	l.snapshots = append(l.snapshots, request.fresh...)
	l.deps.View.stored(l)
	l.deps.Chaos("context.captured")
	call := &call{loop: l, purpose: runevent.PurposeMain, invocation: invocation, policy: request.policy, prefix: request.Prefix, model: l.cfg.Model, estimate: request.budget.InputTokens()}
	call.announce = func(dispatched bool) {
		request.budget.RequestOutputTokenLimit = call.limit
		l.announce(request, &dispatched)
	}
	response, err := call.stream(ctx, l.modelRequest(request, call.guard(ctx)))
	release() // what follows may send requests of its own
	l.deps.Chaos("model.answered")
	if err == nil && !l.cutShort(request, response) {
		defer call.beginAnswer(ctx, response)()
	}
	if saveErr := call.flush(ctx, err == nil); saveErr != nil {
		return answered{}, saveErr
	}
	if err != nil {
		return answered{}, call.failed(ctx, err)
	}
	if l.cutShort(request, response) {
		if recovered, err := l.recoverOverflow(ctx, request); recovered || err != nil && ctx.Err() == nil {
			return answered{}, errors.Join(err, call.tooLong(ctx, response))
		}
	}
	answer, err := call.completed(ctx, response)
	if err == nil {
		l.learn(ctx, request.budget, answer.message.Usage)
	}
	return answer, err
}

func invocationEvidence(r session.Request) runevent.Evidence {
	return runevent.Evidence{RequestExecutionID: r.RequestExecutionID, Turn: r.Turn, ContextRef: &r.ContextRef}
}

// call is one model invocation while it streams.
type call struct {
	loop       *loop
	purpose    runevent.Purpose
	model      provider.Model
	policy     budget.Policy
	prefix     string
	invocation session.Request
	// estimate is the measured size of the input in tokens.
	estimate   int64
	increments runevent.Increments
	// announce tells watchers of a main request that it is sent, or was refused; nil for others.
	announce func(dispatched bool)
	// limit is the output cap that the guard saw; saveErr the first increment that could not be stored.
	limit   *int64
	saveErr error
	// begun is the response on its way into the store; nil when that is not begun before the response is saved.
	begun *begun
}

// guard judges the exact body that is about to be sent, and announces the budget with the cap that it found.
func (c *call) guard(ctx context.Context) func([]byte) error {
	return func(body []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		limit, err := budget.GuardPayload(body, c.policy)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.limit = limit
		if c.announce != nil {
			c.announce(true)
		}
		c.loop.deps.Chaos("guard.passed")
		return nil
	}
}

// announce tells watchers the budget of a request: before it is sent, when it is, or when it was rejected.
func (l *loop) announce(request assembled, dispatched *bool) {
	l.deps.View.measured(request, dispatched != nil && *dispatched)
	measured := request.budget.Clone()
	l.deps.Live(Live{Type: LiveBudget, Run: l.run.UID, Turn: request.turn, Budget: &measured, Dispatched: dispatched})
}

// delta stores one streamed increment of a main request, merged with its neighbours into few entries. After one could not be stored the
// rest is dropped here, and flush reports it.
func (c *call) delta(ctx context.Context, d provider.Delta) {
	if c.saveErr != nil || d.Kind == provider.DeltaToolCall || c.purpose != runevent.PurposeMain {
		return
	}
	event := runevent.Event{Type: runevent.TypeBody, Text: d.Text, Block: d.Block, Evidence: invocationEvidence(c.invocation)}
	if d.Kind == provider.DeltaThinking {
		event.Type = runevent.TypeReasoning
	}
	event.Evidence.ResponseID = d.ResponseID
	event.Evidence.AgentID, event.Evidence.AgentRunID = c.loop.run.AgentKey, c.loop.run.UID
	c.store(ctx, c.increments.Add(event, d.At))
}

// store appends increments and keeps the first failure.
func (c *call) store(ctx context.Context, events []runevent.Event) {
	if c.saveErr == nil {
		c.saveErr = c.appendAll(ctx, events)
	}
}

func (c *call) appendAll(ctx context.Context, events []runevent.Event) error {
	for _, event := range events {
		start := c.loop.deps.Now()
		if err := c.loop.append(ctx, event); err != nil {
			return err
		}
		c.increments.Acked(c.loop.deps.Now().Sub(start))
	}
	return nil
}

// flush stores what was captured and not yet written, also when the run's context has ended meanwhile. A worker that is
// stopping leaves the increments of an unfinished response; a complete one is kept, it was paid for, whenever the end comes.
func (c *call) flush(ctx context.Context, complete bool) error {
	if c.saveErr != nil && ctx.Err() == nil {
		return c.saveErr
	}
	rest := c.increments.Flush()
	if complete {
		saving, cancel := outlive(ctx)
		defer cancel()
		return c.appendAll(saving, rest)
	}
	if ctx.Err() != nil {
		if errors.Is(context.Cause(ctx), ErrHandBack) {
			return ErrHandBack
		}
		saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		ctx = saving
	}
	return c.appendAll(ctx, rest)
}

// completed stores the whole response once and names it in the log.
func (c *call) completed(ctx context.Context, response provider.Response) (answered, error) {
	l := c.loop
	saving, cancel := outlive(ctx)
	defer cancel()
	object := c.action(response)
	assistant := object.Message
	raw, err := session.EncodeObject(object)
	if err != nil {
		return answered{}, err
	}
	action, err := l.saveBegun(saving, c.begun, cas.MediaModelAction, raw)
	if err != nil {
		return answered{}, err
	}
	l.deps.Chaos("action.stored")
	evidence := invocationEvidence(c.invocation)
	evidence.ResponseID = response.ResponseID
	if err := l.append(saving, runevent.Event{
		Type: runevent.TypeRecord, Kind: runevent.KindModelCompleted, Purpose: c.purpose, PayloadRef: &action,
		Usage: assistant.Usage, StopReason: string(assistant.StopReason), RequestOutputTokenLimit: c.limit,
		HTTPStatus: response.HTTPStatus, Reason: c.unusable(assistant), Evidence: evidence,
	}); err != nil {
		return answered{}, err
	}
	l.deps.Chaos("model.completed")
	return answered{message: assistant, action: action, request: c.invocation}, nil
}

// unusable is why a complete response is not used for what it was asked for; empty for one that is.
func (c *call) unusable(answer message.Message) string {
	if c.purpose == runevent.PurposeTitle && session.TitleOf(answer) == "" {
		return "NoTitle"
	}
	if _, err := compaction.Judge(answer); c.purpose == runevent.PurposeSummary && err != nil {
		return "NoSummary"
	}
	return ""
}

// failed records a request that has no response: refused by the guard, or failed at the provider.
func (c *call) failed(ctx context.Context, err error) error {
	var failed *provider.Error
	if !errors.As(err, &failed) {
		failed = &provider.Error{Class: provider.ClassTransient, Err: err}
		err = failed
	}
	l := c.loop
	if failed.Class == provider.ClassRejected && ctx.Err() == nil {
		why := l.rejected(failed)
		if c.announce != nil {
			c.announce(false)
		}
		if saveErr := c.withdraw(ctx, ReasonOutputCapRejected, why.Message); saveErr != nil {
			return saveErr
		}
		return &refused{record: c.invocation.ContextRef, Failure: *why}
	}
	if ctx.Err() != nil && !failed.Dispatched {
		return errors.Join(context.Cause(ctx), c.unsent(ctx))
	}
	if ctx.Err() != nil && c.purpose != runevent.PurposeMain {
		return context.Cause(ctx)
	}
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), &partial{failed: failed, invocation: c.invocation})
	}
	event := runevent.Event{
		Type: runevent.TypeModelFailed, Purpose: c.purpose, Class: string(failed.Class), HTTPStatus: failed.HTTPStatus,
		Retryable: failed.Class.Retryable(), Usage: failed.Usage, Message: failed.Error(), Evidence: invocationEvidence(c.invocation),
	}
	event.Evidence.ResponseID = failed.ResponseID
	if len(failed.Detail) > 0 {
		ref, saveErr := l.save(ctx, cas.MediaBlob, failed.Detail[:min(len(failed.Detail), failedDetailMaxSize)])
		if saveErr != nil {
			return saveErr
		}
		event.Detail = &ref
	}
	if saveErr := l.append(ctx, event); saveErr != nil {
		return saveErr
	}
	l.deps.Chaos("model.failed")
	l.postpone(ctx, c.model, failed)
	return err
}

// withdraw records that the captured request was not sent: it does not count, and leaves no message.
func (c *call) withdraw(ctx context.Context, reason, text string) error {
	return c.loop.append(ctx, runevent.Event{
		Type: runevent.TypeModelRejected, Purpose: c.purpose, Reason: reason,
		Message: text, Record: &c.invocation.ContextRef, Evidence: invocationEvidence(c.invocation),
	})
}

// unsent withdraws a request before which the run's end came. A worker that is stopping writes nothing: the next one
// captures the request again.
func (c *call) unsent(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), ErrHandBack) {
		return nil
	}
	saving, cancel := c.loop.beyond(ctx)
	defer cancel()
	return c.withdraw(saving, ReasonCancelled, "the run ended before the request was sent")
}

// partial is a dispatched request that the run's end cut short.
type partial struct {
	failed     *provider.Error
	invocation session.Request
}

func (p *partial) Error() string { return "the request was cut short" }
func (p *partial) Unwrap() error { return p.failed }

// failedAnswer is the one trace that a request's final failure leaves in the history: an assistant message with stop
// reason error. Later requests leave it out.
func (l *loop) failedAnswer(failed *provider.Error, request assembled) answered {
	assistant := message.Message{
		Role: message.RoleAssistant, Provider: l.cfg.Model.Provider, API: string(l.cfg.Model.API), Model: l.cfg.Model.ID,
		StopReason: message.StopError, ErrorMessage: failed.Error(), Usage: failed.Usage,
	}
	if failed.Partial != nil {
		assistant.Content = failed.Partial.Content
	}
	return answered{message: assistant, request: session.Request{Turn: request.turn}, failure: providerFailure(failed)}
}

// providerFailure maps the class of a final failure to the run's reason.
func providerFailure(failed *provider.Error) *Failure {
	reason, advice := ReasonUnavailable, "the provider stayed unavailable; start a new run to try again"
	switch failed.Class {
	case provider.ClassAuth:
		reason, advice = ReasonAuthFailed, "the provider refused the credential; check the provider's Secret"
	case provider.ClassRateLimited:
		reason, advice = ReasonRateLimited, "the provider kept limiting the rate; try later or lower the provider's limits"
	case provider.ClassQuota:
		reason, advice = ReasonRejected, "the provider's quota or spend limit is used up"
	case provider.ClassOverflow:
		reason, advice = ReasonRejected, "the provider says that the input exceeds its window; check the model's contextWindow"
	case provider.ClassInvalidRequest, provider.ClassRefused:
		reason, advice = ReasonRejected, "the provider refused the request"
	}
	return &Failure{
		Reason: reason, Message: fmt.Sprintf("%s (%s)", advice, failed.Class), Class: failed.Class, HTTPStatus: failed.HTTPStatus,
		Retryable: failed.Class.Retryable(), Detail: failed.Detail, Err: failed,
	}
}

// stored is the response that an earlier worker received and did not commit.
func (l *loop) stored(ctx context.Context) (answered, error) {
	completed := l.state.Run.Completed
	action, err := object[session.ModelAction](ctx, l, completed.Action)
	if err != nil {
		return answered{}, fmt.Errorf("read the stored response: %w", err)
	}
	return answered{message: action.Message, action: completed.Action, request: completed.Request}, nil
}
