package castest

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
)

// testArchives checks a store that keeps archive files as well.
func testArchives(t *testing.T, store cas.Store) {
	archives, ok := store.(cas.Archives)
	if !ok {
		return // wrappers of a store need not keep archives
	}
	ctx, scope, other := t.Context(), NewScope(t, store), NewScope(t, store)
	names := func(scope cas.Scope) []string {
		t.Helper()
		found := []string{}
		err := archives.ListArchives(ctx, scope, func(name string) error {
			found = append(found, name)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(found)
		return found
	}
	put := func(scope cas.Scope, name string, data []byte) {
		t.Helper()
		if err := archives.PutArchive(ctx, scope, name, data); err != nil {
			t.Fatal(err)
		}
	}
	const first, second = "0d6f2a54-7f0c-4c52-9d0e-6a3b1c8e5f27.jsonl.zst", "0d6f2a54-7f0c-4c52-9d0e-6a3b1c8e5f27.2.jsonl.zst"
	if _, err := archives.GetArchive(ctx, scope, first); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("a file that is not there: %v", err)
	}
	put(scope, first, Noise(100_000, 1))
	put(scope, second, Noise(cas.MaxArchive, 2))
	put(other, first, []byte("other"))
	put(scope, first, Noise(70_000, 3)) // replaces the one that is there
	if _, err := store.Put(ctx, scope, cas.MediaBlob, []byte("an object beside them")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{first: Noise(70_000, 3), second: Noise(cas.MaxArchive, 2)} {
		got, err := archives.GetArchive(ctx, scope, name)
		if err != nil || cas.Of(got) != cas.Of(want) {
			t.Errorf("%s has %d bytes, %v; want %d", name, len(got), err, len(want))
		}
	}
	if diff := cmp.Diff([]string{second, first}, names(scope)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if err := archives.PutArchive(ctx, scope, first, make([]byte, cas.MaxArchive+1)); !errors.Is(err, cas.ErrTooLarge) {
		t.Errorf("a file that is too large: %v", err)
	}
	for _, name := range []string{"", "x", "../x.jsonl.zst", "a/b.jsonl.zst", "A.jsonl.zst", "a.1.jsonl.zst", "a.02.jsonl.zst", "a.2.3.jsonl.zst", ".jsonl.zst"} {
		if err := archives.PutArchive(ctx, scope, name, []byte("x")); !errors.Is(err, cas.ErrInvalid) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
	if err := store.Purge(ctx, scope); err != nil {
		t.Fatal(err)
	}
	if left := names(scope); len(left) > 0 {
		t.Errorf("a purge leaves %v", left)
	}
	if left := names(other); len(left) != 1 {
		t.Errorf("the purge of one session leaves %v of another", left)
	}
}
