// Package memstore keeps objects in memory: the twin of the durable stores for tests and throw-away runs.
//
// Guarantees: it keeps the contract of cas.Store but for durability; it copies what it is given and what it returns, so
// no caller can change a stored object; it is safe for concurrent use.
package memstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
)

// Store implements cas.Store in memory.
type Store struct {
	mu      sync.RWMutex
	objects map[cas.Scope]map[cas.Digest][]byte
	// archives are the archive files of sessions, by name.
	archives map[cas.Scope]map[string][]byte
	// written is when objects were last put, by Now.
	written map[cas.Scope]map[cas.Digest]time.Time
	// Now is the clock that ages are told by; it is set before the store is used.
	Now func() time.Time
}

var _ cas.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{
		objects: map[cas.Scope]map[cas.Digest][]byte{}, archives: map[cas.Scope]map[string][]byte{},
		written: map[cas.Scope]map[cas.Digest]time.Time{}, Now: time.Now,
	}
}

// Put implements cas.Store.
func (s *Store) Put(ctx context.Context, scope cas.Scope, mediaType string, data []byte) (cas.Ref, error) {
	if err := begin(ctx, scope); err != nil {
		return cas.Ref{}, err
	}
	if len(data) > cas.MaxObject {
		return cas.Ref{}, fmt.Errorf("%w: %d bytes, an object has at most %d", cas.ErrTooLarge, len(data), cas.MaxObject)
	}
	ref := cas.Ref{Digest: cas.Of(data), Size: int64(len(data)), MediaType: mediaType}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[scope] == nil {
		s.objects[scope], s.written[scope] = map[cas.Digest][]byte{}, map[cas.Digest]time.Time{}
	}
	s.written[scope][ref.Digest] = s.Now()
	if _, ok := s.objects[scope][ref.Digest]; !ok {
		s.objects[scope][ref.Digest] = bytes.Clone(data)
	}
	return ref, nil
}

// Get implements cas.Store.
func (s *Store) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	if err := begin(ctx, scope); err != nil {
		return nil, err
	}
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	data, ok := s.objects[scope][ref.Digest]
	s.mu.RUnlock()
	if !ok {
		return nil, fmt.Errorf("%w: %s", cas.ErrNotFound, ref.Digest)
	}
	return cas.ReadVerified(bytes.NewReader(data), ref)
}

// List implements cas.Store. It lists what was stored when it began.
func (s *Store) List(ctx context.Context, scope cas.Scope, fn func(cas.Ref) error) error {
	if err := begin(ctx, scope); err != nil {
		return err
	}
	s.mu.RLock()
	stored := maps.Clone(s.objects[scope])
	s.mu.RUnlock()
	for digest, data := range stored {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fn(cas.Ref{Digest: digest, Size: int64(len(data))}); err != nil {
			return err
		}
	}
	return nil
}

// Purge implements cas.Store.
func (s *Store) Purge(ctx context.Context, scope cas.Scope) error {
	if err := begin(ctx, scope); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tree := range []cas.Tree{cas.TreeObjects, cas.TreeManifests, cas.TreeFiles} {
		delete(s.objects, scope.In(tree))
		delete(s.written, scope.In(tree))
	}
	delete(s.archives, scope.In(cas.TreeObjects))
	return nil
}

func begin(ctx context.Context, scope cas.Scope) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return scope.Validate()
}
