//go:build linux && (amd64 || arm64)

package codemode

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allowed are the system calls that the Go runtime needs to compute, to keep time and to read and write what is open
// already. All others fail as not permitted: there is nothing in the process that could open, connect, start or signal.
var allowed = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE,
	unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME,
	unix.SYS_GETTIMEOFDAY, unix.SYS_RESTART_SYSCALL, unix.SYS_GETRANDOM,
	unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_BRK,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
}

const (
	// newThread must be set in a clone's flags, and newProcess must not: a thread of this process is made, in its namespaces.
	newThread  = unix.CLONE_THREAD | unix.CLONE_VM | unix.CLONE_SIGHAND
	newProcess = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
		unix.CLONE_PTRACE | unix.CLONE_PARENT
)

// The offsets in the data that a filter sees. Arguments have 64 bits, the low half first.
const (
	numberAt   = 0
	machineAt  = 4
	argumentAt = 16
)

func argument(n uint32) uint32 { return argumentAt + 8*n }

const (
	load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	least  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	hasBit = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	mask   = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	end    = unix.BPF_RET | unix.BPF_K

	allow  = unix.SECCOMP_RET_ALLOW
	refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	// absent makes a C library use the older call, whose flags can be seen.
	absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	kill   = unix.SECCOMP_RET_KILL_PROCESS
)

func step(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

// branch goes on at once, or passes over so many steps.
func branch(code uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: code, K: k, Jt: yes, Jf: no}
}

// only adds steps that decide about one system call.
func only(program []unix.SockFilter, number uint32, steps ...unix.SockFilter) []unix.SockFilter {
	return append(append(program, branch(equal, number, 0, uint8(len(steps)))), steps...)
}

// filter is the program that decides about every system call of the process.
func filter(pid uint32) []unix.SockFilter {
	program := []unix.SockFilter{
		step(load, machineAt),
		branch(equal, machine, 1, 0),
		step(end, kill),
		step(load, numberAt),
		branch(least, foreign, 0, 1),
		step(end, kill),
	}
	for _, number := range allowed {
		program = only(program, number, step(end, allow))
	}
	for _, number := range []uint32{unix.SYS_MMAP, unix.SYS_MPROTECT} { // memory that can be run was there at the start
		program = only(program, number, step(load, argument(2)), branch(hasBit, unix.PROT_EXEC, 0, 1), step(end, refuse), step(end, allow))
	}
	program = only(program, unix.SYS_CLONE, step(load, argument(0)), step(mask, newThread|newProcess), branch(equal, newThread, 0, 1), step(end, allow), step(end, refuse))
	program = only(program, unix.SYS_CLONE3, step(end, absent))
	// The runtime interrupts its own threads.
	program = only(program, unix.SYS_TGKILL, step(load, argument(0)), branch(equal, pid, 0, 1), step(end, allow), step(end, refuse))
	return append(program, step(end, refuse))
}

// seal takes from all threads of the process, for good, every system call that computing does not need.
func seal() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up privileges: %w", err)
	}
	program := filter(uint32(unix.Getpid()))
	all := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	stray, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&all))) //nolint:gosec // for the kernel
	runtime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("refuse system calls: %w", errno)
	}
	if stray != 0 {
		return fmt.Errorf("refuse system calls: thread %d has other rules", stray)
	}
	return nil
}
