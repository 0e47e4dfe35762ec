package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// endTimeout bounds what is still saved after the run's context has ended.
const endTimeout = 30 * time.Second

// Result is how a run ended.
type Result struct {
	// Event is run.finished, run.failed or run.cancelled.
	Event  runevent.Type
	Reason string
}

// loop is one run while it is executed. One goroutine uses it.
type loop struct {
	deps    Deps
	run     Run
	cfg     session.RunConfig
	journal *runevent.Writer
	state   session.State
	// history is state.History with bodies, raws the exact bytes in which its messages are stored; list is the history
	// of the last committed state, whose segments the next one shares.
	history    []message.Message
	raws       [][]byte
	list       cas.MessageList
	snapshots  []projection.Snapshot
	checkpoint *projection.Checkpoint
	tools      tool.Set
	byName     map[string]tool.Definition
	assembler  assembler
	// uncommitted is a step that is about to be committed; nil for none.
	uncommitted *uncommitted
	// committed is the latest state that the log names.
	committed cas.Digest
	// calibration is what is known of the model's real counts.
	calibration budget.Calibration
	// title is a request for the session's title that goes on beside the run; nil for none. titled says that the run has
	// asked.
	title  *titling
	titled bool
	// ending is why the run ends when it is not its context that says so.
	ending error
}

// Execute runs a run to its end, or goes on with it where its log stops. It returns the terminal event that is in the
// log. ErrHandBack and ErrLost mean that the run goes on elsewhere, ErrOverdue that it was not begun; any other error
// means that the log or the store stayed away until the run's time was up, and the run is to be tried again later. When
// the run itself had failed before that, the error holds both failures.
func Execute(ctx context.Context, deps Deps, run Run) (Result, error) {
	ctx, left := deps.observer().Run(ctx, &run)
	result, err := Result{}, errUnfinished
	defer func() { left(result, err) }()
	result, err = execute(ctx, deps, run)
	return result, err
}

func execute(ctx context.Context, deps Deps, run Run) (Result, error) {
	if deps.Chaos == nil {
		deps.Chaos = func(string) {}
	}
	l := &loop{deps: deps, run: run, cfg: run.Config}
	if err := l.open(ctx); err != nil {
		return Result{}, err
	}
	if l.state.Ended(run.UID) {
		return l.ended(), nil
	}
	if limit := run.StartBy; !l.state.Live() && !limit.IsZero() && deps.Now().After(limit) {
		return Result{}, ErrOverdue
	}
	ctx, cancel := l.withDeadline(ctx)
	defer cancel()
	if err := l.begin(ctx); err != nil {
		return l.end(ctx, err)
	}
	defer func() {
		if l.tools != nil {
			if err := l.tools.Close(); err != nil {
				deps.Logger.Debug("close tool connections", "run", run.UID, "error", err)
			}
		}
	}()
	if run.Operation == OperationCompact {
		return l.end(ctx, l.compact(ctx))
	}
	defer l.endTitle()
	return l.end(ctx, l.turns(ctx))
}

// Seal ends a run without executing it: cause is ErrCancelled, ErrSessionDeleted, ErrDeadline or a *Failure. What the run
// had completed is committed first. A run that had never started is not entered into the history. ErrDeadline ends no run
// whose active time is not over: it returns ErrNotOverdue then.
func Seal(ctx context.Context, deps Deps, run Run, cause error) (Result, error) {
	if deps.Chaos == nil {
		deps.Chaos = func(string) {}
	}
	l := &loop{deps: deps, run: run, cfg: run.Config, ending: cause}
	if err := l.open(ctx); err != nil {
		return Result{}, err
	}
	if l.state.Ended(run.UID) {
		return l.ended(), nil
	}
	if errors.Is(cause, ErrDeadline) && l.state.Live() && l.deps.Now().Before(l.deadline()) {
		return Result{}, ErrNotOverdue
	}
	l.recallTools(ctx)
	attempt := l.attempt()
	var failure *Failure
	if errors.As(cause, &failure) && !l.state.Live() {
		return l.end(ctx, l.refuse(ctx, attempt, failure))
	}
	if err := l.claim(ctx, attempt, nil); err != nil {
		return l.end(ctx, err)
	}
	return l.end(ctx, cause)
}

// refuse claims a run that cannot be executed and stores its prompt, if it could be read, so that it is not lost.
func (l *loop) refuse(ctx context.Context, attempt int, failure *Failure) error {
	if err := l.claim(ctx, attempt, nil); err != nil {
		return err
	}
	if l.state.Run.Accepted || len(l.run.Prompt.Content.Blocks) == 0 && l.run.Prompt.PlainText() == "" {
		return failure
	}
	if err := l.acceptPrompt(ctx); err != nil {
		return err
	}
	return failure
}

// withDeadline ends the run's context when its active time is over.
func (l *loop) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.run.Config.Limits.ActiveDeadlineSeconds <= 0 {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, l.deadline(), ErrDeadline)
}

// deadline is when the run's active time is over, counted from its first start without the time that it has waited.
func (l *loop) deadline() time.Time {
	started := l.deps.Now()
	if l.state.Live() {
		started = l.state.Run.StartedAt.Add(l.state.Run.Waited(started))
	}
	return started.Add(time.Duration(l.run.Config.Limits.ActiveDeadlineSeconds) * time.Second)
}

// open loads the stream's state and makes this worker its appender: the first append fences out any other.
func (l *loop) open(ctx context.Context) error {
	var err error
	l.state, err = LoadState(ctx, l.deps.Log, l.deps.Store, l.run.Stream())
	if err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	if end := l.state.Head.Sequence; end < l.run.Recorded {
		return fmt.Errorf("open session: %w: it ends with entry #%d, #%d was recorded", ErrHistoryCorrupt, end, l.run.Recorded)
	}
	if l.state.Live() && l.state.Run.UID != l.run.UID {
		return fmt.Errorf("open session: run %s has not ended yet", l.state.Run.Name)
	}
	if l.state.StateRef != nil {
		l.committed = l.state.StateRef.Digest
	}
	// What the last commit closed is durable: neither the next history nor an input stores it again.
	l.list, l.assembler.input = l.state.List, l.state.List
	l.journal = runevent.NewWriter(l.deps.Log, runevent.WriterConfig{
		Stream: l.run.Stream(), Head: l.state.Head, StateRef: l.state.StateRef, Put: l.put, Now: l.deps.Now,
	})
	return nil
}

// attempt is the number of this start: one more than that of a lost worker, the same as that of one that handed back.
func (l *loop) attempt() int {
	switch {
	case !l.state.Live():
		return 1
	case l.state.Run.HandedBack:
		return l.state.Run.Attempt
	}
	return l.state.Run.Attempt + 1
}

// ended reports a run that had ended before this call.
func (l *loop) ended() Result {
	if t := l.state.Run.Terminal; t != nil && l.state.Run.UID == l.run.UID {
		return Result{Event: t.Type, Reason: t.Reason}
	}
	return Result{Event: runevent.TypeRunFinished}
}

// begin claims the run, makes its prompt durable and connects its tools.
func (l *loop) begin(ctx context.Context) error {
	takeover := l.state.Live()
	if takeover && l.state.Run.Config != nil {
		stored, err := object[session.RunConfig](ctx, l, *l.state.Run.Config)
		if err != nil {
			return fmt.Errorf("read the run's configuration: %w", err)
		}
		l.cfg = stored
	}
	attempt := l.attempt()
	begun := takeover && l.state.Run.Config != nil && (l.state.Run.Accepted || !l.prompts())
	if l.run.Refusal != nil && !begun {
		return l.refuse(ctx, attempt, l.run.Refusal)
	}
	if !takeover || l.state.Run.Config == nil { // one that was claimed only to be refused has none either
		if err := l.accept(ctx, attempt); err != nil {
			return err
		}
		return l.load(ctx)
	}
	return l.takeOver(ctx, attempt)
}

// takeOver claims a run that another worker has begun, and makes up for what that one did not get to.
func (l *loop) takeOver(ctx context.Context, attempt int) error {
	if err := l.claim(ctx, attempt, nil); err != nil {
		return err
	}
	if l.prompts() && !l.state.Run.Accepted && l.state.Run.Ending == nil {
		if err := l.acceptPrompt(ctx); err != nil {
			return err
		}
	}
	if err := l.connect(ctx, true); err != nil {
		return err
	}
	if err := l.load(ctx); err != nil {
		return err
	}
	done, _ := l.finished() // a run that only lacks its last entry is not lost
	if limit := l.cfg.Limits.MaxAttempts; limit > 0 && attempt > limit && !done {
		return &Failure{Reason: ReasonWorkerLost, Message: fmt.Sprintf("%d workers stopped during the run; limits.maxAttempts is %d", attempt-1, limit)}
	}
	return nil
}

// accept claims a fresh run and stores its prompt before anything else is tried, so that a run that fails to connect
// its tools still has its prompt in the history.
func (l *loop) accept(ctx context.Context, attempt int) error {
	l.deps.Chaos("run.before-start")
	if err := l.saveSkills(ctx); err != nil {
		return err
	}
	connected := l.connect(ctx, false)
	raw, err := session.EncodeObject(l.cfg)
	if err != nil {
		return err
	}
	ref, err := l.save(ctx, cas.MediaRunConfig, raw)
	if err != nil {
		return err
	}
	if err := l.claim(ctx, attempt, &ref); err != nil {
		return err
	}
	if l.prompts() && !l.state.Run.Accepted {
		if err := l.acceptPrompt(ctx); err != nil {
			return err
		}
	}
	return connected
}

// prompts says whether the run brings a user message.
func (l *loop) prompts() bool { return l.run.Operation != OperationCompact }

func (l *loop) claim(ctx context.Context, attempt int, config *cas.Ref) error {
	err := l.append(ctx, runevent.Event{
		Type: runevent.TypeRunStarted, RunName: l.run.Name, Operation: l.run.Operation, Attempt: attempt,
		Worker: l.run.Worker, Config: config,
	})
	l.deps.Chaos("run.started")
	return err
}

// acceptPrompt makes the user message durable: the object, then the entry that is its acceptance.
func (l *loop) acceptPrompt(ctx context.Context) error {
	stored, err := l.storeImages(ctx, l.run.Prompt)
	if err != nil {
		return err
	}
	raw := message.Encode(stored)
	ref, err := l.save(ctx, cas.MediaMessage, raw)
	if err != nil {
		return err
	}
	l.deps.Chaos("prompt.stored")
	event := runevent.Event{Type: runevent.TypeMessageUser, Ref: &ref}
	if len(raw) <= runevent.MaxInline {
		event.Body = raw
	}
	if err := l.append(ctx, event); err != nil {
		return err
	}
	l.deps.View.accepted()
	l.deps.Chaos("prompt.accepted")
	return nil
}

// connect makes the run's tools ready. A takeover gets the definitions that the run was started with.
func (l *loop) connect(ctx context.Context, takeover bool) error {
	if !l.prompts() {
		return l.declareOffline(ctx)
	}
	var want *session.ToolSet
	if takeover && l.cfg.ToolSet != nil {
		stored, err := object[session.ToolSet](ctx, l, *l.cfg.ToolSet)
		if err != nil {
			return fmt.Errorf("read the run's tool set: %w", err)
		}
		want = &stored
	}
	set, err := l.deps.Tools.Connect(ctx, want)
	if err != nil {
		return err
	}
	set = l.withBuiltIn(set, want)
	l.tools, l.byName = set, map[string]tool.Definition{}
	definitions := set.Definitions()
	for _, definition := range definitions {
		l.byName[definition.Name] = definition
	}
	if takeover {
		return nil
	}
	// A run without tools stores that it has none: a takeover must not find any either.
	raw, err := session.EncodeObject(session.ToolSet{V: session.ObjectVersion, Tools: definitions})
	if err != nil {
		return err
	}
	ref, err := l.save(ctx, cas.MediaToolSet, raw)
	if err != nil {
		return err
	}
	l.cfg.ToolSet = &ref
	return nil
}

// turns is the loop: one request and its tools after another, until the model calls no tool or a limit is reached.
func (l *loop) turns(ctx context.Context) error {
	if ending := l.state.Run.Ending; ending != nil {
		return &announced{event: *ending}
	}
	for {
		if done, err := l.finished(); done || err != nil {
			return err
		}
		if err := l.collectTitle(ctx, false); err != nil {
			return err
		}
		if err := l.startTitle(ctx); err != nil {
			return err
		}
		step, err := l.turn(ctx)
		if err != nil {
			return err
		}
		if err := l.commit(ctx, step); err != nil {
			if failure := step.answer.failure; failure != nil {
				return errors.Join(failure, err)
			}
			return err
		}
		if step.terminal != nil {
			return &announced{event: *step.terminal}
		}
	}
}

// turn makes one step: the response that recovery found, or a new request; then its tool calls.
func (l *loop) turn(ctx context.Context) (step, error) {
	var answer answered
	var err error
	if l.state.Run.Completed != nil {
		answer, err = l.stored(ctx)
	} else {
		answer, err = l.request(ctx)
	}
	if err != nil {
		return step{}, err
	}
	results, err := l.runTools(ctx, answer)
	if err != nil {
		return step{}, &interrupted{answer: answer, results: results, cause: err}
	}
	return l.stepOf(answer, results), nil
}

// finished checks the limits that hold between turns. A run whose last committed turn called no tool is complete.
func (l *loop) finished() (bool, error) {
	run := l.state.Run
	if run.Committed == 0 || run.Completed != nil {
		return false, nil
	}
	if last := l.history[len(l.history)-1]; last.Role == message.RoleAssistant {
		return true, nil
	}
	if limit := l.cfg.Limits.MaxTurns; limit > 0 && run.Committed >= limit {
		return false, &Failure{Reason: ReasonMaxTurns, Message: fmt.Sprintf("the run made %d turns, limits.maxTurns is %d", run.Committed, limit)}
	}
	if used, limit := run.Usage.Total()+run.Delegated.Total(), l.cfg.Limits.MaxTotalTokens; limit > 0 && used >= limit {
		return false, &Failure{Reason: ReasonTokenLimit, Message: fmt.Sprintf("the run used %d tokens, limits.maxTotalTokens is %d", used, limit)}
	}
	usage := l.state.Usage()
	if limit := l.cfg.Limits.SessionMaxTotalTokens; limit > 0 && usage.Total() >= limit {
		return false, &Failure{Reason: ReasonTokenLimit, Message: fmt.Sprintf("the session used %d tokens, its maxTotalTokens is %d", usage.Total(), limit)}
	}
	return false, nil
}

// announced is a terminal event that a commit has announced already.
type announced struct{ event runevent.Event }

func (a *announced) Error() string { return string(a.event.Type) }

// interrupted is a turn whose tools did not all come to an end.
type interrupted struct {
	answer  answered
	results []message.Message
	cause   error
}

func (i *interrupted) Error() string { return i.cause.Error() }
func (i *interrupted) Unwrap() error { return i.cause }

// handedOver says whether err means that this worker must write nothing more.
func handedOver(ctx context.Context, err error) error {
	if errors.Is(err, runevent.ErrFenced) || errors.Is(err, ErrLost) {
		return ErrLost
	}
	if errors.Is(err, ErrHandBack) || errors.Is(context.Cause(ctx), ErrHandBack) {
		return ErrHandBack
	}
	return nil
}
