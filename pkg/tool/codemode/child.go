package codemode

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"modernc.org/quickjs"

	"github.com/agentloop/agentloop/pkg/message"
)

// ChildArgument is the only argument of the program when it is the interpreter process.
const ChildArgument = "codemode-child"

// exitUnconfined is the exit code of a process that could not give up what it must not have. It has run nothing.
const exitUnconfined = 3

// maxArguments bounds the JSON of one call's arguments, in UTF-16 units.
const maxArguments = 128 << 10

//go:embed bootstrap.js
var bootstrap string

// Child is the whole interpreter process: it takes its limits, reads one piece of code from in, runs it and writes calls
// and the outcome to out. It returns the process's exit code. The process ends when in does.
func Child(in io.Reader, out io.Writer) int {
	if err := confine(); err != nil {
		return exitUnconfined
	}
	first, err := readFrame(in, maxToChild)
	if err != nil || first.Run == nil {
		return 2
	}
	if err := errors.Join(confineTime(first.Run.Limits.Busy), seal()); err != nil {
		return exitUnconfined
	}
	c := &child{out: out, limits: first.Run.Limits, left: first.Run.Limits.Busy, replies: make(chan replyFrame, first.Run.Limits.Calls)}
	go c.read(in)
	done := c.run(*first.Run)
	if err := writeFrame(out, frame{Done: &done}, maxFromChild); err != nil {
		return 2
	}
	return 0
}

// child is one execution, in the interpreter process.
type child struct {
	out     io.Writer
	limits  Limits
	vm      *quickjs.VM
	replies chan replyFrame
	// left is how long the interpreter may still compute.
	left time.Duration

	calls, waiting int
	logs           strings.Builder
	logBytes       int
	done           *doneFrame
	broken         error
}

// read takes replies until the host goes away, which ends the process whatever the code is doing.
func (c *child) read(in io.Reader) {
	for {
		f, err := readFrame(in, maxToChild)
		if err != nil || f.Reply == nil {
			os.Exit(4)
		}
		c.replies <- *f.Reply
	}
}

// errBusy is returned when the code has computed for too long.
var errBusy = errors.New("too long")

func (c *child) run(what runFrame) doneFrame {
	err := c.execute(what)
	if c.done == nil {
		c.done = &doneFrame{Error: c.explain(err)}
	}
	c.done.Logs, c.done.LogBytes = c.logs.String(), c.logBytes
	return *c.done
}

// explain says why the code did not come to its end.
func (c *child) explain(err error) string {
	switch {
	case errors.Is(err, errBusy):
		return fmt.Sprintf("The code was stopped: it computed for more than %s. Do less at once.", c.limits.Busy)
	case err != nil:
		return "The code was stopped: " + err.Error()
	}
	return "The code never ended: it waits for a promise that nothing settles."
}

// execute runs the code until it is done or stuck.
func (c *child) execute(what runFrame) error {
	host, err := c.prepare(what.Names)
	if err != nil {
		return err
	}
	if err := c.enter(host, "start", what.Code, c.limits.ResultBytes+1); err != nil {
		return err
	}
	for c.done == nil && c.waiting > 0 {
		reply := <-c.replies
		c.waiting--
		ok, text := reply.Error == "", string(reply.Value)
		if !ok {
			text = reply.Error
		}
		if err := c.enter(host, "settle", reply.ID, ok, text); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the interpreter with everything that code sees.
func (c *child) prepare(names []toolNames) (quickjs.Value, error) {
	vm, err := quickjs.NewVM()
	if err != nil {
		return quickjs.Value{}, err
	}
	c.vm = vm
	vm.SetMemoryLimit(uintptr(c.limits.MemoryBytes))
	for name, f := range map[string]quickjs.HostFunc{"$send": c.send, "$finish": c.finish, "$log": c.log} {
		if err := vm.RegisterHostFunc(name, f); err != nil {
			return quickjs.Value{}, err
		}
	}
	host, err := vm.EvalValue(bootstrap, quickjs.EvalGlobal)
	if err != nil {
		return host, err
	}
	if names == nil {
		names = []toolNames{}
	}
	limits := map[string]int{"logBytes": c.limits.LogBytes, "argumentBytes": maxArguments}
	return host, c.enter(host, "setUp", plain(names), limits)
}

// plain is a value as the interpreter converts it: made of maps, slices and strings.
func plain(names []toolNames) []any {
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = map[string]any{"server": n.Server, "tool": n.Tool, "refusal": n.Refusal}
	}
	return out
}

// enter calls a function of the bootstrap and then what waits to be run, within the time that is left.
func (c *child) enter(host quickjs.Value, function string, args ...any) error {
	atom, err := c.vm.NewAtom(function)
	if err != nil {
		return err
	}
	f, err := c.vm.GetPropertyValue(host, atom)
	if err != nil {
		return err
	}
	defer f.Free()
	if err := c.timed(func() error {
		_, err := f.Call(quickjs.UndefinedValue, args...)
		return err
	}); err != nil || c.done != nil {
		return err
	}
	return c.timed(func() error {
		_, err := c.vm.ExecutePendingJobs()
		return err
	})
}

// timed lets the interpreter compute and takes the time off what is left.
func (c *child) timed(work func() error) error {
	started := time.Now()
	if err := c.vm.SetEvalTimeout(c.left); err != nil {
		return err
	}
	err := work()
	c.left -= time.Since(started)
	switch {
	case c.broken != nil:
		return c.broken
	case c.done != nil:
		return nil
	case c.left <= 0:
		c.left = time.Nanosecond
		return errBusy
	}
	return err
}

// send is the host function that makes a call. It returns why the call may not be made, or "".
func (c *child) send(args []any) (any, error) {
	if len(args) != 4 {
		return nil, errors.New("wrong call")
	}
	kind, _ := args[0].(string)
	id, _ := args[1].(int)
	name, _ := args[2].(string)
	arguments, _ := args[3].(string)
	if c.calls >= c.limits.Calls {
		return fmt.Sprintf("The code made %d calls already and may make no more. Do the rest in another execution.", c.limits.Calls), nil
	}
	if !json.Valid([]byte(arguments)) { // a lone surrogate's escape is valid, so this does not happen
		return "The arguments are no JSON.", nil
	}
	c.calls++
	c.waiting++
	call := &callFrame{ID: id, Kind: kind, Name: name, Arguments: json.RawMessage(arguments)}
	if err := writeFrame(c.out, frame{Call: call}, maxFromChild); err != nil {
		c.broken = err
		c.vm.Interrupt()
	}
	return "", nil
}

// finish is the host function that ends the execution.
func (c *child) finish(args []any) (any, error) {
	if len(args) != 4 || c.done != nil {
		return nil, nil //nolint:nilnil // undefined
	}
	ok, _ := args[0].(bool)
	text, _ := args[1].(string)
	stack, _ := args[2].(string)
	number, _ := args[3].(int)
	if ok {
		cut := message.Beginning(text, c.limits.ResultBytes)
		c.done = &doneFrame{Value: cut, ValueBytes: len(cut)}
		if len(cut) < len(text) || number > len(text) {
			c.done.ValueBytes = max(number, len(text))
		}
		return nil, nil //nolint:nilnil // undefined
	}
	c.done = &doneFrame{Error: place(message.Beginning(text, 4096), stack, number)}
	return nil, nil //nolint:nilnil // undefined
}

// log is the host function behind console.
func (c *child) log(args []any) (any, error) {
	text, _ := args[0].(string)
	c.logBytes += len(text) + 1
	if room := c.limits.LogBytes - c.logs.Len(); room > 0 {
		c.logs.WriteString(message.Beginning(text+"\n", room))
	}
	return nil, nil //nolint:nilnil // undefined
}

// preamble is how many lines the interpreter puts before the code that it makes a function of.
const preamble = 2

// position is a place in the model's code within a stack trace.
var position = regexp.MustCompile(`<(?:input|anonymous|evalScript)>:(\d+)(?::(\d+))?`)

// place adds to an error where in the code it happened.
func place(text, stack string, line int) string {
	if text == "null" { // the interpreter throws it when not even an error can be made any more
		return "null was thrown: the code ran out of memory, if it did not throw it itself"
	}
	if line > preamble {
		return fmt.Sprintf("%s (line %d)", text, line-preamble)
	}
	for _, match := range position.FindAllStringSubmatch(stack, -1) {
		if n, err := strconv.Atoi(match[1]); err == nil && n > preamble {
			return fmt.Sprintf("%s (line %d)", text, n-preamble)
		}
	}
	return text
}
