// Package lru keeps the values that were used last, up to a sum of costs.
//
// Guarantees: the sum of the costs of what is kept never exceeds the limit when a call returns; a value is never changed
// or copied; safe for concurrent use. It is bounded by cost and not by number, because what is kept here is between some
// dozen bytes and several megabytes long.
package lru

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache maps keys to values. The zero Cache is not usable; see New.
type Cache[K comparable, V any] struct {
	mu      sync.Mutex
	limit   int64
	used    int64
	entries *simplelru.LRU[K, entry[V]]
}

type entry[V any] struct {
	value V
	cost  int64
}

// New returns an empty cache. One with a limit below the cost of every value keeps nothing.
func New[K comparable, V any](limit int64) *Cache[K, V] {
	c := &Cache[K, V]{limit: limit}
	// The number is no bound here, and one above zero is no error.
	c.entries, _ = simplelru.NewLRU(math.MaxInt, func(_ K, e entry[V]) { c.used -= e.cost })
	return c
}

// Get returns the value of a key and makes it the last used one.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries.Get(key)
	return e.value, ok
}

// Add keeps a value unless there is one of that key already, and lets the least used ones go until there is room.
func (c *Cache[K, V]) Add(key K, value V, cost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries.Contains(key) || cost > c.limit {
		return
	}
	c.entries.Add(key, entry[V]{value, cost})
	for c.used += cost; c.used > c.limit; {
		c.entries.RemoveOldest()
	}
}
