package runevent

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"unsafe"

	"github.com/agentloop/agentloop/pkg/cas"
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

func read(raw []byte) (Entry, bool) {
	var r reader
	var e Entry
	ok := r.read(raw, &e)
	return e, ok
}

// A decoder that has seen much gives what one gives that has seen nothing.
func TestDecoder(t *testing.T) {
	var d Decoder
	for round := range 3 {
		for name, event := range goldenEvents() {
			for _, text := range []string{event.Text, "a text with\n\"escapes\" and ünï" + name, "plain " + name} {
				event.Text = text
				entry := goldenEntry(event)
				entry.Event.Evidence.AgentRunID = fmt.Sprint("run-", round)
				raw, err := Encode(entry)
				if err != nil {
					t.Fatal(err)
				}
				got, err := d.Decode(raw)
				if err != nil {
					t.Fatal(err)
				}
				same(t, raw, got)
			}
		}
	}
	if _, err := d.Decode([]byte(`{"sequence":2,"event":{"v":1,"ty`)); !errors.Is(err, ErrDamaged) {
		t.Errorf("half an entry: %v", err)
	}
	if e, err := d.Decode([]byte(`{"sequence":2,"event":{"v":1,"type":"run.paused"}}`)); !errors.Is(err, ErrNewerFormat) || e.Sequence != 2 {
		t.Errorf("an unknown type: %+v, %v", e, err)
	}
}

func TestDecoderShares(t *testing.T) {
	var d Decoder
	var contexts []*cas.Ref
	var runs []string
	for i := range 3 {
		entry := goldenEntry(Event{Type: TypeBody, Text: fmt.Sprint("text ", i)})
		entry.Event.Evidence.AgentRunID = "the-run"
		entry.Event.Evidence.ContextRef = &cas.Ref{Digest: cas.Of([]byte("context")), Size: int64(max(i, 1)), MediaType: "a/b"}
		raw, err := Encode(entry)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		contexts, runs = append(contexts, got.Event.Evidence.ContextRef), append(runs, got.Event.Evidence.AgentRunID)
	}
	if contexts[0] != contexts[1] || contexts[1] == contexts[2] || contexts[0].Size != 1 || contexts[2].Size != 2 {
		t.Errorf("references are %p %+v, %p %+v, %p %+v", contexts[0], contexts[0], contexts[1], contexts[1], contexts[2], contexts[2])
	}
	if unsafe.StringData(runs[0]) != unsafe.StringData(runs[2]) { //nolint:gosec // addresses are compared, nothing is read
		t.Error("equal texts stand in memory twice")
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
		"no JSON":            `{"sequence":1}}`,
		"no JSON in a value": `{"sequence":1,"event":{"body":{"a":01}}}`,
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
	var d Decoder
	f.Fuzz(func(t *testing.T, raw []byte) {
		if got, ok := read(raw); ok {
			same(t, raw, got) // fails on what is no JSON
		}
		want, wantErr := Decode(raw)
		for range 2 {
			got, err := d.Decode(raw)
			if fmt.Sprint(err) != fmt.Sprint(wantErr) || !reflect.DeepEqual(got, want) {
				t.Errorf("%q\nis %+v, %v\nwant %+v, %v", raw, got, err, want, wantErr)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	raw, err := Encode(goldenEntry(goldenEvents()["tool.result"]))
	if err != nil {
		b.Fatal(err)
	}
	var d Decoder
	for name, decode := range map[string]func([]byte) (Entry, error){"kept": Decode, "looked at": d.Decode} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decode(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
