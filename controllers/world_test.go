package controllers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
	"github.com/agentloop/agentloop/pkg/session"
	"github.com/agentloop/agentloop/pkg/tool"
	"github.com/agentloop/agentloop/pkg/worker"
)

// world is the reconcilers and their background parts over a fake API server and in-memory twins. It lives in a
// synctest bubble.
type world struct {
	t         *testing.T
	ctx       context.Context
	client    client.WithWatch
	log       *followedLog
	store     cas.Store
	queue     *fakeQueue
	heads     *Heads
	admission *Admission
	purger    *Purger
	health    *Health
	events    *events.FakeRecorder
	runs      *AgentRunReconciler
	sessions  *AgentSessionReconciler
	providers *ModelProviderReconciler
	approvals *ToolApprovalReconciler

	// changes are when users changed objects, by name: the fake API server does not tell.
	changes map[string]time.Time

	// conflicts is how many of the next patches meet a conflict.
	conflicts atomic.Int32

	mu     sync.Mutex
	writes []string
}

// stamped adds to what is read when it was changed.
type stamped struct {
	client.Reader
	changes map[string]time.Time
}

func (s stamped) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	err := s.Reader.Get(ctx, key, into, opts...)
	if at, ok := s.changes[key.Name]; ok {
		stamp := metav1.NewTime(at)
		into.SetManagedFields([]metav1.ManagedFieldsEntry{
			{Manager: "kubectl", Time: &stamp}, {Manager: "agentloop", Subresource: "status", Time: &metav1.Time{Time: at.Add(time.Hour)}}, {Manager: "old"},
		})
	}
	return err
}

// followedLog tells one follower of each append.
type followedLog struct {
	runevent.Log
	mu sync.Mutex
	fn func(runevent.Stream, bool)
}

func (l *followedLog) Append(ctx context.Context, stream runevent.Stream, expect runevent.Head, raw []byte) (runevent.Head, error) {
	head, err := l.Log.Append(ctx, stream, expect, raw)
	l.mu.Lock()
	fn := l.fn
	l.mu.Unlock()
	if err == nil && fn != nil {
		entry, err := runevent.Decode(raw)
		fn(stream, err == nil && entry.Event.Type.Progress())
	}
	return head, err
}

// deaf lets nobody hear of appends any more.
func (l *followedLog) deaf() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fn = nil
}

// Follow implements Changes.
func (l *followedLog) Follow(ctx context.Context, fn func(runevent.Stream, bool), _ func()) error {
	l.mu.Lock()
	l.fn = fn
	l.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// fakeQueue holds items, at most one of each run, and says who lives.
type fakeQueue struct {
	mu    sync.Mutex
	items []worker.Item
	// added counts the puts that changed something, the last one at lastAdded.
	added     int
	lastAdded time.Time
	alive     map[string]bool
	// capacity is how many runs each of them executes at once; 0 for very many.
	capacity int
	err      error
	// hang lets every call wait until its context ends; deaf lets the question who lives fail.
	hang, deaf bool
}

func (q *fakeQueue) Put(ctx context.Context, item worker.Item) (bool, error) {
	if err := q.answer(ctx); err != nil {
		return false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, held := range q.items {
		if held.RunUID == item.RunUID {
			return false, nil
		}
	}
	q.items = append(q.items, item)
	q.added++
	q.lastAdded = time.Now()
	return true, nil
}

// set changes the queue behind everybody's back.
func (q *fakeQueue) set(change func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change()
}

// count is how often a put changed something, and when the last one did.
func (q *fakeQueue) count() (added int, last time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.added, q.lastAdded
}

// answer is what the queue says to every call.
func (q *fakeQueue) answer(ctx context.Context) error {
	q.mu.Lock()
	hang, err := q.hang, q.err
	q.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (q *fakeQueue) Has(ctx context.Context, namespace, runUID string) (bool, error) {
	if err := q.answer(ctx); err != nil {
		return false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.items, func(item worker.Item) bool { return item.Namespace == namespace && item.RunUID == runUID }), nil
}

func (q *fakeQueue) Alive(ctx context.Context) (map[string]int, error) {
	if err := q.answer(ctx); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deaf {
		return nil, errors.New("nobody can tell who lives")
	}
	alive := map[string]int{}
	for id := range q.alive {
		alive[id] = cmp.Or(q.capacity, 1_000_000)
	}
	return alive, nil
}

func (q *fakeQueue) names() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var names []string
	for _, item := range q.items {
		names = append(names, item.RunName+" "+string(item.Kind))
	}
	return names
}

// take removes the item of a run, as a worker that is done with it.
func (q *fakeQueue) take(run string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := len(q.items)
	q.items = slices.DeleteFunc(q.items, func(item worker.Item) bool { return item.RunName == run })
	return len(q.items) < before
}

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

func newClient(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects...).
		WithStatusSubresource(&api.AgentRun{}, &api.AgentSession{}, &api.ModelProvider{}, &api.ToolApproval{}).
		WithIndex(&api.ToolApproval{}, indexApprovalRun, func(o client.Object) []string { return []string{o.(*api.ToolApproval).Spec.RunRef.Name} }).
		WithIndex(&api.AgentRun{}, indexRunSession, func(o client.Object) []string { return []string{o.(*api.AgentRun).Spec.SessionRef.Name} }).
		WithIndex(&api.AgentRun{}, indexRunProvider, usedProvider).
		WithIndex(&api.AgentSession{}, indexSessionHistory, func(o client.Object) []string { return []string{o.(*api.AgentSession).HistoryUID()} }).
		WithIndex(&api.AgentSession{}, indexSessionTarget, func(o client.Object) []string {
			return providersOf(o.(*api.AgentSession))
		}).
		WithInterceptorFuncs(funcs).Build()
}

// newWorld starts the background parts. log and store may be nil for in-memory twins.
func newWorld(t *testing.T, log runevent.Log, store cas.Store, objects ...client.Object) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{t: t, ctx: ctx, store: store, changes: map[string]time.Time{}, queue: &fakeQueue{alive: map[string]bool{"w1": true}}, events: events.NewFakeRecorder(100)}
	if log == nil {
		log = memlog.New()
	}
	if store == nil {
		w.store = memstore.New()
	}
	w.log = &followedLog{Log: log}
	w.client = newClient(t, w.counting(), objects...)
	quiet := slog.New(slog.DiscardHandler)
	w.heads = &Heads{Log: w.log, Store: w.store, Changes: w.log, Logger: quiet, Notify: func(runevent.Stream) {}, MinInterval: 100 * time.Millisecond}
	w.health = &Health{Log: w.log, Store: w.store, Logger: quiet, Interval: 5 * time.Second, Timeout: 5 * time.Second, Notify: func() {}}
	w.purger = &Purger{Log: w.log, Store: w.store, Logger: quiet, Retry: 5 * time.Second, Notify: func(string, string) {}}
	w.admission = &Admission{Queue: w.queue, Presence: w.queue, Logger: quiet, Resync: 30 * time.Second, Cap: func(context.Context, string) int { return 0 }}
	pruning := &Pruning{}
	w.runs = &AgentRunReconciler{Client: w.client, Heads: w.heads, Admission: w.admission, Health: w.health, Pruning: pruning, Events: w.events, Now: time.Now}
	w.sessions = &AgentSessionReconciler{Client: w.client, Direct: w.client, Heads: w.heads, Health: w.health, Purger: w.purger, Pruning: pruning, Admission: w.admission, Events: w.events, Logger: quiet, Now: time.Now}
	w.providers = &ModelProviderReconciler{Client: w.client, Direct: stamped{w.client, w.changes}, Now: time.Now}
	w.approvals = &ToolApprovalReconciler{Client: w.client, Heads: w.heads, Now: time.Now}
	var parts sync.WaitGroup
	for _, part := range []interface{ Start(context.Context) error }{w.heads, w.health, w.purger, w.admission} {
		parts.Go(func() { _ = part.Start(ctx) })
	}
	t.Cleanup(func() { cancel(); parts.Wait() })
	return w
}

// counting notes every write.
func (w *world) counting() interceptor.Funcs {
	note := func(format string, args ...any) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.writes = append(w.writes, fmt.Sprintf(format, args...))
	}
	kind := func(o client.Object) string {
		return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1alpha1."))
	}
	conflict := func(o client.Object) error {
		if w.conflicts.Add(-1) < 0 {
			w.conflicts.Store(0)
			return nil
		}
		return apierrors.NewConflict(schema.GroupResource{Group: api.GroupName, Resource: kind(o)}, o.GetName(), errors.New("somebody was faster"))
	}
	return interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			note("patch %s", kind(o))
			if err := conflict(o); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			note("patch %s/%s", kind(o), sub)
			w.bounded(o)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		Update: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.UpdateOption) error {
			w.t.Errorf("update of a %s: merge patches only", kind(o))
			return errors.New("update")
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			note("delete %s", kind(o))
			return c.Delete(ctx, o, opts...)
		},
	}
}

// bounded checks the size of a status that is about to be written.
func (w *world) bounded(o client.Object) {
	var status any
	switch o := o.(type) {
	case *api.AgentRun:
		status = o.Status
	case *api.AgentSession:
		status = o.Status
	case *api.ModelProvider:
		status = o.Status
	case *api.ToolApproval:
		status = o.Status
	}
	if raw, err := json.Marshal(status); err != nil || len(raw) > api.MaxStatusBytes || len(raw) < 10 {
		w.t.Errorf("a status of %d bytes is written (%v): %s", len(raw), err, raw)
	}
}

// taken are the writes since the last call.
func (w *world) taken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	writes := w.writes
	w.writes = nil
	return writes
}

// settle reconciles everything until nothing is written any more.
func (w *world) settle() {
	w.t.Helper()
	for range 20 {
		w.mu.Lock()
		before := len(w.writes)
		w.mu.Unlock()
		w.reconcile()
		pass(200 * time.Millisecond) // heads are read, items are put
		w.reconcile()
		w.mu.Lock()
		after := len(w.writes)
		w.mu.Unlock()
		if before == after {
			return
		}
	}
	w.t.Fatalf("the world does not come to rest: %v", w.writes)
}

// pass moves the bubble's clock and lets everything in it come to rest.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // moves the clock of the bubble, no real time
	synctest.Wait()
}

func (w *world) reconcile() {
	w.t.Helper()
	providers, sessions, runs, approvals := &api.ModelProviderList{}, &api.AgentSessionList{}, &api.AgentRunList{}, &api.ToolApprovalList{}
	for _, list := range []client.ObjectList{providers, sessions, runs, approvals} {
		if err := w.client.List(w.ctx, list); err != nil {
			w.t.Fatal(err)
		}
	}
	check := func(_ ctrl.Result, err error) {
		if err != nil {
			w.t.Errorf("reconcile: %v", err)
		}
	}
	for i := range providers.Items {
		check(w.providers.Reconcile(w.ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&providers.Items[i])}))
	}
	for i := range sessions.Items {
		check(w.sessions.Reconcile(w.ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&sessions.Items[i])}))
	}
	for i := range runs.Items {
		check(w.runs.Reconcile(w.ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&runs.Items[i])}))
	}
	for i := range approvals.Items {
		check(w.approvals.Reconcile(w.ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&approvals.Items[i])}))
	}
}

func (w *world) run(name string) *api.AgentRun {
	w.t.Helper()
	run := &api.AgentRun{}
	if err := w.client.Get(w.ctx, client.ObjectKey{Namespace: "ns", Name: name}, run); err != nil {
		w.t.Fatal(err)
	}
	return run
}

func (w *world) session(name string) *api.AgentSession {
	w.t.Helper()
	owner := &api.AgentSession{}
	if err := w.client.Get(w.ctx, client.ObjectKey{Namespace: "ns", Name: name}, owner); err != nil {
		w.t.Fatal(err)
	}
	return owner
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.ctx, o); err != nil {
		w.t.Fatal(err)
	}
}

// change edits an object as a user does, past the counters.
func (w *world) change(o client.Object, edit func()) {
	w.t.Helper()
	before, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		w.t.Fatalf("%T is no object", o)
	}
	edit()
	if err := w.client.Patch(w.ctx, o, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = w.writes[:len(w.writes)-1]
}

// work executes a run as a worker that has taken its item.
func (w *world) work(name string, model provider.Streamer, cause error) agent.Result {
	w.t.Helper()
	result := execute(w.t, w.log, w.store, execution{name: name, uid: string(w.run(name).UID), history: w.session("chat").HistoryUID(), model: model, cause: cause})
	w.queue.take(name)
	return result
}

// execution is a run for execute; cause ends it instead.
type execution struct {
	name, uid, history string
	model              provider.Streamer
	cause              error
	// change edits what the run works under; nil for no change.
	change func(*session.RunConfig)
	// tools are the run's, and approvals what people have decided; nil for none.
	tools     agent.Tools
	approvals agent.Approvals
}

// execute runs a run, with all its events.
func execute(t *testing.T, log runevent.Log, store cas.Store, e execution) agent.Result {
	t.Helper()
	deps := agent.Deps{
		Log: log, Store: store, Model: e.model, Tools: noTools{}, Approvals: e.approvals, Now: time.Now, NewID: func() string { return e.name + "-exec" },
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		Live:  func(agent.Live) {}, Logger: slog.New(slog.DiscardHandler),
	}
	if e.tools != nil {
		deps.Tools = e.tools
	}
	job := agent.Run{
		Namespace: "ns", Name: e.name, UID: e.uid, SessionUID: e.history, AgentKey: runevent.MainAgent, Operation: "Prompt", Worker: "w1",
		Prompt: message.Message{Role: message.RoleUser, Content: message.Text("hi")},
		Config: session.RunConfig{V: session.ObjectVersion, Operation: "Prompt", Agent: "main", Model: provider.Model{
			Provider: "models", API: provider.APIAnthropicMessages, ID: "demo", ContextWindow: 32000, MaxTokens: 4096, Thinking: provider.ThinkingNone,
		}},
	}
	if e.change != nil {
		e.change(&job.Config)
	}
	var result agent.Result
	var err error
	if e.cause != nil {
		result, err = agent.Seal(t.Context(), deps, job, e.cause)
	} else {
		result, err = agent.Execute(t.Context(), deps, job)
	}
	if err != nil && (e.approvals == nil || !errors.Is(err, agent.ErrWaiting)) {
		t.Fatalf("run %s: %v", e.name, err)
	}
	return result
}

// says is a model that answers with a text.
type says string

func (s says) Stream(_ context.Context, req provider.Request, _ func(provider.Delta)) (provider.Response, error) {
	if err := req.Guard([]byte(`{"max_tokens":4096}`)); err != nil {
		return provider.Response{}, &provider.Error{Class: provider.ClassRejected, Err: err}
	}
	input, output := int64(10), int64(5)
	return provider.Response{Message: message.Message{
		Role: message.RoleAssistant, StopReason: message.StopStop, Usage: &message.Usage{Input: &input, Output: &output},
		Content: message.Blocks(message.Block{Type: message.BlockText, Text: string(s)}),
	}}, nil
}

// sends is a model whose request has the given body.
type sends string

func (s sends) Stream(ctx context.Context, req provider.Request, onDelta func(provider.Delta)) (provider.Response, error) {
	guard := req.Guard
	req.Guard = func([]byte) error { return guard([]byte(s)) }
	return says("sent").Stream(ctx, req, onDelta)
}

// fails is a model that refuses every request.
type fails provider.Class

func (f fails) Stream(_ context.Context, req provider.Request, _ func(provider.Delta)) (provider.Response, error) {
	if err := req.Guard([]byte(`{"max_tokens":4096}`)); err != nil {
		return provider.Response{}, &provider.Error{Class: provider.ClassRejected, Err: err}
	}
	return provider.Response{}, &provider.Error{Class: provider.Class(f), HTTPStatus: 401, Err: errors.New("refused")}
}

type noTools struct{}

func (noTools) Connect(context.Context, *session.ToolSet) (tool.Set, error) { return noTools{}, nil }
func (noTools) Definitions() []tool.Definition                              { return nil }
func (noTools) Close() error                                                { return nil }
func (noTools) Call(context.Context, tool.Call, func(string)) (tool.Result, error) {
	return tool.Result{}, errors.New("there is no tool")
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.Now()}
}

func newRun(name string) *api.AgentRun {
	run := &api.AgentRun{ObjectMeta: named(name), Spec: api.AgentRunSpec{
		SessionRef: api.SessionRef{Name: "chat"}, Operation: api.OperationPrompt, Agent: api.AgentMain, Input: &api.RunInput{Text: "hi"},
		Limits: api.RunLimits{MaxTurns: 7, MaxAttempts: 3, ActiveDeadlineSeconds: 3600, QueueDeadlineSeconds: 600},
	}}
	run.UID, run.Generation = types.UID("uid-"+name), 1
	return run
}

func newSession() *api.AgentSession {
	keep := int32(20)
	owner := &api.AgentSession{ObjectMeta: named("chat"), Spec: api.AgentSessionSpec{
		Model:   api.SessionModel{ProviderRef: api.ProviderRef{Name: "models"}, Model: "demo"},
		History: api.HistoryPolicy{KeepRuns: &keep, OnDelete: api.DeletePolicyRetain},
	}}
	owner.UID, owner.Generation = "session-uid", 1
	return owner
}

func newProvider() *api.ModelProvider {
	target := &api.ModelProvider{ObjectMeta: named("models"), Spec: api.ModelProviderSpec{
		Protocol: api.ProtocolAnthropic, Models: []api.Model{{ID: "demo", ContextWindow: 32000, MaxOutputTokens: 4096}},
	}}
	target.UID, target.Generation = "provider-uid", 1
	return target
}
