package fsstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agentloop/agentloop/pkg/cas"
)

var _ cas.Archives = (*Store)(nil)

// PutArchive implements cas.Archives.
func (s *Store) PutArchive(ctx context.Context, scope cas.Scope, name string, data []byte) error {
	path, err := s.archivePath(ctx, scope, name)
	if err != nil {
		return err
	}
	if err := cas.CheckArchive(data); err != nil {
		return err
	}
	if err := s.write(ctx, path, "archive", data); err != nil {
		return fmt.Errorf("put archive %s: %w", name, err)
	}
	return nil
}

// GetArchive implements cas.Archives.
func (s *Store) GetArchive(ctx context.Context, scope cas.Scope, name string) ([]byte, error) {
	path, err := s.archivePath(ctx, scope, name)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("get archive: %w: %s", cas.ErrNotFound, name)
	}
	if err != nil {
		return nil, fmt.Errorf("get archive: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	data, err := cas.ReadAtMost(file, cas.MaxArchive)
	if err != nil {
		return nil, fmt.Errorf("get archive %s: %w", name, err)
	}
	return data, nil
}

// ListArchives implements cas.Archives. Files that are no archives are passed over.
func (s *Store) ListArchives(ctx context.Context, scope cas.Scope, fn func(name string) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	prefix, err := cas.ArchivesPrefix(scope)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(s.root, filepath.FromSlash(prefix)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list archives: %w", err)
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !cas.IsArchiveName(entry.Name()) {
			continue
		}
		if err := fn(entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) archivePath(ctx context.Context, scope cas.Scope, name string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	key, err := cas.ArchiveKey(scope, name)
	if err != nil {
		return "", err
	}
	return filepath.Join(s.root, filepath.FromSlash(key)), nil
}
