// Package castest holds the conformance suite of cas.Store and a wrapper that counts what a store is asked to do.
//
// Guarantees: the suite uses scopes of its own, chosen at random, so that it may run many times and at once against one
// shared store; it leaves nothing behind in a store whose Purge works.
package castest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
)

// Run checks that what newStore returns keeps the contract of cas.Store. The stores of one call may share their
// objects, as two processes do.
func Run(t *testing.T, newStore func(t *testing.T) cas.Store) {
	t.Helper()
	tests := map[string]func(*testing.T, cas.Store){
		"returns what was put":                          testRoundTrip,
		"keeps no slice of the caller":                  testNoAliasing,
		"takes the same bytes again":                    testIdempotent,
		"takes the same bytes from many at once":        testConcurrentSame,
		"takes different bytes from many at once":       testConcurrentDifferent,
		"refuses an object above the limit":             testTooLarge,
		"says that an object is missing":                testMissing,
		"keeps sessions apart":                          testScopes,
		"holds the reader to the size of the reference": testReferenceSize,
		"refuses malformed scopes and references":       testMalformed,
		"lists exactly what was put":                    testList,
		"stops listing at the first error of fn":        testListStops,
		"purges one session and only that":              testPurge,
		"keeps a session's trees apart":                 testTrees,
		"stops when its context has ended":              testContext,
		"carries message lists":                         testMessageList,
		"carries bodies in parts":                       testBody,
		"keeps archive files":                           testArchives,
		"tells ages and removes":                        testAging,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newStore(t))
		})
	}
}

// NewScope returns a scope that no other test uses, and purges it when the test ends.
func NewScope(t testing.TB, store cas.Store) cas.Scope {
	t.Helper()
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		t.Fatal(err)
	}
	scope := cas.Scope{Namespace: "castest", Session: "s-" + hex.EncodeToString(id[:])}
	t.Cleanup(func() {
		if err := store.Purge(context.Background(), scope); err != nil {
			t.Errorf("purge %v: %v", scope, err)
		}
	})
	return scope
}

// Noise returns n bytes that do not compress, the same ones for the same seed.
func Noise(n int, seed uint64) []byte {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	data := make([]byte, n)
	_, _ = mathrand.NewChaCha8(key).Read(data) // never fails
	return data
}

func mustPut(t *testing.T, store cas.Store, scope cas.Scope, data []byte) cas.Ref {
	t.Helper()
	ref, err := store.Put(t.Context(), scope, cas.MediaBlob, data)
	if err != nil {
		t.Fatalf("put %d bytes: %v", len(data), err)
	}
	return ref
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

func testRoundTrip(t *testing.T, store cas.Store) {
	scope := NewScope(t, store)
	bodies := map[string][]byte{
		"nothing":             {},
		"one byte":            {0},
		"a small message":     []byte(`{"role":"user","content":"hi"}`),
		"512 equal bytes":     bytes.Repeat([]byte("a"), 512),
		"513 equal bytes":     bytes.Repeat([]byte("a"), 513),
		"a long text":         []byte(strings.Repeat("the same line again and again\n", 20000)),
		"noise":               Noise(300_000, 1),
		"the largest text":    bytes.Repeat([]byte("0123456789abcdef"), cas.MaxObject/16),
		"the largest of all":  Noise(cas.MaxObject, 2),
		"zstd's magic number": {0x28, 0xb5, 0x2f, 0xfd, 0, 0},
	}
	for name, data := range bodies {
		t.Run(name, func(t *testing.T) {
			ref, err := store.Put(t.Context(), scope, cas.MediaMessage, data)
			if err != nil {
				t.Fatal(err)
			}
			want := cas.Ref{Digest: cas.Of(data), Size: int64(len(data)), MediaType: cas.MediaMessage}
			if ref != want {
				t.Errorf("got reference %+v, want %+v", ref, want)
			}
			for _, asked := range []cas.Ref{ref, {Digest: ref.Digest}} {
				got, err := store.Get(t.Context(), scope, asked)
				if err != nil {
					t.Fatalf("get %+v: %v", asked, err)
				}
				if !bytes.Equal(got, data) {
					t.Errorf("get %+v: other bytes came back", asked)
				}
			}
		})
	}
}

func testNoAliasing(t *testing.T, store cas.Store) {
	scope := NewScope(t, store)
	data := []byte("first words")
	ref := mustPut(t, store, scope, data)
	data[0] = 'X'
	got, err := store.Get(t.Context(), scope, ref)
	if err != nil {
		t.Fatal(err)
	}
	got[1] = 'Y'
	again, err := store.Get(t.Context(), scope, ref)
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != "first words" {
		t.Errorf("got %q", again)
	}
}

func testIdempotent(t *testing.T, store cas.Store) {
	scope := NewScope(t, store)
	data := []byte("once more")
	first := mustPut(t, store, scope, data)
	if second := mustPut(t, store, scope, data); first != second {
		t.Errorf("second put returned %+v, first %+v", second, first)
	}
	if got := listAll(t, store, scope); len(got) != 1 {
		t.Errorf("%d objects are listed, want 1", len(got))
	}
}

func testConcurrentSame(t *testing.T, store cas.Store) {
	scope := NewScope(t, store)
	data := Noise(200_000, 3)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			ref, err := store.Put(t.Context(), scope, cas.MediaBlob, data)
			if err != nil {
				t.Errorf("put: %v", err)
				return
			}
			got, err := store.Get(t.Context(), scope, ref)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("get after put: %d bytes, error %v", len(got), err)
			}
		})
	}
	wg.Wait()
}

func testConcurrentDifferent(t *testing.T, store cas.Store) {
	scope := NewScope(t, store)
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			data := Noise(1000+i, uint64(i))
			ref, err := store.Put(t.Context(), scope, cas.MediaBlob, data)
			if err != nil {
				t.Errorf("put %d: %v", i, err)
				return
			}
			got, err := store.Get(t.Context(), scope, ref)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("get %d: %d bytes, error %v", i, len(got), err)
			}
		})
	}
	wg.Wait()
	if got := listAll(t, store, scope); len(got) != 24 {
		t.Errorf("%d objects are listed, want 24", len(got))
	}
}

func testTooLarge(t *testing.T, store cas.Store) {
	scope := NewScope(t, store)
	_, err := store.Put(t.Context(), scope, cas.MediaBlob, make([]byte, cas.MaxObject+1))
	wantError(t, err, cas.ErrTooLarge)
	_, err = store.Get(t.Context(), scope, cas.Ref{Digest: cas.Of(nil), Size: cas.MaxObject + 1})
	wantError(t, err, cas.ErrTooLarge)
	if got := listAll(t, store, scope); len(got) != 0 {
		t.Errorf("%d objects are listed, want none", len(got))
	}
}

func testMissing(t *testing.T, store cas.Store) {
	scope := NewScope(t, store)
	_, err := store.Get(t.Context(), scope, cas.Ref{Digest: cas.Of([]byte("never put"))})
	wantError(t, err, cas.ErrNotFound)
	mustPut(t, store, scope, []byte("something else"))
	_, err = store.Get(t.Context(), scope, cas.Ref{Digest: cas.Of([]byte("never put")), Size: 9})
	wantError(t, err, cas.ErrNotFound)
}

func testScopes(t *testing.T, store cas.Store) {
	mine, other := NewScope(t, store), NewScope(t, store)
	ref := mustPut(t, store, mine, []byte("mine alone"))
	_, err := store.Get(t.Context(), other, ref)
	wantError(t, err, cas.ErrNotFound)
	neighbour := cas.Scope{Namespace: mine.Namespace + "-2", Session: mine.Session}
	_, err = store.Get(t.Context(), neighbour, ref)
	wantError(t, err, cas.ErrNotFound)
	longer := cas.Scope{Namespace: mine.Namespace, Session: mine.Session + "0"}
	_, err = store.Get(t.Context(), longer, ref)
	wantError(t, err, cas.ErrNotFound)
}

func testReferenceSize(t *testing.T, store cas.Store) {
	scope := NewScope(t, store)
	for name, data := range map[string][]byte{"short": []byte("0123456789"), "compressed": bytes.Repeat([]byte("x"), 5000)} {
		t.Run(name, func(t *testing.T) {
			ref := mustPut(t, store, scope, data)
			ref.Size--
			_, err := store.Get(t.Context(), scope, ref)
			wantError(t, err, cas.ErrTooLarge)
			ref.Size += 2
			_, err = store.Get(t.Context(), scope, ref)
			wantError(t, err, cas.ErrCorrupt)
		})
	}
}

func testMalformed(t *testing.T, store cas.Store) {
	good := NewScope(t, store)
	for name, scope := range map[string]cas.Scope{
		"no namespace":       {Session: "s"},
		"no session":         {Namespace: "ns"},
		"parent folder":      {Namespace: "..", Session: "s"},
		"slash in namespace": {Namespace: "a/b", Session: "s"},
		"slash in session":   {Namespace: "ns", Session: "a/../b"},
		"capital letters":    {Namespace: "ns", Session: "ABC"},
		"64 letters":         {Namespace: strings.Repeat("a", 64), Session: "s"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := store.Put(t.Context(), scope, cas.MediaBlob, []byte("x"))
			wantError(t, err, cas.ErrInvalid)
			_, err = store.Get(t.Context(), scope, cas.Ref{Digest: cas.Of([]byte("x"))})
			wantError(t, err, cas.ErrInvalid)
			wantError(t, store.List(t.Context(), scope, func(cas.Ref) error { return nil }), cas.ErrInvalid)
			wantError(t, store.Purge(t.Context(), scope), cas.ErrInvalid)
		})
	}
	_, err := store.Get(t.Context(), good, cas.Ref{})
	wantError(t, err, cas.ErrInvalid)
	_, err = store.Get(t.Context(), good, cas.Ref{Digest: cas.Of(nil), Size: -1})
	wantError(t, err, cas.ErrInvalid)
}

func listAll(t *testing.T, store cas.Store, scope cas.Scope) []string {
	t.Helper()
	var got []string
	err := store.List(t.Context(), scope, func(ref cas.Ref) error {
		got = append(got, ref.Digest.String())
		return nil
	})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	slices.Sort(got)
	return got
}

func testList(t *testing.T, store cas.Store) {
	mine, other := NewScope(t, store), NewScope(t, store)
	if got := listAll(t, store, mine); len(got) != 0 {
		t.Errorf("an empty session lists %v", got)
	}
	var want []string
	for i := range 40 {
		want = append(want, mustPut(t, store, mine, fmt.Appendf(nil, "object %d", i)).Digest.String())
	}
	mustPut(t, store, other, []byte("other's object"))
	slices.Sort(want)
	if diff := cmp.Diff(want, listAll(t, store, mine)); diff != "" {
		t.Errorf("listed digests (-want +got):\n%s", diff)
	}
}

func testListStops(t *testing.T, store cas.Store) {
	scope := NewScope(t, store)
	for i := range 5 {
		mustPut(t, store, scope, fmt.Appendf(nil, "object %d", i))
	}
	stop, calls := errors.New("enough"), 0
	err := store.List(t.Context(), scope, func(cas.Ref) error {
		calls++
		return stop
	})
	wantError(t, err, stop)
	if calls != 1 {
		t.Errorf("fn was called %d times, want once", calls)
	}
}

func testPurge(t *testing.T, store cas.Store) {
	mine, other := NewScope(t, store), NewScope(t, store)
	longer := cas.Scope{Namespace: mine.Namespace, Session: mine.Session + "0"}
	var refs []cas.Ref
	for i := range 30 {
		refs = append(refs, mustPut(t, store, mine, fmt.Appendf(nil, "object %d", i)))
	}
	kept := mustPut(t, store, other, []byte("object 1"))
	alike := mustPut(t, store, longer, []byte("object 2"))
	for range 2 {
		if err := store.Purge(t.Context(), mine); err != nil {
			t.Fatalf("purge: %v", err)
		}
	}
	if got := listAll(t, store, mine); len(got) != 0 {
		t.Errorf("%d objects are left", len(got))
	}
	_, err := store.Get(t.Context(), mine, refs[3])
	wantError(t, err, cas.ErrNotFound)
	if _, err := store.Get(t.Context(), other, kept); err != nil {
		t.Errorf("another session's object: %v", err)
	}
	if _, err := store.Get(t.Context(), longer, alike); err != nil {
		t.Errorf("the object of a session whose name is longer: %v", err)
	}
	again := mustPut(t, store, mine, []byte("object 3"))
	if _, err := store.Get(t.Context(), mine, again); err != nil {
		t.Errorf("an object put after the purge: %v", err)
	}
	if err := store.Purge(t.Context(), longer); err != nil {
		t.Errorf("purge: %v", err)
	}
}

func testTrees(t *testing.T, store cas.Store) {
	scope := NewScope(t, store)
	var refs []cas.Ref
	for _, tree := range []cas.Tree{cas.TreeObjects, cas.TreeManifests, cas.TreeFiles} {
		ref := mustPut(t, store, scope.In(tree), []byte("in tree "+string(tree)))
		if got, err := store.Get(t.Context(), scope.In(tree), ref); err != nil || string(got) != "in tree "+string(tree) {
			t.Errorf("tree %q: %q, %v", tree, got, err)
		}
		if diff := cmp.Diff([]string{ref.Digest.String()}, listAll(t, store, scope.In(tree))); diff != "" {
			t.Errorf("tree %q lists (-want +got):\n%s", tree, diff)
		}
		refs = append(refs, ref)
	}
	_, err := store.Get(t.Context(), scope, cas.Ref{Digest: cas.Of([]byte("in tree " + string(cas.TreeFiles)))})
	wantError(t, err, cas.ErrNotFound)
	wantError(t, store.List(t.Context(), scope.In("legacy"), func(cas.Ref) error { return nil }), cas.ErrInvalid)
	if err := store.Purge(t.Context(), scope); err != nil {
		t.Fatal(err)
	}
	for i, tree := range []cas.Tree{cas.TreeObjects, cas.TreeManifests, cas.TreeFiles} {
		if left := listAll(t, store, scope.In(tree)); len(left) != 0 {
			t.Errorf("tree %q still has %s after a purge", tree, left)
		}
		_, err := store.Get(t.Context(), scope.In(tree), refs[i])
		wantError(t, err, cas.ErrNotFound)
	}
}

func testContext(t *testing.T, store cas.Store) {
	scope := NewScope(t, store)
	ref := mustPut(t, store, scope, []byte("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := store.Put(ctx, scope, cas.MediaBlob, []byte("y"))
	wantError(t, err, context.Canceled)
	_, err = store.Get(ctx, scope, ref)
	wantError(t, err, context.Canceled)
	wantError(t, store.List(ctx, scope, func(cas.Ref) error { return nil }), context.Canceled)
	wantError(t, store.Purge(ctx, scope), context.Canceled)
	if _, err := store.Get(t.Context(), scope, ref); err != nil {
		t.Errorf("the object after a purge that did not begin: %v", err)
	}
}

func testMessageList(t *testing.T, store cas.Store) {
	scope := NewScope(t, store)
	put := cas.Into(store, scope)
	var refs []cas.MessageRef
	var want []string
	for i := range 70 {
		text := fmt.Sprintf(`{"role":"user","content":"message %d"}`, i)
		refs = append(refs, cas.MessageRef{Digest: mustPut(t, store, scope, []byte(text)).Digest})
		want = append(want, text)
	}
	list, err := cas.BuildList(t.Context(), put, refs, nil)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := cas.NewResolver(store, nil, cas.ResolverOptions{}).List(t.Context(), scope, list)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range messages {
		got = append(got, string(m))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func testBody(t *testing.T, store cas.Store) {
	scope := NewScope(t, store)
	body := Noise(cas.MaxObject+cas.PartSize/2, 4)
	ref, err := cas.PutBody(t.Context(), cas.Into(store, scope), "text/plain", body)
	if err != nil {
		t.Fatal(err)
	}
	got, mediaType, err := cas.GetBody(t.Context(), store, scope, ref, int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	if mediaType != "text/plain" || !bytes.Equal(got, body) {
		t.Errorf("got %d bytes of %s", len(got), mediaType)
	}
}
