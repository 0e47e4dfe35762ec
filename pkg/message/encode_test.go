package message

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func ptr(n int64) *int64 { return &n }

// samples is one message of every form, in the order of the golden file.
func samples() []Message {
	return []Message{
		{Role: RoleUser, Content: Text("hi")},
		{Role: RoleUser, Content: Text("")},
		{Role: RoleUser, Content: Blocks()},
		{Role: RoleUser, Content: Blocks(
			Block{Type: BlockText, Text: "what is <this> & that?\n\"quoted\" \\ \u2028 \x00\x1b\x7f 中文 😀"},
			Block{Type: BlockImage, MediaType: "image/png", Data: "iVBORw0KGgo="},
			Block{Type: BlockImage, MediaType: "image/png", Ref: &BlobRef{Digest: "sha256:<&>", Size: 8 << 20}})},
		{Role: RoleAssistant, Content: Blocks()},
		{Role: RoleAssistant, Provider: "anthropic", API: "anthropic-messages", Model: "m", StopReason: StopToolUse,
			Usage: &Usage{Input: ptr(10), Output: ptr(0), CacheRead: ptr(1), CacheWrite: ptr(2), Reasoning: ptr(3), Cost: "0.00<1"},
			Content: Blocks(
				Block{Type: BlockThinking, Thinking: "plan", ThinkingSignature: "c2ln"},
				Block{Type: BlockThinking, ThinkingSignature: "b3BhcXVl", Redacted: true},
				Block{Type: BlockText, Text: "reading", TextSignature: "msg_1"},
				Block{Type: BlockToolCall, ID: "c1", Name: "read", ThoughtSignature: "dGg=",
					Arguments: json.RawMessage(` { "z" : [ 1.50 , 1e3 ] , "a" : "\u00e9<" } `)},
				Block{Type: BlockToolCall, ID: "c2", Name: "now"})},
		{Role: RoleAssistant, Provider: "p", API: "a", Model: "m", StopReason: StopError, ErrorMessage: "HTTP 500",
			Prefix: "sha256:00", Usage: &Usage{Output: ptr(7)}, Content: Blocks()},
		{Role: RoleAssistant, StopReason: StopAborted, Usage: &Usage{}, Content: Blocks()},
		{Role: RoleAssistant, Usage: &Usage{Cost: "1"}, Content: Blocks(
			Block{Type: BlockToolCall, ID: "c", Name: "cut", Arguments: json.RawMessage(`{"path":"/etc/ho`)},
			Block{Type: BlockToolCall, ID: "d", Name: "list", Arguments: json.RawMessage(`[1]`)})},
		{Role: RoleToolResult, ToolCallID: "c1", ToolName: "read", Content: Text("text"), IsError: true},
		{Role: RoleToolResult, ToolCallID: "c1", ToolName: "read", Content: Blocks(Block{Type: BlockText, Text: "a"}),
			Details: json.RawMessage(` [ {"b":1, "a":null} ] `)},
		{Role: RoleToolResult, Content: Text("x"), Details: json.RawMessage(` null `)},
		{Role: RoleToolResult, Content: Text("x"), Details: json.RawMessage(`not JSON`)},
	}
}

// TestEncode pins the stored bytes of every form.
func TestEncode(t *testing.T) {
	var got []byte
	for _, m := range samples() {
		got = append(append(got, Encode(m)...), '\n')
	}
	path := filepath.Join("testdata", "messages.golden")
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestEncodedMessagesDecodeToTheSameBytes: what was stored can be read, and storing it again gives the same digest.
func TestEncodedMessagesDecodeToTheSameBytes(t *testing.T) {
	for _, m := range samples() {
		raw := Encode(m)
		decoded, err := Decode(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if diff := cmp.Diff(string(raw), string(Encode(decoded))); diff != "" {
			t.Errorf("-first +second:\n%s", diff)
		}
	}
}

func TestInvalidUTF8BecomesTheReplacementCharacterEverywhere(t *testing.T) {
	bad := "a\xff\xc3b"
	messages := []Message{
		{Role: RoleUser, Content: Text(bad)},
		{Role: RoleAssistant, Provider: bad, API: bad, Model: bad, StopReason: StopReason(bad), ErrorMessage: bad, Prefix: bad,
			Usage: &Usage{Cost: bad}, Content: Blocks(
				Block{Type: BlockText, Text: bad, TextSignature: bad},
				Block{Type: BlockThinking, Thinking: bad, ThinkingSignature: bad},
				Block{Type: BlockImage, MediaType: bad, Data: bad},
				Block{Type: BlockImage, Ref: &BlobRef{Digest: bad}},
				Block{Type: BlockToolCall, ID: bad, Name: bad, ThoughtSignature: bad, Arguments: json.RawMessage(`{"` + bad + `":"` + bad + `"}`)},
				Block{Type: BlockToolCall, Arguments: json.RawMessage(bad)})},
		{Role: RoleToolResult, ToolCallID: bad, ToolName: bad, Content: Text(bad), Details: json.RawMessage(`"` + bad + `"`)},
	}
	for _, m := range messages {
		raw := Encode(m)
		if !utf8.Valid(raw) || !json.Valid(raw) {
			t.Errorf("%q is not valid UTF-8 and JSON", raw)
		}
		if want := "a\uFFFD\uFFFDb"; m.Role == RoleUser && string(raw) != `{"role":"user","content":"`+want+`"}` {
			t.Errorf("%q: each invalid byte must become one U+FFFD", raw)
		}
	}
}

func TestAppendRaw(t *testing.T) {
	cases := map[string]struct{ in, want string }{
		"nothing is an empty object": {"", "{}"},
		"compact JSON is kept":       {`{"b":1.50,"a":"\u003c<"}`, `{"b":1.50,"a":"\u003c<"}`},
		"spaces go":                  {" [ 1 ,\n2 ] ", "[1,2]"},
		"a bare value":               {" null ", "null"},
		"what is not JSON is a text": {`{"a":`, `"{\"a\":"`},
		"two values are not JSON":    {`{} {}`, `"{} {}"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff("x"+tc.want, string(AppendRaw([]byte("x"), json.RawMessage(tc.in)))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestEncodingChangesNothingOfTheMessage(t *testing.T) {
	for i, m := range samples() {
		Encode(m)
		if diff := cmp.Diff(samples()[i], m); diff != "" {
			t.Errorf("-before +after:\n%s", diff)
		}
	}
}

func TestToolCallsAndPlainText(t *testing.T) {
	call := Block{Type: BlockToolCall, ID: "c", Name: "n"}
	m := Message{Role: RoleAssistant, Content: Blocks(
		Block{Type: BlockThinking, Thinking: "hidden"}, Block{Type: BlockText, Text: "a"}, call,
		Block{Type: BlockImage, Data: "x"}, Block{Type: BlockText, Text: "b"}, call)}
	if diff := cmp.Diff([]Block{call, call}, m.ToolCalls()); diff != "" {
		t.Errorf("calls, -want +got:\n%s", diff)
	}
	if got := m.PlainText(); got != "ab" {
		t.Errorf("plain text %q, want ab", got)
	}
	if got := (Message{Content: Text("whole")}).PlainText(); got != "whole" {
		t.Errorf("plain text %q, want whole", got)
	}
	if got := (Message{Content: Text("whole")}).ToolCalls(); got != nil {
		t.Errorf("calls %v of a text, want none", got)
	}
}
