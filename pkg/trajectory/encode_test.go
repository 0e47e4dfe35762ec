package trajectory

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
	"github.com/agentloop/agentloop/pkg/message"
)

// plainly is a detail as encoding/json writes it, redacted as a whole.
func plainly(t *testing.T, d Detail) string {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(d); err != nil {
		t.Fatal(err)
	}
	raw, err := Redact(bytes.TrimSpace(buf.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A detail is written piece by piece. What comes out is what encoding/json would write, whatever its fields hold.
func TestADetailIsWrittenAsEncodingJSONWouldWriteIt(t *testing.T) {
	secret := json.RawMessage(`{"role":"user","content":"a","password":"x","url":"https://u:p@h","name":"DB_PASSWORD","value":"y"}`)
	full := Detail{}
	fill(reflect.ValueOf(&full).Elem(), 0)
	full.Events = []RunEvent{{Stream: "run/main", Sequence: 1, CreatedAt: 2, Event: secret}, {Event: json.RawMessage(`[1]`)}}
	full.Input.Messages = append(full.Input.Messages,
		InputMessage{Index: 1, Role: "user", Message: secret, safe: safeMember("message", secret)},
		InputMessage{Index: 2, Role: "unknown", Unavailable: "gone <away>"},
	)
	kept := AgentState{Agent: "a <b>", Worker: "https://u:p@h"}
	var w writer
	w.value("agentState", &kept)
	kept.safe = w.out
	for name, d := range map[string]Detail{
		"a kept state": {Events: []RunEvent{}, Notices: []Notice{}, AgentState: &kept},
		"no notices":   {Events: []RunEvent{}, AgentState: &AgentState{}},
		"nothing":      {Events: []RunEvent{}, Notices: []Notice{}},
		"everything":   full,
		"empty inputs": {Events: []RunEvent{}, Input: &ModelInput{Messages: []InputMessage{}, Tools: []message.Tool{}}, Notices: []Notice{}},
	} {
		got, err := d.encode(`{`)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := plainly(t, d); string(got) != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

func TestAnEntryIsWrittenAsEncodingJSONWouldWriteIt(t *testing.T) {
	full := Entry{}
	fill(reflect.ValueOf(&full).Elem(), 0)
	noInput := full
	noInput.Usage = &message.Usage{Cost: "0.1"}
	for name, e := range map[string]Entry{"nothing": {}, "everything": full, "some usage": noInput, "an empty usage": {Usage: &message.Usage{}, Run: &RunName{}}} {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(e); err != nil {
			t.Fatal(err)
		}
		if got := string(e.appendJSON(nil)) + "\n"; got != want.String() {
			t.Errorf("%s:\n got %swant %s", name, got, want.String())
		}
	}
}

// What is written without a second look is what the redaction of all of it leaves.
func FuzzEntriesAreRedacted(f *testing.F) {
	for _, text := range []string{
		"", "run.main.12", "an id", "https://u:p@h", "a=b", `a\b`, "say \"x\"", "gh", "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "ghp_", "eyJhbGciOi.eyJzdWIi.x", "é",
		"\x00", "\xff", "password", "Bearer abcdefghij", "hf_abcdefghijklmnopqrstuvwxyz", `"`, "\x7f", "AGE-SECRET-KEY-1abcdefgh", "a\tb",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		filled := Entry{}
		fill(reflect.ValueOf(&filled).Elem(), 0)
		fields := reflect.ValueOf(&filled).Elem()
		setTexts(fields, "plain-text")
		check := func(what string) {
			want, err := Redact(filled.appendJSON(nil))
			if err != nil {
				t.Fatal(err)
			}
			w := writer{}
			if w.entry(&filled); string(w.out) != string(want) || w.err != nil {
				t.Fatalf("%s:\n got %s\nwant %s", what, w.out, want)
			}
		}
		check("plain texts")
		for i := range fields.NumField() {
			was := reflect.ValueOf(&filled).Elem().Field(i)
			keep := reflect.New(was.Type()).Elem()
			keep.Set(was)
			if was.Kind() == reflect.Pointer {
				was.Set(reflect.New(was.Type().Elem()))
				was.Elem().Set(keep.Elem())
			}
			setTexts(was, text)
			check(fields.Type().Field(i).Name)
			was.Set(keep)
		}
	})
}

// setTexts sets every text within a value.
func setTexts(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		setTexts(v.Elem(), text)
	case reflect.Struct:
		for i := range v.NumField() {
			setTexts(v.Field(i), text)
		}
	}
}

// fill sets every field of a value, pointers and one element of each list included.
func fill(v reflect.Value, depth int) {
	if depth > 8 || !v.CanSet() {
		return
	}
	switch v.Interface().(type) {
	case cas.Digest:
		v.Set(reflect.ValueOf(cas.Of([]byte("x"))))
		return
	case json.RawMessage:
		v.Set(reflect.ValueOf(json.RawMessage(`{"api_key":"x","n":1.50}`)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text <&> with https://u:p@h")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth+1)
		}
	}
	if m, ok := v.Addr().Interface().(*InputMessage); ok {
		m.safe = safeMember("message", m.Message)
	}
}

func TestStoredMessagesStandOnOneLine(t *testing.T) {
	raw := []byte("{\n \"role\": \"other\",\r\n \"token\": \"x\"}")
	if got := string(safeMember("message", raw)); got != `{"role":"other","token":"`+Redacted+`"}` {
		t.Errorf("got %s", got)
	}
}

// Messages are read once for many inputs, and each with its own verdict.
func TestMessagesAreKept(t *testing.T) {
	ctx, scope := context.Background(), cas.Scope{Namespace: "team", Session: "0d6f2a54-7f0c-4c52-9d0e-6a3b1c8e5f27"}
	store := memstore.New()
	ref, err := store.Put(ctx, scope, cas.MediaMessage, message.Encode(message.Message{Role: message.RoleUser, Content: message.Text("hi")}))
	if err != nil {
		t.Fatal(err)
	}
	refs := []cas.MessageRef{{Digest: ref.Digest}, {Digest: cas.Of([]byte("not there"))}}
	r := NewReader(nil, store)
	for range 2 {
		bodies, err := r.resolve(ctx, scope, refs)
		if err != nil {
			t.Fatal(err)
		}
		if bodies[0].roleName() != "user" || bodies[0].notice != nil || bodies[1].notice == nil || bodies[1].notice.Code != CodeMissing {
			t.Errorf("got %+v", bodies)
		}
	}
	if _, ok := r.bodies.Get(bodyKeyOf(scope, refs[0])); !ok {
		t.Error("the message was not kept")
	}
	if _, ok := r.bodies.Get(bodyKeyOf(scope, refs[1])); ok {
		t.Error("what is missing was kept")
	}
	if _, ok := r.bodies.Get(bodyKeyOf(cas.Scope{Namespace: "other", Session: scope.Session}, refs[0])); ok {
		t.Error("a message of one session is another one's")
	}
}
