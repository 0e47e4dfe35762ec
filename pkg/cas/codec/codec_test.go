package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/castest"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestEncode(t *testing.T) {
	type want struct {
		codec byte
		size  int // of the envelope; 0 for any
	}
	text := []byte(strings.Repeat("compressible text, ", 1000))
	cases := map[string]struct {
		data []byte
		want want
	}{
		"nothing is stored raw":                        {nil, want{codecRaw, 9}},
		"512 bytes are stored raw":                     {bytes.Repeat([]byte("a"), 512), want{codecRaw, 521}},
		"513 compressible bytes are compressed":        {bytes.Repeat([]byte("a"), 513), want{codecZstd, 0}},
		"text is compressed":                           {text, want{codecZstd, 0}},
		"noise is stored raw":                          {castest.Noise(10_000, 1), want{codecRaw, 10_009}},
		"noise that saves less than a tenth stays raw": {append(castest.Noise(10_000, 1), make([]byte, 1000)...), want{codecRaw, 11_009}},
		"noise that saves more is compressed":          {append(castest.Noise(10_000, 1), make([]byte, 2000)...), want{codecZstd, 0}},
		"the largest object":                           {castest.Noise(cas.MaxObject, 1), want{codecRaw, cas.MaxObject + 9}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			encoded, err := Encode(tc.data)
			if err != nil {
				t.Fatal(err)
			}
			if encoded[4] != tc.want.codec {
				t.Errorf("codec %d, want %d", encoded[4], tc.want.codec)
			}
			if tc.want.size > 0 && len(encoded) != tc.want.size {
				t.Errorf("%d bytes, want %d", len(encoded), tc.want.size)
			}
			if int64(len(encoded)) > MaxEncoded(int64(len(tc.data))) {
				t.Errorf("%d bytes are more than MaxEncoded says", len(encoded))
			}
			got, err := Decode(encoded, cas.MaxObject)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, tc.data) {
				t.Error("other bytes came back")
			}
		})
	}
	if _, err := Encode(make([]byte, cas.MaxObject+1)); !errors.Is(err, cas.ErrTooLarge) {
		t.Errorf("an object above the limit: %v", err)
	}
}

// envelope builds one by hand, with any claim.
func envelope(codec byte, size uint32, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(append([]byte("ALC\x01"), codec), size)
	return append(b, payload...)
}

func compressed(t *testing.T, data []byte) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return enc.EncodeAll(data, nil)
}

func TestDecodeRefuses(t *testing.T) {
	bomb := compressed(t, make([]byte, 64<<20))
	ten := compressed(t, []byte("0123456789"))
	cases := map[string]struct {
		encoded []byte
		limit   int64
		want    error
	}{
		"nothing":                              {nil, 100, cas.ErrCorrupt},
		"a cut header":                         {[]byte("ALC\x01\x00\x00\x00"), 100, cas.ErrCorrupt},
		"another magic":                        {[]byte("ALX\x01\x00\x00\x00\x00\x01a"), 100, cas.ErrCorrupt},
		"a later version of the envelope":      {[]byte("ALC\x02\x00\x00\x00\x00\x01a"), 100, cas.ErrCorrupt},
		"an unknown codec":                     {envelope(7, 1, []byte("a")), 100, cas.ErrCorrupt},
		"a raw payload that is cut":            {envelope(codecRaw, 10, []byte("012345678")), 100, cas.ErrCorrupt},
		"a raw payload with bytes behind it":   {envelope(codecRaw, 10, []byte("0123456789a")), 100, cas.ErrCorrupt},
		"more than the limit":                  {envelope(codecRaw, 101, make([]byte, 101)), 100, cas.ErrTooLarge},
		"more than any object":                 {envelope(codecRaw, cas.MaxObject+1, nil), 1 << 40, cas.ErrTooLarge},
		"a compressed payload that is cut":     {envelope(codecZstd, 10, ten[:len(ten)-2]), 100, cas.ErrCorrupt},
		"a compressed payload that is longer":  {envelope(codecZstd, 9, ten), 100, cas.ErrCorrupt},
		"a compressed payload that is shorter": {envelope(codecZstd, 11, ten), 100, cas.ErrCorrupt},
		"a compressed payload with a tail":     {envelope(codecZstd, 10, append(bytes.Clone(ten), "tail"...)), 100, cas.ErrCorrupt},
		"two frames that are longer together":  {envelope(codecZstd, 10, append(bytes.Clone(ten), ten...)), 100, cas.ErrCorrupt},
		"a bomb that claims to be small":       {envelope(codecZstd, 1000, bomb), cas.MaxObject, cas.ErrCorrupt},
		"a bomb that claims the largest size":  {envelope(codecZstd, cas.MaxObject, bomb), cas.MaxObject, cas.ErrCorrupt},
		"noise in place of a frame":            {envelope(codecZstd, 10, castest.Noise(100, 9)), 100, cas.ErrCorrupt},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			data, err := Decode(tc.encoded, tc.limit)
			if !errors.Is(err, tc.want) {
				t.Errorf("got %d bytes and error %v, want %v", len(data), err, tc.want)
			}
		})
	}
}

func TestReadVerified(t *testing.T) {
	data := []byte(strings.Repeat("words ", 500))
	encoded, err := Encode(data)
	if err != nil {
		t.Fatal(err)
	}
	ref := cas.Ref{Digest: cas.Of(data), Size: int64(len(data))}
	other := cas.Ref{Digest: cas.Of([]byte("other")), Size: ref.Size}
	broken := errors.New("connection broke")
	cases := map[string]struct {
		read []byte
		fail error
		ref  cas.Ref
		want error
	}{
		"the object itself":                     {encoded, nil, ref, nil},
		"the object without a known size":       {encoded, nil, cas.Ref{Digest: ref.Digest}, nil},
		"another object":                        {encoded, nil, other, cas.ErrCorrupt},
		"a reference that allows less":          {encoded, nil, cas.Ref{Digest: ref.Digest, Size: ref.Size - 1}, cas.ErrTooLarge},
		"a reference that promises more":        {encoded, nil, cas.Ref{Digest: ref.Digest, Size: ref.Size + 1}, cas.ErrCorrupt},
		"an endless reader":                     {make([]byte, 20<<20), nil, ref, cas.ErrTooLarge},
		"a reader that fails":                   {encoded[:20], broken, ref, broken},
		"a reference without a digest":          {encoded, nil, cas.Ref{}, cas.ErrInvalid},
		"a reference larger than any object is": {encoded, nil, cas.Ref{Digest: ref.Digest, Size: 1 << 40}, cas.ErrTooLarge},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := iotest.OneByteReader(bytes.NewReader(tc.read))
			if tc.fail != nil {
				r = &failing{bytes.NewReader(tc.read), tc.fail}
			}
			got, err := ReadVerified(r, tc.ref)
			if !errors.Is(err, tc.want) {
				t.Fatalf("got error %v, want %v", err, tc.want)
			}
			if tc.fail != nil && errors.Is(err, cas.ErrCorrupt) {
				t.Errorf("a failing reader is taken for a corrupt object: %v", err)
			}
			if tc.want == nil && !bytes.Equal(got, data) {
				t.Error("other bytes came back")
			}
		})
	}
}

type failing struct {
	r   *bytes.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	if f.r.Len() > 0 {
		return f.r.Read(p)
	}
	return 0, f.err
}

// Stored envelopes stay readable: these files were written once and are only read. New ones are made with -update when
// the format gets a new codec or version.
func TestGolden(t *testing.T) {
	cases := map[string][]byte{
		"raw.bin":  []byte(`{"role":"user","content":"hi"}`),
		"zstd.bin": []byte(strings.Repeat(`{"role":"user","content":"hi"}`, 40)),
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name)
			if *update {
				encoded, err := Encode(data)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, encoded, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			encoded, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(encoded, cas.MaxObject)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, data) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// Whatever the bytes are, decoding stays within the limit and either fails as documented or returns the claimed size.
func FuzzDecode(f *testing.F) {
	for _, data := range [][]byte{nil, []byte("a"), bytes.Repeat([]byte("ab"), 400), castest.Noise(600, 1)} {
		encoded, err := Encode(data)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded, int64(cas.MaxObject))
		f.Add(encoded[:len(encoded)-1], int64(100))
	}
	f.Fuzz(func(t *testing.T, encoded []byte, limit int64) {
		data, err := Decode(encoded, limit)
		if err != nil {
			if !errors.Is(err, cas.ErrCorrupt) && !errors.Is(err, cas.ErrTooLarge) {
				t.Fatalf("undocumented error: %v", err)
			}
			return
		}
		if int64(len(data)) > min(limit, cas.MaxObject) {
			t.Fatalf("%d bytes with limit %d", len(data), limit)
		}
		if claimed := binary.BigEndian.Uint32(encoded[5:]); int(claimed) != len(data) {
			t.Fatalf("%d bytes, the envelope says %d", len(data), claimed)
		}
	})
}

// Whatever is encoded comes back, and no envelope is longer than promised.
func FuzzEncode(f *testing.F) {
	f.Add([]byte("hello"), 3)
	f.Add(castest.Noise(64, 1), 200)
	f.Fuzz(func(t *testing.T, unit []byte, times int) {
		data := bytes.Repeat(unit, min(max(times, 0), 4096))
		if len(data) > 1<<20 {
			data = data[:1<<20]
		}
		encoded, err := Encode(data)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(encoded)) > MaxEncoded(int64(len(data))) {
			t.Fatalf("%d bytes became %d", len(data), len(encoded))
		}
		got, err := Decode(encoded, int64(len(data)))
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes came back as %d: %v", len(data), len(got), err)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	for name, data := range map[string][]byte{
		"manifest": []byte(strings.Repeat(`{"d":"sha256:`+cas.Of(nil).Hex()+`","i":1},`, 32)),
		"noise":    castest.Noise(1<<20, 1),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Encode(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
