package agent

import (
	"context"
	"errors"
	"time"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// aside is a model request beside the conversation: it declares no tools, asks for no reasoning, and moves neither
// the source map nor the counts.
type aside struct {
	purpose  runevent.Purpose
	model    provider.Model
	system   string
	messages []message.Message
	policy   budget.Policy
	budget   budget.ContextBudget
	// attempt is how many compactions were tried with this one, summarized the history that it stands for; both belong to
	// summaries.
	attempt    int
	summarized []int
	turn       int
	// captured is the stored input.
	captured cas.Ref
	// timeout bounds the request with its retries, but not the waits for its turn.
	timeout time.Duration
}

// aside asks the model and returns its answer. An answer that an earlier worker received is not asked for again. A
// request that fails is an *unsummarised, and the conversation goes on without it.
func (l *loop) aside(ctx context.Context, a aside) (message.Message, error) {
	var err error
	if a.captured, err = l.captureAside(ctx, a); err != nil {
		return message.Message{}, err
	}
	if action, ok := l.state.Run.Summaries[a.captured.Digest]; ok && a.purpose == runevent.PurposeSummary {
		stored, err := object[session.ModelAction](ctx, l, action)
		return stored.Message, err
	}
	left := a.timeout
	for try := 1; ; try++ {
		release, err := l.place(ctx, wish{purpose: a.purpose, model: a.model, budget: a.budget, turn: a.turn})
		if err != nil {
			return message.Message{}, err
		}
		timed, cancel := context.WithTimeout(ctx, left)
		answer, again, err := l.tryAside(ctx, timed, a, try, release)
		left = remaining(timed)
		cancel()
		if !again {
			return answer, err
		}
	}
}

// remaining is the time that a context with a deadline has left.
func remaining(timed context.Context) time.Duration {
	deadline, _ := timed.Deadline()
	return time.Until(deadline)
}

// tryAside sends the request once and, if it is worth to be sent again, waits until then.
func (l *loop) tryAside(ctx, timed context.Context, a aside, try int, release func()) (answer message.Message, again bool, err error) {
	sent, err := l.sendAside(ctx, timed, a, release)
	var failed *provider.Error
	switch {
	case err == nil:
		return sent.message, false, nil
	case ctx.Err() != nil:
		return message.Message{}, false, context.Cause(ctx)
	case refusedAside(err):
		return message.Message{}, false, &unsummarised{err}
	case !errors.As(err, &failed):
		return message.Message{}, false, err
	case !failed.Class.Retryable() || try >= l.retries() || timed.Err() != nil || l.deps.Sleep(timed, l.delay(failed, try)) != nil:
		return message.Message{}, false, &unsummarised{failed}
	}
	return message.Message{}, true, nil
}

func refusedAside(err error) bool {
	var rejected *refused
	return errors.As(err, &rejected)
}

// sendAside captures and sends the request once and gives its turn back. What came of it is recorded under ctx, the request
// ends with timed.
func (l *loop) sendAside(ctx, timed context.Context, a aside, release func()) (answered, error) {
	defer release()
	invocation := session.Request{RequestExecutionID: l.deps.NewID(), Turn: a.turn, ContextRef: a.captured}
	if err := l.append(ctx, runevent.Event{
		Type: runevent.TypeRecord, Kind: runevent.KindContextCaptured, Purpose: a.purpose, Attempt: a.attempt, Evidence: invocationEvidence(invocation),
	}); err != nil {
		return answered{}, err
	}
	l.deps.Chaos(string(a.purpose) + ".captured")
	call := &call{loop: l, purpose: a.purpose, invocation: invocation, policy: a.policy, model: a.model, estimate: a.budget.InputTokens()}
	request := a.request(call.guard(timed))
	if a.purpose == runevent.PurposeSummary {
		request.CallerHook = l.run.CallerHook
	}
	response, err := call.stream(timed, request)
	release()
	l.deps.Chaos(string(a.purpose) + ".answered")
	if err != nil {
		return answered{}, call.failed(ctx, err)
	}
	return call.completed(ctx, response)
}

// request is the request as the provider's adapter takes it.
func (a aside) request(guard func([]byte) error) provider.Request {
	return provider.Request{
		Model: a.model, System: a.system, Messages: a.messages, MaxTokens: a.policy.SendMaxTokens, Reasoning: provider.LevelOff, Guard: guard,
	}
}

// captureAside stores the request's fixed input. Equal requests have equal inputs.
func (l *loop) captureAside(ctx context.Context, a aside) (cas.Ref, error) {
	section := projection.Section{Text: a.system}
	system, err := l.saveObject(ctx, cas.MediaSections, session.Sections{V: session.ObjectVersion, Sections: []projection.Section{section}})
	if err != nil {
		return cas.Ref{}, err
	}
	refs := make([]cas.MessageRef, len(a.messages))
	raws := make([][]byte, len(a.messages))
	for i, m := range a.messages {
		raws[i] = message.Encode(m)
		ref, err := l.save(ctx, cas.MediaMessage, raws[i])
		if err != nil {
			return cas.Ref{}, err
		}
		refs[i] = cas.MessageRef{Digest: ref.Digest}
	}
	list, err := cas.BuildList(ctx, l.save, refs, nil)
	if err != nil {
		return cas.Ref{}, err
	}
	input := session.AppendInput(nil, a.system, raws, nil)
	record := session.AssemblyRecord{
		HistoryMessageCount: len(l.history), Budget: a.budget, Estimator: l.estimator().Name(), State: l.state.StateRef, Dispatched: true,
		Admitted: session.Admitted{Sections: []session.AdmittedSection{{ID: section.Name, Digest: cas.Of([]byte(section.Text))}}},
		Rendered: session.Rendered{SectionIDs: []string{section.Name}}, Summarized: packIndexes(a.summarized),
	}
	if l.checkpoint != nil {
		record.Compaction = l.checkpoint.ID
	}
	if l.cfg.Calibrate && a.purpose == runevent.PurposeSummary { // see resumed
		known := l.calibration
		record.Calibration = &known
	}
	return l.saveObject(ctx, cas.MediaContext, session.ContextSnapshot{
		V: session.ObjectVersion, Purpose: a.purpose, System: &system, Messages: list,
		Model:      session.ModelIdentity{Provider: a.model.Provider, API: a.model.API, ID: a.model.ID},
		Parameters: session.Parameters{MaxTokens: a.policy.SendMaxTokens}, InputDigest: cas.Of(input), InputSize: int64(len(input)), Assembly: record,
	})
}

func packIndexes(indexes []int) []session.SourceRun {
	sources := make([]projection.Source, len(indexes))
	for i, at := range indexes {
		sources[i] = projection.Source{Type: projection.SourceHistory, MessageIndex: at}
	}
	return session.PackSources(sources)
}
