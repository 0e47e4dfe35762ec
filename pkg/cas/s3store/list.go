package s3store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/agentloop/agentloop/pkg/cas"
)

// pageSize is the number of keys of one listing and of one deletion, the largest that S3 has.
const pageSize = 1000

// List implements cas.Store. Keys that are not objects are passed over.
func (s *Store) List(ctx context.Context, scope cas.Scope, fn func(cas.Ref) error) error {
	if err := begin(ctx, scope); err != nil {
		return err
	}
	prefix, err := cas.ObjectsPrefix(scope)
	if err != nil {
		return err
	}
	prefix = s.fullKey(prefix)
	return s.pages(ctx, prefix, func(keys []string) error {
		for _, key := range keys {
			digest, ok := cas.ParseObjectKey(strings.TrimPrefix(key, prefix))
			if !ok {
				continue
			}
			if err := fn(cas.Ref{Digest: digest}); err != nil {
				return err
			}
		}
		return nil
	})
}

// listedKey is a key and when it was written, by the server's clock.
type listedKey struct {
	key     string
	written time.Time
}

// pages calls fn with the keys under a prefix, in order, page after page.
func (s *Store) pages(ctx context.Context, prefix string, fn func(keys []string) error) error {
	return s.dated(ctx, prefix, func(page []listedKey) error { return fn(keysOf(page)) })
}

func keysOf(page []listedKey) []string {
	keys := make([]string, len(page))
	for i, one := range page {
		keys[i] = one.key
	}
	return keys
}

// dated calls fn with the keys under a prefix and when they were written, in order, page after page.
func (s *Store) dated(ctx context.Context, prefix string, fn func(page []listedKey) error) error {
	after := ""
	for {
		var page []listedKey
		err := s.retry(ctx, func(ctx context.Context) error {
			var err error
			page, err = s.page(ctx, prefix, after)
			return err
		})
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		if err := fn(page); err != nil {
			return err
		}
		if len(page) < s.opts.pageSize {
			return nil
		}
		after = page[len(page)-1].key
	}
}

// page returns up to pageSize keys behind after. It may take several requests; they are watched for loops.
func (s *Store) page(ctx context.Context, prefix, after string) ([]listedKey, error) {
	watch := &listing{tokens: map[string]bool{}}
	var keys []listedKey
	last := after
	for info := range s.core.ListObjectsIter(withListing(ctx, watch), s.opts.Bucket, minio.ListObjectsOptions{
		Prefix: prefix, Recursive: true, MaxKeys: s.opts.pageSize, StartAfter: after,
	}) {
		if info.Err != nil {
			return nil, info.Err
		}
		if !strings.HasPrefix(info.Key, prefix) || info.Key <= last {
			return nil, fmt.Errorf("%w: it gives %q after %q", errListingLoops, info.Key, last)
		}
		watch.empty = 0
		last = info.Key
		keys = append(keys, listedKey{info.Key, info.LastModified})
		if len(keys) == s.opts.pageSize {
			return keys, nil
		}
	}
	return keys, ctx.Err() // the listing ends silently with its context
}

// purgeRounds bounds how often a purge begins anew because something is still listed.
const purgeRounds = 3

// Purge implements cas.Store: it removes everything under the session's prefix, and is done when nothing is listed any
// more. When it fails, some objects may be gone. On a versioned bucket old versions stay until the bucket's lifecycle
// rules remove them.
func (s *Store) Purge(ctx context.Context, scope cas.Scope) error {
	if err := begin(ctx, scope); err != nil {
		return err
	}
	prefix, err := cas.ScopePrefix(scope)
	if err != nil {
		return err
	}
	for range purgeRounds {
		removed := 0
		err := s.pages(ctx, s.fullKey(prefix), func(keys []string) error {
			removed += len(keys)
			return s.remove(ctx, keys)
		})
		if err != nil {
			return fmt.Errorf("purge: %w", err)
		}
		if removed == 0 {
			return nil
		}
	}
	left, err := s.page(ctx, s.fullKey(prefix), "")
	if err != nil {
		return fmt.Errorf("purge: %w", s.explain(err))
	}
	if len(left) > 0 {
		return fmt.Errorf("purge: objects are still listed after %d rounds, the first is %s", purgeRounds, left[0].key)
	}
	return nil
}

// remove deletes one page of keys.
func (s *Store) remove(ctx context.Context, keys []string) error {
	return s.retry(ctx, func(ctx context.Context) error {
		err := s.removeMany(ctx, keys)
		if classify(err) == classUnsupported {
			return s.removeEach(ctx, keys)
		}
		return err
	})
}

func (s *Store) removeMany(ctx context.Context, keys []string) error {
	objects := func(yield func(minio.ObjectInfo) bool) {
		for _, key := range keys {
			if !yield(minio.ObjectInfo{Key: key}) {
				return
			}
		}
	}
	results, err := s.core.RemoveObjectsWithIter(ctx, s.opts.Bucket, objects, minio.RemoveObjectsOptions{})
	if err != nil {
		return err
	}
	var first error
	for result := range results {
		if result.Err != nil && first == nil && classify(result.Err) != classMissing {
			first = result.Err
		}
	}
	return errors.Join(first, ctx.Err())
}

func (s *Store) removeEach(ctx context.Context, keys []string) error {
	for _, key := range slices.Clone(keys) {
		err := s.core.RemoveObject(ctx, s.opts.Bucket, key, minio.RemoveObjectOptions{})
		if err != nil && classify(err) != classMissing {
			return err
		}
	}
	return nil
}
