package cas

import (
	"container/list"
	"sync"
)

// messageCache keeps the most recently used messages up to a number of bytes. It is bounded by bytes and not by
// entries, because messages are between some dozen bytes and several megabytes long.
type messageCache struct {
	mu      sync.Mutex
	limit   int64
	used    int64
	entries map[cacheKey]*list.Element
	order   *list.List // of *cacheEntry, most recently used first
}

// cacheKey has the scope in it, so that a digest learnt from one session never opens another one's object.
type cacheKey struct {
	scope  Scope
	digest Digest
	index  int // -1 for an object that is the message itself
}

type cacheEntry struct {
	key  cacheKey
	data []byte
}

// entryOverhead is about what an entry costs besides its bytes.
const entryOverhead = 256

func cacheKeyOf(scope Scope, ref MessageRef) cacheKey {
	key := cacheKey{scope: scope, digest: ref.Digest, index: -1}
	if ref.Index != nil {
		key.index = *ref.Index
	}
	return key
}

func newMessageCache(limit int64) *messageCache {
	return &messageCache{limit: limit, entries: map[cacheKey]*list.Element{}, order: list.New()}
}

func (c *messageCache) get(key cacheKey) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(element)
	return element.Value.(*cacheEntry).data, true //nolint:forcetypeassert // the list holds nothing else
}

func (c *messageCache) add(key cacheKey, data []byte) {
	cost := int64(len(data)) + entryOverhead
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[key]; ok || cost > c.limit {
		return
	}
	c.entries[key] = c.order.PushFront(&cacheEntry{key: key, data: data})
	c.used += cost
	for c.used > c.limit {
		oldest := c.order.Back()
		entry := c.order.Remove(oldest).(*cacheEntry) //nolint:forcetypeassert // the list holds nothing else
		delete(c.entries, entry.key)
		c.used -= int64(len(entry.data)) + entryOverhead
	}
}
