package castest

import (
	"context"
	"sync/atomic"

	"github.com/agentloop/agentloop/pkg/cas"
)

// Counting passes every call to a store and counts it. It shows what a caller costs, below or above a cache.
type Counting struct {
	store                      cas.Store
	puts, putBytes, gets, read atomic.Int64
}

var _ cas.Store = (*Counting)(nil)

// Counts is what a Counting store was asked to do, failed calls included. Bytes are decoded ones.
type Counts struct {
	Puts, PutBytes, Gets, GetBytes int64
}

// NewCounting wraps store.
func NewCounting(store cas.Store) *Counting { return &Counting{store: store} }

// Counts returns the totals so far.
func (c *Counting) Counts() Counts {
	return Counts{Puts: c.puts.Load(), PutBytes: c.putBytes.Load(), Gets: c.gets.Load(), GetBytes: c.read.Load()}
}

// Put implements cas.Store.
func (c *Counting) Put(ctx context.Context, scope cas.Scope, mediaType string, data []byte) (cas.Ref, error) {
	c.puts.Add(1)
	c.putBytes.Add(int64(len(data)))
	return c.store.Put(ctx, scope, mediaType, data)
}

// Get implements cas.Store.
func (c *Counting) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	c.gets.Add(1)
	data, err := c.store.Get(ctx, scope, ref)
	c.read.Add(int64(len(data)))
	return data, err
}

// List implements cas.Store.
func (c *Counting) List(ctx context.Context, scope cas.Scope, fn func(cas.Ref) error) error {
	return c.store.List(ctx, scope, fn)
}

// Purge implements cas.Store.
func (c *Counting) Purge(ctx context.Context, scope cas.Scope) error {
	return c.store.Purge(ctx, scope)
}
