package codemode

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
)

// Set is a set of which some tools are called from code only.
type Set struct {
	inner       tool.Set
	runner      *Runner
	definitions []tool.Definition
	callables   []callable
	byName      map[string]callable
}

var _ tool.Set = (*Set)(nil)

// Known are the definitions that the wrapped set of a run was begun with: the run's own with those that the code tool
// stands for. It is nil for nil.
func Known(run []tool.Definition) []tool.Definition {
	var out []tool.Definition
	for _, d := range run {
		if d.Name == ToolName && d.Server == "" {
			out = append(out, d.Nested...)
			continue
		}
		out = append(out, d)
	}
	return out
}

// Wrap hides the tools of the named servers behind one tool that runs code. Those that need a person's approval stay
// declared. A run that goes on brings the definitions that it was begun with as known: exactly those come out again,
// whatever servers says by now. Without a tool to hide, the set itself is returned. The returned set owns inner.
func Wrap(inner tool.Set, servers []string, known []tool.Definition, runner *Runner) tool.Set {
	all := inner.Definitions()
	hidden := map[string]bool{}
	var declared *tool.Definition
	for i := range known {
		if known[i].Name == ToolName && known[i].Server == "" {
			declared = &known[i]
			for _, d := range declared.Nested {
				hidden[d.Name] = true
			}
		}
	}
	if known == nil {
		for _, d := range all {
			hidden[d.Name] = slices.Contains(servers, d.Server) && !d.RequiresApproval
		}
	}
	s := &Set{inner: inner, runner: runner, byName: map[string]callable{}}
	var nested []tool.Definition
	for _, d := range all {
		if hidden[d.Name] {
			nested = append(nested, d)
			continue
		}
		s.definitions = append(s.definitions, d)
	}
	if len(nested) == 0 {
		return inner
	}
	s.name(nested)
	if declared == nil {
		declared = &tool.Definition{Tool: declaration(s.callables), Nested: nested}
	}
	s.definitions = append(s.definitions, *declared)
	slices.SortStableFunc(s.definitions, func(a, b tool.Definition) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// name makes the functions that code sees: the nested tools, and those of the same servers that it may not call.
func (s *Set) name(nested []tool.Definition) {
	servers := map[string]bool{}
	for _, d := range nested {
		servers[d.Server] = true
	}
	var approval []tool.Definition
	for _, d := range s.definitions {
		if servers[d.Server] && d.RequiresApproval {
			approval = append(approval, d)
		}
	}
	s.callables = callables(nested, approval)
	for _, c := range s.callables {
		s.byName[c.name()] = c
	}
}

// Definitions implements tool.Set: sorted by name.
func (s *Set) Definitions() []tool.Definition { return slices.Clone(s.definitions) }

// Close implements tool.Set.
func (s *Set) Close() error { return s.inner.Close() }

// Call implements tool.Set. A call of the code tool calls call.Record, and fails with its error.
func (s *Set) Call(ctx context.Context, call tool.Call, onProgress func(text string)) (tool.Result, error) {
	if call.Name != ToolName {
		return s.inner.Call(ctx, call, onProgress)
	}
	var arguments struct {
		Code *string `json:"code"`
	}
	if err := json.Unmarshal(call.Arguments, &arguments); err != nil || arguments.Code == nil {
		return failed(`The arguments must be {"code": "..."} with the code as a string. Nothing was run.`), nil //nolint:nilerr // the model is told
	}
	if size := len(*arguments.Code); size > s.runner.limits.CodeBytes {
		return failed(fmt.Sprintf("The code has %d bytes, at most %d. Nothing was run.", size, s.runner.limits.CodeBytes)), nil
	}
	if onProgress == nil {
		onProgress = func(string) {}
	}
	e := &execution{set: s, limits: s.runner.limits, record: call.Record, report: onProgress, ended: make(chan ended, s.runner.limits.Parallel)}
	return e.run(ctx, *arguments.Code)
}

// failed is an error result.
func failed(text string) tool.Result {
	return tool.Result{Content: message.Text(text), IsError: true}
}
