package kubeauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	api "github.com/agentloop/agentloop/api/v1alpha1"
	"github.com/agentloop/agentloop/pkg/trajectory/server"
)

// Options tune a Gate. Zero values mean the defaults.
type Options struct {
	// Audiences are those of which a token must have one; empty means the API server's own.
	Audiences []string
	// Yes and No are how long a positive and a negative decision is remembered.
	Yes, No time.Duration
	// Timeout bounds one question to the API server.
	Timeout time.Duration
	Now     func() time.Time
}

const (
	defaultYes     = 15 * time.Second
	defaultNo      = 5 * time.Second
	defaultTimeout = 10 * time.Second
	// remembered is how many decisions of each kind are kept.
	remembered = 4096
)

// Gate implements server.Gate. Safe for concurrent use.
type Gate struct {
	opts    Options
	tokens  authenticationclient.TokenReviewInterface
	access  authorizationclient.SubjectAccessReviewInterface
	users   *cache.LRUExpireCache
	allowed *cache.LRUExpireCache
	flights singleflight.Group
}

var _ server.Gate = (*Gate)(nil)

// NewGate returns a gate that asks the API server of config. Its account needs to create tokenreviews and
// subjectaccessreviews.
func NewGate(config *rest.Config, opts Options) (*Gate, error) {
	tokens, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("token reviews: %w", err)
	}
	access, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("subject access reviews: %w", err)
	}
	if opts.Yes == 0 {
		opts.Yes = defaultYes
	}
	if opts.No == 0 {
		opts.No = defaultNo
	}
	if opts.Timeout == 0 {
		opts.Timeout = defaultTimeout
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	clock := clock{opts.Now}
	return &Gate{
		opts: opts, tokens: tokens.TokenReviews(), access: access.SubjectAccessReviews(),
		users: cache.NewLRUExpireCacheWithClock(remembered, clock), allowed: cache.NewLRUExpireCacheWithClock(remembered, clock),
	}, nil
}

type clock struct{ now func() time.Time }

// Now implements cache.Clock.
func (c clock) Now() time.Time { return c.now() }

// verdict is who a token belongs to; good is false when it is not valid.
type verdict struct {
	user server.User
	good bool
}

// Authenticate implements server.Gate. The token itself is not kept, only its digest.
func (g *Gate) Authenticate(ctx context.Context, token string) (server.User, error) {
	sum := sha256.Sum256([]byte(token))
	key := string(sum[:])
	if known, ok := recall[verdict](g.users, key); ok {
		return known.result()
	}
	got, err := once(ctx, g, "t"+key, func(ctx context.Context) (verdict, error) {
		v, err := g.review(ctx, token)
		if err != nil {
			return verdict{}, err
		}
		if ttl := g.lifetime(v, token); ttl > 0 {
			g.users.Add(key, v, ttl)
		}
		return v, nil
	})
	if err != nil {
		return server.User{}, err
	}
	return got.result()
}

func (v verdict) result() (server.User, error) {
	if !v.good {
		return server.User{}, server.ErrUnauthenticated
	}
	return v.user, nil
}

func (g *Gate) review(ctx context.Context, token string) (verdict, error) {
	answer, err := g.tokens.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: g.opts.Audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		return verdict{}, fmt.Errorf("review a token: %w", err)
	}
	status := answer.Status
	if !status.Authenticated || (len(g.opts.Audiences) > 0 && !overlap(status.Audiences, g.opts.Audiences)) {
		return verdict{}, nil
	}
	user := server.User{Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups}
	if len(status.User.Extra) > 0 {
		user.Extra = make(map[string][]string, len(status.User.Extra))
		for name, values := range status.User.Extra {
			user.Extra[name] = values
		}
	}
	return verdict{user: user, good: true}, nil
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// lifetime is how long a verdict is remembered: seconds, and never longer than the token is valid. The expiry is read
// without checking the signature, because the API server has: it can only make the time shorter.
func (g *Gate) lifetime(v verdict, token string) time.Duration {
	if !v.good {
		return g.opts.No
	}
	ttl := g.opts.Yes
	if expiry, ok := expiryOf(token); ok {
		ttl = min(ttl, expiry.Sub(g.opts.Now()))
	}
	return ttl
}

// expiryOf reads the expiry out of a JSON Web Token; false for a token of another kind.
func expiryOf(token string) (time.Time, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, false
	}
	var claims struct {
		Expiry float64 `json:"exp"`
	}
	if json.Unmarshal(raw, &claims) != nil || claims.Expiry <= 0 {
		return time.Time{}, false
	}
	return time.Unix(int64(claims.Expiry), 0), true
}

// Allowed implements server.Gate.
func (g *Gate) Allowed(ctx context.Context, user server.User, access server.Access) (bool, error) {
	key, err := keyOf(user, access)
	if err != nil {
		return false, err
	}
	if known, ok := recall[bool](g.allowed, key); ok {
		return known, nil
	}
	return once(ctx, g, "a"+key, func(ctx context.Context) (bool, error) {
		allowed, err := g.ask(ctx, user, access)
		if err != nil {
			return false, err
		}
		ttl := g.opts.No
		if allowed {
			ttl = g.opts.Yes
		}
		g.allowed.Add(key, allowed, ttl)
		return allowed, nil
	})
}

// keyOf is a digest of everything that the decision depends on.
func keyOf(user server.User, access server.Access) (string, error) {
	raw, err := json.Marshal(struct {
		User   server.User
		Access server.Access
	}{user, access})
	if err != nil {
		return "", fmt.Errorf("encode an access: %w", err)
	}
	sum := sha256.Sum256(raw)
	return string(sum[:]), nil
}

func (g *Gate) ask(ctx context.Context, user server.User, access server.Access) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Name, UID: user.UID, Groups: user.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: api.GroupVersion.Group, Version: api.GroupVersion.Version, Resource: server.Resource,
			Verb: access.Verb, Subresource: access.Subresource, Namespace: access.Namespace, Name: access.Name,
		},
	}
	if len(user.Extra) > 0 {
		spec.Extra = make(map[string]authorizationv1.ExtraValue, len(user.Extra))
		for name, values := range user.Extra {
			spec.Extra[name] = values
		}
	}
	answer, err := g.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review an access: %w", err)
	}
	return answer.Status.Allowed && !answer.Status.Denied, nil
}

// recall returns the answer that is remembered under a key. One of another type counts as none.
func recall[T any](from *cache.LRUExpireCache, key string) (T, bool) {
	known, _ := from.Get(key)
	answer, ok := known.(T)
	return answer, ok
}

// once asks a question once for all who ask it at the same time. One who goes away does not take the answer with them.
// The first letter of the key says which question it is, and so of which type the answer.
func once[T any](ctx context.Context, g *Gate, key string, ask func(context.Context) (T, error)) (T, error) {
	done := g.flights.DoChan(key, func() (any, error) {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opts.Timeout)
		defer cancel()
		return ask(asking)
	})
	select {
	case result := <-done:
		answer, _ := result.Val.(T)
		return answer, result.Err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
