package memstore

import (
	"context"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
)

var _ cas.Aging = (*Store)(nil)

// ListAged implements cas.Aging.
func (s *Store) ListAged(ctx context.Context, scope cas.Scope, fn func(digest cas.Digest, age time.Duration) error) error {
	return s.List(ctx, scope, func(ref cas.Ref) error { return fn(ref.Digest, s.age(scope, ref.Digest)) })
}

// GetAged implements cas.Aging.
func (s *Store) GetAged(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, time.Duration, error) {
	data, err := s.Get(ctx, scope, ref)
	return data, s.age(scope, ref.Digest), err
}

func (s *Store) age(scope cas.Scope, digest cas.Digest) time.Duration {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if at, known := s.written[scope][digest]; known {
		return s.Now().Sub(at)
	}
	return 0
}

// Remove implements cas.Aging.
func (s *Store) Remove(ctx context.Context, scope cas.Scope, digest cas.Digest) error {
	if err := begin(ctx, scope); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects[scope], digest)
	delete(s.written[scope], digest)
	return nil
}
