package cas_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/castest"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
)

// element is the ExtractFunc of containers that are JSON arrays.
func element(raw []byte, index int) (json.RawMessage, error) {
	var all []json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	if index >= len(all) {
		return nil, fmt.Errorf("no message %d among %d", index, len(all))
	}
	return all[index], nil
}

func putText(t testing.TB, store cas.Store, scope cas.Scope, text string) cas.Digest {
	t.Helper()
	ref, err := store.Put(t.Context(), scope, cas.MediaMessage, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return ref.Digest
}

func texts(messages [][]byte) []string {
	var out []string
	for _, m := range messages {
		out = append(out, string(m))
	}
	return out
}

func TestResolverMessages(t *testing.T) {
	store := castest.NewCounting(memstore.New())
	plain := putText(t, store, scope, `{"m":0}`)
	container := putText(t, store, scope, `[{"m":1}, {"m":2}, {"m":3}]`)
	asked := []cas.MessageRef{
		{Digest: container, Index: ptr(2)}, {Digest: plain}, {Digest: container, Index: ptr(0)}, {Digest: plain}, {Digest: container, Index: ptr(0)},
	}
	want := []string{`{"m":3}`, `{"m":0}`, `{"m":1}`, `{"m":0}`, `{"m":1}`}
	r := cas.NewResolver(store, element, cas.ResolverOptions{})
	for round, gets := range []int64{2, 2} {
		got, err := r.Messages(t.Context(), scope, asked)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, texts(got)); diff != "" {
			t.Errorf("round %d (-want +got):\n%s", round, diff)
		}
		if n := store.Counts().Gets; n != gets {
			t.Errorf("round %d: %d gets in all, want %d", round, n, gets)
		}
	}
	got, err := r.Messages(t.Context(), scope, nil)
	if err != nil || len(got) != 0 {
		t.Errorf("no references: %d messages, error %v", len(got), err)
	}
}

func TestResolverRefuses(t *testing.T) {
	store := memstore.New()
	plain := putText(t, store, scope, `{"m":0}`)
	elsewhere := putText(t, store, cas.Scope{Namespace: "ns", Session: "other"}, `{"m":9}`)
	cases := map[string]struct {
		extract cas.ExtractFunc
		refs    []cas.MessageRef
		want    error
	}{
		"a missing object":             {element, []cas.MessageRef{{Digest: plain}, {Digest: cas.Of([]byte("none"))}}, cas.ErrNotFound},
		"another session's object":     {element, []cas.MessageRef{{Digest: elsewhere}}, cas.ErrNotFound},
		"a reference without a digest": {element, []cas.MessageRef{{}}, cas.ErrInvalid},
		"a container without extract":  {nil, []cas.MessageRef{{Digest: plain, Index: ptr(0)}}, cas.ErrInvalid},
		"an object that is none":       {element, []cas.MessageRef{{Digest: plain, Index: ptr(0)}}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := cas.NewResolver(store, tc.extract, cas.ResolverOptions{}).Messages(t.Context(), scope, tc.refs)
			if err == nil {
				t.Fatalf("got %q", texts(got))
			}
			if tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestResolverCacheKeepsSessionsApart(t *testing.T) {
	store := memstore.New()
	digest := putText(t, store, scope, `{"m":0}`)
	r := cas.NewResolver(store, element, cas.ResolverOptions{})
	asked := []cas.MessageRef{{Digest: digest}}
	if _, err := r.Messages(t.Context(), scope, asked); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Messages(t.Context(), cas.Scope{Namespace: "ns", Session: "other"}, asked); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("another session reads the cached message: %v", err)
	}
}

func TestResolverCacheIsBounded(t *testing.T) {
	store := castest.NewCounting(memstore.New())
	big := strings.Repeat("x", 10_000)
	var asked []cas.MessageRef
	for i := range 10 {
		asked = append(asked, cas.MessageRef{Digest: putText(t, store, scope, fmt.Sprint(i, big))})
	}
	cases := map[string]struct {
		bytes int64
		gets  int64 // of asking for all, then for the last three
	}{
		"everything fits":      {1 << 20, 10},
		"three fit":            {32_000, 10},
		"two fit":              {25_000, 11},
		"none is to be kept":   {-1, 13},
		"none fits":            {5_000, 13},
		"the default is large": {0, 10},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			counting := castest.NewCounting(store)
			r := cas.NewResolver(counting, nil, cas.ResolverOptions{CacheBytes: tc.bytes})
			for _, part := range [][]cas.MessageRef{asked, asked[7:]} {
				if _, err := r.Messages(t.Context(), scope, part); err != nil {
					t.Fatal(err)
				}
			}
			if got := counting.Counts().Gets; got != tc.gets {
				t.Errorf("%d gets, want %d", got, tc.gets)
			}
		})
	}
}

// gate is a store whose gets wait until the wanted number of them is there.
type gate struct {
	*memstore.Store
	want    int64
	inside  atomic.Int64
	highest atomic.Int64
	open    chan struct{}
	once    sync.Once
}

func (g *gate) Get(ctx context.Context, scope cas.Scope, ref cas.Ref) ([]byte, error) {
	n := g.inside.Add(1)
	defer g.inside.Add(-1)
	for old := g.highest.Load(); n > old && !g.highest.CompareAndSwap(old, n); old = g.highest.Load() {
	}
	if n == g.want {
		g.once.Do(func() { close(g.open) })
	}
	select {
	case <-g.open:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return g.Store.Get(ctx, scope, ref)
}

func TestResolverReadsInParallelWithinBounds(t *testing.T) {
	g := &gate{Store: memstore.New(), want: 4, open: make(chan struct{})}
	var asked []cas.MessageRef
	var want []string
	for i := range 50 {
		asked = append(asked, cas.MessageRef{Digest: putText(t, g.Store, scope, fmt.Sprint(i))})
		want = append(want, fmt.Sprint(i))
	}
	got, err := cas.NewResolver(g, nil, cas.ResolverOptions{Parallel: 4}).Messages(t.Context(), scope, asked)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if n := g.highest.Load(); n != 4 {
		t.Errorf("%d gets at once, want 4", n)
	}
}

func TestResolverStopsWithContext(t *testing.T) {
	g := &gate{Store: memstore.New(), want: 1000, open: make(chan struct{})}
	var asked []cas.MessageRef
	for i := range 20 {
		asked = append(asked, cas.MessageRef{Digest: putText(t, g.Store, scope, fmt.Sprint(i))})
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := cas.NewResolver(g, nil, cas.ResolverOptions{}).Messages(ctx, scope, asked)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestResolverIsSafeForConcurrentUse(t *testing.T) {
	store := memstore.New()
	var asked []cas.MessageRef
	var want []string
	for i := range 60 {
		asked = append(asked, cas.MessageRef{Digest: putText(t, store, scope, fmt.Sprint(i))})
		want = append(want, fmt.Sprint(i))
	}
	r := cas.NewResolver(store, nil, cas.ResolverOptions{CacheBytes: 5000})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := r.Messages(t.Context(), scope, asked)
			if err != nil {
				t.Error(err)
				return
			}
			if diff := cmp.Diff(want, texts(got)); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
	wg.Wait()
}
