package controllers

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/session"
)

// The longest that names, ids and free texts can be; free texts are of what takes most bytes in JSON.
var (
	longName  = strings.Repeat("n", 253)
	longModel = strings.Repeat("m", 128)
	longText  = strings.Repeat("<€>\x01\xff ", 2000)
)

// largest is a log of a run with the largest numbers and the longest texts in everything that status shows.
func largest(f *runFacts) {
	started()(f)
	most := int64(1)<<53 - 1
	ref := cas.Ref{Digest: cas.Of([]byte("x")), Size: most}
	record := session.AssemblyRecord{HistoryMessageCount: math.MaxInt32, Budget: budget.ContextBudget{
		Provider: longName, Model: longModel, ContextWindow: most, SystemTokens: most, MessageTokens: most, ToolTokens: most, EstimatedInputTokens: most,
		ReservedOutputTokens: most, SafetyTokens: most, InputLimit: most, RemainingInputTokens: -most,
	}}
	f.run.Name, f.session.Name, f.run.Generation = longName, longName, most
	run := f.log.State.Run
	run.Worker, run.Attempt, run.Turn, run.Requests, run.ToolCalls, run.LastLimit = longText, math.MaxInt32, math.MaxInt32, math.MaxInt32, math.MaxInt32, &most
	run.Usage = session.Totals{
		Requests: math.MaxInt32, RequestsWithoutUsage: math.MaxInt32, Input: &most, Output: &most, CacheRead: &most, CacheWrite: &most, Reasoning: &most,
	}
	run.LastContext, f.log.State.StateRef, f.log.State.Head.Sequence = &ref, &ref, most
	f.log.Record, f.log.Refused, f.log.Preview = &record, &record, longText
	f.session.Spec.ResultPreview = api.PreviewOn
}

// ending lets the largest run end.
func ending(event runevent.Event) func(*runFacts) {
	return func(f *runFacts) {
		event.Message, event.Class, event.HTTPStatus = longText, longText, 599
		event.Detail, event.Result = &cas.Ref{Digest: cas.Of([]byte("d"))}, &cas.MessageRef{Digest: cas.Of([]byte("m"))}
		terminal(event)(f.log.State.Run)
	}
}

// checkBounded checks a status as it is about to be written.
func checkBounded(t *testing.T, status any, conditions []metav1.Condition) {
	t.Helper()
	raw, err := json.Marshal(status)
	if err != nil || len(raw) > api.MaxStatusBytes {
		t.Errorf("the status has %d bytes (%v): %s", len(raw), err, raw)
	}
	for _, c := range conditions {
		text, err := json.Marshal(c.Message)
		if err != nil || len(text)-2 > api.MaxMessageBytes {
			t.Errorf("condition %s has a message of %d bytes (%v)", c.Type, len(text)-2, err)
		}
		if c.Status == metav1.ConditionFalse && c.Type != api.ConditionFinished && c.Type != api.ConditionActive && c.Message == "" {
			t.Errorf("condition %s is False with reason %s and says nothing", c.Type, c.Reason)
		}
	}
}

// TestRunStatusIsBounded holds whatever a log can say to what a status may have.
func TestRunStatusIsBounded(t *testing.T) {
	longNames := func(f *runFacts) {
		f.run.Name, f.session.Name, f.run.Spec.SessionRef.Name = longName, longName, longName
		f.session.Status.Conditions[0].Reason = longName
	}
	cases := map[string]runFacts{
		"a live run":               facts(largest),
		"one that is cancelled":    facts(largest, cancelled),
		"one that has finished":    facts(largest, ending(runevent.Event{Type: runevent.TypeRunFinished})),
		"one that has failed":      facts(largest, ending(runevent.Event{Type: runevent.TypeRunFailed, Reason: api.RunReasonToolServerUnavailable})),
		"one that was refused":     facts(largest, ending(runevent.Event{Type: runevent.TypeRunFailed, Reason: api.RunReasonInvalidInput})),
		"one that waits":           facts(longNames, notReady(longName)),
		"one that waits too long":  facts(longNames, notReady(longName), overdue),
		"one that nobody executes": facts(held, longNames, overdue),
		"one with a skill that is not there": facts(longNames, func(f *runFacts) {
			f.run.Spec.Skills = []string{strings.Repeat("s", 253)}
		}),
		"one behind a run that is gone": facts(longNames, func(f *runFacts) { f.log.State.Run = &session.RunProgress{Name: longName} }),
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			var written *api.AgentRunStatus
			c := newClient(t, interceptor.Funcs{
				SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
					written = o.(*api.AgentRun).Status.DeepCopy()
					return nil
				},
			})
			r := &AgentRunReconciler{Client: c, Events: events.NewFakeRecorder(10), Now: time.Now}
			if _, err := r.report(t.Context(), f.run, f, decideRun(f)); err != nil {
				t.Fatal(err)
			}
			checkBounded(t, written, written.Conditions)
		})
	}
}

// TestSessionStatusIsBounded does the same for sessions, with each reason why one is not ready.
func TestSessionStatusIsBounded(t *testing.T) {
	most := int64(1)<<53 - 1
	large := func(f *sessionFacts) {
		g := facts(largest)
		f.log = g.log
		f.session.Name, f.session.Generation, f.viewerURL = longName, most, "https://"+strings.Repeat("v", 2000)
		f.session.Status.Title = longText
		f.session.Status.ContextBudget = &api.ContextBudget{Provider: longName, Model: longModel, ContextWindow: most, EstimatedInputTokens: most, RemainingInputTokens: -most}
		f.session.Status.Checkpoint = &api.Checkpoint{ID: cas.Of([]byte("c")).String(), Boundary: most}
		f.session.Spec.Model.ProviderRef.Name = longName
		f.provider.Name = longName
		f.runs = []api.AgentRun{runIn(longName, startedRun)}
	}
	cases := map[string]sessionFacts{
		"ready":         sessionAt(large),
		"no provider":   sessionAt(large, func(f *sessionFacts) { f.provider = nil }),
		"no such model": sessionAt(large, func(f *sessionFacts) { f.session.Spec.Model.Model = longModel }),
		"a provider with a reason": sessionAt(large, func(f *sessionFacts) {
			f.provider.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Reason: longName, Message: longText}}
		}),
		"a missing Secret":  sessionAt(large, func(f *sessionFacts) { f.missing = &verdict{api.SessionReasonSecretNotFound, longText} }),
		"a save that waits": sessionAt(large, func(f *sessionFacts) { f.storageDown, f.streamDown = true, true }),
		"a shorter history": sessionAt(large, func(f *sessionFacts) { f.session.Status.LastSequence, f.log.State.Head.Sequence = most, most-1 }),
		"a damaged history": sessionAt(large, func(f *sessionFacts) { f.log.Corrupt = true }),
		"tokens used up":    sessionAt(large, func(f *sessionFacts) { f.session.Spec.MaxTotalTokens = 1 }),
		"suspended":         sessionAt(large, func(f *sessionFacts) { f.session.Spec.Suspend = true }),
		"not purged":        sessionAt(large, purging, func(f *sessionFacts) { f.runs, f.purge.Failed = nil, math.MaxInt }),
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			var written *api.AgentSessionStatus
			c := newClient(t, interceptor.Funcs{
				SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
					written = o.(*api.AgentSession).Status.DeepCopy()
					return nil
				},
			})
			r := &AgentSessionReconciler{Client: c, Events: events.NewFakeRecorder(10), Now: time.Now}
			if err := r.report(t.Context(), f.session, decideSession(f)); err != nil {
				t.Fatal(err)
			}
			checkBounded(t, written, written.Conditions)
		})
	}
}

// TestProviderStatusIsBounded does the same for providers.
func TestProviderStatusIsBounded(t *testing.T) {
	target := newProvider()
	target.Spec.APIKeySecretRef = &api.SecretKeyRef{Name: longName, Key: longName}
	secret := &corev1.Secret{ObjectMeta: named(longName)}
	for name, objects := range map[string][]client.Object{"no Secret": {target}, "a Secret that may not be used": {target, secret}} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, interceptor.Funcs{}, objects...)
			r := &ModelProviderReconciler{Client: c, Direct: c, Now: time.Now}
			if _, err := r.Reconcile(t.Context(), requestFor(target)); err != nil {
				t.Fatal(err)
			}
			got := &api.ModelProvider{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(target), got); err != nil {
				t.Fatal(err)
			}
			checkBounded(t, got.Status, got.Status.Conditions)
		})
	}
}
