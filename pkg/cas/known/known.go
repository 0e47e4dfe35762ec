// Package known spares a store the puts of bytes that it has just been given.
//
// Guarantees: a put is answered without the store only if the same bytes were durably put into the same session by this
// process less than the TTL ago; everything else passes through; purging a session forgets it, and an object that turns
// out to be missing or corrupt is forgotten. The TTL must be at most half of the grace period after which unreferenced
// objects are swept: an object that is referenced on the strength of an old put must not be swept meanwhile.
package known

import (
	"context"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/agentloop/agentloop/pkg/cas"
)

// Options tune the wrapper. Zero values mean the defaults.
type Options struct {
	// Entries is the number of digests that are remembered, some 250 bytes each; 16384 by default.
	Entries int
	// TTL is how long a put is remembered; 1 hour by default.
	TTL time.Duration
	// Now is the clock; time.Now by default.
	Now func() time.Time
}

const (
	defaultEntries = 16384
	defaultTTL     = time.Hour
)

type key struct {
	scope  cas.Scope
	digest cas.Digest
}

// Store is a cas.Store that remembers its puts. Safe for concurrent use.
//
// Entries carry their time instead of being expired by a background task: the clock can be injected and there is no
// goroutine to stop.
type Store struct {
	store cas.Store
	ttl   time.Duration
	now   func() time.Time
	puts  *lru.Cache[key, time.Time]
}

var _ cas.Store = (*Store)(nil)

// New wraps store.
func New(store cas.Store, opts Options) (*Store, error) {
	if opts.Entries == 0 {
		opts.Entries = defaultEntries
	}
	if opts.TTL == 0 {
		opts.TTL = defaultTTL
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	puts, err := lru.New[key, time.Time](opts.Entries)
	if err != nil {
		return nil, fmt.Errorf("remember %d digests: %w", opts.Entries, err)
	}
	return &Store{store: store, ttl: opts.TTL, now: opts.Now, puts: puts}, nil
}

// Put implements cas.Store.
func (s *Store) Put(ctx context.Context, scope cas.Scope, mediaType string, data []byte) (cas.Ref, error) {
	if err := ctx.Err(); err != nil {
		return cas.Ref{}, err
	}
	ref := cas.Ref{Digest: cas.Of(data), Size: int64(len(data)), MediaType: mediaType}
	k := key{scope, ref.Digest}
	if at, ok := s.puts.Get(k); ok {
		if age := s.now().Sub(at); age >= 0 && age < s.ttl {
			return ref, nil
		}
		s.puts.Remove(k)
	}
	// The age counts from before the put: the object is at least as young as that.
	before := s.now()
	stored, err := s.store.Put(ctx, scope, mediaType, data)
	if err == nil {
		s.puts.Add(k, before)
	}
	return stored, err
}

// Get implements cas.Store.
func (s *Store) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	data, err := s.store.Get(ctx, scope, ref)
	if errors.Is(err, cas.ErrNotFound) || errors.Is(err, cas.ErrCorrupt) {
		s.puts.Remove(key{scope, ref.Digest})
	}
	return data, err
}

// List implements cas.Store.
func (s *Store) List(ctx context.Context, scope cas.Scope, fn func(cas.Ref) error) error {
	return s.store.List(ctx, scope, fn)
}

// Purge implements cas.Store. What was put is forgotten before and after, so that neither a failed purge nor a put
// that ran beside it leaves a memory of what is gone.
func (s *Store) Purge(ctx context.Context, scope cas.Scope) error {
	s.forget(scope)
	defer s.forget(scope)
	return s.store.Purge(ctx, scope)
}

func (s *Store) forget(scope cas.Scope) {
	for _, k := range s.puts.Keys() {
		if k.scope.In(scope.Tree) == scope {
			s.puts.Remove(k)
		}
	}
}
