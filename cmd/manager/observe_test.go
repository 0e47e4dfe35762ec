package main

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	_ "sigs.k8s.io/controller-runtime/pkg/controller" // registers its metrics
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/cmd/internal/metrics"
	"github.com/agentloop/agentloop/pkg/agent"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// TestMetricsOfOthers holds what the page says of the libraries' metrics, on which alerts and the dashboard rest, to what they
// register.
func TestMetricsOfOthers(t *testing.T) {
	raw, err := os.ReadFile("../../docs/operations/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), "Of controller-runtime")
	section, _, _ = strings.Cut(section, "\n## ")
	registered := map[string]string{}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		ctrlmetrics.Registry.(prometheus.Collector).Describe(descs)
	}()
	form := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{(.*)\}\}$`)
	for desc := range descs {
		if parts := form.FindStringSubmatch(desc.String()); parts != nil {
			registered[parts[1]] = parts[2]
		}
	}
	quoted, checked := regexp.MustCompile("`([^`]+)`"), 0
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.Contains(cells[1], "`") {
			continue
		}
		var labels []string
		for _, label := range quoted.FindAllStringSubmatch(cells[3], -1) {
			labels = append(labels, label[1])
		}
		for _, name := range quoted.FindAllStringSubmatch(cells[1], -1) {
			checked++
			have, ok := registered[name[1]]
			if !ok {
				t.Errorf("%s is not registered", name[1])
			}
			for _, label := range labels {
				if !strings.Contains(","+have+",", ","+label+",") {
					t.Errorf("%s has no label %s, it has %s", name[1], label, have)
				}
			}
		}
	}
	if checked < 7 {
		t.Errorf("%d metrics of others are on the page", checked)
	}
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := api.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}

func conditions(kind, reason string, finished bool) []metav1.Condition {
	out := []metav1.Condition{{Type: kind, Reason: reason}}
	if finished {
		out = append(out, metav1.Condition{Type: api.ConditionFinished, Status: metav1.ConditionTrue})
	}
	return out
}

// TestCounts counts live runs by where they are, and sessions by why they are ready or not.
func TestCounts(t *testing.T) {
	run := func(name, reason string, finished bool) client.Object {
		r := &api.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		if reason != "" {
			r.Status.Conditions = conditions(api.ConditionSucceeded, reason, finished)
		}
		return r
	}
	owner := &api.AgentSession{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}}
	owner.Status.Conditions = conditions(api.ConditionReady, api.SessionReasonSuspended, false)
	reader := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(
		run("a", "", false), run("b", "ModelCall", false), run("c", "ModelCall", false), run("d", "Completed", true), owner,
	).Build()
	got, ok := counts(t.Context(), reader)
	want := metrics.Counts{Runs: map[string]int{"Queued": 1, "ModelCall": 2}, Sessions: map[string]int{"Suspended": 1}}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("%v (-want +got):\n%s", ok, diff)
	}
	away := interceptor.NewClient(reader, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("away")
	}})
	if _, ok := counts(t.Context(), away); ok {
		t.Error("a cache that cannot be read is counted")
	}
}

// TestStatusWritesAreMeasured by the kind of the object and by what came of it.
func TestStatusWritesAreMeasured(t *testing.T) {
	answers := []error{nil, apierrors.NewConflict(schema.GroupResource{}, "r", errors.New("older")), apierrors.NewNotFound(schema.GroupResource{}, "r"), errors.New("away")}
	run := &api.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}}
	inner := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(run).Build(), interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			next := answers[0]
			answers = answers[1:]
			return next
		},
	})
	m := metrics.New()
	measured := &measuredClient{inner, m}
	for range 4 {
		_ = measured.Status().Patch(t.Context(), run, client.MergeFrom(run.DeepCopy()))
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, family := range families {
		if family.GetName() != "agentloop_status_write_duration_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			got[metric.GetLabel()[0].GetValue()+" "+metric.GetLabel()[1].GetValue()] = metric.GetHistogram().GetSampleCount()
		}
	}
	want := map[string]uint64{"AgentRun ok": 1, "AgentRun conflict": 1, "AgentRun not_found": 1, "AgentRun error": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// told is an observer that writes down its name.
type told struct {
	name string
	out  *[]string
}

type toldKey struct{}

func (o told) note(ctx context.Context, what string) context.Context {
	seen, _ := ctx.Value(toldKey{}).(string)
	*o.out = append(*o.out, o.name+" "+what+" under "+seen)
	return context.WithValue(ctx, toldKey{}, seen+o.name)
}

func (o told) Run(ctx context.Context, _ *agent.Run) (context.Context, func(agent.Result, error)) {
	return o.note(ctx, "run"), func(agent.Result, error) { *o.out = append(*o.out, o.name+" left") }
}

func (o told) Request(ctx context.Context, _ agent.ModelRequest) (context.Context, func(agent.ModelAnswer)) {
	return o.note(ctx, "request"), func(agent.ModelAnswer) { *o.out = append(*o.out, o.name+" answered") }
}

func (o told) Tool(ctx context.Context, _ agent.ToolCall) (context.Context, func(agent.ToolAnswer)) {
	return o.note(ctx, "tool"), func(agent.ToolAnswer) { *o.out = append(*o.out, o.name+" gave") }
}

func (o told) Recorded(*agent.Run, runevent.Entry, *session.RunProgress) {
	*o.out = append(*o.out, o.name+" recorded")
}

func (o told) Compacted(*agent.Run, budget.ContextBudget, budget.ContextBudget) {
	*o.out = append(*o.out, o.name+" compacted")
}

// TestBothObservers are told of everything, and what is observed goes on in the contexts of both.
func TestBothObservers(t *testing.T) {
	var out []string
	b := both{told{"a", &out}, told{"b", &out}}
	ctx, left := b.Run(t.Context(), nil)
	_, answered := b.Request(ctx, agent.ModelRequest{})
	answered(agent.ModelAnswer{})
	_, gave := b.Tool(ctx, agent.ToolCall{})
	gave(agent.ToolAnswer{})
	b.Recorded(nil, runevent.Entry{}, nil)
	b.Compacted(nil, budget.ContextBudget{}, budget.ContextBudget{})
	left(agent.Result{}, nil)
	want := []string{
		"a run under ", "b run under a", "a request under ab", "b request under aba", "b answered", "a answered", "a tool under ab", "b tool under aba", "b gave", "a gave",
		"a recorded", "b recorded", "a compacted", "b compacted", "b left", "a left",
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// TestTracesAreOff without a receiver: nobody is told of any.
func TestTracesAreOff(t *testing.T) {
	p := &parts{metrics: metrics.New()}
	if p.traceFields() != nil || p.modelFields() != nil || p.traceParent() != nil || p.observer() != agent.Observer(p.metrics) {
		t.Error("traces are told")
	}
	p.endTraces()
}
