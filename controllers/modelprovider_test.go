package controllers

import (
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/provider"
)

// providerAt are the facts of a provider in order, whose Secret was changed last at born.
func providerAt(change ...func(*providerFacts)) providerFacts {
	f := providerFacts{target: newProvider(), changed: born}
	f.target.Spec.APIKeySecretRef = &api.SecretKeyRef{Name: "model-key", Key: "key"}
	for _, c := range change {
		c(&f)
	}
	return f
}

// lastRun is the run that tells about the credential: it began and ended so long after the latest change.
func lastRun(reason string, begun time.Duration) func(*providerFacts) {
	return func(f *providerFacts) {
		run := newRun("last")
		started, ended := metav1.NewTime(born.Add(begun)), metav1.NewTime(born.Add(begun+time.Second))
		run.Status.StartTime, run.Status.CompletionTime = &started, &ended
		run.Status.Conditions = []metav1.Condition{{Type: api.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: reason}}
		f.latest = run
	}
}

// TestProviderProblem finds what is wrong with a provider and says what to do.
func TestProviderProblem(t *testing.T) {
	refused := "AuthFailed: the provider refused the credential in Secret model-key: replace it there; any change of the Secret or of spec lets runs try again"
	bundle := func(pem string) func(*providerFacts) {
		return func(f *providerFacts) {
			f.target.Spec.CABundle, f.caBundle = &api.ConfigMapKeyRef{Name: "ca", Key: "pem"}, []byte(pem)
		}
	}
	cases := map[string]struct {
		facts providerFacts
		want  string
	}{
		"all in order": {providerAt(), ""},
		"a missing Secret": {providerAt(func(f *providerFacts) {
			f.missing = &verdict{api.ProviderReasonSecretNotFound, "Secret a does not exist: create it"}
		}), "SecretNotFound: Secret a does not exist: create it"},
		"a URL without a host":         {providerAt(func(f *providerFacts) { f.target.Spec.BaseURL = "https:///v1" }), "InvalidEndpoint: spec.baseURL is no URL with a host and without user information: correct it"},
		"a URL with a password":        {providerAt(func(f *providerFacts) { f.target.Spec.BaseURL = "https://a:b@example.org" }), "InvalidEndpoint: spec.baseURL is no URL with a host and without user information: correct it"},
		"a bundle without certificate": {providerAt(bundle("no certificate")), "InvalidEndpoint: ConfigMap ca holds no PEM certificate in key pem: correct it"},
		"a bundle with a broken one":   {providerAt(bundle(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})))), "InvalidEndpoint: ConfigMap ca holds no PEM certificate in key pem: correct it"},
		"sampling that is no JSON": {providerAt(func(f *providerFacts) {
			f.target.Spec.Models[0].Sampling = &api.Sampling{Extra: []api.SamplingField{{Name: "x", Value: "-"}}}
		}), "InvalidSampling: model demo: sampling field x: the value is not JSON: correct spec.models"},
		"a maximum below the protocol's least cap": {providerAt(func(f *providerFacts) {
			f.target.Spec.Protocol, f.target.Spec.Models[0].MaxOutputTokens = api.ProtocolOpenAIResponses, 8
		}), "InvalidCapacity: model demo: "},
		"a cap in sampling above the maximum": {providerAt(func(f *providerFacts) {
			f.target.Spec.Protocol = api.ProtocolOpenAIChat
			f.target.Spec.Models[0].Sampling = &api.Sampling{Extra: []api.SamplingField{{Name: "max_tokens", Value: "5000"}}}
		}), "InvalidCapacity: model demo: "},
		"the credential was refused": {
			providerAt(lastRun(api.RunReasonProviderAuthFailed, time.Minute)), refused,
		},
		"it was refused in the second in which it was made": {providerAt(lastRun(api.RunReasonProviderAuthFailed, 0)), refused},
		"it was changed since":                              {providerAt(lastRun(api.RunReasonProviderAuthFailed, -time.Second)), ""},
		"the provider answered":                             {providerAt(lastRun(api.RunReasonMaxTurnsExceeded, time.Minute)), ""},
		"a provider that wants a credential, and has none": {
			providerAt(lastRun(api.RunReasonProviderAuthFailed, time.Minute), func(f *providerFacts) { f.target.Spec.APIKeySecretRef = nil }),
			"AuthFailed: the provider asks for a credential: name its Secret in spec.apiKeySecretRef",
		},
		"a missing Secret goes before a refusal": {providerAt(lastRun(api.RunReasonProviderAuthFailed, time.Minute), func(f *providerFacts) {
			f.missing = &verdict{api.ProviderReasonSecretNotFound, "m"}
		}), "SecretNotFound: m"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if problem := tc.facts.problem(); problem != nil {
				got = problem.reason + ": " + problem.message
			}
			if got != tc.want && (tc.want == "" || !strings.HasPrefix(got, tc.want)) {
				t.Errorf("problem %q, want %q", got, tc.want)
			}
			if strings.HasSuffix(tc.want, ": ") && !strings.HasSuffix(got, ": correct spec.models") {
				t.Errorf("problem %q does not say what to do", got)
			}
			if len(got) > api.MaxMessageBytes {
				t.Errorf("%d bytes, of which no more than %d are shown", len(got), api.MaxMessageBytes)
			}
		})
	}
}

// TestRunsThatTell picks the run by which a provider is judged.
func TestRunsThatTell(t *testing.T) {
	run := func(name, reason string, ended time.Duration, change ...func(*api.AgentRun)) api.AgentRun {
		started, at := metav1.NewTime(born), metav1.NewTime(born.Add(ended))
		r := newRun(name)
		r.Status = api.AgentRunStatus{StartTime: &started, CompletionTime: &at, ContextBudget: &api.ContextBudget{Provider: "models"}}
		status := metav1.ConditionFalse
		if reason == api.RunReasonCompleted {
			status = metav1.ConditionTrue
		}
		r.Status.Conditions = []metav1.Condition{
			{Type: api.ConditionSucceeded, Status: status, Reason: reason}, {Type: api.ConditionFinished, Status: metav1.ConditionTrue, Reason: reason},
		}
		for _, c := range change {
			c(r)
		}
		return *r
	}
	answered := func(r *api.AgentRun) { n := int64(5); r.Status.Usage = &api.TokenUsage{Input: &n} }
	live := func(r *api.AgentRun) { r.Status.Conditions, r.Status.CompletionTime = nil, nil }
	cases := map[string]struct {
		runs []api.AgentRun
		want string
	}{
		"none":                             {},
		"the one that ended last":          {runs: []api.AgentRun{run("a", "ProviderAuthFailed", 2), run("b", "Completed", time.Second), run("c", "ProviderAuthFailed", 0)}, want: "b"},
		"not one that is live":             {runs: []api.AgentRun{run("a", "ProviderAuthFailed", 0), run("b", "Completed", time.Hour, live)}, want: "a"},
		"not one that asked nobody":        {runs: []api.AgentRun{run("a", "ProviderAuthFailed", 0), run("b", "ContextBudgetExceeded", time.Hour)}, want: "a"},
		"one that was answered and failed": {runs: []api.AgentRun{run("a", "ProviderAuthFailed", 0), run("b", "MaxTurnsExceeded", time.Hour, answered)}, want: "b"},
		"one that was refused in the end":  {runs: []api.AgentRun{run("a", "Completed", 0), run("b", "ProviderAuthFailed", time.Hour, answered)}, want: "b"},
		"of one second, the answered one":  {runs: []api.AgentRun{run("a", "Completed", 0), run("b", "ProviderAuthFailed", 0)}, want: "a"},
		"of one second, in another order":  {runs: []api.AgentRun{run("b", "ProviderAuthFailed", 0), run("a", "Completed", 0)}, want: "a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var telling []api.AgentRun
			for i := range tc.runs {
				if len(usedProvider(&tc.runs[i])) > 0 {
					telling = append(telling, tc.runs[i])
				}
			}
			got := ""
			if latest := latestOf(telling); latest != nil {
				got = latest.Name
			}
			if got != tc.want {
				t.Errorf("run %q, want %q", got, tc.want)
			}
		})
	}
}

func (w *world) secret(value string) {
	w.t.Helper()
	object := &corev1.Secret{ObjectMeta: named("model-key"), Data: map[string][]byte{"key": []byte(value)}}
	object.Labels = map[string]string{api.LabelCredential: api.ValueTrue}
	if err := w.client.Create(w.ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
	w.changes["model-key"] = time.Now()
}

func (w *world) ready(o client.Object, conditions func() []metav1.Condition) string {
	w.t.Helper()
	if err := w.client.Get(w.ctx, client.ObjectKeyFromObject(o), o); err != nil {
		w.t.Fatal(err)
	}
	for _, c := range conditions() {
		if c.Type == api.ConditionReady {
			return c.Reason
		}
	}
	return ""
}

// TestRefusedCredential holds runs back after the provider refused the credential, until somebody changes it.
func TestRefusedCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := newProvider()
		target.Spec.APIKeySecretRef = &api.SecretKeyRef{Name: "model-key", Key: "key"}
		w := newWorld(t, nil, nil, target, newSession())
		ready := func() string {
			w.settle()
			p, s := &api.ModelProvider{ObjectMeta: named("models")}, &api.AgentSession{ObjectMeta: named("chat")}
			return w.ready(p, func() []metav1.Condition { return p.Status.Conditions }) + ", " + w.ready(s, func() []metav1.Condition { return s.Status.Conditions })
		}
		if got := ready(); got != "SecretNotFound, ProviderNotReady" {
			t.Errorf("without a Secret: %s", got)
		}
		w.secret("wrong")
		pass(referenceInterval)
		if got := ready(); got != "Ready, Ready" {
			t.Errorf("with a Secret: %s", got)
		}
		w.create(newRun("first"))
		w.settle()
		w.work("first", fails(provider.ClassAuth), nil)
		w.create(newRun("second"))
		if got := ready(); got != "AuthFailed, ProviderNotReady" {
			t.Errorf("after a refusal: %s", got)
		}
		pass(progressInterval)
		w.settle()
		w.taken()
		pass(5 * time.Minute)
		if got := ready(); got != "AuthFailed, ProviderNotReady" || len(w.queue.names()) != 0 {
			t.Errorf("after a while: %s, queue %v", got, w.queue.names())
		}
		if writes := w.taken(); len(writes) != 0 {
			t.Errorf("writes without news: %v", writes)
		}
		w.secret("right")
		if got := ready(); got != "Ready, Ready" || len(w.queue.names()) != 1 {
			t.Errorf("after the Secret was changed: %s, queue %v", got, w.queue.names())
		}
		pass(time.Minute)
		w.work("second", fails(provider.ClassAuth), nil) // the new one is wrong, too
		if got := ready(); got != "AuthFailed, ProviderNotReady" {
			t.Errorf("after another refusal: %s", got)
		}
		pass(time.Minute)
		w.changes["models"] = time.Now() // the provider's spec names another endpoint
		if got := ready(); got != "Ready, Ready" {
			t.Errorf("after the spec was changed: %s", got)
		}
	})
}

// TestAnswerClearsARefusal takes a credential for good again when a run that was under way is answered after all.
func TestAnswerClearsARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil, newProvider(), newSession())
		w.create(newRun("first"))
		w.settle()
		w.work("first", fails(provider.ClassAuth), nil)
		w.settle()
		p := &api.ModelProvider{ObjectMeta: named("models")}
		ready := func() string { return w.ready(p, func() []metav1.Condition { return p.Status.Conditions }) }
		if got := ready(); got != "AuthFailed" {
			t.Fatalf("after a refusal: %s", got)
		}
		pass(time.Minute)
		w.create(newRun("second")) // one that had begun before
		w.work("second", says("hello"), nil)
		w.settle()
		w.settle()
		if got := ready(); got != "Ready" {
			t.Errorf("after an answer: %s", got)
		}
	})
}

// TestRefusalOfAnotherProvider blames no provider for a refusal that may be that of the one that writes summaries.
func TestRefusalOfAnotherProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner, other := newSession(), newProvider()
		other.Name = "cheap"
		owner.Spec.Compaction.Model = &api.ModelRef{ProviderRef: api.ProviderRef{Name: "cheap"}, Model: "demo"}
		w := newWorld(t, nil, nil, newProvider(), other, owner)
		w.create(newRun("first"))
		w.settle()
		w.work("first", fails(provider.ClassAuth), nil)
		w.settle()
		for _, name := range []string{"models", "cheap"} {
			p := &api.ModelProvider{ObjectMeta: named(name)}
			if got := w.ready(p, func() []metav1.Condition { return p.Status.Conditions }); got != "Ready" {
				t.Errorf("provider %s: %s", name, got)
			}
		}
	})
}

// TestProviderReconcileErrors tries again what failed, and leaves a conflict to the object's next event.
func TestProviderReconcileErrors(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "modelproviders"}, "models", errors.New("behind"))
	cases := map[string]struct {
		err   error
		fails bool
		after time.Duration
	}{
		"a conflict":       {err: conflict},
		"gone meanwhile":   {err: apierrors.NewNotFound(schema.GroupResource{Resource: "modelproviders"}, "models"), after: 10 * referenceInterval},
		"a server's fault": {err: errors.New("away"), fails: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, failing(tc.err), newProvider())
			r := &ModelProviderReconciler{Client: c, Direct: c, Now: time.Now}
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "models"}})
			if (err != nil) != tc.fails || result.RequeueAfter != tc.after {
				t.Errorf("result %+v, error %v", result, err)
			}
		})
	}
}
