//go:build linux && (amd64 || arm64)

package codemode

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const (
	probeArgument   = "codemode-probe"
	foreignArgument = "codemode-foreign"
)

func init() {
	modes[probeArgument] = func() int { return sealed(probe) }
	modes[foreignArgument] = func() int {
		return sealed(func() { _, _, _ = unix.RawSyscall(foreign+unix.SYS_GETPID, 0, 0, 0) })
	}
}

// sealed does something in a process that has given up what the interpreter process gives up.
func sealed(do func()) int {
	if err := errors.Join(confine(), confineTime(20*time.Second), seal()); err != nil {
		fmt.Fprint(os.Stderr, err)
		return exitUnconfined
	}
	do()
	return 0
}

// attempts are system calls that code would make which has taken the process over.
func attempts() map[string]func() (uintptr, uintptr, unix.Errno) {
	path, _ := unix.BytePtrFromString("/etc/passwd") // has no zero byte
	program, _ := unix.BytePtrFromString("/bin/true")
	arguments := []*byte{program, nil}
	at, run, list := uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(program)), uintptr(unsafe.Pointer(&arguments[0])) //nolint:gosec // for the kernel
	here, parent, nobody := uintptr(unix.Getpid()), uintptr(1), ^uintptr(0)
	const cwd = ^uintptr(99) // AT_FDCWD
	raw := func(number, a, b, c uintptr) func() (uintptr, uintptr, unix.Errno) {
		return func() (uintptr, uintptr, unix.Errno) { return unix.RawSyscall(number, a, b, c) }
	}
	six := func(number, a, b, c, d, e, f uintptr) func() (uintptr, uintptr, unix.Errno) {
		return func() (uintptr, uintptr, unix.Errno) { return unix.RawSyscall6(number, a, b, c, d, e, f) }
	}
	return map[string]func() (uintptr, uintptr, unix.Errno){
		"open a file":             six(unix.SYS_OPENAT, cwd, at, unix.O_RDONLY, 0, 0, 0),
		"open a file, newer":      six(unix.SYS_OPENAT2, cwd, at, 0, 0, 0, 0),
		"look at a file":          raw(unix.SYS_FACCESSAT, cwd, at, 0),
		"remove a file":           raw(unix.SYS_UNLINKAT, cwd, at, 0),
		"a socket":                raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0),
		"a pair of sockets":       six(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM, 0, at, 0, 0),
		"connect":                 raw(unix.SYS_CONNECT, 0, at, 16),
		"a pipe":                  raw(unix.SYS_PIPE2, at, 0, 0),
		"a file in memory":        raw(unix.SYS_MEMFD_CREATE, at, 0, 0),
		"another program":         raw(unix.SYS_EXECVE, run, list, 0),
		"another process":         six(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0),
		"another process, newer":  raw(unix.SYS_CLONE3, at, 88, 0),
		"a thread of its own":     six(unix.SYS_CLONE, newThread|unix.CLONE_NEWNET, 0, 0, 0, 0, 0),
		"namespaces":              raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0),
		"a signal to the parent":  raw(unix.SYS_KILL, parent, 0, 0),
		"a signal to a thread":    raw(unix.SYS_TGKILL, parent, parent, 0),
		"trace a process":         raw(unix.SYS_PTRACE, unix.PTRACE_ATTACH, parent, 0),
		"another's memory":        six(unix.SYS_PROCESS_VM_READV, parent, at, 1, at, 1, 0),
		"limits of a process":     six(unix.SYS_PRLIMIT64, here, unix.RLIMIT_CPU, 0, 0, 0, 0),
		"process attributes":      raw(unix.SYS_PRCTL, unix.PR_GET_DUMPABLE, 0, 0),
		"another filter":          raw(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, 0),
		"control of a device":     raw(unix.SYS_IOCTL, 0, unix.TIOCGWINSZ, at),
		"file control":            raw(unix.SYS_FCNTL, 0, unix.F_GETFL, 0),
		"calls in a ring":         raw(unix.SYS_IO_URING_SETUP, 1, at, 0),
		"a program in the kernel": raw(unix.SYS_BPF, 0, at, 0),
		"memory that can be run":  six(unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE, nobody, 0),
		"to run what is there":    raw(unix.SYS_MPROTECT, at&^4095, 4096, unix.PROT_READ|unix.PROT_EXEC),
		"another folder":          raw(unix.SYS_CHDIR, at, 0, 0),
		"another user":            raw(unix.SYS_SETUID, 0, 0, 0),
		"a mount":                 six(unix.SYS_MOUNT, at, at, at, 0, 0, 0),
	}
}

// probe writes what became of each attempt, after the runtime has done what it does in a long execution.
func probe() {
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() { // a thread for each
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var held [][]byte
			for range 50 {
				held = append(held, make([]byte, 256<<10))
			}
			runtime.KeepAlive(held)
			<-time.After(20 * time.Millisecond)
		})
	}
	spinning := time.AfterFunc(time.Minute, func() {})
	for begun := time.Now(); time.Since(begun) < 50*time.Millisecond; { // is interrupted by the collector
	}
	spinning.Stop()
	group.Wait()
	runtime.GC()
	results := map[string]string{}
	for name, attempt := range attempts() {
		got, _, errno := attempt()
		if name == "another process" && errno == 0 && got == 0 {
			os.Exit(5) // the other process
		}
		results[name] = "done"
		if errno != 0 {
			results[name] = unix.ErrnoName(errno)
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(results) // the test fails without it
}

// TestTheProcessIsSealed makes the system calls of an attacker in an interpreter process. None does anything.
func TestTheProcessIsSealed(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], probeArgument)
	cmd.Env = []string{}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var got map[string]string
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	want := map[string]string{}
	for name := range attempts() {
		want[name] = "EPERM"
	}
	want["another process, newer"] = "ENOSYS"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

// TestAnotherWayToCallTheKernel ends a process that uses the numbers of another architecture.
func TestAnotherWayToCallTheKernel(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], foreignArgument)
	cmd.Env = []string{}
	var exited *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exited) {
		t.Fatalf("ended with %v, want a signal", err)
	}
	if status, ok := exited.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGSYS {
		t.Errorf("ended with %v, want a signal for a bad system call", exited)
	}
}
