package cas_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
)

func TestVerify(t *testing.T) {
	data := []byte("0123456789")
	d := cas.Of(data)
	large := make([]byte, cas.MaxObject+1)
	cases := map[string]struct {
		ref  cas.Ref
		data []byte
		want error
	}{
		"the object":                    {cas.Ref{Digest: d, Size: 10}, data, nil},
		"the object of unknown size":    {cas.Ref{Digest: d}, data, nil},
		"one byte changed":              {cas.Ref{Digest: d, Size: 10}, []byte("0123456780"), cas.ErrCorrupt},
		"one byte missing":              {cas.Ref{Digest: d, Size: 10}, data[:9], cas.ErrCorrupt},
		"one byte more":                 {cas.Ref{Digest: d, Size: 10}, []byte("0123456789a"), cas.ErrTooLarge},
		"nothing for something":         {cas.Ref{Digest: d}, nil, cas.ErrCorrupt},
		"more than any object":          {cas.Ref{Digest: cas.Of(large)}, large, cas.ErrTooLarge},
		"the largest object":            {cas.Ref{Digest: cas.Of(large[1:]), Size: cas.MaxObject}, large[1:], nil},
		"a reference that says nothing": {cas.Ref{}, data, cas.ErrCorrupt},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := cas.Verify(tc.ref, tc.data); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// endless never stops and counts what was taken from it.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

func TestReadVerified(t *testing.T) {
	data := []byte("0123456789")
	ref := cas.Ref{Digest: cas.Of(data), Size: 10}
	cases := map[string]struct {
		r    io.Reader
		ref  cas.Ref
		want error
	}{
		"the object":             {bytes.NewReader(data), ref, nil},
		"a reader that goes on":  {io.MultiReader(bytes.NewReader(data), strings.NewReader("a")), ref, cas.ErrTooLarge},
		"a broken connection":    {io.MultiReader(bytes.NewReader(data[:4]), failingReader{io.ErrUnexpectedEOF}), ref, io.ErrUnexpectedEOF},
		"a short object":         {bytes.NewReader(data[:4]), ref, cas.ErrCorrupt},
		"no digest":              {bytes.NewReader(data), cas.Ref{}, cas.ErrInvalid},
		"a negative size":        {bytes.NewReader(data), cas.Ref{Digest: ref.Digest, Size: -1}, cas.ErrInvalid},
		"a size above the limit": {bytes.NewReader(data), cas.Ref{Digest: ref.Digest, Size: cas.MaxObject + 1}, cas.ErrTooLarge},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := cas.ReadVerified(tc.r, tc.ref); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
	var r endless
	if _, err := cas.ReadVerified(&r, ref); !errors.Is(err, cas.ErrTooLarge) {
		t.Errorf("an endless reader: %v", err)
	}
	if r.read > 4096 {
		t.Errorf("%d bytes were read for an object of 10", r.read)
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

func TestKey(t *testing.T) {
	d := cas.Of(nil)
	long := strings.Repeat("a", 63)
	cases := map[string]struct {
		scope  cas.Scope
		digest cas.Digest
		want   string
	}{
		"an object":      {cas.Scope{Namespace: "team-a", Session: "0b5c8f9e-1d2c-4f6b-9a53-0a1b2c3d4e5f"}, d, "v1/team-a/0b5c8f9e-1d2c-4f6b-9a53-0a1b2c3d4e5f/cas/sha256/e3/b0/" + emptyHex},
		"longest parts":  {cas.Scope{Namespace: long, Session: long}, d, "v1/" + long + "/" + long + "/cas/sha256/e3/b0/" + emptyHex},
		"no digest":      {cas.Scope{Namespace: "a", Session: "b"}, cas.Digest{}, ""},
		"a dot":          {cas.Scope{Namespace: "a.b", Session: "b"}, d, ""},
		"a dash first":   {cas.Scope{Namespace: "-a", Session: "b"}, d, ""},
		"a dash last":    {cas.Scope{Namespace: "a", Session: "b-"}, d, ""},
		"a parent":       {cas.Scope{Namespace: "..", Session: "b"}, d, ""},
		"a zero byte":    {cas.Scope{Namespace: "a\x00", Session: "b"}, d, ""},
		"other letters":  {cas.Scope{Namespace: "ä", Session: "b"}, d, ""},
		"too long a UID": {cas.Scope{Namespace: "a", Session: long + "a"}, d, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := cas.Key(tc.scope, tc.digest)
			if got != tc.want {
				t.Errorf("got key %q, want %q", got, tc.want)
			}
			if tc.want == "" && !errors.Is(err, cas.ErrInvalid) {
				t.Errorf("got error %v, want %v", err, cas.ErrInvalid)
			}
		})
	}
}

func TestParseObjectKey(t *testing.T) {
	cases := map[string]bool{
		"e3/b0/" + emptyHex:                  true,
		"e3/b1/" + emptyHex:                  false,
		"b0/b0/" + emptyHex:                  false,
		emptyHex:                             false,
		"e3/b0/" + emptyHex + ".tmp":         false,
		"e3/b0/" + emptyHex + "/x":           false,
		"e3/b0/" + strings.ToUpper(emptyHex): false,
		"":                                   false,
	}
	for rest, want := range cases {
		if _, ok := cas.ParseObjectKey(rest); ok != want {
			t.Errorf("%q: got %t, want %t", rest, ok, want)
		}
	}
}

func TestIsFinal(t *testing.T) {
	got := map[string]bool{}
	for name, err := range map[string]error{
		"none": nil, "missing": fmt.Errorf("x: %w", cas.ErrNotFound), "corrupt": cas.ErrCorrupt, "large": cas.ErrTooLarge,
		"malformed": cas.ErrInvalid, "cancelled": context.Canceled, "other": errors.New("connection reset"),
	} {
		got[name] = cas.IsFinal(err)
	}
	want := map[string]bool{"none": false, "missing": true, "corrupt": true, "large": true, "malformed": true, "cancelled": false, "other": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("final errors (-want +got):\n%s", diff)
	}
}
