// Package s3store keeps objects in one bucket of an S3 server.
//
// Guarantees: an object is one PUT of at most cas.MaxObject bytes and an envelope, with a signed payload hash; a put
// returns when the server has acknowledged it, or when the object that is there has been read back and verified; no
// answer is believed because of its status alone (a success may carry an error, a "not found" may come from a proxy, an
// existing object may be the remains of a broken upload); correctness never rests on conditional writes, which only
// spare bytes; every wait ends with the context; nothing is deleted but by Purge.
package s3store

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/minio/minio-go/v7"

	"github.com/agentloop/agentloop/pkg/cas"
)

// Store implements cas.Store in a bucket. Safe for concurrent use.
type Store struct {
	opts      Options
	core      *minio.Core
	transport *transport
	// unconditional is set once the server has said that it knows no conditional writes.
	unconditional atomic.Bool
}

var _ cas.Store = (*Store)(nil)

// Open returns a store and refuses to when the server does not do what the store and its options rely on; see Probe.
func Open(ctx context.Context, opts Options) (*Store, error) {
	s, err := New(opts)
	if err != nil {
		return nil, err
	}
	if err := s.Probe(ctx).Err(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// New returns a store without asking the server anything.
func New(opts Options) (*Store, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	core, transport, err := newClient(opts)
	if err != nil {
		return nil, err
	}
	return &Store{opts: opts, core: core, transport: transport}, nil
}

// Close drops idle connections. Calls that run are not affected.
func (s *Store) Close() { s.transport.base.CloseIdleConnections() }

// fullKey puts the options' prefix before a key.
func (s *Store) fullKey(key string) string {
	if s.opts.Prefix == "" {
		return key
	}
	return s.opts.Prefix + "/" + key
}

func (s *Store) objectKey(scope cas.Scope, digest cas.Digest) (string, error) {
	key, err := cas.Key(scope, digest)
	if err != nil {
		return "", err
	}
	return s.fullKey(key), nil
}

// begin checks what every call begins with.
func begin(ctx context.Context, scope cas.Scope) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return scope.Validate()
}

// Get implements cas.Store. An object that does not verify is read a second time before it is called corrupt: the fault
// may have been on the way.
func (s *Store) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	found, err := s.get(ctx, scope, ref)
	return found.data, err
}

func (s *Store) get(ctx context.Context, scope cas.Scope, ref cas.Ref) (object, error) {
	if err := begin(ctx, scope); err != nil {
		return object{}, err
	}
	if err := ref.Validate(); err != nil {
		return object{}, err
	}
	key, err := s.objectKey(scope, ref.Digest)
	if err != nil {
		return object{}, err
	}
	var found object
	suspect := false
	err = s.retry(ctx, func(ctx context.Context) error {
		var err error
		found, err = s.read(ctx, key, ref)
		if isCorrupt(err) && !suspect {
			suspect = true
			return again{err}
		}
		return err
	})
	if err != nil {
		return object{}, fmt.Errorf("get %s: %w", ref.Digest, err)
	}
	return found, nil
}
