package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/internal/engine"
	"github.com/agentloop/agentloop/cmd/internal/options"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/kube"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool/builtin"
	"github.com/agentloop/agentloop/pkg/tool/codemode"
	"github.com/agentloop/agentloop/pkg/tool/mcp"
	"github.com/agentloop/agentloop/pkg/worker"
)

// Options are what a Local works with.
type Options struct {
	// Files are manifests: files, folders, or - for Stdin.
	Files []string
	Stdin io.Reader
	// Namespace is that of manifests that name none.
	Namespace string
	// Dir keeps the stores; empty for a temporary folder that is removed.
	Dir string
	// Listen is the host on which the event log is served too; empty for none.
	Listen string
	// Credentials are values of Secrets, by NAME/KEY.
	Credentials map[string]string
	// Program is this program's own file, started for code that models write.
	Program string
	Logger  *slog.Logger
	// Decide decides about a call that needs approval.
	Decide func(ctx context.Context, run string, call Call) (approve bool, who, reason string, err error)
	// Progress hears of each entry of the run-event streams as it is stored.
	Progress func(entry runevent.Entry)
}

// Call is a tool call that waits for a person.
type Call struct {
	ID, Tool  string
	Arguments string
}

// Local is an opened folder with manifests.
type Local struct {
	opts    Options
	objects *objects
	stores  *stores
	source  *kube.Source
	deps    agent.Deps
}

// Outcome is how a run ended.
type Outcome struct {
	// Run has conditions as the API server would show them.
	Run *api.AgentRun
	// Answer is the agent's answer.
	Answer string
}

// Open reads the manifests and opens the stores.
func Open(ctx context.Context, opts Options) (*Local, error) {
	l := &Local{opts: opts}
	var err error
	if l.objects, err = newObjects(opts.Namespace, time.Now); err != nil {
		return nil, err
	}
	if err := l.objects.read(opts.Files, opts.Stdin); err != nil {
		return nil, err
	}
	for place, value := range opts.Credentials {
		name, key, _ := strings.Cut(place, "/")
		l.objects.credential(name, key, value)
	}
	if l.stores, err = openStores(ctx, opts.Dir, opts.Listen, opts.Logger); err != nil {
		return nil, err
	}
	clients := &engine.Engine{
		// Whoever runs this may reach every address of the machine anyway.
		Addresses: mcp.AddressPolicy{AllowLoopback: true, AllowPrivate: true},
		Code:      codemode.NewRunner(codemode.Self(opts.Program), codemode.DefaultLimits()), Logger: opts.Logger,
	}
	l.source = &kube.Source{Reader: l.objects, Creator: l.objects, Model: clients.Model, Tools: clients.Tools, Now: time.Now}
	l.deps = agent.Deps{
		Log: &observed{Log: l.stores.log, seen: opts.Progress}, Store: l.stores.store, Now: time.Now, NewID: uuid.NewString, Sleep: options.Sleep, Logger: opts.Logger,
		Live: func(agent.Live) {}, Estimator: engine.Estimator, BuiltIn: builtin.New(time.Now),
	}
	return l, nil
}

// Close closes the stores.
func (l *Local) Close() error { return l.stores.closed() }

// Runs are the runs of the manifests in their order.
func (l *Local) Runs() []*api.AgentRun { return l.objects.runs }

// EventLog is where the event log is served; empty when it is not.
func (l *Local) EventLog() string {
	if l.opts.Listen == "" {
		return ""
	}
	return l.stores.nats.ClientURL()
}

// Objects is the folder of the object store.
func (l *Local) Objects() string { return filepath.Join(l.opts.Dir, objectsFolder) }

// Sessions are the histories of the sessions of the manifests: by namespace and name, the UID.
func (l *Local) Sessions() map[string]string {
	out := map[string]string{}
	for _, object := range l.objects.all {
		if s, ok := object.(*api.AgentSession); ok {
			out[s.Namespace+"/"+s.Name] = s.HistoryUID()
		}
	}
	return out
}

// Run executes a run to its end, or tells how one ended that was executed before. When ctx ends, the run is cancelled.
func (l *Local) Run(ctx context.Context, run *api.AgentRun) (Outcome, error) {
	owner := &api.AgentSession{}
	if err := l.objects.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: run.Spec.SessionRef.Name}, owner); err != nil {
		return Outcome{}, fmt.Errorf("run %s: there is no AgentSession %s in the manifests", run.Name, run.Spec.SessionRef.Name)
	}
	item := worker.Item{
		Namespace: run.Namespace, RunUID: string(run.UID), RunName: run.Name, SessionUID: owner.HistoryUID(), SessionName: owner.Name,
		AgentKey: kube.AgentKey(run), Kind: worker.KindRun,
	}
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { cancel(agent.ErrCancelled) })
	defer stop()
	for {
		result, stream, err := l.execute(running, item)
		switch {
		case errors.Is(err, agent.ErrWaiting):
			if err := l.waits(running, run, stream); err != nil && running.Err() == nil {
				return Outcome{}, err
			}
		case err != nil:
			var waiting *worker.NotReadyError
			if errors.As(err, &waiting) {
				return Outcome{}, fmt.Errorf("run %s cannot start: %s: %s", run.Name, waiting.Reason, waiting.Message)
			}
			return Outcome{}, fmt.Errorf("run %s: %w", run.Name, err)
		default:
			return l.ended(context.WithoutCancel(ctx), run, stream, result)
		}
	}
}

// execute loads the run and goes on with it.
func (l *Local) execute(ctx context.Context, item worker.Item) (agent.Result, runevent.Stream, error) {
	job, err := l.source.Load(context.WithoutCancel(ctx), item)
	if err != nil {
		return agent.Result{}, runevent.Stream{}, err
	}
	deps := l.deps
	deps.Model, deps.Tools, deps.Approvals, deps.Children = job.Deps.Model, job.Deps.Tools, job.Deps.Approvals, job.Deps.Children
	job.Run.Worker = "local"
	// The deadline for the start is one of queues.
	job.Run.StartBy = time.Time{}
	stream := job.Run.Stream()
	if cause := context.Cause(ctx); cause != nil && job.Ending == nil {
		job.Ending = agent.ErrCancelled
	}
	var result agent.Result
	if job.Ending != nil {
		result, err = agent.Seal(context.WithoutCancel(ctx), deps, job.Run, job.Ending)
	} else {
		result, err = agent.Execute(ctx, deps, job.Run)
	}
	return result, stream, err
}

// waits deals with what a run waits for: decisions about calls, and the runs of subagents.
func (l *Local) waits(ctx context.Context, run *api.AgentRun, stream runevent.Stream) error {
	state, err := agent.LoadState(ctx, l.stores.log, l.stores.store, stream)
	if err != nil {
		return err
	}
	for id, progress := range state.Run.Tools {
		if !progress.Waits() {
			continue
		}
		asked := progress.Approval
		arguments, err := l.arguments(ctx, stream, id)
		if err != nil {
			return err
		}
		approve, who, reason, err := l.opts.Decide(ctx, run.Name, Call{ID: id, Tool: asked.Name, Arguments: arguments})
		if err != nil {
			return err
		}
		decision := api.DecisionDeny
		if approve {
			decision = api.DecisionApprove
		}
		approval := &api.ToolApproval{Spec: api.ToolApprovalSpec{
			RunRef: api.ApprovalRunRef{Name: run.Name, UID: string(run.UID)}, ToolCallID: id, ArgumentsDigest: asked.ArgumentsDigest.String(),
			Decision: decision, Approver: who, Reason: reason,
		}}
		approval.Namespace, approval.Name = run.Namespace, run.Name+"-"+uuid.NewString()
		if err := l.objects.Create(ctx, approval); err != nil {
			return err
		}
	}
	for _, child := range l.objects.children(run) {
		if _, err := l.Run(ctx, child); err != nil {
			return err
		}
	}
	return nil
}

// arguments are the arguments of the latest call of an id.
func (l *Local) arguments(ctx context.Context, stream runevent.Stream, id string) (string, error) {
	arguments := "{}"
	err := l.stores.log.Read(ctx, stream, 0, func(record runevent.Record) error {
		entry, err := runevent.Decode(record.Raw)
		if err != nil {
			return err
		}
		event := entry.Event
		if event.Type != runevent.TypeToolCall || event.CallID != id {
			return nil
		}
		arguments = string(event.Arguments)
		if event.ArgumentsRef != nil {
			raw, err := l.stores.store.Get(ctx, cas.Scope{Namespace: stream.Namespace, Session: stream.Session}, *event.ArgumentsRef)
			arguments = string(raw)
			return err
		}
		return nil
	})
	return arguments, err
}

// ended puts the end into the run's conditions and reads the answer.
func (l *Local) ended(ctx context.Context, run *api.AgentRun, stream runevent.Stream, result agent.Result) (Outcome, error) {
	var last runevent.Event
	err := l.stores.log.Read(ctx, stream, 0, func(record runevent.Record) error {
		entry, err := runevent.Decode(record.Raw)
		if err == nil && entry.Event.Evidence.AgentRunID == string(run.UID) && entry.Event.Type == result.Event {
			last = entry.Event
		}
		return err
	})
	if err != nil {
		return Outcome{}, err
	}
	status, reason := metav1.ConditionFalse, last.Reason
	if result.Event == runevent.TypeRunFinished {
		status, reason = metav1.ConditionTrue, api.RunReasonCompleted
	}
	if reason == "" {
		reason = api.RunReasonCancelled
	}
	over := l.objects.change(run, func(kept *api.AgentRun) {
		meta.SetStatusCondition(&kept.Status.Conditions, metav1.Condition{Type: api.ConditionSucceeded, Status: status, Reason: reason, Message: last.Message})
		meta.SetStatusCondition(&kept.Status.Conditions, metav1.Condition{Type: api.ConditionFinished, Status: metav1.ConditionTrue, Reason: reason})
	})
	out := Outcome{Run: over}
	if last.Result == nil {
		return out, nil
	}
	resolver := cas.NewResolver(l.stores.store, session.MessageIn, cas.ResolverOptions{})
	raws, err := resolver.Messages(ctx, cas.Scope{Namespace: stream.Namespace, Session: stream.Session}, []cas.MessageRef{*last.Result})
	if err != nil {
		return out, fmt.Errorf("read the answer: %w", err)
	}
	answer, err := message.Decode(raws[0])
	if err != nil {
		return out, fmt.Errorf("read the answer: %w", err)
	}
	out.Answer = answer.PlainText()
	return out, nil
}

// observed is a log that shows what is stored.
type observed struct {
	runevent.Log
	seen func(runevent.Entry)
}

// Append implements runevent.Log.
func (o *observed) Append(ctx context.Context, stream runevent.Stream, expect runevent.Head, raw []byte) (runevent.Head, error) {
	head, err := o.Log.Append(ctx, stream, expect, raw)
	if err != nil || o.seen == nil {
		return head, err
	}
	if entry, bad := runevent.Decode(raw); bad == nil {
		o.seen(entry)
	}
	return head, nil
}
