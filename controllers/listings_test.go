package controllers

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/provider"
)

// listingsWorld is listings over a provider that answers what a test wants, in a synctest bubble.
type listingsWorld struct {
	*Listings

	mu    sync.Mutex
	asked []string // by name, with the generation
	told  []string
	err   error
	hang  bool
	limit int64
}

func newListings(t *testing.T) *listingsWorld {
	t.Helper()
	w := &listingsWorld{limit: 1000}
	w.Listings = &Listings{
		Ask: w.ask, Logger: slog.New(slog.DiscardHandler), Now: time.Now, Interval: time.Hour,
		Notify: func(key client.ObjectKey) { w.set(func() { w.told = append(w.told, key.Name) }) },
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Listings.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *listingsWorld) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *listingsWorld) ask(ctx context.Context, target *api.ModelProvider) ([]provider.ModelInfo, error) {
	w.mu.Lock()
	w.asked = append(w.asked, target.Name)
	hang, err, limit := w.hang, w.err, w.limit
	w.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, &provider.Error{Class: provider.ClassCancelled, Err: ctx.Err()}
	}
	if err != nil {
		return nil, err
	}
	return []provider.ModelInfo{{ID: "demo", Listed: true, ContextWindow: &limit}}, nil
}

// times is how often providers were asked, and how often somebody was told.
func (w *listingsWorld) times() [2]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return [2]int{len(w.asked), len(w.told)}
}

// settled is what is known after the provider had time to answer.
func (w *listingsWorld) settled(target *api.ModelProvider, versions string) Listing {
	w.Get(target, versions)
	synctest.Wait()
	return w.Get(target, versions)
}

// window is the limit that a listing tells; 0 for none.
func (l Listing) window() int64 {
	if len(l.Models) == 0 {
		return 0
	}
	return *l.Models[0].ContextWindow
}

// TestListings asks a provider once, and again when it or its credential was changed, or after an hour.
func TestListings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, target := newListings(t), newProvider()
		if got := w.Get(target, "1"); got.Known {
			t.Errorf("before an answer: %+v", got)
		}
		for range 3 {
			if got := w.settled(target, "1"); !got.Known || got.Err != nil || got.window() != 1000 {
				t.Errorf("listing %+v", got)
			}
		}
		w.set(func() { w.limit = 2000 })
		steps := []struct {
			name   string
			change func()
			want   int64
			asked  int
		}{
			{"within the hour", func() { pass(59 * time.Minute) }, 1000, 1},
			{"after it", func() { pass(8 * time.Minute) }, 2000, 2},
			{"another generation", func() { target.Generation++ }, 2000, 3},
			{"another object", func() { target.UID = "again" }, 2000, 4},
			{"forgotten", func() { w.Forget(client.ObjectKeyFromObject(target)) }, 2000, 5},
		}
		for _, s := range steps {
			s.change()
			if got := w.settled(target, "1"); got.window() != s.want || w.times() != [2]int{s.asked, s.asked} {
				t.Errorf("%s: %d, asked and told %v", s.name, got.window(), w.times())
			}
		}
		if w.settled(target, "2"); w.times() != [2]int{6, 6} {
			t.Errorf("another Secret: asked and told %v", w.times())
		}
	})
}

// TestListingsThatFail are asked for again, later each time, and do not undo what was told.
func TestListingsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, target := newListings(t), newProvider()
		away := &provider.Error{Class: provider.ClassTransient, Code: "connect"}
		w.set(func() { w.err = away })
		var waits []int
		for begin, asked := time.Now(), 0; len(waits) < 9; pass(time.Minute) {
			if got := w.settled(target, ""); !got.Known || !errors.Is(got.Err, away) {
				t.Fatalf("listing %+v", got)
			}
			if n := w.times()[0]; n > asked {
				asked = n
				waits = append(waits, int(time.Since(begin).Minutes()))
				begin = time.Now()
			}
		}
		// Jitter adds up to a tenth, and a look happens once a minute.
		for i, least := range []int{0, 1, 2, 4, 8, 16, 32, 60, 60} {
			if waits[i] < least || waits[i] > least+least/10+1 {
				t.Errorf("wait %d took %d minutes, want about %d (%v)", i, waits[i], least, waits)
			}
		}
		w.set(func() { w.err = nil })
		pass(67 * time.Minute)
		if got := w.settled(target, ""); got.window() != 1000 || got.Err != nil {
			t.Errorf("afterwards: %+v", got)
		}
		w.set(func() { w.err = away })
		pass(67 * time.Minute)
		before := w.times()[0]
		if got := w.settled(target, ""); got.window() != 1000 || got.Err != nil || w.times()[0] != before+1 {
			t.Errorf("a failure after an answer: %+v", got)
		}
		if w.settled(target, ""); w.times()[0] != before+1 {
			t.Error("asked again at once")
		}
		pass(2 * time.Minute)
		if w.settled(target, ""); w.times()[0] != before+2 {
			t.Error("not asked again soon after the first failure in a row")
		}
	})
}

// TestListingsOfSilentProviders are given up in time, while others are answered.
func TestListingsOfSilentProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newListings(t)
		w.set(func() { w.hang = true })
		silent := newProvider()
		silent.Name = "silent"
		w.settled(silent, "")
		w.set(func() { w.hang = false })
		if got := w.settled(newProvider(), ""); got.window() != 1000 {
			t.Errorf("another provider: %+v", got)
		}
		if got := w.Get(silent, ""); got.Known {
			t.Errorf("the silent one, at once: %+v", got)
		}
		pass(listingTimeout)
		if got := w.settled(silent, ""); !got.Known || !errors.Is(got.Err, context.DeadlineExceeded) {
			t.Errorf("the silent one: %+v", got)
		}
	})
}

// TestListingsOfMany asks each of many providers that are seen at once, in the end.
func TestListingsOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newListings(t)
		w.set(func() { w.hang = true })
		targets := make([]*api.ModelProvider, maxListings+100)
		for i := range targets {
			targets[i] = newProvider()
			targets[i].Name = "models-" + strings.Repeat("x", i%7) + time.Duration(i).String()
			w.Get(targets[i], "")
		}
		synctest.Wait()
		w.set(func() { w.hang = false })
		pass(listingTimeout)
		synctest.Wait()
		for _, target := range targets {
			w.Get(target, "")
		}
		synctest.Wait()
		for _, target := range targets {
			if got := w.Get(target, ""); !got.Known {
				t.Fatalf("provider %s was not asked", target.Name)
			}
		}
		if len(w.asked) != len(targets) {
			t.Errorf("%d questions to %d providers", len(w.asked), len(targets))
		}
	})
}

// TestListingsAskForTheNewest drops the answer of a question that was put before a change.
func TestListingsAskForTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, target := newListings(t), newProvider()
		w.set(func() { w.hang = true })
		w.settled(target, "")
		w.set(func() { w.hang = false })
		target.Generation++
		if got := w.settled(target, ""); got.window() != 1000 {
			t.Errorf("listing %+v", got)
		}
		pass(2 * listingTimeout)
		if got := w.settled(target, ""); got.window() != 1000 || got.Err != nil {
			t.Errorf("after the older question was given up: %+v", got)
		}
	})
}

// TestProviderReportsItsListing writes what the comparison came to, and neither waits nor fails for it.
func TestProviderReportsItsListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, target := newListings(t), newProvider()
		target.Spec.Models = target.Spec.Models[:1]
		w.limit = target.Spec.Models[0].ContextWindow
		c := newClient(t, interceptor.Funcs{}, target)
		r := &ModelProviderReconciler{Client: c, Direct: c, Now: time.Now, Listings: w.Listings}
		look := func() string {
			t.Helper()
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(target)}); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(target), target); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			var out []string
			for _, condition := range target.Status.Conditions {
				out = append(out, condition.Type+"="+condition.Reason)
			}
			return strings.Join(out, " ")
		}
		change := func(f func(spec *api.ModelProviderSpec)) {
			t.Helper()
			f(&target.Spec)
			target.Generation++ // the fake API server counts none
			if err := c.Update(t.Context(), target); err != nil {
				t.Fatal(err)
			}
		}
		steps := []struct {
			name, want string
			change     func()
		}{
			{"at first", "Ready=Ready ModelsVerified=NotChecked", func() {}},
			{"after the answer", "Ready=Ready ModelsVerified=Matches", synctest.Wait},
			{"another window", "Ready=Ready ModelsVerified=NotChecked", func() {
				change(func(spec *api.ModelProviderSpec) { spec.Models[0].ContextWindow *= 2 })
			}},
			{"it differs", "Ready=Ready ModelsVerified=LimitsDiffer", synctest.Wait},
			{"not Ready", "Ready=SecretNotFound ModelsVerified=NotChecked", func() {
				change(func(spec *api.ModelProviderSpec) {
					spec.APIKeySecretRef = &api.SecretKeyRef{Name: "absent", Key: "key"}
				})
			}},
			{"switched off", "Ready=SecretNotFound", func() { r.Listings = nil }},
		}
		for _, s := range steps {
			s.change()
			if got := look(); got != s.want {
				t.Errorf("%s: %s, want %s", s.name, got, s.want)
			}
		}
		if w.times() != [2]int{2, 2} {
			t.Errorf("asked and told %v", w.times())
		}
		r.Listings = w.Listings
		if err := c.Delete(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		if look(); len(w.entries) != 0 {
			t.Errorf("a deleted provider is kept: %v", w.entries)
		}
	})
}

func n(v int64) *int64 { return &v }

// TestVerifyModels compares declared models with told ones, and says what to do.
func TestVerifyModels(t *testing.T) {
	long := strings.Repeat("a", 128)
	model := func(id string, window, output int64) api.Model {
		return api.Model{ID: id, ContextWindow: window, MaxOutputTokens: output}
	}
	two := []api.Model{model("small", 1000, 100), model("large", 2000, 200)}
	both := func(infos ...provider.ModelInfo) Listing { return Listing{Known: true, Models: infos} }
	small := provider.ModelInfo{ID: "small", Listed: true, ContextWindow: n(1000), MaxTokens: n(100)}
	large := provider.ModelInfo{ID: "large", Listed: true, ContextWindow: n(2000), MaxTokens: n(200)}
	failed := func(f provider.Error) Listing { return Listing{Known: true, Err: &f} }
	const no = "Unknown ListingUnavailable: the provider's model listing cannot be read (%): it is tried again"
	unreadable := func(what string) string { return strings.Replace(no, "%", what, 1) }
	cases := map[string]struct {
		models  []api.Model
		listing Listing
		want    string
	}{
		"nothing is known yet": {two, Listing{}, "Unknown NotChecked: the provider was not asked for its models yet"},
		"all is the same":      {two, both(small, large), "True Matches: "},
		"the order is another": {two, both(large, small), "True Matches: "},
		"of one, one limit is told": {
			two, both(small, provider.ModelInfo{ID: "large", Listed: true, MaxTokens: n(200)}), "True Matches: ",
		},
		"of one nothing is told": {
			two, both(small, provider.ModelInfo{ID: "large", Listed: true}), "True Matches: the provider tells limits of 1 of 2 models",
		},
		"nothing is told": {
			two, both(provider.ModelInfo{ID: "small", Listed: true}, provider.ModelInfo{ID: "large", Listed: true}),
			"Unknown LimitsNotTold: the provider tells no limits: compare spec.models with its documentation",
		},
		"one is not listed": {two, both(small, provider.ModelInfo{ID: "large"}), "False ModelNotListed: the provider knows no model large: correct its id in spec.models"},
		"none is listed":    {two, both(), "False ModelNotListed: the provider knows no model small: correct its id in spec.models (and 1 more)"},
		"a window is too large": {
			two, both(small, provider.ModelInfo{ID: "large", Listed: true, ContextWindow: n(1999), MaxTokens: n(200)}),
			"False LimitsDiffer: the provider tells of large: contextWindow 1999 (declared 2000): correct spec.models",
		},
		"a maximum is too large": {
			two, both(small, provider.ModelInfo{ID: "large", Listed: true, ContextWindow: n(4000), MaxTokens: n(199)}),
			"False LimitsDiffer: the provider tells of large: contextWindow 4000 (declared 2000), maxOutputTokens 199 (declared 200): correct spec.models",
		},
		"less is declared than told": {
			two, both(small, provider.ModelInfo{ID: "large", Listed: true, ContextWindow: n(4000)}),
			"False LimitsDiffer: the provider tells of large: contextWindow 4000 (declared 2000): raise it, or leave it to use less",
		},
		"several differ, one is not listed": {
			append(slices.Clone(two), model("gone", 5, 5)),
			both(provider.ModelInfo{ID: "small", Listed: true, MaxTokens: n(99)}, provider.ModelInfo{ID: "large", Listed: true, MaxTokens: n(99)}),
			"False LimitsDiffer: the provider tells of small: maxOutputTokens 99 (declared 100): correct spec.models (and 1 more)",
		},
		"a long name and large numbers": {
			[]api.Model{model(long, 1<<53-1, 1<<53-2)},
			both(provider.ModelInfo{ID: long, Listed: true, ContextWindow: n(1<<53 - 3), MaxTokens: n(1<<53 - 4)}),
			"False LimitsDiffer: the provider tells of " + long[:61] + "…: contextWindow 9007199254740989 (declared 9007199254740991), maxOutputTokens 9007199254740988 (declared 9007199254740990): correct spec.models",
		},
		"no listing": {
			two, failed(provider.Error{Class: provider.ClassTransient, HTTPStatus: 200, Err: provider.ErrNoListing}),
			"Unknown ListingUnsupported: the provider has no model listing: compare spec.models with its documentation",
		},
		"a credential without the right": {
			two, failed(provider.Error{Class: provider.ClassAuth, HTTPStatus: 403}),
			"Unknown ListingRefused: the provider shows this credential no models (HTTP 403): let it read them, or compare spec.models with the documentation",
		},
		"no connection":           {two, failed(provider.Error{Class: provider.ClassTransient, Code: "dns"}), unreadable("dns")},
		"a fault":                 {two, failed(provider.Error{Class: provider.ClassTransient, HTTPStatus: 502, Code: "x"}), unreadable("HTTP 502")},
		"an odd answer":           {two, failed(provider.Error{Class: provider.ClassTransient, HTTPStatus: 200, Code: "response_too_large"}), unreadable("response_too_large")},
		"silence":                 {two, failed(provider.Error{Class: provider.ClassCancelled, HTTPStatus: 200}), unreadable("no answer in time")},
		"a failure without words": {two, failed(provider.Error{Class: provider.ClassTransient}), unreadable("transient")},
		"its Secret is gone": {
			two, Listing{Known: true, Err: errors.New("get model-key: not found")},
			"Unknown ListingUnavailable: the provider could not be asked for its models: it is tried again",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := verifyModels(tc.models, tc.listing)
			if diff := cmp.Diff(tc.want, string(got.status)+" "+got.reason+": "+got.message); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
			if got.status == metav1.ConditionFalse && got.message == "" || len(got.message) > api.MaxMessageBytes {
				t.Errorf("message of %d bytes: %q", len(got.message), got.message)
			}
		})
	}
}
