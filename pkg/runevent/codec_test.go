package runevent

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
)

func TestEncodeRefuses(t *testing.T) {
	cases := map[string]struct {
		change func(*Entry)
		want   error
	}{
		"a sequence below one":               {func(e *Entry) { e.Sequence = 0 }, ErrInvalid},
		"another version":                    {func(e *Entry) { e.Event.V = Version + 1 }, ErrInvalid},
		"an unknown type":                    {func(e *Entry) { e.Event.Type = "run.paused" }, ErrInvalid},
		"a record without a kind":            {func(e *Entry) { e.Event.Type = TypeRecord }, ErrInvalid},
		"a kind outside of records":          {func(e *Entry) { e.Event.Kind = KindApproval }, ErrInvalid},
		"no creation time":                   {func(e *Entry) { e.CreatedAt = time.Time{} }, ErrInvalid},
		"no capture time":                    {func(e *Entry) { e.Event.Evidence.RecordedAt = time.Time{} }, ErrInvalid},
		"a later entry without link":         {func(e *Entry) { e.Event.Evidence.Prev = cas.Digest{} }, ErrInvalid},
		"a first entry with a link":          {func(e *Entry) { e.Sequence = 1 }, ErrInvalid},
		"raw JSON that is none":              {func(e *Entry) { e.Event.Arguments = json.RawMessage(`{"a":`) }, ErrInvalid},
		"a year that RFC 3339 does not have": {func(e *Entry) { e.CreatedAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, ErrInvalid},
		"more bytes than a message may have": {func(e *Entry) { e.Event.Text = strings.Repeat("x", MaxEntry) }, ErrTooLarge},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e := goldenEntry(Event{Type: TypeBody, Text: "text"})
			tc.change(&e)
			if _, err := Encode(e); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}

func TestEncodeMendsInvalidUTF8InRawJSON(t *testing.T) {
	raw, err := Encode(goldenEntry(Event{Type: TypeToolCall, Arguments: json.RawMessage("{\"a\":\"x\xffy\"}")}))
	if err != nil {
		t.Fatal(err)
	}
	if !utf8.Valid(raw) || !strings.Contains(string(raw), "x\uFFFDy") {
		t.Errorf("not mended: %s", raw)
	}
}

func TestDecode(t *testing.T) {
	later := `{"createdAt":"2030-01-01T00:00:00Z","sequence":4,"event":{"v":2,"type":"body","kind":"","text":{"parts":[]},` +
		`"evidence":{"agentId":"main","agentRunId":["a","b"],"recordedAt":"2030-01-01T00:00:00Z","prev":"` + cas.Of([]byte("p")).String() + `"}}}`
	laterEntry := Entry{CreatedAt: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), Sequence: 4, Event: Event{V: 2, Type: TypeBody,
		Evidence: Evidence{AgentID: "main", RecordedAt: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), Prev: cas.Of([]byte("p"))}}}
	cases := map[string]struct {
		raw     string
		want    Entry
		wantErr error
	}{
		"a higher version keeps its envelope": {later, laterEntry, ErrNewerFormat},
		"a higher version whose evidence is no object": {`{"sequence":4,"event":{"v":9,"type":"x","evidence":7}}`,
			Entry{Sequence: 4, Event: Event{V: 9, Type: "x"}}, ErrNewerFormat},
		"a higher version of the same shape": {`{"sequence":4,"event":{"v":3,"type":"x","text":"t"}}`,
			Entry{Sequence: 4, Event: Event{V: 3, Type: "x"}}, ErrNewerFormat},
		"an unknown type": {`{"sequence":2,"event":{"v":1,"type":"run.paused"}}`,
			Entry{Sequence: 2, Event: Event{V: 1, Type: "run.paused"}}, ErrNewerFormat},
		"an unknown record kind": {`{"sequence":2,"event":{"v":1,"type":"agent.record","kind":"forked"}}`,
			Entry{Sequence: 2, Event: Event{V: 1, Type: TypeRecord, Kind: "forked"}}, ErrNewerFormat},
		"a field of a later minor change is ignored": {`{"sequence":2,"event":{"v":1,"type":"body","colour":"red"}}`,
			Entry{Sequence: 2, Event: Event{V: 1, Type: TypeBody}}, nil},
		"a field of another shape in this version": {`{"sequence":2,"event":{"v":1,"type":"body","text":1}}`, Entry{}, ErrDamaged},
		"no version":       {`{"sequence":2,"event":{"type":"body"}}`, Entry{}, ErrDamaged},
		"no sequence":      {`{"event":{"v":1,"type":"body"}}`, Entry{}, ErrDamaged},
		"half an entry":    {`{"sequence":2,"event":{"v":1,"ty`, Entry{}, ErrDamaged},
		"two entries":      {`{"sequence":2,"event":{"v":1,"type":"body"}}{}`, Entry{}, ErrDamaged},
		"nothing":          {``, Entry{}, ErrDamaged},
		"a damaged digest": {`{"sequence":2,"event":{"v":1,"type":"body","evidence":{"prev":"sha256:12"}}}`, Entry{}, ErrDamaged},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Decode([]byte(tc.raw))
			if !errors.Is(err, tc.wantErr) {
				t.Fatalf("error %v, want %v", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got, cmpTime, cmpHash); diff != "" {
				t.Errorf("entry (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever bytes come: Decode does not panic, and what it accepts is encoded to a fixed point.
func FuzzDecode(f *testing.F) {
	for _, event := range goldenEvents() {
		raw, err := Encode(goldenEntry(event))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"sequence":1,"event":{"v":2,"evidence":[]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		entry, err := Decode(raw)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewerFormat) {
				t.Fatalf("unclassified error %v", err)
			}
			return
		}
		once, err := Encode(entry)
		if err != nil {
			return // readable, and not what this code would write: a time or a link is missing
		}
		again, err := Decode(once)
		if err != nil {
			t.Fatalf("own bytes are refused: %v\n%s", err, once)
		}
		twice, err := Encode(again)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("not a fixed point (%v):\n%s\n%s", err, once, twice)
		}
	})
}
