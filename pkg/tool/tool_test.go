package tool

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
)

// TestDefinitionKeepsItsMarks holds the stored form to every field: a takeover calls tools by what was stored.
func TestDefinitionKeepsItsMarks(t *testing.T) {
	want := Definition{
		Tool:   message.Tool{Name: "srv__add", Description: "adds", Parameters: []byte(`{"type":"object"}`)},
		Server: "srv", RemoteName: "add", ReadOnly: true, Idempotent: true, RetrySafe: true, RequiresApproval: true,
		Nested: []Definition{{Tool: message.Tool{Name: "srv__get", Parameters: []byte(`{}`)}, Server: "srv", RemoteName: "get", ReadOnly: true}},
	}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Definition
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", raw, diff)
	}
	const stored = `{"tool":{"name":"srv__add","description":"adds","parameters":{"type":"object"}},"server":"srv","remoteName":"add",` +
		`"readOnly":true,"idempotent":true,"retrySafe":true,"requiresApproval":true,` +
		`"nested":[{"tool":{"name":"srv__get","description":"","parameters":{}},"server":"srv","remoteName":"get","readOnly":true}]}`
	if string(raw) != stored {
		t.Errorf("stored form: got %s, want %s", raw, stored)
	}
}

// TestSafety holds the marks to the rule that a server's word alone never makes the engine less careful.
func TestSafety(t *testing.T) {
	cases := map[string]struct {
		definition             Definition
		repeatable, concurrent bool
	}{
		"nothing said":                        {Definition{}, false, false},
		"the server says read-only":           {Definition{ReadOnly: true}, false, true},
		"the server says idempotent":          {Definition{Idempotent: true}, false, false},
		"the author says safe, server silent": {Definition{RetrySafe: true}, false, true},
		"both agree on read-only":             {Definition{ReadOnly: true, RetrySafe: true}, true, true},
		"both agree on idempotent":            {Definition{Idempotent: true, RetrySafe: true}, true, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.definition.Repeatable(); got != tc.repeatable {
				t.Errorf("Repeatable() = %v, want %v", got, tc.repeatable)
			}
			if got := tc.definition.Concurrent(); got != tc.concurrent {
				t.Errorf("Concurrent() = %v, want %v", got, tc.concurrent)
			}
		})
	}
}

// TestRepeatableAfter holds code that was interrupted to the rule for what it had called.
func TestRepeatableAfter(t *testing.T) {
	named := func(name string, readOnly, idempotent, retrySafe bool) Definition {
		return Definition{Tool: message.Tool{Name: name}, ReadOnly: readOnly, Idempotent: idempotent, RetrySafe: retrySafe}
	}
	code := Definition{Nested: []Definition{
		named("get", true, false, true), named("list", true, false, true), named("put", false, true, true), named("said", true, false, false), named("write", false, false, false),
	}}
	cases := map[string]struct {
		definition Definition
		begun      []string
		want       bool
	}{
		"nothing was called":                         {code, nil, true},
		"only what reads was called":                 {code, []string{"get", "list"}, true},
		"one of them writes":                         {code, []string{"get", "write"}, false},
		"idempotent is not enough":                   {code, []string{"put"}, false},
		"the server says so, the author does not":    {code, []string{"said"}, false},
		"a tool that is not known":                   {code, []string{"gone"}, false},
		"a tool without nested ones is as it was":    {named("t", true, false, true), nil, true},
		"a plain tool that is not repeatable is not": {named("t", true, false, false), nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.definition.RepeatableAfter(tc.begun); got != tc.want {
				t.Errorf("RepeatableAfter(%v) = %v, want %v", tc.begun, got, tc.want)
			}
		})
	}
}
