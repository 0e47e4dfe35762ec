package wire

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/provider"
)

func TestParseArguments(t *testing.T) {
	cases := map[string]struct {
		raw, want string
		ok        bool
	}{
		"nothing":                  {"", "{}", true},
		"white space":              {" \n", "{}", true},
		"null":                     {"null", "{}", true},
		"an object is compacted":   {" { \"b\" : 1.0 , \"a\" : 12345678901234567890 } ", `{"b":1.0,"a":12345678901234567890}`, true},
		"an array":                 {"[1]", "{}", false},
		"a string with an object":  {`"{\"a\":1}"`, "{}", false},
		"cut":                      {`{"a":`, "{}", false},
		"two objects":              {`{"a":1}{"b":2}`, "{}", false},
		"an object and more":       {`{"a":1} x`, "{}", false},
		"a control byte in a text": {"{\"a\":\"\x01\"}", "{}", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := parseArguments(c.raw)
			if string(got) != c.want || ok != c.ok {
				t.Errorf("got %s, %v; want %s, %v", got, ok, c.want, c.ok)
			}
		})
	}
}

func TestAssemblyOrderAndCompletion(t *testing.T) {
	var deltas []provider.Delta
	a := newAssembly(func(d provider.Delta) { deltas = append(deltas, d) })
	a.Text(Key{Output: 2}, "later")
	a.Text(Key{Output: 1, Part: 1}, "b")
	a.Text(Key{Output: 1}, "a")
	a.CompleteText(Key{Output: 1}, "ab")      // continues what was streamed
	a.CompleteText(Key{Output: 2}, "another") // replaces it
	a.CompleteText(Key{Output: 1, Part: 1}, "")
	a.Arguments(Key{Output: 9}, "no call has begun here")
	a.SetTextSignature(Key{Output: 9}, "nor here")
	blocks, broken := a.finish()
	want := []message.Block{{Type: message.BlockText, Text: "ab"}, {Type: message.BlockText, Text: "b"}, {Type: message.BlockText, Text: "another"}}
	if diff := cmp.Diff(want, blocks); diff != "" || broken {
		t.Errorf("blocks (-want +got), broken %v:\n%s", broken, diff)
	}
	if n := len(deltas); n != 4 || deltas[3].Text != "b" || deltas[3].Block != 2 {
		t.Errorf("increments %+v", deltas)
	}
}

func TestUniqueCalls(t *testing.T) {
	call := func(id string) message.Block {
		return message.Block{Type: message.BlockToolCall, ID: id, Name: "f", Arguments: json.RawMessage("{}")}
	}
	blocks := uniqueCalls([]message.Block{call("a"), call("ax"), call("a"), {Type: message.BlockText}, call(""), call("a"), call("")})
	var ids []string
	for _, b := range blocks {
		ids = append(ids, b.ID)
	}
	if diff := cmp.Diff([]string{"a", "ax", "axx", "", "x", "axxx", "xx"}, ids); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
}

// FuzzArguments states that what is called an object is one, and that nothing else gets through.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{"", "null", "{}", `{"a":[1,{"b":null}]}`, `{"a":1}}`, "\ufeff{}", `{"a":"\ud800"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, ok := parseArguments(raw)
		if got[0] != '{' || !json.Valid(got) {
			t.Fatalf("arguments %s", got)
		}
		if !ok && string(got) != "{}" {
			t.Fatalf("refused arguments got through: %s", got)
		}
	})
}
