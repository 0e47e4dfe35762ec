package codemode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"testing"
)

// modes are what this test program does instead of testing when it is started with the argument.
var modes = map[string]func() int{ChildArgument: func() int { return Child(os.Stdin, os.Stdout) }}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && modes[os.Args[1]] != nil {
		os.Exit(modes[os.Args[1]]())
	}
	os.Exit(m.Run())
}

// TestFrames holds the two ends of the protocol to each other and to the bounds.
func TestFrames(t *testing.T) {
	var buf bytes.Buffer
	want := frame{Call: &callFrame{ID: 7, Kind: kindTool, Name: "a.b", Arguments: []byte(`{"x":1}`)}}
	if err := writeFrame(&buf, want, 200); err != nil {
		t.Fatal(err)
	}
	whole := buf.Bytes()
	got, err := readFrame(bytes.NewReader(whole), 200)
	if err != nil || got.Call == nil || got.Call.Name != "a.b" || string(got.Call.Arguments) != `{"x":1}` {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := writeFrame(io.Discard, want, 10); !errors.Is(err, errTooLong) {
		t.Errorf("a long frame: %v", err)
	}
	sized := func(n uint32, rest string) []byte { return append(binary.BigEndian.AppendUint32(nil, n), rest...) }
	cases := map[string]struct {
		raw  []byte
		want error
	}{
		"nothing":                  {nil, io.EOF},
		"half a length":            {[]byte{0, 0}, errFrame},
		"a length and no more":     {sized(4, ""), errFrame},
		"a frame that is cut off":  {whole[:len(whole)-1], errFrame},
		"a length above the bound": {sized(1<<31, "{}"), errTooLong},
		"no JSON":                  {sized(2, "{x"), errFrame},
		"no message":               {sized(2, "{}"), errFrame},
		"two messages":             {sized(23, `{"call":{},"done":null}`)[:27], nil},
		"two real messages":        {sized(21, `{"call":{},"done":{}}`), errFrame},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := readFrame(bytes.NewReader(tc.raw), 200); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}

// FuzzReadFrame reads whatever a broken interpreter process may write: no panic, nothing above the bound, and a frame
// that was read is written again as one.
func FuzzReadFrame(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"call":{"id":1,"kind":"tool","name":"a.b","arguments":{}}}`, `{"done":{"value":"1"}}`, `{"reply":{"id":1,"error":"x"}}`, `{"run":{}}`} {
		f.Add(append(binary.BigEndian.AppendUint32(nil, uint32(len(seed))), seed...))
	}
	f.Add([]byte{255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		const limit = 1 << 12
		got, err := readFrame(bytes.NewReader(raw), limit)
		if err != nil {
			return
		}
		if got.fields() != 1 || len(raw) < 4 || binary.BigEndian.Uint32(raw) > limit {
			t.Fatalf("took %q", raw)
		}
		var out bytes.Buffer
		if err := writeFrame(&out, got, 8*limit); err != nil {
			t.Fatalf("%q cannot be written: %v", raw, err)
		}
		if _, err := readFrame(&out, 8*limit); err != nil {
			t.Fatalf("%q cannot be read again: %v", raw, err)
		}
	})
}
