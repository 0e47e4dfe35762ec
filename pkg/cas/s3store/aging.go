package s3store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/agentloop/agentloop/pkg/cas"
)

var _ cas.Aging = (*Store)(nil)

// errNoClock is returned when no answer of the server had a date: no age can be told then.
var errNoClock = errors.New("the server's answers have no date")

// ListAged implements cas.Aging. The server's clock is that of its answers to the listing.
func (s *Store) ListAged(ctx context.Context, scope cas.Scope, fn func(digest cas.Digest, age time.Duration) error) error {
	if err := begin(ctx, scope); err != nil {
		return err
	}
	prefix, err := cas.ObjectsPrefix(scope)
	if err != nil {
		return err
	}
	prefix = s.fullKey(prefix)
	return s.dated(ctx, prefix, func(page []listedKey) error {
		offset, known := s.transport.clockOffset()
		if !known {
			return errNoClock
		}
		now := time.Now().Add(offset)
		for _, one := range page {
			digest, ok := cas.ParseObjectKey(strings.TrimPrefix(one.key, prefix))
			if !ok {
				continue
			}
			var age time.Duration
			if !one.written.IsZero() {
				age = now.Sub(one.written)
			}
			if err := fn(digest, age); err != nil {
				return err
			}
		}
		return nil
	})
}

// GetAged implements cas.Aging. The age is by the date of the answer.
func (s *Store) GetAged(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, time.Duration, error) {
	found, err := s.get(ctx, scope, ref)
	return found.data, found.age, err
}

// Remove implements cas.Aging.
func (s *Store) Remove(ctx context.Context, scope cas.Scope, digest cas.Digest) error {
	if err := begin(ctx, scope); err != nil {
		return err
	}
	key, err := s.objectKey(scope, digest)
	if err != nil {
		return err
	}
	err = s.retry(ctx, func(ctx context.Context) error {
		err := s.core.RemoveObject(ctx, s.opts.Bucket, key, minio.RemoveObjectOptions{})
		if classify(err) == classMissing {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove %s: %w", digest, err)
	}
	return nil
}
