package known_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/castest"
	"github.com/agentloop/agentloop/pkg/cas/known"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
)

var (
	scope = cas.Scope{Namespace: "ns", Session: "s1"}
	other = cas.Scope{Namespace: "ns", Session: "s2"}
)

func newKnown(t *testing.T, store cas.Store, opts known.Options) *known.Store {
	t.Helper()
	k, err := known.New(store, opts)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestConformance(t *testing.T) {
	castest.Run(t, func(t *testing.T) cas.Store { return newKnown(t, memstore.New(), known.Options{}) })
}

func put(t *testing.T, store cas.Store, scope cas.Scope, text string) cas.Ref {
	t.Helper()
	ref, err := store.Put(t.Context(), scope, cas.MediaBlob, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestPutsThatReachTheStore(t *testing.T) {
	now := time.Unix(1000, 0)
	cases := map[string]struct {
		steps func(t *testing.T, k *known.Store, below *memstore.Store)
		want  int64
	}{
		"the same bytes reach it once": {func(t *testing.T, k *known.Store, _ *memstore.Store) {
			first := put(t, k, scope, "a")
			if again := put(t, k, scope, "a"); again != first {
				t.Errorf("second put returned %+v, first %+v", again, first)
			}
		}, 1},
		"other bytes reach it": {func(t *testing.T, k *known.Store, _ *memstore.Store) {
			put(t, k, scope, "a")
			put(t, k, scope, "b")
		}, 2},
		"another session's bytes reach it": {func(t *testing.T, k *known.Store, _ *memstore.Store) {
			put(t, k, scope, "a")
			put(t, k, other, "a")
		}, 2},
		"they reach it again just when the time is over": {func(t *testing.T, k *known.Store, _ *memstore.Store) {
			put(t, k, scope, "a")
			now = now.Add(time.Minute - time.Nanosecond)
			put(t, k, scope, "a")
			now = now.Add(time.Nanosecond)
			put(t, k, scope, "a")
		}, 2},
		"a put that is spared does not prolong the time": {func(t *testing.T, k *known.Store, _ *memstore.Store) {
			for range 4 {
				put(t, k, scope, "a")
				now = now.Add(30 * time.Second)
			}
		}, 2},
		"a clock that went back makes them reach it": {func(t *testing.T, k *known.Store, _ *memstore.Store) {
			put(t, k, scope, "a")
			now = now.Add(-time.Hour)
			put(t, k, scope, "a")
		}, 2},
		"they reach it again after a purge": {func(t *testing.T, k *known.Store, _ *memstore.Store) {
			put(t, k, scope, "a")
			if err := k.Purge(t.Context(), scope); err != nil {
				t.Fatal(err)
			}
			put(t, k, scope, "a")
		}, 2},
		"another session's purge changes nothing": {func(t *testing.T, k *known.Store, _ *memstore.Store) {
			put(t, k, scope, "a")
			if err := k.Purge(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			put(t, k, scope, "a")
		}, 1},
		"they reach it again when they were found missing": {func(t *testing.T, k *known.Store, below *memstore.Store) {
			ref := put(t, k, scope, "a")
			if err := below.Purge(t.Context(), scope); err != nil {
				t.Fatal(err)
			}
			if _, err := k.Get(t.Context(), scope, ref); !errors.Is(err, cas.ErrNotFound) {
				t.Fatalf("get: %v", err)
			}
			put(t, k, scope, "a")
		}, 2},
		"the oldest is forgotten when there are too many": {func(t *testing.T, k *known.Store, _ *memstore.Store) {
			for i := range 5 {
				put(t, k, scope, fmt.Sprint(i))
			}
			put(t, k, scope, "4")
			put(t, k, scope, "0")
		}, 6},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			below := memstore.New()
			counting := castest.NewCounting(below)
			k := newKnown(t, counting, known.Options{Entries: 4, TTL: time.Minute, Now: func() time.Time { return now }})
			tc.steps(t, k, below)
			if got := counting.Counts().Puts; got != tc.want {
				t.Errorf("%d puts reached the store, want %d", got, tc.want)
			}
		})
	}
}

// failingStore fails its first put.
type failingStore struct {
	*memstore.Store
	failed bool
}

var errAway = errors.New("store is away")

func (f *failingStore) Put(ctx context.Context, scope cas.Scope, mediaType string, data []byte) (cas.Ref, error) {
	if !f.failed {
		f.failed = true
		return cas.Ref{}, errAway
	}
	return f.Store.Put(ctx, scope, mediaType, data)
}

func TestFailedPutIsNotRemembered(t *testing.T) {
	k := newKnown(t, &failingStore{Store: memstore.New()}, known.Options{})
	if _, err := k.Put(t.Context(), scope, cas.MediaBlob, []byte("a")); !errors.Is(err, errAway) {
		t.Fatalf("got error %v, want %v", err, errAway)
	}
	ref := put(t, k, scope, "a")
	if _, err := k.Get(t.Context(), scope, ref); err != nil {
		t.Errorf("after the second put: %v", err)
	}
}

func TestOptions(t *testing.T) {
	if _, err := known.New(memstore.New(), known.Options{Entries: -1}); err == nil {
		t.Error("a negative number of entries is accepted")
	}
}
