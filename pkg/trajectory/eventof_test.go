package trajectory

import (
	"encoding/json"
	"testing"
)

// FuzzEventOf holds the fast way to an entry's event against encoding/json.
func FuzzEventOf(f *testing.F) {
	for _, seed := range []string{
		`{"createdAt":"2026-01-01T00:00:00Z","sequence":1,"event":{"v":1,"type":"body"}}`, `{"event":1,"event":2}`, `{"Event":1}`, `{"other":1,"event":[ 1 ]}`,
		`{"sequence":1}`, `{"event":null}`, `{"event":1`, `[]`, ``, `{"event": "x" } `, `{"\u0065vent":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var outer struct {
			Event json.RawMessage `json:"event"`
		}
		if json.Unmarshal(raw, &outer) != nil {
			outer.Event = nil
		}
		if got := eventOf(raw); string(got) != string(outer.Event) || (got == nil) != (outer.Event == nil) {
			t.Fatalf("%q has %q, want %q", raw, got, outer.Event)
		}
	})
}
