package kubeauth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/agentloop/agentloop/pkg/trajectory/server"
)

// reviews answers token reviews: every token but "bad" is good.
type reviews struct {
	authenticationclient.TokenReviewInterface
	mu        sync.Mutex
	asked     int
	audiences []string
	err       error
	hold      chan struct{}
}

func (r *reviews) Create(ctx context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	r.mu.Lock()
	r.asked++
	err, hold := r.err, r.hold
	r.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	review.Status = authenticationv1.TokenReviewStatus{
		Authenticated: review.Spec.Token != "bad", Audiences: r.audiences,
		User: authenticationv1.UserInfo{Username: "user", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}},
	}
	return review, nil
}

// accesses answers access reviews: what is asked in the namespace "team" is allowed.
type accesses struct {
	authorizationclient.SubjectAccessReviewInterface
	asked []authorizationv1.SubjectAccessReviewSpec
	err   error
	deny  bool
}

func (a *accesses) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	a.asked = append(a.asked, review.Spec)
	if a.err != nil {
		return nil, a.err
	}
	review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: review.Spec.ResourceAttributes.Namespace == "team", Denied: a.deny}
	return review, nil
}

type gateWorld struct {
	*Gate
	reviews  *reviews
	accesses *accesses
	now      time.Time
}

func newGate(t *testing.T, opts Options) *gateWorld {
	t.Helper()
	w := &gateWorld{reviews: &reviews{}, accesses: &accesses{}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	opts.Now = func() time.Time { return w.now }
	gate, err := NewGate(&rest.Config{Host: "https://127.0.0.1:1"}, opts)
	if err != nil {
		t.Fatal(err)
	}
	gate.tokens, gate.access = w.reviews, w.accesses
	w.Gate = gate
	return w
}

// webToken is a JSON Web Token that expires at a time; nobody checks its signature.
func webToken(expiry time.Time) string {
	claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, expiry.Unix()))
	return "e30." + claims + ".c2ln"
}

func TestDecisionsAreRememberedForSeconds(t *testing.T) {
	w := newGate(t, Options{Yes: 10 * time.Second, No: 4 * time.Second})
	step := func(after time.Duration, token string, asked int) {
		t.Helper()
		w.now = w.now.Add(after)
		_, err := w.Authenticate(t.Context(), token)
		if errors.Is(err, server.ErrUnauthenticated) != (token == "bad") {
			t.Errorf("token %q: %v", token, err)
		}
		if w.reviews.asked != asked {
			t.Errorf("asked %d times, want %d", w.reviews.asked, asked)
		}
	}
	step(0, "good", 1)
	step(9*time.Second, "good", 1)
	step(2*time.Second, "good", 2)
	step(0, "other", 3)
	step(0, "bad", 4)
	step(3*time.Second, "bad", 4)
	step(2*time.Second, "bad", 5)
}

func TestATokenIsNotRememberedBeyondItsExpiry(t *testing.T) {
	w := newGate(t, Options{Yes: time.Minute})
	token := webToken(w.now.Add(5 * time.Second))
	for i, want := range []int{1, 1, 2, 3} {
		if _, err := w.Authenticate(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		if w.reviews.asked != want {
			t.Errorf("call %d: asked %d times, want %d", i, w.reviews.asked, want)
		}
		w.now = w.now.Add(4 * time.Second)
	}
}

func TestExpiryOfTokens(t *testing.T) {
	expiry := time.Unix(1800000000, 0)
	for name, c := range map[string]struct {
		token string
		known bool
	}{
		"a web token": {webToken(expiry), true}, "no web token": {"abc", false}, "no expiry": {"a.e30.c", false}, "no JSON": {"a.YWJj.c", false},
		"no base64": {"a.%%.c", false}, "an expiry of another kind": {"a." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":"x"}`)) + ".c", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, known := expiryOf(c.token)
			if known != c.known || known && !got.Equal(expiry) {
				t.Errorf("%v, %v", got, known)
			}
		})
	}
}

func TestAccessIsAskedWithAllThatCounts(t *testing.T) {
	w := newGate(t, Options{})
	user, err := w.Authenticate(t.Context(), "good")
	if err != nil {
		t.Fatal(err)
	}
	access := server.Access{Verb: "get", Subresource: "trajectory", Namespace: "team", Name: "s"}
	for range 2 {
		if allowed, err := w.Allowed(t.Context(), user, access); !allowed || err != nil {
			t.Errorf("%v, %v", allowed, err)
		}
	}
	spec := w.accesses.asked[0]
	want := authorizationv1.ResourceAttributes{
		Group: "agentloop.dev", Version: "v1alpha1", Resource: "agentsessions", Subresource: "trajectory", Verb: "get", Namespace: "team", Name: "s",
	}
	if len(w.accesses.asked) != 1 || *spec.ResourceAttributes != want || spec.User != "user" || spec.Groups[0] != "g" || spec.Extra["k"][0] != "v" {
		t.Errorf("asked %+v", w.accesses.asked)
	}
	for name, other := range map[string]struct {
		user   server.User
		access server.Access
	}{
		"another session": {user, server.Access{Verb: "get", Subresource: "trajectory", Namespace: "team", Name: "t"}},
		"the export":      {user, server.Access{Verb: "get", Subresource: "trajectoryexport", Namespace: "team", Name: "s"}},
		"another user":    {server.User{Name: "x", Groups: []string{"g"}}, access},
		"another group":   {server.User{Name: "user", Groups: []string{"h"}}, access},
	} {
		before := len(w.accesses.asked)
		if _, err := w.Allowed(t.Context(), other.user, other.access); err != nil || len(w.accesses.asked) != before+1 {
			t.Errorf("%s was answered from memory (%v)", name, err)
		}
	}
	w.accesses.deny = true
	if allowed, err := w.Allowed(t.Context(), user, server.Access{Verb: "list", Namespace: "team"}); allowed || err != nil {
		t.Errorf("denied by another authorizer: %v, %v", allowed, err)
	}
}

func TestFailuresAreNoAnswersAndNotRemembered(t *testing.T) {
	w := newGate(t, Options{})
	w.reviews.err, w.accesses.err = errors.New("away"), errors.New("away")
	if _, err := w.Authenticate(t.Context(), "good"); err == nil || errors.Is(err, server.ErrUnauthenticated) {
		t.Errorf("authenticate: %v", err)
	}
	if allowed, err := w.Allowed(t.Context(), server.User{Name: "u"}, server.Access{Namespace: "team"}); allowed || err == nil {
		t.Errorf("allowed: %v, %v", allowed, err)
	}
	w.reviews.err, w.accesses.err = nil, nil
	if _, err := w.Authenticate(t.Context(), "good"); err != nil {
		t.Errorf("authenticate after the failure: %v", err)
	}
	if allowed, err := w.Allowed(t.Context(), server.User{Name: "u"}, server.Access{Namespace: "team"}); !allowed || err != nil {
		t.Errorf("allowed after the failure: %v, %v", allowed, err)
	}
}

func TestAudiences(t *testing.T) {
	w := newGate(t, Options{Audiences: []string{"viewer"}})
	w.reviews.audiences = []string{"other"}
	if _, err := w.Authenticate(t.Context(), "one"); !errors.Is(err, server.ErrUnauthenticated) {
		t.Errorf("a token for others: %v", err)
	}
	w.reviews.audiences = []string{"other", "viewer"}
	if _, err := w.Authenticate(t.Context(), "two"); err != nil {
		t.Errorf("a token for the viewer: %v", err)
	}
}

// TestOneQuestionForAll lets many ask at once; one of them goes away.
func TestOneQuestionForAll(t *testing.T) {
	w := newGate(t, Options{})
	w.reviews.hold = make(chan struct{})
	leaving, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := w.Authenticate(leaving, "good")
		left <- err
	}()
	for asked := 0; asked == 0; {
		w.reviews.mu.Lock()
		asked = w.reviews.asked
		w.reviews.mu.Unlock()
	}
	var others sync.WaitGroup
	for range 5 {
		others.Go(func() {
			if _, err := w.Authenticate(t.Context(), "good"); err != nil {
				t.Error(err)
			}
		})
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who went away got %v", err)
	}
	close(w.reviews.hold)
	others.Wait()
	if w.reviews.asked != 1 {
		t.Errorf("asked %d times, want once for all", w.reviews.asked)
	}
}
