package cas_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/castest"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
)

var scope = cas.Scope{Namespace: "ns", Session: "session-1"}

// refs returns n references, every third of them into a container.
func refs(n int) []cas.MessageRef {
	out := make([]cas.MessageRef, n)
	for i := range out {
		out[i].Digest = cas.Of(fmt.Append(nil, i))
		if i%3 == 2 {
			out[i].Index = ptr(i % 7)
		}
	}
	return out
}

func build(t *testing.T, store cas.Store, start int, list []cas.MessageRef, prev *cas.MessageList) cas.MessageList {
	t.Helper()
	got, err := cas.BuildListAt(t.Context(), cas.Into(store, scope), start, list, prev)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestBuildList(t *testing.T) {
	cases := map[string]struct {
		count, start   int
		segments, tail int
	}{
		"no message":                           {0, 0, 0, 0},
		"one message":                          {1, 0, 0, 1},
		"one short of a segment":               {31, 0, 0, 31},
		"one segment":                          {32, 0, 1, 0},
		"one more":                             {33, 0, 1, 1},
		"many":                                 {1000, 0, 31, 8},
		"a start inside a segment":             {40, 30, 2, 6},
		"a start one before a boundary":        {1, 31, 1, 0},
		"a start whose segment does not close": {20, 5, 0, 20},
		"a start at a later boundary":          {33, 64, 1, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			counting := castest.NewCounting(memstore.New())
			want := refs(tc.count)
			list := build(t, counting, tc.start, want, nil)
			if len(list.Segments) != tc.segments || len(list.Tail) != tc.tail || list.Count != tc.count {
				t.Errorf("%d segments, %d in the tail, count %d; want %d, %d, %d", len(list.Segments), len(list.Tail), list.Count, tc.segments, tc.tail, tc.count)
			}
			if got := counting.Counts().Puts; got != int64(tc.segments) {
				t.Errorf("%d puts, want one for each of %d segments", got, tc.segments)
			}
			got, err := cas.ReadList(t.Context(), counting, scope, list)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.Comparer(cas.MessageRef.Equal)); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBuildListSharesSegments(t *testing.T) {
	store := castest.NewCounting(memstore.New())
	var prev cas.MessageList
	all := refs(400)
	for n := 2; n <= len(all); n += 2 {
		prev = build(t, store, 0, all[:n], &prev)
	}
	if got := store.Counts().Puts; got != 400/cas.SegmentLength {
		t.Errorf("200 growing lists cost %d puts, want %d", got, 400/cas.SegmentLength)
	}
	again := build(t, store, 0, all[:390], &prev)
	if got := store.Counts().Puts; got != 400/cas.SegmentLength {
		t.Errorf("a shorter list cost a put")
	}
	if diff := cmp.Diff(prev.Segments, again.Segments, cmp.Comparer(func(a, b cas.Digest) bool { return a == b })); diff != "" {
		t.Errorf("segments (-longer +shorter):\n%s", diff)
	}
}

func TestBuildListAfterCompaction(t *testing.T) {
	store := castest.NewCounting(memstore.New())
	history := refs(200)
	full := build(t, store, 0, history, nil)
	before := store.Counts().Puts
	boundary := 75
	input := append([]cas.MessageRef{{Digest: cas.Of([]byte("summary"))}}, history[boundary:]...)
	list := build(t, store, boundary-1, input, &full)
	if got := store.Counts().Puts - before; got != 1 {
		t.Errorf("an input behind a checkpoint cost %d puts, want 1 for its first segment", got)
	}
	got, err := cas.ReadList(t.Context(), store, scope, list)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(input, got, cmp.Comparer(cas.MessageRef.Equal)); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func TestBuildListChangedHistory(t *testing.T) {
	store := memstore.New()
	old := refs(96)
	prev := build(t, store, 0, old, nil)
	changed := append([]cas.MessageRef(nil), old...)
	changed[40].Digest = cas.Of([]byte("another message"))
	list := build(t, store, 0, changed, &prev)
	if list.Segments[0] != prev.Segments[0] || list.Segments[1] == prev.Segments[1] || list.Segments[2] != prev.Segments[2] {
		t.Errorf("segments of the changed list do not follow its messages:\n%v\n%v", prev.Segments, list.Segments)
	}
	got, err := cas.ReadList(t.Context(), store, scope, list)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(changed, got, cmp.Comparer(cas.MessageRef.Equal)); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func TestBuildListRefuses(t *testing.T) {
	put := cas.Into(memstore.New(), scope)
	broken := errors.New("store is away")
	withoutDigest, negative := refs(40), refs(40)
	withoutDigest[3], negative[35] = cas.MessageRef{}, cas.MessageRef{Digest: cas.Of(nil), Index: ptr(-1)}
	cases := map[string]struct {
		put   cas.PutFunc
		start int
		refs  []cas.MessageRef
		want  error
	}{
		"a negative start":                  {put, -1, refs(1), cas.ErrInvalid},
		"a message without a digest":        {put, 0, withoutDigest, cas.ErrInvalid},
		"a negative index in the tail":      {put, 0, negative, cas.ErrInvalid},
		"a store that fails":                {func(context.Context, string, []byte) (cas.Ref, error) { return cas.Ref{}, broken }, 0, refs(32), broken},
		"a store that answers another name": {func(context.Context, string, []byte) (cas.Ref, error) { return cas.Ref{Digest: cas.Of(nil)}, nil }, 0, refs(32), cas.ErrCorrupt},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := cas.BuildListAt(t.Context(), tc.put, tc.start, tc.refs, nil); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestBuildListCopiesTail(t *testing.T) {
	in := refs(3)
	list := build(t, memstore.New(), 0, in, nil)
	in[0].Digest = cas.Of([]byte("changed"))
	if list.Tail[0].Digest == in[0].Digest {
		t.Error("the tail shares the caller's slice")
	}
}

func TestReadListRefuses(t *testing.T) {
	store := memstore.New()
	putRaw := func(raw string) cas.Ref {
		ref, err := store.Put(t.Context(), scope, cas.MediaSegment, []byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		return cas.Ref{Digest: ref.Digest, Size: ref.Size}
	}
	good := build(t, store, 0, refs(33), nil)
	one := `{"d":"` + cas.Of(nil).String() + `"}`
	missing := cas.Ref{Digest: cas.Of([]byte("never put")), Size: 10}
	cases := map[string]struct {
		list cas.MessageList
		want error
	}{
		"a missing segment":           {cas.MessageList{Segments: []cas.Ref{good.Segments[0], missing}, Count: 64}, cas.ErrNotFound},
		"a count that is too small":   {cas.MessageList{Segments: good.Segments, Tail: good.Tail, Count: 32}, cas.ErrCorrupt},
		"a count that is too large":   {cas.MessageList{Segments: good.Segments, Tail: good.Tail, Count: 34}, cas.ErrCorrupt},
		"a huge count":                {cas.MessageList{Tail: good.Tail, Count: 1 << 40}, cas.ErrCorrupt},
		"a negative count":            {cas.MessageList{Count: -1}, cas.ErrCorrupt},
		"a message as a segment":      {cas.MessageList{Segments: []cas.Ref{putRaw(`{"role":"user","content":"hi"}`)}, Count: 1}, cas.ErrCorrupt},
		"an empty segment":            {cas.MessageList{Segments: []cas.Ref{putRaw(`{"messages":[]}`)}}, cas.ErrCorrupt},
		"a segment without messages":  {cas.MessageList{Segments: []cas.Ref{putRaw(`{}`)}}, cas.ErrCorrupt},
		"an overlong segment":         {cas.MessageList{Segments: []cas.Ref{putRaw(`{"messages":[` + strings.Repeat(one+",", 32) + one + `]}`)}, Count: 33}, cas.ErrCorrupt},
		"a segment with an empty ref": {cas.MessageList{Segments: []cas.Ref{putRaw(`{"messages":[{"d":""}]}`)}, Count: 1}, cas.ErrCorrupt},
		"bytes behind a segment":      {cas.MessageList{Segments: []cas.Ref{putRaw(`{"messages":[` + one + `]}x`)}, Count: 1}, cas.ErrCorrupt},
		"a tail with an empty ref":    {cas.MessageList{Tail: []cas.MessageRef{{}}, Count: 1}, cas.ErrCorrupt},
		"a segment of another size":   {cas.MessageList{Segments: []cas.Ref{{Digest: good.Segments[0].Digest, Size: 5}}, Count: 32}, cas.ErrTooLarge},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, err := cas.ReadList(t.Context(), store, scope, tc.list); !errors.Is(err, tc.want) {
				t.Errorf("got %d references and error %v, want %v", len(got), err, tc.want)
			}
		})
	}
}

// Any history in any growth is read back exactly, whatever list went before.
func FuzzBuildList(f *testing.F) {
	f.Add(uint16(40), uint16(70), uint16(0))
	f.Add(uint16(70), uint16(40), uint16(31))
	f.Fuzz(func(t *testing.T, first, second, start uint16) {
		store := memstore.New()
		put := cas.Into(store, scope)
		all := refs(int(max(first, second) % 500))
		a, b := all[:min(int(first), len(all))], all[:min(int(second), len(all))]
		prev, err := cas.BuildListAt(t.Context(), put, int(start), a, nil)
		if err != nil {
			t.Fatal(err)
		}
		list, err := cas.BuildListAt(t.Context(), put, int(start), b, &prev)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Tail) >= cas.SegmentLength {
			t.Fatalf("a tail of %d", len(list.Tail))
		}
		got, err := cas.ReadList(t.Context(), store, scope, list)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b, got, cmp.Comparer(cas.MessageRef.Equal)); diff != "" && len(b)+len(got) > 0 {
			t.Fatalf("read back (-want +got):\n%s", diff)
		}
	})
}

// A run of 200 turns that adds two messages a turn and builds an input and a state each time.
func BenchmarkBuildList200Turns(b *testing.B) {
	all := refs(400)
	b.ReportAllocs()
	var puts, bytes int64
	for b.Loop() {
		store := castest.NewCounting(memstore.New())
		put := cas.Into(store, scope)
		var prev cas.MessageList
		var manifests int64
		for n := 2; n <= len(all); n += 2 {
			list, err := cas.BuildList(b.Context(), put, all[:n], &prev)
			if err != nil {
				b.Fatal(err)
			}
			raw, err := json.Marshal(list)
			if err != nil {
				b.Fatal(err)
			}
			manifests += int64(len(raw))
			prev = list
		}
		puts, bytes = store.Counts().Puts, store.Counts().PutBytes+manifests
	}
	b.ReportMetric(float64(puts)/200, "puts/turn")
	b.ReportMetric(float64(bytes)/200, "B/turn")
}

func BenchmarkBuildList10000(b *testing.B) {
	all := refs(10_000)
	put := cas.Into(memstore.New(), scope)
	prev, err := cas.BuildList(b.Context(), put, all[:9_998], nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := cas.BuildList(b.Context(), put, all, &prev); err != nil {
			b.Fatal(err)
		}
	}
}
