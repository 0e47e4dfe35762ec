package cas

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/agentloop/agentloop/pkg/internal/lru"
)

// ExtractFunc returns the index-th message inside a container object. The result may alias raw.
type ExtractFunc func(raw []byte, index int) (json.RawMessage, error)

// ResolverOptions tune a Resolver. Zero values mean the defaults.
type ResolverOptions struct {
	// Parallel is the number of gets at a time of one call; 16 by default.
	Parallel int
	// CacheBytes bounds the resolved messages that are kept for later calls, in bytes; negative keeps none, 32 MiB by
	// default.
	CacheBytes int64
}

const (
	defaultParallel   = 16
	defaultCacheBytes = 32 << 20
)

// Resolver turns message references into the messages' stored bytes. It keeps the most recently used ones, so that a
// further request of the same session reads only what is new. Safe for concurrent use.
type Resolver struct {
	store    Store
	extract  ExtractFunc
	parallel int
	cache    *lru.Cache[cacheKey, []byte]
}

// NewResolver returns a Resolver over store. extract opens container objects; without it a reference with an index is
// ErrInvalid.
func NewResolver(store Store, extract ExtractFunc, opts ResolverOptions) *Resolver {
	if opts.Parallel <= 0 {
		opts.Parallel = defaultParallel
	}
	if opts.CacheBytes == 0 {
		opts.CacheBytes = defaultCacheBytes
	}
	return &Resolver{store: store, extract: extract, parallel: opts.Parallel, cache: lru.New[cacheKey, []byte](opts.CacheBytes)}
}

// Messages returns the bytes of each referenced message, in order. Each object is read once per call, however many of
// its messages are asked for. The slices may be shared with other callers and must not be changed. Errors are those of
// Store.Get and of the ExtractFunc, and name the first message that they concern.
func (r *Resolver) Messages(ctx context.Context, scope Scope, refs []MessageRef) ([][]byte, error) {
	out := make([][]byte, len(refs))
	missing := map[Digest][]int{} // the positions that wait for an object
	var wanted []Ref
	for i, ref := range refs {
		if err := ref.validate(); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		if ref.Index != nil && r.extract == nil {
			return nil, fmt.Errorf("message %d: %w: no containers here", i, ErrInvalid)
		}
		if data, ok := r.cache.Get(cacheKeyOf(scope, ref)); ok {
			out[i] = data
			continue
		}
		if _, ok := missing[ref.Digest]; !ok {
			wanted = append(wanted, Ref{Digest: ref.Digest})
		}
		missing[ref.Digest] = append(missing[ref.Digest], i)
	}
	objects, err := getAll(ctx, r.store, scope, wanted, r.parallel)
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	for n, object := range objects {
		for _, i := range missing[wanted[n].Digest] {
			data, err := r.open(object, refs[i])
			if err != nil {
				return nil, fmt.Errorf("message %d in %s: %w", i, refs[i].Digest, err)
			}
			r.cache.Add(cacheKeyOf(scope, refs[i]), data, int64(len(data))+entryOverhead)
			out[i] = data
		}
	}
	return out, nil
}

// List returns the messages of a list, in order; see ReadList and Messages.
func (r *Resolver) List(ctx context.Context, scope Scope, list MessageList) ([][]byte, error) {
	refs, err := ReadList(ctx, r.store, scope, list)
	if err != nil {
		return nil, err
	}
	return r.Messages(ctx, scope, refs)
}

// open returns the message of one object. A message out of a container is copied, so that the cache does not hold the
// container as well.
func (r *Resolver) open(object []byte, ref MessageRef) ([]byte, error) {
	if ref.Index == nil {
		return object, nil
	}
	data, err := r.extract(object, *ref.Index)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(data), nil
}
