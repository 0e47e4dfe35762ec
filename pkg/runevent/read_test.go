package runevent

import (
	"encoding/json"
	"reflect"
	"testing"
)

// What read makes of an entry is what encoding/json makes of it.
func TestReadIsWhatEncodingJSONReads(t *testing.T) {
	for name, event := range goldenEvents() {
		raw, err := Encode(goldenEntry(event))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := read(raw)
		if !ok {
			t.Errorf("%s: gave up on\n%s", name, raw)
		}
		same(t, raw, got)
	}
}

func same(t *testing.T, raw []byte, got Entry) {
	t.Helper()
	var want Entry
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\nread %+v\nwant %+v", raw, got, want)
	}
}

func TestReadGivesUpOn(t *testing.T) {
	for name, raw := range map[string]string{
		"another order":      `{"sequence":1,"createdAt":"2026-03-14T08:26:55Z"}`,
		"a key twice":        `{"sequence":1,"sequence":2}`,
		"another case":       `{"Sequence":1}`,
		"an unknown key":     `{"sequence":1,"other":1}`,
		"null":               `{"createdAt":null,"sequence":1}`,
		"another type":       `{"sequence":"1"}`,
		"a number too large": `{"sequence":12345678901234567890}`,
		"a fraction":         `{"sequence":1.0}`,
		"no object":          `{"sequence":1,"event":{"config":[]}}`,
		"no digest":          `{"sequence":1,"event":{"config":{"digest":"x"}}}`,
		"an array":           `[]`,
	} {
		if _, ok := read([]byte(raw)); ok {
			t.Errorf("%s: read %s", name, raw)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, event := range goldenEvents() {
		raw, err := Encode(goldenEntry(event))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		if got, ok := read(raw); ok {
			same(t, raw, got)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	raw, err := Encode(goldenEntry(goldenEvents()["tool.result"]))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}
