package codemode

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
)

func names(definitions []tool.Definition) []string {
	var out []string
	for _, d := range definitions {
		out = append(out, d.Name)
	}
	return out
}

func TestDefinitions(t *testing.T) {
	set := Wrap(standard(), []string{"math"}, nil, runner(t))
	if diff := cmp.Diff([]string{"codemode", "files__read", "math__drop"}, names(set.Definitions())); diff != "" {
		t.Errorf("declared (-want +got):\n%s", diff)
	}
	code := set.Definitions()[0]
	if diff := cmp.Diff([]string{"math__add", "math__echo", "math__fail"}, names(code.Nested)); diff != "" {
		t.Errorf("nested (-want +got):\n%s", diff)
	}
	for _, part := range []string{"math.add, math.echo, math.fail", "searchTools", "describeTool"} {
		if !strings.Contains(code.Description, part) {
			t.Errorf("the description lacks %q: %s", part, code.Description)
		}
	}
	if strings.Contains(code.Description, "drop") || code.Repeatable() || code.Concurrent() {
		t.Errorf("%+v", code)
	}
	t.Run("without a tool to hide the set stays as it is", func(t *testing.T) {
		plain := standard()
		if got := Wrap(plain, []string{"other"}, nil, runner(t)); got != tool.Set(plain) {
			t.Errorf("wrapped: %v", names(got.Definitions()))
		}
	})
	t.Run("a run that goes on keeps what it was begun with", func(t *testing.T) {
		begun := set.Definitions()
		known := Known(begun)
		if diff := cmp.Diff([]string{"math__add", "math__echo", "math__fail", "files__read", "math__drop"}, names(known)); diff != "" {
			t.Errorf("known (-want +got):\n%s", diff)
		}
		again := Wrap(&inner{definitions: known}, []string{"files"}, begun, runner(t))
		if diff := cmp.Diff(begun, again.Definitions()); diff != "" {
			t.Errorf("definitions (-want +got):\n%s", diff)
		}
		execute(t, again, `return (await tools.math.echo({text: "x"}))`).want(t, false, `"x"`)
		direct := Wrap(&inner{definitions: known}, []string{"math"}, known, runner(t))
		if diff := cmp.Diff(names(known), names(direct.Definitions())); diff != "" {
			t.Errorf("a run that began without Codemode (-want +got):\n%s", diff)
		}
	})
	t.Run("other tools are called as before", func(t *testing.T) {
		result, err := set.Call(t.Context(), tool.Call{Name: "files__read", Arguments: []byte(`{"text":"direct"}`)}, nil)
		if err != nil || result.Content.Text != "direct" {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

// TestNestedToolsTellWhatTheyDo holds the output of code to what the tools tell that it calls, each with its name.
func TestNestedToolsTellWhatTheyDo(t *testing.T) {
	set := Wrap(standard(), []string{"math"}, nil, runner(t))
	var told []string
	result, err := set.Call(t.Context(), tool.Call{ID: "c1", Name: ToolName, Arguments: []byte(`{"code":"await tools.math.echo({}); await tools.math.add({})"}`)},
		func(text string) { told = append(told, text) })
	if err != nil || result.IsError {
		t.Fatalf("%+v, %v", result, err)
	}
	if diff := cmp.Diff([]string{"math.echo: working", "math.add: working"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestManyToolsAreCounted(t *testing.T) {
	many := &inner{}
	for _, server := range []string{"one", "two"} {
		for i := range 100 {
			many.definitions = append(many.definitions, define(server, "tool_"+strings.Repeat("x", i)))
		}
	}
	description := Wrap(many, []string{"one", "two"}, nil, runner(t)).Definitions()[0].Description
	if !strings.Contains(description, "tools.one (100 functions), tools.two (100 functions)") || len(description) > 2*maxListed {
		t.Errorf("%d bytes: %s", len(description), description)
	}
}

func TestNames(t *testing.T) {
	all := callables([]tool.Definition{
		define("my-tools", "a.b"), define("my-tools", "a:b"), define("my_tools", "1st"), define("proto", "__proto__"), define("proto", "日本"), define("proto", ""),
	}, []tool.Definition{define("proto", "constructor", approved)})
	var got []string
	for _, c := range all {
		got = append(got, c.name())
	}
	want := []string{"my_tools.a_b", "my_tools.a_b_2", "my_tools_2._1st", "proto._", "proto.__proto__", "proto.constructor", "proto.__"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	set := Wrap(&inner{definitions: []tool.Definition{define("__proto__", "__proto__"), define("proto", "then")}}, []string{"__proto__", "proto"}, nil, runner(t))
	execute(t, set, `return [await tools.__proto__.__proto__({text: "a"}), await tools.proto.then({text: "b"})]`).want(t, false, `["a","b"]`)
}

func TestExecutions(t *testing.T) {
	cases := map[string]struct {
		code    string
		isError bool
		parts   []string
	}{
		"two tools and a sum":            {`const a = await tools.math.add({A: 1, B: 2}); const b = await tools.math.add({A: a.sum, B: 4}); return b.sum`, false, []string{"7"}},
		"tools at once":                  {`return (await Promise.all([1,2,3].map(n => tools.math.add({A: n, B: n})))).map(r => r.sum)`, false, []string{"[2,4,6]"}},
		"text that is no structure":      {`return await tools.math.echo({text: "ü\u2028 😀 \ud800"})`, false, []string{"\"ü\u2028 😀 \uFFFD\""}},
		"the time of day has no zone":    {`return [new Date(0).getTimezoneOffset(), new Date(0).toString().slice(0, 24), new Date(2026, 6, 1).getHours()]`, false, []string{`[0,"Thu Jan 01 1970 00:00:00",0]`}},
		"nothing returned":               {`tools`, false, []string{"returned nothing"}},
		"nothing at all":                 {``, false, []string{"returned nothing"}},
		"the console":                    {`console.log("a", {b: 1}, 2n); console.error(new Error("c")); return 1`, false, []string{"1\n\nconsole:\na {\"b\":1} 2\nError: c"}},
		"a failing tool throws":          {"\nawait tools.math.fail()", true, []string{"Error: it broke"}},
		"a failure can be caught":        {`try { await tools.math.fail() } catch (e) { return "caught " + e.message }`, false, []string{"caught it broke"}},
		"arguments that do not fit":      {`await tools.math.add({A: "x"})`, true, []string{"do not fit"}},
		"arguments that are no JSON":     {`const a = {}; a.a = a; await tools.math.add(a)`, true, []string{"circular"}},
		"a function as arguments":        {`await tools.math.add(() => 1)`, true, []string{"cannot be written as JSON"}},
		"a tool that needs approval":     {`await tools.math.drop({})`, true, []string{"needs a person's approval", "Call the tool math__drop itself"}},
		"delegate":                       {`await delegate({})`, true, []string{"Call the tool delegate itself"}},
		"a tool of a direct server":      {`await tools.files.read({})`, true, []string{"TypeError"}},
		"a tool that there is not":       {`await tools.math.nothing({})`, true, []string{"TypeError", "not a function"}},
		"a search":                       {`return await searchTools("adding: ADD")`, false, []string{`[{"name":"math.add","description":"Does add."}]`}},
		"a search for what needs a hand": {`return await searchTools("drop")`, false, []string{`"callDirectly":"This tool needs`}},
		"an empty search":                {`return (await searchTools("")).length`, false, []string{"4"}},
		"a description":                  {`return await describeTool("math.add")`, false, []string{`"parameters":{"type":"object","properties":{"a":{"type":"number"}}}`, `"readOnly":true`}},
		"a description by another name":  {`return (await describeTool("tools.math.echo")).name + (await describeTool("math__echo")).name`, false, []string{"math.echomath.echo"}},
		"a description of nothing":       {`await describeTool("x")`, true, []string{`no tool named "x"`}},
		"a syntax error":                 {"let a = 1;\nlet b = ;", true, []string{"SyntaxError", "(line 2)"}},
		"a type error":                   {"let a = {};\n\na.b.c", true, []string{"TypeError", "(line 3)"}},
		"a thrown string":                {`throw "no"`, true, []string{"no"}},
		"a result that is no JSON":       {`return 1n`, true, []string{"TypeError"}},
		"modules":                        {`const fs = await import("fs"); return 1`, true, nil},
		"timers":                         {`setTimeout(() => 1, 1)`, true, []string{"setTimeout"}},
	}
	set := Wrap(standard(), []string{"math"}, nil, runner(t))
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			execute(t, set, tc.code).want(t, tc.isError, tc.parts...)
		})
	}
}

// TestAServerNamedTools finds its tools by the name that a search gives, which begins like the object they are in.
func TestAServerNamedTools(t *testing.T) {
	set := Wrap(&inner{definitions: []tool.Definition{define("tools", "echo")}}, []string{"tools"}, nil, runner(t))
	execute(t, set, `const [found] = await searchTools("echo");
return [found.name, (await describeTool(found.name)).name, (await describeTool("tools.tools.echo")).name, await tools.tools.echo({text: "x"})]`).
		want(t, false, `["tools.echo","tools.echo","tools.echo","x"]`)
}

func TestArgumentsOfTheTool(t *testing.T) {
	set := Wrap(standard(), []string{"math"}, nil, runner(t, func(l *Limits) { l.CodeBytes = 50 }))
	for arguments, want := range map[string]string{
		``: "must be", `{}`: "must be", `{"code":1}`: "must be", `[]`: "must be", `{"code":"` + strings.Repeat(" ", 51) + `"}`: "at most 50",
	} {
		result, err := set.Call(t.Context(), tool.Call{Name: ToolName, Arguments: []byte(arguments)}, nil)
		if err != nil || !result.IsError || !strings.Contains(result.Content.Text, want) {
			t.Errorf("%s: %+v, %v", arguments, result, err)
		}
	}
}

// TestRecord shows what the engine is told, and when.
func TestRecord(t *testing.T) {
	set := Wrap(standard(), []string{"math"}, nil, runner(t))
	t.Run("every call, before and after", func(t *testing.T) {
		var r recorder
		execute(t, set, `await tools.math.echo({text: "a"}); try { await tools.math.fail() } catch (_) {} await searchTools("x"); tools.math.add({A: 1}); return 1`, r.record).want(t, false, "1")
		want := []string{
			`1 math__echo begins {"text":"a"}`, "1 math__echo ended ok", "2 math__fail begins {}", "2 math__fail ended toolError",
			`3 math__add begins {"A":1}`, "3 math__add ended ok", // nobody waited for it, and it is accounted for
		}
		if diff := cmp.Diff(want, r.told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
	t.Run("a call that cannot be recorded does not start", func(t *testing.T) {
		lost, called := errors.New("lost"), false
		tools := standard()
		tools.call = func(context.Context, tool.Call) (tool.Result, error) {
			called = true
			return tool.Result{}, nil
		}
		r := recorder{fail: func(tool.Nested) error { return lost }}
		_, err := Wrap(tools, []string{"math"}, nil, runner(t)).Call(t.Context(), tool.Call{
			Name: ToolName, Arguments: []byte(`{"code":"try { await tools.math.echo({}) } catch (_) {} return 1"}`), Record: r.record,
		}, nil)
		if !errors.Is(err, lost) || called {
			t.Errorf("error %v, called %t", err, called)
		}
	})
	t.Run("an end from outside", func(t *testing.T) {
		cause := errors.New("run cancelled")
		ctx, cancel := context.WithCancelCause(t.Context())
		tools := standard()
		tools.call = func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			cancel(cause)
			<-ctx.Done()
			return tool.Result{}, context.Cause(ctx)
		}
		var r recorder
		_, err := Wrap(tools, []string{"math"}, nil, runner(t)).Call(ctx, tool.Call{
			Name: ToolName, Arguments: []byte(`{"code":"await tools.math.echo({})"}`), Record: r.record,
		}, nil)
		if !errors.Is(err, cause) {
			t.Errorf("error %v, want the cause", err)
		}
		if diff := cmp.Diff([]string{"1 math__echo begins {}", "1 math__echo ended timeout"}, r.told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
	t.Run("time that is over while a tool works", func(t *testing.T) {
		tools := standard()
		tools.call = func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, context.Cause(ctx)
		}
		var r recorder
		set := Wrap(tools, []string{"math"}, nil, runner(t, func(l *Limits) { l.Wall = 2 * time.Second }))
		execute(t, set, `await tools.math.echo({})`, r.record).want(t, true, "took longer than 2s", "may have taken effect")
		if diff := cmp.Diff([]string{"1 math__echo begins {}", "1 math__echo ended timeout"}, r.told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

func TestImagesAreNamed(t *testing.T) {
	tools := standard()
	tools.call = func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: message.Blocks(message.Block{Type: message.BlockText, Text: "a"}, message.Block{Type: message.BlockImage})}, nil
	}
	execute(t, Wrap(tools, []string{"math"}, nil, runner(t)), `return await tools.math.echo({})`).want(t, false, `a\n[image, which code cannot see`)
}

func TestCloseClosesTheTools(t *testing.T) {
	tools := standard()
	if err := Wrap(tools, []string{"math"}, nil, runner(t)).Close(); err != nil || !tools.closed {
		t.Errorf("closed %t, %v", tools.closed, err)
	}
}
