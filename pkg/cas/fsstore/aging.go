package fsstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
)

var _ cas.Aging = (*Store)(nil)

// ListAged implements cas.Aging.
func (s *Store) ListAged(ctx context.Context, scope cas.Scope, fn func(digest cas.Digest, age time.Duration) error) error {
	return s.List(ctx, scope, func(ref cas.Ref) error {
		age, err := s.age(scope, ref.Digest)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		return fn(ref.Digest, age)
	})
}

// GetAged implements cas.Aging.
func (s *Store) GetAged(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, time.Duration, error) {
	data, err := s.Get(ctx, scope, ref)
	if err != nil {
		return nil, 0, err
	}
	age, err := s.age(scope, ref.Digest)
	if err != nil {
		return nil, 0, fmt.Errorf("get: %w", err)
	}
	return data, age, nil
}

// age is by the file's time, which a put makes young again.
func (s *Store) age(scope cas.Scope, digest cas.Digest) (time.Duration, error) {
	path, err := s.path(scope, digest)
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return time.Since(info.ModTime()), nil
}

// Remove implements cas.Aging.
func (s *Store) Remove(ctx context.Context, scope cas.Scope, digest cas.Digest) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	path, err := s.path(scope, digest)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", digest, err)
	}
	if err := syncDir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", digest, err)
	}
	return nil
}
