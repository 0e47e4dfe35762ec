package recent_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/castest"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/cas/recent"
)

var (
	scope = cas.Scope{Namespace: "ns", Session: "s1"}
	other = cas.Scope{Namespace: "ns", Session: "s2"}
)

func TestConformance(t *testing.T) {
	castest.Run(t, func(t *testing.T) cas.Store {
		store, err := recent.New(memstore.New(), recent.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return store
	})
}

// bench is a store with a clock, over one that counts.
type bench struct {
	*testing.T
	*recent.Store
	below *castest.Counting
	now   time.Time
}

func (b *bench) put(scope cas.Scope, data []byte) cas.Ref {
	b.Helper()
	ref, err := b.Put(b.Context(), scope, cas.MediaBlob, data)
	if err != nil {
		b.Fatal(err)
	}
	return ref
}

func (b *bench) get(scope cas.Scope, ref cas.Ref, want []byte) {
	b.Helper()
	got, err := b.Get(b.Context(), scope, ref)
	if err != nil || !bytes.Equal(got, want) {
		b.Errorf("%.20q, %v; want %.20q", got, err, want)
	}
	clear(got) // it is the caller's
}

func TestGetsThatReachTheStore(t *testing.T) {
	short, long := []byte("a"), bytes.Repeat([]byte("x"), 70<<10)
	cases := map[string]struct {
		steps func(b *bench)
		want  int64
	}{
		"none for what was just put": {func(b *bench) {
			ref := b.put(scope, short)
			b.get(scope, ref, short)
			b.get(scope, ref, short)
			b.get(scope, cas.Ref{Digest: ref.Digest}, short)
		}, 0},
		"one for what was put before": {func(b *bench) {
			ref, err := b.below.Put(b.Context(), scope, cas.MediaBlob, short)
			if err != nil {
				b.Fatal(err)
			}
			b.get(scope, ref, short)
			b.get(scope, ref, short)
		}, 1},
		"all for what is not there": {func(b *bench) {
			for range 2 {
				if _, err := b.Get(b.Context(), scope, cas.Ref{Digest: cas.Of(short)}); !errors.Is(err, cas.ErrNotFound) {
					b.Error(err)
				}
			}
		}, 2},
		"the one by another session": {func(b *bench) {
			ref := b.put(scope, short)
			if _, err := b.Get(b.Context(), other, ref); !errors.Is(err, cas.ErrNotFound) {
				b.Error(err)
			}
		}, 1},
		"the one by a reference with another size": {func(b *bench) {
			ref := b.put(scope, short)
			ref.Size = 9
			if _, err := b.Get(b.Context(), scope, ref); err == nil {
				b.Error("another size is read")
			}
		}, 1},
		"the one just when the time is over": {func(b *bench) {
			ref := b.put(scope, short)
			b.now = b.now.Add(time.Minute - time.Nanosecond)
			b.get(scope, ref, short)
			b.now = b.now.Add(time.Nanosecond)
			b.get(scope, ref, short)
			b.get(scope, ref, short)
		}, 1},
		"the one after the clock went back": {func(b *bench) {
			ref := b.put(scope, short)
			b.now = b.now.Add(-time.Hour)
			b.get(scope, ref, short)
		}, 1},
		"all of a long object": {func(b *bench) {
			ref := b.put(scope, long)
			b.get(scope, ref, long)
			b.get(scope, ref, long)
		}, 2},
		"the one of an object that others pushed out": {func(b *bench) {
			ref := b.put(scope, short)
			for i := range 20 {
				b.put(scope, fmt.Appendf(nil, "%08192d", i))
			}
			b.get(scope, ref, short)
		}, 1},
		"the one of a purged session": {func(b *bench) {
			ref, kept := b.put(scope, short), b.put(other, short)
			if err := b.Purge(b.Context(), scope); err != nil {
				b.Fatal(err)
			}
			if _, err := b.Get(b.Context(), scope, ref); !errors.Is(err, cas.ErrNotFound) {
				b.Error(err)
			}
			b.get(other, kept, short)
		}, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := &bench{T: t, below: castest.NewCounting(memstore.New()), now: time.Unix(1000, 0)}
			var err error
			if b.Store, err = recent.New(b.below, recent.Options{Bytes: 128 << 10, Now: func() time.Time { return b.now }}); err != nil {
				t.Fatal(err)
			}
			tc.steps(b)
			if got := b.below.Counts().Gets; got != tc.want {
				t.Errorf("%d gets reached the store, want %d", got, tc.want)
			}
		})
	}
}
