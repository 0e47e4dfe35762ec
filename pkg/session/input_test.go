package session

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/message"
)

// TestAppendInput pins the bytes whose digest a context snapshot holds.
func TestAppendInput(t *testing.T) {
	user := message.Encode(message.Message{Role: message.RoleUser, Content: message.Text("a < b")})
	tools := []message.Tool{{Name: "add", Description: "adds", Parameters: json.RawMessage(`{"type":"object"}`)}}
	cases := map[string]struct {
		system   string
		messages [][]byte
		tools    []message.Tool
		want     string
	}{
		"nothing":     {want: `{"messages":[]}`},
		"one message": {messages: [][]byte{user}, want: `{"messages":[` + string(user) + `]}`},
		"everything": {
			system: "Be \"brief\".\n", messages: [][]byte{user, user}, tools: tools,
			want: `{"system":"Be \"brief\".\n","messages":[` + string(user) + `,` + string(user) + `],"tools":[` + string(tools[0].AppendJSON(nil)) + `]}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := AppendInput([]byte("x"), tc.system, tc.messages, tc.tools)
			if diff := cmp.Diff("x"+tc.want, string(got)); diff != "" {
				t.Errorf("input (-want +got):\n%s", diff)
			}
			if !json.Valid(got[1:]) {
				t.Errorf("%s is not JSON", got[1:])
			}
		})
	}
}

// TestMessageIn finds messages in their containers by their exact bytes.
func TestMessageIn(t *testing.T) {
	state, err := EncodeObject(testState())
	if err != nil {
		t.Fatal(err)
	}
	action, err := EncodeObject(golden()["modelaction"])
	if err != nil {
		t.Fatal(err)
	}
	answer, ok := golden()["modelaction"].(ModelAction)
	if !ok {
		t.Fatal("the golden model action is of another type")
	}
	cases := map[string]struct {
		container []byte
		index     int
		want      string
		refused   bool
	}{
		"the message of an action":              {container: action, want: string(message.Encode(answer.Message))},
		"an action has one message":             {container: action, index: 1, refused: true},
		"an inline result of a step":            {container: state, index: 1, want: string(testState().Step.Messages[1].Inline)},
		"a message that the step only names":    {container: state, index: 2, refused: true},
		"behind the step's messages":            {container: state, index: 3, refused: true},
		"before them":                           {container: state, index: -1, refused: true},
		"a container of a later version":        {container: []byte(`{"v":2,"message":{}}`), refused: true},
		"an object that contains no messages":   {container: []byte(`{"v":1,"sections":[]}`), refused: true},
		"bytes that are no object":              {container: []byte(`message`), refused: true},
		"a step of another form":                {container: []byte(`{"v":1,"step":{"messages":{}}}`), refused: true},
		"whitespace inside the message is kept": {container: []byte(`{"v":1,"message":{"a": 1}}`), want: `{"a": 1}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := MessageIn(tc.container, tc.index)
			if tc.refused {
				if !errors.Is(err, ErrFormat) {
					t.Fatalf("%s, error %v, want ErrFormat", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStepRefs names each message of a step where it is stored: in its own object, in another container, or in the
// state that holds the step.
func TestStepRefs(t *testing.T) {
	self := cas.Of([]byte("self"))
	step := testState().Step
	want := []cas.MessageRef{*step.Messages[0].Ref, InContainer(self, 1), *step.Messages[2].Ref}
	if diff := cmp.Diff(want, step.StepRefs(self), same); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
}
