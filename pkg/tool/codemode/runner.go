package codemode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// maxProcesses bounds the interpreter processes of a Runner that are alive at the same time.
const maxProcesses = 8

// reapTimeout is how long a killed process's pipes may take to close.
const reapTimeout = 2 * time.Second

// Runner starts interpreter processes. All runs of a worker share one.
type Runner struct {
	command []string
	limits  Limits
	slots   chan struct{}
}

// NewRunner returns a Runner whose processes are started with the command: a program that calls Child when its only
// argument is ChildArgument. What limits leaves open is DefaultLimits.
func NewRunner(command []string, limits Limits) *Runner {
	return &Runner{command: command, limits: limits.withDefaults(), slots: make(chan struct{}, maxProcesses)}
}

// Self is the command that starts the running program anew as an interpreter process.
func Self(program string) []string {
	if runtime.GOOS == "linux" {
		program = "/proc/self/exe" // still this program when its file was replaced
	}
	return []string{program, ChildArgument}
}

// process is one interpreter process.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	cancel context.CancelFunc
	free   func()
	once   sync.Once
	state  string
}

// start waits for a slot and starts a process, which ctx's end kills.
func (r *Runner) start(ctx context.Context) (*process, error) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	running, cancel := context.WithCancel(ctx)
	p := &process{cancel: cancel, free: func() { <-r.slots }}
	p.cmd = exec.CommandContext(running, r.command[0], r.command[1:]...) //nolint:gosec // the program itself
	p.cmd.Env = []string{}
	p.cmd.Dir = "/"
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	p.cmd.WaitDelay = reapTimeout
	var err error
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		if p.out, err = p.cmd.StdoutPipe(); err == nil {
			err = p.cmd.Start()
		}
	}
	if err != nil {
		cancel()
		p.free()
		return nil, fmt.Errorf("start the interpreter: %w", err)
	}
	return p, nil
}

// end kills what is left of the process and says how it ended.
func (p *process) end() string {
	p.once.Do(func() {
		p.cancel()
		_ = p.cmd.Wait() // the state says more
		p.free()
		p.state = p.cmd.ProcessState.String()
	})
	return p.state
}

// unconfined says that the process ended because it could not give up its rights; to be asked after end.
func (p *process) unconfined() bool { return p.cmd.ProcessState.ExitCode() == exitUnconfined }

// errEnded is returned when the interpreter process ended before its code did.
var errEnded = errors.New("the interpreter ended")
