package runevent_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
)

func threeRecords(t *testing.T) []runevent.Record {
	t.Helper()
	w := newWriter(t, memlog.New(), nil)
	var out []runevent.Record
	for _, text := range []string{"a", "b", "c"} {
		_, rec, err := w.Append(t.Context(), body(text))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rec)
	}
	return out
}

func TestVerify(t *testing.T) {
	recs := threeRecords(t)
	replaced := recs[2]
	replaced.Raw = []byte(strings.Replace(string(replaced.Raw), `"c"`, `"d"`, 1))
	rehashed := recs[1]
	rehashed.Raw = []byte(strings.Replace(string(rehashed.Raw), `"b"`, `"d"`, 1))
	rehashed.Head.Digest = cas.Of(rehashed.Raw)
	misplaced := recs[2]
	misplaced.Head.Sequence = 2
	garbage := recs[2]
	garbage.Raw = []byte("{")
	garbage.Head.Digest = cas.Of(garbage.Raw)
	newer := recs[2]
	newer.Raw = []byte(`{"sequence":3,"event":{"v":2,"type":"x","evidence":{"prev":"` + recs[1].Head.Digest.String() + `"}}}`)
	newer.Head.Digest = cas.Of(newer.Raw)

	cases := map[string]struct {
		prev runevent.Head
		rec  runevent.Record
		want error
	}{
		"the first entry of a stream":             {runevent.Head{}, recs[0], nil},
		"the entry after another":                 {recs[1].Head, recs[2], nil},
		"an entry of a newer format":              {recs[1].Head, newer, nil},
		"an entry is missing between":             {recs[0].Head, recs[2], runevent.ErrGap},
		"the beginning is missing":                {runevent.Head{}, recs[1], runevent.ErrGap},
		"the same entry again":                    {recs[1].Head, recs[1], runevent.ErrGap},
		"bytes that do not have their digest":     {recs[1].Head, replaced, runevent.ErrDamaged},
		"an entry in the place of another":        {recs[0].Head, misplaced, runevent.ErrDamaged},
		"bytes that are no entry":                 {recs[1].Head, garbage, runevent.ErrDamaged},
		"the entry before was replaced, rehashed": {rehashed.Head, recs[2], runevent.ErrLink},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := runevent.Verify(tc.prev, tc.rec); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}

func TestStreamNames(t *testing.T) {
	good := runevent.Stream{Class: runevent.ClassOut, Namespace: "team-a", Session: "6f1c", Key: "call_1-a2"}
	cases := map[string]struct {
		change func(*runevent.Stream)
		want   error
	}{
		"a good one":                 {func(*runevent.Stream) {}, nil},
		"no class":                   {func(s *runevent.Stream) { s.Class = "" }, runevent.ErrInvalid},
		"a class of another family":  {func(s *runevent.Stream) { s.Class = "work" }, runevent.ErrInvalid},
		"a name with dots":           {func(s *runevent.Stream) { s.Session = "first.session" }, runevent.ErrInvalid},
		"a wildcard as namespace":    {func(s *runevent.Stream) { s.Namespace = "*" }, runevent.ErrInvalid},
		"a wildcard as key":          {func(s *runevent.Stream) { s.Key = ">" }, runevent.ErrInvalid},
		"an empty key":               {func(s *runevent.Stream) { s.Key = "" }, runevent.ErrInvalid},
		"a key with a line break":    {func(s *runevent.Stream) { s.Key = "main\n" }, runevent.ErrInvalid},
		"a key that is far too long": {func(s *runevent.Stream) { s.Key = strings.Repeat("k", 254) }, runevent.ErrInvalid},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := good
			tc.change(&s)
			if err := s.Validate(); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}
