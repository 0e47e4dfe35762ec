package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestDecode(t *testing.T) {
	cases := map[string]struct {
		in   string
		want Message
	}{
		"user string": {`{"role":"user","content":"hi"}`, Message{Role: RoleUser, Content: Text("hi")}},
		"the empty string is not the empty list": {`{"role":"user","content":""}`,
			Message{Role: RoleUser, Content: Content{IsText: true}}},
		"empty list": {`{"role":"user","content":[]}`, Message{Role: RoleUser}},
		"keys in another order, with spaces": {" {\n\"content\" : [ { \"text\" : \"a\" , \"type\" : \"text\" } ] , \"role\" : \"user\" } ",
			Message{Role: RoleUser, Content: Blocks(Block{Type: BlockText, Text: "a"})}},
		"escapes": {`{"role":"user","content":"\u00e9\n\ud83d\ude00\ud800"}`,
			Message{Role: RoleUser, Content: Text("é\n😀\uFFFD")}},
		"escaped key": {`{"r\u006fle":"user","content":"a"}`, Message{Role: RoleUser, Content: Text("a")}},
		"invalid UTF-8": {"{\"role\":\"user\",\"content\":\"a\xff\"}",
			Message{Role: RoleUser, Content: Text("a\uFFFD")}},
		"assistant with everything": {`{"role":"assistant","content":[{"type":"thinking","thinking":"t","thinkingSignature":"s","redacted":true}],` +
			`"provider":"p","api":"a","model":"m","stopReason":"length","usage":{"input":0,"output":5,"cost":"0.1"},"errorMessage":"e","prefix":"sha256:1"}`,
			Message{Role: RoleAssistant, Provider: "p", API: "a", Model: "m", StopReason: StopLength, ErrorMessage: "e", Prefix: "sha256:1",
				Usage:   &Usage{Input: ptr(0), Output: ptr(5), Cost: "0.1"},
				Content: Blocks(Block{Type: BlockThinking, Thinking: "t", ThinkingSignature: "s", Redacted: true})}},
		"null stands for an absent optional key": {`{"role":"assistant","content":[{"type":"text","text":"a","textSignature":null}],"usage":null,"errorMessage":null}`,
			Message{Role: RoleAssistant, Content: Blocks(Block{Type: BlockText, Text: "a"})}},
		"a count of null is absent": {`{"role":"assistant","content":[],"usage":{"input":null,"output":1}}`,
			Message{Role: RoleAssistant, Usage: &Usage{Output: ptr(1)}}},
		"arguments are compacted, order and numbers kept": {`{"role":"assistant","content":[{"type":"toolCall","id":"i","name":"n","arguments":{ "b" : 1.50, "a" : 12345678901234567890 }}]}`,
			Message{Role: RoleAssistant, Content: Blocks(Block{Type: BlockToolCall, ID: "i", Name: "n",
				Arguments: json.RawMessage(`{"b":1.50,"a":12345678901234567890}`)})}},
		"missing arguments are an empty object": {`{"role":"assistant","content":[{"type":"toolCall","id":"i","name":"n"}]}`,
			Message{Role: RoleAssistant, Content: Blocks(Block{Type: BlockToolCall, ID: "i", Name: "n", Arguments: json.RawMessage(`{}`)})}},
		"tool result": {`{"role":"toolResult","toolCallId":"c","toolName":"n","content":"x","isError":true,"details":{ "a" : 1 }}`,
			Message{Role: RoleToolResult, ToolCallID: "c", ToolName: "n", Content: Text("x"), IsError: true, Details: json.RawMessage(`{"a":1}`)}},
		"details of null are none": {`{"role":"toolResult","toolCallId":"c","toolName":"n","content":"x","details":null}`,
			Message{Role: RoleToolResult, ToolCallID: "c", ToolName: "n", Content: Text("x")}},
		"stored image": {`{"role":"user","content":[{"type":"image","mediaType":"image/png","ref":{"digest":"sha256:1","size":9}}]}`,
			Message{Role: RoleUser, Content: Blocks(Block{Type: BlockImage, MediaType: "image/png", Ref: &BlobRef{Digest: "sha256:1", Size: 9}})}},
		"a stop reason of a later version is kept": {`{"role":"assistant","content":[],"stopReason":"pause"}`,
			Message{Role: RoleAssistant, StopReason: "pause"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Decode([]byte(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	block := func(b string) string { return `{"role":"assistant","content":[` + b + `]}` }
	cases := map[string]struct{ in, want string }{
		"nothing":                      {``, "not valid JSON"},
		"half a message":               {`{"role":"user","content":"a`, "not valid JSON"},
		"bytes after the message":      {`{"role":"user","content":"a"} {}`, "not valid JSON"},
		"null":                         {`null`, "not a JSON object"},
		"an array":                     {`[]`, "not a JSON object"},
		"no role":                      {`{"content":"a"}`, "unknown role"},
		"unknown role":                 {`{"role":"system","content":"a"}`, `unknown role "system"`},
		"role of a number":             {`{"role":1,"content":"a"}`, "role: not a string"},
		"no content":                   {`{"role":"user"}`, `"content" is missing`},
		"content of null":              {`{"role":"user","content":null}`, `"content" is missing`},
		"content of an object":         {`{"role":"user","content":{}}`, "a string or a list"},
		"unknown key":                  {`{"role":"user","content":"a","timestamp":1}`, `unknown key "timestamp"`},
		"key in another case":          {`{"Role":"user","content":"a"}`, `unknown key "Role"`},
		"key given twice":              {`{"role":"user","content":"a","content":"b"}`, "given twice"},
		"key given twice, first null":  {`{"role":"assistant","content":[],"model":null,"model":"b"}`, "given twice"},
		"key of another role":          {`{"role":"user","content":"a","stopReason":"stop"}`, "belongs to another kind"},
		"result without call id":       {`{"role":"toolResult","toolName":"n","content":"x"}`, `"toolCallId" is missing`},
		"result without name":          {`{"role":"toolResult","toolCallId":"c","content":"x"}`, `"toolName" is missing`},
		"assistant with a string":      {`{"role":"assistant","content":"a"}`, "a list of blocks"},
		"isError of a string":          {`{"role":"toolResult","toolCallId":"c","toolName":"n","content":"x","isError":"no"}`, "true or false"},
		"usage of a string":            {`{"role":"assistant","content":[],"usage":"1"}`, "usage: not a JSON object"},
		"a fraction as count":          {`{"role":"assistant","content":[],"usage":{"input":1.5}}`, "not an integer"},
		"an exponent as count":         {`{"role":"assistant","content":[],"usage":{"input":1e3}}`, "not an integer"},
		"a count beyond 64 bits":       {`{"role":"assistant","content":[],"usage":{"input":9223372036854775808}}`, "not an integer"},
		"unknown usage key":            {`{"role":"assistant","content":[],"usage":{"total":1}}`, `unknown key "total"`},
		"a block that is a string":     {block(`"a"`), "not a JSON object"},
		"a block that is null":         {block(`null`), "not a JSON object"},
		"block without type":           {block(`{"text":"a"}`), "unknown block type"},
		"unknown block type":           {block(`{"type":"video"}`), `unknown block type "video"`},
		"unknown block key":            {block(`{"type":"text","text":"a","cache":1}`), `unknown key "cache"`},
		"block key of another type":    {block(`{"type":"text","text":"a","data":"x"}`), "belongs to another kind"},
		"arguments of an array":        {block(`{"type":"toolCall","id":"i","name":"n","arguments":[]}`), "arguments: not a JSON object"},
		"arguments of a string":        {block(`{"type":"toolCall","id":"i","name":"n","arguments":"{}"}`), "arguments: not a JSON object"},
		"image with data and ref":      {block(`{"type":"image","data":"x","ref":{"digest":"d","size":1}}`), "either data or ref"},
		"reference without size":       {block(`{"type":"image","ref":{"digest":"d"}}`), `"size" is missing`},
		"reference with an unknown":    {block(`{"type":"image","ref":{"digest":"d","size":1,"x":1}}`), "unknown key"},
		"an endless unknown name":      {`{"role":"` + strings.Repeat("x", 1<<16) + `","content":"a"}`, "unknown role"},
		"nesting beyond all measure":   {`{"role":"user","content":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, "not valid JSON"},
		"a number where text belongs":  {block(`{"type":"text","text":1}`), "text: not a string"},
		"an object where text belongs": {block(`{"type":"thinking","thinking":{}}`), "thinking: not a string"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m, err := Decode([]byte(tc.in))
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want ErrInvalid with %q", err, tc.want)
			}
			if len(err.Error()) > 300 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if diff := cmp.Diff(Message{}, m); diff != "" {
				t.Errorf("message beside the error:\n%s", diff)
			}
		})
	}
}

func TestUnmarshalJSONIsAsStrictAsDecode(t *testing.T) {
	var messages []Message
	if err := json.Unmarshal([]byte(`[{"role":"user","content":"a"},{"role":"user","content":[]}]`), &messages); err != nil || len(messages) != 2 {
		t.Errorf("messages %v, error %v", messages, err)
	}
	for name, into := range map[string]any{"message": new(Message), "block": new(Block), "content": new(Content), "tool": new(Tool)} {
		t.Run(name, func(t *testing.T) {
			for _, raw := range []string{`{"unknown":1}`, `7`} {
				if err := json.Unmarshal([]byte(raw), into); !errors.Is(err, ErrInvalid) {
					t.Errorf("%s: error %v, want ErrInvalid", raw, err)
				}
			}
			if err := into.(json.Unmarshaler).UnmarshalJSON([]byte(`{"`)); !errors.Is(err, ErrInvalid) {
				t.Errorf("half an object handed in directly: error %v, want ErrInvalid", err)
			}
		})
	}
}

func TestAFailedUnmarshalLeavesTheValueAlone(t *testing.T) {
	m := Message{Role: RoleUser, Content: Text("kept")}
	if err := m.UnmarshalJSON([]byte(`{"role":"user","content":"new","x":1}`)); err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(Message{Role: RoleUser, Content: Text("kept")}, m); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTool(t *testing.T) {
	cases := map[string]struct {
		in      string
		want    Tool
		encoded string
		wantErr string
	}{
		"whole": {in: ` {"parameters": { "b":1, "a":2 },"name":"n","description":"<d>"} `,
			want:    Tool{Name: "n", Description: "<d>", Parameters: json.RawMessage(`{"b":1,"a":2}`)},
			encoded: `{"name":"n","description":"<d>","parameters":{"b":1,"a":2}}`},
		"name only": {in: `{"name":"n"}`, want: Tool{Name: "n", Parameters: json.RawMessage(`{}`)},
			encoded: `{"name":"n","description":"","parameters":{}}`},
		"no name":                {in: `{"description":"d"}`, wantErr: `"name" is missing`},
		"unknown key":            {in: `{"name":"n","strict":true}`, wantErr: "unknown key"},
		"parameters of an array": {in: `{"name":"n","parameters":[]}`, wantErr: "not a JSON object"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got Tool
			err := json.Unmarshal([]byte(tc.in), &got)
			if tc.wantErr != "" {
				if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error %v, want ErrInvalid with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.encoded, string(got.AppendJSON(nil))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// FuzzDecode: decoding never panics; what decodes encodes to valid JSON and UTF-8, decodes again to the same message and
// encodes again to the same bytes, and string and block content stay apart.
func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		f.Add(Encode(m))
	}
	for _, raw := range []string{`{"role":"user","content":"\ud800","role":"user"}`, " {\"content\":[ {\"type\":\"toolCall\",\"arguments\":{\"a\\\\\":\"\xff\"}} ],\"role\":\"assistant\"}"} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := Decode(raw)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("error %v is not ErrInvalid", err)
			}
			return
		}
		encoded := Encode(m)
		if !json.Valid(encoded) || !utf8.Valid(encoded) {
			t.Fatalf("%q became %q", raw, encoded)
		}
		again, err := Decode(encoded)
		if err != nil {
			t.Fatalf("%q does not decode: %v", encoded, err)
		}
		if diff := cmp.Diff(m, again); diff != "" {
			t.Fatalf("-first +second:\n%s", diff)
		}
		if second := Encode(again); !bytes.Equal(encoded, second) {
			t.Fatalf("encoded %q, then %q", encoded, second)
		}
	})
}

// FuzzEncode: a message that an adapter builds of any texts encodes to what decodes, with the same bytes the next time.
func FuzzEncode(f *testing.F) {
	f.Add("text", "sig", []byte(`{"a":1}`), []byte(`null`))
	f.Add("\xff", "", []byte(`{"a"`), []byte(`x`))
	f.Fuzz(func(t *testing.T, text, signature string, arguments, details []byte) {
		for _, m := range []Message{
			{Role: RoleUser, Content: Text(text)},
			{Role: RoleAssistant, Model: text, StopReason: StopReason(text), Usage: &Usage{Cost: signature}, Content: Blocks(
				Block{Type: BlockText, Text: text, TextSignature: signature},
				Block{Type: BlockThinking, Thinking: text, ThinkingSignature: signature, Redacted: signature == ""},
				Block{Type: BlockImage, MediaType: text, Data: signature},
				Block{Type: BlockToolCall, ID: text, Name: signature, Arguments: arguments})},
			{Role: RoleToolResult, ToolCallID: text, ToolName: signature, Content: Text(text), Details: details},
		} {
			encoded := Encode(m)
			decoded, err := Decode(encoded)
			if err != nil {
				t.Fatalf("%q does not decode: %v", encoded, err)
			}
			if second := Encode(decoded); !bytes.Equal(encoded, second) {
				t.Fatalf("encoded %q, then %q", encoded, second)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	text := strings.Repeat("some text with \"quotes\" and\nlines, ", 30_000)
	raw := Encode(Message{Role: RoleAssistant, Content: Blocks(Block{Type: BlockText, Text: text},
		Block{Type: BlockToolCall, ID: "c", Name: "n", Arguments: json.RawMessage(`{"a":[1,2,3]}`)})})
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	m := Message{Role: RoleUser, Content: Text(strings.Repeat("some text with \"quotes\" and\nlines, ", 30_000))}
	buf := Encode(m)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = m.AppendJSON(buf[:0])
	}
}
