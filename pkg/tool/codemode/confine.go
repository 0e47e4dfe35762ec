package codemode

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// childHeap is what the process may take beyond what it has at its start, in bytes: the interpreter's objects, its
	// stack and Go's own. Far above what is used, since address space is counted here and not memory.
	childHeap = 512 << 20
	// childFiles is how many descriptors the process may open: standard input and output are, and the runtime has a few.
	childFiles = 16
)

// confine takes from the process what the interpreter does not need. It runs before any code is read.
func confine() error {
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(50)
	limits := map[int]uint64{syscall.RLIMIT_CORE: 0, syscall.RLIMIT_FSIZE: 0, syscall.RLIMIT_NOFILE: childFiles}
	if used := addressSpace(); used > 0 {
		limits[syscall.RLIMIT_AS] = used + childHeap
	}
	for resource, limit := range limits {
		if err := lower(resource, limit); err != nil {
			return err
		}
	}
	return nil
}

// confineTime bounds the processor time of the process: the last resort, should the interpreter not watch its own.
func confineTime(busy time.Duration) error {
	return lower(syscall.RLIMIT_CPU, uint64(math.Ceil(busy.Seconds()))+2)
}

// lower sets a limit for good, unless it is lower already.
func lower(resource int, limit uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return err
	}
	limit = min(limit, now.Max)
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: limit})
}

// addressSpace is the size of the process's address space in bytes; 0 where the system does not tell.
func addressSpace() uint64 {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _, _ := strings.Cut(string(raw), " ")
	n, err := strconv.ParseUint(pages, 10, 64)
	if err != nil {
		return 0
	}
	return n * uint64(os.Getpagesize())
}
