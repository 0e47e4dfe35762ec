package legacy

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/runevent"
)

func TestKindOf(t *testing.T) {
	for path, want := range map[string]Kind{
		"trajectories/main/run-1.jsonl": KindJournal, "trajectories/run-1.jsonl": KindOther, "trajectories/a/b/c.jsonl": KindOther,
		"trajectories/main/run-1.json": KindOther, "segments/a.jsonl": KindSegments, "segments/main/x/a.json": KindSegments,
		"segments/a.txt": KindOther, "payloads/a.json": KindPayload, "payloads/a.jsonl": KindOther, "notes.txt": KindOther, "segments": KindOther,
	} {
		if got := KindOf(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

func TestValidPath(t *testing.T) {
	for path, want := range map[string]bool{
		"trajectories/main/run-1.jsonl": true, "a b/ü.jsonl": true, "": false, "/a": false, "../a": false, "..": false, "a/../b": false, "a//b": false,
		"a\nb": false, `a\b`: false, "a/": false, "a\xff": false, strings.Repeat("a", 1025): false,
	} {
		if got := ValidPath(path); got != want {
			t.Errorf("%q: %t, want %t", path, got, want)
		}
	}
}

func TestManifest(t *testing.T) {
	digest := cas.Of([]byte("x"))
	file := func(path string) File {
		return File{Path: path, Kind: KindJournal, Size: 1, SHA256: digest, Body: cas.Ref{Digest: digest, Size: 1}}
	}
	one, err := Manifest{Files: []File{file("b"), file("a")}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	two, err := Manifest{Files: []File{file("a"), file("b")}}.Encode()
	if err != nil || !bytes.Equal(one, two) {
		t.Errorf("the order of files makes another manifest:\n%s\n%s", one, two)
	}
	got, err := DecodeManifest(one)
	if err != nil || len(got.Files) != 2 || got.Files[0] != file("a") {
		t.Errorf("read back %+v, %v", got, err)
	}
	for name, raw := range map[string]string{
		"not JSON": "x", "another version": `{"v":2,"files":[]}`, "no version": `{"files":[]}`,
		"a path outside":   strings.Replace(string(one), `"a"`, `"../a"`, 1),
		"a file of no one": `{"v":1,"files":[{"path":"a"}]}`,
	} {
		if _, err := DecodeManifest([]byte(raw)); !errors.Is(err, ErrManifest) {
			t.Errorf("%s: %v, want ErrManifest", name, err)
		}
	}
}

func TestLines(t *testing.T) {
	cases := map[string]struct {
		text  string
		whole bool
		want  []string
	}{
		"nothing":                   {"", false, nil},
		"lines":                     {"a\nbb\n", false, []string{"1@0 a", "2@2 bb"}},
		"no end of the last line":   {"a\nbb", false, []string{"1@0 a", "2@2 bb open"}},
		"blank lines are counted":   {"\n \na\n\n", false, []string{"3@3 a"}},
		"carriage returns stay":     {"a\r\nb\r\n", false, []string{"1@0 a\r", "2@3 b\r"}},
		"a file that is one record": {"{\n}\n", true, []string{"1@0 {\n}\n"}},
	}
	for name, c := range cases {
		for _, size := range []int{1, 2, 100} {
			t.Run(fmt.Sprintf("%s, %d bytes at once", name, size), func(t *testing.T) {
				var got []string
				l := &Lines{Whole: c.whole, Each: func(line Line) error {
					text := fmt.Sprintf("%d@%d %s", line.Number, line.Offset, line.Raw)
					if line.Open {
						text += " open"
					}
					if int64(len(line.Raw)) != line.Length || line.TooLong() {
						t.Errorf("line %+v", line)
					}
					got = append(got, text)
					return nil
				}}
				for rest := c.text; rest != ""; {
					n := min(size, len(rest))
					if _, err := l.Write([]byte(rest[:n])); err != nil {
						t.Fatal(err)
					}
					rest = rest[n:]
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("lines (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestALineThatIsTooLong(t *testing.T) {
	var got []string
	l := &Lines{Each: func(line Line) error {
		got = append(got, fmt.Sprintf("%d@%d %d %t %d", line.Number, line.Offset, line.Length, line.TooLong(), len(line.Raw)))
		return nil
	}}
	for range 3 {
		if _, err := l.Write(bytes.Repeat([]byte("x"), MaxLine/2)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Write([]byte("\nb\n")); err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprintf("1@0 %d true %d", MaxLine/2*3, MaxLine), fmt.Sprintf("2@%d 1 false 1", MaxLine/2*3+1)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	stop := errors.New("enough")
	l = &Lines{Each: func(Line) error { return stop }}
	if _, err := l.Write([]byte("a\n")); !errors.Is(err, stop) {
		t.Errorf("the error of Each: %v", err)
	}
}

func TestJournal(t *testing.T) {
	head := `"agentId":"main","agentRunId":"u","requestExecutionId":"e","turn":2,"recordedAt":"2025-01-02T03:04:05Z","responseId":"p"`
	line := func(kind, payload string) string {
		return `{` + head + `,"kind":"` + kind + `","payload":` + payload + `}`
	}
	cases := map[string]struct {
		line string
		want string
		err  error
	}{
		"reasoning":                      {line("reasoning", `{"text":"x","block":1}`), "reasoning x 1", nil},
		"text":                           {line("body", `{"text":""}`), "body  0", nil},
		"a text without text":            {line("body", `{}`), "", ErrMalformed},
		"a call":                         {line("toolCall", `{"callId":"c","toolName":"n","parameters":{"b":1,"a":2}}`), `tool.call c n {"b":1,"a":2} `, nil},
		"a call with a summary":          {line("toolCall", `{"callId":"c","toolName":"n","parameters":null,"parameterSummary":"s"}`), `tool.call c n  s`, nil},
		"a call without an id":           {line("toolCall", `{"toolName":"n"}`), "", ErrMalformed},
		"a result in words":              {line("toolResult", `{"callId":"c","toolName":"n","result":"ok"}`), `tool.result c n {"role":"toolResult","toolCallId":"c","toolName":"n","content":"ok","isError":false} false`, nil},
		"a result of any form":           {line("toolResult", `{"callId":"c","toolName":"n","result":[1],"isError":true}`), `tool.result c n {"role":"toolResult","toolCallId":"c","toolName":"n","content":"[1]","isError":true} true`, nil},
		"a result that is a message":     {line("toolResult", `{"callId":"c","toolName":"n","result":{"role":"toolResult","x":1}}`), `tool.result c n {"role":"toolResult","x":1} false`, nil},
		"a result that was not recorded": {line("toolResult", `{"callId":"c","toolName":"n"}`), `tool.result c n  false`, nil},
		"a response":                     {line("modelAction", `{"model":"m","usage":{"input":3},"stopReason":"stop","message":{"role":"assistant","content":"x"}}`), `model.completed m stop 3 {"role":"assistant","content":"x"}`, nil},
		"a response with its own usage":  {line("modelAction", `{"message":{"role":"assistant","content":"x","usage":{"input":4},"stopReason":"length"}}`), `model.completed  length 4 {"role":"assistant","content":"x","usage":{"input":4},"stopReason":"length"}`, nil},
		"a response without usage":       {line("modelAction", `{"message":{"role":"assistant","content":"x"}}`), `model.completed   none {"role":"assistant","content":"x"}`, nil},
		"a response without a message":   {line("modelAction", `{"usage":{}}`), "", ErrMalformed},
		"a response of the user":         {line("modelAction", `{"message":{"role":"user"}}`), "", ErrMalformed},
		"a kind that is not known":       {line("mood", `{}`), "", ErrUnknown},
		"no kind":                        {`{` + head + `}`, "", ErrMalformed},
		"no agent":                       {`{"kind":"body","payload":{"text":"x"}}`, "", ErrMalformed},
		"a negative turn":                {`{"agentId":"main","turn":-1,"kind":"body","payload":{"text":"x"}}`, "", ErrMalformed},
		"a payload that is no object":    {line("body", `"x"`), "", ErrMalformed},
		"a digest that is none":          {`{"agentId":"main","kind":"body","payloadRef":"x"}`, "", ErrMalformed},
		"invalid UTF-8":                  {line("body", "{\"text\":\"\xff\"}"), "", ErrMalformed},
		"half a line":                    {line("body", `{}`)[:20], "", ErrMalformed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			record, err := Journal([]byte(c.line), nil)
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if c.err != nil {
				return
			}
			evidence := record.Items[0].Event.Evidence
			if evidence.AgentID != "main" || evidence.AgentRunID != "u" || evidence.RequestExecutionID != "e" || evidence.Turn != 2 || evidence.ResponseID != "p" || evidence.RecordedAt.Year() != 2025 {
				t.Errorf("evidence is %+v", evidence)
			}
			if diff := cmp.Diff(c.want, say(record.Items[0])); diff != "" {
				t.Errorf("item (-want +got):\n%s", diff)
			}
		})
	}
}

// say is an item in words.
func say(item Item) string {
	e := item.Event
	switch {
	case e.Kind == runevent.KindModelCompleted:
		input := "none"
		if e.Usage != nil && e.Usage.Input != nil {
			input = fmt.Sprint(*e.Usage.Input)
		}
		return fmt.Sprintf("%s %s %s %s %s", e.Kind, item.Model, e.StopReason, input, item.Message)
	case e.Type == runevent.TypeToolCall:
		return fmt.Sprintf("%s %s %s %s %s", e.Type, e.CallID, e.Name, e.Arguments, item.Summary)
	case e.Type == runevent.TypeToolResult:
		return fmt.Sprintf("%s %s %s %s %t", e.Type, e.CallID, e.Name, e.Body, e.IsError)
	}
	return fmt.Sprintf("%s %s %d", e.Type, e.Text, e.Block)
}

func TestPayloads(t *testing.T) {
	payload := []byte(`{"text":"long"}`)
	line := []byte(`{"agentId":"main","kind":"body","payloadRef":"` + cas.Of(payload).String() + `"}`)
	record, err := Journal(line, nil)
	if err != nil || record.Payload != cas.Of(payload) {
		t.Errorf("without the payload: %+v, %v", record, err)
	}
	record, err = Journal(line, payload)
	if err != nil || !record.Payload.IsZero() || record.Items[0].Event.Text != "long" {
		t.Errorf("with it: %+v, %v", record, err)
	}
}

func TestSegment(t *testing.T) {
	cases := map[string]struct {
		segment string
		want    []string
		err     error
	}{
		"a text":                       {`{"agentId":"main","channel":"reasoning","text":"x"}`, []string{"reasoning x 0"}, nil},
		"of an owner":                  {`{"owner":"main","channel":"body","text":"x"}`, []string{"body x 0"}, nil},
		"a text and calls":             {`{"agentId":"main","channel":"body","text":"x","toolCalls":[{"callId":"c","toolName":"n","parameters":{}},{"callId":"d","toolName":"n"}]}`, []string{"body x 0", "tool.call c n {} ", "tool.call d n  "}, nil},
		"calls alone":                  {`{"agentId":"main","toolCalls":[{"callId":"c","toolName":"n"}]}`, []string{"tool.call c n  "}, nil},
		"nothing":                      {`{"agentId":"main"}`, nil, ErrMalformed},
		"a channel that is not known":  {`{"agentId":"main","channel":"song","text":"x"}`, nil, ErrUnknown},
		"an owner that is not the one": {`{"owner":"main","agentId":"other","channel":"body","text":"x"}`, nil, ErrMalformed},
		"a call without a name":        {`{"agentId":"main","toolCalls":[{"callId":"c"}]}`, nil, ErrMalformed},
		"not JSON":                     {`x`, nil, ErrMalformed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			record, err := Segment([]byte(c.segment))
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if c.err != nil {
				return
			}
			var got []string
			for _, item := range record.Items {
				got = append(got, say(item))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzParse holds that whatever stands in a file, a line is one of: understood, unknown, malformed; and that what is
// understood has an owner and becomes events whose contents are JSON.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"agentId":"main","kind":"toolResult","payload":{"callId":"c","toolName":"n","result":{"role":1}}}`))
	f.Add([]byte(`{"agentId":"main","kind":"modelAction","payload":{"message":{"role":"assistant"}}}`))
	f.Add([]byte(`{"agentId":"main","channel":"body","text":"x","toolCalls":[{"callId":"c","toolName":"n","parameters":1}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, kind := range []Kind{KindJournal, KindSegments, KindPayload} {
			record, err := Parse(kind, raw, nil)
			if err != nil {
				if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrMalformed) {
					t.Fatalf("unclassified error %v", err)
				}
				if errors.Is(err, ErrUnknown) && len(record.Items) != 1 {
					t.Fatalf("an unknown record with %d items", len(record.Items))
				}
				continue
			}
			for _, item := range record.Items {
				if item.Event.Evidence.AgentID == "" {
					t.Fatalf("no owner: %s", raw)
				}
				if item.Event.Type == runevent.TypeToolResult && item.Event.Body != nil {
					if _, err := message.Decode(item.Event.Body); err != nil && !bytes.Contains(raw, []byte(`"role"`)) {
						t.Fatalf("a result that is no message: %s: %v", item.Event.Body, err)
					}
				}
			}
		}
	})
}
