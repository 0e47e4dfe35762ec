// Command kubectl-agentloop is the kubectl plugin: with it on PATH, kubectl agentloop works with agents.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/command"
	streams "github.com/agentloop/agentloop/cmd/kubectl-agentloop/term"
	"github.com/agentloop/agentloop/pkg/tool/codemode"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == codemode.ChildArgument {
		os.Exit(codemode.Child(os.Stdin, os.Stdout))
	}
	os.Exit(run())
}

func run() int {
	signals := &interrupts{}
	ctx, stop := signals.context()
	defer stop()
	std := standard()
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	root := command.New(command.Environment{
		Streams: std, ViewerURL: os.Getenv("AGENTLOOP_VIEWER_URL"), Getenv: os.Getenv, Program: program,
		Browse: browse, Interrupts: signals.listen, Zone: time.Local,
	})
	err = root.ExecuteContext(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, command.ErrInterrupted) && errors.Is(err, context.Canceled) {
		err = cause
	}
	var exit *command.ExitError
	switch {
	case errors.As(err, &exit) && exit.Err == nil, errors.Is(err, command.ErrInterrupted):
	case err != nil:
		std.Note("%s", std.ErrPaint().As(streams.Bad, "error:")+" "+strings.TrimPrefix(err.Error(), "error: "))
	}
	return command.Code(err)
}

// standard are the process's streams. NO_COLOR, when it is not empty, and TERM=dumb switch colours off.
func standard() *streams.Streams {
	return &streams.Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal: term.IsTerminal(int(os.Stdin.Fd())), OutTerminal: term.IsTerminal(int(os.Stdout.Fd())), ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
}

// interrupts hears Ctrl-C: it ends the program, or whoever listens is told instead.
type interrupts struct {
	mu       sync.Mutex
	listener chan struct{}
}

func (i *interrupts) context() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, os.Interrupt, syscall.SIGTERM)
	go func() {
		for {
			select {
			case s := <-heard:
				if s == syscall.SIGTERM || !i.told() {
					cancel(command.ErrInterrupted)
					signal.Stop(heard) // once more ends at once
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// told tells the listener, if there is one.
func (i *interrupts) told() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.listener == nil {
		return false
	}
	select {
	case i.listener <- struct{}{}:
	default: // it has not taken the last one yet
	}
	return true
}

func (i *interrupts) listen() (<-chan struct{}, func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.listener = make(chan struct{}, 1)
	return i.listener, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.listener = nil
	}
}

// browse opens a page with the system's own means.
func browse(address string) error {
	program, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return err
	}
	opener := exec.Command(path, args...) //nolint:gosec,noctx // the system's own program, which may outlive this one
	if err := opener.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	go func() { _ = opener.Wait() }() // it may stay for as long as the browser does
	return nil
}
