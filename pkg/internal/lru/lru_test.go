package lru_test

import (
	"testing"

	"github.com/agentloop/agentloop/pkg/internal/lru"
)

func has(c *lru.Cache[string, int], key string) bool {
	_, ok := c.Get(key)
	return ok
}

func TestTheLeastUsedGoFirst(t *testing.T) {
	c := lru.New[string, int](10)
	c.Add("a", 1, 4)
	c.Add("b", 2, 4)
	if got, ok := c.Get("a"); !ok || got != 1 {
		t.Fatalf("a is %d, %v", got, ok)
	}
	c.Add("c", 3, 4)
	if !has(c, "a") || has(c, "b") || !has(c, "c") {
		t.Error("the value that was used least is not the one that went")
	}
}

func TestWhatIsLargerThanTheLimitIsNotKept(t *testing.T) {
	c := lru.New[string, int](10)
	c.Add("a", 1, 4)
	c.Add("large", 2, 11)
	if has(c, "large") || !has(c, "a") {
		t.Error("a value beyond the limit drove others out")
	}
	none := lru.New[string, int](-1)
	none.Add("a", 1, 1)
	if has(none, "a") {
		t.Error("a cache of nothing keeps something")
	}
}

func TestAKeyKeepsItsFirstValue(t *testing.T) {
	c := lru.New[string, int](10)
	c.Add("a", 1, 4)
	c.Add("a", 2, 4)
	c.Add("b", 3, 6)
	if got, _ := c.Get("a"); got != 1 {
		t.Errorf("a is %d", got)
	}
}
