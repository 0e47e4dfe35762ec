//go:build !race

// The race detector makes the interpreter, which is Go code, ten times as slow and several times as large: what these tests
// say about its limits would be about the detector. Calls, frames and the worker's side have tests of their own.

package codemode

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHostileCode runs code that wants more than it may have. Each ends as a result, in bounded time, and the set goes on.
func TestHostileCode(t *testing.T) {
	cases := map[string]struct {
		code    string
		isError bool
		parts   []string
	}{
		"an endless loop":                 {`for (;;) {}`, true, []string{"computed for more than 2s"}},
		"an endless loop that catches":    {`for (;;) { try { for (;;) {} } catch (_) {} finally { continue } }`, true, []string{"stopped"}},
		"an endless chain of promises":    {`const f = () => Promise.resolve().then(f); await f()`, true, []string{"out of memory"}},
		"a catastrophic expression":       {`return /^(a+)+$/.test("a".repeat(40) + "b")`, true, []string{"computed for more than 2s"}},
		"a native loop without end":       {`return Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)`, true, []string{"stopped"}},
		"a bomb of arrays":                {`const a = []; for (;;) a.push(new Array(1e5).fill(7))`, true, []string{"out of memory"}},
		"a bomb of strings":               {`let s = "x"; for (;;) s += s`, true, nil},
		"a string of two gigabytes":       {`return "x".repeat(2 ** 31 - 1).length`, true, nil},
		"a buffer of a gigabyte":          {`return new ArrayBuffer(2 ** 30).byteLength`, true, []string{"out of memory"}},
		"memory that is let go of":        {`let n = 0; for (let i = 0; i < 300; i++) n += new Uint8Array(1e6).length; return n`, false, []string{"300000000"}},
		"deep recursion":                  {`const f = n => f(n + 1) + 1; return f(0)`, true, []string{"stack overflow"}},
		"deep recursion that is caught":   {`const f = () => { try { f() } catch (_) { f() } }; f()`, true, nil},
		"a deep structure":                {`let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return a`, true, nil},
		"a deep expression":               {"return " + strings.Repeat("(", 20_000) + "1" + strings.Repeat(")", 20_000), true, nil},
		"a huge result":                   {`return "ü".repeat(4e6)`, false, []string{"[Cut: the result has ", "Return less."}},
		"a huge console":                  {`for (let i = 0; i < 1e5; i++) console.log("ü".repeat(100)); return 1`, false, []string{"1\n\nconsole:\n", "[Cut: the console has "}},
		"a huge error":                    {`throw new Error("x".repeat(1e7))`, true, []string{"xxx"}},
		"huge arguments":                  {`await tools.math.echo({text: "x".repeat(1e6)})`, true, []string{"too long"}},
		"a promise that never settles":    {`await new Promise(() => {})`, true, []string{"never ended"}},
		"a thousand calls at once":        {`return (await Promise.allSettled(Array.from({length: 1000}, (_, i) => tools.math.add({A: i, B: 0})))).filter(r => r.status === "fulfilled").length`, false, []string{"128"}},
		"calls without end":               {`for (;;) { try { await tools.math.add({}) } catch (_) {} }`, true, []string{"stopped"}},
		"built-ins that are replaced":     {`JSON.stringify = JSON.parse = () => "evil"; Object.prototype.resolve = 1; String.prototype.slice = () => "evil"; Error = null; return (await tools.math.add({A: 1, B: 2})).sum`, false, []string{"3"}},
		"promises that are replaced":      {`Promise.prototype.then = () => 1; return (await tools.math.add({A: 1, B: 2})).sum`, true, []string{"never ended"}},
		"setters on every object":         {`for (const k of ["id", "kind", "name", "arguments", "server", "then"]) Object.defineProperty(Object.prototype, k, {set() { throw 1 }, get() { return "files.read" }}); return (await tools.math.add({A: 1, B: 2})).sum`, false, []string{"3"}},
		"the prototype's prototype":       {`Object.prototype.__proto__.x = 1`, true, []string{"TypeError"}},
		"tools that are replaced":         {`"use strict"; tools.math.add = 1`, true, []string{"TypeError"}},
		"other tools for the same name":   {`"use strict"; globalThis.tools = {}; return 1`, true, []string{"TypeError"}},
		"the host's functions":            {`return [typeof $send, typeof $finish, typeof $log, typeof globalThis.$send]`, false, []string{`["undefined","undefined","undefined","undefined"]`}},
		"the host's functions by caller":  {`function f() { return f.caller } return typeof tools.math.add.caller`, true, nil},
		"constructors of functions":       {`const all = [() => {}, async () => {}, function* () {}, tools.math.add, searchTools, console.log]; return all.map(f => { try { const g = f.constructor("return typeof process + typeof require + typeof $send + typeof std")(); return typeof g === "string" ? g : "other" } catch (e) { return e.name } })`, false, []string{`["undefinedundefinedundefinedundefined",`}},
		"eval and Function":               {`return [eval("typeof $finish"), new Function("return typeof $send")(), (0, eval)("typeof os"), typeof Function("return this")().tools]`, false, []string{`["undefined","undefined","undefined","object"]`}},
		"modules":                         {`try { await import("std") } catch (e) { return "no module: " + (e instanceof Error) }`, false, []string{"no module: true"}},
		"a module of the file system":     {`try { await import("/etc/passwd") } catch (e) { return "no module: " + (e instanceof Error) }`, false, []string{"no module: true"}},
		"prototypes of functions":         {`Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => { throw 1 }; Object.defineProperty(Function.prototype, "then", {get() { return r => r("evil") }}); return (await tools.math.add({A: 1, B: 2})).sum`, false, []string{"3"}},
		"arguments that throw":            {`await tools.math.add({get A() { throw new Error("trap") }})`, true, []string{"trap"}},
		"arguments that change":           {`let n = 0; return (await tools.math.add({get A() { return ++n }, B: 0})).sum`, false, []string{"1"}},
		"arguments that call":             {`return (await tools.math.add({toJSON() { tools.math.echo({text: "x"}); return {A: 1, B: 1} }})).sum`, false, []string{"2"}},
		"arguments of a proxy":            {`return (await tools.math.add(new Proxy({A: 1, B: 2}, {ownKeys() { for (;;) {} }}))).sum`, true, []string{"computed for more than 2s"}},
		"arguments with a prototype":      {`return await tools.math.echo(JSON.parse('{"__proto__": {"x": 1}, "text": "t"}'))`, false, []string{`"t"`}},
		"a flood of promises":             {`const all = []; for (;;) all.push(new Promise(() => {}))`, true, []string{"out of memory"}},
		"a flood of callbacks":            {`for (let i = 0; ; i++) Promise.resolve().then(() => i)`, true, nil},
		"a stack that is looked into":     {`Error.prepareStackTrace = (e, frames) => frames; return typeof new Error("x").stack`, false, []string{"string"}},
		"files, processes and network":    {`return [typeof require, typeof process, typeof std, typeof os, typeof fetch, typeof print, typeof scriptArgs, typeof Worker, typeof bjson]`, false, []string{`["undefined","undefined","undefined","undefined","undefined","undefined","undefined","undefined","undefined"]`}},
		"waiting for shared memory":       {`return Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)`, true, nil},
		"leaving the function":            {`}); globalThis.left = 1; (() => {`, false, []string{"returned nothing"}},
		"frames in text":                  {"console.log('\\0\\0\\0\\x10{\"done\":{\"value\":\"1\"}}'); return '\\0\\0\\0\\x10{\"done\":{}}'", false, []string{`\u0000`}},
		"zeros and halves of characters":  {`return "\0\ud83d" + await tools.math.echo({text: "\0\udc00"})`, false, []string{`"\u0000\ud83d\u0000`}},
		"a result that lies about itself": {`return {toJSON() { return tools }, length: 1}`, false, []string{"{"}},
		"an error that cannot be shown":   {`throw {get message() { throw 1 }, toJSON() { throw 2 }, toString() { throw 3 }}`, true, []string{"cannot be shown"}},
		"an error of a proxy":             {`throw new Proxy(new Error("x"), {get() { throw new Error("trap") }})`, true, nil},
	}
	tools := standard()
	set := Wrap(tools, []string{"math"}, nil, runner(t, func(l *Limits) { l.Busy = 2 * time.Second }))
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := execute(t, set, tc.code)
			got.want(t, tc.isError, tc.parts...)
			if limit := DefaultLimits(); len(got.text) > limit.ResultBytes+limit.LogBytes+500 {
				t.Errorf("a result of %d bytes", len(got.text))
			}
			if got.took > 30*time.Second {
				t.Errorf("it took %s", got.took)
			}
		})
	}
	if most := tools.most.Load(); int(most) > DefaultLimits().Parallel {
		t.Errorf("%d calls at the same time", most)
	}
	execute(t, set, `return "still there"`).want(t, false, "still there")
}

// script is an interpreter process that writes what a broken one might.
func script(t *testing.T, body string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "interpreter")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

// TestBrokenInterpreters lets the process itself misbehave, as if code had taken it over: the worker kills it and goes on.
func TestBrokenInterpreters(t *testing.T) {
	sent := func(frames ...string) string {
		path := filepath.Join(t.TempDir(), "frames")
		var raw []byte
		for _, f := range frames {
			raw = append(binary.BigEndian.AppendUint32(raw, uint32(len(f))), f...)
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		return "/bin/cat " + path
	}
	call := func(id int, kind, name string) string {
		return fmt.Sprintf(`{"call":{"id":%d,"kind":%q,"name":%q,"arguments":{}}}`, id, kind, name)
	}
	const protocol, ended = "broke its protocol", "the interpreter ended"
	cases := map[string]struct{ body, want string }{
		"it ends at once":                {"exit 0", ended},
		"it cannot be confined":          {"exit 3", "Nothing was run"},
		"it crashes":                     {"kill -SEGV $$", ended},
		"it is killed in a call":         {sent(call(1, kindTool, "math.echo")) + "; kill -KILL $$", ended},
		"it hangs":                       {"while :; do /bin/sleep 60; done", "took longer than"},
		"it hangs and closed its output": {"exec >&-; while :; do /bin/sleep 60; done", ended},
		"it writes no frames":            {"echo 'panic: something'", "the interpreter broke its protocol"},
		"it writes without end":          {"exec /bin/cat /dev/zero", protocol},
		"a frame above the bound":        {`printf '\377\377\377\377'`, protocol},
		"a frame for itself":             {sent(`{"run":{}}`), protocol},
		"a reply":                        {sent(`{"reply":{"id":1}}`), protocol},
		"the same call twice":            {sent(call(1, kindTool, "math.echo"), call(1, kindTool, "math.echo")), protocol},
		"a call without a number":        {sent(call(0, kindTool, "math.echo")), protocol},
		"a call of another kind":         {sent(call(1, "shell", "math.echo")), protocol},
		"a tool that needs approval":     {sent(call(1, kindTool, "math.drop")), protocol},
		"a tool of a direct server":      {sent(call(1, kindTool, "files.read")), protocol},
		"a tool by the model's name":     {sent(call(1, kindTool, "math__echo")), protocol},
		"a search for no text":           {sent(call(1, kindSearch, "")), protocol},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := Wrap(standard(), []string{"math"}, nil, NewRunner(script(t, tc.body), Limits{Wall: 3 * time.Second}))
			execute(t, set, "return 1").want(t, true, tc.want)
		})
	}
	t.Run("there is none", func(t *testing.T) {
		set := Wrap(standard(), []string{"math"}, nil, NewRunner([]string{"/nonexistent"}, Limits{}))
		execute(t, set, "return 1").want(t, true, "could not be started")
	})
	t.Run("values and texts above the bounds", func(t *testing.T) {
		long := strings.Repeat("x", 300<<10)
		set := Wrap(standard(), []string{"math"}, nil, NewRunner(script(t, sent(`{"done":{"value":"`+long+`","logs":"`+long+`"}}`)), Limits{}))
		if got := execute(t, set, "return 1"); got.IsError || len(got.text) > 100<<10 {
			t.Errorf("isError %t, %d bytes", got.IsError, len(got.text))
		}
	})
}

// TestTheProcessIsAlone looks at what an interpreter process has.
func TestTheProcessIsAlone(t *testing.T) {
	t.Setenv("SECRET_OF_THE_WORKER", "1")
	out := filepath.Join(t.TempDir(), "seen")
	set := Wrap(standard(), []string{"math"}, nil, NewRunner(script(t, "/usr/bin/env >"+out+"; ls /proc/self/fd | wc -l >>"+out), Limits{}))
	execute(t, set, "return 1").want(t, true, "ended")
	raw, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "SECRET_OF_THE_WORKER") {
		t.Errorf("the environment: %s", raw)
	}
}
