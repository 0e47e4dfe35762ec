package jsonwalk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestObject(t *testing.T) {
	cases := map[string]struct {
		in   string
		ok   bool
		want [][2]string
	}{
		"empty":                             {in: ` { } `, ok: true},
		"not an object":                     {in: ` [{"a":1}]`},
		"order and duplicates are kept":     {in: `{"b":1,"a":2,"b":3}`, ok: true, want: [][2]string{{"b", "1"}, {"a", "2"}, {"b", "3"}}},
		"spaces around tokens are left out": {in: "{ \"a\" :\t[ 1 , 2 ]\r\n, \"b\" : null }", ok: true, want: [][2]string{{"a", "[ 1 , 2 ]"}, {"b", "null"}}},
		"keys are unescaped":                {in: `{"a\u0062":1,"\"":2}`, ok: true, want: [][2]string{{"ab", "1"}, {`"`, "2"}}},
		"braces and quotes inside strings":  {in: `{"a":"}\"{\\","b":{"c":"]"},"d":[{"e":[]}]}`, ok: true, want: [][2]string{{"a", `"}\"{\\"`}, {"b", `{"c":"]"}`}, {"d", `[{"e":[]}]`}}},
		"only own members":                  {in: `{"a":{"b":1}}`, ok: true, want: [][2]string{{"a", `{"b":1}`}}},
		"empty key and value":               {in: `{"":""}`, ok: true, want: [][2]string{{"", `""`}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got [][2]string
			ok, err := Object([]byte(tc.in), func(key, value []byte) error {
				got = append(got, [2]string{string(key), string(value)})
				return nil
			})
			if ok != tc.ok || err != nil {
				t.Errorf("ok %v, error %v", ok, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestArray(t *testing.T) {
	var got []string
	ok, err := Array([]byte(` [ 1 , "a,]" ,[2,3], {"k":[4]} ,true]`), func(value []byte) error {
		got = append(got, string(value))
		return nil
	})
	if !ok || err != nil {
		t.Fatalf("ok %v, error %v", ok, err)
	}
	if diff := cmp.Diff([]string{"1", `"a,]"`, "[2,3]", `{"k":[4]}`, "true"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if ok, _ := Array([]byte(`{}`), nil); ok {
		t.Error("an object was taken for an array")
	}
}

func TestVisitorsErrorEndsTheWalk(t *testing.T) {
	stop := errors.New("stop")
	visits := 0
	if _, err := Object([]byte(`{"a":1,"b":2}`), func(_, _ []byte) error { visits++; return stop }); !errors.Is(err, stop) {
		t.Errorf("Object: %v", err)
	}
	if _, err := Array([]byte(`[1,2]`), func([]byte) error { visits++; return stop }); !errors.Is(err, stop) {
		t.Errorf("Array: %v", err)
	}
	if visits != 2 {
		t.Errorf("%d visits, want one each", visits)
	}
}

func TestAppendCompact(t *testing.T) {
	cases := map[string]struct{ in, want string }{
		"compact text is kept":               {`{"a":[1.50,"x y"]}`, `{"a":[1.50,"x y"]}`},
		"spaces between tokens go":           {" { \"a\" : [ 1 ,\t2 ] }\n", `{"a":[1,2]}`},
		"spaces in strings stay":             {`[ " a\" b " ]`, `[" a\" b "]`},
		"escapes are not rewritten":          {`["\u003c<\/"]`, `["\u003c<\/"]`},
		"each invalid byte becomes U+FFFD":   {"[ \"a\xff\xfeb\" , 1]", "[\"a\uFFFD\uFFFDb\",1]"},
		"valid text outside ASCII is copied": {`["é中😀"]`, `["é中😀"]`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff("x"+tc.want, string(AppendCompact([]byte("x"), []byte(tc.in)))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestStringIsWhatEncodingJSONReads(t *testing.T) {
	for _, raw := range []string{`""`, `"plain"`, `"\"\\\/\b\f\n\r\t"`, `"\u0000\u00e9\u4e2D\uFFFF"`, `"\ud83d\ude00"`, `"\uD83D\uDE00x"`,
		`"\ud83d"`, `"\ude00"`, `"\ud83d\ud83d\ude00"`, `"\ud83dx"`, `"\ud83d\n"`, `"\ud83d\u0041"`, "\"é中😀\\n\"",
		"\"\xff\\n\xc3\"", "\"\xe4\xb8\\u0041\xad\"", `"ends with \\"`} {
		var want string
		if err := json.Unmarshal([]byte(raw), &want); err != nil {
			t.Fatal(err)
		}
		if got := String([]byte(raw)); got != want {
			t.Errorf("%s is %q, want %q", raw, got, want)
		}
	}
}

// FuzzWalk holds the walk against encoding/json: what it splits and joins again is the compact form of the same value.
func FuzzWalk(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"}",{}],"b\u0000":"\\\"","a":null}`, ` [ ] `, `"x"`, "-1.5e3 ", "\"\xff\"", `[[[["]"]]]]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		compact := AppendCompact(nil, raw)
		if !utf8.Valid(compact) {
			t.Fatalf("%q is not valid UTF-8", compact)
		}
		var want bytes.Buffer
		if err := json.Compact(&want, raw); err != nil {
			t.Fatal(err)
		}
		if utf8.Valid(raw) && !bytes.Equal(want.Bytes(), compact) {
			t.Fatalf("compact is %q, want %q", compact, want.Bytes())
		}
		if got := rebuild(raw); !sameValue(got, raw) {
			t.Fatalf("rebuilt %q from %q", got, raw)
		}
	})
}

// rebuild takes raw apart with Object, Array and String and puts it together again.
func rebuild(raw []byte) []byte {
	out := []byte{'{'}
	if ok, _ := Object(raw, func(key, value []byte) error {
		quoted, _ := json.Marshal(string(key))
		out = append(append(append(append(out, quoted...), ':'), rebuild(value)...), ',')
		return nil
	}); ok {
		return append(bytes.TrimSuffix(out, []byte{','}), '}')
	}
	out = []byte{'['}
	if ok, _ := Array(raw, func(value []byte) error {
		out = append(append(out, rebuild(value)...), ',')
		return nil
	}); ok {
		return append(bytes.TrimSuffix(out, []byte{','}), ']')
	}
	if First(raw) == '"' {
		var want string
		got := String(bytes.TrimSpace(raw))
		if err := json.Unmarshal(raw, &want); err != nil || got != want {
			panic(fmt.Sprintf("%q is %q, want %q (%v)", raw, got, want, err))
		}
		quoted, _ := json.Marshal(got)
		return quoted
	}
	return raw
}

func sameValue(a, b []byte) bool {
	var x, y any
	left, right := json.NewDecoder(bytes.NewReader(a)), json.NewDecoder(bytes.NewReader(b))
	left.UseNumber()
	right.UseNumber()
	return left.Decode(&x) == nil && right.Decode(&y) == nil && cmp.Equal(x, y)
}
