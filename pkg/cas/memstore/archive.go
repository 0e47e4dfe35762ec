package memstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	"github.com/agentloop/agentloop/pkg/cas"
)

var _ cas.Archives = (*Store)(nil)

// PutArchive implements cas.Archives.
func (s *Store) PutArchive(ctx context.Context, scope cas.Scope, name string, data []byte) error {
	if err := beginArchive(ctx, scope, name); err != nil {
		return err
	}
	if err := cas.CheckArchive(data); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	scope = scope.In(cas.TreeObjects)
	if s.archives[scope] == nil {
		s.archives[scope] = map[string][]byte{}
	}
	s.archives[scope][name] = bytes.Clone(data)
	return nil
}

// GetArchive implements cas.Archives.
func (s *Store) GetArchive(ctx context.Context, scope cas.Scope, name string) ([]byte, error) {
	if err := beginArchive(ctx, scope, name); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	data, ok := s.archives[scope.In(cas.TreeObjects)][name]
	if !ok {
		return nil, fmt.Errorf("%w: archive %s", cas.ErrNotFound, name)
	}
	return bytes.Clone(data), nil
}

// ListArchives implements cas.Archives. It lists what was stored when it began.
func (s *Store) ListArchives(ctx context.Context, scope cas.Scope, fn func(name string) error) error {
	if err := begin(ctx, scope); err != nil {
		return err
	}
	s.mu.RLock()
	stored := maps.Clone(s.archives[scope.In(cas.TreeObjects)])
	s.mu.RUnlock()
	for name := range stored {
		if err := fn(name); err != nil {
			return err
		}
	}
	return nil
}

func beginArchive(ctx context.Context, scope cas.Scope, name string) error {
	if err := begin(ctx, scope); err != nil {
		return err
	}
	_, err := cas.ArchiveKey(scope, name)
	return err
}
