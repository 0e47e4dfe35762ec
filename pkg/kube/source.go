package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/projection"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/worker"
)

// Source reads runs from the API server.
//
// A run that has begun goes on with what it was begun with: only its credentials, endpoints and tool servers are read
// again. Until then, what its session or provider lacks makes it wait, and what it names itself and cannot be used fails
// it.
type Source struct {
	// Reader reads past any cache for Load: the controllers may have seen a run that this process has not. IdleConfig and
	// Listed are called for what a cache has shown already, and may read from the same one; of Secrets and ConfigMaps there
	// is none.
	Reader client.Reader
	// Creator makes the runs of subagents; nil when runs cannot delegate.
	Creator client.Writer
	// Model makes the client of an endpoint, Tools the connections of a run. Neither does any I/O.
	Model func(Endpoint) (provider.Streamer, error)
	Tools func(agent.Run, []ToolServer) agent.Tools
	// Describe asks an endpoint what it tells about models; see provider.Describer. Only Listed needs it.
	Describe func(ctx context.Context, endpoint Endpoint, ids []string) ([]provider.ModelInfo, error)
	// TraceParent is the trace of what ctx is part of, for the runs of subagents; nil for none.
	TraceParent func(ctx context.Context) string
	Now         func() time.Time

	quotas quotas
}

// Load implements worker.Source.
func (s *Source) Load(ctx context.Context, item worker.Item) (worker.Job, error) {
	l := loader{Source: s, ctx: ctx, namespace: item.Namespace}
	run, err := l.run(item)
	if errors.Is(err, worker.ErrGone) && item.Kind == worker.KindSeal {
		return l.orphan(item, run)
	}
	if err != nil {
		return worker.Job{}, err
	}
	job := worker.Job{Run: agent.Run{
		Namespace: item.Namespace, Name: run.Name, UID: string(run.UID), SessionUID: item.SessionUID, AgentKey: AgentKey(run),
		Operation: string(run.Spec.Operation), Queued: run.CreationTimestamp.Time, TraceParent: run.Annotations[api.AnnotationTraceParent],
	}}
	owner := &api.AgentSession{}
	if err := l.get(run.Spec.SessionRef.Name, owner); err != nil {
		return worker.Job{}, notFound(err, worker.ErrGone)
	}
	job.Run.Recorded = recorded(job.Run.AgentKey, owner, run)
	switch {
	case owner.HistoryUID() != item.SessionUID:
		return worker.Job{}, worker.ErrGone
	case !owner.DeletionTimestamp.IsZero():
		job.Ending = agent.ErrSessionDeleted
		return job, nil
	case run.Spec.Cancel || !run.DeletionTimestamp.IsZero():
		job.Ending = agent.ErrCancelled
		return job, nil
	case owner.Spec.Suspend && !begun(run): // it was queued before the session was suspended
		return worker.Job{}, notReady(api.SessionReasonSuspended, "AgentSession %s is suspended", owner.Name)
	}
	if s.Creator != nil {
		job.Deps.Children = &children{source: s, parent: run}
	}
	view, err := l.as(run, owner)
	if err := refuse(&job, run, err); err != nil {
		return worker.Job{}, err
	}
	if view == nil { // it is refused, and whatever it had begun with stands in its log
		view = owner
	}
	if err := l.fill(&job, run, view); err != nil {
		return l.unready(job, run, err)
	}
	return job, nil
}

// loader is one Load call.
type loader struct {
	*Source
	ctx       context.Context //nolint:containedctx // lives for one call
	namespace string
	// depth is how far below the session's own agent the run stands; as finds it.
	depth int
	// loadable are the skills that the model may load; config reads them.
	loadable []session.Skill
}

func (l *loader) get(name string, into client.Object) error {
	if err := l.Reader.Get(l.ctx, client.ObjectKey{Namespace: l.namespace, Name: name}, into); err != nil {
		return fmt.Errorf("get %s: %w", name, err)
	}
	return nil
}

func notFound(err, instead error) error {
	if apierrors.IsNotFound(err) {
		return instead
	}
	return err
}

// run reads the run. ErrGone comes with the run when it is the item's, but was ended already.
func (l *loader) run(item worker.Item) (*api.AgentRun, error) {
	run := &api.AgentRun{}
	if err := l.get(item.RunName, run); err != nil {
		return nil, notFound(err, worker.ErrGone)
	}
	if string(run.UID) != item.RunUID {
		return nil, worker.ErrGone
	}
	if run.IsFinished() {
		return run, worker.ErrGone
	}
	return run, nil
}

// orphan ends a run that is live in its session's log, although its object is gone (run is then nil) or shows it as
// ended: nothing else in the session can go on before.
func (l *loader) orphan(item worker.Item, run *api.AgentRun) (worker.Job, error) {
	owner := &api.AgentSession{}
	if err := l.get(item.SessionName, owner); err != nil {
		return worker.Job{}, notFound(err, worker.ErrGone)
	}
	if owner.HistoryUID() != item.SessionUID {
		return worker.Job{}, worker.ErrGone
	}
	job := worker.Job{Ending: agent.ErrCancelled, Run: agent.Run{
		Namespace: item.Namespace, Name: item.RunName, UID: item.RunUID, SessionUID: item.SessionUID, AgentKey: item.AgentKey,
		Operation: string(api.OperationPrompt),
		Recorded:  recorded(item.AgentKey, owner, run),
	}}
	if run != nil {
		job.Run.Operation, job.Ending = string(run.Spec.Operation), finished(run)
		job.Run.Queued, job.Run.TraceParent = run.CreationTimestamp.Time, run.Annotations[api.AnnotationTraceParent]
	}
	return job, nil
}

// recorded is the number of the last entry that an agent's stream is known to have had. Of a session's status it is that of
// main. run may be nil.
func recorded(agentKey string, owner *api.AgentSession, run *api.AgentRun) int64 {
	var last int64
	if agentKey == runevent.MainAgent {
		last = owner.Status.LastSequence
	}
	if run != nil && AgentKey(run) == agentKey {
		last = max(last, run.Status.LastSequence)
	}
	return last
}

// begun says whether the run's configuration is in its log. The status tells it a moment later; a run that looks as if
// it had not begun is at worst looked at again.
func begun(run *api.AgentRun) bool { return run.Status.StartTime != nil }

// fill resolves everything that the run names.
func (l *loader) fill(job *worker.Job, run *api.AgentRun, owner *api.AgentSession) error {
	if seconds := run.Spec.Limits.QueueDeadlineSeconds; seconds > 0 {
		job.Run.StartBy = run.CreationTimestamp.Add(time.Duration(seconds) * time.Second)
	}
	target, err := l.target(owner.Spec.Model.ProviderRef.Name)
	if err == nil {
		err = l.specify(&job.Run, run, owner, target)
	}
	if err := refuse(job, run, err); err != nil {
		return err
	}
	models := &models{source: l.Source, namespace: l.namespace, clients: map[string]provider.Streamer{}}
	if target != nil {
		l.quotas.keep(client.ObjectKeyFromObject(target), QuotaOf(target), l.Now())
		err = models.open(l, target, protocols[target.Spec.Protocol])
	}
	if err != nil && !begun(run) {
		return err
	}
	job.Deps.Model = models
	job.Deps.Quota = func(ctx context.Context, model provider.Model) (agent.Quota, error) {
		return l.quota(ctx, l.namespace, model)
	}
	servers, err := l.toolServers(owner)
	var waiting *worker.NotReadyError
	if !errors.As(err, &waiting) {
		err = refuse(job, run, err)
	}
	if err != nil {
		return err
	}
	job.Deps.Tools = l.Tools(job.Run, servers)
	job.Deps.Approvals = &approvals{reader: l.Reader, namespace: l.namespace, run: run.Name, uid: string(run.UID)}
	return nil
}

// refuse takes a specification that cannot be used as the run's refusal. What a run that has begun lacks is no reason to
// wait: it does not need it any more.
func refuse(job *worker.Job, run *api.AgentRun, err error) error {
	var refusal *agent.Failure
	var waiting *worker.NotReadyError
	switch {
	case errors.As(err, &refusal):
	case errors.As(err, &waiting) && begun(run):
		refusal = invalid("%s", waiting.Message)
	default:
		return err
	}
	if job.Run.Refusal == nil {
		job.Run.Refusal = refusal
	}
	return nil
}

// unready lets a run wait, but one that has begun no longer than it may take. How long that is in the end, only its log
// tells: the time that it waited for people does not count.
func (l *loader) unready(job worker.Job, run *api.AgentRun, err error) (worker.Job, error) {
	var waiting *worker.NotReadyError
	if !errors.As(err, &waiting) || !begun(run) {
		return worker.Job{}, err
	}
	seconds := run.Spec.Limits.ActiveDeadlineSeconds
	if seconds <= 0 || l.Now().Before(run.Status.StartTime.Add(time.Duration(seconds)*time.Second)) {
		return worker.Job{}, err
	}
	job.Ending, job.Run.Config.Limits.ActiveDeadlineSeconds = agent.ErrDeadline, int64(seconds)
	return job, nil
}

// invalid is a run that cannot be executed as it is. Its text names objects, keys and fields only.
func invalid(format string, args ...any) *agent.Failure {
	return &agent.Failure{Reason: api.RunReasonInvalidInput, Message: fmt.Sprintf(format, args...), Class: "invalidInput"}
}

// notReady is what a session or a provider lacks. Its text names objects and keys only.
func notReady(reason, format string, args ...any) *worker.NotReadyError {
	return &worker.NotReadyError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// target reads a provider that the session names.
func (l *loader) target(name string) (*api.ModelProvider, error) {
	target := &api.ModelProvider{}
	if err := l.get(name, target); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, notReady(api.SessionReasonProviderNotFound, "ModelProvider %s does not exist", name)
		}
		return nil, err
	}
	return target, nil
}

// specify reads what the run is to do and what it works under.
func (l *loader) specify(into *agent.Run, run *api.AgentRun, owner *api.AgentSession, target *api.ModelProvider) error {
	var err error
	if run.Spec.Operation != api.OperationCompact {
		if into.Prompt, err = l.prompt(run); err != nil {
			return err
		}
	}
	into.Config, err = l.config(run, owner, target)
	into.Skills = l.loadable
	return err
}

// modelFor is a declared model of a provider.
func modelFor(target *api.ModelProvider, id string) (*api.Model, provider.Model, error) {
	declared, ok := FindModel(target, id)
	if !ok {
		return nil, provider.Model{}, notReady(api.SessionReasonModelNotDeclared, "ModelProvider %s declares no model %s", target.Name, id)
	}
	model, err := ModelOf(target, declared)
	if err != nil {
		return nil, provider.Model{}, notReady(api.SessionReasonProviderNotReady, "ModelProvider %s: %v", target.Name, err)
	}
	return declared, model, nil
}

// config is what the run works under.
func (l *loader) config(run *api.AgentRun, owner *api.AgentSession, target *api.ModelProvider) (session.RunConfig, error) {
	declared, model, err := modelFor(target, owner.Spec.Model.Model)
	if err != nil {
		return session.RunConfig{}, err
	}
	cfg := session.RunConfig{
		V: session.ObjectVersion, Operation: string(run.Spec.Operation), Agent: run.Spec.Agent, Model: model,
		Reasoning: provider.Level(owner.Spec.Model.ReasoningEffort), MaxOutputTokens: owner.Spec.Model.MaxOutputTokens,
		PromptCache: target.Spec.PromptCache != api.PromptCacheOff,
		Limits: session.Limits{
			MaxTurns: int(run.Spec.Limits.MaxTurns), MaxTotalTokens: run.Spec.Limits.MaxTotalTokens, MaxAttempts: int(run.Spec.Limits.MaxAttempts),
			ActiveDeadlineSeconds: int64(run.Spec.Limits.ActiveDeadlineSeconds), SessionMaxTotalTokens: owner.Spec.MaxTotalTokens,
			RetryMaxAttempts: int(target.Spec.Retry.MaxAttempts), RetryMaxDelaySeconds: int(target.Spec.Retry.MaxDelaySeconds),
		},
		Depth: l.depth, Subagents: l.subagents(owner),
		OverflowRecovery: owner.Spec.OverflowRecovery != api.Disabled, Title: owner.Spec.Title == api.TitleAuto,
		Estimator: estimators[declared.Estimator], Calibrate: declared.Calibrate == api.Enabled,
	}
	if cfg.Compaction, err = l.compaction(owner); err != nil {
		return cfg, err
	}
	if cfg.Sampling, err = SamplingOf(run.Spec.Sampling, model.API); err != nil {
		return cfg, invalid("spec.sampling: %v", err)
	}
	if cfg.Sections, err = l.sections(owner.Spec.Instructions); err != nil {
		return cfg, err
	}
	context, err := l.sections(owner.Spec.Context)
	if err != nil {
		return cfg, err
	}
	cfg.Context = projection.RenderSystem(context)
	err = l.skills(&cfg, run, owner)
	return cfg, err
}

// compaction is when and with what model the session's older history is summarised.
func (l *loader) compaction(owner *api.AgentSession) (session.Compaction, error) {
	spec := owner.Spec.Compaction
	out := session.Compaction{Automatic: spec.Automatic != api.Disabled, ThresholdPercent: int(spec.ThresholdPercent)}
	if spec.Model == nil {
		return out, nil
	}
	target, err := l.target(spec.Model.ProviderRef.Name)
	if err != nil {
		return out, err
	}
	_, model, err := modelFor(target, spec.Model.Model)
	out.Model = &model
	return out, err
}

func (l *loader) sections(in []api.PromptSection) ([]projection.Section, error) {
	var out []projection.Section
	for _, section := range in {
		text := section.Text
		if section.ConfigMapKeyRef != nil {
			raw, err := l.sessionKey(*section.ConfigMapKeyRef)
			if err != nil {
				return nil, err
			}
			text = string(raw)
		}
		out = append(out, projection.Section{Name: section.Name, Text: text})
	}
	return out, nil
}
