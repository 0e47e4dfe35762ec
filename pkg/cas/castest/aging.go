package castest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
)

// testAging checks a store whose objects can be swept.
func testAging(t *testing.T, store cas.Store) {
	aging, ok := store.(cas.Aging)
	if !ok {
		return // wrappers of a store need not be swept
	}
	ctx, scope, other := t.Context(), NewScope(t, store), NewScope(t, store)
	refs := putTwo(t, store, scope)
	putTwo(t, store, other)
	putTwo(t, store, scope.In(cas.TreeFiles))
	if found := listed(t, aging, scope); len(found) != 2 || !found[refs[0].Digest] || !found[refs[1].Digest] {
		t.Errorf("listed are %v", found)
	}
	stop := errors.New("stop")
	if err := aging.ListAged(ctx, scope, func(cas.Digest, time.Duration) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v, want the error of fn", err)
	}
	data, age, err := aging.GetAged(ctx, scope, refs[0])
	if err != nil || !bytes.Equal(data, []byte("one")) || !young(age) {
		t.Errorf("%q, %s old, %v", data, age, err)
	}
	for range 2 {
		if err := aging.Remove(ctx, scope, refs[0].Digest); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := aging.GetAged(ctx, scope, refs[0]); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("a removed object: %v", err)
	}
	if len(listed(t, aging, scope)) != 1 || len(listed(t, aging, other)) != 2 || len(listed(t, aging, scope.In(cas.TreeFiles))) != 2 {
		t.Error("another object was removed")
	}
	if ref, err := store.Put(ctx, scope, cas.MediaBlob, []byte("one")); err != nil || ref != refs[0] {
		t.Errorf("put again: %+v, %v", ref, err)
	}
}

// putTwo puts the objects "one" and "two".
func putTwo(t *testing.T, store cas.Store, scope cas.Scope) []cas.Ref {
	t.Helper()
	var refs []cas.Ref
	for _, text := range []string{"one", "two"} {
		ref, err := store.Put(t.Context(), scope, cas.MediaBlob, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	return refs
}

// young says whether an age can be that of an object that was just put. The clock of the other side may be a little off, and
// tells seconds.
func young(age time.Duration) bool { return age >= -time.Minute && age <= time.Minute }

// listed are the objects of a scope, which were just put.
func listed(t *testing.T, store cas.Aging, scope cas.Scope) map[cas.Digest]bool {
	t.Helper()
	found := map[cas.Digest]bool{}
	err := store.ListAged(t.Context(), scope, func(digest cas.Digest, age time.Duration) error {
		if !young(age) {
			t.Errorf("an object that was just put is %s old", age)
		}
		found[digest] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
