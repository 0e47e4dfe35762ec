// Package recent spares a store the reads of what it was given, or has given, a moment ago: a worker puts each state that
// the controllers of the same process read next, and an idle session is measured from what they have just read.
//
// Guarantees: an object comes from memory only if this process durably put it into the same session, or read and verified
// it there, less than the TTL ago; so damage in the store is seen that much later at most. Nobody shares the bytes that
// are kept, of which there are never more than the limit. Purging a session forgets it, and no failure is remembered.
package recent

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/agentloop/agentloop/pkg/cas"
)

// Options tune the wrapper. Zero values mean the defaults.
type Options struct {
	// Bytes bounds what is kept of all objects together; 16 MiB by default.
	Bytes int64
	// TTL is how long an object is kept; 1 minute by default.
	TTL time.Duration
	// Now is the clock; time.Now by default.
	Now func() time.Time
}

const (
	defaultBytes = 16 << 20
	defaultTTL   = time.Minute
	// maxObject is the longest object that is kept: long ones are read seldom, and would push out many others.
	maxObject = 64 << 10
	// overhead is about what an object costs besides its bytes.
	overhead = 512
)

type key struct {
	scope  cas.Scope
	digest cas.Digest
}

type object struct {
	data []byte
	at   time.Time
}

func (o object) cost() int64 { return int64(len(o.data)) + overhead }

// Store is a cas.Store that remembers small objects for a short time. Safe for concurrent use.
type Store struct {
	store cas.Store
	opts  Options

	mu      sync.Mutex
	objects *simplelru.LRU[key, object]
	used    int64
}

var _ cas.Store = (*Store)(nil)

// New wraps store.
func New(store cas.Store, opts Options) (*Store, error) {
	if opts.Bytes == 0 {
		opts.Bytes = defaultBytes
	}
	if opts.TTL == 0 {
		opts.TTL = defaultTTL
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &Store{store: store, opts: opts}
	var err error
	s.objects, err = simplelru.NewLRU(int(opts.Bytes/overhead)+1, func(_ key, o object) { s.used -= o.cost() })
	return s, err
}

// Put implements cas.Store.
func (s *Store) Put(ctx context.Context, scope cas.Scope, mediaType string, data []byte) (cas.Ref, error) {
	before := s.opts.Now()
	ref, err := s.store.Put(ctx, scope, mediaType, data)
	if err == nil {
		s.keep(key{scope, ref.Digest}, data, before)
	}
	return ref, err
}

// Get implements cas.Store.
func (s *Store) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k := key{scope, ref.Digest}
	if data, ok := s.find(k); ok && ref.Validate() == nil && (ref.Size == 0 || ref.Size == int64(len(data))) {
		return data, nil
	}
	before := s.opts.Now()
	data, err := s.store.Get(ctx, scope, ref)
	if err == nil {
		s.keep(k, data, before)
	}
	return data, err
}

// find returns a copy of what is kept.
func (s *Store) find(k key) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects.Get(k)
	if !ok {
		return nil, false
	}
	if age := s.opts.Now().Sub(o.at); age < 0 || age >= s.opts.TTL {
		s.objects.Remove(k)
		return nil, false
	}
	return bytes.Clone(o.data), true
}

// keep remembers a copy of what was in the store at that time.
func (s *Store) keep(k key, data []byte, at time.Time) {
	if len(data) > maxObject {
		return
	}
	o := object{append([]byte{}, data...), at}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects.Remove(k)
	s.objects.Add(k, o)
	for s.used += o.cost(); s.used > s.opts.Bytes; {
		s.objects.RemoveOldest()
	}
}

// List implements cas.Store.
func (s *Store) List(ctx context.Context, scope cas.Scope, fn func(cas.Ref) error) error {
	return s.store.List(ctx, scope, fn)
}

// Purge implements cas.Store. What is kept is forgotten before and after, so that neither a failed purge nor a read that
// ran beside it leaves a memory of what is gone.
func (s *Store) Purge(ctx context.Context, scope cas.Scope) error {
	s.forget(scope)
	defer s.forget(scope)
	return s.store.Purge(ctx, scope)
}

func (s *Store) forget(scope cas.Scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.objects.Keys() {
		if k.scope.In(scope.Tree) == scope {
			s.objects.Remove(k)
		}
	}
}
