package s3store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/agentloop/agentloop/pkg/cas"
)

var _ cas.Archives = (*Store)(nil)

// PutArchive implements cas.Archives.
func (s *Store) PutArchive(ctx context.Context, scope cas.Scope, name string, data []byte) error {
	if err := begin(ctx, scope); err != nil {
		return err
	}
	key, err := cas.ArchiveKey(scope, name)
	if err != nil {
		return err
	}
	if err := cas.CheckArchive(data); err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	err = s.retry(ctx, func(ctx context.Context) error {
		return s.putRequest(ctx, putRequest{key: s.fullKey(key), body: data, payloadHash: sum, checksum: sum})
	})
	if err != nil {
		return fmt.Errorf("put archive %s: %w", name, err)
	}
	return nil
}

// GetArchive implements cas.Archives.
func (s *Store) GetArchive(ctx context.Context, scope cas.Scope, name string) ([]byte, error) {
	if err := begin(ctx, scope); err != nil {
		return nil, err
	}
	key, err := cas.ArchiveKey(scope, name)
	if err != nil {
		return nil, err
	}
	var found object
	err = s.retry(ctx, func(ctx context.Context) error {
		var err error
		found, err = s.fetch(ctx, s.fullKey(key), cas.MaxArchive)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("get archive %s: %w", name, err)
	}
	return found.data, nil
}

// ListArchives implements cas.Archives. Keys that are no archive files are passed over.
func (s *Store) ListArchives(ctx context.Context, scope cas.Scope, fn func(name string) error) error {
	if err := begin(ctx, scope); err != nil {
		return err
	}
	prefix, err := cas.ArchivesPrefix(scope)
	if err != nil {
		return err
	}
	prefix = s.fullKey(prefix)
	return s.pages(ctx, prefix, func(keys []string) error {
		for _, key := range keys {
			name := strings.TrimPrefix(key, prefix)
			if !cas.IsArchiveName(name) {
				continue
			}
			if err := fn(name); err != nil {
				return err
			}
		}
		return nil
	})
}
