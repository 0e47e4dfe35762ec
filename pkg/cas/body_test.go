package cas_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/castest"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
)

func TestBody(t *testing.T) {
	cases := map[string]struct {
		size int
		puts int64
	}{
		"nothing":              {0, 1},
		"a short body":         {10, 1},
		"the largest object":   {cas.MaxObject, 1},
		"one byte more":        {cas.MaxObject + 1, 4},
		"a multiple of a part": {3 * cas.PartSize, 4},
		"a long body":          {5*cas.PartSize + 17, 7},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			store := castest.NewCounting(memstore.New())
			body := castest.Noise(tc.size, 1)
			ref, err := cas.PutBody(t.Context(), cas.Into(store, scope), "text/plain", body)
			if err != nil {
				t.Fatal(err)
			}
			if got := store.Counts().Puts; got != tc.puts {
				t.Errorf("%d puts, want %d", got, tc.puts)
			}
			streamed, err := cas.PutBodyFrom(t.Context(), cas.Into(store, scope), "text/plain", bytes.NewReader(body), int64(tc.size))
			if err != nil || streamed != ref {
				t.Errorf("from a reader: %+v, %v; want %+v", streamed, err, ref)
			}
			for _, wrong := range []int64{int64(tc.size) + 1, int64(tc.size) - 1} {
				if _, err := cas.PutBodyFrom(t.Context(), cas.Into(store, scope), "text/plain", bytes.NewReader(body), wrong); !errors.Is(err, cas.ErrInvalid) {
					t.Errorf("from a reader of another length: %v, want ErrInvalid", err)
				}
			}
			got, mediaType, err := cas.GetBody(t.Context(), store, scope, ref, int64(tc.size))
			if err != nil {
				t.Fatal(err)
			}
			if mediaType != "text/plain" || !bytes.Equal(got, body) {
				t.Errorf("got %d bytes of %s", len(got), mediaType)
			}
			before := store.Counts().Gets
			if _, _, err := cas.GetBody(t.Context(), store, scope, ref, int64(tc.size)-1); tc.size > 0 && !errors.Is(err, cas.ErrTooLarge) {
				t.Errorf("with a smaller limit: %v", err)
			}
			if read := store.Counts().Gets - before; read > 1 {
				t.Errorf("%d objects were read of a body that is too large", read)
			}
		})
	}
}

func TestReadRange(t *testing.T) {
	for name, size := range map[string]int64{"one object": 1000, "parts": 2*cas.PartSize + 1000} {
		t.Run(name, func(t *testing.T) {
			store := castest.NewCounting(memstore.New())
			body := castest.Noise(int(size), 1)
			for len(body) <= cas.MaxObject && size > 1000 { // the smallest body in parts is longer than an object
				body = append(body, castest.Noise(cas.PartSize, 2)...)
			}
			ref, err := cas.PutBody(t.Context(), cas.Into(store, scope), "text/plain", body)
			if err != nil {
				t.Fatal(err)
			}
			get := func(ref cas.Ref) ([]byte, error) { return store.Get(t.Context(), scope, ref) }
			end := int64(len(body))
			for _, r := range []cas.Range{{0, 0}, {0, 10}, {end - 10, 10}, {end, 0}, {end / 2, 17}, {0, end}, {cas.PartSize - 5, 10}, {cas.PartSize, 5}} {
				if r.Offset+r.Length > end {
					continue
				}
				got, err := cas.ReadRange(ref, r, get)
				if err != nil || !bytes.Equal(got, body[r.Offset:r.Offset+r.Length]) {
					t.Errorf("%+v: %d bytes, %v", r, len(got), err)
				}
			}
			before := store.Counts().Gets
			if _, err := cas.ReadRange(ref, cas.Range{Offset: 5, Length: 5}, get); err != nil || store.Counts().Gets-before > 2 {
				t.Errorf("a short range read %d objects, %v", store.Counts().Gets-before, err)
			}
			for _, r := range []cas.Range{{-1, 1}, {0, end + 1}, {end, 1}, {0, -1}} {
				if _, err := cas.ReadRange(ref, r, get); !errors.Is(err, cas.ErrInvalid) {
					t.Errorf("%+v: %v, want ErrInvalid", r, err)
				}
			}
		})
	}
}

func TestPutBodyFails(t *testing.T) {
	body := make([]byte, cas.MaxObject+1)
	for failing := range 4 {
		store := &failAt{Store: memstore.New(), at: failing}
		if _, err := cas.PutBody(t.Context(), store.put, "text/plain", body); !errors.Is(err, errPut) {
			t.Errorf("put %d fails: got %v", failing, err)
		}
	}
}

func TestGetBodyRefuses(t *testing.T) {
	store := memstore.New()
	part := func(size int) cas.Ref {
		ref, err := store.Put(t.Context(), scope, cas.MediaBlob, make([]byte, size))
		if err != nil {
			t.Fatal(err)
		}
		return cas.Ref{Digest: ref.Digest, Size: ref.Size}
	}
	list := func(v any) cas.Ref {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := store.Put(t.Context(), scope, cas.MediaParts, raw)
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	full, short := part(cas.PartSize), part(100)
	cases := map[string]struct {
		ref  cas.Ref
		want error
	}{
		"a body that is not there":       {cas.Ref{Digest: cas.Of([]byte("none"))}, cas.ErrNotFound},
		"a part that is not there":       {list(cas.Parts{Size: cas.PartSize + 5, Parts: []cas.Ref{full, {Digest: cas.Of([]byte("none")), Size: 5}}}), cas.ErrNotFound},
		"a sum that differs":             {list(cas.Parts{Size: cas.PartSize + 101, Parts: []cas.Ref{full, short}}), cas.ErrCorrupt},
		"a short part in the middle":     {list(cas.Parts{Size: cas.PartSize + 200, Parts: []cas.Ref{short, full, short}}), cas.ErrCorrupt},
		"a part of size zero":            {list(cas.Parts{Size: cas.PartSize, Parts: []cas.Ref{full, {Digest: short.Digest}}}), cas.ErrCorrupt},
		"a part without a digest":        {list(cas.Parts{Size: 5, Parts: []cas.Ref{{Size: 5}}}), cas.ErrCorrupt},
		"a part that is too large":       {list(cas.Parts{Size: cas.PartSize + 1, Parts: []cas.Ref{{Digest: full.Digest, Size: cas.PartSize + 1}}}), cas.ErrCorrupt},
		"a list with an unknown key":     {list(map[string]any{"size": 0, "parts": []any{}, "more": 1}), cas.ErrCorrupt},
		"something else under this type": {list([]int{1}), cas.ErrCorrupt},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, _, err := cas.GetBody(t.Context(), store, scope, tc.ref, 1<<30)
			if !errors.Is(err, tc.want) {
				t.Errorf("got %d bytes and error %v, want %v", len(got), err, tc.want)
			}
		})
	}
}

func TestEqualBodiesShareParts(t *testing.T) {
	store := memstore.New()
	body := castest.Noise(3*cas.PartSize, 1)
	longer := append(bytes.Clone(body), "more"...)
	for _, b := range [][]byte{body, longer, body} {
		if _, err := cas.PutBody(t.Context(), cas.Into(store, scope), "text/plain", b); err != nil {
			t.Fatal(err)
		}
	}
	count := 0
	if err := store.List(t.Context(), scope, func(cas.Ref) error { count++; return nil }); err != nil {
		t.Fatal(err)
	}
	if want := 3 + 1 + 2; count != want {
		t.Errorf("%d objects, want %d: three shared parts, one more, two lists", count, want)
	}
}

// errPut is what failAt fails with.
var errPut = errors.New("store is away")

// failAt fails its put number at, counted from zero.
type failAt struct {
	*memstore.Store
	at, n int
}

func (f *failAt) put(ctx context.Context, mediaType string, data []byte) (cas.Ref, error) {
	f.n++
	if f.n-1 == f.at {
		return cas.Ref{}, errPut
	}
	return f.Store.Put(ctx, scope, mediaType, data)
}
