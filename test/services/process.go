// Package services runs the real servers that tests and the demo need, NATS with JetStream and S3, as processes of
// their own on loopback.
//
// Guarantees: a server that Start returned without error has answered its own protocol; Stop, Kill and Start may follow
// each other in any order and keep address and data, so that a killed server comes back as the same one; every wait is
// bounded and a server that ends early is reported with the end of its log; a server never outlives the program that
// started it on Linux. Nothing here reads flags, and only Folder reads the environment.
package services

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// readyLimit bounds a start, restores of a large store included.
	readyLimit = 60 * time.Second
	// stopLimit bounds a graceful stop; then the process is killed.
	stopLimit = 20 * time.Second
	// pollEvery is the pause between two questions to a starting server.
	pollEvery = 20 * time.Millisecond
	// logTail is how much of a server's log an error shows.
	logTail = 2000
)

// Process is one server program with a fixed address and data folder. Its methods are safe for concurrent use.
type Process struct {
	name    string
	logPath string
	command func() *exec.Cmd
	// ready asks the server once whether it answers its protocol.
	ready func(context.Context) error
	// stopLimit bounds a graceful stop; the package's limit if zero.
	stopLimit time.Duration

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// Start starts the server, again after Stop or Kill, and waits until it answers. A running server is left alone.
func (p *Process) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return nil
	}
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log of %s: %w", p.name, err)
	}
	defer log.Close()
	cmd := p.command()
	cmd.Stdout, cmd.Stderr = log, log
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the state is read from cmd.ProcessState once done is closed
		close(done)
	}()
	p.cmd, p.done = cmd, done
	if err := p.awaitReady(ctx); err != nil {
		return errors.Join(err, p.kill())
	}
	return nil
}

func (p *Process) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		err := p.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%w: %s (%s); its log ends:\n%s", errEnded, p.name, p.cmd.ProcessState, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w; its log ends:\n%s", p.name, err, p.tail())
		case <-time.After(pollEvery):
		}
	}
}

// errEnded is returned when a server ended before it answered, for example because its port was taken.
var errEnded = errors.New("server ended by itself")

// Stop asks the server to end and waits. It kills a server that does not end within its limit and says so.
func (p *Process) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return p.kill()
	}
	limit := cmp.Or(p.stopLimit, stopLimit)
	_ = p.cmd.Process.Signal(syscall.SIGCONT) // one that is paused would not hear it
	select {
	case <-p.done:
		return nil
	case <-time.After(limit):
		return errors.Join(fmt.Errorf("%s did not end within %s and was killed", p.name, limit), p.kill())
	}
}

// Kill ends the server with SIGKILL and waits until it is gone: what it had not written is lost.
func (p *Process) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kill()
}

// Pause stops the server where it stands, with its connections open, as a node that hangs does, until Resume, Stop or Kill.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on as if nothing had been.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return fmt.Errorf("%s does not run", p.name)
	}
	return p.cmd.Process.Signal(signal)
}

// Running says whether the server's process is there.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running()
}

// PID is the process id of the running server, or 0.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return 0
	}
	return p.cmd.Process.Pid
}

// LogPath is the file that has all that the server printed, over all its starts.
func (p *Process) LogPath() string { return p.logPath }

func (p *Process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *Process) kill() error {
	if !p.running() {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

func (p *Process) tail() string {
	f, err := os.Open(p.logPath)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > logTail {
		_, _ = f.Seek(-logTail, io.SeekEnd) // a whole log instead of its end is no harm
	}
	raw, _ := io.ReadAll(f)
	return string(bytes.TrimSpace(raw))
}

// portTries is how often a start picks another port when the first was taken meanwhile.
const portTries = 5

// startOnFreePort builds a process for a free loopback port and starts it.
func startOnFreePort(ctx context.Context, build func(address string) (*Process, error)) (*Process, error) {
	var last error
	for range portTries {
		address, err := freeAddress()
		if err != nil {
			return nil, err
		}
		p, err := build(address)
		if err != nil {
			return nil, err
		}
		last = p.Start(ctx)
		if last == nil {
			return p, nil
		}
		if !errors.Is(last, errEnded) {
			break
		}
	}
	return nil, last
}

// freeAddress picks a loopback address below Linux's range for outgoing connections. A port of that range could be
// taken by any client, even by one that is reconnecting to it, while its server is down.
func freeAddress() (string, error) {
	var last error
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(15000+rand.IntN(32768-15000)))
		l, err := net.Listen("tcp", address)
		if err != nil {
			last = err
			continue
		}
		return address, l.Close()
	}
	return "", fmt.Errorf("find a free port: %w", last)
}

// program finds a server's binary in the folder that hack/services/setup.sh printed.
func program(folder, name string) (string, error) {
	path, err := filepath.Abs(filepath.Join(folder, name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find %s (run `make services` and pass the folder that it prints): %w", name, err)
	}
	return path, nil
}
