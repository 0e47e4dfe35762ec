package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
)

// assembler keeps what successive requests of one run share. The caches only save work: leaving them out gives the
// same requests.
type assembler struct {
	projector projection.Projector
	tokens    budget.Cache
	// input is the list of the last model input, whose segments the next one shares; digests are of its messages.
	input cas.MessageList
}

// assembled is one request, projected and measured but not yet sent.
type assembled struct {
	projection.Result
	budget budget.ContextBudget
	policy budget.Policy
	// fresh are snapshots that become part of the session when the request is dispatched.
	fresh    []projection.Snapshot
	sections session.Sections
	turn     int
	// compactions is how many compactions were tried for it.
	compactions int
	// reasoning is the run's level, or off where the history's thinking cannot be replayed.
	reasoning provider.Level
}

// load reads the bodies that requests are projected from: history, snapshots and the checkpoint.
func (l *loop) load(ctx context.Context) error {
	l.calibrated(ctx)
	if err := l.resumed(ctx); err != nil {
		return err
	}
	resolver := cas.NewResolver(l.deps.Store, session.MessageIn, cas.ResolverOptions{})
	raws, err := resolver.Messages(ctx, l.run.Scope(), l.state.History)
	if err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	l.raws, l.history = raws, make([]message.Message, len(raws))
	for i, raw := range raws {
		stored, err := message.Decode(raw)
		if err != nil {
			return fmt.Errorf("%w: message %d: %w", ErrHistoryCorrupt, i, err)
		}
		if l.history[i], err = l.loadImages(ctx, stored); err != nil {
			return err
		}
	}
	for _, ref := range l.state.Snapshots {
		stored, err := object[session.Snapshot](ctx, l, ref)
		if err != nil {
			return fmt.Errorf("read a runtime-context snapshot: %w", err)
		}
		l.snapshots = append(l.snapshots, stored.Snapshot)
	}
	if l.state.Checkpoint != nil {
		stored, err := object[session.Checkpoint](ctx, l, *l.state.Checkpoint)
		if err != nil {
			return fmt.Errorf("read the compaction checkpoint: %w", err)
		}
		l.checkpoint = &stored.Checkpoint
	}
	l.deps.View.opened(l)
	return nil
}

// options are the output settings of a main request.
func (l *loop) options() budget.Options {
	options := budget.Options{
		Model: l.cfg.Model, MaxTokens: l.cfg.MaxOutputTokens, Reasoning: l.cfg.Reasoning, RequestSampling: l.cfg.Sampling,
		Estimator: l.estimator(),
	}
	if l.cfg.Calibrate {
		options.Calibration = &l.calibration
	}
	return options
}

// estimator is the run's.
func (l *loop) estimator() budget.Estimator {
	if l.deps.Estimator != nil {
		if chosen := l.deps.Estimator(l.cfg.Estimator); chosen != nil {
			return chosen
		}
	}
	return budget.Heuristic
}

// assemble builds the request of the next turn from the complete history, behind the checkpoint, and measures it. Nothing
// is stored or sent.
func (l *loop) assemble(checkpoint *projection.Checkpoint) (assembled, error) {
	request := assembled{turn: l.state.Run.Committed + 1, sections: session.Sections{V: session.ObjectVersion, Sections: l.cfg.Sections}}
	snapshots, err := l.withFresh(&request, checkpoint)
	if err != nil {
		return request, invalidProjection(err)
	}
	projected, err := l.project(projectionInput{checkpoint: checkpoint, snapshots: snapshots, tools: declarations(l.tools.Definitions())})
	if err != nil {
		return request, err
	}
	request.Result, request.budget, request.policy = projected.Result, projected.budget, projected.policy
	request.reasoning = l.cfg.Reasoning
	if request.ThinkingOff {
		request.reasoning, request.policy.ThinkingBudget = provider.LevelOff, 0
	}
	return request, nil
}

// projectionInput is what a request is projected from besides history and configuration.
type projectionInput struct {
	checkpoint *projection.Checkpoint
	snapshots  []projection.Snapshot
	tools      []message.Tool
}

// project projects and measures.
func (l *loop) project(in projectionInput) (assembled, error) {
	var out assembled
	var err error
	out.Result, err = l.assembler.projector.Project(projection.Input{
		Model: l.cfg.Model, History: l.history, Snapshots: in.snapshots, Checkpoint: in.checkpoint, System: l.cfg.Sections, Tools: in.tools,
	})
	if err != nil {
		return out, invalidProjection(err)
	}
	out.policy, err = budget.ReserveFor(l.options())
	if err == nil {
		out.budget, err = budget.Measure(budget.Request{System: out.System, Messages: out.Messages, Tools: out.Tools}, l.options(), &l.assembler.tokens)
	}
	if err != nil {
		return out, &Failure{Reason: ReasonRejected, Message: err.Error(), Err: err}
	}
	return out, nil
}

// declarations are the tools as a model sees them.
func declarations(definitions []tool.Definition) []message.Tool {
	var tools []message.Tool
	for _, definition := range definitions {
		tools = append(tools, definition.Tool)
	}
	return tools
}

func invalidProjection(err error) *Failure {
	return &Failure{Reason: ReasonInvalidProjection, Message: err.Error(), Err: err}
}

// withFresh adds the snapshot that the newest user turn gets when its runtime context changed or Skills were selected.
func (l *loop) withFresh(request *assembled, checkpoint *projection.Checkpoint) ([]projection.Snapshot, error) {
	if l.run.Operation == OperationCompact { // it makes no turn
		return l.snapshots, nil
	}
	candidate := projection.Snapshot{Content: l.context(), Skills: l.cfg.Skills, Timestamp: l.state.Run.StartedAt.UTC().Format(time.RFC3339)}
	if len(candidate.Skills) > 0 && candidate.Content != "" {
		candidate.Content += "\n\n" + projection.SkillInstructions(candidate.Skills)
	}
	snapshot, store, err := projection.NextSnapshot(l.snapshots, l.history, checkpoint, candidate)
	if err != nil || !store {
		return l.snapshots, err
	}
	request.fresh = []projection.Snapshot{snapshot}
	return append(l.snapshots[:len(l.snapshots):len(l.snapshots)], snapshot), nil
}

// captured is a fixed model input with what its entry must carry.
type captured struct {
	ref       cas.Ref
	snapshots []cas.Ref
	sections  *cas.Ref
}

// capture stores the fixed input of a request with its assembly record. The same request gives the same objects, so a
// redispatch reuses them.
func (l *loop) capture(ctx context.Context, request assembled, dispatched bool) (captured, error) {
	var out captured
	snapshot := session.ContextSnapshot{
		V: session.ObjectVersion, Purpose: runevent.PurposeMain, Model: l.identity(),
		Parameters: session.Parameters{
			MaxTokens: request.policy.SendMaxTokens, Reasoning: request.reasoning, ThinkingBudget: request.policy.ThinkingBudget, Sampling: l.cfg.Sampling,
		},
		Assembly: l.record(request, dispatched),
	}
	if len(request.Tools) > 0 {
		snapshot.Tools = l.cfg.ToolSet
	}
	var err error
	if snapshot.System, out.sections, err = l.saveSections(ctx, request); err != nil {
		return out, err
	}
	if dispatched {
		if out.snapshots, err = l.saveSnapshots(ctx, request.fresh); err != nil {
			return out, err
		}
	}
	refs, raws, err := l.storeInput(ctx, request)
	if err != nil {
		return out, err
	}
	snapshot.Messages, err = cas.BuildListAt(ctx, l.save, request.start(), refs, &l.assembler.input)
	if err != nil {
		return out, err
	}
	l.assembler.input = snapshot.Messages
	input := session.AppendInput(nil, request.System, raws, request.Tools)
	snapshot.InputDigest, snapshot.InputSize = cas.Of(input), int64(len(input))
	out.ref, err = l.saveObject(ctx, cas.MediaContext, snapshot)
	l.deps.Chaos("context.stored")
	return out, err
}

// start is the history index at which the request's first row would stand if each row had one: with it, segments of the
// request's list end where those of the history do, also behind rows that are not from the history.
func (r assembled) start() int {
	sources := r.Projection.Sources
	for row := len(sources) - 1; row >= 0; row-- {
		if sources[row].Type != projection.SourceHistory {
			continue
		}
		start := (sources[row].MessageIndex - row) % cas.SegmentLength
		return (start + cas.SegmentLength) % cas.SegmentLength
	}
	return 0
}

// saveSections stores the request's system prompt. It returns its reference, and again as changed when it is another one
// than the session has; both are nil without a system prompt.
func (l *loop) saveSections(ctx context.Context, request assembled) (ref, changed *cas.Ref, err error) {
	if len(l.cfg.Sections) == 0 {
		return nil, nil, nil
	}
	stored, err := l.saveObject(ctx, cas.MediaSections, request.sections)
	if err != nil {
		return nil, nil, err
	}
	if l.state.Sections == nil || l.state.Sections.Digest != stored.Digest {
		changed = &stored
	}
	return &stored, changed, nil
}

func (l *loop) saveSnapshots(ctx context.Context, snapshots []projection.Snapshot) ([]cas.Ref, error) {
	var refs []cas.Ref
	for _, snapshot := range snapshots {
		ref, err := l.saveObject(ctx, cas.MediaSnapshot, session.Snapshot{V: session.ObjectVersion, Snapshot: snapshot})
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

func (l *loop) identity() session.ModelIdentity {
	return session.ModelIdentity{Provider: l.cfg.Model.Provider, API: l.cfg.Model.API, ID: l.cfg.Model.ID}
}

// record says how the request was put together.
func (l *loop) record(request assembled, dispatched bool) session.AssemblyRecord {
	record := session.AssemblyRecord{
		HistoryMessageCount: request.Projection.HistoryMessageCount,
		Sources:             session.PackSources(request.Projection.Sources),
		SkillExpansions:     request.Projection.SkillExpansions,
		Budget:              request.budget, Estimator: l.estimator().Name(), State: l.state.StateRef,
		Dispatched: dispatched,
	}
	if l.cfg.Model.Thinking != provider.ThinkingNone {
		record.Prefix = request.Prefix
	}
	for _, section := range l.cfg.Sections {
		record.Admitted.Sections = append(record.Admitted.Sections, session.AdmittedSection{ID: section.Name, Digest: cas.Of([]byte(section.Text))})
		record.Rendered.SectionIDs = append(record.Rendered.SectionIDs, section.Name)
	}
	if l.checkpoint != nil {
		record.Compaction = l.checkpoint.ID
	}
	if l.cfg.Calibrate {
		known := l.calibration
		record.Calibration = &known
	}
	return record
}

// storeInput references each message of the input: an unaltered one by its history object, any other by an object of
// its own. It also returns their exact bytes.
func (l *loop) storeInput(ctx context.Context, request assembled) ([]cas.MessageRef, [][]byte, error) {
	refs := make([]cas.MessageRef, len(request.Messages))
	raws := make([][]byte, len(request.Messages))
	for i, m := range request.Messages {
		if request.Unaltered[i] {
			at := request.Projection.Sources[i].MessageIndex
			refs[i] = l.state.History[at]
			raws[i] = l.raws[at]
			continue
		}
		stored, err := l.storeImages(ctx, m)
		if err != nil {
			return nil, nil, err
		}
		raws[i] = message.Encode(stored)
		ref, err := l.save(ctx, cas.MediaMessage, raws[i])
		if err != nil {
			return nil, nil, err
		}
		refs[i] = cas.MessageRef{Digest: ref.Digest}
	}
	return refs, raws, nil
}

func (l *loop) saveObject(ctx context.Context, mediaType string, object any) (cas.Ref, error) {
	raw, err := session.EncodeObject(object)
	if err != nil {
		return cas.Ref{}, err
	}
	return l.save(ctx, mediaType, raw)
}

// exceeded records a request that does not fit: its record is kept, nothing is dispatched.
func (l *loop) exceeded(ctx context.Context, request assembled) error {
	fixed, err := l.capture(ctx, request, false)
	if err != nil {
		return err
	}
	over := &budget.ExceededError{Budget: request.budget.Clone()}
	return &refused{record: fixed.ref, Failure: Failure{Reason: ReasonBudgetExceeded, Message: over.Error(), Err: over}}
}

// refused is a request that was not dispatched, with its record.
type refused struct {
	Failure
	record cas.Ref
}

// Unwrap makes the failure itself visible to errors.As.
func (r *refused) Unwrap() error { return &r.Failure }

// modelRequest is the request as the provider's adapter takes it.
func (l *loop) modelRequest(request assembled, guard func([]byte) error) provider.Request {
	return provider.Request{
		Model: l.cfg.Model, System: request.System, Messages: request.Messages, Tools: request.Tools,
		MaxTokens: request.policy.SendMaxTokens, Reasoning: request.reasoning, ThinkingBudget: request.policy.ThinkingBudget,
		Sampling: l.cfg.Sampling, PromptCache: l.cfg.PromptCache, StablePrefix: len(request.Messages),
		Guard: guard, CallerHook: l.run.CallerHook,
	}
}
