package jsonwalk

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCursorReadsAnObject(t *testing.T) {
	c := Over([]byte(" {\"text\" : \"a\\n\\u00e9\", \"plain\":\"abcdefghijk\",\"n\":-12 ,\"yes\":true,\"any\":[1,{\"b\":null}], \"in\":{\"no\":false}}\n"))
	var got []string
	if !c.Object() {
		t.Fatal("no object")
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		got = append(got, string(key))
		switch string(key) {
		case "text", "plain":
			quoted, plain := c.Text()
			if plain != (string(key) == "plain") || plain && Plain(quoted) != "abcdefghijk" {
				t.Errorf("%s is %s, plain %v", key, quoted, plain)
			}
			got = append(got, String(quoted))
		case "n":
			if n, ok := c.Int(); n != -12 || !ok {
				t.Errorf("n is %d", n)
			}
		case "yes":
			if yes, ok := c.Bool(); !yes || !ok {
				t.Error("yes is not true")
			}
		case "any":
			got = append(got, string(c.Value()))
		case "in":
			if !c.Object() {
				t.Error("in is no object")
			}
			inner, _ := c.Member()
			no, ok := c.Bool()
			if _, more := c.Member(); string(inner) != "no" || no || !ok || more {
				t.Errorf("in has %s: %v", inner, no)
			}
		}
	}
	if !c.End() {
		t.Error("not at the end")
	}
	if diff := cmp.Diff([]string{"text", "a\né", "plain", "abcdefghijk", "n", "yes", "any", `[1,{"b":null}]`, "in"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCursorFails(t *testing.T) {
	object := func(c *Cursor) {
		for _, ok := c.Member(); ok; _, ok = c.Member() {
			c.Value()
		}
	}
	array := func(c *Cursor) {
		c.Array()
		for c.Element() {
			c.Value()
		}
	}
	cases := map[string]struct {
		in   string
		read func(c *Cursor)
	}{
		"an array as an object":       {`[]`, func(c *Cursor) { c.Object() }},
		"a comma too many":            {`{"a":1,}`, object},
		"a comma too few":             {`{"a":1"b":2}`, object},
		"a comma first":               {`{,"a":1}`, object},
		"no colon":                    {`{"a" 1}`, object},
		"no value":                    {`{"a":}`, object},
		"an escaped key":              {`{"\u0061":1}`, object},
		"a key outside of ASCII":      {`{"é":1}`, object},
		"half an object":              {`{"a":1`, object},
		"something after the end":     {`{} {}`, object},
		"an object as an array":       {`{}`, func(c *Cursor) { c.Array() }},
		"an element too few":          {`[1,]`, array},
		"an element first":            {`[,1]`, array},
		"no comma":                    {`[1 2]`, array},
		"half an array":               {`[1`, array},
		"a fraction as an integer":    {`1.0`, func(c *Cursor) { c.Int() }},
		"an integer too large":        {`12345678901234567890`, func(c *Cursor) { c.Int() }},
		"a plus sign":                 {`+1`, func(c *Cursor) { c.Int() }},
		"a number as a text":          {`1`, func(c *Cursor) { c.Text() }},
		"half a text":                 {`"abc`, func(c *Cursor) { c.Text() }},
		"null as a truth":             {`null`, func(c *Cursor) { c.Bool() }},
		"half a truth":                {`tru`, func(c *Cursor) { c.Bool() }},
		"nothing":                     {` `, func(c *Cursor) { c.Value() }},
		"nested too deeply":           {strings.Repeat("[", maxNested+1) + strings.Repeat("]", maxNested+1), func(c *Cursor) { c.Value() }},
		"what its user does not want": {`1`, func(c *Cursor) { c.Value(); c.Fail() }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := Over([]byte(tc.in))
			if strings.HasPrefix(tc.in, "{") && tc.in != "{}" {
				c.Object()
			}
			tc.read(&c)
			if c.End() {
				t.Errorf("%s was read", tc.in)
			}
			if quoted, plain := c.Text(); quoted != nil || plain {
				t.Errorf("%s was read after the failure", quoted)
			}
		})
	}
}

// FuzzCursor holds the cursor against encoding/json: it accepts what that accepts, nothing else, and stops in the same places.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,"}",{}],"b\u0000":"\\\"","a":null}`, ` [ ] `, `"x"`, "-1.5e3 ", "\"\xff\"", `[[[["]"]]]]`, "\"abcdefgh\x1f\"", `"abcdefg\u12G4"`, `01`, `-`, `1.e`,
		`{"a":1}`, "[true,false,null]", `"` + "12345678\u00e9\"", `{"a":{"b":{"c":[]}}}`, "\v1", `"\`, `[1,]`, `{"a":1,}`, "truex", "1 2",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := Over(raw)
		value := c.Value()
		if got, want := c.End(), json.Valid(raw); got != want && (got || depthOf(raw) <= maxNested) {
			t.Fatalf("%q: read %v, valid %v", raw, got, want)
		}
		if !c.End() {
			return
		}
		if !bytes.Equal(value, bytes.Trim(raw, " \t\r\n")) {
			t.Fatalf("%q was read as %q", raw, value)
		}
		if First(raw) == '"' {
			c := Over(raw)
			quoted, plain := c.Text()
			var want string
			if err := json.Unmarshal(raw, &want); err != nil || String(quoted) != want || plain && Plain(quoted) != want {
				t.Fatalf("%q was read as %q, plain %v (%v)", raw, quoted, plain, err)
			}
		}
		if First(raw) == '{' {
			members(t, raw)
		}
		if First(raw) == '[' {
			elements(t, raw)
		}
	})
}

// members compares the members that the two ways of reading an object find, when the cursor finds any.
func members(t *testing.T, raw []byte) {
	t.Helper()
	var want, got [][2]string
	_, _ = Object(raw, func(key, value []byte) error {
		want = append(want, [2]string{string(key), string(value)})
		return nil
	})
	c := Over(raw)
	c.Object()
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		got = append(got, [2]string{string(key), string(c.Value())})
	}
	if c.End() {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q: -want +got:\n%s", raw, diff)
		}
	}
}

// elements does the same for an array.
func elements(t *testing.T, raw []byte) {
	t.Helper()
	var want, got []string
	_, _ = Array(raw, func(value []byte) error {
		want = append(want, string(value))
		return nil
	})
	c := Over(raw)
	c.Array()
	for c.Element() {
		got = append(got, string(c.Value()))
	}
	if diff := cmp.Diff(want, got); diff != "" || !c.End() {
		t.Fatalf("%q: -want +got:\n%s", raw, diff)
	}
}

func depthOf(raw []byte) int {
	deepest, depth := 0, 0
	for _, c := range raw {
		switch c {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}
