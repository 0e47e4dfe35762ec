package tool

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
)

// shelf is a set whose tools say whose they are.
type shelf struct {
	name     string
	tools    []string
	closeErr error
	closed   int
}

func (s *shelf) Definitions() []Definition {
	var out []Definition
	for _, name := range s.tools {
		out = append(out, Definition{Tool: message.Tool{Name: name}, Server: s.name})
	}
	return out
}

func (s *shelf) Call(_ context.Context, call Call, _ func(string)) (Result, error) {
	return Result{Content: message.Text(s.name + " ran " + call.Name)}, nil
}

func (s *shelf) Close() error { s.closed++; return s.closeErr }

func TestCombine(t *testing.T) {
	broken := errors.New("does not close")
	first, second := &shelf{name: "first", tools: []string{"now", "b"}, closeErr: broken}, &shelf{name: "second", tools: []string{"a", "b"}}
	set, shadowed := Combine(first, second)
	var names []string
	for _, definition := range set.Definitions() {
		names = append(names, definition.Server+"/"+definition.Name)
	}
	if diff := cmp.Diff([]string{"second/a", "first/b", "first/now"}, names); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
	if len(shadowed) != 1 || shadowed[0].Server != "second" || shadowed[0].Name != "b" {
		t.Errorf("shadowed %+v, want the second set's b", shadowed)
	}
	for name, want := range map[string]string{"a": "second ran a", "b": "first ran b", "now": "first ran now", "c": `There is no tool named "c".`} {
		got, err := set.Call(t.Context(), Call{Name: name}, nil)
		if err != nil || got.Content.Text != want || got.IsError != (name == "c") {
			t.Errorf("%s: %+v, %v, want %q", name, got, err, want)
		}
	}
	if err := set.Close(); !errors.Is(err, broken) || first.closed != 1 || second.closed != 1 {
		t.Errorf("close: %v, closed %d and %d times", err, first.closed, second.closed)
	}
}
