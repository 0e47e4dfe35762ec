package session

import (
	"fmt"
	"testing"

	"github.com/agentloop/agentloop/pkg/cas"
)

// FuzzMessageIn holds the fast way to a message in its container against encoding/json.
func FuzzMessageIn(f *testing.F) {
	digest := cas.Of([]byte("x")).String()
	for _, seed := range []string{
		`{"v":1,"message":{"role":"assistant"},"stopReason":"stop"}`,
		`{"v":1,"agent":"main","step":{"turn":1,"messages":[{"ref":{"digest":"` + digest + `","index":0}},{"inline":{"a":"\u00e9"}},{"inline":[1]}]},"n":[{}]}`,
		`{"v":2,"message":{}}`, `{"v":1,"message":null}`, `{"v":1,"step":null}`, `{"v":1,"Message":{}}`, `{"v":1,"v":2,"message":1}`, `{"v":1.0,"message":1}`,
		`{"v":1,"step":{"messages":[null,{"inline":null},{"inline":1,"inline":2},{"ref":{"digest":"x"}}]}}`, `{"v":1,"message":1,"step":{"messages":[{"inline":2}]}}`,
		`{"v":1,"step":{"messages":[{"inline":2}]},"message":1}`, `{"v":1,"step":{"messages":[{"inline":2}]}} x`, `[]`, ``, `{"v":1,"step":[]}`,
	} {
		f.Add([]byte(seed), 0)
		f.Add([]byte(seed), 1)
		f.Add([]byte(seed), -1)
	}
	f.Fuzz(func(t *testing.T, container []byte, index int) {
		got, err := MessageIn(container, index)
		want, wantErr := messageIn(container, index)
		if string(got) != string(want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%s, %d: got %s, %v; want %s, %v", container, index, got, err, want, wantErr)
		}
	})
}

func BenchmarkMessageIn(b *testing.B) {
	step := Step{Turn: 1}
	for i := range 9 {
		step.Messages = append(step.Messages, StepMessage{Inline: fmt.Appendf(nil, `{"role":"toolResult","n":%d,"content":"%01000d"}`, i, i)})
	}
	raw, err := EncodeObject(AgentState{V: ObjectVersion, Agent: "main", Step: step})
	if err != nil {
		b.Fatal(err)
	}
	for name, read := range map[string]func() error{
		"as written": func() error { _, err := MessageIn(raw, 8); return err },
		"whatever":   func() error { _, err := messageIn(raw, 8); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
