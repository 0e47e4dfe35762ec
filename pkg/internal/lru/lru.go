// Package lru keeps the values that were used last, up to a sum of costs.
//
// Guarantees: the sum of the costs of what is kept never exceeds the limit when a call returns; a value is never changed
// or copied; safe for concurrent use. It is bounded by cost and not by number, because what is kept here is between some
// dozen bytes and several megabytes long.
package lru

import (
	"container/list"
	"sync"
)

// Cache maps keys to values. The zero Cache is not usable; see New.
type Cache[K comparable, V any] struct {
	mu      sync.Mutex
	limit   int64
	used    int64
	entries map[K]*list.Element
	order   *list.List // of *entry[K, V], most recently used first
}

type entry[K comparable, V any] struct {
	key   K
	value V
	cost  int64
}

// New returns an empty cache. One with a limit below the cost of every value keeps nothing.
func New[K comparable, V any](limit int64) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, entries: map[K]*list.Element{}, order: list.New()}
}

// Get returns the value of a key and makes it the last used one.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[key]
	if !ok {
		var none V
		return none, false
	}
	c.order.MoveToFront(element)
	return entryOf[K, V](element).value, true
}

// Add keeps a value unless there is one of that key already, and lets the least used ones go until there is room.
func (c *Cache[K, V]) Add(key K, value V, cost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[key]; ok || cost > c.limit {
		return
	}
	c.entries[key] = c.order.PushFront(&entry[K, V]{key, value, cost})
	c.used += cost
	for c.used > c.limit {
		oldest := c.order.Back()
		e := entryOf[K, V](oldest)
		c.order.Remove(oldest)
		delete(c.entries, e.key)
		c.used -= e.cost
	}
}

func entryOf[K comparable, V any](element *list.Element) *entry[K, V] {
	return element.Value.(*entry[K, V]) //nolint:forcetypeassert // the list holds nothing else
}
