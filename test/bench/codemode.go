package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/agentloop/agentloop/pkg/budget"
	"github.com/agentloop/agentloop/pkg/budget/o200k"
	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
	"github.com/agentloop/agentloop/pkg/tool/codemode"
)

// The targets of an execution: its start, and what its process takes for itself.
const (
	maxCodeStart = 80
	maxCodeChild = 40
	// codeTools is how many tools are declared or not.
	codeTools = 100
)

// codeSet is a set of made-up tools, which looks at the interpreter process whenever one is called.
type codeSet struct {
	definitions []tool.Definition
	look        func()
}

func (s *codeSet) Definitions() []tool.Definition { return s.definitions }
func (s *codeSet) Close() error                   { return nil }

func (s *codeSet) Call(context.Context, tool.Call, func(string)) (tool.Result, error) {
	s.look()
	return tool.Result{Content: message.Text("ok"), Audit: tool.Audit{Server: "issues", Outcome: "ok"}}, nil
}

// manyTools are tools as servers of issue trackers and clusters have them: some parameters with a sentence each.
func manyTools() []tool.Definition {
	var out []tool.Definition
	verbs := []string{"list", "get", "create", "update", "delete", "search", "comment_on", "close", "assign", "label"}
	nouns := []string{"issue", "pull_request", "repository", "branch", "release", "workflow", "deployment", "pod", "secret_name", "user"}
	for _, verb := range verbs {
		for _, noun := range nouns {
			name := verb + "_" + noun
			out = append(out, tool.Definition{
				Tool: message.Tool{
					Name:        "issues__" + name,
					Description: fmt.Sprintf("Lets you %s a %s of the project that is named by owner and repo. Fails if it does not exist or may not be seen.", verb, noun),
					Parameters: fmt.Appendf(nil, `{"type":"object","properties":{"owner":{"type":"string","description":"The account that owns the repository"},`+
						`"repo":{"type":"string","description":"The name of the repository, without its owner"},"id":{"type":"integer","minimum":1,"description":"Which %s"},`+
						`"state":{"type":"string","enum":["open","closed","all"],"description":"Only those in this state"},"page":{"type":"integer","minimum":1},"perPage":{"type":"integer","minimum":1,"maximum":100}},`+
						`"required":["owner","repo"]}`, noun),
				},
				Server: "issues", RemoteName: name,
			})
		}
	}
	return out[:codeTools]
}

// measureCodemode measures an execution of code in the manager's program, and what Codemode saves.
func measureCodemode(ctx context.Context, c config, say func(string, ...any)) ([]Figure, error) {
	program, err := filepath.Abs(filepath.Join(c.load.root, "bin", "manager"))
	if err != nil {
		return nil, err
	}
	var seen childMemory
	var lookErr error
	set := &codeSet{definitions: manyTools(), look: func() { seen, lookErr = onlyChild() }}
	code := codemode.Wrap(set, []string{"issues"}, nil, codemode.NewRunner([]string{program, codemode.ChildArgument}, codemode.DefaultLimits()))
	say("running %d pieces of code", c.count)
	var nothing, calling, own, shared []float64
	for range c.count {
		empty, err := timed(ctx, code, "return 1")
		if err != nil {
			return nil, err
		}
		one, err := timed(ctx, code, "return await tools.issues.list_issue({})")
		if err = errors.Join(err, lookErr); err != nil {
			return nil, err
		}
		nothing, calling = append(nothing, empty), append(calling, one)
		own, shared = append(own, seen.own), append(shared, seen.mapped)
	}
	direct, coded := declared(set.definitions), declared(code.Definitions())
	return []Figure{
		figure("codemode", "an execution that does nothing", "ms", nothing...).atMost(maxCodeStart),
		figure("codemode", "an execution with one call", "ms", calling...),
		figure("codemode", "memory of the process's own", "MiB", own...).atMost(maxCodeChild),
		figure("codemode", "program text that it shares with the worker", "MiB", shared...),
		figure("codemode", "100 tools, Direct", "o200k tokens", direct),
		figure("codemode", "100 tools, Codemode", "o200k tokens", coded),
		figure("codemode", "Direct by Codemode", "times", direct/coded),
	}, nil
}

// timed runs code and returns how long it took in milliseconds.
func timed(ctx context.Context, set tool.Set, code string) (float64, error) {
	arguments, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	result, err := set.Call(ctx, tool.Call{ID: "c", Name: codemode.ToolName, Arguments: arguments}, nil)
	took := time.Since(begun)
	if err == nil && result.IsError {
		err = errors.New(result.Content.Text)
	}
	return float64(took) / float64(time.Millisecond), err
}

// declared is what the declarations count by the vocabulary.
func declared(definitions []tool.Definition) float64 {
	tools := make([]message.Tool, len(definitions))
	for i, d := range definitions {
		tools[i] = d.Tool
	}
	return float64(budget.ToolTokensWith(o200k.New(), tools))
}

// childMemory is the memory of an interpreter process in MiB: what is its own, and what is mapped from files.
type childMemory struct{ own, mapped float64 }

// onlyChild looks at this process's only child.
func onlyChild() (childMemory, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getpid()))
	if err != nil {
		return childMemory{}, err
	}
	var children []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return childMemory{}, err
		}
		children = append(children, strings.Fields(string(raw))...)
	}
	if len(children) != 1 {
		return childMemory{}, fmt.Errorf("%d child processes, want the interpreter's", len(children))
	}
	raw, err := os.ReadFile("/proc/" + children[0] + "/status")
	if err != nil {
		return childMemory{}, err
	}
	var out childMemory
	for _, line := range strings.Split(string(raw), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kilobytes, err := strconv.ParseFloat(fields[1], 64)
		switch {
		case err != nil:
		case fields[0] == "RssAnon:" || fields[0] == "RssShmem:":
			out.own += kilobytes / 1024
		case fields[0] == "RssFile:":
			out.mapped = kilobytes / 1024
		}
	}
	return out, nil
}
