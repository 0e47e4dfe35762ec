package codemode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
)

// inner is a set of tools that do as the test says.
type inner struct {
	definitions []tool.Definition
	call        func(ctx context.Context, call tool.Call) (tool.Result, error)
	running     atomic.Int32
	most        atomic.Int32
	closed      bool
}

func (s *inner) Definitions() []tool.Definition { return s.definitions }

func (s *inner) Close() error {
	s.closed = true
	return nil
}

func (s *inner) Call(ctx context.Context, call tool.Call, onProgress func(string)) (tool.Result, error) {
	if onProgress != nil {
		onProgress("working")
	}
	if now := s.running.Add(1); now > s.most.Load() {
		s.most.Store(now)
	}
	defer s.running.Add(-1)
	if s.call != nil {
		return s.call(ctx, call)
	}
	return numbers(call)
}

// numbers adds, echoes and fails.
func numbers(call tool.Call) (tool.Result, error) {
	audit := tool.Audit{Server: "math", Method: "tools/call", Outcome: "ok"}
	var in struct {
		A, B float64
		Text string
	}
	if err := json.Unmarshal(call.Arguments, &in); err != nil {
		audit.Outcome = "toolError"
		return tool.Result{Content: message.Text("The arguments do not fit."), IsError: true, Audit: audit}, nil //nolint:nilerr // the caller is told
	}
	switch call.Name {
	case "math__add":
		return tool.Result{Content: message.Text("ignored"), Details: fmt.Appendf(nil, `{"structuredContent":{"sum":%g}}`, in.A+in.B), Audit: audit}, nil
	case "math__fail":
		audit.Outcome = "toolError"
		return tool.Result{Content: message.Text("it broke"), IsError: true, Audit: audit}, nil
	}
	return tool.Result{Content: message.Text(in.Text), Audit: audit}, nil
}

func define(server, name string, change ...func(*tool.Definition)) tool.Definition {
	d := tool.Definition{
		Tool:   message.Tool{Name: server + "__" + name, Description: "Does " + name + ".", Parameters: []byte(`{"type":"object","properties":{"a":{"type":"number"}}}`)},
		Server: server, RemoteName: name,
	}
	for _, c := range change {
		c(&d)
	}
	return d
}

func approved(d *tool.Definition) { d.RequiresApproval = true }
func reads(d *tool.Definition)    { d.ReadOnly, d.RetrySafe = true, true }

// standard are the tools of most tests.
func standard() *inner {
	return &inner{definitions: []tool.Definition{
		define("files", "read"), define("math", "add", reads), define("math", "drop", approved), define("math", "echo"), define("math", "fail"),
	}}
}

// runner starts this test program as the interpreter process.
func runner(t *testing.T, change ...func(*Limits)) *Runner {
	t.Helper()
	limits := Limits{Wall: time.Minute}
	for _, c := range change {
		c(&limits)
	}
	return NewRunner([]string{os.Args[0], ChildArgument}, limits)
}

// recorder keeps what the engine is told.
type recorder struct {
	mu   sync.Mutex
	told []string
	fail func(tool.Nested) error
}

func (r *recorder) record(n tool.Nested) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		if err := r.fail(n); err != nil {
			return err
		}
	}
	what := "begins " + string(n.Arguments)
	if n.Audit != nil {
		what = "ended " + n.Audit.Outcome
	}
	r.told = append(r.told, fmt.Sprintf("%d %s %s", n.Number, n.Name, what))
	return nil
}

// outcome is one execution, with its result as text.
type outcome struct {
	tool.Result
	text string
	took time.Duration
}

func execute(t *testing.T, set tool.Set, code string, record ...func(tool.Nested) error) outcome {
	t.Helper()
	var arguments bytes.Buffer
	enc := json.NewEncoder(&arguments)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]string{"code": code}); err != nil {
		t.Fatal(err)
	}
	call := tool.Call{ID: "c1", Name: ToolName, Arguments: arguments.Bytes()}
	for _, r := range record {
		call.Record = r
	}
	started := time.Now()
	result, err := set.Call(t.Context(), call, nil)
	if err != nil {
		t.Fatalf("call: %v", err)
	}
	return outcome{result, result.Content.Text, time.Since(started)}
}

func (o outcome) want(t *testing.T, isError bool, parts ...string) {
	t.Helper()
	if o.IsError != isError {
		t.Errorf("isError %t, want %t: %.500s", o.IsError, isError, o.text)
	}
	for _, part := range parts {
		if !strings.Contains(o.text, part) {
			t.Errorf("result lacks %q: %.500s", part, o.text)
		}
	}
}
