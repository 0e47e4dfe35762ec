package cas_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
)

var update = flag.Bool("update", false, "rewrite golden files")

func ptr(i int) *int { return &i }

// The hand-written encoders must say exactly what the struct tags say.
func TestEncodingFollowsTags(t *testing.T) {
	type plainMessage struct {
		Digest cas.Digest `json:"d"`
		Index  *int       `json:"i,omitempty"`
	}
	type plainList struct {
		Segments []cas.Ref      `json:"segments,omitempty"`
		Tail     []plainMessage `json:"tail,omitempty"`
		Count    int            `json:"count"`
	}
	type plainSegment struct {
		Messages []plainMessage `json:"messages"`
	}
	d, e := cas.Of([]byte("d")), cas.Of([]byte("e"))
	messages := []cas.MessageRef{{Digest: d}, {Digest: e, Index: ptr(0)}, {Digest: e, Index: ptr(1234)}}
	plain := []plainMessage{{Digest: d}, {Digest: e, Index: ptr(0)}, {Digest: e, Index: ptr(1234)}}
	segments := []cas.Ref{{Digest: d, Size: 2700}, {Digest: e, Size: 1, MediaType: "text/<\"x\">&y"}}
	cases := map[string]struct{ got, want any }{
		"an empty list":            {cas.MessageList{}, plainList{}},
		"a list with a tail":       {cas.MessageList{Tail: messages, Count: 3}, plainList{Tail: plain, Count: 3}},
		"a list with segments":     {cas.MessageList{Segments: segments, Count: 64}, plainList{Segments: segments, Count: 64}},
		"a list with both":         {cas.MessageList{Segments: segments, Tail: messages, Count: 67}, plainList{Segments: segments, Tail: plain, Count: 67}},
		"a segment":                {cas.Segment{Messages: messages}, plainSegment{Messages: plain}},
		"a reference to a message": {messages[2], plain[2]},
		"a pointer to a reference": {&messages[1], &plain[1]},
		"a list inside a manifest": {
			map[string]any{"history": cas.MessageList{Tail: messages, Count: 3}},
			map[string]any{"history": plainList{Tail: plain, Count: 3}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(tc.got)
			if err != nil {
				t.Fatal(err)
			}
			want, err := json.Marshal(tc.want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("encoding (-want +got):\n%s", diff)
			}
		})
	}
}

func TestManifestGolden(t *testing.T) {
	d, e := cas.Of([]byte("d")), cas.Of([]byte("e"))
	messages := []cas.MessageRef{{Digest: d}, {Digest: e, Index: ptr(0)}, {Digest: e, Index: ptr(2)}}
	cases := map[string]struct {
		value any
		back  any
	}{
		"segment.json": {&cas.Segment{Messages: messages}, &cas.Segment{}},
		"list.json":    {&cas.MessageList{Segments: []cas.Ref{{Digest: d, Size: 2762}}, Tail: messages, Count: 35}, &cas.MessageList{}},
		"parts.json":   {&cas.Parts{MediaType: "text/plain", Size: 9 << 20, Parts: []cas.Ref{{Digest: d, Size: 4 << 20}, {Digest: e, Size: 4 << 20}, {Digest: d, Size: 1 << 20}}}, &cas.Parts{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(tc.value)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("stored form (-want +got):\n%s", diff)
			}
			if err := json.Unmarshal(want, tc.back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.value, tc.back, cmp.Comparer(func(a, b cas.Digest) bool { return a == b })); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessageRefEqual(t *testing.T) {
	d, e := cas.Of([]byte("d")), cas.Of([]byte("e"))
	cases := map[string]struct {
		a, b cas.MessageRef
		want bool
	}{
		"the same message":            {cas.MessageRef{Digest: d}, cas.MessageRef{Digest: d}, true},
		"the same place":              {cas.MessageRef{Digest: d, Index: ptr(1)}, cas.MessageRef{Digest: d, Index: ptr(1)}, true},
		"another message":             {cas.MessageRef{Digest: d}, cas.MessageRef{Digest: e}, false},
		"another place":               {cas.MessageRef{Digest: d, Index: ptr(1)}, cas.MessageRef{Digest: d, Index: ptr(2)}, false},
		"a container and its message": {cas.MessageRef{Digest: d}, cas.MessageRef{Digest: d, Index: ptr(0)}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.a.Equal(tc.b); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
			if got := tc.b.Equal(tc.a); got != tc.want {
				t.Errorf("the other way round: got %t, want %t", got, tc.want)
			}
		})
	}
}
